//! Clients' requests and an operator's changes, through one pool, to its disks.
//!
//! A [`Flow`] says which [`Piece`] of work goes to which disk and on whose account, and is told when it is done. It has no
//! clock, does no I/O, and sees no bytes but those of metadata.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Extent, Op, Sectors};

use super::error::Refusal;
use super::machine::{Failure, Pool};
use super::names::VolumeId;
use super::operation::Operation;
use crate::DiskId;

/// A client's request, by the asker's number for it: one that no other request under way has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One command to one disk. A number is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PieceId(pub u64);

/// The bytes of a copy, between its [`Work::Load`] and its [`Work::Store`]: the driver keeps them. A number is never given twice.
///
/// They can go when the store has been given out and ended, or when the load ended badly. A load that ended well may be followed by no store,
/// if the copy was called off: [`Output::Forget`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(pub u64);

/// An operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeId(pub u64);

/// Who pays for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// A volume or a snapshot.
    Volume(VolumeId),
    /// The pool itself.
    Metadata,
    /// Whoever pays for blocks that are laid elsewhere.
    Moving,
}

/// What a piece does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A part of a client's request.
    Request {
        /// Whose.
        request: RequestId,
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

/// One command to one disk. [`Flow::done`] wants to know its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number.
    pub id: PieceId,
    /// To which disk. One that [`Flow::pool`]'s state does not have yet is [`Flow::joining`].
    pub disk: DiskId,
    /// On whose account.
    pub payer: Payer,
    /// What to do.
    pub work: Work,
}

/// What a flow wants of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Do this, and say [`Flow::done`].
    Issue(Piece),
    /// A request has ended. Sectors of a read for which there was no piece are zeroes.
    Answer(RequestId, Result<(), Fault>),
    /// A change has ended. After [`Operation::RemoveDisk`] no piece to that disk is under way.
    Ended(ChangeId, End),
    /// A copy that was read is not going to be written: its bytes can go.
    Forget(CopyId),
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
pub enum End {
    /// It holds for good.
    Done,
    /// It was not begun: nothing was changed.
    Refused(Refusal),
    /// It was begun, and came to nothing, or to what nobody knows.
    Failed(Failure),
}

/// How far the blocks of a volume are on their way to where they are to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of which volume or snapshot.
    pub volume: VolumeId,
    /// Blocks that were moved since it began, or since the pool was opened.
    pub moved: u64,
    /// Blocks that do not lie where they are to lie.
    pub misplaced: u64,
    /// Why none of them can be moved, if that is so.
    pub stuck: Option<End>,
}

/// A pool under its clients.
#[derive(Clone, Debug)]
pub struct Flow {
    pool: Pool,
    outputs: VecDeque<Output>,
    changes_begun: u64,
}

impl Flow {
    /// A pool that was created or opened, with nothing under way but its own beginning.
    pub fn new(pool: Pool) -> Self {
        Self { pool, outputs: VecDeque::new(), changes_begun: 0 }
    }

    /// The pool, to look at.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The disk that is about to join, by the number that pieces to it have.
    pub fn joining(&self) -> Option<(DiskId, super::DiskUid)> {
        None
    }

    /// A client's request. It is answered once, by [`Output::Answer`].
    ///
    /// # Panics
    /// If a request under way has its number.
    pub fn submit(
        &mut self,
        id: RequestId,
        _volume: VolumeId,
        _operation: units::Operation,
        _no_hole: bool,
    ) {
        self.outputs.push_back(Output::Answer(id, Err(Fault::Invalid)));
    }

    /// A change, which ends with [`Output::Ended`].
    pub fn change(&mut self, _operation: Operation) -> ChangeId {
        let id = ChangeId(self.changes_begun);
        self.changes_begun += 1;
        self.outputs.push_back(Output::Ended(id, End::Refused(Refusal::TooMany)));
        id
    }

    /// Calls a change off, unless it is being committed. It ends all the same.
    pub fn cancel(&mut self, _change: ChangeId) {}

    /// The next thing to do, or to know. `None`: nothing until a piece is done, or something is asked.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A piece has ended: well, with [`Fault::Disk`], or with [`Fault::NoSpace`] if what lies under the disk has no room.
    ///
    /// # Panics
    /// If it is not under way.
    pub fn done(&mut self, _piece: PieceId, _end: Result<(), Fault>) {}

    /// Whether nothing is under way and nothing is left to say.
    pub fn is_idle(&self) -> bool {
        self.outputs.is_empty() && self.pool.is_idle()
    }

    /// Which sectors of `extent` lie somewhere, in their order; those that do not read as zeroes.
    ///
    /// # Panics
    /// If the volume is not there, or `extent` passes its end.
    pub fn allocation(
        &self,
        volume: VolumeId,
        extent: Extent,
    ) -> impl Iterator<Item = (Extent, bool)> + '_ {
        let volume = self.pool.state().volume(volume).expect("the volume is there");
        volume.map(extent).map(|piece| (piece.extent, piece.placed.is_some()))
    }

    /// Whether blocks that are to lie elsewhere stay for now where they are. Those on their way arrive.
    pub fn pause_moving(&mut self, _paused: bool) {}

    /// The volumes with blocks that are to lie elsewhere. Takes as long as it takes to look at all their extents.
    pub fn moving(&self) -> Vec<Progress> {
        Vec::new()
    }
}
