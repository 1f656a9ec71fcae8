//! A flight record: all inputs and all decisions of one disk's engine, each with its time.
//!
//! An engine reads no clock, has no randomness and does no I/O: its decisions follow from its
//! initial state and its inputs. The record of a live run, replayed with the same engine, gives the
//! same decisions, so that a decision with bad effects can be examined repeatedly.
//!
//! ```text
//!  daemon's disk thread ── Entry ──▶ Encoder ── blocks ──▶ a file
//!                                                            │
//!            same, or the first difference ◀── replay ◀── Reader
//! ```
//!
//! The format is described in `docs/src/reference/flight-format.md`.
//!
//! Invariants: no clock, and no files except through [`std::io::Read`]; the reader returns only
//! entries that were written, or reports where the record is damaged; inputs in a record are
//! checked before they reach an engine, as the driver of a live engine checks them.

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
