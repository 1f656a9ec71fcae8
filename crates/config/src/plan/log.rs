//! The log of single requests, and flight records.

use std::path::PathBuf;

use units::{Bytes, Duration};

use crate::limits::{RECORD_BYTES_MAX, RECORD_BYTES_MIN};

/// What is told of single requests, and recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// From how long on a request is told of, with where its time went; `None`: never.
    pub slow: Option<Duration>,
    /// How; `None`: as the command line says.
    pub format: Option<LogFormat>,
    /// Where everything goes that engines are told and decide, if anywhere.
    pub record: Option<RecordSettings>,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A directory of flight records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The directory, already relative to the working directory rather than to the config.
    pub directory: PathBuf,
    /// What all records in it may take together: those of the oldest runs go first.
    pub bytes_max: Bytes,
}

impl RecordSettings {
    /// What records take together where nothing is said: half a day of a disk that is always busy.
    pub const BYTES_DEFAULT: Bytes = Bytes(256 << 20);

    /// Whether so much can be said.
    pub fn accepts(bytes_max: Bytes) -> bool {
        (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&bytes_max)
    }
}
