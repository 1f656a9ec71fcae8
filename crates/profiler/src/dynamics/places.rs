//! By how much sectors come later than the map has it, place by place.
//!
//! A map is a few hundred lattices at most. Each slipped sector moves all behind it on by one, and a lattice is laid through
//! the middle of what they do: here its sectors come by 0.1 ms too soon, there as much too late. All ways that end in one
//! place are off by the same then, and more of them say nothing new. Every read off the media tells how late its
//! place is: the mean of the reads near it is believed as far as their number goes.

use units::{Angle, Lba, Sectors};

use super::num::{fraction, part, small};

/// Into how many places a disk is divided.
pub(crate) const PLACES: u64 = 256;
/// So many reads are as good as the belief that a place is where the map has it: their noise is some times what maps are off by.
const BELIEF: f64 = 4.0;
/// A place's mean goes on following what is seen there: one read counts for no less than this part.
const READS_MOST: u32 = 400;

/// What was seen of each place.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Sectors of one.
    each: u64,
    /// By how much later than on the map reads were seen, in ns, as a mean, and how many there were.
    late: Vec<(f64, u32)>,
}

impl Places {
    /// Nothing seen of a disk of so many sectors.
    pub(crate) fn new(sectors: Sectors) -> Self {
        let each = sectors.0.div_ceil(PLACES).max(1);
        let count = usize::try_from(sectors.0.div_ceil(each).max(1)).expect("few");
        Self { each, late: vec![(0.0, 0); count] }
    }

    fn nth(&self, lba: Lba) -> usize {
        usize::try_from(lba.0 / self.each).unwrap_or(usize::MAX).min(self.late.len() - 1)
    }

    /// By how much sectors of a place are believed to come later than the map has it, in ns.
    pub(crate) fn late(&self, lba: Lba) -> f64 {
        let (mean, count) = self.late[self.nth(lba)];
        let count = f64::from(count);
        mean * count / (count + BELIEF)
    }

    /// The same as an angle, for a turn of `period` ns.
    pub(crate) fn angle(&self, lba: Lba, period: f64) -> Angle {
        Angle(small(fraction(self.late(lba) / period) * part(1 << 32)))
    }

    /// A read of a place came so much later than the map has it, in ns.
    pub(crate) fn learn(&mut self, lba: Lba, late: f64) {
        let nth = self.nth(lba);
        let (mean, count) = &mut self.late[nth];
        *count = (*count + 1).min(READS_MOST);
        *mean += (late - *mean) / f64::from(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_believed_to_be_late_as_far_as_it_was_seen_and_no_other_for_it() {
        let mut places = Places::new(Sectors(1_000_000));
        let (here, beside, there) = (Lba(500_000), Lba(500_001), Lba(999_999));
        assert!(places.late(here).abs() < 1e-9);
        places.learn(here, 100e3);
        let once = places.late(here);
        assert!(once > 10e3 && once < 50e3, "{once} ns after one read");
        for _ in 0..200 {
            places.learn(beside, 100e3);
        }
        assert!((places.late(here) - 100e3).abs() < 3e3, "{} ns", places.late(here));
        assert!(places.late(there).abs() < 1e-9);
        // A hundredth of a turn of 10 ms.
        let angle = f64::from(places.angle(here, 10e6).0) / 4_294_967_296.0;
        assert!((angle - 0.01).abs() < 3e-4, "{angle} turns");
    }
}
