//! Traces of block I/O: read as a stream, written, counted.
//!
//! ```text
//! file ─ format (detected by its content) ─ lines or records ─▶ Raw
//! Raw ─ order, bounds, widening ─▶ Record
//! ```
//!
//! A [`Reader`] is an iterator of `Result<Record, TraceError>`; it holds one line or record at a
//! time, so that a trace may be larger than memory. An error names the file, the line or record,
//! what was found and what is accepted; no record follows it. No input panics.
//!
//! Invariants of a reader's records: times never decrease; every extent consists of whole sectors,
//! is not empty unless it is a flush's, and is within [`limits`] and the requested capacity.

mod error;
mod format;
mod formats;
pub mod limits;
mod reader;
mod record;
mod scale;
mod stat;
mod text;
mod writer;

pub use error::{Position, TraceError};
pub use format::{Format, UnknownFormat};
pub use reader::{FileReader, Options, Reader, Tally};
pub use record::Record;
pub use scale::Scale;
pub use stat::{DeviceStat, Sizes, Stat};
pub use writer::{LeftOut, Target, WriteError, Writer};
