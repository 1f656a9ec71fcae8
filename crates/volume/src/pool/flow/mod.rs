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
mod family;
mod moving;
mod request;
mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use units::{Extent, Op, Sectors};

use super::error::Refusal;
use super::machine::{Failure, OperationId, Pool};
use super::names::{DiskUid, PoolVolumeId};
#[cfg(doc)]
use super::operation::Operation;
use super::script::StepId;
use crate::DiskId;

pub use change::CHANGES_MAX;
pub use moving::MOVES_MAX;
pub use request::{REQUEST_OPERATIONS_MAX, SEGMENT_BLOCKS_MAX};
pub use steps::{COPIES_MAX, STEPS_MAX};

use change::Change;
use family::Family;
use moving::Course;
use request::Request;
use steps::Steps;

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

/// One command to one disk. [`Flow::done`] wants to know its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number.
    pub id: PieceId,
    /// To which disk. One that [`Flow::pool`]'s state does not have yet is [`Flow::joining`].
    pub disk: DiskId,
    /// On whose account.
    pub payer: ChargeTo,
    /// What to do.
    pub work: Work,
}

/// What a flow wants of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Do this, and say [`Flow::done`].
    Issue(Piece),
    /// A request has ended. Sectors of a read for which there was no piece are zeroes.
    Answer(PoolRequestId, Result<(), Fault>),
    /// A change has ended. After [`Operation::RemoveDisk`] no piece to that disk is under way.
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
enum Owner {
    Request(PoolRequestId),
    Step(StepId),
    Load(CopyId),
    Store(CopyId),
    Change(ChangeId),
}

/// An operation of the pool that is not released.
#[derive(Clone, Copy, Debug)]
struct Under {
    owner: Owner,
    payer: ChargeTo,
    /// Whose blocks it may give back.
    family: Option<PoolVolumeId>,
    /// What failed of it, if something did.
    fault: Option<Fault>,
}

/// A pool under its clients.
#[derive(Clone, Debug)]
pub struct Flow {
    pool: Pool,
    families: BTreeMap<PoolVolumeId, Family>,
    requests: BTreeMap<PoolRequestId, Request>,
    /// Those to look at again, by age.
    held: BTreeMap<u64, PoolRequestId>,
    /// By age, those that move blocks among them.
    changes: BTreeMap<ChangeId, Change>,
    courses: BTreeMap<PoolVolumeId, Course>,
    tickets: BTreeMap<OperationId, Under>,
    request_operations: usize,
    steps: Steps,
    pieces: BTreeMap<PieceId, Owner>,
    outputs: VecDeque<Output>,
    /// Whether something has ended that others may wait for.
    stirred: bool,
    paused: bool,
    serials: u64,
    change_numbers: u64,
    piece_numbers: u64,
}

impl Flow {
    /// A pool that was created or opened, with nothing under way but its own beginning. Blocks that do not lie where they are to lie
    /// are moved from the first poll on, unless that is paused before.
    pub fn new(pool: Pool) -> Self {
        let volumes: Vec<(PoolVolumeId, bool)> =
            pool.state().volumes().map(|(id, volume)| (id, volume.origin.is_none())).collect();
        let families = volumes.iter().filter(|(_, origin)| *origin);
        let families = families.map(|(id, _)| (*id, Family::new(&pool, *id))).collect();
        let courses = volumes.iter().map(|(id, _)| (*id, Course::default())).collect();
        Self {
            pool,
            families,
            requests: BTreeMap::new(),
            held: BTreeMap::new(),
            changes: BTreeMap::new(),
            courses,
            tickets: BTreeMap::new(),
            request_operations: 0,
            steps: Steps::default(),
            pieces: BTreeMap::new(),
            outputs: VecDeque::new(),
            stirred: true,
            paused: false,
            serials: 0,
            change_numbers: 0,
            piece_numbers: 0,
        }
    }

    /// The pool, to look at.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The disk that is about to join, by the number that pieces to it have.
    pub fn joining(&self) -> Option<(DiskId, DiskUid)> {
        let uid = self.changes.values().find_map(Change::adds)?;
        Some((self.pool.state().next_disk(), uid))
    }

