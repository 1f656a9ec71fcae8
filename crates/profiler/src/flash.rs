//! Devices that do not rotate: flash, memory, and disks with a rate limit.
//!
//! Rate limits are measured first, because a token bucket shows on a device that was idle. The
//! findings state what was observed: nothing here depends on the kind of the device.

use drive_profile::findings::Stage;
use units::{Duration, Op};

use crate::bench::{Bench, StopReason};
use crate::rate_limit;
use crate::throughput::{rates, writes};

/// Measures what the findings lack: rate limits, throughput and, where writing is allowed, writes.
///
/// # Errors
/// As [`Bench::check`]. What was measured until then is in the findings.
pub fn measure(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    stage(bench, Stage::RateLimit, 30, rate_limit::measure)?;
    stage(bench, Stage::Rates, 60, |bench| {
        rates::measure(bench, Op::Read)?;
        if bench.facts().writable { rates::measure(bench, Op::Write) } else { Ok(()) }
    })?;
    if bench.facts().writable {
        stage(bench, Stage::WriteBuffer, 90, |bench| {
            writes::buffer(bench)?;
            writes::during_writes(bench)?;
            writes::flushes(bench)
        })?;
    }
    Ok(())
}

/// Runs one stage with at most `percent` of the remaining budget. A stage that exhausts its own
/// time leaves the others theirs.
fn stage(
    bench: &mut Bench<'_>,
    stage: Stage,
    percent: u64,
    measure: impl FnOnce(&mut Bench<'_>) -> Result<(), StopReason>,
) -> Result<(), StopReason> {
    if bench.findings.is_done(stage) {
        return Ok(());
    }
    let spent = bench.spent();
    let left = bench.budget().total.saturating_sub(spent);
    bench.begin(stage, Duration::from_nanos(left.as_nanos() / 100 * percent));
    match measure(bench) {
        Ok(()) => bench.findings.finish(stage),
        Err(StopReason::OutOfTime) if bench.spent() < bench.budget().total => {
            bench.findings.add_note(format!("{stage}: incomplete, its time was over"));
        }
        Err(halt) => return Err(halt),
    }
    Ok(())
}
