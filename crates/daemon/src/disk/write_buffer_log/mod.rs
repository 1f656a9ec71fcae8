//! What a write buffer holds, in files of a memory file system: it survives the daemon, though not
//! the machine.
//!
//! ```text
//!  a write is buffered ──▶ its bytes to the data file ──▶ a Write record ──▶ the reply
//!  a write to the disk ends ──▶ a Done record ──▶ what waited for it goes on; its bytes are freed
//!  the daemon is killed; the next one ──▶ reads the records ──▶ writes what is not done ──▶ serves
//! ```
//!
//! A client that was answered did not crash with the daemon: it connects again, and its next flush
//! succeeds. Without the log its unflushed writes would be missing, and nothing would say so.
//!
//! Invariants:
//! - a write is answered after its record; a record is written after its bytes;
//! - a request goes past the buffer to sectors of which every write is Done;
//! - bytes are freed after the record that replaces them;
//! - the log is of one disk and of one boot of the machine, or it is not read.
//!
//! The records have checksums, the data has none: a file in memory is cut short by a kill, never
//! garbled.

mod files;
mod record;

use core::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use engine::{BufferedPart, DestageId, PieceId};
use rustix::fs::{FallocateFlags, fallocate};
use units::Extent;

pub(crate) use files::{LogFiles, Rewritten};
use record::{RECORD_BYTES, Record};

/// The records are rewritten, without those that are done, when they take this much, and twice
/// what they took then.
const RECORDS_MIN: u64 = 4 << 20;
/// The file system frees whole pages.
const PAGE: u64 = 4_096;

/// Where the bytes of a piece are.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    at: u64,
    len: u64,
}

/// The log of a disk's write buffers.
#[derive(Debug)]
pub(crate) struct WriteBufferLog {
    files: LogFiles,
    records: File,
    data: File,
    /// The length of the records.
    recorded: u64,
    /// The length from which on they are rewritten.
    recorded_max: u64,
    /// Where the next bytes go in the data file. Space is not used twice: what is freed is a hole.
    end: u64,
    /// The number of the next write.
    next: u64,
    places: Vec<Option<Place>>,
    /// Places that are freed after the next record.
    released: Vec<Place>,
    /// The writes to the disk in the engine, each with the number of the first write that it does
    /// not have.
    sent: Vec<(DestageId, u64)>,
}

impl WriteBufferLog {
    /// Begins an empty log.
    pub(crate) fn create(files: LogFiles) -> io::Result<Self> {
        let (records, data) = files.create()?;
        Ok(Self {
            files,
            records,
            data,
            recorded: RECORD_BYTES as u64,
            recorded_max: RECORDS_MIN,
            end: 0,
            next: 1,
            places: Vec::new(),
            released: Vec::new(),
            sent: Vec::new(),
        })
    }

    /// A write is buffered as this piece. Its client is answered afterwards.
    pub(crate) fn write(&mut self, piece: PieceId, extent: Extent, data: &[u8]) -> io::Result<()> {
        let (number, at, len) = (self.next, self.end, data.len() as u64);
        self.data.write_all_at(data, at)?;
        self.append(Record::Write { number, extent, at })?;
        self.next += 1;
        self.end = (at + len).next_multiple_of(PAGE);
        let index = piece.0 as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(Place { number, at, len });
        Ok(())
    }

    fn append(&mut self, record: Record) -> io::Result<()> {
        self.records.write_all_at(&record.encode(), self.recorded)?;
        self.recorded += RECORD_BYTES as u64;
        Ok(())
    }

    /// What is buffered of an extent now goes to the disk.
    pub(crate) fn sent(&mut self, destage: DestageId) {
        self.sent.push((destage, self.next));
    }

    /// What went to the disk is there, or has failed.
    pub(crate) fn done(&mut self, destage: DestageId, extent: Extent) -> io::Result<()> {
        let Some(position) = self.sent.iter().position(|(sent, _)| *sent == destage) else {
            return Ok(());
        };
        let (_, before) = self.sent.swap_remove(position);
        self.append(Record::Done { before, extent })
    }

    /// The buffer has released a piece.
    pub(crate) fn release(&mut self, piece: PieceId) {
        let place = self.places.get_mut(piece.0 as usize).and_then(Option::take);
        self.released.extend(place);
    }

    /// All writes that are answered have their records: frees what was released. `parts` are those
    /// that are buffered.
    pub(crate) fn reclaim<Parts: Iterator<Item = BufferedPart>>(
        &mut self,
        is_clean: bool,
        parts: impl FnOnce() -> Parts,
    ) -> io::Result<()> {
        if is_clean {
            return self.empty();
        }
        for Place { at, len, .. } in core::mem::take(&mut self.released) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.data, flags, at, len.next_multiple_of(PAGE))?;
        }
        if self.recorded >= self.recorded_max { self.rewrite(parts()) } else { Ok(()) }
    }

    fn empty(&mut self) -> io::Result<()> {
        self.released.clear();
        if self.end > 0 {
            // The records first: they name the data.
            self.records.set_len(RECORD_BYTES as u64)?;
            self.data.set_len(0)?;
            (self.recorded, self.recorded_max, self.end) = (RECORD_BYTES as u64, RECORDS_MIN, 0);
        }
        Ok(())
    }

    /// Writes the records of what is buffered into a file that replaces the old one.
    fn rewrite(&mut self, parts: impl Iterator<Item = BufferedPart>) -> io::Result<()> {
        let mut records = Vec::new();
        for BufferedPart { piece, offset, extent } in parts {
            let place = self.places[piece.0 as usize].expect("a piece in use has its place");
            let at = place.at + offset.bytes().0;
            records.extend(Record::Write { number: place.number, extent, at }.encode());
        }
        self.records = self.files.replace(&records)?;
        self.recorded = (RECORD_BYTES + records.len()) as u64;
        self.recorded_max = RECORDS_MIN.max(2 * self.recorded);
        Ok(())
    }

    /// Removes the files.
    pub(crate) fn remove(&self) {
        self.files.remove();
    }
}

impl fmt::Display for WriteBufferLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log of a write buffer, {}", self.files)
    }
}

#[cfg(test)]
mod tests;
