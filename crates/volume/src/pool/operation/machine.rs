//! A pool at work: operations come in, steps for the disks come out, in an order that survives a crash at any of them.
//!
//! ```text
//!  begin ─▶ prepare: erase or copy blocks, flush ─▶ commit: change to every disk's log, flush ─▶ finished ─▶ release
//! ```
//!
//! An operation holds the blocks that it prepares; what it gives back stays held until [`Pool::release`], when nobody
//! reads there any more. Operations are prepared side by side where they do not meet; those that are ready are
//! committed together, in one record. A record that the log has no room for waits for an image in the other slot; one
//! that no log has room for becomes an image in both, one after the other.
//!
//! Invariants ([`Pool::invariants`]): a block is held as often as maps and operations have it; state and disks never
//! differ by more than the commit under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use crate::pool::operation::allocator::{allocator_of, give_back};
use crate::pool::operation::plan::{Plan, new_disk};
use crate::pool::recovery::error::Damage;
use crate::pool::state::change;

use crate::location::DiskId;
use crate::pool::format::geometry::{Geometry, Slot};
use crate::pool::limits::OPERATIONS_MAX;
use crate::pool::names::{BlockExtent, DiskUid, PoolUid};
use crate::pool::operation::allocator::BlockAllocator;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::{Action, Script, StepId};
use crate::pool::recovery::search::FoundPool;
use crate::pool::state::apply::Effects;
use crate::pool::state::change::Change;
use crate::pool::state::metadata::State;

use crate::pool::operation::kinds::{Lock, Operation};

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(u64);

/// What a pool wants of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolOutput {
    /// Do this to a disk, and say [`Pool::done`].
    Do(StepId, Action),
    /// An operation has ended: it holds for good, or not at all.
    Finished(OperationId, Result<(), Failure>),
}

/// Why an operation came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A disk failed while it was prepared, or under the metadata before its turn. Nothing was changed.
    Disk,
    /// It was called off. Nothing was changed.
    Cancelled,
    /// A disk failed while it was committed: it holds, or not, when the pool is opened anew.
    Unknown,
}

/// An operation from its beginning to its release.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) changes: Vec<Change>,
    pub(crate) locks: Vec<Lock>,
    /// Blocks that it holds.
    pub(crate) holds: Vec<BlockExtent>,
    /// Bytes by which the image may grow.
    pub(crate) growth: usize,
    pub(crate) script: Script,
    pub(crate) stage: Stage,
    pub(crate) cancelled: bool,
    /// Whether blocks that clients may read are among those it holds.
    pub(crate) gave_back: bool,
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
    pub(crate) script: Script,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// So many units of the log.
    Record { units: u32, tickets: Vec<OperationId> },
    /// An image of what is, in the slot that is not in use.
    Image,
    /// Images in both slots, of what is to be.
    Images { tickets: Vec<OperationId> },
}

/// A pool that is open.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) state: State,
    pub(crate) spaces: BTreeMap<DiskId, BlockAllocator>,
    /// Disks that were not there when it was opened.
    pub(crate) missing: BTreeSet<DiskId>,
    pub(crate) poisoned: bool,
    pub(crate) generation: u64,
    /// The slot of each disk whose log is written.
    pub(crate) active: BTreeMap<DiskId, Slot>,
    pub(crate) log_used: u32,
    pub(crate) pending: BTreeMap<OperationId, Pending>,
    pub(crate) commit: Option<Commit>,
    pub(crate) finished: VecDeque<(OperationId, Result<(), Failure>)>,
    pub(crate) tickets: u64,
    pub(crate) steps: u64,
    /// The operation of which a step was given out last.
    pub(crate) served: OperationId,
}

impl Pool {
    /// A new pool on empty disks; they become one by the steps that follow, all of which are done when
    /// [`Self::is_idle`]. What the disks hold is lost: asking whether it may be is the caller's part.
    ///
    /// # Errors
    /// If there are no disks, too many, one twice, or one too small.
    pub fn create(
        uid: PoolUid,
        geometry: Geometry,
        disks: &[(DiskUid, u32)],
    ) -> Result<Self, Refusal> {
        let mut state = State::new(uid, geometry);
        if disks.is_empty() {
            return Err(Refusal::Disks);
        }
        for (uid, blocks) in disks {
            let (number, disk) = new_disk(&state, *uid, *blocks)?;
            let change = Change::AddDisk { number, disk };
            state.apply(&change, &mut Effects::default()).map_err(|_| Refusal::Disks)?;
        }
        let spaces =
            state.disks().map(|(id, disk)| (id, allocator_of(&state, id, disk, &[]))).collect();
        let active = state.disks().map(|(id, _)| (id, Slot::B)).collect();
        let mut pool = Self::with(state, spaces, 0, active);
        let labels = pool.state.disks().map(|(id, _)| id).collect::<Vec<_>>();
        let labels: Vec<_> = labels.into_iter().map(|id| pool.label_phase(id)).collect();
        let phases = [labels.concat(), pool.flushes()];
        pool.write_both(phases.into(), Vec::new());
        Ok(pool)
    }