    /// The next thing to do, or to know. `None`: nothing until a piece is done, or something is asked.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if !self.stirred {
                return None;
            }
            self.stirred = false;
            self.stir();
        }
    }

    /// A piece has ended: well, with [`Fault::Disk`], or with [`Fault::NoSpace`] if what lies under the disk has no room.
    ///
    /// # Panics
    /// If it is not under way.
    pub fn done(&mut self, piece: PieceId, end: Result<(), Fault>) {
        match self.pieces.remove(&piece).expect("a piece ends once") {
            Owner::Request(id) => self.flown(id, end),
            Owner::Step(step) => self.stepped(step, end),
            Owner::Load(copy) => self.loaded(copy, end),
            Owner::Store(copy) => self.stored(copy, end),
            Owner::Change(_) => unreachable!("a change has steps, not pieces"),
        }
    }

    /// Whether nothing is under way and nothing is left to say.
    pub fn is_idle(&self) -> bool {
        let still = self.requests.is_empty() && self.changes.is_empty() && self.pieces.is_empty();
        still && self.outputs.is_empty() && !self.stirred && self.pool.is_idle()
    }

    /// Which sectors of `extent` lie somewhere, in their order; those that do not read as zeroes.
    ///
    /// # Panics
    /// If the volume is not there, or `extent` passes its end.
    pub fn allocation(
        &self,
        volume: PoolVolumeId,
        extent: Extent,
    ) -> impl Iterator<Item = (Extent, bool)> + '_ {
        let volume = self.pool.state().volume(volume).expect("the volume is there");
        let pieces = volume.map(extent).map(|piece| (piece.extent, piece.location.is_some()));
        let mut pieces = pieces.peekable();
        std::iter::from_fn(move || {
            let (mut extent, there) = pieces.next()?;
            while let Some((more, _)) = pieces.next_if(|(_, other)| *other == there) {
                extent.len += more.len;
            }
            Some((extent, there))
        })
    }

    /// Takes everything as far as it goes.
    fn stir(&mut self) {
        loop {
            let mut some = false;
            while let Some((ticket, end)) = self.pool.ended() {
                self.finished(ticket, end);
                some = true;
            }
            some |= self.advance();
            some |= self.look_again();
            some |= self.send_out();
            some |= self.give_out();
            if !some {
                return;
            }
        }
    }

    fn finished(&mut self, ticket: OperationId, end: Result<(), Failure>) {
        let under = self.tickets[&ticket];
        let family = under.family.and_then(|family| self.families.get_mut(&family));
        if let Some(family) = family.filter(|_| self.pool.gave_back(ticket)) {
            let free = family.end(ticket);
            self.release(free);
        } else {
            // Nobody reads what it held: it gave nothing back, or came to nothing.
            self.pool.release(ticket);
            self.tickets.remove(&ticket);
            if end.is_err() {
                self.encourage();
            }
        }
        match under.owner {
            Owner::Request(id) => self.prepared(id, end, under.fault),
            Owner::Change(id) => self.carried_out(id, end),
            Owner::Step(_) | Owner::Load(_) | Owner::Store(_) => unreachable!("it has pieces"),
        }
    }

    /// Nobody reads any more what these gave back.
    fn release(&mut self, tickets: Vec<OperationId>) {
        for ticket in tickets {
            self.pool.release(ticket);
            self.tickets.remove(&ticket);
            self.stirred = true;
            self.encourage();
        }
    }

    /// Forgets a family that is gone and of which nothing is under way.
    fn forget(&mut self, id: PoolVolumeId) {
        let gone = self.pool.state().volume(id).is_none();
        if gone && self.families.get(&id).is_some_and(Family::is_at_rest) {
            self.families.remove(&id);
        }
    }

    fn issue(&mut self, owner: Owner, disk: DiskId, payer: ChargeTo, work: Work) {
        let id = PieceId(self.piece_numbers);
        self.piece_numbers += 1;
        self.pieces.insert(id, owner);
        self.outputs.push_back(Output::Issue(Piece { id, disk, payer, work }));
    }
}
