//! The requests of one connection that wait for an answer.
//!
//! Invariant: a sequence number is given once; its low 16 bits are the slot, so that an answer finds its
//! request without a search, in whatever order answers come.

use crate::limits::REQUESTS_MAX;
use crate::reply::Asked;

const SLOT_BITS: u32 = 16;

/// What a good answer to a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing.
    Nothing,
    /// The bytes that were read.
    Data,
    /// Which sectors hold data, of so many bytes; or of the first run of them alone.
    Status { length: u64, one: bool },
}

/// What is remembered of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    sequence: u64,
    pub(crate) asked: Asked,
    /// The payload that it holds or will hold.
    pub(crate) bytes: usize,
    pub(crate) awaits: Awaits,
}

/// A table of requests, at most [`REQUESTS_MAX`] at once.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    opened: u64,
    count: usize,
    bytes: usize,
}

impl InFlight {
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The payloads of all of them.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers a request and numbers it.
    pub(crate) fn open(&mut self, asked: Asked, bytes: usize, awaits: Awaits) -> u64 {
        assert!(self.count < REQUESTS_MAX, "a request is admitted only where there is room");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.opened += 1;
        let sequence = self.opened << SLOT_BITS | slot as u64;
        self.entries[slot] = Some(Entry { sequence, asked, bytes, awaits });
        self.count += 1;
        self.bytes += bytes;
        sequence
    }

    /// Forgets a request; `None` if there is none of this number.
    pub(crate) fn close(&mut self, sequence: u64) -> Option<Entry> {
        let slot = usize::try_from(sequence & ((1 << SLOT_BITS) - 1)).ok()?;
        let entry = self.entries.get_mut(slot)?.take_if(|entry| entry.sequence == sequence)?;
        self.free.push(slot);
        self.count -= 1;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Its memory, with the payloads.
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Entry>>()
            + self.free.capacity() * size_of::<usize>()
            + self.bytes
    }

    pub(crate) fn invariants(&self) {
        let live = self.entries.iter().flatten();
        assert_eq!(live.clone().count(), self.count, "the count is of the entries");
        assert_eq!(live.map(|entry| entry.bytes).sum::<usize>(), self.bytes, "as are the bytes");
        assert_eq!(self.free.len() + self.count, self.entries.len(), "a slot is free or taken");
        assert!(self.count <= REQUESTS_MAX, "requests are bounded");
    }
}
