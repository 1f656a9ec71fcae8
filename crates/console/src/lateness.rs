//! How late the emulated drives of a daemon were.

use std::fmt;

use daemon::{Lateness, Status};
use serde::Serialize;
use units::Duration;

/// How late the completions of emulated drives were noticed, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatenessUs {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

impl LatenessUs {
    /// The lateness of the disk where it is greatest, for each of the three figures.
    pub fn of(status: &Status) -> Self {
        let worst = |of: &dyn Fn(&Lateness) -> Duration| {
            let all = status.disks.iter().map(|disk| of(&disk.lateness).as_millis_f64() * 1e3);
            all.fold(0.0, f64::max)
        };
        Self {
            p50: worst(&|lateness| lateness.quantile(0.5)),
            p99: worst(&|lateness| lateness.quantile(0.99)),
            max: worst(&Lateness::max),
        }
    }

    /// The greater of each of the three figures, of two runs.
    #[must_use]
    pub fn or_worse(&self, other: &Self) -> Self {
        Self {
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
        }
    }
}

impl fmt::Display for LatenessUs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, max } = self;
        write!(f, "completions were late by p50 {p50:.0} µs, p99 {p99:.0} µs, max {max:.0} µs")
    }
}
