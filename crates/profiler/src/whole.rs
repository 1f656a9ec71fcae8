//! Everything that can be found out, in the order in which one stands on the other.

use units::Duration;

use crate::bench::{Bench, Halt};
use crate::dynamics;
use crate::findings::{Figure, Stage};
use crate::flash::{self, Verdict};
use crate::map::Map;
use crate::rotation::{Spindle, rotation};

/// Measures what the findings do not have: first what kind of device it is, then what its kind has to tell. Stages that are
/// done are left as they are.
///
/// # Errors
/// As [`Bench::check`]; what was measured until then is in the findings.
pub fn measure(bench: &mut Bench<'_>) -> Result<(), Halt> {
    if !bench.findings.is_done(Stage::Rotation) || bench.findings.flash.turning.is_none() {
        let left = bench.left();
        bench.begin(Stage::Rotation, left);
        let turning = flash::turning(bench)?;
        bench.findings.flash.turning = Some(turning);
        if turning.verdict != Verdict::Perhaps {
            bench.findings.note(turning.to_string());
            bench.findings.spindle = Some(Spindle::Still);
            bench.findings.finish(Stage::Rotation);
        }
    }
    if !bench.findings.is_done(Stage::Rotation) {
        bench.findings.spindle = Some(rotation(bench)?);
        bench.findings.finish(Stage::Rotation);
        if bench.findings.spindle == Some(Spindle::Still) {
            bench.findings.note("not rotating: reads of one place follow no period".to_owned());
        }
    }
    match bench.findings.map.clone() {
        Some(map) => mechanical(bench, &map),
        None => flash::measure(bench),
    }
}

/// What stands on knowing where sectors lie.
fn mechanical(bench: &mut Bench<'_>, map: &Map) -> Result<(), Halt> {
    let Some(Spindle::Turns(rotation)) = bench.findings.spindle else { return Ok(()) };
    dynamics::measure(bench, &map.profile(rotation.period.value, error_ppb(&rotation.period)))
}

/// Twice the standard error, in parts of a billion of the period.
fn error_ppb(period: &Figure<Duration>) -> u32 {
    let ppb =
        period.spread.as_nanos().saturating_mul(2_000_000_000) / period.value.as_nanos().max(1);
    u32::try_from(ppb).unwrap_or(u32::MAX)
}
