//! What semi-preemptible execution brings with a profile that was measured, beside the one that is
//! assumed (issue: within 5 %).
//!
//! The profiler times the drive of the simulation as it would a real one, through a noise of 0.2
//! ms; where sectors lie it is told, as that is another half of profiling. What it finds of the
//! arm, the electronics and the memory takes the place of the drive's own parameters.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::ProfileRef;
use drive::{AnyModel, Model};
use drive_profile::Profile;
use drive_profile::findings::Findings as Found;
use engine::Execution;
use profiler::{Bench, Budget, Progress, dynamics};
use units::{Duration, Op};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::Point;
use super::settings::{PAPER, SIZES, ours};
use sim::BenchTarget;

pub(crate) const MEASURED: Experiment = Experiment {
    id: "profile-spio",
    title: "semi-preemptible execution with a measured profile and with the assumed one",
    run: measured,
};

/// By how much the two may differ.
const WITHIN_PERCENT: f64 = 5.0;
/// How late or early the profiler sees completions.
const NOISE: Duration = Duration::from_micros(200);
/// The seed of the noise.
const SEED: u64 = 1;
/// The drive of which what is assumed is what it does. Of others it is assumed that their arms vary
/// as FAST 2003's does; a profile that found out that they do not may do better.
const PAPERS: &str = "st318437lw";
/// Drives, and the sizes of requests in kB.
const DRIVES: [(&str, &[u32]); 2] = [(PAPERS, &SIZES), ("hgst-7k8", &[50, 500])];
const COLUMNS: [&str; 7] = [
    "size_kb",
    "writes",
    "paper",
    "wait_assumed_ms",
    "wait_measured_ms",
    "mb_per_s_assumed",
    "mb_per_s_measured",
];

fn measured(told: &mut dyn FnMut(f64)) -> Findings {
    with_seed(SEED, told)
}

/// With the noise of a seed.
fn with_seed(seed: u64, told: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    for (drive, sizes) in DRIVES {
        let spec = drive_library::find_mechanical(drive).expect("a drive of the library");
        let model = Arc::new(spec.check().expect("the library's drives are sound"));
        let profile = Arc::new(profile(&model, seed));
        let profile = ProfileRef { name: format!("measured of {drive}"), profile };
        let mut table = Series::new(drive, &COLUMNS);
        for (done, size) in (1_u32..).zip(sizes) {
            for (op, how, is_paper) in
                [(Op::Read, ours(), false), (Op::Read, PAPER, true), (Op::Write, ours(), false)]
            {
                let row = row(drive, (op, how, *size), &profile);
                table.rows.push(
                    [&[f64::from(*size), flag(op == Op::Write), flag(is_paper)], &row[..]].concat(),
                );
                let name = |what: &str| {
                    let whose = if is_paper { "FAST 2003's" } else { "ours" };
                    format!("{drive}, {size} kB {op}s, {whose}: {what}, measured beside assumed")
                };
                let [wait, waited, rate, rated] = row;
                let part = WITHIN_PERCENT / 100.0;
                let checks = if drive == PAPERS {
                    let within = |what: &str, ours: f64, assumed: f64, unit| {
                        Check::within(name(what), ours, assumed, assumed * part, unit)
                    };
                    [
                        within("waiting", waited, wait, "ms"),
                        within("throughput", rated, rate, "MB/s"),
                    ]
                } else {
                    let (most, least) = (wait * (1.0 + part), rate * (1.0 - part));
                    [
                        Check::at_most(name("waiting"), waited, most, "ms").beside(wait),
                        Check::at_least(name("throughput"), rated, least, "MB/s").beside(rate),
                    ]
                };
                findings.checks.extend(checks);
            }
            told(f64::from(done) / 6.0);
        }
        findings.series.push(table);
    }
    findings
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Waiting with either profile, and throughput.
fn row(
    drive: &'static str,
    (op, how, size): (Op, Execution, u32),
    profile: &ProfileRef,
) -> [f64; 4] {
    let point = Point { drive, ..Point::new(how, op, size) };
    let assumed = point.clone().measure();
    let measured = point.knowing(Some(profile.clone())).measure();
    [assumed.wait(), measured.wait(), assumed.mb_per_s, measured.mb_per_s]
}

/// What the profiler makes of the drive.
fn profile(model: &Arc<Model>, seed: u64) -> Profile {
    let mut profile = drive_library::profile::assumed(model);
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), NOISE, seed);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut target, Budget::DEFAULT, Found::default(), &mut watcher);
    dynamics::measure(&mut bench, &profile).expect("within ten minutes");
    let facts = *bench.facts();
    bench.findings.dynamics.apply(&mut profile, facts.block, facts.seeks);
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_profile_serves_as_well_as_an_assumed_one() {
        for seed in 1..=3 {
            let findings = with_seed(seed, &mut |_| {});
            let failed: Vec<&Check> =
                findings.checks.iter().filter(|check| check.holds == Some(false)).collect();
            assert!(failed.is_empty(), "seed {seed}: {failed:#?}");
        }
    }
}
