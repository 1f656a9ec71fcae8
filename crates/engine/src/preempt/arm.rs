//! The position of the arm, as far as completions tell.

use drive_profile::PhysicalAddress;
use units::{Extent, Lba, Op, Operation, Sectors};

/// The predicted position of the arm, and how it came there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    /// The target of a seek command that ended here.
    pub(super) arrived: Option<Lba>,
    /// The last sequential run that was read, prefetched sectors included, if the last transfer was
    /// a read.
    pub(crate) read: Extent,
    /// Where a sequential write would continue.
    pub(super) written: Option<Lba>,
}

impl Arm {
    /// The arm behind a read or a write that ended at `spot`.
    pub(crate) fn after(
        before: Option<&Self>,
        operation: &Operation,
        spot: &PhysicalAddress,
    ) -> Self {
        let extent = operation.extent;
        assert!(!extent.is_empty(), "a transfer has sectors");
        let nothing = Extent::new(extent.end(), Sectors::ZERO);
        let (read, written) = match operation.op {
            Op::Read => {
                let on = before.filter(|arm| continues_run(arm, operation)).map(|arm| arm.read);
                let start = on.map_or(extent.start, |on| on.start);
                let end = on.map_or(extent.end(), |on| on.end().max(extent.end()));
                (Extent::new(start, start.distance(end)), None)
            }
            _ => (nothing, Some(extent.end())),
        };
        debug_assert!(matches!(operation.op, Op::Read | Op::Write), "it transfers");
        let (cylinder, surface) = (spot.cylinder, spot.surface);
        Self { cylinder, surface, arrived: None, read, written }
    }
}

/// Whether `head` continues the last sequential run: then the drive's cache has it, or its write
/// buffer accepts it.
pub(crate) fn continues_run(arm: &Arm, head: &Operation) -> bool {
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
