//! The log of single requests, and flight records.

use std::path::PathBuf;

use units::{Bytes, Duration};

use crate::limits::{RECORD_BYTES_MAX, RECORD_BYTES_MIN};

/// What the daemon logs of single requests, and its flight records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The latency from which on a request is logged, with the parts of its latency; `None`: never.
    pub slow: Option<Duration>,
    /// The format of the lines; `None`: as the command line says.
    pub format: Option<LogFormat>,
    /// Where the inputs and decisions of all engines are recorded, if anywhere.
    pub record: Option<RecordSettings>,
}

/// The format of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// A directory of flight records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The directory, already relative to the working directory rather than to the config.
    pub directory: PathBuf,
    /// The size of all records in the directory; those of the oldest runs are deleted first.
    pub bytes_max: Bytes,
}

impl RecordSettings {
    /// The default size of the records: half a day of a disk that is always busy.
    pub const BYTES_DEFAULT: Bytes = Bytes(256 << 20);

    /// Whether the size is within its limits.
    pub fn accepts(bytes_max: Bytes) -> bool {
        (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&bytes_max)
    }
}
