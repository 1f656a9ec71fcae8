//! What a flow is asked for, and what it asks of the disks.

use std::sync::Arc;

use units::{Extent, Op, Sectors};

use crate::location::DiskId;
use crate::pool::names::PoolVolumeId;
use crate::pool::operation::machine::Failure;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::StepId;

/// A client's request, by the asker's number for it: one that no other request under way has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolRequestId(pub u64);

/// One command to one disk. A number is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PieceId(pub u64);

/// The bytes of a copy, between its [`Work::Load`] and its [`Work::Store`]: the driver keeps them. A number is never given twice.
///
/// A load that ended well is followed by its store; when that has ended, or the load ended badly, they can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(pub u64);

/// An operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeId(pub u64);

/// Who pays for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChargeTo {
    /// A volume or a snapshot.
    Volume(PoolVolumeId),
    /// The pool itself.
    Metadata,
    /// Whoever pays for blocks that are laid elsewhere.
    Relocation,
}

/// What a piece does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A part of a client's request.
    Request {
        /// Whose.
        request: PoolRequestId,
        /// What to do. [`Op::Flush`] has an empty extent.
        op: Op,
        /// To which sectors of the disk.
        extent: Extent,
        /// Where in the request's data they are.
        at: Sectors,
        /// Answered only when it is durable.
        fua: bool,
        /// Zeroes are to be written, not to become a hole.
        no_hole: bool,
    },
    /// Write metadata.
    Metadata {
        /// Where.
        extent: Extent,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// Make all that was written to the disk durable, for the pool.
    Flush,
    /// Make these sectors read as zeroes.
    Erase {
        /// Which.
        extent: Extent,
    },
    /// Read what is to be copied.
    Load {
        /// Which copy.
        copy: CopyId,
        /// From where.
        extent: Extent,
    },
    /// Write what was read.
    Store {
        /// Which copy.
        copy: CopyId,
        /// Where to; as long as what was read.
        extent: Extent,
    },
}

/// One command to one disk. [`Flow::done`](crate::pool::Flow::done) wants to know its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number.
    pub id: PieceId,
    /// To which disk. One that [`Flow::pool`](crate::pool::Flow::pool)'s state does not have yet is [`Flow::joining`](crate::pool::Flow::joining).
    pub disk: DiskId,
    /// On whose account.
    pub payer: ChargeTo,
    /// What to do.
    pub work: Work,
}

/// What a flow wants of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Do this, and say [`Flow::done`](crate::pool::Flow::done).
    Issue(Piece),
    /// A request has ended. Sectors of a read for which there was no piece are zeroes.
    Answer(PoolRequestId, Result<(), Fault>),
    /// A change has ended. After [`Operation::RemoveDisk`](crate::pool::Operation::RemoveDisk) no piece to that disk is under way.
    Ended(ChangeId, ChangeOutcome),
}

/// Why a request, or a piece, came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A disk failed, or is missing.
    Disk,
    /// The pool has no room left.
    NoSpace,
    /// It is a snapshot, or a disk of the pool is missing.
    ReadOnly,
    /// It passes the volume's end, or the volume is gone.
    Invalid,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It holds for good.
    Done,
    /// It was not begun: nothing was changed.
    Refused(Refusal),
    /// It was begun, and came to nothing, or to what nobody knows.
    Failed(Failure),
}

/// How far the blocks of a volume are on their way to where they are to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationProgress {
    /// Of which volume or snapshot.
    pub volume: PoolVolumeId,
    /// Blocks that were moved since it began, or since the pool was opened.
    pub moved: u64,
    /// Blocks that do not lie where they are to lie.
    pub misplaced: u64,
    /// Why none of them can be moved, if that is so.
    pub stuck: Option<ChangeOutcome>,
}

/// Whose a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Request(PoolRequestId),
    Step(StepId),
    Load(CopyId),
    Store(CopyId),
    Change(ChangeId),
}

/// An operation of the pool that is not released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingOperation {
    pub(crate) owner: Owner,
    pub(crate) payer: ChargeTo,
    /// Whose blocks it may give back.
    pub(crate) family: Option<PoolVolumeId>,
    /// What failed of it, if something did.
    pub(crate) fault: Option<Fault>,
}
