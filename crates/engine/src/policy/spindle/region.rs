//! Where on the disk the commands of a volume lie, as far as was learned.
//!
//! The mean place of a volume's commands, and their mean deviation from it, are learned. Two
//! volumes are *interleaved* if their means differ by little beside their deviations, and the
//! deviations by little beside each other: the heads, wherever they are, are then as near to
//! requests of the one as of the other.

use units::Lba;

/// The EWMA divisor of places, and the commands before a region is known: requests that are chosen
/// by their distance lie near each other, so that means are of many.
const PLACE_DIVISOR: i64 = 256;
const COMMANDS_MIN: u32 = 256;
const _: () = assert!(COMMANDS_MIN as i64 == PLACE_DIVISOR);
/// The means of interleaved volumes differ by at most a deviation divided by this.
const MEANS_DIVISOR: u64 = 2;
/// The deviations of interleaved volumes differ by at most this factor.
const DEVIATIONS_FACTOR: i64 = 2;

/// Where a volume's commands lie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Region {
    mean: i64,
    deviation: i64,
    /// The commands that were learned from, up to [`COMMANDS_MIN`].
    known: u32,
}

impl Region {
    /// A command begins at `start`.
    pub(super) fn learn(&mut self, start: Lba) {
        let start = i64::try_from(start.0).unwrap_or(i64::MAX / 2);
        // The first ones count for more: the mean is one of all of them.
        self.known = (self.known + 1).min(COMMANDS_MIN);
        let known = self.known;
        // By a constant once it is: a division takes ten times as long as a shift.
        let part = |value: i64| {
            if known == COMMANDS_MIN { value / PLACE_DIVISOR } else { value / i64::from(known) }
        };
        self.mean += part(start - self.mean);
        let off = start.abs_diff(self.mean).cast_signed();
        self.deviation += part(off - self.deviation);
        debug_assert!(self.deviation >= 0, "a deviation is not negative: {}", self.deviation);
    }

    /// Whether the commands of both lie among each other, as far as is known.
    pub(super) fn is_interleaved(&self, other: &Self) -> bool {
        if self.known < COMMANDS_MIN || other.known < COMMANDS_MIN {
            return false;
        }
        let less = self.deviation.min(other.deviation);
        let more = self.deviation.max(other.deviation);
        debug_assert!(less >= 0, "a deviation is not negative: {less}");
        let apart = self.mean.abs_diff(other.mean);
        apart <= less.unsigned_abs() / MEANS_DIVISOR && more / DEVIATIONS_FACTOR <= less
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The region of commands from `first` on, spread over `len` sectors.
    fn region(first: u64, len: u64) -> Region {
        let mut region = Region::default();
        for number in 0..2_000_u64 {
            region.learn(Lba(first + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len));
        }
        region
    }

    #[test]
    fn volumes_over_the_same_region_are_interleaved() {
        let whole = region(0, 1_000_000);
        assert!(whole.is_interleaved(&region(1, 1_000_000)));
        assert!(whole.is_interleaved(&region(50_000, 900_000)));
    }

    #[test]
    fn volumes_beside_each_other_are_not_interleaved_nor_a_small_one_inside_a_large_one() {
        let whole = region(0, 1_000_000);
        assert!(!region(0, 500_000).is_interleaved(&region(500_000, 500_000)));
        assert!(!region(0, 600_000).is_interleaved(&region(400_000, 600_000)));
        assert!(!whole.is_interleaved(&region(400_000, 200_000)));
        assert!(!region(0, 1).is_interleaved(&region(100, 1)));
    }

    #[test]
    fn a_region_of_few_commands_is_not_known() {
        let mut few = Region::default();
        few.learn(Lba(500_000));
        assert!(!few.is_interleaved(&region(0, 1_000_000)));
        assert!(!few.is_interleaved(&few));
    }
}
