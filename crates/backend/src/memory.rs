//! Disks that take no time of their own: what is measured against them is everything else.
//!
//! Both answer within [`Disk::submit`], and use the buffers that they are given again, so that a command asks for no
//! memory.

use std::collections::VecDeque;

use units::{Extent, Instant, Op, SECTOR_BYTES, Sectors};

use crate::{Disk, Failure, Finished, Job, Space};

/// Sectors whose state is known together.
const PAGE: Sectors = Sectors(128);

/// A disk of memory, all of it taken when it is made and touched when it is written.
#[derive(Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    /// Of each page, whether something was written to it.
    written: Vec<bool>,
    done: Done,
}

/// A disk that forgets what is written. What it answers reads with is of no meaning, and no zeroes: those would not be
/// sent to a client that understands a hole.
#[derive(Debug)]
pub struct Null {
    capacity: Sectors,
    done: Done,
}

/// What was done and not reaped.
#[derive(Debug, Default)]
struct Done {
    jobs: VecDeque<Finished>,
    /// When the last of them was submitted.
    at: Instant,
}

impl Done {
    fn push(&mut self, job: Job, result: Result<Vec<u8>, Failure>, now: Instant) {
        self.jobs.push_back(Finished { tag: job.tag, result, late: units::Duration::ZERO });
        self.at = now;
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.jobs.is_empty()).then_some(self.at)
    }
}

impl Memory {
    /// So many sectors, all zeroes.
    pub fn new(capacity: Sectors) -> Self {
        let bytes = vec![0; capacity.bytes_usize()];
        let written = vec![false; index(capacity.0.div_ceil(PAGE.0))];
        Self { bytes, written, done: Done::default() }
    }

    fn perform(&mut self, job: &mut Job) -> Vec<u8> {
        let mut data = core::mem::take(&mut job.data);
        let extent = job.operation.extent;
        let start = index(extent.start.0 * SECTOR_BYTES);
        let place = start..start + extent.len.bytes_usize();
        match job.operation.op {
            Op::Read => {
                data.clear();
                data.extend_from_slice(&self.bytes[place]);
            }
            Op::Write => self.bytes[place].copy_from_slice(&data),
            Op::WriteZeroes | Op::Trim => self.bytes[place].fill(0),
            Op::Flush | Op::Seek => {}
        }
        if job.operation.op.writes() {
            self.note(extent, job.operation.op != Op::Write && !job.no_hole);
        }
        data
    }

    /// Takes down that something was written here, or that nothing is left of what was.
    fn note(&mut self, extent: Extent, zeroed: bool) {
        let (start, end) = (extent.start.0, extent.end().0);
        let whole = (start.div_ceil(PAGE.0), end / PAGE.0);
        let touched = (start / PAGE.0, end.div_ceil(PAGE.0));
        let (from, to) = if zeroed { whole } else { touched };
        if from < to {
            self.written[index(from)..index(to)].fill(!zeroed);
        }
    }
}

impl Disk for Memory {
    fn capacity(&self) -> Sectors {
        Sectors(self.bytes.len() as u64 / SECTOR_BYTES)
    }

    fn submit(&mut self, mut job: Job, now: Instant) {
        let data = self.perform(&mut job);
        self.done.push(job, Ok(data), now);
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_event()
    }

    fn reap(&mut self, _: Instant) -> Option<Finished> {
        self.done.jobs.pop_front()
    }

    fn space(&mut self, extent: Extent) -> Option<(Space, Sectors)> {
        let first = extent.start.0 / PAGE.0;
        let written = self.written[index(first)];
        let pages = self.written[index(first)..].iter();
        let alike = pages.take_while(|page| **page == written).count() as u64;
        let until = (first + alike) * PAGE.0 - extent.start.0;
        let space = if written { Space::Taken } else { Space::Hole };
        Some((space, extent.len.min(Sectors(until))))
    }
}

impl Null {
    /// As if it held so many sectors.
    pub const fn new(capacity: Sectors) -> Self {
        let done = Done { jobs: VecDeque::new(), at: Instant::ZERO };
        Self { capacity, done }
    }
}

impl Disk for Null {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, mut job: Job, now: Instant) {
        assert!(job.operation.extent.end().0 <= self.capacity.0, "inside the disk");
        let mut data = core::mem::take(&mut job.data);
        if job.operation.op == Op::Read {
            data.resize(job.operation.extent.len.bytes_usize(), 0xff);
        }
        self.done.push(job, Ok(data), now);
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_event()
    }

    fn reap(&mut self, _: Instant) -> Option<Finished> {
        self.done.jobs.pop_front()
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("it fits the address space")
}

#[cfg(test)]
mod tests {
    use units::{Lba, Operation};

    use super::*;
    use crate::Tag;

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    fn done(disk: &mut impl Disk, op: Op, extent: Extent, data: Vec<u8>) -> Vec<u8> {
        let operation = Operation { op, extent, fua: false };
        let now = Instant::ZERO;
        disk.submit(Job { tag: Tag(7), operation, data, no_hole: false }, now);
        assert_eq!(disk.next_event(), Some(now), "it is done when it is submitted");
        let finished = disk.reap(now).expect("it is done");
        assert_eq!((finished.tag, disk.next_event()), (Tag(7), None));
        finished.result.expect("memory does not fail")
    }

    #[test]
    fn what_was_written_is_read_and_the_buffers_are_used_again() {
        let mut disk = Memory::new(Sectors(512));
        let written = vec![0x5a; 1_024];
        let place = written.as_ptr();
        let back = done(&mut disk, Op::Write, extent(3, 2), written);
        assert_eq!(back.as_ptr(), place, "a write gives its buffer back");
        let read = done(&mut disk, Op::Read, extent(2, 3), back);
        assert_eq!(read, [vec![0; 512], vec![0x5a; 1_024]].concat());
        let place = read.as_ptr();
        let read = done(&mut disk, Op::Read, extent(0, 1), read);
        assert_eq!((read.as_ptr(), read), (place, vec![0; 512]));
    }

    #[test]
    fn pages_that_were_written_are_taken_until_they_are_zeroed_whole() {
        let mut disk = Memory::new(Sectors(512));
        done(&mut disk, Op::Write, extent(130, 200), vec![1; 200 * 512]);
        assert_eq!(disk.space(extent(8, 504)), Some((Space::Hole, Sectors(120))));
        assert_eq!(disk.space(extent(128, 384)), Some((Space::Taken, Sectors(256))));
        assert_eq!(disk.space(extent(400, 100)), Some((Space::Hole, Sectors(100))));
        done(&mut disk, Op::Trim, extent(100, 200), Vec::new());
        assert_eq!(disk.space(extent(8, 504)), Some((Space::Hole, Sectors(248))));
        assert_eq!(done(&mut disk, Op::Read, extent(299, 1), Vec::new()), vec![0; 512]);
        assert_eq!(done(&mut disk, Op::Read, extent(300, 1), Vec::new()), vec![1; 512]);
    }

    #[test]
    fn the_disk_that_forgets_answers_with_as_many_bytes_as_were_asked_for() {
        let mut disk = Null::new(Sectors(512));
        assert!(done(&mut disk, Op::Write, extent(510, 2), vec![1; 1_024]).len() <= 1_024);
        assert_eq!(done(&mut disk, Op::Read, extent(510, 2), Vec::new()), vec![0xff; 1_024]);
    }
}
