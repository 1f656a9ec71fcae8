//! The papers' loads under Spindle's own policy, with default settings: the eleven splits of RTAS
//! 2008's figure 4, the pairs of the insulation experiment, and best effort beside the streams of
//! RTAS 2000.
//!
//! The experiments of the papers keep the policies of the papers. Here the one scheduler is to be
//! no worse than these: than `utilization` at shares, than `delta-star` beside streams.

use config::Plan;
use units::Duration;

use super::check::Check;
use super::clockwise;
use super::experiment::{Experiment, Findings, Series};
use super::sample::scenario;
use super::{insulation, vdisk};

pub(super) const ONE_SCHEDULER: Experiment = Experiment {
    id: "one-scheduler",
    title: "the papers' shares, insulation, and best effort beside streams under the policy \
            spindle",
    run: one_scheduler,
};

/// The largest accepted error of a share over a run, in points.
const SHARE_ERROR_MAX: f64 = 0.5;
/// The least accepted throughput ÷ (share × throughput alone).
const THROUGHPUT_RATIO_MIN: f64 = 0.95;
/// The largest accepted mean latency of best effort ÷ that under `delta-star`.
const LATENCY_RATIO_MAX: f64 = 1.0;
/// How long each pair runs. In the 40 s of the scenario a fifth of the slower drive completes a
/// thousand random requests, whose mean varies by 3 %: the least of all figures would be the least
/// likely one, and not what a neighbour costs.
const PAIR_LENGTH: Duration = Duration::from_secs(160);

/// The scenario with the policy `spindle`, before it is parsed: the policy's own defaults apply.
fn under_spindle(name: &str, text: &str) -> Plan {
    let changed = text.replace("policy = \"utilization\"", "policy = \"spindle\"");
    assert_ne!(changed, text, "the scenario names its policy");
    scenario(name, &changed)
}

fn one_scheduler(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = under_spindle("vdisk-pair.toml", vdisk::PAIR);
    let splits = vdisk::splits(&plan, "splits", &mut |part| on_progress(part / 4.0));
    let mut checks = share_checks(&splits);
    let mut series = vec![splits];
    for (index, drive) in (1_u32..).zip(insulation::DRIVES) {
        let (name, text) = insulation::scenario_on(drive);
        let mut plan = under_spindle(name, &text);
        plan.duration = Some(PAIR_LENGTH);
        let begun = f64::from(index) / 4.0;
        let matrix = insulation::matrix(&plan, drive, &mut |part| on_progress(begun + part / 4.0));
        let (least, _) = insulation::least_kept(&matrix);
        let name = format!("{drive}: least of throughput ÷ (share × alone)");
        checks.push(Check::at_least(name, least, THROUGHPUT_RATIO_MIN, "ratio"));
        series.push(matrix);
    }
    let (beside, more) = beside_streams();
    checks.extend(more);
    series.push(beside);
    on_progress(1.0);
    Findings { checks, series, plots: Vec::new() }
}

/// The worst errors of the shares of both streams.
fn share_checks(splits: &Series) -> Vec<Check> {
    let worst = |had: usize, reserve: &dyn Fn(&[f64]) -> f64| {
        let errors = splits.rows.iter().map(|row| (row[had] - reserve(row)).abs() * 100.0);
        errors.fold(0.0, f64::max)
    };
    let name = |stream: &str| format!("{stream}: worst share error of eleven splits");
    let sequential = worst(1, &|row| row[0]);
    let random = worst(2, &|row| 1.0 - row[0]);
    vec![
        Check::at_most(name("sequential"), sequential, SHARE_ERROR_MAX, "points"),
        Check::at_most(name("random"), random, SHARE_ERROR_MAX, "points"),
    ]
}

/// Best effort beside the highest admitted load, in both layouts.
fn beside_streams() -> (Series, Vec<Check>) {
    let columns = ["layout", "load_mb_per_s", "spindle_ms", "delta_star_ms", "spindle_late"];
    let mut series = Series::new("streams", &columns);
    let mut checks = Vec::new();
    for (index, beside) in (0_u32..).zip(clockwise::beside_the_highest_loads()) {
        let clockwise::Beside { layout, mb_per_s, spindle_ms, delta_star_ms, late } = beside;
        series.rows.push(vec![index.into(), mb_per_s, spindle_ms, delta_star_ms, late]);
        let name = |what: &str| format!("{layout}, highest load: {what}");
        checks.push(Check::at_most(name("blocks of streams late"), late, 0.0, "blocks"));
        let ratio = spindle_ms / delta_star_ms;
        let what = name("mean latency of best effort ÷ that under delta-star");
        checks.push(Check::at_most(what, ratio, LATENCY_RATIO_MAX, "ratio"));
    }
    (series, checks)
}
