//! What enters a flow, and what it asks of the disks.

use std::sync::Arc;

use units::{Extent, Op, Sectors};

use crate::location::DiskId;
use crate::pool::names::PoolVolumeId;
use crate::pool::operation::machine::Failure;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::StepId;

/// A client's request, numbered by its submitter: unique among the requests in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolRequestId(pub u64);

/// One command to one disk. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PieceId(pub u64);

/// The bytes of a copy, between its [`Work::Load`] and its [`Work::Store`]; the driver keeps them.
/// Numbers are never reused.
///
/// A successful load is followed by its store, unless
/// [`Flow::keeps`](crate::pool::Flow::keeps) says otherwise when it has been reported. The
/// bytes can be dropped when the store has ended or none follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(pub u64);

/// An operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeId(pub u64);

/// The account that a piece is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChargeTo {
    /// A volume or a snapshot.
    Volume(PoolVolumeId),
    /// The pool's metadata.
    Metadata,
    /// Relocation.
    Relocation,
    /// Making copies equal.
    Rebuild,
    /// Reading everything.
    Scrub,
}

/// What a piece does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A part of a client's request.
    Request {
        /// Which request.
        request: PoolRequestId,
        /// The command. [`Op::Flush`] has an empty extent.
        op: Op,
        /// The sectors of the disk.
        extent: Extent,
        /// Their offset in the request's data.
        at: Sectors,
        /// Completes only when durable.
        fua: bool,
        /// Zeroes stay allocated.
        no_hole: bool,
    },
    /// Write metadata.
    Metadata {
        /// Where.
        extent: Extent,
        /// The bytes.
        bytes: Arc<[u8]>,
        /// Completes only when durable.
        fua: bool,
    },
    /// Make everything written to the disk durable, for the pool.
    Flush,
    /// Make these sectors read as zeroes.
    Erase {
        /// Which sectors.
        extent: Extent,
    },
    /// Read the source of a copy.
    Load {
        /// Which copy.
        copy: CopyId,
        /// From where.
        extent: Extent,
    },
    /// Write the bytes that were loaded.
    Store {
        /// Which copy.
        copy: CopyId,
        /// Where to; as long as the load.
        extent: Extent,
        /// Completes only when durable. If not, a flush follows the last store of its operation.
        fua: bool,
    },
    /// Read sectors for the scrub. Its completion is reported to
    /// [`Flow::verified`](crate::pool::Flow::verified).
    Verify {
        /// Which sectors.
        extent: Extent,
        /// Whether other copies are read too: the digest of the bytes tells whether they differ.
        has_copies: bool,
        /// Whether the checksums of the bytes are recorded where they are not known.
        records: RecordSums,
    },
}

/// Whether a read records the checksums of its bytes, of those of which none is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordSums {
    /// It does not.
    Never,
    /// It does if this is the digest of the bytes: that of the copies that were compared.
    IfEqual(Digest),
    /// It does: there is no other copy.
    Always,
}

/// What the scrub is told of a copy that could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The digest of its bytes, where it has copies, or else any.
    pub digest: Digest,
    /// Whether its disk keeps checksums, and does not know all of those of the bytes.
    pub lacks_sums: bool,
}

/// A value that differs where the bytes of two copies do, but for a probability of 2⁻⁶⁴. The
/// driver computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Work {
    /// The number of sectors that it reads or writes.
    pub(crate) fn sectors(&self) -> Sectors {
        match self {
            Self::Request { extent, .. }
            | Self::Metadata { extent, .. }
            | Self::Load { extent, .. }
            | Self::Store { extent, .. }
            | Self::Verify { extent, .. } => extent.len,
            Self::Flush | Self::Erase { .. } => Sectors::ZERO,
        }
    }
}

/// One command to one disk. Its completion is reported to [`Flow::done`](crate::pool::Flow::done).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number.
    pub id: PieceId,
    /// The disk. One that [`Flow::pool`](crate::pool::Flow::pool) does not have yet is
    /// [`Flow::joining`](crate::pool::Flow::joining).
    pub disk: DiskId,
    /// The account.
    pub payer: ChargeTo,
    /// The work.
    pub work: Work,
}

/// What a flow asks of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Issue this, and report [`Flow::done`](crate::pool::Flow::done).
    Issue(Piece),
    /// A request has ended. Sectors of a read without a piece are zeroes.
    Answer(PoolRequestId, Result<(), Fault>),
    /// A change has ended. After [`Operation::RemoveDisk`](crate::pool::Operation::RemoveDisk) no
    /// piece to that disk is in flight.
    Ended(ChangeId, ChangeOutcome),
}

/// Why a request or a piece failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A disk failed, or is missing.
    Disk,
    /// The pool is full.
    NoSpace,
    /// It is a snapshot, or a disk of the pool is missing.
    ReadOnly,
    /// It passes the volume's end, or the volume has been removed.
    Invalid,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Committed.
    Done,
    /// Not begun: nothing was changed.
    Refused(Refusal),
    /// Begun, and failed; [`Failure`] tells whether its effect is known.
    Failed(Failure),
}

/// The progress of a volume's relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationProgress {
    /// The volume or snapshot.
    pub volume: PoolVolumeId,
    /// Blocks moved since it began, or since the pool was opened.
    pub moved: u64,
    /// Misplaced blocks.
    pub misplaced: u64,
    /// Why none of them can be moved, if so.
    pub stuck: Option<ChangeOutcome>,
}

/// The progress of making copies equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncProgress {
    /// Blocks that were examined and made equal since the pool was opened.
    pub done: u64,
    /// Stale blocks of disks that are in.
    pub stale: u64,
    /// Stale blocks of disks that are out.
    pub stale_out: u64,
    /// Whether blocks are being made equal.
    pub is_running: bool,
    /// Whether some cannot be until something has changed.
    pub is_stuck: bool,
}

/// A piece of a request to a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyPiece {
    pub(crate) request: PoolRequestId,
    pub(crate) disk: DiskId,
    pub(crate) extent: Extent,
    /// The last write that it covers, if it is a flush.
    pub(crate) last_write: u64,
}

/// The originator of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Request(PoolRequestId),
    Copy(CopyPiece),
    Step(StepId),
    Load(CopyId),
    Store(CopyId),
    Change(ChangeId),
    Verify(VerifyId),
}

/// A copy of a block that the scrub reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifyId {
    /// The number of the block's examination.
    pub(crate) examination: u64,
    /// The copy's index in it.
    pub(crate) copy: usize,
}

/// A piece in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceInFlight {
    pub(crate) owner: Owner,
    pub(crate) disk: DiskId,
    /// The disk time that it is expected to take, in the sectors that the disk could transfer in
    /// it.
    pub(crate) cost: Sectors,
}

/// An operation of the pool that is not released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingOperation {
    pub(crate) owner: Owner,
    pub(crate) payer: ChargeTo,
    /// The snapshot group of which it can free blocks.
    pub(crate) group: Option<PoolVolumeId>,
    /// Its first fault.
    pub(crate) fault: Option<Fault>,
}
