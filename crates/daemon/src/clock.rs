//! The clock: the one place that asks what time it is.

use std::time::Instant as SystemInstant;

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
