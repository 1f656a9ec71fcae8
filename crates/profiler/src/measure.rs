//! A whole profile: all stages, in the order of their dependencies.

use crate::bench::{Bench, StopReason};
use crate::dynamics;
use crate::flash;
use crate::layout::zones::geometry;
use crate::rotation::detection::test_rotation;
use crate::rotation::measure::rotation;
use drive_profile::findings::{RotationVerdict, Spindle, Stage};

/// Measures what the findings lack: first the kind of the device, then the stages of its kind.
/// Completed stages are skipped.
///
/// # Errors
/// As [`Bench::check`]. What was measured until then is in the findings.
pub fn measure(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    if !bench.findings.is_done(Stage::Rotation) || bench.findings.flash.rotation_test.is_none() {
        let left = bench.left();
        bench.begin(Stage::Rotation, left);
        let test = test_rotation(bench)?;
        bench.findings.flash.rotation_test = Some(test);
        if test.verdict != RotationVerdict::MayRotate {
            bench.findings.add_note(test.to_string());
            bench.findings.spindle = Some(Spindle::NotRotating);
            bench.findings.finish(Stage::Rotation);
        }
    }
    if !bench.findings.is_done(Stage::Rotation) {
        bench.findings.spindle = Some(rotation(bench)?);
        bench.findings.finish(Stage::Rotation);
    }
    let Some(Spindle::Rotating(rotating)) = bench.findings.spindle else {
        return flash::measure(bench);
    };
    if !bench.findings.is_done(Stage::Zones) {
        match geometry(bench, &rotating) {
            // The stage used its share of the time. The later stages use what it found.
            Err(StopReason::OutOfTime) if bench.has_time() => {
                let note = format!("{}: incomplete, its time was over", Stage::Zones);
                bench.findings.add_note(note);
            }
            ended => ended?,
        }
    }
    // The zone map counts revolutions for longer than the rotation stage did.
    let Some(Spindle::Rotating(rotating)) = bench.findings.spindle else { return Ok(()) };
    match &bench.findings.geometry {
        Some(found) if !found.bands.is_empty() => {
            let map = found.profile(&rotating.period);
            dynamics::measure(bench, &map)
        }
        // The device rotates, but its zone map is unknown: only throughput can be measured.
        _ => flash::measure(bench),
    }
}
