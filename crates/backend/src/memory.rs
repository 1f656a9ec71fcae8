//! Disks without service time: a measurement with them shows the cost of everything else.
//!
//! Both complete within [`Disk::submit`], and reuse the buffers that they are given: a command
//! allocates no memory.

use std::collections::VecDeque;

use units::{Extent, Instant, Op, Sectors};

use crate::disk::{Allocation, Completion, Disk, Failure, Job};
use crate::emulated::store::{RamStore, Store};

/// A disk in memory, allocated as it is written.
#[derive(Debug)]
pub struct MemoryDisk {
    capacity: Sectors,
    store: RamStore,
    done: Done,
}

/// A disk that stores nothing. Reads return meaningless bytes other than zeroes: zeroes would not
/// be sent to a client that understands holes.
#[derive(Debug)]
pub struct NullDisk {
    capacity: Sectors,
    done: Done,
}

/// Completions that are not reaped.
#[derive(Debug, Default)]
struct Done {
    jobs: VecDeque<Completion>,
    /// When the last of them was submitted.
    at: Instant,
}

impl Done {
    fn push(&mut self, job: Job, result: Result<(), Failure>, now: Instant) {
        self.jobs.push_back(Completion { tag: job.tag, result, data: job.data, delay: None });
        self.at = now;
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.jobs.is_empty()).then_some(self.at)
    }
}

impl MemoryDisk {
    /// A disk of `capacity`, all zeroes.
    pub fn new(capacity: Sectors) -> Self {
        Self { capacity, store: RamStore::default(), done: Done::default() }
    }

    fn perform(&mut self, job: &mut Job) -> Result<(), Failure> {
        let extent = job.operation.extent;
        assert!(extent.end().0 <= self.capacity.0, "inside the disk");
        assert!(job.data.fit(job.operation), "a write brings its data, nothing else brings any");
        match job.operation.op {
            Op::Read => self.store.read_parts(extent, &mut job.data),
            Op::Write => self.store.write_parts(extent, &job.data),
            Op::WriteZeroes if job.no_hole => self.store.write_zeroes(extent),
            Op::WriteZeroes | Op::Trim => self.store.deallocate(extent),
            Op::Flush | Op::Seek => Ok(()),
        }
    }
}

impl Disk for MemoryDisk {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, mut job: Job, now: Instant) {
        let result = self.perform(&mut job);
        self.done.push(job, result, now);
    }

    fn completes_synchronously(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_event()
    }

    fn reap(&mut self, _: Instant) -> Option<Completion> {
        self.done.jobs.pop_front()
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        Some(self.store.allocation(extent))
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity.0, "the extent lies inside the disk");
        let mut data = Vec::with_capacity(extent.len.bytes_usize());
        self.store.append(extent, &mut data);
        Ok(data)
    }
}

impl NullDisk {
    /// A disk that claims this capacity.
    pub const fn new(capacity: Sectors) -> Self {
        let done = Done { jobs: VecDeque::new(), at: Instant::ZERO };
        Self { capacity, done }
    }
}

impl Disk for NullDisk {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, mut job: Job, now: Instant) {
        let extent = job.operation.extent;
        assert!(extent.end().0 <= self.capacity.0, "inside the disk");
        assert!(job.data.fit(job.operation), "a write brings its data, nothing else brings any");
        if job.operation.op == Op::Read {
            for (part, bytes) in job.data.parts_mut(extent) {
                bytes.resize(part.len.bytes_usize(), 0xff);
            }
        }
        self.done.push(job, Ok(()), now);
    }

    fn completes_synchronously(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_event()
    }

    fn reap(&mut self, _: Instant) -> Option<Completion> {
        self.done.jobs.pop_front()
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity.0, "the extent lies inside the disk");
        Ok(vec![0; extent.len.bytes_usize()])
    }
}

/// A disk that is not there: every command fails.
#[derive(Debug)]
pub struct AbsentDisk {
    capacity: Sectors,
    done: Done,
}

impl AbsentDisk {
    /// A disk that would have this capacity.
    pub const fn new(capacity: Sectors) -> Self {
        let done = Done { jobs: VecDeque::new(), at: Instant::ZERO };
        Self { capacity, done }
    }
}

impl Disk for AbsentDisk {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, job: Job, now: Instant) {
        self.done.push(job, Err(Failure::Offline), now);
    }

    fn next_event(&self) -> Option<Instant> {
        self.done.next_event()
    }

    fn reap(&mut self, _: Instant) -> Option<Completion> {
        self.done.jobs.pop_front()
    }

    fn read_blocking(&mut self, _: Extent) -> Result<Vec<u8>, Failure> {
        Err(Failure::Offline)
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Operation};

    use super::*;
    use crate::disk::Tag;

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    fn done(disk: &mut impl Disk, op: Op, extent: Extent, mut data: Vec<u8>) -> Vec<u8> {
        if op != Op::Write {
            data.clear();
        }
        let operation = Operation { op, extent, fua: false };
        let now = Instant::ZERO;
        disk.submit(Job { tag: Tag(7), operation, data: data.into(), no_hole: false }, now);
        assert_eq!(disk.next_event(), Some(now), "it is done when it is submitted");
        let finished = disk.reap(now).expect("it is done");
        assert_eq!((finished.tag, disk.next_event()), (Tag(7), None));
        finished.into_bytes().expect("memory does not fail")
    }

    #[test]
    fn what_was_written_is_read_and_the_buffers_are_used_again() {
        let mut disk = MemoryDisk::new(Sectors(512));
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
    fn what_was_trimmed_reads_as_zeroes_and_holds_nothing() {
        let mut disk = MemoryDisk::new(Sectors(512));
        done(&mut disk, Op::Write, extent(0, 256), vec![1; 256 * 512]);
        assert_eq!(disk.allocation(extent(0, 512)), Some((Allocation::Data, Sectors(256))));
        done(&mut disk, Op::Trim, extent(0, 200), Vec::new());
        assert_eq!(disk.allocation(extent(0, 512)), Some((Allocation::Hole, Sectors(128))));
        assert_eq!(done(&mut disk, Op::Read, extent(199, 1), Vec::new()), vec![0; 512]);
        assert_eq!(done(&mut disk, Op::Read, extent(200, 1), Vec::new()), vec![1; 512]);
    }

    #[test]
    fn the_disk_that_forgets_answers_with_as_many_bytes_as_were_asked_for() {
        let mut disk = NullDisk::new(Sectors(512));
        assert!(done(&mut disk, Op::Write, extent(510, 2), vec![1; 1_024]).len() <= 1_024);
        assert_eq!(done(&mut disk, Op::Read, extent(510, 2), Vec::new()), vec![0xff; 1_024]);
    }
}
