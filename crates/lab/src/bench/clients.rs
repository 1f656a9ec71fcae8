//! `spindle-lab bench clients`: what reserves are worth to clients that wait for each answer, live,
//! with fio over NBD.
//!
//! Each client runs three times: alone on the drive slowed to its reserve (the reference of its
//! worth), its neighbour alone on the whole drive, and both together.

use std::path::Path;

use config::{Plan, VolumeIndex};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::{SCHEMA, VolumeReport};
use units::{Duration, Share};

use super::live::{self, Job, Live, pause};
use crate::args;

const CLIENT: usize = 0;
const NEIGHBOUR: usize = 1;
/// Excluded at the start of a run: full buckets allow up to one period's disk time at once.
const RAMP_SECONDS: u64 = 4;
/// fio runs this much longer than the measured interval.
const TAIL_SECONDS: u64 = 1;
/// fio's option for a flush after each write: its NBD engine has no `fdatasync`.
const FLUSHES: &[&str] = &["--fsync=1"];

/// A load of fio: its pattern, the size of its requests, their number outstanding, and options.
#[derive(Clone, Copy)]
struct Load {
    rw: &'static str,
    block: (&'static str, f64),
    depth: u32,
    more: &'static [&'static str],
}

const SINGLE: Load = Load { rw: "randread", block: ("4k", 4_096.0), depth: 1, more: &[] };
const BACKLOG: Load = Load { depth: 16, ..SINGLE };
const DATABASE: Load = Load { rw: "randwrite", more: FLUSHES, ..SINGLE };
const LOG: Load = Load { rw: "write", ..DATABASE };
const BACKUP: Load = Load { rw: "read", block: ("1m", 1_048_576.0), depth: 4, more: &[] };
const WRITES: Load = Load { rw: "randwrite", ..BACKLOG };
/// Writes the same 2 GiB again and again: the disk is memory, and to have more of it takes time.
const IMPORT: Load = Load { rw: "write", more: &["--size=2g"], ..BACKUP };

/// A client beside a neighbour that has the rest of the disk, and what is wanted of both.
struct Setting {
    name: &'static str,
    client: Load,
    reserve_percent: u32,
    /// The sizes of the two volumes, in GiB.
    sizes_gib: (u32, u32),
    neighbour: Load,
    /// The least rate of the client, a second, and the least worth.
    rate_min: f64,
    worth_min: f64,
    /// The least part of its share of what it gets alone that the neighbour has.
    neighbour_min: f64,
    /// The least rate of the neighbour, a second.
    neighbour_rate_min: f64,
    /// The most that the 99th percentile of the client's flushes may be.
    flush_p99_max_ms: Option<f64>,
}

const COMMITS: Setting = Setting {
    name: "random writes with a flush each, beside a backup",
    client: DATABASE,
    reserve_percent: 30,
    sizes_gib: (1, 500),
    neighbour: BACKUP,
    rate_min: 45.0,
    worth_min: 0.7,
    neighbour_min: 0.9,
    neighbour_rate_min: 0.0,
    flush_p99_max_ms: Some(120.0),
};

const SETTINGS: [Setting; 5] = [
    Setting {
        name: "random reads beside 16 random reads",
        client: SINGLE,
        reserve_percent: 50,
        sizes_gib: (3_700, 3_700),
        neighbour: BACKLOG,
        rate_min: 44.0,
        worth_min: 0.8,
        neighbour_min: 0.85,
        neighbour_rate_min: 46.0,
        flush_p99_max_ms: None,
    },
    COMMITS,
    Setting {
        name: "the same, beside 16 random writes",
        neighbour: WRITES,
        neighbour_min: 0.85,
        ..COMMITS
    },
    Setting {
        name: "the same, beside writes of 1 MiB in order",
        neighbour: IMPORT,
        neighbour_min: 0.85,
        ..COMMITS
    },
    Setting {
        name: "a log with a flush after each write, beside a backup",
        client: LOG,
        reserve_percent: 30,
        sizes_gib: (1, 500),
        neighbour: BACKUP,
        rate_min: 30.0,
        worth_min: 0.8,
        neighbour_min: 0.85,
        neighbour_rate_min: 0.0,
        flush_p99_max_ms: None,
    },
];

/// One client beside its neighbour.
#[derive(Debug, Serialize)]
struct Row {
    client: &'static str,
    reserve: f64,
    /// Reads, or writes with their flushes, a second.
    rate: f64,
    rate_min: f64,
    /// The rate of the same client alone on the drive slowed to its reserve.
    reference_rate: f64,
    worth: f64,
    worth_min: f64,
    p99_ms: f64,
    reference_p99_ms: f64,
    /// The 99th percentile of the client's flushes, as the client measures it from its start on.
    #[serde(skip_serializing_if = "Option::is_none")]
    flush_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flush_p99_max_ms: Option<f64>,
    neighbour_rate: f64,
    neighbour_rate_min: f64,
    neighbour_alone_rate: f64,
    /// The neighbour's rate ÷ (its share × its rate alone).
    neighbour_kept: f64,
    neighbour_min: f64,
    lateness_us: LatenessUs,
    load_average: Option<f64>,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Clients {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    holds: bool,
}

pub(crate) fn clients(args: &args::Clients, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let rows = SETTINGS.iter().map(|setting| {
        eprintln!("{}", setting.name);
        row(setting, args.seconds)
    });
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
    let holds = rows.iter().all(|row| row.holds);
    let clients = Clients { schema: SCHEMA, seconds: args.seconds, rows, holds };
    if json {
        println!("{}", serde_json::to_string(&clients)?);
    } else {
        print(&clients);
    }
    Ok(holds.into())
}

fn plan(setting: &Setting) -> anyhow::Result<Plan> {
    let rest = 100 - setting.reserve_percent;
    let (client, neighbour) = setting.sizes_gib;
    let text = format!(
        "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\nbacking = \"ram\"\n\
         [[volume]]\nname = \"client\"\ndisk = \"d0\"\nsize = \"{client}GiB\"\n\
         reserve = \"{}%\"\n\
         [[volume]]\nname = \"neighbour\"\ndisk = \"d0\"\nsize = \"{neighbour}GiB\"\n\
         reserve = \"{rest}%\"\n",
        setting.reserve_percent
    );
    Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)
}

