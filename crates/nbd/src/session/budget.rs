//! Memory for payloads that is shared by sessions, and the buffers that are used again.
//!
//! Invariants: what is taken and what is free add up to what there is; a buffer that is handed out is at most twice
//! as large as what is taken for it; spare buffers are bounded in number, in size and in what they hold together.

use crate::limits::{SPARE_BYTES_MAX, SPARES_BYTES_MAX, SPARES_MAX};

/// Spare buffers are of 2^0 to 2^SIZES-1 bytes.
const SIZES: usize = SPARE_BYTES_MAX.ilog2() as usize + 1;

/// Memory for payloads that is shared by sessions.
#[derive(Debug)]
pub struct Budget {
    free: usize,
    /// Counts givings, so that whoever waits for memory can see that trying again makes sense.
    given: u64,
    /// Buffers of each power of two: at load, no request asks the allocator for one.
    spares: [Vec<Vec<u8>>; SIZES],
    /// What they hold together, and may hold at most.
    spare_bytes: usize,
    spare_bytes_max: usize,
}

impl Budget {
    /// So much memory.
    pub const fn new(bytes: usize) -> Self {
        Self::of_one(bytes, 1)
    }

    /// So much memory, for one of so many threads, each of which has its own.
    pub(crate) const fn of_one(bytes: usize, threads: usize) -> Self {
        let spares = [const { Vec::new() }; SIZES];
        let spare_bytes_max = SPARES_BYTES_MAX / threads;
        Self { free: bytes, given: 0, spares, spare_bytes: 0, spare_bytes_max }
    }

    /// What is left of it.
    pub const fn free(&self) -> usize {
        self.free
    }

    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Some(rest) = self.free.checked_sub(bytes) else { return false };
        self.free = rest;
        true
    }

    pub(crate) fn give(&mut self, bytes: usize) {
        if bytes > 0 {
            self.free += bytes;
            self.given += 1;
        }
    }

    /// An empty buffer for so many bytes if there is a spare one, else one without memory.
    pub(super) fn spare(&mut self, bytes: usize) -> Vec<u8> {
        let mut spare = self.stale(bytes).unwrap_or_default();
        spare.clear();
        spare
    }

    /// A spare buffer for so many bytes, with whatever it held before: for who fills it before anybody looks, and need not
    /// pay for zeroes.
    pub(super) fn stale(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let size = bytes.next_power_of_two().ilog2() as usize;
        let spare = self.spares.get_mut(size)?.pop()?;
        self.spare_bytes -= spare.capacity();
        Some(spare)
    }

    /// An empty buffer for so many bytes, of such a size that it can be used again.
    pub(super) fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let spare = self.spare(bytes);
        if spare.capacity() > 0 {
            return spare;
        }
        let reusable = bytes <= SPARE_BYTES_MAX;
        Vec::with_capacity(if reusable { bytes.next_power_of_two() } else { bytes })
    }

    /// Keeps a buffer that is no longer needed, if another may need one like it.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if !capacity.is_power_of_two() {
            return;
        }
        if let Some(spares) = self.spares.get_mut(capacity.ilog2() as usize)
            && spares.len() < SPARES_MAX
            && self.spare_bytes + capacity <= self.spare_bytes_max
        {
            self.spare_bytes += capacity;
            spares.push(buffer);
        }
    }
}
