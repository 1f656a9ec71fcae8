//! The requests of one connection that wait for an answer.
//!
//! Invariant: a sequence number is given once; its low 16 bits are the slot, so that an answer finds its
//! request without a search, in whatever order answers come.

use crate::limits::REQUESTS_MAX;

const SLOT_BITS: u32 = 16;

/// What is remembered of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    sequence: u64,
    pub(crate) cookie: u64,
    /// The payload that it holds or will hold.
    pub(crate) bytes: usize,
    pub(crate) read: bool,
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
    pub(crate) const fn is_full(&self) -> bool {
        self.count >= REQUESTS_MAX
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The payloads of all of them.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers a request and numbers it.
    pub(crate) fn open(&mut self, cookie: u64, bytes: usize, read: bool) -> u64 {
        assert!(!self.is_full(), "a request is admitted only where there is room");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.opened += 1;
        let sequence = self.opened << SLOT_BITS | slot as u64;
        self.entries[slot] = Some(Entry { sequence, cookie, bytes, read });
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
