//! The state machine of a pool: operations come in, steps for the disks come out, in an order that
//! survives a crash at any step.
//!
//! ```text
//!  begin ─▶ prepare: erase or copy blocks, flush ─▶ commit: change to every disk's log, flush
//!        ─▶ finished ─▶ release
//! ```
//!
//! An operation holds the blocks that it prepares; the blocks that it frees stay held until
//! [`Pool::release`], when no request reads them any more. Operations that do not conflict are
//! prepared concurrently; those that are ready are committed together, in one record; moved blocks
//! wait for further ones while no request waits for them. A record that does not fit the rest of
//! the log waits for an image in the other slot; one that fits no log is committed as an image in
//! both slots, one after the other.
//!
//! Invariants ([`Pool::invariants`]): the reference count of a block is the number of maps and
//! operations that hold it; state and disks differ by at most the commit in progress.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, Range};

use crate::pool::operation::allocator::{allocator_of, release_blocks};
use crate::pool::operation::plan::{Plan, new_disk};
use crate::pool::recovery::error::Damage;
use crate::pool::state::change;

use crate::location::DiskId;
use crate::pool::format::fields::VERSION_FIRST;
use crate::pool::format::geometry::{Geometry, Slot};
use crate::pool::format::structures::VERSION;
use crate::pool::limits::OPERATIONS_MAX;
use crate::pool::names::{BlockExtent, DiskUid, PoolUid, PoolVolumeId};
use crate::pool::operation::allocator::BlockAllocator;
use crate::pool::operation::domains::Domains;
use crate::pool::operation::redundancy::Redundancy;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::{Action, Script, StepId};
use crate::pool::recovery::search::FoundPool;
use crate::pool::state::apply::Effects;
use crate::pool::state::change::Change;
use crate::pool::state::metadata::State;

use crate::pool::operation::kinds::{Lock, Operation};

/// An operation in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(u64);

/// What a pool asks of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolOutput {
    /// Perform this on a disk, and report [`Pool::done`].
    Do(StepId, Action),
    /// An operation has ended: committed, or failed.
    Finished(OperationId, Result<(), Failure>),
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A disk failed while the operation was prepared, or under an earlier commit. Nothing was
    /// changed.
    Disk,
    /// It was cancelled. Nothing was changed.
    Cancelled,
    /// A disk failed during its commit: whether it holds is known when the pool is opened again.
    Unknown,
}

/// An operation from its beginning to its release.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) changes: Vec<Change>,
    pub(crate) locks: Vec<Lock>,
    /// The blocks that it holds.
    pub(crate) holds: Vec<BlockExtent>,
    /// The bytes by which it can extend the image.
    pub(crate) growth: usize,
    pub(crate) script: Script,
    pub(crate) stage: Stage,
    pub(crate) cancelled: bool,
    /// Whether it holds freed blocks that clients may read.
    pub(crate) freed_blocks: bool,
    /// Whether it moves a block.
    pub(crate) moves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Preparing,
    Ready,
    Committing,
    Finished,
}

/// What is being written to all disks.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) kind: Kind,
    /// Disks that have no metadata before it.
    pub(crate) coming: Vec<DiskId>,
    pub(crate) script: Script,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `units` of the log.
    Record { units: u32, operation_ids: Vec<OperationId> },
    /// An image of the current state, in the inactive slot.
    Image,
    /// Images of the next state, in both slots.
    Images { operation_ids: Vec<OperationId> },
    /// The same, without an operation: disks that failed are taken out.
    TakeOut { changes: Vec<Change> },
}

