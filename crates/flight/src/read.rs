//! Reading a record, entry by entry.

use std::fmt;
use std::io::{self, Read};

use units::Instant;

use crate::block::{HEAD_BYTES, checksum};
use crate::code::{Coded, FormatError, Source};
use crate::entry::{self, Entry, Last};
use crate::header::{Header, MAGIC, VERSION};
use crate::limits::BLOCK_BYTES_MAX;

/// How a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The record was closed.
    Closed,
    /// After a complete block, without the mark of the end: the writer was killed, or had no space.
    Open,
    /// Inside a block, whose bytes cannot be read.
    Torn {
        /// The number of these bytes.
        bytes: u64,
    },
}

/// Where a record is damaged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first byte of the block, counted from the file's beginning.
    pub at: u64,
    /// What was expected there.
    pub fault: FormatError,
}

/// Why a record cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// It is no flight record, or one of another version.
    NotARecord(FormatError),
    /// It was changed after it was written.
    Damaged(Damage),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotARecord(fault) => fault.fmt(f),
            Self::Damaged(Damage { at, fault }) => {
                write!(f, "damaged in the block at byte {at}: {fault}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a record.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: Header,
    block: Vec<u8>,
    /// The number of bytes of the block that were decoded.
    place: usize,
    last: Last,
    checksum: u64,
    /// The offset after the last byte read.
    at: u64,
    end: Option<End>,
}

/// Reads until the buffer is full or the input ends.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`ReadError`]; an incomplete header is [`ReadError::NotARecord`].
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let mut start = [0; MAGIC.len() + 4];
        let filled = fill(&mut source, &mut start)?;
        if filled < start.len() || start[..MAGIC.len()] != MAGIC {
            return Err(ReadError::NotARecord(FormatError(
                "a flight record, which begins with SPFLIGHT",
            )));
        }
        if start[MAGIC.len()..] != VERSION.to_le_bytes() {
            return Err(ReadError::NotARecord(FormatError("a flight record of version 11")));
        }
        let header = Header {
            program: String::new(),
            disk: String::new(),
            config: String::new(),
            settings: engine::Settings::default(),
            profile: None,
            started_at: Instant::ZERO,
        };
        let (block, last, at) = (Vec::new(), Last::default(), start.len() as u64);
        let mut reader = Self { source, header, block, place: 0, last, checksum: 0, at, end: None };
        let place = reader.at;
        if !reader.load()? {
            return Err(ReadError::NotARecord(FormatError(
                "a flight record whose first block is whole",
            )));
        }
        let mut from = Source(&reader.block);
        let header = Header::take(&mut from);
        let header = header.and_then(|header| {
            if from.0.is_empty() {
                Ok(header)
            } else {
                Err(FormatError("nothing behind the header"))
            }
        });
        reader.header = header.map_err(|fault| ReadError::Damaged(Damage { at: place, fault }))?;
        reader.place = reader.block.len();
        Ok(reader)
    }

    /// The initial state of the engine.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the record ends, once the end was read.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The next entry; none at the end.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn next_entry(&mut self) -> Result<Option<(Instant, Entry)>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        if self.place == self.block.len() && !self.load()? {
            return Ok(None);
        }
        let start = self.at - self.block.len() as u64 - HEAD_BYTES as u64;
        let damaged = |fault| ReadError::Damaged(Damage { at: start, fault });
        let mut from = Source(&self.block[self.place..]);
        let entry = entry::take(&mut from, &mut self.last).map_err(damaged)?;
        self.place = self.block.len() - from.0.len();
        if entry.is_none() {
            if self.place != self.block.len() || fill(&mut self.source, &mut [0])? != 0 {
                return Err(damaged(FormatError("nothing behind the end")));
            }
            self.end = Some(End::Closed);
        }
        Ok(entry)
    }

    /// Loads the next block. Returns false at the end of the record.
    fn load(&mut self) -> Result<bool, ReadError> {
        let mut head = [0; HEAD_BYTES];
        let filled = fill(&mut self.source, &mut head)?;
        if filled < head.len() {
            let bytes = filled as u64;
            self.end = Some(if bytes == 0 { End::Open } else { End::Torn { bytes } });
            return Ok(false);
        }
        let damaged = |fault| ReadError::Damaged(Damage { at: self.at, fault });
        let (len, sum) = head.split_first_chunk::<4>().expect("it is longer");
        let len = u32::from_le_bytes(*len) as usize;
        let sum = u64::from_le_bytes(sum.try_into().expect("eight are left"));
        if len == 0 || len > BLOCK_BYTES_MAX {
            return Err(damaged(FormatError("a block of 1 byte to 16 MiB")));
        }
        // Read in pieces, so that a wrong length allocates no more memory than there is input.
        self.block.clear();
        let read = (&mut self.source).take(len as u64).read_to_end(&mut self.block)?;
        if read < len {
            self.end = Some(End::Torn { bytes: (read + HEAD_BYTES) as u64 });
            self.block.clear();
            self.place = 0;
            return Ok(false);
        }
        let expected = checksum(self.checksum, &self.block);
        if expected != sum {
            // A crash may leave space without contents for the last block: then nothing follows it.
            if fill(&mut self.source, &mut [0])? == 0 {
                self.end = Some(End::Torn { bytes: (len + HEAD_BYTES) as u64 });
                self.block.clear();
                self.place = 0;
                return Ok(false);
            }
            return Err(damaged(FormatError(
                "a block with its checksum, behind the one before it",
            )));
        }
        self.at += (HEAD_BYTES + len) as u64;
        (self.checksum, self.place, self.last) = (sum, 0, Last::default());
        Ok(true)
    }
}
