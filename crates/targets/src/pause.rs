//! Waiting for an instant, to the microsecond: threads are woken late, so the last of it is spent looking at the clock.

use daemon::Clock;
use units::{Duration, Instant};

/// How much earlier a thread asks to be woken than it is needed: what a quiet machine takes to wake it.
const EARLY: Duration = Duration::from_micros(120);

/// Returns at `at`, or at once if it has passed.
pub(crate) fn until(clock: Clock, at: Instant) {
    loop {
        let left = at.saturating_since(clock.now());
        if left == Duration::ZERO {
            return;
        }
        if left > EARLY {
            let asleep = left.saturating_sub(EARLY);
            std::thread::park_timeout(std::time::Duration::from_nanos(asleep.as_nanos()));
        } else {
            core::hint::spin_loop();
        }
    }
}
