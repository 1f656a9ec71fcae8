//! Scaling time by an exact factor.

use core::fmt;
use core::str::FromStr;

use units::{Duration, Instant};

use crate::limits::{SCALE_MAX, TRACE_TIME_MAX};
use crate::text::nanos;

/// The factor of times, in 10⁻⁹: 2 is half as fast, 0.5 twice as fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(u64);

const ONE: u64 = 1_000_000_000;

impl Scale {
    /// The times of the trace.
    pub const ONE: Self = Self(ONE);

    /// The accepted factors, for messages.
    pub const EXPECTED: &str = "a factor above 0 and up to 100, such as 0.5 (twice as fast)";

    /// The scaled arrival time.
    ///
    /// # Panics
    /// The time is past [`TRACE_TIME_MAX`], which no reader returns.
    pub fn instant(self, at: Instant) -> Instant {
        Instant::ZERO + self.duration(at.since(Instant::ZERO))
    }

    /// The scaled duration.
    ///
    /// # Panics
    /// The time is past [`TRACE_TIME_MAX`], which no reader returns.
    pub fn duration(self, duration: Duration) -> Duration {
        assert!(duration <= TRACE_TIME_MAX, "a trace's times are bounded");
        let nanos = u128::from(duration.as_nanos()) * u128::from(self.0) / u128::from(ONE);
        Duration::from_nanos(u64::try_from(nanos).expect("a factor is bounded"))
    }
}

impl Default for Scale {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Scale {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = nanos(text, ONE).and_then(|parts| u64::try_from(parts).ok());
        parts.filter(|parts| (1..=SCALE_MAX * ONE).contains(parts)).map(Self).ok_or(Self::EXPECTED)
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:09}", self.0 / ONE, self.0 % ONE);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_exact_and_bounded() {
        let third: Scale = "0.333333333".parse().expect("a factor");
        assert_eq!(third.duration(Duration::from_secs(1)), Duration::from_nanos(333_333_333));
        assert_eq!("2".parse(), Ok(Scale(2 * ONE)));
        assert_eq!(
            "100".parse::<Scale>().expect("the largest").duration(TRACE_TIME_MAX).as_nanos() / 100,
            TRACE_TIME_MAX.as_nanos()
        );
        for bad in ["0", "-1", "101", "", "x", "1e2", "0.0000000001"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
        assert_eq!((third.to_string(), Scale::ONE.to_string()), ("0.333333333".into(), "1".into()));
    }
}
