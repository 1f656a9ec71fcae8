//! The reader: records from a stream of bytes.
//!
//! It holds one line or record. An error in a record ends the stream, except for two kinds that a
//! lenient reader counts and skips: a truncated last record, and a request of zero length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use units::{Bytes, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::error::{Fault, Position};
use crate::formats::{Lines, srt, vscsi};
use crate::limits::{HEADER_BYTES_MAX, LINE_BYTES_MAX, RECORD_BYTES_MAX, TRACE_TIME_MAX};
use crate::record::{Raw, Record};
use crate::{Format, TraceError};

const BUFFER_BYTES: usize = 64 << 10;

/// The options of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The format; `None`: recognised from the content.
    pub format: Option<Format>,
    /// The device whose requests are returned; `None`: all devices.
    pub device: Option<u32>,
    /// The size of the devices, past which requests are refused. `None`: no limit.
    pub capacity: Option<Sectors>,
    /// Whether a truncated last record and requests of zero length are counted rather than refused.
    pub lenient: bool,
}

/// The reader's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes read.
    pub bytes_read: u64,
    /// Records returned.
    pub records: u64,
    /// Lines or records that are not requests: comments, headers, other events.
    pub skipped: u64,
    /// Requests to other devices than the requested one.
    pub other_devices: u64,
    /// Requests that began or ended within a sector, and were widened to whole sectors.
    pub widened: u64,
    /// The bytes by which they were widened.
    pub widened_bytes: Bytes,
    /// Requests of zero length that were skipped.
    pub empty: u64,
    /// Truncated last records that were skipped: none or one.
    pub truncated: u64,
}

/// A trace in a file.
pub type FileReader = Reader<BufReader<File>>;

/// An iterator over the records of a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    name: String,
    options: Options,
    format: Format,
    body: Body,
    position: Position,
    buffer: Vec<u8>,
    origin: Option<u128>,
    last: Instant,
    tally: Tally,
    /// Requests read, returned or not: a trace without any is refused.
    requests: u64,
    over: bool,
}

/// The structure of the file.
#[derive(Debug)]
enum Body {
    Lines(Lines),
    HpSrt { sector_bytes: u64 },
    Vscsi,
}

/// The result of one step over the file.
enum Step {
    Request(Raw),
    Other,
    End,
    /// The file ends within a record.
    Cut(Fault),
}

impl FileReader {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// It cannot be read, its format is not recognised, or its header is invalid.
    pub fn open(path: &Path, options: Options) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file =
            File::open(path).map_err(|error| unreadable(&error).at(&name, Position::Whole))?;
        Self::new(BufReader::with_capacity(BUFFER_BYTES, file), &name, options)
    }
}

fn unreadable(error: &std::io::Error) -> Fault {
    Fault::new(error.to_string(), "a file that can be read")
}

