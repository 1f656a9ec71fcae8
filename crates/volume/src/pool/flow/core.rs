//! The state machine of a flow.

use std::collections::{BTreeMap, VecDeque};

use units::Extent;

use crate::location::DiskId;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::relocation::Relocation;
use crate::pool::flow::request::Request;
use crate::pool::flow::snapshot_group::SnapshotGroup;
use crate::pool::flow::steps::Steps;
use crate::pool::flow::values::{
    ChangeId, ChargeTo, Fault, Output, Owner, PendingOperation, Piece, PieceId, PoolRequestId, Work,
};
use crate::pool::names::{DiskUid, PoolVolumeId};
use crate::pool::operation::machine::{Failure, OperationId, Pool};

/// A pool under its clients.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(crate) pool: Pool,
    pub(crate) families: BTreeMap<PoolVolumeId, SnapshotGroup>,
    pub(crate) requests: BTreeMap<PoolRequestId, Request>,
    /// Those to look at again, by age.
    pub(crate) held: BTreeMap<u64, PoolRequestId>,
    /// By age, those that move blocks among them.
    pub(crate) changes: BTreeMap<ChangeId, PendingChange>,
    pub(crate) courses: BTreeMap<PoolVolumeId, Relocation>,
    pub(crate) tickets: BTreeMap<OperationId, PendingOperation>,
    pub(crate) request_operations: usize,
    pub(crate) steps: Steps,
    pub(crate) pieces: BTreeMap<PieceId, Owner>,
    pub(crate) outputs: VecDeque<Output>,
    /// Whether something has ended that others may wait for.
    pub(crate) stirred: bool,
    pub(crate) paused: bool,
    pub(crate) serials: u64,
    pub(crate) change_numbers: u64,
    pub(crate) piece_numbers: u64,
}

impl Flow {
    /// A pool that was created or opened, with nothing under way but its own beginning. Blocks that do not lie where they are to lie
    /// are moved from the first poll on, unless that is paused before.
    pub fn new(pool: Pool) -> Self {
        let volumes: Vec<(PoolVolumeId, bool)> =
            pool.state().volumes().map(|(id, volume)| (id, volume.origin.is_none())).collect();
        let families = volumes.iter().filter(|(_, origin)| *origin);
        let families = families.map(|(id, _)| (*id, SnapshotGroup::new(&pool, *id))).collect();
        let courses = volumes.iter().map(|(id, _)| (*id, Relocation::default())).collect();
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
        let uid = self.changes.values().find_map(PendingChange::adds)?;
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
    pub(crate) fn stir(&mut self) {
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

    pub(crate) fn finished(&mut self, ticket: OperationId, end: Result<(), Failure>) {
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
    pub(crate) fn release(&mut self, tickets: Vec<OperationId>) {
        for ticket in tickets {
            self.pool.release(ticket);
            self.tickets.remove(&ticket);
            self.stirred = true;
            self.encourage();
        }
    }

    /// Forgets a family that is gone and of which nothing is under way.
    pub(crate) fn forget(&mut self, id: PoolVolumeId) {
        let gone = self.pool.state().volume(id).is_none();
        if gone && self.families.get(&id).is_some_and(SnapshotGroup::is_at_rest) {
            self.families.remove(&id);
        }
    }

    pub(crate) fn issue(&mut self, owner: Owner, disk: DiskId, payer: ChargeTo, work: Work) {
        let id = PieceId(self.piece_numbers);
        self.piece_numbers += 1;
        self.pieces.insert(id, owner);
        self.outputs.push_back(Output::Issue(Piece { id, disk, payer, work }));
    }
}
