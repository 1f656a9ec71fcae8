//! The state machine of a flow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Extent, Op, Sectors};

use crate::location::DiskId;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::order::RequestOrder;
use crate::pool::flow::read_choice::{InFlightCosts, POSITIONING_MAX};
use crate::pool::flow::relocation::RELOCATIONS_MAX;
use crate::pool::flow::relocation::Relocation;
use crate::pool::flow::request::{REQUEST_OPERATIONS_MAX, Request, Stage};
use crate::pool::flow::resync::{RESYNCS_MAX, Resync};
use crate::pool::flow::scrub::Scrub;
use crate::pool::flow::snapshot_group::SnapshotGroup;
use crate::pool::flow::steps::{COPIES_MAX, RELOCATION_COPIES_MAX, STEPS_MAX, Steps};
use crate::pool::flow::values::{
    ChangeId, ChargeTo, CopyPiece, Fault, Output, Owner, PendingOperation, Piece, PieceId,
    PieceInFlight, PoolRequestId, Work,
};
use crate::pool::limits::OPERATIONS_MAX;
use crate::pool::names::{DiskUid, PoolVolumeId};
use crate::pool::operation::domains::Domains;
use crate::pool::operation::machine::{Failure, OperationId, Pool};

// Clients' requests leave operations for changes and moves, and steps for other work than copies.
const _: () = assert!(REQUEST_OPERATIONS_MAX + RELOCATIONS_MAX < OPERATIONS_MAX);
const _: () = assert!(RELOCATIONS_MAX < COPIES_MAX);
const _: () = assert!(RELOCATION_COPIES_MAX < RELOCATIONS_MAX);
const _: () = assert!(COPIES_MAX < STEPS_MAX);

/// A pool with its clients' requests and its operator's changes.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(crate) pool: Pool,
    pub(crate) groups: BTreeMap<PoolVolumeId, SnapshotGroup>,
    pub(crate) requests: BTreeMap<PoolRequestId, Request>,
    /// Held requests, to be retried in order of age.
    pub(crate) held: BTreeMap<u64, PoolRequestId>,
    /// In order of age, moves of blocks included.
    pub(crate) changes: BTreeMap<ChangeId, PendingChange>,
    pub(crate) relocations: BTreeMap<PoolVolumeId, Relocation>,
    pub(crate) operation_ids: BTreeMap<OperationId, PendingOperation>,
    pub(crate) request_operations: usize,
    pub(crate) steps: Steps,
    pub(crate) resync: Resync,
    pub(crate) scrub: Scrub,
    /// The order of the requests of the volumes that are watched.
    pub(crate) orders: BTreeMap<PoolVolumeId, RequestOrder>,
    /// Of mirrors, the disks to which their reads go while these have a copy.
    pub(crate) read_disks: BTreeMap<PoolVolumeId, BTreeSet<DiskId>>,
    /// The block behind the last write to each mirror, while a disk is out.
    pub(crate) written_ends: BTreeMap<PoolVolumeId, u32>,
    /// The pieces in flight.
    pub(crate) pieces: BTreeMap<PieceId, PieceInFlight>,
    /// What they cost their disks.
    pub(crate) costs: InFlightCosts,
    pub(crate) outputs: VecDeque<Output>,
    /// Whether something has ended for which others may wait.
    pub(crate) dirty: bool,
    pub(crate) paused: bool,
    pub(crate) resync_paused: bool,
    pub(crate) serials: u64,
    pub(crate) change_numbers: u64,
    pub(crate) piece_numbers: u64,
}