/// An open pool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) state: State,
    pub(crate) allocators: BTreeMap<DiskId, BlockAllocator>,
    /// Disks that were missing when it was opened.
    pub(crate) missing: BTreeSet<DiskId>,
    pub(crate) poisoned: bool,
    /// What the operations had locked of which it is not known whether they were committed: what is
    /// written there now may be gone when the pool is opened again.
    pub(crate) unknown: Vec<Lock>,
    pub(crate) generation: u64,
    /// The slot of each disk whose log is written.
    pub(crate) active: BTreeMap<DiskId, Slot>,
    pub(crate) log_used: u32,
    /// Disks whose labels are those from before they got a checksum area.
    pub(crate) unlabelled: BTreeSet<DiskId>,
    /// Slots whose image a crash has torn, with a whole header. The next image there could have the
    /// parts that it lacks.
    pub(crate) torn: Vec<(DiskId, Slot)>,
    pub(crate) pending: BTreeMap<OperationId, Pending>,
    /// Whether a client or an operator may wait for a commit.
    pub(crate) is_waited_for: bool,
    pub(crate) commit: Option<Commit>,
    pub(crate) finished: VecDeque<(OperationId, Result<(), Failure>)>,
    pub(crate) operation_ids: u64,
    pub(crate) steps: u64,
    /// The operation whose step was issued last.
    pub(crate) last_stepped: OperationId,
    pub(crate) redundancy: Redundancy,
    /// The blocks of mirrors for which writes waited when a disk was about to be taken out.
    pub(crate) waiting_writes: Vec<(PoolVolumeId, Range<u32>)>,
    pub(crate) domains: Domains,
}

impl Pool {
    /// Creates a pool on empty disks. It is complete when the steps that follow are done
    /// ([`Self::is_idle`]). The contents of the disks are lost: the caller checks that they may be.
    ///
    /// # Errors
    /// If there are no disks, too many, one twice, or one too small.
    pub fn create(
        uid: PoolUid,
        geometry: Geometry,
        disks: &[(DiskUid, u32)],
    ) -> Result<Self, Refusal> {
        Self::create_in(uid, geometry, disks, VERSION)
    }

    /// The same, in a given version of the format.
    ///
    /// # Errors
    /// As [`Self::create`].
    ///
    /// # Panics
    /// On a version that is not known.
    pub fn create_in(
        uid: PoolUid,
        geometry: Geometry,
        disks: &[(DiskUid, u32)],
        version: u32,
    ) -> Result<Self, Refusal> {
        Self::create_as(uid, geometry, disks, (version, false))
    }

