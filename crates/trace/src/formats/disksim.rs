//! `DiskSim`'s two text formats, as its 4.0 sources read them (`disksim_iotrace.c`) and its
//! validation traces have them.
//!
//! *ascii*, an open loop: `time_ms device block blocks flags_hex`, where bit 0 of the flags is a
//! read and the others (time-critical, time-limited, synchronous) change nothing for a disk. Times
//! count from the trace's start.
//!
//! *validate*, a closed loop with one request at a time: `R|W tag block blocks response_µs
//! think_µs`. A request was issued when the one before it had been answered and the think time of
//! *that* line was over, so that its time is the sum of both columns so far. The tag (`Hit`,
//! `Miss`) is a guess of the tracer's, and not used.
//!
//! Blocks have 512 bytes in both.

use units::{Op, SECTOR_BYTES};

use crate::error::Fault;
use crate::limits::TRACE_TIME_MAX;
use crate::record::{Raw, bytes};
use crate::text::{duration, fields, number, time};

const ASCII: &str = "five numbers `time_ms device block blocks flags_hex`";
const VALIDATE: &str = "`R|W tag block blocks response_us think_us`";
const READ: u32 = 1;

/// The request in a line of the ascii format.
pub(crate) fn ascii(line: &str) -> Result<Raw, Fault> {
    let words = fields(line, line.split_ascii_whitespace(), ASCII)?;
    let [at, device, block, blocks, flags] = words;
    let at = time(at, 1_000_000, "a time in milliseconds")?;
    let device = number(device, "the number of a device")?;
    let (start, len) = extent(block, blocks)?;
    let hex = flags.strip_prefix("0x").unwrap_or(flags);
    let flags = u32::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'));
    let flags = flags.ok_or_else(|| Fault::of(words[4], "hexadecimal flags"))?;
    let op = if flags & READ == 0 { Op::Write } else { Op::Read };
    Ok(Raw::new(at, device, op, start, len))
}

fn extent(block: &str, blocks: &str) -> Result<(u64, u64), Fault> {
    let block = number(block, "the number of a block")?;
    let blocks = number(blocks, "a number of blocks")?;
    Ok((bytes(block, SECTOR_BYTES)?, bytes(blocks, SECTOR_BYTES)?))
}

/// The issue time of the next request of a validation trace.
#[derive(Debug, Default)]
pub(crate) struct Validate {
    next_at: u128,
}

impl Validate {
    pub(crate) fn request(&mut self, line: &str) -> Result<Raw, Fault> {
        let words = fields(line, line.split_ascii_whitespace(), VALIDATE)?;
        let [op, _tag, block, blocks, response, think] = words;
        let op = match op {
            "R" => Op::Read,
            "W" => Op::Write,
            _ => return Err(Fault::of(op, "R or W")),
        };
        let (start, len) = extent(block, blocks)?;
        // A pair is at most as long as a trace, which bounds the sums.
        let micros = |text| {
            let time = duration(text, 1_000, "a time in microseconds")?;
            let fits = time <= TRACE_TIME_MAX;
            fits.then_some(time).ok_or_else(|| Fault::of(text, "a time under 1,000 days"))
        };
        let (response, think) = (micros(response)?, micros(think)?);
        let at = self.next_at;
        self.next_at += u128::from((response + think).as_nanos());
        let (response, think) = (Some(response), Some(think));
        Ok(Raw { response, think, ..Raw::new(at, 0, op, start, len) })
    }
}
