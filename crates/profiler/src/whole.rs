//! Everything that can be found out, in the order in which one stands on the other.

use crate::bench::{Bench, Halt};
use crate::findings::Stage;
use crate::flash::{self, Verdict};

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
            bench.findings.finish(Stage::Rotation);
        }
    }
    flash::measure(bench)
}
