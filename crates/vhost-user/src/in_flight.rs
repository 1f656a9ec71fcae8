//! The requests in progress of a device, in memory that outlives the daemon.
//!
//! The virtual machine monitor keeps the file of this memory. After a restart or a kill of the
//! daemon it hands the file to the next one, which finds in it the requests that were taken from a
//! queue and not returned, and carries them out again. The layout is that of split virtqueues in
//! the vhost-user protocol (section "Inflight I/O tracking"): for each queue a header and a state
//! for each descriptor.
//!
//! Invariant: between two steps of [`InFlightQueue`] a request is marked, or in the used ring, or
//! both while `last_batch_head` names it. So none is lost, and none is returned twice.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

use crate::limits::{QUEUE_SIZE_MAX, QUEUES_MAX};
use crate::memory::has_bytes;

/// A queue's header: features, version, number of states, last batch head, index of the used ring.
const HEADER_BYTES: usize = 16;
const VERSION_AT: usize = 8;
const STATES_AT: usize = 10;
const LAST_BATCH_HEAD_AT: usize = 12;
const USED_INDEX_AT: usize = 14;
const VERSION: u16 = 1;

/// A descriptor's state: whether it is in flight, its successor in a batch, its number in the order
/// of arrival.
const STATE_BYTES: usize = 16;
const COUNTER_AT: usize = 8;

/// A queue's region is a multiple of a cache line.
const ALIGNMENT: usize = 64;

/// The bytes of one queue's region.
pub(crate) const fn queue_bytes(queue_size: u16) -> usize {
    (HEADER_BYTES + STATE_BYTES * queue_size as usize).next_multiple_of(ALIGNMENT)
}

/// The most bytes of all regions together.
pub(crate) const BYTES_MAX: usize = QUEUES_MAX * queue_bytes(QUEUE_SIZE_MAX);

/// A new file with the regions of `queues` queues, all of them empty.
pub(crate) fn create(queues: usize, queue_size: u16) -> io::Result<(File, usize)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("spindle-in-flight", flags)?;
    let bytes = queues * queue_bytes(queue_size);
    rustix::fs::ftruncate(&file, bytes as u64)?;
    // No process that has the file can take memory away that is mapped here.
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((File::from(file), bytes))
}

/// The mapped file.
#[derive(Clone, Debug)]
pub(crate) struct InFlightMemory {
    map: Arc<MmapRegion<()>>,
    queues: usize,
    queue_size: u16,
}

impl InFlightMemory {
    /// Maps `bytes` bytes of a file from `offset` on.
    pub(crate) fn map(
        file: File,
        (offset, bytes): (u64, usize),
        (queues, queue_size): (usize, u16),
    ) -> io::Result<Self> {
        let needed = queues.checked_mul(queue_bytes(queue_size));
        let short = needed.is_none_or(|needed| needed > bytes);
        if bytes > BYTES_MAX || short || !has_bytes(&file, offset, bytes as u64) {
            let why = format!("found {bytes} bytes for {queues} queues of {queue_size} requests");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let map = MmapRegion::from_file(FileOffset::new(file, offset), bytes);
        let map = map.map_err(io::Error::other)?;
        Ok(Self { map: Arc::new(map), queues, queue_size })
    }

    /// The region of the queue at `index`, if it has one of this size.
    pub(crate) fn queue(&self, index: usize, queue_size: u16) -> Option<InFlightQueue> {
        (index < self.queues && queue_size <= self.queue_size).then(|| InFlightQueue {
            map: Arc::clone(&self.map),
            at: index * queue_bytes(self.queue_size),
            queue_size,
            counter: 0,
        })
    }
}

/// The requests in progress of one queue.
#[derive(Debug)]
pub(crate) struct InFlightQueue {
    map: Arc<MmapRegion<()>>,
    at: usize,
    queue_size: u16,
    /// The number of the next request in the order of arrival.
    counter: u64,
}

impl InFlightQueue {
    fn slice(&self) -> VolatileSlice<'_> {
        let slice = self.map.get_slice(self.at, queue_bytes(self.queue_size));
        slice.expect("the region lies in the mapped file")
    }

    fn state_at(&self, head: u16) -> usize {
        assert!(head < self.queue_size, "a head is a descriptor of the queue");
        HEADER_BYTES + STATE_BYTES * usize::from(head)
    }

    fn read<T: vm_memory::ByteValued>(&self, at: usize) -> T {
        self.slice().read_obj(at).expect("the field lies in the region")
    }

