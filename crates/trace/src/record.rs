//! One request of a trace: as in the file, and as a replay uses it.

use units::{Duration, Extent, Instant, Lba, Op, Operation, SECTOR_BYTES, Sectors};

use crate::error::Fault;
use crate::limits::DEVICE_BYTES_MAX;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its arrival, from the start of the trace. Never before its predecessor's.
    pub at: Instant,
    /// The device, by its number in the format.
    pub device: u32,
    /// The operation, in the device's own addresses.
    pub operation: Operation,
    /// Its response time in the trace, if the format has it.
    pub response: Option<Duration>,
    /// The think time between its completion and the next request, in formats that are replayed as
    /// a closed loop.
    pub think: Option<Duration>,
}

/// A request in the clock of its file, and in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    /// Nanoseconds from the format's epoch.
    pub(crate) at: u128,
    pub(crate) device: u32,
    pub(crate) op: Op,
    pub(crate) fua: bool,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) response: Option<Duration>,
    pub(crate) think: Option<Duration>,
}

impl Raw {
    /// A request with the fields that every format has.
    pub(crate) fn new(at: u128, device: u32, op: Op, start: u64, len: u64) -> Self {
        Self { at, device, op, fua: false, start, len, response: None, think: None }
    }

    /// A flush, at any location.
    pub(crate) fn flush(at: u128, device: u32) -> Self {
        Self::new(at, device, Op::Flush, 0, 0)
    }

    /// The sectors that it touches, and the bytes of them that it did not ask for: a disk transfers
    /// whole sectors, so that a request which begins or ends within a sector is widened.
    pub(crate) fn extent(&self) -> Result<(Extent, u64), Fault> {
        if self.op == Op::Flush {
            return Ok((Operation::flush().extent, 0));
        }
        let end = self.start.checked_add(self.len).filter(|end| *end <= DEVICE_BYTES_MAX);
        let end = end.ok_or_else(|| {
            let found = format!("{} bytes from byte {}", self.len, self.start);
            Fault::new(found, format!("requests that end at or before byte {DEVICE_BYTES_MAX}"))
        })?;
        let (first, last) = (self.start / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES));
        let len = if self.len == 0 { 0 } else { last - first };
        Ok((Extent::new(Lba(first), Sectors(len)), len * SECTOR_BYTES - self.len))
    }
}

/// `sectors` of `size` bytes in bytes.
pub(crate) fn bytes(sectors: u64, size: u64) -> Result<u64, Fault> {
    sectors.checked_mul(size).filter(|bytes| *bytes <= DEVICE_BYTES_MAX).ok_or_else(|| {
        let most = DEVICE_BYTES_MAX / size;
        Fault::new(format!("sector {sectors}"), format!("at most {most} sectors of {size} bytes"))
    })
}
