//! The position of the arm, as far as completions tell.

use units::{Extent, Lba, Op, Operation};

/// The predicted position of the arm, and how it came there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) cylinder: u32,
    pub(super) surface: u32,
    /// The target of a seek command that ended here.
    pub(super) arrived: Option<Lba>,
    /// The last sequential run that was read, prefetched sectors included, if the last transfer was
    /// a read.
    pub(super) read: Extent,
    /// Where a sequential write would continue.
    pub(super) written: Option<Lba>,
}

/// Whether `head` continues the last sequential run: then the drive's cache has it, or its write
/// buffer accepts it.
pub(super) fn continues_run(arm: &Arm, head: &Operation) -> bool {
    debug_assert!(arm.arrived.is_none() || arm.read.is_empty(), "a seek ends a run of reads");
    debug_assert!(arm.written.is_none() || arm.read.is_empty(), "a write ends a run of reads");
    match head.op {
        Op::Read => {
            let run = arm.read;
            !run.is_empty() && run.start <= head.extent.start && head.extent.start <= run.end()
        }
        Op::Write => arm.written == Some(head.extent.start),
        Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => false,
    }
}
