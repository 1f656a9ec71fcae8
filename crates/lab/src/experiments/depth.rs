//! What a disk gives with the default settings, with shares kept, beside the bare drive: the order
//! of requests is predicted from the drive's file, or is that of a drive without a profile.
//!
//! The seeks of each drive vary by 0.1 ms, so that predictions of arrivals have that noise.
//!
//! Every figure is the worst over the seeds. *Alone* is a volume's rate without the others on the
//! bare drive: `fcfs` with 32 commands in it. Windows begin at any time, and the disk time of a
//! command counts as it passes.

use core::fmt::Write as _;
use std::sync::Arc;

use config::{Plan, VolumeIndex};
use drive::AnyModel;
use sim::Simulation;
use sim::worth::{alone, alone_in_order, measure};
use units::{Duration, Instant, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::interleaved;
use super::sample::{as_it_passes, bare, mechanical, most_missing};

pub(super) const DEPTH: Experiment = Experiment {
    id: "depth",
    title: "shares and throughput with the drive's own queue, beside the bare drive, on three \
            drives",
    run: depth,
};

/// The drives, with the size that the volumes share, and the depth of a queue that is put in.
const DRIVES: [(&str, u64, Option<u32>); 3] =
    [("hgst-7k8", 7_400, None), ("nearline-20t", 18_600, None), ("cheetah9LP", 8, Some(64))];
const SEEDS: u32 = 5;
const DURATION: Duration = Duration::from_secs(120);
const WARM_UP: Duration = Duration::from_secs(10);
/// The length of the windows in which shares are looked at; one begins with each sample.
const WINDOW: Duration = Duration::from_secs(2);
const SAMPLE: Duration = Duration::from_millis(2);
/// The standard deviation of seek times.
const VARIATION: Duration = Duration::from_micros(100);
const RANDOM: &str = "outstanding = 32\n";
const PAUSING: &str = "outstanding = 1\nthink = { exponential = \"100us\" }\n";
const COLUMNS: [&str; 8] = [
    "drive",
    "seed",
    "rate_first",
    "rate_second",
    "kept_first",
    "kept_second",
    "sum_of_bare",
    "window_points",
];

/// How the requests of a volume are ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By predictions from the drive's file.
    Predicted,
    /// As on a drive that was not measured: by address, and by the drive's own queue.
    NoProfile,
}

impl Order {
    const fn key(self) -> &'static str {
        match self {
            Self::Predicted => "chooser = \"predicted\"\n",
            Self::NoProfile => "chooser = \"sweep\"\n",
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Predicted => "",
            Self::NoProfile => ", no profile",
        }
    }
}

/// A load: the reserve in percent and the requests of each volume, and what is wanted.
struct Load {
    name: &'static str,
    order: Order,
    volumes: &'static [(u32, &'static str)],
    /// The least rate ÷ (share × alone) of each volume.
    kept: &'static [f64],
    /// The least sum of rate ÷ alone, relative to the bare drive's on the same load.
    sum: Option<f64>,
    /// The most that a share misses in a window, in points.
    window: Option<f64>,
}

const fn one(name: &'static str, order: Order, only: &'static Only) -> Load {
    Load { name, order, volumes: &only.0, kept: &only.1, sum: None, window: None }
}

