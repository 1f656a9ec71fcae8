//! The clock: the one place that asks what time it is.

use std::time::Instant as SystemInstant;

use rustix::time::{ClockId, clock_gettime};
use units::{Duration, Instant};

/// The time since the daemon's beginning. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    beginning: SystemInstant,
}

impl Clock {
    /// A clock that begins now.
    #[expect(clippy::disallowed_methods, reason = "this is the daemon's clock")]
    pub fn start() -> Self {
        Self { beginning: SystemInstant::now() }
    }

    /// The time.
    ///
    /// # Panics
    /// After 584 years.
    pub fn now(&self) -> Instant {
        let nanos = self.beginning.elapsed().as_nanos();
        Instant::ZERO + Duration::from_nanos(u64::try_from(nanos).expect("under 584 years"))
    }
}

/// What this thread has taken of a processor so far, as far as the kernel tells.
pub fn thread_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |raw: i64, nanos| u64::try_from(raw).unwrap_or(0).saturating_mul(nanos);
    Duration::from_nanos(part(time.tv_sec, 1_000_000_000).saturating_add(part(time.tv_nsec, 1)))
}
