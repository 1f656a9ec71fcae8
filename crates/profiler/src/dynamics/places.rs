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
/// So many places with so many reads tell by how much maps are off at all.
const PLACES_LEAST: u64 = 8;
const READS_LEAST: u32 = 4;
/// And it is weighed anew after so many reads.
const WEIGHED_EVERY: u32 = 32;
/// A place's mean goes on following what is seen there: one read counts for no less than this part.
const READS_MOST: u32 = 400;

/// What was seen of each place.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Sectors of one.
    each: u64,
    /// By how much later than on the map reads were seen, in ns, as a mean, and how many there were.
    late: Vec<(f64, u32)>,
    /// So many reads are as good as the belief that a place is where the map has it.
    belief: f64,
    /// Squares of what single reads are away from their place's mean, and how many.
    squares: (f64, u32),
}

impl Places {
    /// Nothing seen of a disk of so many sectors.
    pub(crate) fn new(sectors: Sectors) -> Self {
        let each = sectors.0.div_ceil(PLACES).max(1);
        let count = usize::try_from(sectors.0.div_ceil(each).max(1)).expect("few");
        Self { each, late: vec![(0.0, 0); count], belief: f64::INFINITY, squares: (0.0, 0) }
    }

    fn nth(&self, lba: Lba) -> usize {
        usize::try_from(lba.0 / self.each).unwrap_or(usize::MAX).min(self.late.len() - 1)
    }

    /// By how much sectors of a place are believed to come later than the map has it, in ns.
    pub(crate) fn late(&self, lba: Lba) -> f64 {
        let (mean, count) = self.late[self.nth(lba)];
        let count = f64::from(count);
        mean * count / (count + self.belief)
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
        let (away, reads) = (late - *mean, f64::from(*count));
        *mean += away / reads;
        if *count > 1 {
            // What it is away from the mean of those before it varies by their noise, too.
            self.squares.0 += away * away * (reads - 1.0) / reads;
            self.squares.1 += 1;
            if self.squares.1.is_multiple_of(WEIGHED_EVERY) {
                self.weigh();
            }
        }
    }

    /// What places' means vary by more than the noise of their reads makes them vary is what the map is off by.
    fn weigh(&mut self) {
        let noise = self.squares.0 / f64::from(self.squares.1);
        let known = self.late.iter().filter(|(_, count)| *count >= READS_LEAST);
        let (mut places, mut reads, mut more) = (0, 0.0, 0.0);
        for (mean, count) in known {
            let count = f64::from(*count);
            places += 1;
            reads += count;
            more += count * mean * mean - noise;
        }
        // By chance it comes to so much or less in five of six maps that are off by nothing.
        let chance = (2.0 * part(places)).sqrt() * noise;
        let off = (more - chance) / reads;
        let tells = places >= PLACES_LEAST && off > 0.0;
        self.belief = if tells { noise / off } else { f64::INFINITY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of a map of which every other place is late by so much and the rest as much too soon, with noise.
    fn seen(off: f64) -> Places {
        let mut places = Places::new(Sectors(PLACES));
        // Sums of twelve even draws: as near to a bell as it takes.
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            part(state >> 40) / part(1 << 24) - 0.5
        };
        for nth in 0..PLACES * 20 {
            let noise: f64 = (0..12).map(|_| draw()).sum();
            let late = if nth % 2 == 0 { off } else { -off };
            places.learn(Lba(nth % PLACES), late + noise * 200e3);
        }
        places
    }

    #[test]
    fn a_place_is_late_as_far_as_places_differ_by_more_than_noise() {
        let (right, wrong) = (seen(0.0), seen(100e3));
        for nth in 0..PLACES {
            let late = if nth % 2 == 0 { 100e3 } else { -100e3 };
            let off = wrong.late(Lba(nth)) - late;
            assert!(off.abs() < 150e3, "place {nth} of a map that is off: {off} ns");
            assert!(right.late(Lba(nth)).abs() < 20e3, "place {nth} of one that is not");
        }
        let square = |nth: u64, late: f64| (wrong.late(Lba(nth)) - late).powi(2);
        let left: f64 =
            (0..PLACES).map(|nth| square(nth, if nth % 2 == 0 { 100e3 } else { -100e3 })).sum();
        let left = (left / part(PLACES)).sqrt();
        assert!(left < 50e3, "of 100 us there are {left} ns left");
        // A hundredth of a turn of 10 ms, more or less.
        let angle = f64::from(wrong.angle(Lba(0), 10e6).0) / 4_294_967_296.0;
        assert!((angle - 0.01).abs() < 0.01, "{angle} turns");
    }
}