    /// The pool that was found. If all of its disks are there, it repairs what was found damaged, by the steps that
    /// follow, before it does anything else; otherwise it can only be read, and no step follows.
    pub fn open(found: FoundPool) -> Self {
        let FoundPool { state, missing, held, generation, best, findings, .. } = found;
        let none = Vec::new();
        let of = |id: &DiskId| held.get(id).unwrap_or(&none);
        let spaces = state.disks().map(|(id, disk)| (id, allocator_of(&state, id, disk, of(&id))));
        let spaces = spaces.collect();
        let mut pool = Self::with(state, spaces, generation, best);
        pool.missing = missing.into_iter().map(|(id, _)| id).collect();
        if pool.missing.is_empty() {
            let damaged = findings.iter().any(|one| matches!(one.what, Damage::Label { .. }));
            let disks = pool.state.disks().map(|(id, _)| id).collect::<Vec<_>>();
            let labels: Vec<_> = disks.into_iter().map(|id| pool.label_phase(id)).collect();
            let labels = if damaged { vec![labels.concat(), pool.flushes()] } else { Vec::new() };
            pool.write_both(labels, Vec::new());
        }
        pool
    }

    fn with(
        state: State,
        spaces: BTreeMap<DiskId, BlockAllocator>,
        generation: u64,
        active: BTreeMap<DiskId, Slot>,
    ) -> Self {
        let (pending, finished) = (BTreeMap::new(), VecDeque::new());
        let (missing, poisoned, log_used, commit) = (BTreeSet::new(), false, 0, None);
        let (tickets, steps) = (0, 0);
        Self {
            state,
            spaces,
            missing,
            poisoned,
            generation,
            active,
            log_used,
            pending,
            commit,
            finished,
            tickets,
            steps,
            served: OperationId(0),
        }
    }

    /// What holds for good.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether every step is done, and every end told.
    pub fn is_idle(&self) -> bool {
        let resting = |one: &Pending| one.stage == Stage::Finished;
        self.commit.is_none() && self.finished.is_empty() && self.pending.values().all(resting)
    }