    fn write<T: vm_memory::ByteValued>(&self, at: usize, value: T) {
        self.slice().write_obj(value, at).expect("the field lies in the region");
        // The next field is written after this one: a kill leaves a state between two steps.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// Finds the requests that are in progress, in the order of their arrival. `used_index` is that
    /// of the used ring. A new region is made ready.
    pub(crate) fn recover(&mut self, used_index: u16) -> Vec<u16> {
        if self.read::<u16>(VERSION_AT) == 0 {
            self.write(STATES_AT, self.queue_size);
            self.write(USED_INDEX_AT, used_index);
            self.write(VERSION_AT, VERSION);
        }
        if self.read::<u16>(USED_INDEX_AT) != used_index {
            // The daemon ended between the used ring and the mark of this request.
            let last = self.read::<u16>(LAST_BATCH_HEAD_AT);
            if last < self.queue_size {
                self.write(self.state_at(last), 0_u8);
            }
            self.write(USED_INDEX_AT, used_index);
        }
        let heads = 0..self.queue_size;
        let marked = heads.filter(|head| self.read::<u8>(self.state_at(*head)) == 1);
        let counted = marked.map(|head| (self.read::<u64>(self.state_at(head) + COUNTER_AT), head));
        let mut counted: Vec<(u64, u16)> = counted.collect();
        counted.sort_unstable();
        self.counter = counted.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        counted.into_iter().map(|(_, head)| head).collect()
    }

    /// A request was taken from the queue.
    pub(crate) fn on_taken(&mut self, head: u16) {
        let state = self.state_at(head);
        self.write(state + COUNTER_AT, self.counter);
        self.counter = self.counter.wrapping_add(1);
        self.write(state, 1_u8);
    }

    /// A request is about to be returned in the used ring.
    pub(crate) fn before_used(&mut self, head: u16) {
        self.write(LAST_BATCH_HEAD_AT, head);
    }

    /// A request was returned, and the used ring's index is this one now.
    pub(crate) fn after_used(&mut self, head: u16, used_index: u16) {
        self.write(self.state_at(head), 0_u8);
        self.write(USED_INDEX_AT, used_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> InFlightMemory {
        let (file, bytes) = create(2, 8).expect("memory");
        InFlightMemory::map(file, (0, bytes), (2, 8)).expect("it is that long")
    }

    fn queue(memory: &InFlightMemory) -> InFlightQueue {
        memory.queue(1, 8).expect("there are two")
    }

    #[test]
    fn the_next_daemon_finds_what_was_taken_and_not_returned_in_its_order() {
        let memory = memory();
        let mut before = queue(&memory);
        assert_eq!(before.recover(65_534), [] as [u16; 0]);
        for head in [3, 0, 7, 5] {
            before.on_taken(head);
        }
        before.before_used(0);
        before.after_used(0, 65_535);
        before.on_taken(0);
        assert_eq!(queue(&memory).recover(65_535), [3, 7, 5, 0]);
        // The numbers go on where they were.
        let mut after = queue(&memory);
        after.recover(65_535);
        after.on_taken(1);
        assert_eq!(queue(&memory).recover(65_535), [3, 7, 5, 0, 1]);
    }

    #[test]
    fn a_kill_at_any_step_of_a_return_neither_loses_the_request_nor_repeats_it_once_returned() {
        for steps in 0..4 {
            let memory = memory();
            let mut before = queue(&memory);
            before.recover(10);
            before.on_taken(2);
            before.on_taken(6);
            let mut used_index = 10;
            if steps > 0 {
                before.before_used(6);
            }
            if steps > 1 {
                used_index = 11;
            }
            if steps > 2 {
                before.after_used(6, 11);
            }
            let left: &[u16] = if steps > 1 { &[2] } else { &[2, 6] };
            assert_eq!(queue(&memory).recover(used_index), left, "killed after {steps} steps");
        }
    }

    #[test]
    fn whatever_is_in_the_memory_the_heads_are_descriptors_of_the_queue() {
        let memory = memory();
        let mut hostile = queue(&memory);
        for at in (0..queue_bytes(8)).step_by(8) {
            hostile.write(at, u64::MAX);
        }
        assert_eq!(hostile.recover(0), [] as [u16; 0], "a mark is a 1");
        for head in 0..8 {
            hostile.write(hostile.state_at(head), 1_u8);
        }
        assert_eq!(hostile.recover(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        hostile.on_taken(3);
    }

    #[test]
    fn memory_that_is_too_small_or_too_large_is_refused() {
        let (file, bytes) = create(2, 8).expect("memory");
        let map = |bytes, queues, size| {
            let file = file.try_clone().expect("a descriptor");
            InFlightMemory::map(file, (0, bytes), (queues, size)).is_ok()
        };
        assert!(map(bytes, 2, 8));
        assert!(!map(bytes, 3, 8), "three queues do not fit");
        assert!(!map(bytes - 1, 2, 8), "nor two in less");
        assert!(!map(BYTES_MAX + 64, 2, 8), "more than any device has");
        assert!(!map(bytes * 2, 2, 8), "longer than the file");
        assert!(memory().queue(2, 8).is_none());
        assert!(memory().queue(0, 16).is_none(), "a longer queue than was said");
    }
}
