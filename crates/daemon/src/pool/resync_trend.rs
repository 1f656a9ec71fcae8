//! The time until the copies of a pool's mirrors are equal, from what was left of late.
//!
//! What is left is sampled by the maintenance thread. The rate is how fast it fell in the last
//! [`TREND_WINDOW`]. It is computed from samples alone, so that no reader disturbs it.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant};

/// The time over which the rate is measured: some operations at the slowest contract, and short
/// enough to follow clients' load.
pub const TREND_WINDOW: Duration = Duration::from_secs(30);

/// The least time over which a rate is measured: an operation makes several blocks equal at once.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// Samples in a window, at most.
const SAMPLES_MAX: usize = 64;

/// How fast copies are being made equal, and how long it will take at that rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncEstimate {
    /// The bytes per second by which what is left fell.
    pub bytes_per_s: u64,
    /// The time until nothing is left.
    pub time_left: Duration,
}

/// What was left to be made equal of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResyncTrend {
    samples: VecDeque<(Instant, Bytes)>,
}

impl ResyncTrend {
    /// Takes a sample. When more is left than before, a disk came back or missed writes: the rate
    /// is measured from there.
    pub(crate) fn record(&mut self, at: Instant, left: Bytes) {
        if left == Bytes::ZERO || self.samples.back().is_some_and(|(_, last)| *last < left) {
            self.samples.clear();
        }
        let is_old = |sample: &(Instant, Bytes)| at.since(sample.0) > TREND_WINDOW;
        while self.samples.len() == SAMPLES_MAX || self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        if left > Bytes::ZERO {
            self.samples.push_back((at, left));
        }
    }

    /// The estimate at the last sample. `None` while nothing is made equal, and in the first
    /// second.
    pub(crate) fn estimate(&self) -> Option<ResyncEstimate> {
        let ((from, before), (to, left)) = (self.samples.front()?, self.samples.back()?);
        let (span, fallen) = (to.since(*from), before.0 - left.0);
        if span < SPAN_MIN || fallen == 0 {
            return None;
        }
        let nanos = u128::from(left.0) * u128::from(span.as_nanos()) / u128::from(fallen);
        let rate = u128::from(fallen) * 1_000_000_000 / u128::from(span.as_nanos());
        Some(ResyncEstimate {
            bytes_per_s: u64::try_from(rate).unwrap_or(u64::MAX),
            time_left: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        })
    }
}

/// What was left of late to be made equal, and to be scrubbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trends<'a> {
    pub(crate) resync: &'a ResyncTrend,
    pub(crate) scrub: &'a ResyncTrend,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A trend with these samples of MiB left, half a second apart.
    fn trend(left: impl IntoIterator<Item = u64>) -> ResyncTrend {
        let mut trend = ResyncTrend::default();
        for (nth, left) in (0..).zip(left) {
            let at = Instant::ZERO + Duration::from_millis(500) * nth;
            trend.record(at, Bytes(left * MIB));
        }
        trend
    }

    #[test]
    fn the_time_left_is_what_is_left_at_the_rate_at_which_it_fell() {
        let estimate = trend([100, 95, 90, 85, 80]).estimate().expect("there is progress");
        assert_eq!(estimate.bytes_per_s, 10 * MIB);
        assert_eq!(estimate.time_left, Duration::from_secs(8));
    }

    #[test]
    fn without_progress_there_is_no_estimate() {
        assert_eq!(trend([]).estimate(), None);
        assert_eq!(trend([100]).estimate(), None);
        assert_eq!(trend([100, 90]).estimate(), None, "half a second is too short");
        assert_eq!(trend([100; 20]).estimate(), None, "nothing was made equal");
        // It stopped longer ago than the window.
        assert_eq!(trend((0..20).map(|_| 100).chain([50; 80])).estimate(), None);
    }

    #[test]
    fn the_rate_follows_the_load_within_the_window() {
        let slow = (0..200).map(|nth| 1_000 - nth);
        let fast = (0..61).map(|nth| 800 - 8 * nth);
        let estimate = trend(slow.chain(fast)).estimate().expect("there is progress");
        assert_eq!(estimate.bytes_per_s, 16 * MIB);
        assert_eq!(estimate.time_left, Duration::from_secs(20));
    }

    #[test]
    fn a_disk_that_comes_back_or_the_end_begins_a_new_measurement() {
        let again = trend([10, 5, 1, 900, 890, 880]).estimate().expect("there is progress");
        assert_eq!(again.bytes_per_s, 20 * MIB);
        assert_eq!(trend([10, 5, 1, 0]).estimate(), None);
        let later = trend([1, 0, 0, 0, 0, 100, 90, 80]).estimate().expect("there is progress");
        assert_eq!(later.time_left, Duration::from_secs(4));
    }
}
