//! Memory for payloads that is shared by sessions, and the buffers that are used again.
//!
//! Invariants: what is taken and what is free add up to what there is; a buffer that is handed out
//! is at most twice as large as what is taken for it; spare buffers are bounded in number, in size
//! and in what they hold together.

use crate::limits::{RECYCLED_BUFFER_BYTES_MAX, RECYCLED_BUFFERS_MAX, RECYCLED_BYTES_MAX};

/// Spare buffers are of 2^0 to 2^SIZES-1 bytes.
const SIZES: usize = RECYCLED_BUFFER_BYTES_MAX.ilog2() as usize + 1;

/// Memory for payloads that is shared by sessions.
#[derive(Debug)]
pub struct Budget {
    free: usize,
    /// Counts givings, so that whoever waits for memory can see that trying again makes sense.
    releases: u64,
    /// Buffers of each power of two: at load, no request asks the allocator for one.
    spares: [Vec<Vec<u8>>; SIZES],
    /// What they hold together, and may hold at most.
    spare_bytes: usize,
    spare_bytes_max: usize,
}

impl Budget {
    /// So much memory.
    pub const fn new(bytes: usize) -> Self {
        Self::for_thread(bytes, 1)
    }

    /// So much memory, for one of so many threads, each of which has its own.
    pub(crate) const fn for_thread(bytes: usize, threads: usize) -> Self {
        let spares = [const { Vec::new() }; SIZES];
        let spare_bytes_max = RECYCLED_BYTES_MAX / threads;
        Self { free: bytes, releases: 0, spares, spare_bytes: 0, spare_bytes_max }
    }

    /// What is left of it.
    pub const fn free(&self) -> usize {
        self.free
    }

    pub(crate) const fn releases(&self) -> u64 {
        self.releases
    }

    pub(super) fn acquire(&mut self, bytes: usize) -> bool {
        let Some(rest) = self.free.checked_sub(bytes) else { return false };
        self.free = rest;
        true
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            self.free += bytes;
            self.releases += 1;
        }
    }

    /// An empty buffer for so many bytes if there is a spare one, else one without memory.
    pub(super) fn recycled_or_empty(&mut self, bytes: usize) -> Vec<u8> {
        let mut spare = self.take_recycled(bytes).unwrap_or_default();
        spare.clear();
        spare
    }

    /// A spare buffer for so many bytes, with whatever it held before: for who fills it before
    /// anybody looks, and need not pay for zeroes.
    pub(super) fn take_recycled(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let size = bytes.next_power_of_two().ilog2() as usize;
        let spare = self.spares.get_mut(size)?.pop()?;
        self.spare_bytes -= spare.capacity();
        Some(spare)
    }

    /// An empty buffer for so many bytes, of such a size that it can be used again.
    pub(super) fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let spare = self.recycled_or_empty(bytes);
        if spare.capacity() > 0 {
            return spare;
        }
        let reusable = bytes <= RECYCLED_BUFFER_BYTES_MAX;
        Vec::with_capacity(if reusable { bytes.next_power_of_two() } else { bytes })
    }

    /// Keeps a buffer that is no longer needed, if another may need one like it.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if !capacity.is_power_of_two() {
            return;
        }
        if let Some(spares) = self.spares.get_mut(capacity.ilog2() as usize)
            && spares.len() < RECYCLED_BUFFERS_MAX
            && self.spare_bytes + capacity <= self.spare_bytes_max
        {
            self.spare_bytes += capacity;
            spares.push(buffer);
        }
    }
}
