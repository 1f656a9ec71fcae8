//! The outstanding requests of one connection.
//!
//! Invariant: a sequence number is never reused. Its low 16 bits are the slot, so that replies in
//! any order find their requests without a search.

use units::Extent;

use crate::limits::REQUESTS_MAX;
use crate::proto::export::ExportId;
use crate::proto::reply::RequestTag;

const SLOT_BITS: u32 = 16;

/// The kind of a successful reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// No data.
    Nothing,
    /// No data, after these sectors were changed.
    Change(Extent),
    /// The bytes that were read.
    Data,
    /// `length` of the bytes that were read, after the first `before`.
    Part { before: usize, length: usize },
    /// Block status of `length` bytes after the first `before` bytes of the first sector; with
    /// `one`, only of the first segment.
    Status { before: usize, length: u64, one: bool },
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    sequence: u64,
    pub(crate) tag: RequestTag,
    /// The payload bytes that it holds or will hold.
    pub(crate) bytes: usize,
    pub(crate) reply_kind: ReplyKind,
}

impl Entry {
    const fn changes(&self) -> Option<Extent> {
        match self.reply_kind {
            ReplyKind::Change(extent) => Some(extent),
            _ => None,
        }
    }
}

/// A table of requests, at most [`REQUESTS_MAX`] at once.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The export of all of them.
    pub(crate) export: ExportId,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    opened: u64,
    count: usize,
    bytes: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        let (entries, free) = (Vec::new(), Vec::new());
        Self { export: ExportId(0), entries, free, opened: 0, count: 0, bytes: 0 }
    }
}

impl InFlight {
    /// The sectors that a request changes, if it is outstanding and changes any.
    pub(crate) fn changed_by(&self, sequence: u64) -> Option<Extent> {
        let slot = usize::try_from(sequence & ((1 << SLOT_BITS) - 1)).ok()?;
        let entry = self.entries.get(slot)?.as_ref().filter(|entry| entry.sequence == sequence)?;
        entry.changes()
    }

    /// The requests that change sectors: their numbers and extents.
    pub(crate) fn changing(&self) -> impl Iterator<Item = (u64, Extent)> {
        let entries = self.entries.iter().flatten();
        entries.filter_map(|entry| Some((entry.sequence, entry.changes()?)))
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The payload bytes of all of them.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a request and returns its number.
    pub(crate) fn open(&mut self, tag: RequestTag, bytes: usize, reply_kind: ReplyKind) -> u64 {
        assert!(self.count < REQUESTS_MAX, "a request is admitted only where there is room");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.opened += 1;
        let sequence = self.opened << SLOT_BITS | slot as u64;
        self.entries[slot] = Some(Entry { sequence, tag, bytes, reply_kind });
        self.count += 1;
        self.bytes += bytes;
        sequence
    }

    /// Removes a request; `None` if there is none of this number.
    pub(crate) fn close(&mut self, sequence: u64) -> Option<Entry> {
        let slot = usize::try_from(sequence & ((1 << SLOT_BITS) - 1)).ok()?;
        let entry = self.entries.get_mut(slot)?.take_if(|entry| entry.sequence == sequence)?;
        self.free.push(slot);
        self.count -= 1;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// The memory of the table and of the payloads.
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
