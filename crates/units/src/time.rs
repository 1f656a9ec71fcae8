//! Instants, durations and disk time, all in integer nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A point in time: nanoseconds since the epoch (the start of the simulation or of the daemon).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of wall time (or of virtual time), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// An amount or a balance of a disk's time, in nanoseconds. A balance is negative for a volume that
/// was served on credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskTime(i64);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` ns after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was.
    ///
    /// # Panics
    /// If `earlier` is later than `self`: time that runs backwards is a defect of the caller.
    pub fn since(self, earlier: Self) -> Duration {
        assert!(earlier.0 <= self.0, "time runs backwards: {} before {}", self.0, earlier.0);
        Duration(self.0 - earlier.0)
    }

    /// How long ago `earlier` was, or zero if it has not been yet.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The instant `by` before this one, at least the epoch.
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than anything lasts.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// In milliseconds, for display only.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds, for display only.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero if `other` is longer.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl DiskTime {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// `n` nanoseconds of disk time.
    pub const fn from_nanos(n: i64) -> Self {
        Self(n)
    }

    /// `n` microseconds of disk time.
    pub const fn from_micros(n: i64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds of disk time.
    pub const fn from_millis(n: i64) -> Self {
        Self(n * 1_000_000)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// In seconds, for display only.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// All of a stretch of wall time, spent on the disk.
///
/// # Panics
/// On more than 292 years.
impl From<Duration> for DiskTime {
    fn from(wall: Duration) -> Self {
        Self(i64::try_from(wall.0).expect("a stretch of disk time is under 292 years"))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("a duration is under 584 years"))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a duration is not negative"))
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.checked_mul(times).expect("a duration is under 584 years"))
    }
}

/// Rounds down.
impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl Add for DiskTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("a balance is under 292 years"))
    }
}

impl AddAssign for DiskTime {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for DiskTime {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a balance is under 292 years"))
    }
}

impl SubAssign for DiskTime {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for DiskTime {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl core::iter::Sum for DiskTime {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Duration(self.0))
    }
}

/// The largest unit that keeps three digits before the point: `1.5ms`, `85s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let thousandths = u128::from(self.0) * 1_000 / unit;
        let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        write!(f, "{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for DiskTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", Duration(self.0.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_display_as_configurations_write_them() {
        assert_eq!(Duration::from_micros(1_500).to_string(), "1.5ms");
        assert_eq!(Duration::from_secs(85).to_string(), "85s");
        assert_eq!(Duration::from_nanos(7).to_string(), "7ns");
        assert_eq!(DiskTime::from_millis(-3).to_string(), "-3ms");
    }

    #[test]
    #[should_panic(expected = "time runs backwards")]
    fn time_that_runs_backwards_is_a_defect() {
        let _ = Instant::ZERO.since(Instant::from_nanos(1));
    }

    #[test]
    fn the_far_future_stays_the_far_future() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
    }
}
