//! `VMware`'s vSCSI traces, version 1, as libCacheSim reads them
//! (`traceReader/customizedReader/vscsi.h`).
//!
//! Records of 32 bytes, little-endian, no header: serial number (32 bits), length in bytes (32),
//! scatter-gather elements (32), SCSI operation code (16), version in the high byte (16), logical
//! block (64), microseconds (64). Blocks have 512 bytes. Times have an epoch of their own: a reader
//! counts from the first request. Commands that move no data and flush nothing are left out.

use units::{Op, SECTOR_BYTES};

use crate::error::Fault;
use crate::record::{Raw, bytes};

/// The length of a record.
pub(crate) const RECORD_BYTES: usize = 32;
const VERSION: u16 = 1;

fn number<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).expect("a record is whole")
}

/// The version of the record.
pub(crate) fn version(record: &[u8]) -> u16 {
    u16::from_le_bytes(number(record, 14)) >> 8
}

/// Whether these are the first bytes of such a trace.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let mut records = bytes.chunks_exact(RECORD_BYTES).take(2).peekable();
    records.peek().is_some() && records.all(|record| version(record) == VERSION)
}

/// The request of a record; `None` for a command that transfers and flushes nothing.
pub(crate) fn request(record: &[u8]) -> Result<Option<Raw>, Fault> {
    if version(record) != VERSION {
        let found = format!("a record of version {}", version(record));
        return Err(Fault::new(found, "version 1"));
    }
    let at = u128::from(u64::from_le_bytes(number(record, 24))) * 1_000;
    let op = match u16::from_le_bytes(number(record, 12)) {
        // READ and WRITE of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
        // SYNCHRONIZE CACHE of 10 and 16.
        0x35 | 0x91 => return Ok(Some(Raw::flush(at, 0))),
        _ => return Ok(None),
    };
    let len = u32::from_le_bytes(number(record, 4)).into();
    let start = bytes(u64::from_le_bytes(number(record, 16)), SECTOR_BYTES)?;
    Ok(Some(Raw::new(at, 0, op, start, len)))
}
