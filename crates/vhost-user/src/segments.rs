//! Pieces of guest memory that a request's bytes lie in.
//!
//! Invariant: the pieces lie in the guest's memory, and have at most [`REQUEST_BYTES_MAX`] bytes
//! and a header together. The guest may change their contents at any time; their addresses are
//! copies that it cannot change.

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::limits::REQUEST_BYTES_MAX;

/// The most bytes of one direction of a request: a header or a status beside the data.
const BYTES_MAX: usize = REQUEST_BYTES_MAX + 4_096;

/// Guest memory that cannot be reached, or a longer request than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadMemory;

/// Pieces of guest memory, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    pieces: Vec<(GuestAddress, usize)>,
    len: usize,
}

impl Segments {
    /// Adds a piece.
    pub(crate) fn push(
        &mut self,
        memory: &GuestMemoryMmap,
        address: GuestAddress,
        len: u32,
    ) -> Result<(), BadMemory> {
        let len = usize::try_from(len).map_err(|_| BadMemory)?;
        let total = self.len.checked_add(len).filter(|total| *total <= BYTES_MAX);
        self.len = total.ok_or(BadMemory)?;
        if len == 0 {
            return Ok(());
        }
        if !is_mapped(memory, address, len) {
            return Err(BadMemory);
        }
        self.pieces.push((address, len));
        Ok(())
    }

    /// The bytes of all pieces.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Splits off the pieces from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let mut behind = Self::default();
        let mut before = 0;
        let mut kept = Vec::with_capacity(self.pieces.len());
        for (address, len) in self.pieces.drain(..) {
            let here = at.saturating_sub(before).min(len);
            if here > 0 {
                kept.push((address, here));
            }
            if here < len {
                // The whole piece is mapped, so its end is an address.
                behind.pieces.push((GuestAddress(address.0 + here as u64), len - here));
                behind.len += len - here;
            }
            before += len;
        }
        self.pieces = kept;
        self.len -= behind.len;
        behind
    }

    /// Copies all bytes out of the guest's memory.
    pub(crate) fn read(
        &self,
        memory: &GuestMemoryMmap,
        mut to: &mut [u8],
    ) -> Result<(), BadMemory> {
        assert_eq!(to.len(), self.len, "the buffer has the bytes' length");
        for (address, len) in &self.pieces {
            let (here, rest) = to.split_at_mut(*len);
            memory.read_slice(here, *address).map_err(|_| BadMemory)?;
            to = rest;
        }
        Ok(())
    }

    /// Copies bytes into the guest's memory, from its first piece on. Returns their number; there
    /// may be fewer bytes than the pieces have.
    pub(crate) fn write(
        &self,
        memory: &GuestMemoryMmap,
        mut from: &[u8],
    ) -> Result<u32, BadMemory> {
        assert!(from.len() <= self.len, "the pieces have room for the bytes");
        let written = u32::try_from(from.len()).map_err(|_| BadMemory)?;
        for (address, len) in &self.pieces {
            let (here, rest) = from.split_at(from.len().min(*len));
            memory.write_slice(here, *address).map_err(|_| BadMemory)?;
            from = rest;
        }
        Ok(written)
    }
}

/// Whether all these bytes are guest memory.
fn is_mapped(memory: &GuestMemoryMmap, address: GuestAddress, len: usize) -> bool {
    use vm_memory::GuestMemoryBackend as _;
    memory.check_range(address, len)
}

const _: () = assert!(BYTES_MAX < u32::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GuestMemoryMmap {
        let ranges = [(GuestAddress(0), 0x1000), (GuestAddress(0x8000), 0x1000)];
        GuestMemoryMmap::from_ranges(&ranges).expect("memory")
    }

    #[test]
    fn bytes_are_split_where_asked_and_copied_in_their_order() {
        let memory = memory();
        let mut whole = Segments::default();
        for (address, len) in [(0x10, 3), (0x8000, 4), (0x20, 0), (0x100, 2)] {
            whole.push(&memory, GuestAddress(address), len).expect("mapped");
        }
        assert_eq!(whole.write(&memory, b"abcdefghi"), Ok(9));
        for at in 0..=9 {
            let (mut front, mut back) = (whole.clone(), Segments::default());
            back.clone_from(&front.split_off(at));
            assert_eq!((front.len(), back.len()), (at, 9 - at));
            let mut read = vec![0; 9];
            front.read(&memory, &mut read[..at]).expect("mapped");
            back.read(&memory, &mut read[at..]).expect("mapped");
            assert_eq!(read, b"abcdefghi", "split at {at}");
        }
        assert_eq!(whole.write(&memory, b"xy"), Ok(2), "fewer bytes");
    }

    #[test]
    fn what_is_no_guest_memory_or_too_long_is_refused() {
        let memory = memory();
        let push = |address, len| Segments::default().push(&memory, GuestAddress(address), len);
        assert_eq!(push(0xfff, 1), Ok(()));
        assert_eq!(push(0xfff, 2), Err(BadMemory), "past the end of a region");
        assert_eq!(push(0x5000, 1), Err(BadMemory), "in a gap");
        assert_eq!(push(u64::MAX, 2), Err(BadMemory), "past the last address");
        let mut long = Segments::default();
        let most = BYTES_MAX / 0x1000;
        for _ in 0..most {
            long.push(&memory, GuestAddress(0), 0x1000).expect("the same page is allowed");
        }
        assert_eq!(long.push(&memory, GuestAddress(0), 1), Err(BadMemory));
    }
}
