//! What a trace amounts to, in constant memory.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Instant, Lba, Op};

use crate::Record;
use crate::limits::DEVICES_MAX;

/// Figures of the records so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// All of them.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that write data.
    pub writes: u64,
    /// Those that flush.
    pub flushes: u64,
    /// Those that trim or write zeroes: they have an extent, and move no data.
    pub trims: u64,
    /// Read.
    pub bytes_read: Bytes,
    /// Written.
    pub bytes_written: Bytes,
    /// When the first came.
    pub first: Option<Instant>,
    /// When the last came.
    pub last: Instant,
    /// The sizes of reads and writes.
    pub sizes: Sizes,
    /// Each device, by its number; of those past [`DEVICES_MAX`] nothing is kept.
    pub devices: BTreeMap<u32, DeviceStat>,
    /// Requests to devices of which nothing is kept.
    pub unlisted: u64,
    /// Requests whose response was measured.
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
    /// How many have at least 2ⁿ bytes and fewer than 2ⁿ⁺¹.
    pub by_power: [u64; 64],
}

impl Default for Sizes {
    fn default() -> Self {
        Self { least: Bytes(u64::MAX), most: Bytes::ZERO, by_power: [0; 64] }
    }
}

/// Figures of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStat {
    /// All its requests.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Read and written.
    pub bytes: Bytes,
    /// The first sector that a request touches; `None` if none does.
    pub first: Option<Lba>,
    /// The first sector behind all that requests touch.
    pub end: Lba,
}

/// Bytes added up. A few absurd requests reach the end of the numbers: then there are that many, and no panic.
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
            // No format has one.
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

    /// Read and written.
    pub fn bytes(&self) -> Bytes {
        sum(self.bytes_read, self.bytes_written)
    }

    /// From the first request to the last.
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

    /// The mean response that was measured, rounded down; `None` if none was.
    pub fn response_mean(&self) -> Option<Duration> {
        let mean = self.response_nanos.checked_div(self.responses.into())?;
        Some(Duration::from_nanos(u64::try_from(mean).expect("a mean is within its terms")))
    }
}
