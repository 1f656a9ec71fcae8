//! The worth of a reserve to other clients, beside other neighbours, than in the worth grid: few
//! requests outstanding, bursts, long and sequential neighbours, best effort, three and twenty
//! volumes.
//!
//! Each figure is the worst over think times and seeds. The disk has default settings; what a
//! client would have alone is measured one command at a time, in the order of arrival.

use core::fmt::Write as _;

use config::{Plan, VolumeIndex};
use sim::worth::{Measured, alone_in_order, measure};
use units::{Duration, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};

pub(super) const WORTH_CLIENTS: Experiment = Experiment {
    id: "worth-clients",
    title: "the worth of a reserve to clients with several requests outstanding, in bursts, beside \
            long, sequential and best-effort neighbours, and of many small reserves",
    run: clients,
};

/// The drives, with the size that the volumes share.
const DRIVES: [(&str, u64); 2] = [("hgst-7k8", 7_400), ("nearline-20t", 18_600)];
const SEEDS: u32 = 3;
const DURATION: Duration = Duration::from_secs(60);
const WARM_UP: Duration = Duration::from_secs(5);
const COLUMNS: [&str; 8] = [
    "reserve_percent",
    "think_ms",
    "seed",
    "worth_first",
    "worth_second",
    "p99_first_ms",
    "reference_p99_first_ms",
    "efficiency",
];
const RANDOM_4K: &str = "access = \"random\"\nblock = \"4KiB\"\n";
const BACKLOG: &str = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 16\n";
const LONG: &str = "access = \"random\"\nblock = \"1MiB\"\noutstanding = 8\n";
const SEQUENTIAL: &str = "access = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4\n";

/// The bound of the 99th percentile of the first volume's latencies.
#[derive(Clone, Copy)]
enum Tail {
    /// In milliseconds.
    Most(f64),
    /// In 99th percentiles of the same client alone on the slowed drive, after this many
    /// milliseconds.
    OfReference(f64, f64),
    /// None is wanted.
    Told,
}

