//! The disk's whole speed where it is not the order of random requests: merged neighbours, the
//! places of a flash drive, and best effort beside streams, with the default settings.
//!
//! Every figure is the worst over the seeds.

use core::fmt::Write as _;
use std::path::Path;

use config::Plan;
use engine::PolicyName;
use sim::Simulation;
use stats::VolumeReport;
use units::{Duration, Instant};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};

pub(super) const SPEED: Experiment = Experiment {
    id: "speed",
    title: "sequential 4 KiB requests, the places of a flash drive, and best effort beside streams",
    run: speed,
};

const SEEDS: u64 = 5;
/// Sequential 4 KiB reads with one command at a time and none merged, on each of the drives.
const UNMERGED_MB: f64 = 72.0;
const MERGED_FACTOR: f64 = 2.5;
/// The part of what is due to a volume on a flash drive that it has at least.
const FLASH_KEPT: f64 = 0.9;
const STREAMS: usize = 16;
/// The least random reads a second beside the streams.
const BESIDE_STREAMS: f64 = 160.0;

/// A volume: its size in GiB, its contract and its requests.
type Volume = (u64, &'static str, &'static str);

const SEQUENTIAL: [&str; 2] = ["read", "write"];
const HALF: &str = "reserve = \"50%\"\n";
const RANDOM_1: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\n";
const RANDOM_32: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 32\n";
/// Blocks of 1 MB, a little slower than the contract.
const CAMERA: Volume = (
    200,
    "stream = { bandwidth = \"1.45MB/s\", block = \"1000448\" }\n",
    "op = \"read\"\naccess = \"sequential\"\nblock = \"1000448\"\nrate = \"1.42/s\"\n",
);

fn plan(drive: &str, seconds: u64, volumes: &[Volume]) -> Plan {
    let mut text = format!("[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n");
    for (index, (size, contract, requests)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size}GiB\"\n{contract}\
             [[workload]]\nvolume = \"v{index}\"\n{requests}"
        )
        .expect("a string takes all");
    }
    let parsed = Plan::parse(&text, "speed.toml", Path::new("."));
    let mut plan = parsed.expect("a sound scenario");
    plan.duration = Some(Duration::from_secs(seconds));
    plan
}

/// What each volume gets: requests a second, bytes a second and blocks that were late.
fn run(plan: &Plan, seed: u64) -> Vec<(f64, f64, u64)> {
    let plan = Plan { seed, ..plan.clone() };
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a scenario has a duration"));
    let report = simulation.report();
    let got = |volume: &VolumeReport| (volume.iops, volume.bytes_per_s, volume.deadline_misses);
    report.volumes.iter().map(got).collect()
}

/// The least of `figure` over the seeds.
fn least(plan: &Plan, figure: impl Fn(&[(f64, f64, u64)]) -> f64) -> f64 {
    (1..=SEEDS).map(|seed| figure(&run(plan, seed))).fold(f64::INFINITY, f64::min)
}

/// Sequential requests of 4 KiB, 32 outstanding.
fn merged(checks: &mut Vec<Check>, series: &mut Series) {
    for (number, drive) in ["hgst-7k8", "nearline-20t", "barracuda-2t"].into_iter().enumerate() {
        for op in SEQUENTIAL {
            let requests: &'static str = match op {
                "read" => {
                    "op = \"read\"\naccess = \"sequential\"\nblock = \"4KiB\"\noutstanding = 32\n"
                }
                _ => {
                    "op = \"write\"\naccess = \"sequential\"\nblock = \"4KiB\"\noutstanding = 32\n"
                }
            };
            let rate = least(&plan(drive, 6, &[(400, "", requests)]), |got| got[0].1 / 1e6);
            let bound = MERGED_FACTOR * UNMERGED_MB;
            let name = format!("{drive}: sequential 4 KiB {op}s, 32 outstanding");
            checks.push(Check::at_least(name, rate, bound, "MB/s"));
            #[expect(clippy::cast_precision_loss, reason = "one of three")]
            series.rows.push(vec![number as f64, f64::from(u8::from(op == "write")), rate]);
        }
    }
}

/// Two halves of a flash drive: both with many requests, and one with few.
fn flash(checks: &mut Vec<Check>) {
    let drive = "samsung-870evo-1t";
    let mut bare = plan(drive, 4, &[(400, "", RANDOM_32)]);
    bare.disks[0].set_policy(PolicyName::Fcfs);
    bare.disks[0].depth = 32;
    let half = least(&bare, |got| got[0].0) / 2.0;
    let alone = least(&plan(drive, 4, &[(400, "", RANDOM_1)]), |got| got[0].0);
    let even = plan(drive, 4, &[(400, HALF, RANDOM_32), (400, HALF, RANDOM_32)]);
    let few = plan(drive, 4, &[(400, HALF, RANDOM_32), (400, HALF, RANDOM_1)]);
    let kept = [
        ("32 beside 32", least(&even, |got| got[0].0.min(got[1].0)) / half),
        ("32 beside 1", least(&few, |got| got[0].0) / half),
        ("1 beside 32", least(&few, |got| got[1].0) / alone.min(half)),
    ];
    for (load, kept) in kept {
        let name = format!("{drive}: {load} outstanding, of half of the bare drive's, or alone");
        checks.push(Check::at_least(name, kept, FLASH_KEPT, "ratio"));
    }
}

/// Random reads without a contract beside streams.
fn streams(checks: &mut Vec<Check>) {
    for drive in ["hgst-7k8", "nearline-20t"] {
        let mut volumes = vec![CAMERA; STREAMS];
        volumes.push((2_000, "", RANDOM_32));
        let plan = plan(drive, 60, &volumes);
        let rate = least(&plan, |got| got[STREAMS].0);
        let name = format!("{drive}: random reads beside {STREAMS} streams of 1 MB");
        checks.push(Check::at_least(name, rate, BESIDE_STREAMS, "1/s"));
        #[expect(clippy::cast_precision_loss, reason = "a count of blocks")]
        let late = |got: &[(f64, f64, u64)]| -(got.iter().map(|one| one.2).sum::<u64>() as f64);
        let name = format!("{drive}: late blocks of {STREAMS} streams");
        checks.push(Check::at_most(name, -least(&plan, late), 0.0, "blocks"));
    }
}

fn speed(told: &mut dyn FnMut(f64)) -> Findings {
    let mut checks = Vec::new();
    let mut series = Series::new("merged", &["drive", "writes", "mb_per_s"]);
    merged(&mut checks, &mut series);
    told(0.3);
    flash(&mut checks);
    told(0.7);
    streams(&mut checks);
    told(1.0);
    Findings { checks, series: vec![series], plots: Vec::new() }
}
