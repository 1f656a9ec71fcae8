//! A flight record: everything that one disk's engine was told, and everything that it decided,
//! each with its time.
//!
//! An engine cannot tell the time, rolls no rng and does no I/O: what it decides follows from what
//! it began with and from what it was told. So a record of a live run, given to the same engine
//! again, makes the same decisions, and a decision that hurt can be looked at as often as one
//! likes.
//!
//! ```text
//!  daemon's disk thread ── Entry ──▶ Encoder ── blocks ──▶ a file        (format: docs/src/reference/flight-format.md)
//!                                                            │
//!            same, or the first difference ◀── replay ◀── Reader
//! ```
//!
//! Invariants: no clock, and no files but through [`std::io::Read`]; an entry that was read is one
//! that was written, or the reader says where the record is damaged; what a record tells an engine
//! is checked first, as whoever drives a live one checks it.

mod block;
mod code;
mod entry;
mod header;
mod read;
mod recorded;
mod replay;

pub mod limits;

pub use block::Encoder;
pub use code::FormatError;
pub use entry::{Decision, Entry, Input};
pub use header::{Header, MAGIC, VERSION};
pub use read::{Damage, End, ReadError, Reader};
pub use recorded::{RecordSink, RecordedEngine, SinkClosed};
pub use replay::{Difference, ReplayError, ReplayOutcome, replay};
