//! DiskSim's validation traces: one request per line, with its measured service time.
//!
//! ```text
//! R Hit    3962268  12   6657.00000  64047.00000
//! │ │      │        │    │           └ µs from this completion to the next request
//! │ │      │        │    └ service time in µs
//! │ │      │        └ sectors
//! │ │      └ first sector
//! │ └ a note from the measurement, not used
//! └ R or W
//! ```

use core::fmt;
use std::io::BufRead;

use units::{Duration, Extent, Lba, Operation, Sectors};

/// The largest number of requests in a trace.
const REQUESTS_MAX: usize = 10_000_000;
const LINE_BYTES_MAX: u64 = 4_096;
const SECTORS_MAX: u64 = 1 << 20;
const TIME_US_MAX: f64 = 3_600e6;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) operation: Operation,
    pub(crate) takes: Duration,
    pub(crate) think: Duration,
}

/// A trace whose requests all lie on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeasuredTrace {
    requests: Vec<Measured>,
}

/// A trace that cannot be replayed. Shows as `FILE:LINE: what, expected ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceFileError {
    file: String,
    line: usize,
    reason: String,
}

impl fmt::Display for TraceFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, reason } = self;
        write!(f, "{file}:{line}: {reason}")
    }
}

impl std::error::Error for TraceFileError {}

impl MeasuredTrace {
    /// Reads a trace against a disk of this capacity; `file` is the name that an error shows.
    ///
    /// # Errors
    /// Names the first line that is not a request or lies past the end of the disk.
    pub(crate) fn read(
        mut from: impl BufRead,
        file: &str,
        capacity: Sectors,
    ) -> Result<Self, TraceFileError> {
        let refused = |line, reason: String| TraceFileError { file: file.to_owned(), line, reason };
        let mut requests = Vec::new();
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let mut limited = std::io::Read::take(&mut from, LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(|error| refused(line, format!("expected a line ({error})")))? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&bytes);
            if text.trim().is_empty() {
                continue;
            }
            requests.push(request(&text, capacity).map_err(|reason| refused(line, reason))?);
            if requests.len() > REQUESTS_MAX {
                return Err(refused(line, format!("expected at most {REQUESTS_MAX} requests")));
            }
        }
        if requests.is_empty() {
            return Err(refused(1, "found no request, expected a validation trace".to_owned()));
        }
        Ok(Self { requests })
    }

    /// The requests, in order.
    pub(crate) fn requests(&self) -> &[Measured] {
        &self.requests
    }
}

fn request(text: &str, capacity: Sectors) -> Result<Measured, String> {
    let mut fields = text.split_whitespace();
    let mut field = |name: &str| {
        let field = fields.next().map(|field| field.chars().take(40).collect::<String>());
        field.ok_or_else(|| format!("found no {name}, expected R or W, a tag, and four numbers"))
    };
    let op = field("operation")?;
    let _tag = field("tag")?;
    let whole = |name: &str, text: String| {
        text.parse::<u64>()
            .map_err(|_| format!("found `{text}`, expected the {name}, a whole number"))
    };
    let start = whole("first sector", field("first sector")?)?;
    let len = whole("count of sectors", field("count of sectors")?)?;
    let time = |name: &str, text: String| {
        let micros = text.parse::<f64>().ok().filter(|micros| (0.0..=TIME_US_MAX).contains(micros));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in its range")]
        let time = micros.map(|micros| Duration::from_nanos((micros * 1e3).round() as u64));
        time.ok_or_else(|| format!("found `{text}`, expected the {name}, 0 to {TIME_US_MAX} us"))
    };
    let takes = time("measured time", field("measured time")?)?;
    let think = time("time until the next", field("time until the next")?)?;
    if !(1..=SECTORS_MAX).contains(&len) {
        return Err(format!("found {len} sectors, expected 1 to {SECTORS_MAX}"));
    }
    if start.checked_add(len).is_none_or(|end| end > capacity.0) {
        return Err(format!(
            "found {len} sectors at {start}, expected the disk's, {capacity} in all"
        ));
    }
    let extent = Extent::new(Lba(start), Sectors(len));
    let operation = match op.as_str() {
        "R" | "r" => Operation::read(extent),
        "W" | "w" => Operation::write(extent),
        _ => return Err(format!("found `{op}`, expected R or W")),
    };
    Ok(Measured { operation, takes, think })
}