impl<R: BufRead> Reader<R> {
    /// Reads the trace in `input`. Messages call it `name`, whose extension helps to recognise its
    /// format.
    ///
    /// # Errors
    /// It cannot be read, its format is not recognised, or its header is invalid.
    pub fn new(mut input: R, name: &str, options: Options) -> Result<Self, TraceError> {
        let begin = |input: &mut R| {
            let bytes = input.fill_buf().map_err(|error| unreadable(&error))?;
            let format = options.format.or_else(|| Format::of(bytes, Path::new(name)));
            let expected = || format!("a trace in one of the formats {}", Format::names());
            let found = if bytes.is_empty() { "nothing" } else { "no format that we know" };
            format.ok_or_else(|| Fault::new(found, expected()))
        };
        let format = begin(&mut input).map_err(|fault| fault.at(name, Position::Whole))?;
        let (body, position) = match Lines::new(format) {
            Some(lines) => (Body::Lines(lines), Position::Line(0)),
            None => (Body::Vscsi, Position::Record { number: 0, byte: 0 }),
        };
        let mut reader = Self {
            input,
            name: name.to_owned(),
            options,
            format,
            body,
            position,
            buffer: Vec::new(),
            origin: None,
            last: Instant::ZERO,
            tally: Tally::default(),
            requests: 0,
            over: false,
        };
        if format == Format::HpSrt {
            let sector_bytes = reader.srt_header();
            let sector_bytes = sector_bytes.map_err(|fault| fault.at(name, Position::Whole))?;
            reader.body = Body::HpSrt { sector_bytes };
        }
        Ok(reader)
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The location of the last record, or of the error.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The counters.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// An error about the record that was returned last, for a caller that cannot use it.
    pub fn refuse(&self, found: impl Into<String>, expected: impl Into<String>) -> TraceError {
        Fault::new(found, expected.into()).at(&self.name, self.position)
    }

    /// Reads up to and including `end`, at most `bytes_max` bytes, into the buffer. Returns whether
    /// `end` was found.
    fn read_until(&mut self, end: u8, bytes_max: usize) -> Result<bool, Fault> {
        self.buffer.clear();
        loop {
            let bytes = self.input.fill_buf().map_err(|error| unreadable(&error))?;
            let there = bytes.iter().position(|byte| *byte == end);
            let count = there.map_or(bytes.len(), |index| index + 1);
            if self.buffer.len() + count > bytes_max {
                let found = format!("over {bytes_max} bytes of it");
                return Err(Fault::new(found, format!("at most {bytes_max} bytes")));
            }
            self.buffer.extend_from_slice(&bytes[..count]);
            self.input.consume(count);
            self.tally.bytes_read += count as u64;
            if there.is_some() || count == 0 {
                return Ok(there.is_some());
            }
        }
    }

    /// Reads up to `count` bytes into the buffer: fewer only at the end of the file.
    fn read_more(&mut self, count: usize) -> Result<(), Fault> {
        let mut rest = self.input.by_ref().take(count as u64);
        let count = rest.read_to_end(&mut self.buffer).map_err(|error| unreadable(&error))?;
        self.tally.bytes_read += count as u64;
        Ok(())
    }

    fn srt_header(&mut self) -> Result<u64, Fault> {
        if !self.read_until(srt::HEADER_END, HEADER_BYTES_MAX)? {
            return Err(Fault::new("a header without an end", "a byte 0x0C behind the header"));
        }
        if !self.buffer.starts_with(srt::MAGIC) {
            return Err(Fault::new("another beginning", "`$$TR_IOREC`"));
        }
        srt::sector_bytes(&self.buffer)
    }

    fn step(&mut self) -> Result<Step, Fault> {
        match self.body {
            Body::Lines(_) => self.step_line(),
            Body::HpSrt { sector_bytes } => self.step_srt(sector_bytes),
            Body::Vscsi => self.step_vscsi(),
        }
    }

    fn step_line(&mut self) -> Result<Step, Fault> {
        let Position::Line(number) = &mut self.position else { unreachable!("texts have lines") };
        *number += 1;
        let number = *number;
        let ended = self.read_until(b'\n', LINE_BYTES_MAX).map_err(|fault| {
            let found = fault.found.replace("of it", "on one line");
            Fault::new(found, fault.expected)
        })?;
        if self.buffer.is_empty() {
            return Ok(Step::End);
        }
        let line = String::from_utf8_lossy(&self.buffer);
        let line = line.trim();
        if line.is_empty() {
            return Ok(Step::Other);
        }
        let Body::Lines(lines) = &mut self.body else { unreachable!("it is a text") };
        match lines.request(line, number) {
            Ok(Some(raw)) => Ok(Step::Request(raw)),
            Ok(None) => Ok(Step::Other),
            Err(fault) if !ended => {
                let found = format!("{}, where the file ends within a line", fault.found);
                Ok(Step::Cut(Fault::new(found, fault.expected)))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Advances to the next record, which begins here.
    fn begin_record(&mut self) {
        self.buffer.clear();
        if let Position::Record { number, byte } = &mut self.position {
            *number += 1;
            *byte = self.tally.bytes_read;
        }
    }

    /// Whether the record is still shorter than `count`, and what follows from that.
    fn short(&self, count: usize) -> Option<Step> {
        match self.buffer.len() {
            0 => Some(Step::End),
            len if len < count => {
                let found = format!("the file's end after {len} bytes");
                Some(Step::Cut(Fault::new(found, format!("a whole record of {count} bytes"))))
            }
            _ => None,
        }
    }

    fn step_srt(&mut self, sector_bytes: u64) -> Result<Step, Fault> {
        self.begin_record();
        self.read_more(8)?;
        if let Some(step) = self.short(8) {
            return Ok(step);
        }
        let head = self.buffer[..8].try_into().expect("eight bytes");
        let count = srt::record_bytes(head)?;
        assert!(count <= RECORD_BYTES_MAX, "a record has a bounded number of words");
        self.read_more(count - 8)?;
        if let Some(step) = self.short(count) {
            return Ok(step);
        }
        Ok(srt::request(&self.buffer, sector_bytes)?.map_or(Step::Other, Step::Request))
    }

    fn step_vscsi(&mut self) -> Result<Step, Fault> {
        self.begin_record();
        self.read_more(vscsi::RECORD_BYTES)?;
        if let Some(step) = self.short(vscsi::RECORD_BYTES) {
            return Ok(step);
        }
        Ok(vscsi::request(&self.buffer)?.map_or(Step::Other, Step::Request))
    }

    /// The record of a request; `None` if it is skipped.
    fn record(&mut self, raw: Raw) -> Result<Option<Record>, Fault> {
        self.requests += 1;
        let origin = if self.format.has_epoch() { *self.origin.get_or_insert(raw.at) } else { 0 };
        if self.options.device.is_some_and(|device| device != raw.device) {
            self.tally.other_devices += 1;
            return Ok(None);
        }
        let at = self.time(raw.at, origin)?;
        if raw.len == 0 && raw.op != Op::Flush {
            if self.options.lenient {
                self.tally.empty += 1;
                return Ok(None);
            }
            return Err(Fault::new(format!("a {} of nothing", raw.op), "at least one byte"));
        }
        let (extent, widened) = raw.extent()?;
        if let Some(capacity) = self.options.capacity {
            let disk = Extent::new(Lba(0), capacity);
            if !disk.contains(extent) {
                let found = format!("a {} of sectors {extent}", raw.op);
                return Err(Fault::new(found, format!("a disk of {capacity} to hold them")));
            }
        }
        self.last = at;
        self.tally.records += 1;
        self.tally.widened += u64::from(widened > 0);
        self.tally.widened_bytes += Bytes(widened);
        let operation = Operation { op: raw.op, extent, fua: raw.fua };
        let (device, response, think) = (raw.device, raw.response, raw.think);
        Ok(Some(Record { at, device, operation, response, think }))
    }

    fn time(&self, at: u128, origin: u128) -> Result<Instant, Fault> {
        let nanos = at.checked_sub(origin).and_then(|nanos| u64::try_from(nanos).ok());
        let at = match nanos {
            Some(nanos) if nanos <= TRACE_TIME_MAX.as_nanos() => Instant::from_nanos(nanos),
            Some(_) => return Err(too_late()),
            None if at > origin => return Err(too_late()),
            None => {
                let back = u64::try_from(origin - at).unwrap_or(u64::MAX);
                let back = Duration::from_nanos(back);
                let found = format!("a time {back} before the first one");
                return Err(Fault::new(found, "times that do not go back"));
            }
        };
        if at < self.last {
            let found = format!("a time of {at} after one of {}", self.last);
            return Err(Fault::new(found, "times that do not go back"));
        }
        Ok(at)
    }

    fn advance(&mut self) -> Result<Option<Record>, Fault> {
        loop {
            match self.step()? {
                Step::Request(raw) => {
                    if let Some(record) = self.record(raw)? {
                        return Ok(Some(record));
                    }
                }
                Step::Other => self.tally.skipped += 1,
                Step::Cut(_) if self.options.lenient => {
                    self.tally.truncated += 1;
                    return Ok(None);
                }
                Step::Cut(fault) => return Err(fault),
                Step::End => return Ok(None),
            }
        }
    }
}

fn too_late() -> Fault {
    let expected = format!("at most {} days", TRACE_TIME_MAX.as_nanos() / 86_400_000_000_000);
    Fault::new("a time too far from the first", expected)
}

/// The likely cause of a trace without requests.
fn nothing(format: Format) -> Fault {
    let expected = match format {
        Format::Blkparse => "at least one (`Q` actions; format blkparse-issue takes `D`)",
        Format::BlkparseIssue => "at least one (`D` actions; format blkparse takes `Q`)",
        _ => "at least one",
    };
    Fault::new("no request", expected)
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        match self.advance() {
            Ok(Some(record)) => return Some(Ok(record)),
            Err(fault) => {
                self.over = true;
                return Some(Err(fault.at(&self.name, self.position)));
            }
            Ok(None) => self.over = true,
        }
        // An empty trace is a mistake, and would look like an idle system.
        let none = self.requests == 0 && self.tally.truncated == 0;
        none.then(|| Err(nothing(self.format).at(&self.name, Position::Whole)))
    }
}
