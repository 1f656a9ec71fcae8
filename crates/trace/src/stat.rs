//! Statistics of a trace, in constant memory.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Instant, Lba, Op};

use crate::Record;
use crate::limits::DEVICES_MAX;

/// Statistics of the records so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// All records.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims and write-zeroes requests: they have an extent, and transfer no data.
    pub trims: u64,
    /// Bytes read.
    pub bytes_read: Bytes,
    /// Bytes written.
    pub bytes_written: Bytes,
    /// The first arrival.
    pub first: Option<Instant>,
    /// The last arrival.
    pub last: Instant,
    /// The sizes of reads and writes.
    pub sizes: Sizes,
    /// Each device, by its number; devices past [`DEVICES_MAX`] have no statistics.
    pub devices: BTreeMap<u32, DeviceStat>,
    /// Requests to devices without statistics.
    pub unlisted: u64,
    /// Requests with a measured response time.
    pub responses: u64,
    response_nanos: u128,
}

/// Sizes of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub least: Bytes,
    /// The largest.
    pub most: Bytes,
    /// The number of requests with at least 2ⁿ and fewer than 2ⁿ⁺¹ bytes.
    pub by_power: [u64; 64],
}

impl Default for Sizes {
    fn default() -> Self {
        Self { least: Bytes(u64::MAX), most: Bytes::ZERO, by_power: [0; 64] }
    }
}

/// Statistics of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStat {
    /// All its requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read and written.
    pub bytes: Bytes,
    /// The first sector that a request touches; `None` if none does.
    pub first: Option<Lba>,
    /// The end of the extents of all requests.
    pub end: Lba,
}

/// A saturating sum of bytes: a few absurd requests reach the end of the type, without a panic.
fn sum(one: Bytes, other: Bytes) -> Bytes {
    Bytes(one.0.saturating_add(other.0))
}

impl Stat {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        self.first.get_or_insert(record.at);
        self.last = self.last.max(record.at);
        let operation = record.operation;
        let bytes = match operation.op {
            Op::Read | Op::Write => operation.extent.len.bytes(),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => Bytes::ZERO,
        };
        match operation.op {
            Op::Read => {
                self.reads += 1;
                self.bytes_read = sum(self.bytes_read, bytes);
            }
            Op::Write => {
                self.writes += 1;
                self.bytes_written = sum(self.bytes_written, bytes);
            }
            Op::Flush => self.flushes += 1,
            Op::Trim | Op::WriteZeroes => self.trims += 1,
            // No format contains one.
            Op::Seek => {}
        }
        if bytes > Bytes::ZERO {
            self.sizes.least = self.sizes.least.min(bytes);
            self.sizes.most = self.sizes.most.max(bytes);
            self.sizes.by_power[bytes.0.ilog2() as usize] += 1;
        }
        if let Some(response) = record.response {
            self.responses += 1;
            self.response_nanos += u128::from(response.as_nanos());
        }
        self.add_device(record, bytes);
    }

    fn add_device(&mut self, record: &Record, bytes: Bytes) {
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&record.device) {
            self.unlisted += 1;
            return;
        }
        let none =
            DeviceStat { requests: 0, reads: 0, bytes: Bytes::ZERO, first: None, end: Lba(0) };
        let device = self.devices.entry(record.device).or_insert(none);
        device.requests += 1;
        device.reads += u64::from(record.operation.op == Op::Read);
        device.bytes = sum(device.bytes, bytes);
        let extent = record.operation.extent;
        if !extent.is_empty() {
            device.first = Some(device.first.map_or(extent.start, |first| first.min(extent.start)));
            device.end = device.end.max(extent.end());
        }
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> Bytes {
        sum(self.bytes_read, self.bytes_written)
    }

    /// The time from the first request to the last.
    pub fn duration(&self) -> Duration {
        self.last.saturating_since(self.first.unwrap_or(self.last))
    }

    /// The mean time from one request to the next, rounded down; `None` for fewer than two.
    pub fn interarrival(&self) -> Option<Duration> {
        (self.requests > 1).then(|| self.duration() / (self.requests - 1))
    }

    /// The mean size of a read or write, rounded down; `None` if there is none.
    pub fn size_mean(&self) -> Option<Bytes> {
        self.bytes().0.checked_div(self.reads + self.writes).map(Bytes)
    }

    /// The mean measured response time, rounded down; `None` if none was measured.
    pub fn response_mean(&self) -> Option<Duration> {
        let mean = self.response_nanos.checked_div(self.responses.into())?;
        Some(Duration::from_nanos(u64::try_from(mean).expect("a mean is within its terms")))
    }
}
