//! Clients' requests and an operator's changes, through one pool, to its disks.
//!
//! A [`Flow`] says which [`Piece`] of work goes to which disk and on whose account, and is told when it is done. It has no
//! clock, does no I/O, and sees no bytes but those of metadata.
//!
//! - A request goes to where its sectors lie when it is issued. What was given back since is free when nobody who found it is under way.
//! - A write that has no place of its own yet waits until it has one for good: its metadata is durable before its data is written.
//! - What an operation has for itself rests before it begins: writes to a block that is moved, reads too of what goes.
//! - Blocks that are to lie elsewhere are moved by themselves, a few at a time, on an account of their own.
//!
//! Invariants: each request is answered once, each change ends once; no piece is under way at a block that is free.

mod change;
mod core;
mod relocation;
mod request;
mod run_changes;
mod run_relocations;
mod run_requests;
mod run_steps;
mod snapshot_group;
mod steps;
mod values;

pub use change::CHANGES_MAX;
pub use core::Flow;
pub use relocation::RELOCATIONS_MAX;
pub use request::{REQUEST_OPERATIONS_MAX, SEGMENT_BLOCKS_MAX};
pub use steps::{COPIES_MAX, STEPS_MAX};
pub use values::{
    ChangeId, ChangeOutcome, ChargeTo, CopyId, Fault, Output, Piece, PieceId, PoolRequestId,
    RelocationProgress, Work,
};
