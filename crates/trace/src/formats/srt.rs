//! HP's "standard record trace" (SRT), of the disk traces of 1992, as `DiskSim` 4.0 reads it
//! (`disksim_iotrace.c`).
//!
//! ```text
//! $$TR_IOREC-1.3 ... sectorsize = 256, ...  0x0C      a text that describes the disks
//! size id seconds µs start_µs stop_µs bytes sector device driver cylinder flags info
//!    [queue] [suspect]
//! ```
//! Records are big-endian words of 32 bits. `id` is the version (4 has a word for the queue's
//! length) and the type (1, or 4 with a word that says why it is suspect: those are left out, as
//! `DiskSim` leaves them out). `start` and `stop` count from the request's arrival, so that `stop`
//! is its response time. Flag 1 is a read. The device's unit is in bits 8 to 15.
//!
//! A sector has the size that the header names, 256 bytes in the traces of 1992. A location is
//! converted to bytes exactly; a request that begins or ends within one of our 512-byte sectors is
//! widened to all of it, and counted (in `ajw.1week` there is none). The clock's zero is the
//! header's date: a reader counts from the first request.

use units::{Duration, Op};

use crate::error::{Fault, quoted};
use crate::record::{Raw, bytes};

/// The first bytes of the file.
pub(crate) const MAGIC: &[u8] = b"$$TR_IOREC";
/// The end of the header.
pub(crate) const HEADER_END: u8 = 0x0C;
/// The words of every record.
const WORDS: u32 = 13;
const WORD_BYTES: u32 = 4;
const VERSION_WITH_QUEUE: u32 = 4;
const SHORT_IO: u32 = 1;
const SUSPECT_IO: u32 = 4;
const READ: u32 = 1;
const SECTOR_SIZES: [u64; 5] = [256, 512, 1_024, 2_048, 4_096];

/// The bytes of a sector, by the header.
pub(crate) fn sector_bytes(header: &[u8]) -> Result<u64, Fault> {
    let text = String::from_utf8_lossy(header);
    let mut size = None;
    for part in text.split("sectorsize").skip(1) {
        let value = part.trim_start().strip_prefix('=').unwrap_or_default().trim_start();
        let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let found = digits.parse().ok().filter(|size| SECTOR_SIZES.contains(size));
        let expected = "a sectorsize of 256, 512, 1024, 2048 or 4096";
        let found = found.ok_or_else(|| Fault::new(quoted(digits), expected))?;
        if size.is_some_and(|size| size != found) {
            return Err(Fault::new(quoted(digits), "one sectorsize for all disks"));
        }
        size = Some(found);
    }
    size.ok_or_else(|| Fault::new("no sectorsize in the header", "`sectorsize = 256`"))
}

/// A word of a record.
fn word(record: &[u8], index: usize) -> u32 {
    let bytes = record.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.expect("a record has its words"))
}

/// The length of the record that begins with these two words.
pub(crate) fn record_bytes(head: [u8; 8]) -> Result<usize, Fault> {
    let (size, id) = (word(&head, 0), word(&head, 1));
    let (version, kind) = (id >> 16, id & 0xffff);
    if !(1..=VERSION_WITH_QUEUE).contains(&version) || ![SHORT_IO, SUSPECT_IO].contains(&kind) {
        let found = format!("a record of version {version}, type {kind}");
        return Err(Fault::new(found, "version 1 to 4, type 1 or 4"));
    }
    let words = WORDS + u32::from(version == VERSION_WITH_QUEUE) + u32::from(kind == SUSPECT_IO);
    let expected = words * WORD_BYTES;
    if size != expected {
        return Err(Fault::new(format!("a record of {size} bytes"), format!("{expected} bytes")));
    }
    Ok(expected as usize)
}

/// The request of a record; `None` if it is suspect.
pub(crate) fn request(record: &[u8], sector: u64) -> Result<Option<Raw>, Fault> {
    if word(record, 1) & 0xffff == SUSPECT_IO {
        return Ok(None);
    }
    let (seconds, micros) = (u128::from(word(record, 2)), word(record, 3));
    if micros >= 1_000_000 {
        let found = format!("{micros} microseconds of a second");
        return Err(Fault::new(found, "at most 999999"));
    }
    let at = seconds * 1_000_000_000 + u128::from(micros) * 1_000;
    let response = Duration::from_micros(word(record, 5).into());
    let len = word(record, 6).into();
    let start = bytes(word(record, 7).into(), sector)?;
    let unit = word(record, 8) >> 8 & 0xff;
    let op = if word(record, 11) & READ == 0 { Op::Write } else { Op::Read };
    Ok(Some(Raw { response: Some(response), ..Raw::new(at, unit, op, start, len) }))
}
