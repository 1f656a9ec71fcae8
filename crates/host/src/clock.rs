//! The clock: the only reader of the system's time.

use std::time::Instant as SystemInstant;

use rustix::time::{ClockId, clock_gettime};
use units::{Duration, Instant};

/// A monotonic clock that counts from its own start. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: SystemInstant,
}

impl Clock {
    /// A clock that reads [`Instant::ZERO`] now.
    #[expect(clippy::disallowed_methods, reason = "the one reader of the system's clock")]
    pub fn start() -> Self {
        Self { epoch: SystemInstant::now() }
    }

    /// The time since the clock was started.
    ///
    /// # Panics
    /// After 584 years.
    pub fn now(&self) -> Instant {
        let nanos = self.epoch.elapsed().as_nanos();
        Instant::ZERO + Duration::from_nanos(u64::try_from(nanos).expect("under 584 years"))
    }
}

/// The time of day, in whole seconds since 1970 (UTC). It can jump, and serves only what outlasts
/// the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(u64);

impl WallTime {
    /// The system's time of day; 1970 if it is set to an earlier one.
    pub fn now() -> Self {
        Self(u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0))
    }

    /// The time that is this number of seconds after the beginning of 1970.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// The seconds since the beginning of 1970.
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

/// The processor time that the calling thread has used, as accounted by the kernel.
pub fn thread_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |raw: i64, nanos| u64::try_from(raw).unwrap_or(0).saturating_mul(nanos);
    Duration::from_nanos(part(time.tv_sec, 1_000_000_000).saturating_add(part(time.tv_nsec, 1)))
}
