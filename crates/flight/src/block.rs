//! The blocks of a record: bytes with their length, and a checksum that also covers the previous
//! block, so that a missing or misplaced block is detected.

use checksum::crc64;
use units::Instant;

use crate::code::Coded;
use crate::entry::{self, Entry, Last};
use crate::header::{Header, MAGIC, VERSION};
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_MAX, ENTRY_BYTES_MAX};

/// The head of a block: its length and its checksum.
pub(crate) const HEAD_BYTES: usize = 4 + 8;

/// The checksum of `payload` after a block with the checksum `before`.
pub(crate) fn checksum(before: u64, payload: &[u8]) -> u64 {
    let both = [before.to_le_bytes(), crc64(payload).to_le_bytes()];
    crc64(both.as_flattened())
}

/// Encodes a record, block by block.
///
/// A block is returned when it is full, or on request: until then its entries are only in memory.
#[derive(Debug)]
pub struct Encoder {
    payload: Vec<u8>,
    last: Last,
    checksum: u64,
    /// The time of the first entry of the block.
    since: Option<Instant>,
}

impl Encoder {
    /// An encoder, and the first bytes of its record.
    ///
    /// # Panics
    /// If the header exceeds [`BLOCK_BYTES_MAX`]: configs are shorter.
    pub fn new(header: &Header) -> (Self, Vec<u8>) {
        let payload = Vec::with_capacity(BLOCK_BYTES + ENTRY_BYTES_MAX);
        let mut encoder = Self { payload, last: Last::default(), checksum: 0, since: None };
        header.put(&mut encoder.payload);
        assert!(encoder.payload.len() <= BLOCK_BYTES_MAX, "a config is shorter");
        let first = encoder.close();
        let start = [&MAGIC[..], &VERSION.to_le_bytes(), &first];
        (encoder, start.concat())
    }

    /// Adds an entry. Returns the block if it is full.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn put(&mut self, at: Instant, entry: &Entry) -> Option<Vec<u8>> {
        self.since.get_or_insert(at);
        entry::put(at, entry, &mut self.last, &mut self.payload);
        (self.payload.len() >= BLOCK_BYTES).then(|| self.close())
    }

    /// The time of the oldest entry that is not in a returned block.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.since
    }

    /// Ends the block and returns it; `None` if it is empty.
    pub fn flush(&mut self) -> Option<Vec<u8>> {
        (!self.payload.is_empty()).then(|| self.close())
    }

    /// The last block, which marks the record as closed.
    #[must_use]
    pub fn end(mut self) -> Vec<u8> {
        entry::put_end(&mut self.payload);
        self.close()
    }

    fn close(&mut self) -> Vec<u8> {
        let len = u32::try_from(self.payload.len()).expect("a block is bounded");
        self.checksum = checksum(self.checksum, &self.payload);
        let mut block = Vec::with_capacity(HEAD_BYTES + self.payload.len());
        block.extend_from_slice(&len.to_le_bytes());
        block.extend_from_slice(&self.checksum.to_le_bytes());
        block.extend_from_slice(&self.payload);
        self.payload.clear();
        (self.last, self.since) = (Last::default(), None);
        block
    }
}
