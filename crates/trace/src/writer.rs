//! The writer: records in one of the formats of other tools.
//!
//! - `spindle` keeps everything, to the nanosecond.
//! - `disksim-ascii` keeps reads and writes, to the nanosecond. It drops other requests, and
//!   response and think times.
//! - `fio-v2` and `fio-v3` keep reads, writes, flushes and trims, to the microsecond. They drop
//!   writes of zeroes, forced access, and response and think times.
//!
//! Dropped requests and fields are counted.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;
use std::io::{self, Write};

use units::{Duration, Instant, Op};

use crate::formats::{SPINDLE_HEADER, mark};
use crate::limits::FILES_MAX;
use crate::{Format, Record};

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Spindle's own text format.
    Spindle,
    /// `DiskSim`'s text for open loops.
    DiskSimAscii,
    /// fio's log, version 2: times are waits.
    FioV2,
    /// fio's log, version 3: times from the start.
    FioV3,
}

/// What the target format could not represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Requests that were left out.
    pub requests: u64,
    /// Requests that lost their forced unit access.
    pub fua: u64,
}

/// Why a record could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The output failed, as the system says.
    Io(io::Error),
    /// The log would name more than [`FILES_MAX`] files. Use another target, or one device at a
    /// time.
    Files,
}

/// Writes records.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    target: Target,
    left_out: LeftOut,
    files: BTreeSet<u32>,
    /// The sum of the waits of a fio log of version 2.
    waited: Duration,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Spindle, Self::DiskSimAscii, Self::FioV2, Self::FioV3];

    /// The format.
    pub const fn format(self) -> Format {
        match self {
            Self::Spindle => Format::Spindle,
            Self::DiskSimAscii => Format::DiskSimAscii,
            Self::FioV2 => Format::FioV2,
            Self::FioV3 => Format::FioV3,
        }
    }
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|target| target.format().name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(|target| target.format().name()).join(", ");
            format!("found `{text}`, expected one of {names}")
        })
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Files => write!(f, "found more devices, expected at most {FILES_MAX}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace in `output`, which should be buffered.
    ///
    /// # Errors
    /// The output fails.
    pub fn new(mut output: W, target: Target) -> Result<Self, WriteError> {
        match target {
            Target::Spindle => writeln!(output, "{SPINDLE_HEADER}")?,
            Target::DiskSimAscii => {}
            Target::FioV2 => writeln!(output, "fio version 2 iolog")?,
            Target::FioV3 => writeln!(output, "fio version 3 iolog")?,
        }
        let (left_out, files) = (LeftOut::default(), BTreeSet::new());
        Ok(Self { output, target, left_out, files, waited: Duration::ZERO })
    }

    /// Writes a record. Times must not decrease.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        match self.target {
            Target::Spindle => Ok(self.spindle(record)?),
            Target::DiskSimAscii => Ok(self.disksim(record)?),
            Target::FioV2 | Target::FioV3 => self.fio(record),
        }
    }

    /// Ends the trace, and returns what could not be represented.
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> Result<LeftOut, WriteError> {
        for device in std::mem::take(&mut self.files) {
            self.fio_line(self.waited, device, "close", "")?;
        }
        self.output.flush()?;
        Ok(self.left_out)
    }

    fn spindle(&mut self, record: &Record) -> io::Result<()> {
        let (operation, extent) = (record.operation, record.operation.extent);
        let (mark, fua) = (mark(operation.op), if operation.fua { "+" } else { "" });
        let at = record.at.as_nanos();
        let (start, len, device) = (extent.start.0, extent.len.0, record.device);
        write!(self.output, "{at} {mark}{fua} {start} {len} {device}")?;
        let word = |time: Option<Duration>| {
            time.map_or_else(|| "-".to_owned(), |time| time.as_nanos().to_string())
        };
        match (record.response, record.think) {
            (None, None) => writeln!(self.output),
            (response, None) => writeln!(self.output, " {}", word(response)),
            (response, think) => writeln!(self.output, " {} {}", word(response), word(think)),
        }
    }

    fn disksim(&mut self, record: &Record) -> io::Result<()> {
        let read = match record.operation.op {
            Op::Read => 1,
            Op::Write => 0,
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => {
                self.left_out.requests += 1;
                return Ok(());
            }
        };
        self.left_out.fua += u64::from(record.operation.fua);
        let (nanos, extent) = (record.at.as_nanos(), record.operation.extent);
        let (whole, part) = (nanos / 1_000_000, nanos % 1_000_000);
        let (start, len, device) = (extent.start.0, extent.len.0, record.device);
        writeln!(self.output, "{whole}.{part:06} {device} {start} {len} {read}")
    }

    fn fio(&mut self, record: &Record) -> Result<(), WriteError> {
        let (operation, device) = (record.operation, record.device);
        let action = match operation.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "datasync",
            Op::WriteZeroes | Op::Seek => {
                self.left_out.requests += 1;
                return Ok(());
            }
        };
        self.left_out.fua += u64::from(operation.fua);
        let at = Duration::from_micros(record.at.since(Instant::ZERO).as_micros());
        if !self.files.contains(&device) {
            if self.files.len() == FILES_MAX {
                return Err(WriteError::Files);
            }
            self.files.insert(device);
            self.fio_line(at, device, "add", "")?;
            self.fio_line(at, device, "open", "")?;
        }
        // Waits are differences of rounded times, so that their errors do not accumulate.
        let wait = at.saturating_sub(self.waited);
        if self.target == Target::FioV2 && wait > Duration::ZERO {
            self.fio_line(at, device, "wait", &format!(" {} 0", wait.as_micros()))?;
        }
        self.waited = at;
        let (start, len) = (operation.extent.start.0, operation.extent.len.bytes().0);
        let location = format!(" {} {len}", u128::from(start) * u128::from(units::SECTOR_BYTES));
        Ok(self.fio_line(at, device, action, &location)?)
    }

    fn fio_line(&mut self, at: Duration, device: u32, action: &str, rest: &str) -> io::Result<()> {
        if self.target == Target::FioV3 {
            write!(self.output, "{} ", at.as_micros())?;
        }
        writeln!(self.output, "/dev/spindle{device} {action}{rest}")
    }
}