    /// Whether a disk failed under the metadata.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// The disks that were not there when it was opened: with any of them missing it can only be read.
    pub fn missing(&self) -> &BTreeSet<DiskId> {
        &self.missing
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn begin(&mut self, operation: &Operation) -> Result<OperationId, Refusal> {
        if !self.missing.is_empty() {
            return Err(Refusal::ReadOnly { missing: self.missing.len() });
        }
        if self.poisoned {
            return Err(Refusal::Poisoned);
        }
        if self.pending.len() >= OPERATIONS_MAX {
            return Err(Refusal::TooMany);
        }
        let locks = operation.locks(&self.state)?;
        if locks.iter().any(|lock| self.is_locked(lock)) {
            return Err(Refusal::Busy);
        }
        let Plan { changes, phases, holds } = self.plan(operation)?;
        let growth = changes.iter().map(|change| change.growth(&self.state)).sum::<usize>();
        let others: usize = self.pending.values().map(|one| one.growth).sum();
        let room = self.state.geometry.image_bytes();
        if self.state.image_bytes() + others + growth > room || !change::room(&self.state, &changes)
        {
            self.give_back(&holds);
            return Err(Refusal::MetadataFull);
        }
        let ticket = OperationId(self.tickets);
        self.tickets += 1;
        let script = Script::new(phases);
        let stage = if script.ended() { Stage::Ready } else { Stage::Preparing };
        let (cancelled, gave_back) = (false, false);
        let pending =
            Pending { changes, locks, holds, growth, script, stage, cancelled, gave_back };
        self.pending.insert(ticket, pending);
        Ok(ticket)
    }

    /// Whether an operation has for itself what `lock` asks for.
    pub(crate) fn is_locked(&self, lock: &Lock) -> bool {
        self.pending.values().flat_map(|one| &one.locks).any(|held| held.meets(lock))
    }

    /// Calls an operation off, unless it is being committed; its end is told when its steps under way are done.
    pub fn cancel(&mut self, ticket: OperationId) {
        let Some(one) = self.pending.get_mut(&ticket) else { return };
        if matches!(one.stage, Stage::Preparing | Stage::Ready) && !one.cancelled {
            one.cancelled = true;
            one.script.abandon();
            self.look_after(ticket);
        }
    }

    /// Nobody reads any more where a finished operation's blocks lay: what it gave back is free.
    pub fn release(&mut self, ticket: OperationId) {
        let finished = self.pending.get(&ticket).is_some_and(|one| one.stage == Stage::Finished);
        if finished && let Some(one) = self.pending.remove(&ticket) {
            self.give_back(&one.holds);
        }
    }

    /// Whether a finished operation gave blocks back that somebody may be reading.
    pub(crate) fn gave_back(&self, ticket: OperationId) -> bool {
        self.pending.get(&ticket).is_some_and(|one| one.gave_back)
    }

    /// The oldest operation that is not released.
    pub(crate) fn oldest(&self) -> Option<OperationId> {
        self.pending.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// The one that begins next.
    pub(crate) fn next_ticket(&self) -> OperationId {
        OperationId(self.tickets)
    }

    /// The next thing to do, or to know. `None`: nothing until a step is done or an operation begins.
    pub fn poll(&mut self) -> Option<PoolOutput> {
        if let Some((ticket, end)) = self.ended() {
            return Some(PoolOutput::Finished(ticket, end));
        }
        let (id, _, action) = self.step()?;
        Some(PoolOutput::Do(id, action))
    }

    /// The next operation of which the end is to be told.
    pub(crate) fn ended(&mut self) -> Option<(OperationId, Result<(), Failure>)> {
        self.finished.pop_front()
    }

    /// The next step, and which operation it prepares; none if it commits.
    pub(crate) fn step(&mut self) -> Option<(StepId, Option<OperationId>, Action)> {
        if self.commit.is_none() && !self.poisoned {
            self.commit_ready();
        }
        let id = StepId(self.steps);
        let commit = self.commit.as_mut().and_then(|commit| commit.script.next(id));
        let (ticket, action) = match commit {
            Some(action) => (None, action),
            None => self.prepare(id)?,
        };
        self.steps += 1;
        Some((id, ticket, action))
    }

    /// The next step of an operation, each in its turn: a long one holds nobody up.
    fn prepare(&mut self, id: StepId) -> Option<(Option<OperationId>, Action)> {
        let last = self.served;
        let step =
            |(ticket, one): (&OperationId, &mut Pending)| Some((*ticket, one.script.next(id)?));
        let mut behind = self.pending.range_mut((Bound::Excluded(last), Bound::Unbounded));
        let found = behind.find_map(step);
        let found = found.or_else(|| self.pending.range_mut(..=last).find_map(step));
        let (ticket, action) = found?;
        self.served = ticket;
        Some((Some(ticket), action))
    }

    /// A step has ended, well or not.
    ///
    /// # Panics
    /// If it is not under way.
    pub fn done(&mut self, id: StepId, well: bool) {
        if let Some(commit) = self.commit.as_mut().filter(|commit| commit.script.runs(id)) {
            commit.script.done(id, well);
            if commit.script.ended() {
                self.committed();
            }
            return;
        }
        let owner = self.pending.iter_mut().find(|(_, one)| one.script.runs(id));
        let (ticket, one) = owner.expect("a step ends once");
        let ticket = *ticket;
        one.script.done(id, well);
        self.look_after(ticket);
    }

    /// An operation whose preparation may have ended.
    pub(crate) fn look_after(&mut self, ticket: OperationId) {
        let one = self.pending.get_mut(&ticket).expect("it is under way");
        if !one.script.ended() {
            return;
        }
        if one.cancelled || one.script.failed || self.poisoned {
            let why = if one.cancelled { Failure::Cancelled } else { Failure::Disk };
            self.end(ticket, Err(why));
        } else {
            one.stage = Stage::Ready;
        }
    }

    pub(crate) fn end(&mut self, ticket: OperationId, end: Result<(), Failure>) {
        let one = self.pending.get_mut(&ticket).expect("it is under way");
        one.stage = Stage::Finished;
        (one.locks, one.changes, one.growth) = (Vec::new(), Vec::new(), 0);
        self.finished.push_back((ticket, end));
    }

    pub(crate) fn give_back(&mut self, places: &[BlockExtent]) {
        give_back(&mut self.spaces, places);
    }

    /// Looks whether the books are right.
    ///
    /// # Panics
    /// If they are not.
    pub fn invariants(&self) {
        let mut held = self.state.held().expect("no block belongs to two");
        for place in self.pending.values().flat_map(|one| &one.holds) {
            held.entry(place.disk).or_default().push(*place);
        }
        for (id, disk) in self.state.disks() {
            let places = held.remove(&id).unwrap_or_default();
            let books = allocator_of(&self.state, id, disk, &places);
            assert!(self.spaces[&id] == books, "the books of disk {} are right", id.0);
        }
        assert!(self.spaces.len() == self.state.disks.len(), "a space each");
    }
}
