//! What does not turn: flash, memory, and disks that a provider rations.
//!
//! The order matters: whether a rate is rationed shows on a device that has rested, so that comes first. Nothing here
//! knows what the device is; what is written down is what was seen.

mod load;
mod provisioned;
mod rates;
mod statistics;
mod turning;
mod writes;

use units::{Duration, Op, Sectors};

pub use load::Access;
pub use provisioned::{Allowance, Limit};
pub use rates::Rate;
pub use turning::{Turning, Verdict, turning};
pub use writes::{Beside, Flush};

use crate::bench::{Bench, Halt};
use crate::findings::{Figure, Stage};

/// What is known of a device on which nothing turns, or nothing has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flash {
    /// What random reads say of what is inside.
    pub turning: Option<Turning>,
    /// Rates that are rationed; none if none is.
    pub limits: Vec<Limit>,
    /// Rates against length and depth.
    pub rates: Vec<Rate>,
    /// What is written faster than it is stored.
    pub write_buffer: Option<Figure<Sectors>>,
    /// Reads beside writes.
    pub beside: Option<Beside>,
    /// Flushes.
    pub flushes: Vec<Flush>,
}

impl Flash {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Measures what is missing in the findings: rations, rates and, where writing is allowed, what writing does.
///
/// # Errors
/// As [`Bench::check`]. What was measured until then is in the findings.
pub fn measure(bench: &mut Bench<'_>) -> Result<(), Halt> {
    stage(bench, Stage::Provisioned, 30, provisioned::measure)?;
    stage(bench, Stage::Rates, 60, |bench| {
        rates::measure(bench, Op::Read)?;
        if bench.facts().writable { rates::measure(bench, Op::Write) } else { Ok(()) }
    })?;
    if bench.facts().writable {
        stage(bench, Stage::WriteBuffer, 90, |bench| {
            writes::buffer(bench)?;
            writes::beside(bench)?;
            writes::flushes(bench)
        })?;
    }
    Ok(())
}

/// One stage, which may take so many hundredths of what is left in all; a stage that has run out of its own time leaves the
/// others theirs.
fn stage(
    bench: &mut Bench<'_>,
    stage: Stage,
    percent: u64,
    measure: impl FnOnce(&mut Bench<'_>) -> Result<(), Halt>,
) -> Result<(), Halt> {
    if bench.findings.is_done(stage) {
        return Ok(());
    }
    let spent = bench.spent();
    let left = bench.budget().total.saturating_sub(spent);
    bench.begin(stage, Duration::from_nanos(left.as_nanos() / 100 * percent));
    match measure(bench) {
        Ok(()) => bench.findings.finish(stage),
        Err(Halt::OutOfTime) if bench.spent() < bench.budget().total => {
            bench.findings.note(format!("the time for {stage} was over before it was done"));
        }
        Err(halt) => return Err(halt),
    }
    Ok(())
}
