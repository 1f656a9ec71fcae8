//! The requests of one connection that wait for an answer.
//!
//! Invariant: a sequence number is given once; its low 16 bits are the slot, so that an answer
//! finds its request without a search, in whatever order answers come.

use units::Extent;

use crate::limits::REQUESTS_MAX;
use crate::proto::export::ExportId;
use crate::proto::reply::RequestTag;

const SLOT_BITS: u32 = 16;

/// What a good answer to a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Nothing.
    Nothing,
    /// Nothing, when these sectors have been changed.
    Change(Extent),
    /// The bytes that were read.
    Data,
    /// So many of the bytes that were read, behind so many that were not asked for.
    Part { before: usize, length: usize },
    /// Which sectors hold data, of so many bytes behind so many of the first sector; or of the
    /// first run of them alone.
    Status { before: usize, length: u64, one: bool },
}

/// What is remembered of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    sequence: u64,
    pub(crate) asked: RequestTag,
    /// The payload that it holds or will hold.
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
    /// What they are asked of.
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
    /// What a request changes, if it is here and changes something.
    pub(crate) fn changed_by(&self, sequence: u64) -> Option<Extent> {
        let slot = usize::try_from(sequence & ((1 << SLOT_BITS) - 1)).ok()?;
        let entry = self.entries.get(slot)?.as_ref().filter(|entry| entry.sequence == sequence)?;
        entry.changes()
    }

    /// Those that change something: their numbers, and what they change.
    pub(crate) fn changing(&self) -> impl Iterator<Item = (u64, Extent)> {
        let entries = self.entries.iter().flatten();
        entries.filter_map(|entry| Some((entry.sequence, entry.changes()?)))
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The payloads of all of them.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers a request and numbers it.
    pub(crate) fn open(&mut self, asked: RequestTag, bytes: usize, reply_kind: ReplyKind) -> u64 {
        assert!(self.count < REQUESTS_MAX, "a request is admitted only where there is room");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.opened += 1;
        let sequence = self.opened << SLOT_BITS | slot as u64;
        self.entries[slot] = Some(Entry { sequence, asked, bytes, reply_kind });
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