impl Flow {
    /// A pool that was created or opened, with no operation in progress but its own initialisation.
    /// Misplaced blocks are moved from the first poll on, unless relocation is paused before.
    pub fn new(pool: Pool) -> Self {
        let groups: BTreeSet<PoolVolumeId> =
            pool.state().volumes().map(|(_, volume)| volume.group).collect();
        let groups = groups.into_iter().map(|group| (group, SnapshotGroup::new(&pool, group)));
        let groups = groups.collect();
        let relocations = pool.state().volumes().map(|(id, _)| (id, Relocation::default()));
        let relocations = relocations.collect();
        let scrub = Scrub::of(pool.state().scrub);
        Self {
            pool,
            groups,
            requests: BTreeMap::new(),
            held: BTreeMap::new(),
            changes: BTreeMap::new(),
            relocations,
            operation_ids: BTreeMap::new(),
            request_operations: 0,
            steps: Steps::default(),
            resync: Resync::default(),
            scrub,
            orders: BTreeMap::new(),
            read_disks: BTreeMap::new(),
            written_ends: BTreeMap::new(),
            pieces: BTreeMap::new(),
            costs: InFlightCosts::default(),
            outputs: VecDeque::new(),
            dirty: true,
            paused: false,
            resync_paused: false,
            serials: 0,
            change_numbers: 0,
            piece_numbers: 0,
        }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Sets the failure domains of the pool's disks, and of those that are about to join.
    pub fn set_domains(&mut self, domains: Domains) {
        self.pool.set_domains(domains);
    }

    /// The device that is being added, and the number that its pieces carry: a new one, or that of
    /// the disk whose place it takes.
    pub fn joining(&self) -> Option<(DiskId, DiskUid)> {
        let (uid, instead) = self.changes.values().find_map(PendingChange::adds)?;
        Some((instead.unwrap_or_else(|| self.pool.state().next_disk()), uid))
    }

    /// A disk has failed although no piece did: it was pulled. Returns whether the pool goes on
    /// without it.
    pub fn fail(&mut self, disk: DiskId) -> bool {
        self.dirty = true;
        self.pool.fail(disk)
    }

    /// Whether the pool goes on without a disk that is in, and no block is lost with it.
    pub fn can_spare(&self, disk: DiskId) -> bool {
        self.pool.can_spare(disk)
    }

    /// Whether a piece is in flight at a disk.
    pub fn is_busy(&self, disk: DiskId) -> bool {
        self.pieces.values().any(|piece| piece.disk == disk)
    }

    /// The next output. `None`: nothing until a piece completes, or a request or change arrives.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if !self.dirty {
                return None;
            }
            self.dirty = false;
            self.advance();
        }
    }

    /// Completes a piece: well, with [`Fault::Disk`], or with [`Fault::NoSpace`] if the device
    /// under the disk is full.
    ///
    /// # Panics
    /// If the piece is not in flight.
    pub fn done(&mut self, piece: PieceId, end: Result<(), Fault>) {
        let (owner, disk) = self.end_piece(piece);
        match owner {
            Owner::Copy(copy) => self.on_copy_done(copy, end),
            Owner::Request(id) => self.on_piece_done(id, end),
            Owner::Step(step) => self.on_step_done(step, disk, end),
            Owner::Load(copy) => self.on_loaded(copy, end),
            Owner::Store(copy) => self.on_stored(copy, end),
            Owner::Change(_) => unreachable!("a change has steps, not pieces"),
            Owner::Verify(_) => unreachable!("a verification ends with a digest"),
        }
    }

    /// A piece is in flight no more.
    pub(crate) fn end_piece(&mut self, piece: PieceId) -> (Owner, DiskId) {
        let ended = self.pieces.remove(&piece).expect("a piece ends once");
        let PieceInFlight { owner, disk, cost } = ended;
        self.costs.remove(disk, cost);
        self.dirty |= self.changes.values().any(|change| change.waits_for(disk));
        // A block may wait to be read until what is in flight at it has ended.
        self.dirty |= self.scrub.is_waiting();
        (owner, disk)
    }

    /// Whether nothing is in flight and no output is pending.
    pub fn is_idle(&self) -> bool {
        let still = self.requests.is_empty() && self.changes.is_empty() && self.pieces.is_empty();
        still && self.outputs.is_empty() && !self.dirty && self.pool.is_idle()
    }

    /// Whether the sectors of `extent` are allocated, in their order; unallocated ones read as
    /// zeroes.
    ///
    /// # Panics
    /// If the volume does not exist, or `extent` passes its end.
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

    /// Advances everything as far as possible.
    pub(crate) fn advance(&mut self) {
        loop {
            let mut progressed = false;
            while let Some((operation_id, end)) = self.pool.ended() {
                self.finished(operation_id, end);
                progressed = true;
            }
            progressed |= self.advance_changes();
            progressed |= self.retry_held();
            progressed |= self.yield_resyncs();
            progressed |= self.issue_moves();
            progressed |= self.issue_resyncs();
            progressed |= self.advance_scrub();
            progressed |= self.issue_steps();
            if !progressed {
                if cfg!(debug_assertions) {
                    self.invariants();
                }
                return;
            }
        }
    }

    pub(crate) fn finished(&mut self, operation_id: OperationId, end: Result<(), Failure>) {
        let pending = self.operation_ids[&operation_id];
        let group = pending.group.and_then(|group| self.groups.get_mut(&group));
        if let Some(group) = group.filter(|_| self.pool.freed_blocks(operation_id)) {
            let free = group.end_epoch(operation_id);
            self.release(free);
        } else {
            // No request reads the blocks that it held: it freed none, or failed.
            self.pool.release(operation_id);
            self.operation_ids.remove(&operation_id);
            if end.is_err() {
                self.retry_stuck_after_failure();
            }
        }
        match pending.owner {
            Owner::Request(id) => self.on_operation_done(id, end, pending.fault),
            Owner::Change(id) => self.on_change_committed(id, end),
            Owner::Copy(_)
            | Owner::Step(_)
            | Owner::Load(_)
            | Owner::Store(_)
            | Owner::Verify(_) => unreachable!("it has pieces"),
        }
    }

    /// No request reads the blocks that these operations freed.
    pub(crate) fn release(&mut self, operation_ids: Vec<OperationId>) {
        for operation_id in operation_ids {
            self.pool.release(operation_id);
            let released = self.operation_ids.remove(&operation_id);
            assert!(released.is_some(), "an operation is released once");
            self.dirty = true;
            self.retry_stuck();
        }
    }

    /// Drops a group without volumes once it is idle.
    pub(crate) fn forget(&mut self, group: PoolVolumeId) {
        let gone = self.pool.state().members(group).next().is_none();
        if gone && self.groups.get(&group).is_some_and(SnapshotGroup::is_idle) {
            self.groups.remove(&group);
        }
    }

    /// Checks the tables of a flow against each other.
    ///
    /// # Panics
    /// If they differ.
    pub fn invariants(&self) {
        for (serial, id) in &self.held {
            let request = self.requests.get(id).expect("a held request is in progress");
            assert_eq!(request.serial, *serial, "requests are held in order of age");
            assert!(matches!(request.stage, Stage::Held), "a held request has nothing in flight");
        }
        let preparing = self.requests.values().filter(|one| matches!(one.stage, Stage::Preparing));
        assert_eq!(preparing.count(), self.request_operations, "their operations are counted");
        assert!(self.request_operations <= REQUEST_OPERATIONS_MAX, "within their limit");
        for disk in self.costs.disks() {
            let own = self.pieces.values().filter(|piece| piece.disk == disk);
            let sum = own.fold(Sectors::ZERO, |sum, piece| sum + piece.cost);
            assert_eq!(self.costs.of(disk), sum, "costs are those of what is in flight");
        }
        for PieceInFlight { owner, .. } in self.pieces.values() {
            match owner {
                Owner::Request(id) | Owner::Copy(CopyPiece { request: id, .. }) => {
                    let in_flight = matches!(self.requests[id].stage, Stage::InFlight { .. });
                    assert!(in_flight, "a request with a piece is in flight");
                }
                Owner::Load(id) | Owner::Store(id) => {
                    assert!(self.steps.copies.contains_key(id), "a copy has its pieces");
                }
                Owner::Step(id) => assert!(self.steps.owners.contains_key(id), "of its step"),
                Owner::Verify(id) => assert!(self.scrub.is_reading(*id), "it has its pieces"),
                Owner::Change(_) => panic!("a change has steps, not pieces"),
            }
        }
        assert!(self.resync.running <= RESYNCS_MAX, "operations are within their limit");
        self.scrub.invariants();
        for request in self.requests.values().filter(|one| one.again.is_some()) {
            let op = request.operation.op;
            assert!(op != Op::Flush, "a flush has no part");
            let waits = !matches!(request.stage, Stage::InFlight { .. });
            assert!(waits, "a part is issued again once");
        }
        assert!(self.steps.copies.len() <= COPIES_MAX, "copies are within their limit");
        assert!(self.steps.moved() <= RELOCATION_COPIES_MAX, "those of moves within theirs");
        assert!(self.steps.owners.len() <= STEPS_MAX, "steps are within their limit");
        for (id, job) in &self.steps.jobs {
            assert!(self.steps.owners.contains_key(id), "a job belongs to a step");
            assert_eq!(job.from.len, job.to.len, "a copy is as long as its source");
        }
        let moves = self.changes.values().filter(|one| one.relocation.is_some()).count();
        assert!(moves <= RELOCATIONS_MAX, "moves are within their limit");
        for (id, group) in &self.groups {
            group.invariants();
            let has_volume = self.pool.state().members(*id).next().is_some();
            assert!(has_volume || !group.is_idle(), "an idle group has a volume");
        }
    }

    pub(crate) fn issue(&mut self, owner: Owner, disk: DiskId, payer: ChargeTo, work: Work) {
        let cost = POSITIONING_MAX + work.sectors();
        self.issue_at((owner, cost), disk, payer, work);
    }

    /// Issues a piece of a known cost.
    pub(crate) fn issue_at(
        &mut self,
        (owner, cost): (Owner, Sectors),
        disk: DiskId,
        payer: ChargeTo,
        work: Work,
    ) {
        let id = PieceId(self.piece_numbers);
        self.piece_numbers += 1;
        let before = self.pieces.insert(id, PieceInFlight { owner, disk, cost });
        self.costs.add(disk, cost);
        assert!(before.is_none(), "piece numbers are not reused");
        self.outputs.push_back(Output::Issue(Piece { id, disk, payer, work }));
    }
}
