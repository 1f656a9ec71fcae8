//! Runs of a plan with samples on the way.

use config::{Plan, VolumeIndex};
use units::{Duration, Instant, Share};

use super::experiment::Series;
use sim::{Report, Simulation};

/// The scenario of this text, which ships with the program.
///
/// # Panics
/// If it is wrong: the tests run every one.
pub(super) fn scenario(name: &str, text: &str) -> Plan {
    Plan::parse(text, name, std::path::Path::new("."))
        .unwrap_or_else(|error| panic!("a scenario that ships is right: {error}"))
}

/// The plan with these reserves for its volumes, in their order, and no limits.
pub(super) fn with_reserves(plan: &Plan, reserves: &[Share]) -> Plan {
    let mut plan = plan.clone();
    for (volume, reserve) in plan.volumes.iter_mut().zip(reserves) {
        volume.contract = engine::Contract::reserve(*reserve);
    }
    plan
}

/// Only these workloads of the plan, by number.
pub(super) fn with_workloads(plan: &Plan, which: &[usize]) -> Plan {
    let workloads = which.iter().map(|index| plan.workloads[*index].clone()).collect();
    Plan { workloads, ..plan.clone() }
}

/// The disk's drive, which has an arm.
pub(super) fn mechanical(disk: &config::Disk) -> &drive::Model {
    disk.drive.model.mechanical().expect("the experiments' drives have arms")
}

pub(super) fn length(plan: &Plan) -> Duration {
    plan.duration.expect("a scenario says how long")
}

pub(super) fn run(plan: &Plan) -> Report {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + length(plan));
    simulation.report()
}

/// The disk time that each volume has had, every `step`, behind it what each has saved up of its
/// reserve, both in seconds, and the requests that were answered to each: the first column is the
/// time.
pub(super) fn progress(plan: &Plan, step: Duration, told: &mut dyn FnMut(f64)) -> Series {
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
        let had = views.iter().map(|view| view.disk_time.as_secs_f64());
        let saved = views.iter().map(|view| view.balance.as_secs_f64());
        let time = at.since(Instant::ZERO).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let done = views.iter().map(|view| view.requests as f64);
        series.rows.push(std::iter::once(time).chain(had).chain(saved).chain(done).collect());
        told(time / end.since(Instant::ZERO).as_secs_f64());
    }
    series
}
