//! The comma-separated traces of Microsoft Research Cambridge, Alibaba Cloud and Tencent Cloud.
//!
//! - MSR Cambridge (the traces' README, SNIA IOTTA 387):
//!   `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Times are in 100 ns (Windows
//!   filetime), the response time too; offsets and sizes are in bytes.
//! - `AliCloud` (README of `alibaba/block-traces`): `device_id,opcode,offset,length,timestamp`.
//!   Times are in µs; offsets and lengths are in bytes.
//! - Tencent (the traces' README, SNIA IOTTA 28064): `Timestamp,Offset,Size,IOType,VolumeID`. Times
//!   are in seconds, so that all requests of a second arrive at once; offsets and sizes are in
//!   sectors of 512 bytes.
//!
//! A header line is skipped. Each format counts time from its own epoch; a reader counts from the
//! first request.

use units::{Duration, Op, SECTOR_BYTES};

use crate::error::Fault;
use crate::record::{Raw, bytes};
use crate::text::{duration, fields, number, time};

const MSR: &str = "`Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`";
const ALICLOUD: &str = "`device_id,opcode,offset,length,timestamp`";
const TENCENT: &str = "`Timestamp,Offset,Size,IOType,VolumeID`";
const BYTES: &str = "a number of bytes";
const SECTORS: &str = "a number of sectors";
const FILETIME_NANOS: u64 = 100;

/// A header, recognised by a field that is not the number it should be.
fn is_header(number: u64, field: &str) -> bool {
    number == 1 && !field.is_empty() && field.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}

/// The fields of a line, without the blanks around them.
fn split(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim)
}

pub(crate) fn msr(line: &str, line_number: u64) -> Result<Option<Raw>, Fault> {
    let [at, _host, disk, kind, offset, size, response] = fields(line, split(line), MSR)?;
    if is_header(line_number, at) {
        return Ok(None);
    }
    let op = match kind {
        _ if kind.eq_ignore_ascii_case("read") => Op::Read,
        _ if kind.eq_ignore_ascii_case("write") => Op::Write,
        _ => return Err(Fault::of(kind, "Read or Write")),
    };
    let at = time(at, FILETIME_NANOS, "a time in units of 100 ns")?;
    let disk = number(disk, "the number of a disk")?;
    let (start, len) = (number(offset, BYTES)?, number(size, BYTES)?);
    let response: Duration = duration(response, FILETIME_NANOS, "a time in units of 100 ns")?;
    Ok(Some(Raw { response: Some(response), ..Raw::new(at, disk, op, start, len) }))
}

pub(crate) fn alicloud(line: &str, line_number: u64) -> Result<Option<Raw>, Fault> {
    let [device, opcode, offset, length, at] = fields(line, split(line), ALICLOUD)?;
    if is_header(line_number, device) {
        return Ok(None);
    }
    let op = match opcode {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return Err(Fault::of(opcode, "R or W")),
    };
    let device = number(device, "the number of a device")?;
    let (start, len) = (number(offset, BYTES)?, number(length, BYTES)?);
    let at = time(at, 1_000, "a time in microseconds")?;
    Ok(Some(Raw::new(at, device, op, start, len)))
}

pub(crate) fn tencent(line: &str, line_number: u64) -> Result<Option<Raw>, Fault> {
    let [at, offset, size, kind, volume] = fields(line, split(line), TENCENT)?;
    if is_header(line_number, at) {
        return Ok(None);
    }
    let op = match kind {
        "0" => Op::Read,
        "1" => Op::Write,
        _ => return Err(Fault::of(kind, "0 (read) or 1 (write)")),
    };
    let at = time(at, 1_000_000_000, "a time in seconds")?;
    let sectors = |text| bytes(number(text, SECTORS)?, SECTOR_BYTES);
    let volume = number(volume, "the number of a volume")?;
    Ok(Some(Raw::new(at, volume, op, sectors(offset)?, sectors(size)?)))
}
