//! A change that has not ended.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::pool::flow::values::PoolRequestId;
use crate::pool::names::{DiskUid, PoolVolumeId};
use crate::pool::operation::kinds::{Lock, Operation};
use crate::pool::operation::machine::OperationId;

/// Changes that wait or are under way, at most.
pub const CHANGES_MAX: usize = 64;

/// Blocks of a volume that are to rest.
#[derive(Clone, Debug)]
pub(crate) struct Quiesced {
    pub(crate) volume: PoolVolumeId,
    pub(crate) blocks: Range<u32>,
    /// Whether they are not even read.
    pub(crate) reads: bool,
}

/// A change that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct PendingChange {
    pub(crate) operation: Operation,
    /// Of which volume a block is moved; none for an operator's change.
    pub(crate) course: Option<PoolVolumeId>,
    pub(crate) stage: Stage,
    pub(crate) locks: Vec<Lock>,
    pub(crate) rest: Option<Quiesced>,
    /// Where there was no room: whatever was under way then may yet give some back.
    pub(crate) patience: Option<OperationId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// For its turn.
    Waiting,
    /// For the end of these requests.
    Draining(BTreeSet<PoolRequestId>),
    Begun(OperationId),
    /// It holds. These requests still have a piece at a disk that is gone.
    Leaving(BTreeSet<PoolRequestId>),
}

impl PendingChange {
    /// One that waits for its turn.
    pub(crate) fn new(operation: Operation, course: Option<PoolVolumeId>) -> Self {
        let (locks, rest, patience) = (Vec::new(), None, None);
        Self { operation, course, stage: Stage::Waiting, locks, rest, patience }
    }

    pub(crate) fn is_raised(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    /// The disk that it adds, once that is begun.
    pub(crate) fn adds(&self) -> Option<DiskUid> {
        match (&self.operation, &self.stage) {
            (Operation::AddDisk { uid, .. }, Stage::Begun(_)) => Some(*uid),
            _ => None,
        }
    }
}
