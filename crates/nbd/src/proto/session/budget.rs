//! Payload memory that sessions share, and recycled buffers.
//!
//! Invariants: acquired and free bytes add up to the total; the capacity of a buffer is at most
//! twice the bytes acquired for it; recycled buffers are bounded in number, in size and in total.

use crate::limits::{RECYCLED_BUFFER_BYTES_MAX, RECYCLED_BUFFERS_MAX, RECYCLED_BYTES_MAX};

/// Recycled buffers have 2^0 to 2^(SIZES − 1) bytes.
const SIZES: usize = RECYCLED_BUFFER_BYTES_MAX.ilog2() as usize + 1;

/// Payload memory that sessions share.
#[derive(Debug)]
pub struct Budget {
    total: usize,
    free: usize,
    /// The number of releases: blocked sessions try again when it has changed.
    releases: u64,
    /// Buffers of each power of two: under load, requests need no allocation.
    spares: [Vec<Vec<u8>>; SIZES],
    /// The total capacity of recycled buffers, and its limit.
    spare_bytes: usize,
    spare_bytes_max: usize,
}

impl Budget {
    /// A budget of `bytes` bytes.
    pub const fn new(bytes: usize) -> Self {
        Self::for_thread(bytes, 1)
    }

    /// A budget of `bytes` bytes for one of `threads` threads, each of which has its own.
    pub(crate) const fn for_thread(bytes: usize, threads: usize) -> Self {
        let spares = [const { Vec::new() }; SIZES];
        let spare_bytes_max = RECYCLED_BYTES_MAX / threads;
        Self { total: bytes, free: bytes, releases: 0, spares, spare_bytes: 0, spare_bytes_max }
    }

    /// The free bytes.
    pub const fn free(&self) -> usize {
        self.free
    }

    pub(crate) const fn releases(&self) -> u64 {
        self.releases
    }

    pub(crate) fn acquire(&mut self, bytes: usize) -> bool {
        let Some(rest) = self.free.checked_sub(bytes) else { return false };
        self.free = rest;
        true
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            self.free += bytes;
            assert!(self.free <= self.total, "no more is released than was acquired");
            self.releases += 1;
        }
    }

    /// An empty buffer: a recycled one for `bytes` bytes if there is one, else one without
    /// capacity.
    pub(crate) fn recycled_or_empty(&mut self, bytes: usize) -> Vec<u8> {
        let mut spare = self.take_recycled(bytes).unwrap_or_default();
        spare.clear();
        spare
    }

    /// A recycled buffer for `bytes` bytes with its old contents, for a caller that overwrites them
    /// and need not pay for zeroing.
    pub(crate) fn take_recycled(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let size = bytes.next_power_of_two().ilog2() as usize;
        let spare = self.spares.get_mut(size)?.pop()?;
        assert!(spare.capacity() <= self.spare_bytes, "the total counts every recycled buffer");
        self.spare_bytes -= spare.capacity();
        Some(spare)
    }

    /// An empty buffer for `bytes` bytes, of a size that can be recycled.
    pub(super) fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let spare = self.recycled_or_empty(bytes);
        if spare.capacity() > 0 {
            return spare;
        }
        let reusable = bytes <= RECYCLED_BUFFER_BYTES_MAX;
        Vec::with_capacity(if reusable { bytes.next_power_of_two() } else { bytes })
    }

    /// Keeps a buffer for reuse, within the limits.
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
