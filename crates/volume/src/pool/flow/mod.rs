//! Clients' requests and an operator's changes, translated through one pool into commands to its
//! disks.
//!
//! A [`Flow`] states which [`Piece`] of work goes to which disk and to which volume it is charged,
//! and receives its completion. It has no clock, does no I/O, and sees no bytes but those of
//! metadata.
//!
//! - A request is mapped when it is issued. Blocks that are freed later are reused when no request
//!   that was mapped before is in flight (epoch-based reclamation).
//! - A write to unallocated blocks waits until their allocation is committed: its metadata is
//!   durable before its data is written.
//! - Blocks that an operation needs exclusively are quiesced before it begins: writes to a block
//!   that is moved, reads too of blocks that are removed.
//! - Misplaced blocks are moved in the background, a few at a time, charged to relocation.
//!
//! - A write to a mirror goes to all whole copies, a read to one of them. A disk that fails is
//!   taken out; what it missed is durably known before the write is answered, and made equal when
//!   it comes back.
//!
//! - A scrub reads every copy of every block. It holds no block: what was written to meanwhile is
//!   read again.
//!
//! Invariants: each request is answered once, each change ends once; no piece in flight touches a
//! free block.

mod change;
mod core;
mod order;
mod read_choice;
mod relocation;
mod request;
mod resync;
mod run_changes;
mod run_marks;
mod run_mirrors;
mod run_order;
mod run_read_disks;
mod run_relocations;
mod run_requests;
mod run_resyncs;
mod run_scrub;
mod run_steps;
mod scrub;
mod snapshot_group;
mod steps;
mod values;

pub use change::CHANGES_MAX;
pub use core::Flow;
pub use relocation::RELOCATIONS_MAX;
pub use request::{REQUEST_OPERATIONS_MAX, SEGMENT_BLOCKS_MAX};
pub use scrub::{
    EXAMINATIONS_MAX, SCRUB_FINDINGS_MAX, SCRUB_RECORD_BLOCKS, ScrubFinding, ScrubProgress,
    ScrubVerdict,
};
pub use steps::{COPIES_MAX, RELOCATION_COPIES_MAX, STEPS_MAX};
pub use values::{
    ChangeId, ChangeOutcome, ChargeTo, CopyId, Digest, Fault, Output, Piece, PieceId,
    PoolRequestId, RecordSums, RelocationProgress, ResyncProgress, Verified, Work,
};
