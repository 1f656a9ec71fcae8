//! The write buffer: sectors that were answered and are not yet on the disk.
//!
//! Adjacent runs are merged. The disk is swept from the outside in, starting with the run nearest
//! to the heads, which is what makes a buffer effective. At intervals the oldest run is written
//! instead, so that a stream that keeps the heads in one place cannot hold the rest in memory.
//!
//! Invariants: runs are in order of address, do not touch, and are not empty; their lengths add up.

use units::{Extent, Instant, Lba, Sectors};

use crate::Model;
use crate::firmware::DestageBeforeRead;

/// Most runs of sectors that wait to be written: they are kept in order in one array.
pub const DIRTY_EXTENTS_MAX: usize = 1_024;
/// Most sectors that are written as one operation: how long a read may have to wait for one.
pub const DESTAGE_SECTORS_MAX: Sectors = Sectors(1_024);
/// The interval, in operations, at which the oldest run is written instead of the nearest.
pub const DESTAGE_OLDEST_EVERY: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Run {
    start: Lba,
    end: Lba,
    /// The number of the write that began it.
    age: u64,
}

/// The runs, and the operation under way.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    capacity: Sectors,
    /// How many runs there may be, with the one being written; they go to the disk in the order in
    /// which they came. Nothing means that the disk is swept and [`DIRTY_EXTENTS_MAX`] is the
    /// limit.
    segments: Option<usize>,
    /// The length of a segment, for a buffer that is swept although it has segments.
    run_max: Option<Sectors>,
    runs: Vec<Run>,
    sectors: u64,
    /// What is being written, until when.
    under_way: Option<(Extent, Instant)>,
    /// When the first run came into an empty buffer.
    since: Instant,
    writes: u64,
    operations: u32,
}

impl WriteBuffer {
    pub(crate) fn new(capacity: Sectors, segments: u32) -> Self {
        Self {
            capacity,
            segments: (segments > 0).then_some(segments as usize),
            run_max: None,
            runs: Vec::with_capacity(DIRTY_EXTENTS_MAX),
            sectors: 0,
            under_way: None,
            since: Instant::ZERO,
            writes: 0,
            operations: 0,
        }
    }

    /// The buffer of a model.
    pub(crate) fn of(model: &Model) -> Self {
        match model.firmware().destage_before_read {
            None => Self::new(model.write_buffer(), model.firmware().write_segments),
            Some(DestageBeforeRead { runs, run_max }) => {
                let capacity = Sectors((run_max.0 * u64::from(runs)).min(model.write_buffer().0));
                Self { run_max: Some(run_max), ..Self::new(capacity, runs) }
            }
        }
    }

    /// The longest write that the buffer takes.
    pub(crate) fn write_max(&self) -> Sectors {
        self.run_max.map_or(self.capacity, |run_max| run_max.min(self.capacity))
    }

    /// Whether a run that is not being written ends at `end`.
    pub(crate) fn ends_at(&self, end: Lba) -> bool {
        self.runs.iter().any(|run| run.end == end)
    }

    /// Sectors that are not durable at `at`.
    pub(crate) fn dirty(&self, at: Instant) -> Sectors {
        let under_way = self.under_way(at).map_or(0, |(extent, _)| extent.len.0);
        Sectors(self.sectors + under_way)
    }

    /// Whether runs wait that are not being written.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Since when runs wait.
    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    /// What is being written at `at`, and until when.
    pub(crate) fn under_way(&self, at: Instant) -> Option<(Extent, Instant)> {
        self.under_way.filter(|(_, end)| *end > at)
    }

    pub(crate) fn begun(&mut self, extent: Extent, end: Instant) {
        self.under_way = Some((extent, end));
    }

    /// Whether `extent` has room at `at`.
    pub(crate) fn fits(&self, extent: Extent, at: Instant) -> bool {
        if self.dirty(at) + extent.len > self.capacity {
            return false;
        }
        let Some(segments) = self.segments else { return self.runs.len() < DIRTY_EXTENTS_MAX };
        let under_way = self.under_way(at);
        if let (Some(run_max), Some(run)) =
            (self.run_max, self.runs.iter().find(|run| run.end == extent.start))
        {
            return run.end.0 - run.start.0 + extent.len.0 <= run_max.0;
        }
        let goes_on = |end: Lba| end == extent.start;
        // What goes on where a run ends is part of it.
        self.runs.len() + usize::from(under_way.is_some()) < segments
            || self.runs.iter().any(|run| goes_on(run.end))
            || self.runs.is_empty() && under_way.is_some_and(|(extent, _)| goes_on(extent.end()))
    }

    /// Whether all of `extent` is in the buffer at `at`.
    pub(crate) fn holds(&self, extent: Extent, at: Instant) -> bool {
        let behind = self.runs.partition_point(|run| run.start <= extent.start);
        behind > 0 && self.runs[behind - 1].end >= extent.end()
            || self.under_way(at).is_some_and(|(under_way, _)| under_way.contains(extent))
    }