    /// The same with a checksum area on each disk, behind the blocks that are given: the caller
    /// makes them ([`sums`](mod@crate::pool::sums)), and serves no block before.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with_sums(
        uid: PoolUid,
        geometry: Geometry,
        disks: &[(DiskUid, u32)],
    ) -> Result<Self, Refusal> {
        Self::create_as(uid, geometry, disks, (VERSION, true))
    }

    fn create_as(
        uid: PoolUid,
        geometry: Geometry,
        disks: &[(DiskUid, u32)],
        (version, has_sums): (u32, bool),
    ) -> Result<Self, Refusal> {
        assert!((VERSION_FIRST..=VERSION).contains(&version), "a version that is known");
        let mut state = State::new(uid, geometry, version);
        if disks.is_empty() {
            return Err(Refusal::Disks);
        }
        for (uid, blocks) in disks {
            let (number, disk) = new_disk(&state, *uid, *blocks, has_sums)?;
            let change = Change::AddDisk { number, disk };
            state.apply(&change, &mut Effects::default()).map_err(|_| Refusal::Disks)?;
        }
        let allocators =
            state.disks().map(|(id, disk)| (id, allocator_of(&state, id, disk, &[]))).collect();
        let active = state.disks().map(|(id, _)| (id, Slot::B)).collect();
        let mut pool = Self::with(state, allocators, 0, active);
        let labels = pool.state.disks().map(|(id, _)| id).collect::<Vec<_>>();
        let labels: Vec<_> = labels.into_iter().map(|id| pool.label_phase(id)).collect();
        assert!(pool.pending.is_empty(), "a new pool has no operation");
        assert_eq!(pool.active.len(), pool.allocators.len(), "every disk has a slot");
        let phases = [labels.concat(), pool.flushes()];
        pool.write_both(phases.into(), Vec::new());
        Ok(pool)
    }

    /// Opens the pool that was found. With all of its disks present, the steps that follow repair
    /// the damaged copies before any operation; otherwise the pool is read-only, and no step
    /// follows.
    pub fn open(found: FoundPool) -> Self {
        let FoundPool { state, missing, held, half_joined, generation, best, findings, .. } = found;
        let unlabelled: BTreeSet<DiskId> =
            found.unlabelled.into_iter().filter(|id| state.is_in(*id)).collect();
        let torn = findings.iter().filter_map(|one| match one.what {
            Damage::Image { slot } => {
                let (id, _) = found.devices.iter().find(|(_, device)| **device == one.device)?;
                Some((*id, slot))
            }
            _ => None,
        });
        let is_spare = |(id, slot): &(DiskId, Slot)| state.is_in(*id) && best[id] != *slot;
        let torn: Vec<(DiskId, Slot)> = torn.filter(is_spare).collect();
        let best = best.into_iter().filter(|(id, _)| state.is_in(*id)).collect();
        let none = Vec::new();
        let of = |id: &DiskId| held.get(id).unwrap_or(&none);
        let allocators =
            state.disks().map(|(id, disk)| (id, allocator_of(&state, id, disk, of(&id))));
        let allocators = allocators.collect();
        let mut pool = Self::with(state, allocators, generation, best);
        assert_eq!(pool.allocators.len(), pool.state.disks.len(), "every disk has an allocator");
        let missing = missing.into_iter().map(|(id, _)| id).filter(|id| pool.state.is_in(*id));
        let missing: BTreeSet<DiskId> = missing.collect();
        pool.redundancy = Redundancy::opened(&pool.state);
        (pool.unlabelled, pool.torn) = (unlabelled, torn);
        if pool.is_majority_without(&missing, &half_joined) {
            // The first commit takes them out, and writes both slots.
            pool.redundancy.failing = missing;
            return pool;
        }
        pool.missing = missing;
        if pool.missing.is_empty() {
            let damaged = findings.iter().any(|one| matches!(one.what, Damage::Label { .. }));
            let disks = pool.state.disks_in().filter(|id| !pool.unlabelled.contains(id));
            let disks = disks.collect::<Vec<_>>();
            let labels: Vec<_> = disks.into_iter().map(|id| pool.label_phase(id)).collect();
            let labels = if damaged { vec![labels.concat(), pool.flushes()] } else { Vec::new() };
            pool.write_both(labels, Vec::new());
        }
        pool
    }

    fn with(
        state: State,
        allocators: BTreeMap<DiskId, BlockAllocator>,
        generation: u64,
        active: BTreeMap<DiskId, Slot>,
    ) -> Self {
        let (pending, finished) = (BTreeMap::new(), VecDeque::new());
        let (missing, poisoned, log_used, commit) = (BTreeSet::new(), false, 0, None);
        let (operation_ids, steps) = (0, 0);
        Self {
            state,
            allocators,
            missing,
            poisoned,
            unknown: Vec::new(),
            generation,
            active,
            log_used,
            unlabelled: BTreeSet::new(),
            torn: Vec::new(),
            pending,
            is_waited_for: true,
            commit,
            finished,
            operation_ids,
            steps,
            last_stepped: OperationId(0),
            redundancy: Redundancy::default(),
            waiting_writes: Vec::new(),
            domains: Domains::default(),
        }
    }

    /// Whether the pool goes on without these disks: more than half of those that are in are there,
    /// so that what the others have is at most as new.
    fn is_majority_without(
        &self,
        missing: &BTreeSet<DiskId>,
        half_joined: &BTreeSet<DiskId>,
    ) -> bool {
        let able = self.state.version > VERSION_FIRST && self.state.has_mirrors();
        let members = self.state.disks_in().count();
        assert!(missing.len() <= members, "disks that are in");
        // A disk that never came has nothing that others could go on with.
        let members = members - half_joined.len();
        let lost = missing.difference(half_joined).count();
        able && !missing.is_empty() && (members - lost) * 2 > members
    }

    /// Whether the newest state may be on one of the disks alone: the commit with which a pool is
    /// opened has not ended.
    pub fn is_opening(&self) -> bool {
        let kind = self.commit.as_ref().map(|commit| &commit.kind);
        matches!(kind, Some(Kind::Images { operation_ids }) if operation_ids.is_empty())
    }

    /// The committed state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether every step is done, and every end reported.
    pub fn is_idle(&self) -> bool {
        let resting = |one: &Pending| one.stage == Stage::Finished;
        let taken_out = self.redundancy.failing.is_empty() || self.poisoned;
        let still = self.commit.is_none() && self.finished.is_empty() && taken_out;
        still && self.pending.values().all(resting)
    }

    /// Whether a disk failed during a commit.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether some of these blocks may be others when the pool is opened again: an operation on
    /// them was in the commit that failed.
    pub(crate) fn is_unknown(&self, volume: PoolVolumeId, blocks: Range<u32>) -> bool {
        let group = self.state.group_of(volume);
        let wanted = Lock::Blocks(group, blocks);
        assert!(self.unknown.is_empty() || self.poisoned, "a commit has failed");
        self.unknown.iter().any(|lock| lock.conflicts_with(&wanted))
    }

    /// The disks that were missing when it was opened: with any of them missing it is read-only.
    pub fn missing(&self) -> &BTreeSet<DiskId> {
        &self.missing
    }

    /// Whether an operation could begin after those in progress. Changes nothing.
    ///
    /// # Errors
    /// The refusal of [`Self::begin`] then, if nothing else changes.
    pub fn check(&mut self, operation: &Operation) -> Result<(), Refusal> {
        self.refuse_unless_writable()?;
        if !self.redundancy.failing.is_empty() {
            return Err(Refusal::Busy);
        }
        operation.locks(&self.state)?;
        let (plan, growth) = self.plan_within_metadata(operation)?;
        assert!(growth <= self.state.geometry.image_bytes(), "a plan that fits grows within it");
        self.release_blocks(&plan.holds);
        Ok(())
    }

    fn refuse_unless_writable(&self) -> Result<(), Refusal> {
        if !self.missing.is_empty() {
            return Err(Refusal::ReadOnly { missing: self.missing.len() });
        }
        if self.poisoned { Err(Refusal::Poisoned) } else { Ok(()) }
    }

    /// The plan of an operation and the growth of the metadata by it. Its blocks are held.
    fn plan_within_metadata(&mut self, operation: &Operation) -> Result<(Plan, usize), Refusal> {
        assert!(!self.poisoned, "a poisoned pool plans nothing");
        assert!(self.missing.is_empty(), "an incomplete pool plans nothing");
        let plan = self.plan(operation)?;
        let Plan { changes, phases, holds } = &plan;
        assert!(holds.iter().all(|place| place.len > 0), "extents with blocks are held");
        assert!(phases.len() <= 2, "actions, then flushes");
        let growth = changes.iter().map(|change| change.growth(&self.state)).sum::<usize>();
        let others: usize = self.pending.values().map(|one| one.growth).sum();
        let room = self.state.geometry.image_bytes();
        if self.state.image_bytes() + others + growth > room || !change::room(&self.state, changes)
        {
            self.release_blocks(holds);
            return Err(Refusal::MetadataFull);
        }
        Ok((plan, growth))
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn begin(&mut self, operation: &Operation) -> Result<OperationId, Refusal> {
        self.refuse_unless_writable()?;
        if self.pending.len() >= OPERATIONS_MAX {
            return Err(Refusal::TooMany);
        }
        if !self.redundancy.failing.is_empty() {
            return Err(Refusal::Busy);
        }
        let locks = operation.locks(&self.state)?;
        if locks.iter().any(|lock| self.is_locked(lock)) {
            return Err(Refusal::Busy);
        }
        let (Plan { changes, phases, holds }, growth) = self.plan_within_metadata(operation)?;
        let operation_id = OperationId(self.operation_ids);
        self.operation_ids += 1;
        assert!(!self.poisoned, "a poisoned pool begins nothing");
        assert!(self.missing.is_empty(), "an incomplete pool begins nothing");
        let script = Script::new(phases);
        let stage = if script.ended() { Stage::Ready } else { Stage::Preparing };
        let (cancelled, freed_blocks) = (false, false);
        let moves = matches!(operation, Operation::Move { .. });
        let pending = Pending {
            changes,
            locks,
            holds,
            growth,
            script,
            stage,
            cancelled,
            freed_blocks,
            moves,
        };
        let before = self.pending.insert(operation_id, pending);
        assert!(before.is_none(), "operation numbers are not reused");
        assert!(self.pending.len() <= OPERATIONS_MAX, "the operations are within their limit");
        Ok(operation_id)
    }

    /// Cancels an operation, unless it is being committed; its end is reported when its steps in
    /// progress are done.
    pub fn cancel(&mut self, operation_id: OperationId) {
        let Some(one) = self.pending.get_mut(&operation_id) else { return };
        if matches!(one.stage, Stage::Preparing | Stage::Ready) && !one.cancelled {
            one.cancelled = true;
            one.script.abandon();
            self.finish_preparing(operation_id);
        }
    }

    /// No request reads the blocks that a finished operation freed: they become free.
    pub fn release(&mut self, operation_id: OperationId) {
        let finished =
            self.pending.get(&operation_id).is_some_and(|one| one.stage == Stage::Finished);
        if finished && let Some(one) = self.pending.remove(&operation_id) {
            self.release_blocks(&one.holds);
        }
    }

    /// Whether a finished operation freed blocks that requests may be reading.
    pub(crate) fn freed_blocks(&self, operation_id: OperationId) -> bool {
        self.pending.get(&operation_id).is_some_and(|one| one.freed_blocks)
    }

    /// The oldest operation that is not released.
    pub(crate) fn oldest(&self) -> Option<OperationId> {
        self.pending.first_key_value().map(|(operation_id, _)| *operation_id)
    }

    /// The number of the next operation.
    pub(crate) fn next_ticket(&self) -> OperationId {
        let next = OperationId(self.operation_ids);
        debug_assert!(self.oldest().is_none_or(|oldest| oldest < next), "numbers increase");
        next
    }

    /// The next output. `None`: nothing until a step is done or an operation begins.
    pub fn poll(&mut self) -> Option<PoolOutput> {
        if let Some((operation_id, end)) = self.ended() {
            return Some(PoolOutput::Finished(operation_id, end));
        }
        let (id, _, action) = self.step()?;
        Some(PoolOutput::Do(id, action))
    }

    /// The next ended operation to report.
    pub(crate) fn ended(&mut self) -> Option<(OperationId, Result<(), Failure>)> {
        self.finished.pop_front()
    }

    /// The next step, and the operation that it prepares; none for a step of a commit.
    pub(crate) fn step(&mut self) -> Option<(StepId, Option<OperationId>, Action)> {
        if self.commit.is_none() && !self.poisoned {
            self.commit_ready();
        }
        let id = StepId(self.steps);
        let commit = self.commit.as_mut().and_then(|commit| commit.script.next(id));
        let (operation_id, action) = match commit {
            Some(action) => (None, action),
            None => self.prepare(id)?,
        };
        self.steps += 1;
        let commits = self.commit.as_ref().is_some_and(|commit| commit.script.is_running(id));
        assert_eq!(commits, operation_id.is_none(), "a step prepares or commits");
        Some((id, operation_id, action))
    }

    /// The next step of an operation, round-robin: a long operation delays no other.
    fn prepare(&mut self, id: StepId) -> Option<(Option<OperationId>, Action)> {
        let last = self.last_stepped;
        let step = |(operation_id, one): (&OperationId, &mut Pending)| {
            Some((*operation_id, one.script.next(id)?))
        };
        let mut behind = self.pending.range_mut((Bound::Excluded(last), Bound::Unbounded));
        let found = behind.find_map(step);
        let found = found.or_else(|| self.pending.range_mut(..=last).find_map(step));
        let (operation_id, action) = found?;
        assert!(self.pending[&operation_id].stage == Stage::Preparing, "its operation is prepared");
        self.last_stepped = operation_id;
        Some((Some(operation_id), action))
    }

    /// Completes a step.
    ///
    /// # Panics
    /// If the step is not in progress.
    pub fn done(&mut self, id: StepId, ok: bool) {
        if let Some(commit) = self.commit.as_ref().filter(|commit| commit.script.is_running(id)) {
            let disk = commit.script.disk(id);
            // Without a disk that failed the commit goes on.
            let ok = ok || self.fail(disk);
            let commit = self.commit.as_mut().expect("its step is running");
            commit.script.done(id, ok);
            if commit.script.ended() {
                self.committed();
            }
            return;
        }
        let owner = self.pending.iter_mut().find(|(_, one)| one.script.is_running(id));
        let (operation_id, one) = owner.expect("a step ends once");
        let operation_id = *operation_id;
        assert!(one.stage == Stage::Preparing, "its operation is prepared");
        one.script.done(id, ok);
        self.finish_preparing(operation_id);
    }

    /// Ends the preparation of an operation, if it is complete.
    pub(crate) fn finish_preparing(&mut self, operation_id: OperationId) {
        let one = self.pending.get_mut(&operation_id).expect("it is under way");
        if !one.script.ended() {
            return;
        }
        if one.cancelled || one.script.failed || self.poisoned {
            let why = if one.cancelled { Failure::Cancelled } else { Failure::Disk };
            self.end(operation_id, Err(why));
        } else {
            assert!(one.stage == Stage::Preparing, "it was being prepared");
            one.stage = Stage::Ready;
        }
    }

    pub(crate) fn end(&mut self, operation_id: OperationId, end: Result<(), Failure>) {
        let one = self.pending.get_mut(&operation_id).expect("it is under way");
        assert!(one.stage != Stage::Finished, "an operation ends once");
        one.stage = Stage::Finished;
        (one.locks, one.changes, one.growth) = (Vec::new(), Vec::new(), 0);
        self.finished.push_back((operation_id, end));
    }

    pub(crate) fn release_blocks(&mut self, places: &[BlockExtent]) {
        release_blocks(&mut self.allocators, places);
    }

    /// Recomputes every reference count and compares it with the allocators.
    ///
    /// # Panics
    /// If any differs.
    pub fn invariants(&self) {
        self.state.invariants();
        assert!(self.log_used <= self.state.geometry.log_units(), "the log holds its records");
        for one in self.pending.values().filter(|one| one.stage == Stage::Finished) {
            assert!(one.locks.is_empty(), "a finished operation locks nothing");
            assert!(one.changes.is_empty(), "a finished operation changes nothing");
        }
        let mut held = self.state.held().expect("no block belongs to two");
        for place in self.pending.values().flat_map(|one| &one.holds) {
            held.entry(place.disk).or_default().push(*place);
        }
        for (id, disk) in self.state.disks() {
            let places = held.remove(&id).unwrap_or_default();
            let mut expected = allocator_of(&self.state, id, disk, &places);
            expected.limit_to(self.allocators[&id].limit());
            assert!(self.allocators[&id] == expected, "the expected of disk {} are right", id.0);
        }
        assert!(self.allocators.len() == self.state.disks.len(), "a space each");
        self.check_endangered();
    }
}
