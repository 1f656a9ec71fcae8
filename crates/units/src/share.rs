//! Shares of a whole.

use core::fmt;

use crate::{DiskTime, Duration};

/// A share of something, in parts of a thousand million (10⁻⁹): 30 % is `Share(300_000_000)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

const WHOLE: u32 = 1_000_000_000;

impl Share {
    /// Zero.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const ALL: Self = Self(WHOLE);

    /// The share of `ppb` parts in 10⁻⁹.
    ///
    /// # Panics
    /// On more than the whole.
    pub const fn from_ppb(ppb: u32) -> Self {
        assert!(ppb <= WHOLE, "a share is at most the whole");
        Self(ppb)
    }

    /// The share of `percent` hundredths.
    ///
    /// # Panics
    /// On more than the whole.
    pub const fn from_percent(percent: u32) -> Self {
        Self::from_ppb(percent * (WHOLE / 100))
    }

    /// In 10⁻⁹.
    pub const fn ppb(self) -> u32 {
        self.0
    }

    /// As a fraction of one, for display only.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// Whether it is nothing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The disk time that this share of `wall` amounts to, rounded down.
    ///
    /// # Panics
    /// On more than 292 years.
    pub fn of(self, wall: Duration) -> DiskTime {
        // Under 18 s the product fits 64 bits, whose division costs a tenth.
        let short = wall.as_nanos().checked_mul(u64::from(self.0));
        let nanos = match short {
            Some(product) => u128::from(product / u64::from(WHOLE)),
            None => u128::from(wall.as_nanos()) * u128::from(self.0) / u128::from(WHOLE),
        };
        DiskTime::from_nanos(
            i64::try_from(nanos).expect("a stretch of disk time is under 292 years"),
        )
    }

    /// The time in which this share accrues `amount`, rounded up; `None` if the share is zero and
    /// the amount is not. A negative amount takes no time.
    pub fn time_to_accrue(self, amount: DiskTime) -> Option<Duration> {
        let Ok(nanos @ 1..) = u64::try_from(amount.as_nanos()) else { return Some(Duration::ZERO) };
        if self.0 == 0 {
            return None;
        }
        let wall = (u128::from(nanos) * u128::from(WHOLE)).div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(wall).unwrap_or(u64::MAX)))
    }

    /// The time that something takes at this share of its speed if it takes `time` at full speed:
    /// `time` divided by the share, rounded up.
    ///
    /// # Panics
    /// On a share of zero, or above 584 years.
    pub fn stretched(self, time: Duration) -> Duration {
        assert!(self.0 > 0, "nothing ends at no speed");
        let nanos = (u128::from(time.as_nanos()) * u128::from(WHOLE)).div_ceil(self.0.into());
        Duration::from_nanos(u64::try_from(nanos).expect("a time is under 584 years"))
    }

    /// The sum, or `None` above the whole.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let sum = self.0 + other.0;
        (sum <= WHOLE).then_some(Self(sum))
    }

    /// `self` without `other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `30%`, `0.25%`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / (WHOLE / 100), self.0 % (WHOLE / 100));
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{rest:07}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_accrue_an_amount_accrues_it() {
        for ppb in [1, 3, 300_000_000, 999_999_999, WHOLE] {
            for nanos in [1_i64, 300_000, 20_000_000, 1_000_000_000] {
                let share = Share::from_ppb(ppb);
                let wall = share.time_to_accrue(DiskTime::from_nanos(nanos)).expect("not nothing");
                assert!(share.of(wall).as_nanos() >= nanos, "{share} {nanos}");
            }
        }
        assert_eq!(Share::NONE.time_to_accrue(DiskTime::from_nanos(1)), None);
        assert_eq!(Share::NONE.time_to_accrue(DiskTime::from_nanos(-1)), Some(Duration::ZERO));
    }

    #[test]
    fn a_stretched_time_is_divided_by_the_share_and_rounded_up() {
        let stretched =
            |ppb, nanos| Share::from_ppb(ppb).stretched(Duration::from_nanos(nanos)).as_nanos();
        assert_eq!(stretched(500_000_000, 3), 6);
        assert_eq!(stretched(300_000_000, 1), 4);
        assert_eq!(stretched(WHOLE, 8_333_333), 8_333_333);
    }

    #[test]
    fn shares_display_as_configurations_write_them() {
        assert_eq!(Share::from_percent(70).to_string(), "70%");
        assert_eq!(Share::from_ppb(2_500_000).to_string(), "0.25%");
    }

    #[test]
    fn shares_do_not_add_up_to_more_than_the_whole() {
        assert_eq!(Share::from_percent(60).checked_add(Share::from_percent(41)), None);
        assert_eq!(Share::from_percent(60).checked_add(Share::from_percent(40)), Some(Share::ALL));
    }
}
