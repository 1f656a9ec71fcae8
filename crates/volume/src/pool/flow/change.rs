//! A change that has not ended.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::flow::values::PoolRequestId;
use crate::pool::names::{DiskUid, PoolVolumeId};
use crate::pool::operation::kinds::{Lock, Operation};
use crate::pool::operation::machine::OperationId;

/// The limit on changes that wait or are in progress.
pub const CHANGES_MAX: usize = 64;

/// The volumes of which blocks are quiesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One volume.
    Volume(PoolVolumeId),
    /// All volumes of a group, which may share the blocks.
    Group(PoolVolumeId),
    /// All volumes.
    All,
}

/// Blocks of volumes that are quiesced.
#[derive(Clone, Debug)]
pub(crate) struct Quiesced {
    pub(crate) scope: Scope,
    pub(crate) blocks: Range<u32>,
    /// Whether reads are held too.
    pub(crate) reads: bool,
}

impl Quiesced {
    /// Whether it is of this volume, which belongs to this group.
    pub(crate) fn is_of(&self, volume: PoolVolumeId, group: PoolVolumeId) -> bool {
        match self.scope {
            Scope::Volume(one) => one == volume,
            Scope::Group(one) => one == group,
            Scope::All => true,
        }
    }
}

/// A change that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct PendingChange {
    pub(crate) operation: Operation,
    /// The volume of which a block is moved; none for an operator's change.
    pub(crate) relocation: Option<PoolVolumeId>,
    /// Whether the pool makes it by itself, for its copies or its scrub; not an operator's change
    /// either.
    pub(crate) is_internal: bool,
    pub(crate) stage: Stage,
    pub(crate) locks: Vec<Lock>,
    pub(crate) rest: Option<Quiesced>,
    /// Set when a lack of space was found: the next operation's number then. Older operations may
    /// still free space.
    pub(crate) nospace_retry_after: Option<OperationId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Until the locks of older changes are released.
    Waiting,
    /// Until these requests have completed.
    Quiescing(BTreeSet<PoolRequestId>),
    Begun(OperationId),
    /// Committed. These requests still have a piece in flight at the removed disk.
    Leaving(BTreeSet<PoolRequestId>),
}

impl PendingChange {
    /// A change that waits.
    pub(crate) fn new(operation: Operation, relocation: Option<PoolVolumeId>) -> Self {
        let moves = matches!(operation, Operation::Move { .. });
        assert!(relocation.is_none() || moves, "a relocation moves blocks");
        let (locks, rest, nospace_retry_after) = (Vec::new(), None, None);
        let (stage, is_internal) = (Stage::Waiting, false);
        Self { operation, relocation, is_internal, stage, locks, rest, nospace_retry_after }
    }

    /// One of the pool's own, which waits.
    pub(crate) fn internal(operation: Operation) -> Self {
        Self { is_internal: true, ..Self::new(operation, None) }
    }

    /// Whether it makes copies equal.
    pub(crate) fn is_resync(&self) -> bool {
        self.is_internal && matches!(self.operation, Operation::Resync { .. })
    }

    /// Whether an operator asked for it.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.relocation.is_none() && !self.is_internal
    }

    pub(crate) fn has_quiesced(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    /// Whether it begins when nothing is in flight at this disk any more.
    pub(crate) fn waits_for(&self, at: DiskId) -> bool {
        let (Operation::TakeBack { disk } | Operation::ReplaceDisk { disk, .. }) = self.operation
        else {
            return false;
        };
        disk == at && !matches!(self.stage, Stage::Begun(_))
    }

    /// The device that it adds, once the operation has begun, and the disk whose place it takes.
    pub(crate) fn adds(&self) -> Option<(DiskUid, Option<DiskId>)> {
        match (&self.operation, &self.stage) {
            (Operation::AddDisk { uid, .. }, Stage::Begun(_)) => Some((*uid, None)),
            (Operation::ReplaceDisk { uid, disk, .. }, Stage::Begun(_)) => {
                Some((*uid, Some(*disk)))
            }
            _ => None,
        }
    }
}
