//! A wait that ends to the microsecond: the kernel wakes threads late, so the end of the wait polls
//! the clock.

use units::{Duration, Instant};

use crate::Clock;

/// Time before the end of a wait at which the thread asks to be woken: what an idle machine takes
/// to wake it.
const WAKEUP_MARGIN: Duration = Duration::from_micros(120);

/// Waits until `at`, and returns at once if it has passed.
pub fn wait_until(clock: Clock, at: Instant) {
    loop {
        let left = at.saturating_since(clock.now());
        if left == Duration::ZERO {
            return;
        }
        if left > WAKEUP_MARGIN {
            let sleep = left.saturating_sub(WAKEUP_MARGIN);
            std::thread::park_timeout(std::time::Duration::from_nanos(sleep.as_nanos()));
        } else {
            core::hint::spin_loop();
        }
    }
}