    /// Takes in `extent` at `at`; the caller has made room.
    pub(crate) fn insert(&mut self, extent: Extent, at: Instant) {
        debug_assert!(!extent.is_empty(), "a write has sectors");
        if self.runs.is_empty() {
            self.since = at;
        }
        self.writes += 1;
        let (mut start, mut end, mut age) = (extent.start, extent.end(), self.writes);
        let first = self.runs.partition_point(|run| run.end < start);
        let behind = first + self.runs[first..].partition_point(|run| run.start <= end);
        for run in &self.runs[first..behind] {
            self.sectors -= run.end.0 - run.start.0;
            (start, end, age) = (start.min(run.start), end.max(run.end), age.min(run.age));
        }
        self.sectors += end.0 - start.0;
        let run = Run { start, end, age };
        if first == behind {
            assert!(self.runs.len() < DIRTY_EXTENTS_MAX, "the caller has made room");
            self.runs.insert(first, run);
        } else {
            self.runs[first] = run;
            self.runs.drain(first + 1..behind);
        }
    }

    /// Takes out the next run to write, or the head of it.
    pub(crate) fn take_next(&mut self, heads: Lba) -> Option<Extent> {
        self.operations = self.operations.wrapping_add(1);
        let in_order = self.segments.is_some() && self.run_max.is_none();
        let index = if in_order || self.operations.is_multiple_of(DESTAGE_OLDEST_EVERY) {
            (0..self.runs.len()).min_by_key(|index| self.runs[*index].age)?
        } else {
            let above = self.runs.partition_point(|run| run.start < heads);
            if above < self.runs.len() { above } else { 0 }
        };
        let run = self.runs.get_mut(index)?;
        let len = Sectors((run.end.0 - run.start.0).min(DESTAGE_SECTORS_MAX.0));
        let extent = Extent::new(run.start, len);
        self.sectors -= len.0;
        run.start = extent.end();
        if run.start == run.end {
            self.runs.remove(index);
        }
        Some(extent)
    }

    /// `extent` is about to be written past the buffer: takes out what it replaces, and what lies
    /// directly in front of it, which goes to the disk with it. Returns all that is to be written.
    pub(crate) fn take_with(&mut self, extent: Extent) -> Extent {
        let first = self.runs.partition_point(|run| run.end < extent.start);
        let behind = first + self.runs[first..].partition_point(|run| run.start < extent.end());
        let (mut start, mut rest) = (extent.start, None);
        for run in &self.runs[first..behind] {
            self.sectors -= run.end.0 - run.start.0;
            start = start.min(run.start);
            if run.end > extent.end() {
                rest = Some(Run { start: extent.end(), ..*run });
            }
        }
        // At most the last of those taken leaves a rest, so there is room for it.
        self.runs.drain(first..behind);
        if let Some(rest) = rest {
            self.sectors += rest.end.0 - rest.start.0;
            self.runs.insert(first, rest);
        }
        Extent::new(start, Sectors(extent.end().0 - start.0))
    }

    /// Checks the invariants that the rest of the crate relies on.
    pub(crate) fn invariants(&self) {
        let sum: u64 = self.runs.iter().map(|run| run.end.0 - run.start.0).sum();
        assert_eq!(sum, self.sectors, "the lengths add up");
        assert!(self.runs.iter().all(|run| run.start < run.end), "no run is empty");
        assert!(self.runs.windows(2).all(|pair| pair[0].end < pair[1].start), "no two runs touch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    fn buffer(extents: &[(u64, u64)]) -> WriteBuffer {
        let mut buffer = WriteBuffer::new(Sectors(1 << 20), 0);
        for (start, len) in extents {
            buffer.insert(extent(*start, *len), Instant::ZERO);
            buffer.invariants();
        }
        buffer
    }

    #[test]
    fn writes_that_touch_or_overlap_are_one_run() {
        let mut buffer = buffer(&[(0, 8), (16, 8), (8, 8), (20, 20), (100, 8)]);
        assert_eq!(buffer.dirty(Instant::ZERO), Sectors(48));
        assert_eq!(buffer.take_next(Lba(0)), Some(extent(0, 40)));
        assert_eq!(buffer.take_next(Lba(40)), Some(extent(100, 8)));
        assert_eq!(buffer.take_next(Lba(108)), None);
    }

    #[test]
    fn the_nearest_run_above_the_heads_goes_first_and_then_from_the_start() {
        let mut buffer = buffer(&[(100, 8), (200, 8), (300, 8)]);
        let order: Vec<u64> =
            (0..3).map(|_| buffer.take_next(Lba(150)).expect("a run").start.0).collect();
        assert_eq!(order, [200, 300, 100]);
    }

    #[test]
    fn a_stream_at_the_heads_does_not_keep_the_oldest_run_in_memory() {
        let mut buffer = buffer(&[(0, 8)]);
        let mut heads = 1_000;
        let mut operations = 0;
        loop {
            buffer.insert(extent(heads, 8), Instant::ZERO);
            operations += 1;
            if buffer.take_next(Lba(heads)) == Some(extent(0, 8)) {
                break;
            }
            heads += 8;
            assert!(operations <= DESTAGE_OLDEST_EVERY, "the oldest run starves");
        }
    }

    #[test]
    fn a_write_past_the_buffer_takes_the_run_in_front_with_it_and_leaves_what_is_behind() {
        let mut buffer = buffer(&[(0, 8), (10, 10), (22, 8)]);
        assert_eq!(buffer.take_with(extent(20, 4)), extent(10, 14));
        buffer.invariants();
        assert_eq!(buffer.dirty(Instant::ZERO), Sectors(14));
        assert!(buffer.holds(extent(24, 6), Instant::ZERO));
        assert!(!buffer.holds(extent(22, 2), Instant::ZERO));
    }
}
