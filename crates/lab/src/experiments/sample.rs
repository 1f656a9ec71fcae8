//! Runs of a plan, and samples of their progress.

use config::{Plan, VolumeIndex};
use engine::PolicyName;
use units::{Duration, Instant, Share};

use super::experiment::Series;
use sim::{Report, Simulation};

/// Parses a scenario that is part of the program.
///
/// # Panics
/// If the scenario is invalid. The tests run all scenarios.
pub(super) fn scenario(name: &str, text: &str) -> Plan {
    Plan::parse(text, name, std::path::Path::new("."))
        .unwrap_or_else(|error| panic!("a built-in scenario is valid: {error}"))
}

/// The plan with these reserves for its volumes, in order, and without limits.
pub(super) fn with_reserves(plan: &Plan, reserves: &[Share]) -> Plan {
    let mut plan = plan.clone();
    for (volume, reserve) in plan.volumes.iter_mut().zip(reserves) {
        volume.contract = engine::Contract::reserve(*reserve);
    }
    plan
}

/// The plan with only these of its workloads, by index.
pub(super) fn with_workloads(plan: &Plan, which: &[usize]) -> Plan {
    let workloads = which.iter().map(|index| plan.workloads[*index].clone()).collect();
    Plan { workloads, ..plan.clone() }
}

/// The commands in a bare drive.
const BARE_DEPTH: u32 = 32;

/// The same load on the bare drive: `fcfs` with 32 commands in it.
pub(crate) fn bare(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for disk in &mut plan.disks {
        disk.set_policy(PolicyName::Fcfs);
        (disk.depth, disk.unkept_contracts) = (BARE_DEPTH, true);
    }
    plan
}

/// The most that any of these reserves misses in any window of a number of `samples`, which last
/// `seconds`, in points. `charged` has, for each sample of a run, the disk time that each volume
/// was charged so far, in seconds.
pub(crate) fn most_missing(
    charged: &[Vec<f64>],
    reserves: &[f64],
    (samples, seconds): (usize, f64),
) -> f64 {
    let mut worst = 0.0_f64;
    for pair in charged.windows(samples + 1) {
        for (index, reserve) in reserves.iter().enumerate() {
            let share = (pair[samples][index] - pair[0][index]) / seconds;
            worst = worst.max((reserve - share) * 100.0);
        }
    }
    worst
}

/// The same with disk time that is charged when a command completes spread over the time since the
/// completion before, in which it passed.
pub(crate) fn as_it_passes(charged: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let between: Vec<&[Vec<f64>]> = charged.chunk_by(|one, next| one == next).collect();
    let mut spread: Vec<Vec<f64>> = Vec::with_capacity(charged.len());
    for pair in between.windows(2) {
        let (from, to) = (&pair[0][0], &pair[1][0]);
        for sample in 0..pair[0].len() {
            #[expect(clippy::cast_precision_loss, reason = "the samples of one command")]
            let part = sample as f64 / pair[0].len() as f64;
            spread.push(from.iter().zip(to).map(|(from, to)| from + (to - from) * part).collect());
        }
    }
    spread.extend(between.last().into_iter().copied().flatten().cloned());
    spread
}

/// The model of the disk's drive, which is mechanical.
pub(super) fn mechanical(disk: &config::Disk) -> &drive::Model {
    disk.drive.model.mechanical().expect("the experiments' drives have arms")
}

pub(super) fn length(plan: &Plan) -> Duration {
    plan.duration.expect("a scenario has a duration")
}

pub(super) fn run(plan: &Plan) -> Report {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + length(plan));
    simulation.report()
}

/// A row every `step`: the time, then for each volume the disk time charged and the level of its
/// reserve bucket, in seconds, and the number of completed requests. All volumes' columns of one
/// quantity are adjacent.
pub(super) fn progress(plan: &Plan, step: Duration, on_progress: &mut dyn FnMut(f64)) -> Series {
    let mut series = Series::new("progress", &["time_s"]);
    let named = |what: &str| {
        let what = what.to_owned();
        plan.volumes.iter().map(move |volume| volume.name.replace([' ', ','], "_") + &what)
    };
    series.columns.extend(named("_s").chain(named("_balance_s")).chain(named("_requests")));
    series.rows.push(vec![0.0; series.columns.len()]);
    let mut simulation = Simulation::new(plan);
    let end = Instant::ZERO + length(plan);
    let mut at = Instant::ZERO;
    while at < end {
        at = end.min(at + step);
        simulation.run_until(at);
        let views: Vec<_> =
            (0..plan.volumes.len()).map(|v| simulation.volume(VolumeIndex(v))).collect();
        let charged = views.iter().map(|view| view.disk_time.as_secs_f64());
        let balances = views.iter().map(|view| view.balance.as_secs_f64());
        let time = at.since(Instant::ZERO).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let requests = views.iter().map(|view| view.requests as f64);
        series
            .rows
            .push(std::iter::once(time).chain(charged).chain(balances).chain(requests).collect());
        on_progress(time / end.since(Instant::ZERO).as_secs_f64());
    }
    series
}
