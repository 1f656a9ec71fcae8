//! Pieces in order: the regions in front of them are read, and opened for a writer, before a piece
//! needs them.
//!
//! A region that is opened costs a read and a durable write far from the data, for which the writes
//! to it wait. A writer in order has its regions opened several at a time while it writes the last
//! one that is open: few at first, so that one that ends soon opens few in vain.

use core::ops::Range;

use units::Extent;

use crate::pool::sums::area::{SUM_SECTORS, SUMS_OF_REGION, SumsArea, place_of, touched_sums};

/// The limit on runs that are followed at once.
const RUNS_MAX: usize = 16;

/// The limit on regions that are read, or opened, ahead of a run at once: 2 GiB of a disk. After a
/// crash their checksums are unknown.
const AHEAD_MAX: u32 = 8;

/// How many at first.
const AHEAD_FIRST: u32 = 4;

/// How far a piece may begin from the end of its run: requests that are in flight together arrive
/// in any order.
const WINDOW: u64 = (16 << 20) / (SUM_SECTORS * 512);

/// Pieces in order.
#[derive(Clone, Copy, Debug)]
struct Run {
    writes: bool,
    /// The end of its last piece, in 4 KiB of the disk.
    end: u64,
    /// What its pieces have covered, in 4 KiB.
    covered: u64,
    /// The regions that were last asked for ahead of it.
    ahead: u32,
    /// The first region that was not.
    until: u32,
    /// When it was used last, counted in pieces.
    used: u64,
}

/// The runs that are followed.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    followed: Vec<Run>,
    /// What a run has to cover before anything is done ahead of it, in 4 KiB.
    covered_min: u64,
    ahead_max: u32,
}

impl Runs {
    pub(crate) fn new(covered_min: u64, resident_max: usize) -> Self {
        assert!(covered_min > 0, "one piece is no run");
        let quarter = u32::try_from(resident_max / 4).unwrap_or(AHEAD_MAX);
        Self { followed: Vec::new(), covered_min, ahead_max: quarter.min(AHEAD_MAX) }
    }

    /// Takes a piece; returns the regions that are to be read, or opened, ahead of it.
    pub(crate) fn note(
        &mut self,
        (extent, writes): (Extent, bool),
        used: u64,
        area: SumsArea,
    ) -> Range<u32> {
        let sums = touched_sums(extent);
        let is_next =
            |run: &&mut Run| run.writes == writes && sums.start.abs_diff(run.end) < WINDOW;
        let Some(run) = self.followed.iter_mut().find(is_next) else {
            let until = region_of(sums.end - 1) + 1;
            let covered = sums.end - sums.start;
            self.follow(Run { writes, end: sums.end, covered, ahead: 0, until, used });
            return 0..0;
        };
        debug_assert!(run.used <= used, "pieces are counted");
        run.used = used;
        run.covered += sums.end - sums.start;
        run.end = run.end.max(sums.end);
        let current = region_of(run.end - 1);
        if run.covered < self.covered_min || current + 1 < run.until || self.ahead_max == 0 {
            return 0..0;
        }
        run.ahead = (run.ahead * 2).max(AHEAD_FIRST).min(self.ahead_max);
        let first = current + 1;
        run.until = (first + run.ahead).min(area.regions()).max(first);
        debug_assert!(run.until <= area.regions(), "regions of the disk");
        debug_assert!(current < first, "they are in front of it");
        first..run.until
    }

    /// Follows a run, in place of the one that was not used for longest.
    fn follow(&mut self, run: Run) {
        if self.followed.len() < RUNS_MAX {
            self.followed.push(run);
            return;
        }
        let oldest = self.followed.iter_mut().min_by_key(|run| run.used);
        *oldest.expect("some are followed") = run;
        debug_assert_eq!(self.followed.len(), RUNS_MAX, "another has its place");
    }
}

fn region_of(sum: u64) -> u32 {
    let (region, at) = place_of(sum);
    debug_assert!(at < SUMS_OF_REGION, "within its region");
    region
}

#[cfg(test)]
mod tests {
    use units::{Lba, Sectors};

    use super::*;
    use crate::pool::names::Blocks;

    const MIB: u64 = 2_048;
    const REGION: u64 = SUMS_OF_REGION as u64 * SUM_SECTORS;

    /// What is asked for ahead of one writer from `from` on, with the place where it was.
    fn asked(runs: &mut Runs, from: u64, sectors: u64) -> Vec<(u64, Range<u32>)> {
        let area = SumsArea::of(Blocks(255 * 40));
        let places = (from..from + sectors).step_by(usize::try_from(MIB).unwrap());
        let note = |start| {
            let extent = Extent::new(Lba(start), Sectors(MIB));
            (start, runs.note((extent, true), start, area))
        };
        places.map(note).filter(|(_, ahead)| !ahead.is_empty()).collect()
    }

    #[test]
    fn a_writer_in_order_has_more_regions_opened_each_time_before_it_needs_them() {
        let mut runs = Runs::new(8_192, 256);
        let asked = asked(&mut runs, 0, 20 * REGION);
        let ranges: Vec<Range<u32>> = asked.iter().map(|(_, ahead)| ahead.clone()).collect();
        assert_eq!(ranges, [1..5, 5..13, 13..21]);
        assert_eq!(asked[0].0, 31 * MIB, "after 32 MiB");
        assert!(asked.iter().all(|(at, ahead)| *at < u64::from(ahead.start) * REGION));
    }

    #[test]
    fn single_pieces_and_more_writers_than_are_followed_open_nothing_ahead() {
        let mut runs = Runs::new(8_192, 256);
        let area = SumsArea::of(Blocks(255 * 40));
        for nth in 0..400_u64 {
            let extent = Extent::new(Lba((nth % 20) * REGION + nth / 20 * MIB), Sectors(8));
            assert!(runs.note((extent, true), nth, area).is_empty(), "piece {nth}");
        }
        assert_eq!(runs.followed.len(), RUNS_MAX);
    }

    #[test]
    fn the_end_of_the_disk_ends_what_is_asked_for() {
        let mut runs = Runs::new(8_192, 256);
        let asked = asked(&mut runs, 37 * REGION, 3 * REGION);
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].1, 38..40);
    }
}