/// The volumes beside the first.
#[derive(Clone, Copy)]
enum Beside {
    /// One, with the rest of the disk.
    Rest(&'static str),
    /// One without a reserve.
    BestEffort(&'static str),
    /// A backlog, and another with the first one's reserve whose client thinks for 0.1 ms.
    BacklogAndAnother,
    /// Nineteen like the first.
    Alike,
}

/// What is wanted with one reserve of the first volume: the least worth of the first and of the
/// second volume, the tail, and the least efficiency.
struct Wanted {
    reserve_percent: u32,
    worth: (f64, Option<f64>),
    tail: Tail,
    efficiency: Option<f64>,
}

struct Setting {
    name: &'static str,
    /// Requests of the first volume: `outstanding` or `burst`, and how many.
    requests: (&'static str, u32),
    thinks_us: &'static [u64],
    beside: Beside,
    wanted: Vec<Wanted>,
}

const FIRST: &str = "least worth to the first client";
const SECOND: &str = "least worth to the second client";
const TAIL: &str = "p99 of the first client";
const EFFICIENCY: &str = "least efficiency";

fn few(tail: Tail) -> impl Fn(u32) -> Wanted {
    move |reserve_percent| {
        let least = if reserve_percent == 10 { 0.80 } else { 0.83 };
        Wanted { reserve_percent, worth: (least, Some(0.86)), tail, efficiency: Some(0.72) }
    }
}

fn long(reserve_percent: u32) -> Wanted {
    let tail = if reserve_percent == 50 { Tail::Most(150.0) } else { Tail::Told };
    Wanted { reserve_percent, worth: (0.74, Some(0.85)), tail, efficiency: Some(0.65) }
}

fn sequential(reserve_percent: u32) -> Wanted {
    let (first, second, most, efficiency) = match reserve_percent {
        0..=20 => (0.60, 0.87, 400.0, 0.80),
        21..=50 => (0.66, 0.80, 220.0, 0.54),
        _ => (0.66, 0.65, 220.0, 0.54),
    };
    let (worth, efficiency) = ((first, Some(second)), Some(efficiency));
    Wanted { reserve_percent, worth, tail: Tail::Most(most), efficiency }
}

fn best_effort(reserve_percent: u32) -> Wanted {
    let tail = Tail::Most(if reserve_percent == 50 { 210.0 } else { 280.0 });
    Wanted { reserve_percent, worth: (0.72, None), tail, efficiency: Some(0.58) }
}

fn three(reserve_percent: u32) -> Wanted {
    let tail = Tail::Most(if reserve_percent == 25 { 170.0 } else { 260.0 });
    Wanted { reserve_percent, worth: (0.70, Some(0.86)), tail, efficiency: None }
}

fn twenty(reserve_percent: u32) -> Wanted {
    Wanted { reserve_percent, worth: (0.70, None), tail: Tail::Told, efficiency: None }
}

fn settings() -> Vec<Setting> {
    let each = |wanted: &dyn Fn(u32) -> Wanted, reserves: &[u32]| {
        reserves.iter().map(|reserve| wanted(*reserve)).collect::<Vec<_>>()
    };
    let all = [10, 20, 50, 70];
    let thinks: &[u64] = &[100, 1_000, 5_000, 10_000, 20_000, 50_000];
    let of = |name, requests, beside, wanted| Setting {
        name,
        requests,
        thinks_us: thinks,
        beside,
        wanted,
    };
    let one = ("outstanding", 1);
    vec![
        of(
            "2 outstanding",
            ("outstanding", 2),
            Beside::Rest(BACKLOG),
            each(&few(Tail::OfReference(2.0, 60.0)), &all),
        ),
        of(
            "4 outstanding",
            ("outstanding", 4),
            Beside::Rest(BACKLOG),
            each(&few(Tail::OfReference(1.6, 0.0)), &all),
        ),
        Setting {
            thinks_us: &[100_000],
            ..of(
                "bursts of 8",
                ("burst", 8),
                Beside::Rest(BACKLOG),
                each(&few(Tail::OfReference(1.6, 0.0)), &all),
            )
        },
        of("beside 1 MiB", one, Beside::Rest(LONG), each(&long, &all)),
        of("beside sequential 1 MiB", one, Beside::Rest(SEQUENTIAL), each(&sequential, &all)),
        of("beside best effort", one, Beside::BestEffort(BACKLOG), each(&best_effort, &all)),
        of("three volumes", one, Beside::BacklogAndAnother, each(&three, &[10, 25])),
        Setting {
            thinks_us: &[100, 1_000, 5_000, 20_000],
            ..of("twenty volumes", one, Beside::Alike, each(&twenty, &[5]))
        },
    ]
}

fn clients(told: &mut dyn FnMut(f64)) -> Findings {
    let settings = settings();
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    let total = DRIVES.len() * settings.len();
    for (drive, size_gib) in DRIVES {
        for setting in &settings {
            let name = format!("{drive}-{}", setting.name.replace(' ', "-"));
            let mut series = Series::new(name, &COLUMNS);
            for wanted in &setting.wanted {
                let rows = rows((drive, size_gib), setting, wanted.reserve_percent);
                findings.checks.extend(checks(drive, setting, wanted, &rows));
                series.rows.extend(rows);
            }
            findings.series.push(series);
            #[expect(clippy::cast_precision_loss, reason = "some tens")]
            told(findings.series.len() as f64 / total as f64);
        }
    }
    findings
}

/// The reserve and the requests of each volume.
fn volumes(setting: &Setting, reserve: u32, think_us: u64) -> Vec<(u32, String)> {
    let (kind, count) = setting.requests;
    let think = |micros| format!("think = {{ exponential = \"{micros}us\" }}\n");
    let first = (reserve, format!("{RANDOM_4K}{kind} = {count}\n{}", think(think_us)));
    match setting.beside {
        Beside::Rest(load) => vec![first, (100 - reserve, load.to_owned())],
        Beside::BestEffort(load) => vec![first, (0, load.to_owned())],
        Beside::BacklogAndAnother => {
            let another = (reserve, format!("{RANDOM_4K}outstanding = 1\n{}", think(100)));
            vec![first, (100 - 2 * reserve, BACKLOG.to_owned()), another]
        }
        Beside::Alike => vec![first; 20],
    }
}

fn plan((drive, size_gib): (&str, u64), volumes: &[(u32, String)], seed: u32) -> Plan {
    let size = size_gib / volumes.len() as u64;
    let mut text = format!(
        "seed = {seed}\n[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\npolicy = \"spindle\"\n"
    );
    for (index, (reserve, load)) in volumes.iter().enumerate() {
        let reserve =
            if *reserve > 0 { format!("reserve = \"{reserve}%\"\n") } else { String::new() };
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d0\"\nsize = \"{size}GiB\"\n{reserve}\
             [[workload]]\nvolume = \"v{index}\"\nop = \"read\"\n{load}"
        )
        .expect("a string takes all");
    }
    let parsed = Plan::parse(&text, "worth-clients.toml", std::path::Path::new("."));
    let mut plan = parsed.expect("a sound scenario");
    plan.duration = Some(DURATION);
    plan
}

/// A row for each think time and seed.
fn rows(drive: (&str, u64), setting: &Setting, reserve: u32) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    for think_us in setting.thinks_us {
        for seed in 1..=SEEDS {
            let volumes = volumes(setting, reserve, *think_us);
            let plan = plan(drive, &volumes, seed);
            let shared = measure(&plan, WARM_UP);
            let at = |index: usize, percent: u32| -> Measured {
                let share = Share::from_percent(percent);
                measure(&alone_in_order(&plan, VolumeIndex(index), share), WARM_UP)[index]
            };
            let worth = |index: usize| match volumes[index].0 {
                0 => 0.0,
                percent => shared[index].rate / at(index, percent).rate,
            };
            // Volumes that are alike are each worth at least the figure.
            let is_first = |index: &usize| volumes[*index].1 == volumes[0].1 || *index != 1;
            let firsts = (0..volumes.len()).filter(is_first).map(worth);
            let first = firsts.fold(f64::INFINITY, f64::min);
            let p99 = match setting.beside {
                Beside::Alike => shared.iter().map(|one| one.latency_ms.p99).fold(0.0, f64::max),
                _ => shared[0].latency_ms.p99,
            };
            let pauses = matches!(setting.beside, Beside::Alike | Beside::BacklogAndAnother);
            let efficiency = if pauses { 0.0 } else { efficiency(&plan, &volumes, &shared) };
            #[expect(clippy::cast_precision_loss, reason = "at most 100 ms")]
            let think_ms = *think_us as f64 / 1e3;
            rows.push(vec![
                reserve.into(),
                think_ms,
                seed.into(),
                first,
                worth(1),
                p99,
                at(0, reserve).latency_ms.p99,
                efficiency,
            ]);
        }
    }
    rows
}

/// The sum of each volume's rate ÷ its rate alone without pauses.
fn efficiency(plan: &Plan, volumes: &[(u32, String)], shared: &[Measured]) -> f64 {
    let mut backlogged = plan.clone();
    for workload in &mut backlogged.workloads {
        if let config::Requests::Synthetic(drawn) = &mut workload.requests
            && let config::Arrival::Closed { think, .. } | config::Arrival::Bursts { think, .. } =
                &mut drawn.arrival
        {
            *think = config::ThinkTime::NONE;
        }
    }
    let part = |index: usize| {
        let alone = alone_in_order(&backlogged, VolumeIndex(index), Share::ALL);
        shared[index].rate / measure(&alone, WARM_UP)[index].rate
    };
    (0..volumes.len()).map(part).sum()
}

fn checks(drive: &str, setting: &Setting, wanted: &Wanted, rows: &[Vec<f64>]) -> Vec<Check> {
    let least = |column: usize| rows.iter().map(|row| row[column]).fold(f64::INFINITY, f64::min);
    let most = |of: &dyn Fn(&Vec<f64>) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    let name =
        |figure: &str| format!("{drive}: {}, {} %: {figure}", setting.name, wanted.reserve_percent);
    let at_least = |figure: &'static str, column: usize, bound: f64| {
        Check::at_least(name(figure), least(column), bound, "ratio")
    };
    let mut checks = vec![at_least(FIRST, 3, wanted.worth.0)];
    checks.extend(wanted.worth.1.map(|bound| at_least(SECOND, 4, bound)));
    checks.extend(wanted.efficiency.map(|bound| at_least(EFFICIENCY, 7, bound)));
    checks.push(match wanted.tail {
        Tail::Most(bound) => Check::at_most(name(TAIL), most(&|row| row[5]), bound, "ms"),
        Tail::OfReference(bound, after_ms) => {
            let ratio = most(&|row| (row[5] - after_ms).max(0.0) / row[6]);
            Check::at_most(name(TAIL), ratio, bound, "of the slowed drive's")
        }
        Tail::Told => Check::unbounded(name(TAIL), most(&|row| row[5]), "ms", "no bound is wanted"),
    });
    checks
}