fn row(setting: &Setting, seconds: u64) -> anyhow::Result<Row> {
    let plan = plan(setting)?;
    let reserve = Share::from_percent(setting.reserve_percent);
    let loads = [(CLIENT, setting.client), (NEIGHBOUR, setting.neighbour)];
    let alone = |index: usize, share: Share| {
        let plan = sim::worth::alone(&plan, VolumeIndex(index), share);
        measure(&plan, &loads[index..=index], seconds)
    };
    let Measured { reports: reference, .. } = alone(CLIENT, reserve)?;
    let Measured { reports: whole, .. } = alone(NEIGHBOUR, Share::ALL)?;
    let Measured { reports: shared, flush_p99_ms, lateness_us } = measure(&plan, &loads, seconds)?;
    let rate = |reports: &[VolumeReport], index: usize| {
        reports[index].bytes_per_s / loads[index].1.block.1
    };
    let (own, reference_rate) = (rate(&shared, CLIENT), rate(&reference, CLIENT));
    let (neighbour_rate, neighbour_alone_rate) =
        (rate(&shared, NEIGHBOUR), rate(&whole, NEIGHBOUR));
    let rest = 1.0 - reserve.as_f64();
    let (worth, kept) = (own / reference_rate, neighbour_rate / (rest * neighbour_alone_rate));
    let Setting { flush_p99_max_ms, .. } = *setting;
    let flushes_hold = flush_p99_max_ms.is_none_or(|max| flush_p99_ms.is_some_and(|ms| ms <= max));
    // A NaN ratio (0 ÷ 0) fails.
    let holds = own >= setting.rate_min
        && worth >= setting.worth_min
        && kept >= setting.neighbour_min
        && neighbour_rate >= setting.neighbour_rate_min
        && flushes_hold;
    Ok(Row {
        client: setting.name,
        reserve: reserve.as_f64(),
        rate: own,
        rate_min: setting.rate_min,
        reference_rate,
        worth,
        worth_min: setting.worth_min,
        p99_ms: shared[CLIENT].latency_ms.p99,
        reference_p99_ms: reference[CLIENT].latency_ms.p99,
        flush_p99_ms,
        flush_p99_max_ms,
        neighbour_rate,
        neighbour_rate_min: setting.neighbour_rate_min,
        neighbour_alone_rate,
        neighbour_kept: kept,
        neighbour_min: setting.neighbour_min,
        lateness_us,
        load_average: live::load_average(),
        holds,
    })
}

/// A run of some of the loads.
struct Measured {
    reports: Vec<VolumeReport>,
    /// The 99th percentile of the flushes of the first load.
    flush_p99_ms: Option<f64>,
    lateness_us: LatenessUs,
}

/// Serves the plan, runs fio's loads of these volumes, and measures between ramp and tail.
fn measure(plan: &Plan, loads: &[(usize, Load)], seconds: u64) -> anyhow::Result<Measured> {
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let job = |(volume, load): &(usize, Load)| Job {
        block: load.block.0,
        depth: load.depth,
        more: load.more,
        ..Job::new(*volume, load.rw, length)
    };
    let live = Live::start(plan, &loads.iter().map(job).collect::<Vec<_>>())?;
    pause(Duration::from_secs(RAMP_SECONDS));
    let first = live.status();
    pause(Duration::from_secs(seconds));
    let last = live.status();
    let (end, flush_p99_ms) = live.end_with_flushes()?;
    let elapsed = last.disks[0].at.since(first.disks[0].at);
    let volumes = last.volumes.iter().zip(&first.volumes);
    let reports = volumes.map(|(last, first)| last.report_since(Some(first), elapsed));
    Ok(Measured { reports: reports.collect(), flush_p99_ms, lateness_us: LatenessUs::of(&end) })
}

fn print(clients: &Clients) {
    let head = [
        "client",
        "reserve",
        "rate",
        "wanted",
        "reference",
        "worth",
        "wanted",
        "p99 ms",
        "reference",
        "flush p99 ms",
        "wanted",
        "neighbour",
        "alone",
        "÷ share of it",
        "wanted",
        "",
    ];
    let shown = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.0}"));
    let row = |row: &Row| {
        vec![
            row.client.to_owned(),
            format!("{:.0} %", row.reserve * 100.0),
            format!("{:.1}/s", row.rate),
            format!("{:.0}/s", row.rate_min),
            format!("{:.1}/s", row.reference_rate),
            format!("{:.2}", row.worth),
            format!("{:.2}", row.worth_min),
            format!("{:.0}", row.p99_ms),
            format!("{:.0}", row.reference_p99_ms),
            shown(row.flush_p99_ms),
            shown(row.flush_p99_max_ms),
            format!("{:.1}/s", row.neighbour_rate),
            format!("{:.1}/s", row.neighbour_alone_rate),
            format!("{:.2}", row.neighbour_kept),
            format!("{:.2}", row.neighbour_min),
            if row.holds { "holds" } else { "MISSED" }.into(),
        ]
    };
    print!("{}", table::text(&head, &clients.rows.iter().map(row).collect::<Vec<_>>()));
    for row in &clients.rows {
        print!("{}: ", row.client);
        live::print_machine(&row.lateness_us, row.load_average);
    }
}
