//! The position of the arm, as far as completions tell.

use units::{Extent, Lba, Op, Operation};

/// Where the arm is thought to be, and how it came there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) cylinder: u32,
    pub(super) surface: u32,
    /// The target of a seek command that ended here.
    pub(super) arrived: Option<Lba>,
    /// What was last read in a row, prefetched sectors with it, if the last transfer read.
    pub(super) read: Extent,
    /// Where a write in a row would go on.
    pub(super) written: Option<Lba>,
}

/// Whether `head` goes on with what the arm was last at: then the drive's memory has it, or takes it.
pub(super) fn goes_on(arm: &Arm, head: &Operation) -> bool {
    match head.op {
        Op::Read => {
            let run = arm.read;
            !run.is_empty() && run.start <= head.extent.start && head.extent.start <= run.end()
        }
        Op::Write => arm.written == Some(head.extent.start),
        Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => false,
    }
}
