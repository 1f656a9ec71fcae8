//! Two volumes of a pool that lie among each other over the whole disk, half of it each: a part of
//! the experiment `depth`.
//!
//! Their blocks are placed at random over the disk, so that requests of the one are as near to the
//! heads as requests of the other.

use std::sync::Arc;

use config::{Plan, Requests};
use sim::Simulation;
use units::{Duration, Instant};

use super::check::Check;
use super::experiment::Series;
use super::sample::{bare, most_missing, scenario};

/// The drives, with the least rate of either volume under exclusive quanta, over the five seeds.
const DRIVES: [(&str, f64); 2] = [("hgst-7k8", 108.4), ("nearline-20t", 124.8)];
const SEEDS: u32 = 5;
const SECONDS: u64 = 120;
const WARM_UP: u64 = 10;
/// The length in seconds of the windows in which shares are looked at.
const WINDOW: (usize, f64) = (2, 2.0);
/// The least sum of rate ÷ alone on the bare drive.
const SUM: f64 = 1.1;
/// The most that a share misses in a window, in points.
const MISSING: f64 = 2.0;
const VOLUMES: [&str; 2] = ["v0", "v1"];
const COLUMNS: [&str; 6] = ["drive", "seed", "rate_first", "rate_second", "sum", "window_points"];

/// What each volume did.
struct Run {
    /// Requests a second.
    rates: [f64; 2],
    /// The most that its share missed in a window, in points.
    missing: f64,
}

fn plan(drive: &str, seed: u32) -> Plan {
    let volume = |name: &str| {
        format!(
            "[[pool.volume]]\nname = \"{name}\"\nsize = \"1GiB\"\nlayout = \"random\"\n\
             reserve = \"49.5%\"\n[[workload]]\nvolume = \"{name}\"\nop = \"read\"\n\
             access = \"random\"\nblock = \"4KiB\"\noutstanding = 32\n"
        )
    };
    let text = format!(
        "seed = {seed}\n[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\n[pool]\ndisks = [\"d0\"]\n\
         metadata_share = \"0.5%\"\nrelocation_share = \"0.5%\"\n{}",
        VOLUMES.map(volume).concat()
    );
    scenario("interleaved.toml", &text)
}

/// The load of one volume on the bare drive.
fn alone(plan: &Plan, only: usize) -> Plan {
    let mut plan = bare(plan);
    for (index, workload) in plan.workloads.iter_mut().enumerate() {
        if index != only {
            workload.requests = Requests::Listed(Arc::from([]));
        }
    }
    plan
}

/// The requests and the disk time of both volumes, in seconds, so far.
#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn progress(simulation: &Simulation, seconds: f64) -> [(f64, f64); 2] {
    let report = simulation.report();
    let parts = &report.pool.as_ref().expect("it has a pool").parts;
    VOLUMES.map(|name| {
        let volume = report.volumes.iter().find(|volume| volume.name == name);
        let own = format!("{name} on d0");
        let part = parts.iter().find(|part| part.name == own).expect("it is reported");
        let requests = volume.expect("it is reported").requests as f64;
        (requests, part.disk_time_share * seconds)
    })
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn run(plan: &Plan) -> Run {
    let mut simulation = Simulation::new(plan);
    let mut all = Vec::new();
    for second in WARM_UP..=SECONDS {
        simulation.run_until(Instant::ZERO + Duration::from_secs(second));
        all.push(progress(&simulation, second as f64));
    }
    let report = simulation.report();
    let parts = &report.pool.as_ref().expect("it has a pool").parts;
    let reserve = parts.iter().map(|part| part.reserve).fold(0.0, f64::max);
    let charged: Vec<Vec<f64>> =
        all.iter().map(|both| both.map(|(_, charged)| charged).to_vec()).collect();
    let missing = most_missing(&charged, &[reserve; 2], WINDOW);
    let (first, last) = (all[0], all[all.len() - 1]);
    let rate = |index: usize| (last[index].0 - first[index].0) / (SECONDS - WARM_UP) as f64;
    Run { rates: [rate(0), rate(1)], missing }
}

/// The checks, and the figures of each run; `told` hears the part that is done.
pub(super) fn findings(told: &mut dyn FnMut(f64)) -> (Vec<Check>, Series) {
    let mut checks = Vec::new();
    let mut series = Series::new("interleaved", &COLUMNS);
    for (drive, (name, exclusive)) in DRIVES.iter().enumerate() {
        let (mut least, mut sums, mut missing) = (f64::INFINITY, f64::INFINITY, 0.0_f64);
        for seed in 1..=SEEDS {
            let plan = plan(name, seed);
            let ours = run(&plan);
            let alone = [0, 1].map(|index| run(&alone(&plan, index)).rates[index]);
            let sum = ours.rates[0] / alone[0] + ours.rates[1] / alone[1];
            least = least.min(ours.rates[0]).min(ours.rates[1]);
            (sums, missing) = (sums.min(sum), missing.max(ours.missing));
            #[expect(clippy::cast_precision_loss, reason = "one of two")]
            let (drive, drives) = (drive as f64, DRIVES.len() as f64);
            let [first, second] = ours.rates;
            series.rows.push(vec![drive, seed.into(), first, second, sum, ours.missing]);
            told((drive + f64::from(seed) / f64::from(SEEDS)) / drives);
        }
        let figure = |figure: &str| format!("{name}, interleaved: {figure}");
        checks.push(Check::at_least(figure("least sum of rate ÷ alone"), sums, SUM, "ratio"));
        let name = figure("least rate, that of exclusive quanta wanted");
        checks.push(Check::at_least(name, least, *exclusive, "1/s"));
        let name = figure("most missing from a share in 2 s");
        checks.push(Check::at_most(name, missing, MISSING, "points"));
    }
    (checks, series)
}
