//! Semi-preemptible execution with a measured profile compared with the assumed one. The figures
//! must be within 5 %.
//!
//! The profiler times the simulated drive as it would time a real one, with a noise of 0.2 ms. The
//! layout of sectors is given, because it is the other half of profiling. The measured figures of
//! the arm, the electronics and the buffers replace the drive's own parameters.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::ProfileRef;
use drive::AnyModel;
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

/// The largest accepted difference of the two.
const WITHIN_PERCENT: f64 = 5.0;
/// The largest error of the instants at which the profiler sees completions.
const NOISE: Duration = Duration::from_micros(200);
/// The seed of the noise.
pub(super) const SEED: u64 = 1;
/// FAST 2003's drive, for which the assumed profile is exact. The assumed profiles of other drives
/// take over its seek jitter, so that a measured profile may do better.
pub(super) const PAPER_DRIVE: &str = "st318437lw";
/// Drives, and the sizes of requests in kB.
const DRIVES: [(&str, &[u32]); 2] = [(PAPER_DRIVE, &SIZES), ("hgst-7k8", &[50, 500])];
const COLUMNS: [&str; 7] = [
    "size_kb",
    "writes",
    "as_published",
    "wait_assumed_ms",
    "wait_measured_ms",
    "mb_per_s_assumed",
    "mb_per_s_measured",
];

fn measured(on_progress: &mut dyn FnMut(f64)) -> Findings {
    with_seed(SEED, on_progress)
}

/// The experiment with the noise of this seed.
fn with_seed(seed: u64, on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    for (drive, sizes) in DRIVES {
        let profile = Arc::new(measured_profile(drive, seed));
        let profile = ProfileRef { name: format!("measured of {drive}"), profile };
        let mut table = Series::new(drive, &COLUMNS);
        for (done, size) in (1_u32..).zip(sizes) {
            for (op, how, is_published) in
                [(Op::Read, ours(), false), (Op::Read, PAPER, true), (Op::Write, ours(), false)]
            {
                let row = row(drive, (op, how, *size), &profile);
                table.rows.push(
                    [&[f64::from(*size), flag(op == Op::Write), flag(is_published)], &row[..]]
                        .concat(),
                );
                let name = |what: &str| {
                    let whose = if is_published { "FAST 2003's" } else { "ours" };
                    format!("{drive}, {size} kB {op}s, {whose}: {what}, measured beside assumed")
                };
                let [wait, waited, rate, rated] = row;
                let (longer, slower) =
                    ((waited / wait - 1.0) * 100.0, (1.0 - rated / rate) * 100.0);
                // Off on either side, where the assumed profile is exact.
                let off = |percent: f64| if drive == PAPER_DRIVE { percent.abs() } else { percent };
                let checks = [
                    Check::at_most(name("waiting"), off(longer), WITHIN_PERCENT, "% off"),
                    Check::at_most(name("throughput"), off(slower), WITHIN_PERCENT, "% off"),
                ];
                findings.checks.extend(checks);
            }
            on_progress(f64::from(done) / 6.0);
        }
        findings.series.push(table);
    }
    findings
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Expected waiting with the assumed and the measured profile, then throughput with both.
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

/// The profile that the profiler measures on the simulated drive.
pub(super) fn measured_profile(drive: &str, seed: u64) -> Profile {
    let spec = drive_library::find_mechanical(drive).expect("a drive of the library");
    let model = Arc::new(spec.check().expect("the library's drives are sound"));
    let mut profile = drive_library::profile::assumed(&model);
    let mut target = BenchTarget::new(AnyModel::from(model), NOISE, seed);
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
