//! Everything that can be found out, in the order in which one stands on the other.

use crate::bench::{Bench, StopReason};
use crate::dynamics;
use crate::flash;
use crate::layout::zones::geometry;
use crate::rotation::detection::test_rotation;
use crate::rotation::measure::rotation;
use drive_profile::findings::{RotationVerdict, Spindle, Stage};

/// Measures what the findings do not have: first what kind of device it is, then what its kind has to tell. Stages that are
/// done are left as they are.
///
/// # Errors
/// As [`Bench::check`]; what was measured until then is in the findings.
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
            // It has had its share; what was found until then is what the rest stands on.
            Err(StopReason::OutOfTime) if bench.has_time() => {
                let note =
                    format!("{}: not all of it was measured in the time that it has", Stage::Zones);
                bench.findings.add_note(note);
            }
            ended => ended?,
        }
    }
    // The zone map counts turns for longer than the spindle's own stage did.
    let Some(Spindle::Rotating(rotating)) = bench.findings.spindle else { return Ok(()) };
    match &bench.findings.geometry {
        Some(found) if !found.bands.is_empty() => {
            let map = found.profile(&rotating.period);
            dynamics::measure(bench, &map)
        }
        // Something turns, and nobody knows where sectors lie: rates are what there is to be had.
        _ => flash::measure(bench),
    }
}