/// The only volume of a disk, and the least that it is to keep.
struct Only([(u32, &'static str); 1], [f64; 1]);

const ONE_32: Only = Only([(100, RANDOM)], [0.97]);
const ONE_64: Only = Only([(100, "outstanding = 64\n")], [1.1]);
const ONE_128: Only = Only([(100, "outstanding = 128\n")], [1.2]);
const EVEN: &[(u32, &str)] = &[(50, RANDOM), (50, RANDOM)];
const UNEVEN: &[(u32, &str)] = &[(80, RANDOM), (20, RANDOM)];
const BESIDE: &[(u32, &str)] = &[(50, PAUSING), (50, RANDOM)];

/// Two volumes with 32 requests outstanding each.
const fn two(name: &'static str, order: Order, volumes: &'static [(u32, &'static str)]) -> Load {
    let (kept, window): (&[f64], f64) = match order {
        Order::Predicted => (&[0.93, 0.93], 1.0),
        Order::NoProfile => (&[0.88, 0.88], 3.0),
    };
    Load { name, order, volumes, kept, sum: Some(1.0), window: Some(window) }
}

/// A client that pauses beside 32 requests outstanding.
const fn beside(order: Order) -> Load {
    let kept: &[f64] = match order {
        Order::Predicted => &[0.85, 0.85],
        Order::NoProfile => &[0.78, 0.62],
    };
    Load { name: "pausing", order, volumes: BESIDE, kept, sum: None, window: None }
}

const LOADS: [Load; 10] = [
    one("one", Order::Predicted, &ONE_32),
    one("one of 64", Order::Predicted, &ONE_64),
    one("one of 128", Order::Predicted, &ONE_128),
    two("even", Order::Predicted, EVEN),
    two("uneven", Order::Predicted, UNEVEN),
    beside(Order::Predicted),
    one("one", Order::NoProfile, &ONE_32),
    two("even", Order::NoProfile, EVEN),
    two("uneven", Order::NoProfile, UNEVEN),
    beside(Order::NoProfile),
];

fn plan(drive: (&str, u64, Option<u32>), load: &Load, seed: u32) -> Plan {
    let (name, size_gib, queue) = drive;
    let size = size_gib / load.volumes.len() as u64;
    let mut text = format!(
        "seed = {seed}\n[[disk]]\nname = \"d0\"\ndrive = \"{name}\"\npolicy = \"spindle\"\n{}",
        load.order.key()
    );
    for (index, (reserve, requests)) in load.volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d0\"\nsize = \"{size}GiB\"\n\
             reserve = \"{reserve}%\"\n[[workload]]\nvolume = \"v{index}\"\nop = \"read\"\n\
             access = \"random\"\nblock = \"4KiB\"\n{requests}"
        )
        .expect("a string takes all");
    }
    let parsed = Plan::parse(&text, "depth.toml", std::path::Path::new("."));
    let mut plan = parsed.expect("a sound scenario");
    plan.duration = Some(DURATION);
    let disk = &mut plan.disks[0];
    let mut spec = mechanical(disk).spec().clone();
    spec.arm.variation = VARIATION;
    if let Some(depth) = queue {
        spec = drive_library::disksim::with_shortest_positioning(spec, depth);
        // What `auto` is on a drive with this queue.
        disk.depth = depth;
    }
    let model = spec.check().expect("only the queue and the noise changed");
    disk.drive.model = AnyModel::Mechanical(Arc::new(model));
    plan
}

fn rates(plan: &Plan) -> Vec<f64> {
    measure(plan, WARM_UP).iter().map(|measured| measured.rate).collect()
}

/// The most that any share misses in any window, wherever it begins, in points.
fn window_points(plan: &Plan) -> f64 {
    let mut simulation = Simulation::new(plan);
    let indices = || (0..plan.volumes.len()).map(VolumeIndex);
    let mut charged: Vec<Vec<f64>> = Vec::new();
    let mut at = Instant::ZERO + WARM_UP;
    while at <= Instant::ZERO + DURATION {
        simulation.run_until(at);
        let times = indices().map(|index| simulation.volume(index).disk_time.as_secs_f64());
        charged.push(times.collect());
        at += SAMPLE;
    }
    let reserves: Vec<f64> =
        plan.volumes.iter().map(|volume| volume.contract.reserve.as_f64()).collect();
    let samples = usize::try_from(WINDOW.as_nanos() / SAMPLE.as_nanos()).expect("some samples");
    most_missing(&as_it_passes(&charged), &reserves, (samples, WINDOW.as_secs_f64()))
}

/// A row of one run.
fn row(drive: usize, load: &Load, seed: u32) -> Vec<f64> {
    let plan = plan(DRIVES[drive], load, seed);
    let (shared, unshared) = (rates(&plan), rates(&bare(&plan)));
    let alone_at =
        |index: usize| rates(&alone(&bare(&plan), VolumeIndex(index), Share::ALL))[index];
    let alone: Vec<f64> = (0..shared.len()).map(alone_at).collect();
    let sum = |rates: &[f64]| rates.iter().zip(&alone).map(|(rate, alone)| rate / alone).sum();
    let (ours, theirs): (f64, f64) = (sum(&shared), sum(&unshared));
    let kept = |index: usize| {
        let Some((reserve, requests)) = load.volumes.get(index) else { return 0.0 };
        if *requests == PAUSING {
            let volume = VolumeIndex(index);
            let slowed = alone_in_order(&plan, volume, Share::from_percent(*reserve));
            return shared[index] / rates(&slowed)[index];
        }
        shared[index] / (alone[index] * f64::from(*reserve) / 100.0)
    };
    #[expect(clippy::cast_precision_loss, reason = "one of three")]
    let drive = drive as f64;
    let second = shared.get(1).copied().unwrap_or_default();
    let window = if load.window.is_some() { window_points(&plan) } else { 0.0 };
    vec![drive, seed.into(), shared[0], second, kept(0), kept(1), ours / theirs, window]
}

fn depth(told: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    let (found, series) = interleaved::findings(&mut |part| told(part / 4.0));
    findings.checks.extend(found);
    findings.series.push(series);
    let total = LOADS.len() * DRIVES.len();
    let mut done = 0_u32;
    for load in &LOADS {
        let name = format!("{}{}", load.name, load.order.as_str());
        let mut series = Series::new(name.replace(", ", "_").replace(' ', "_"), &COLUMNS);
        for (drive, (name, ..)) in DRIVES.iter().enumerate() {
            let rows: Vec<_> = (1..=SEEDS).map(|seed| row(drive, load, seed)).collect();
            findings.checks.extend(checks(name, load, &rows));
            series.rows.extend(rows);
            done += 1;
            #[expect(clippy::cast_precision_loss, reason = "a dozen")]
            told(0.25 + 0.75 * f64::from(done) / total as f64);
        }
        findings.series.push(series);
    }
    findings
}

fn checks(drive: &str, load: &Load, rows: &[Vec<f64>]) -> Vec<Check> {
    let least = |column: usize| rows.iter().map(|row| row[column]).fold(f64::INFINITY, f64::min);
    let order = load.order.as_str();
    let name = |figure: &str| format!("{drive}, {}{order}: {figure}", load.name);
    let mut checks = Vec::new();
    for (index, bound) in load.kept.iter().enumerate() {
        let figure = ["least kept of the first volume", "least kept of the second volume"][index];
        checks.push(Check::at_least(name(figure), least(4 + index), *bound, "ratio"));
    }
    let sum = "least sum ÷ the bare drive's";
    checks.extend(load.sum.map(|bound| Check::at_least(name(sum), least(6), bound, "ratio")));
    let most = rows.iter().map(|row| row[7]).fold(0.0, f64::max);
    let window = "most missing from a share in 2 s";
    checks.extend(load.window.map(|bound| Check::at_most(name(window), most, bound, "points")));
    checks
}
