//! `spindle bench`: measurements with real clients.

mod preempt;
mod shares;

use units::Duration;

pub(crate) use preempt::preempt;
pub(crate) use shares::shares;

/// A measurement lasts as long as it was asked to.
#[expect(clippy::disallowed_methods, reason = "a measurement's length, not a synchronisation")]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}
