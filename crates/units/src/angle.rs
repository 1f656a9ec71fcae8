//! Angles of a spinning disk.

use core::ops::{Add, AddAssign, Sub};

use crate::Duration;

/// An angle in 2⁻³² of a revolution. Sums wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Angle(pub u32);

/// One revolution in the unit of [`Angle`].
pub const FULL_REVOLUTION: u64 = 1 << 32;

impl Angle {
    /// Where the index mark is.
    pub const ZERO: Self = Self(0);

    /// The angle that the disk sweeps in the time `after`, at `period` per revolution; rounded
    /// down.
    ///
    /// # Panics
    /// If the period is zero: a disk that does not rotate has no angle.
    pub fn swept(after: Duration, period: Duration) -> Self {
        assert!(period > Duration::ZERO, "a revolution takes time");
        let part = u128::from(after.as_nanos() % period.as_nanos()) * u128::from(FULL_REVOLUTION);
        Self(u32::try_from(part / u128::from(period.as_nanos())).expect("a part of a revolution"))
    }

    /// The time in which the disk sweeps this angle, at `period` per revolution; rounded up, so
    /// that a head that waits for it is never early.
    pub fn time(self, period: Duration) -> Duration {
        let nanos =
            (u128::from(self.0) * u128::from(period.as_nanos())).div_ceil(FULL_REVOLUTION.into());
        Duration::from_nanos(u64::try_from(nanos).expect("under one period"))
    }
}

impl Add for Angle {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for Angle {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The angle from `other` forward to `self`.
impl Sub for Angle {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_waits_as_told_is_never_early() {
        let period = Duration::from_nanos(8_333_333);
        for target in [1_u32, 77, 1 << 31, u32::MAX] {
            let waited = Angle(target).time(period);
            let reached = Angle::swept(waited, period);
            let early = waited < period && reached.0 < target;
            assert!(!early || target - reached.0 < 600, "{target}: {reached:?}");
        }
    }

    #[test]
    fn angles_wrap() {
        assert_eq!(Angle(3) - Angle(5), Angle(u32::MAX - 1));
        assert_eq!(
            Angle::swept(Duration::from_millis(15), Duration::from_millis(10)),
            Angle(1 << 31)
        );
    }
}
