//! `spindle-lab bench connections`: 256 connections to 64 volumes on four disks. Each volume must
//! receive its reserved share.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Instant};

use super::live::{self, Job, Live};
use crate::args;

const DISKS: usize = 4;
/// The reserves of the volumes of one disk: four volumes per value, 100 % in total.
const RESERVES_PERCENT: [u32; 16] = [3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7, 10, 10, 10, 10];
/// Connections per volume.
const CONNECTIONS: usize = 4;
/// Requests outstanding per connection.
const DEPTH: u32 = 8;
/// fio's pattern and block size for the four volumes of one reserve.
const PATTERNS: [(&str, &str); 4] =
    [("randread", "4k"), ("read", "4k"), ("randread", "64k"), ("randrw", "4k")];
/// Excluded at the start of a run: 256 clients need some seconds to start.
const RAMP_SECONDS: u64 = 8;
const TAIL_SECONDS: u64 = 2;
const SAMPLE: Duration = Duration::from_secs(1);
/// The number of samples in a window.
const WINDOW: usize = 5;
const SHARE_ERROR_MAX_POINTS: f64 = 2.0;

/// The four volumes of one disk that have the same reserve.
#[derive(Debug, Serialize)]
struct Row {
    disk: String,
    reserve: f64,
    least_share: f64,
    most_share: f64,
    worst_share_error_points: f64,
    /// The worst error in any window of 5 s.
    worst_window_error_points: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    connections: usize,
    volumes: usize,
    disks: usize,
    iops: f64,
    rows: Vec<Row>,
    worst_share_error_points: f64,
    worst_window_error_points: f64,
    lateness_us: LatenessUs,
    /// The machine's load average over one minute: what else ran during the measurement.
    load_average: Option<f64>,
    holds: bool,
}

/// The config as TOML.
fn plan() -> String {
    let mut text = String::new();
    for disk in 0..DISKS {
        let _ = writeln!(text, "[[disk]]\nname = \"d{disk}\"\ndrive = \"deskstar-34gxp\"");
        let _ = writeln!(text, "backing = \"ram\"\npolicy = \"utilization\"\n");
        for (number, reserve) in RESERVES_PERCENT.iter().enumerate() {
            let _ = writeln!(text, "[[volume]]\nname = \"d{disk}v{number}\"\ndisk = \"d{disk}\"");
            let _ = writeln!(text, "size = \"1GiB\"\nreserve = \"{reserve}%\"\n");
        }
    }
    text
}

pub(crate) fn connections(args: &args::Connections, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let plan = Plan::parse(&plan(), "the bench's config", Path::new(".")).map_err(bad_input)?;
    let length = RAMP_SECONDS + args.seconds + TAIL_SECONDS;
    let volumes = 0..plan.volumes.len();
    let jobs = volumes.flat_map(|volume| {
        let (rw, block) = PATTERNS[volume % PATTERNS.len()];
        let job = Job { block, depth: DEPTH, ..Job::new(volume, rw, length) };
        core::iter::repeat_n(job, CONNECTIONS)
    });
    let jobs: Vec<Job> = jobs.collect();
    eprintln!("{} connections to {} volumes on {DISKS} disks", jobs.len(), plan.volumes.len());
    let live = Live::start(&plan, &jobs)?;
    live::pause(Duration::from_secs(RAMP_SECONDS));
    let samples = live.watch(SAMPLE, Duration::from_secs(args.seconds));
    let load_average = live::load_average();
    let end = live.end()?;
    let shares = |from: usize, to: usize| shares(&samples, from, to);
    let (whole, iops) = shares(0, samples.len() - 1);
    let windows: Vec<_> = (WINDOW..samples.len()).map(|to| shares(to - WINDOW, to).0).collect();
    let rows = rows(&plan, &whole, &windows);
    let worst = |of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    let shown = Shown {
        schema: SCHEMA,
        seconds: args.seconds,
        connections: jobs.len(),
        volumes: plan.volumes.len(),
        disks: DISKS,
        iops,
        worst_share_error_points: worst(|row| row.worst_share_error_points),
        worst_window_error_points: worst(|row| row.worst_window_error_points),
        lateness_us: LatenessUs::of(&end),
        load_average,
        holds: rows.iter().all(|row| row.holds),
        rows,
    };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(shown.holds.into())
}

/// Every volume's share between two samples, and the total IOPS.
fn shares(samples: &[(Instant, daemon::Status)], from: usize, to: usize) -> (Vec<f64>, f64) {
    let ((start, first), (end, last)) = (&samples[from], &samples[to]);
    let elapsed = end.since(*start);
    let reports = last.volumes.iter().zip(&first.volumes);
    let reports: Vec<_> =
        reports.map(|(last, first)| last.report_since(Some(first), elapsed)).collect();
    let iops = reports.iter().map(|report| report.iops).sum();
    (reports.iter().map(|report| report.disk_time_share).collect(), iops)
}

fn rows(plan: &Plan, whole: &[f64], windows: &[Vec<f64>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for disk in 0..DISKS {
        for first in (0..RESERVES_PERCENT.len()).step_by(4) {
            let volumes = disk * RESERVES_PERCENT.len() + first;
            let volumes = volumes..volumes + 4;
            let reserve = f64::from(RESERVES_PERCENT[first]) / 100.0;
            let worst = |shares: &[f64]| {
                let off = shares[volumes.clone()].iter().map(|share| (share - reserve).abs());
                off.fold(0.0, f64::max) * 100.0
            };
            let error = worst(whole);
            rows.push(Row {
                disk: plan.disks[disk].name.clone(),
                reserve,
                least_share: whole[volumes.clone()].iter().copied().fold(1.0, f64::min),
                most_share: whole[volumes.clone()].iter().copied().fold(0.0, f64::max),
                worst_share_error_points: error,
                worst_window_error_points: windows.iter().map(|w| worst(w)).fold(0.0, f64::max),
                holds: error <= SHARE_ERROR_MAX_POINTS,
            });
        }
    }
    rows
}

fn print(shown: &Shown) {
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let points = |points: f64| format!("{points:.2} points");
    let row = |row: &Row| {
        vec![
            row.disk.clone(),
            format!("{:.0} %", row.reserve * 100.0),
            percent(row.least_share),
            percent(row.most_share),
            points(row.worst_share_error_points),
            points(row.worst_window_error_points),
            if row.holds { "holds" } else { "MISSED" }.into(),
        ]
    };
    let head = ["disk", "4 of", "least", "most", "error", "worst 5 s", ""];
    print!("{}", table::text(&head, &shown.rows.iter().map(row).collect::<Vec<_>>()));
    println!(
        "{} connections to {} volumes, {:.0} requests per second: worst error {:.2} points \
         (at most {SHARE_ERROR_MAX_POINTS}), in any 5 s {:.2}",
        shown.connections,
        shown.volumes,
        shown.iops,
        shown.worst_share_error_points,
        shown.worst_window_error_points
    );
    live::print_machine(&shown.lateness_us, shown.load_average);
}
