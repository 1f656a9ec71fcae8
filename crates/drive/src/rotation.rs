//! The spindle: the angle under the heads at each instant.
//!
//! A [`Phase`] counts 2⁻³² of a revolution since time zero, so that everything within one transfer
//! is exact: the end of one track and the start of the next are compared in the unit of the layout,
//! and a drive without skews does not lose a revolution to a rounded nanosecond.
//!
//! Invariant: `rotation.instant(rotation.phase(t)) == t` rounded up, never early by a nanosecond or
//! more.

use core::ops::{Add, AddAssign};

use units::{Angle, Duration, FULL_REVOLUTION, Instant};

/// The rotation since time zero, in 2⁻³² of a revolution. The low 32 bits are the angle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Phase(u128);

/// A stretch of rotation, in 2⁻³² of a revolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sweep(pub(crate) u64);

/// The rotation of one drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    /// One revolution in ns, under 2³¹ so that an angle times it fits 64 bits.
    period: u64,
}

impl Phase {
    /// The angle under the heads.
    #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the angle")]
    pub(crate) const fn angle(self) -> Angle {
        Angle(self.0 as u32)
    }

    /// The first moment from `self` on at which `angle` is under the heads.
    pub(crate) fn until(self, angle: Angle) -> Self {
        Self(self.0 + u128::from((angle - self.angle()).0))
    }

    /// How far the disk rotates from `earlier` to `self`; nothing if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Sweep {
        Sweep(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(u64::MAX))
    }
}

impl Add<Sweep> for Phase {
    type Output = Self;
    fn add(self, by: Sweep) -> Self {
        Self(self.0 + u128::from(by.0))
    }
}

impl AddAssign<Sweep> for Phase {
    fn add_assign(&mut self, by: Sweep) {
        *self = *self + by;
    }
}

impl Rotation {
    /// A disk that rotates once a `period`; the caller has checked that 0 < period < 2³¹ ns.
    pub(crate) fn new(period: Duration) -> Self {
        let period = period.as_nanos();
        assert!(period > 0 && period < 1 << 31, "a checked rotation period");
        Self { period }
    }

    /// One revolution.
    pub(crate) const fn period(self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// How far the disk has rotated at `at`, rounded down.
    pub(crate) fn phase(self, at: Instant) -> Phase {
        let (revolutions, rest) = (at.as_nanos() / self.period, at.as_nanos() % self.period);
        Phase(u128::from(revolutions) << 32 | u128::from((rest << 32) / self.period))
    }

    /// The instant at which the disk has rotated by `phase`, rounded up.
    pub(crate) fn instant(self, phase: Phase) -> Instant {
        let revolutions = u64::try_from(phase.0 >> 32).expect("an instant is under 584 years");
        let rest = u64::from(phase.angle().0) * self.period;
        Instant::from_nanos(revolutions * self.period + rest.div_ceil(FULL_REVOLUTION))
    }

    /// The rotation in `time`, rounded down: a head that moves for `time` arrives exactly then.
    pub(crate) fn sweep(self, time: Duration) -> Sweep {
        let (revolutions, rest) = (time.as_nanos() / self.period, time.as_nanos() % self.period);
        Sweep(revolutions * FULL_REVOLUTION + (rest << 32) / self.period)
    }

    /// The time of a rotation by `sweep`, rounded up.
    pub(crate) fn time(self, sweep: Sweep) -> Duration {
        let rest = (sweep.0 % FULL_REVOLUTION) * self.period;
        Duration::from_nanos(
            sweep.0 / FULL_REVOLUTION * self.period + rest.div_ceil(FULL_REVOLUTION),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_survives_the_way_through_the_phase() {
        let rotation = Rotation::new(Duration::from_nanos(8_333_333));
        for nanos in [0, 1, 8_333_332, 8_333_333, 123_456_789_012_345, u64::MAX / 4] {
            let at = Instant::from_nanos(nanos);
            assert_eq!(rotation.instant(rotation.phase(at)), at);
        }
    }

    #[test]
    fn the_angle_is_the_one_of_the_vocabulary() {
        let period = Duration::from_nanos(5_985_037);
        let rotation = Rotation::new(period);
        for nanos in [0, 77, 5_985_036, 99_999_999_999] {
            let turned = Angle::swept(Duration::from_nanos(nanos), period);
            assert_eq!(rotation.phase(Instant::from_nanos(nanos)).angle(), turned);
        }
    }

    #[test]
    fn waiting_for_the_angle_that_is_here_takes_no_time() {
        let here = Phase(7 << 32 | 5);
        assert_eq!(here.until(Angle(5)), here);
        assert_eq!(here.until(Angle(4)).since(here), Sweep(FULL_REVOLUTION - 1));
    }
}
