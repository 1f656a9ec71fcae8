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

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use units::Bytes;

use super::change::{self, Change, Effects};
use super::checksum::crc64;
use super::error::Refusal;
use super::format::{Geometry, Header, Label, Record, Slot, label_places};
use super::image;
use super::limits::{OPERATIONS_MAX, UNIT_BYTES};
use super::names::{DiskUid, Place, PoolUid};
use super::recover::Found;
use super::script::{Action, Script, StepId};
use super::space::Space;
use super::state::{Disk, State};
use crate::DiskId;

use super::operation::{Lock, Operation, Plan};

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What a pool wants of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Do this to a disk, and say [`Pool::done`].
    Do(StepId, Action),
    /// An operation has ended: it holds for good, or not at all.
    Finished(Ticket, Result<(), Failure>),
}

/// Why an operation came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A disk failed while it was prepared. Nothing was changed.
    Disk,
    /// It was called off. Nothing was changed.
    Cancelled,
    /// A disk failed while it was committed: it holds, or not, when the pool is opened anew.
    Unknown,
}

/// An operation from its beginning to its release.
#[derive(Clone, Debug)]
struct Pending {
    changes: Vec<Change>,
    locks: Vec<Lock>,
    /// Blocks that it holds.
    holds: Vec<Place>,
    /// Bytes by which the image may grow.
    growth: usize,
    script: Script,
    stage: Stage,
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Ready,
    Committing,
    Finished,
}

/// What is being written to all disks.
#[derive(Clone, Debug)]
struct Commit {
    kind: Kind,
    script: Script,
}

#[derive(Clone, Debug)]
enum Kind {
    /// So many units of the log.
    Record { units: u32, tickets: Vec<Ticket> },
    /// An image of what is, in the slot that is not in use.
    Image,
    /// Images in both slots, of what is to be.
    Images { tickets: Vec<Ticket> },
}

/// A pool that is open.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(super) state: State,
    pub(super) spaces: BTreeMap<DiskId, Space>,
    missing: usize,
    poisoned: bool,
    generation: u64,
    /// The slot of each disk whose log is written.
    active: BTreeMap<DiskId, Slot>,
    log_used: u32,
    pending: BTreeMap<Ticket, Pending>,
    commit: Option<Commit>,
    finished: VecDeque<(Ticket, Result<(), Failure>)>,
    tickets: u64,
    steps: u64,
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
        let spaces = state.disks().map(|(id, disk)| (id, space(&state, id, disk, &[]))).collect();
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
    pub fn open(found: Found) -> Self {
        let Found { state, missing, held, generation, best, findings, .. } = found;
        let none = Vec::new();
        let of = |id: &DiskId| held.get(id).unwrap_or(&none);
        let spaces = state.disks().map(|(id, disk)| (id, space(&state, id, disk, of(&id))));
        let spaces = spaces.collect();
        let mut pool = Self::with(state, spaces, generation, best);
        pool.missing = missing.len();
        if pool.missing == 0 {
            let damaged = findings.iter().any(|one| matches!(one.what, super::What::Label { .. }));
            let disks = pool.state.disks().map(|(id, _)| id).collect::<Vec<_>>();
            let labels: Vec<_> = disks.into_iter().map(|id| pool.label_phase(id)).collect();
            let labels = if damaged { vec![labels.concat(), pool.flushes()] } else { Vec::new() };
            pool.write_both(labels, Vec::new());
        }
        pool
    }

    fn with(
        state: State,
        spaces: BTreeMap<DiskId, Space>,
        generation: u64,
        active: BTreeMap<DiskId, Slot>,
    ) -> Self {
        let (pending, finished) = (BTreeMap::new(), VecDeque::new());
        let (missing, poisoned, log_used, commit) = (0, false, 0, None);
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

    /// Begins an operation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn begin(&mut self, operation: &Operation) -> Result<Ticket, Refusal> {
        if self.missing > 0 {
            return Err(Refusal::ReadOnly { missing: self.missing });
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
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let script = Script::new(phases);
        let stage = if script.ended() { Stage::Ready } else { Stage::Preparing };
        let pending = Pending { changes, locks, holds, growth, script, stage, cancelled: false };
        self.pending.insert(ticket, pending);
        Ok(ticket)
    }

    /// Whether an operation has for itself what `lock` asks for.
    pub(super) fn is_locked(&self, lock: &Lock) -> bool {
        self.pending.values().flat_map(|one| &one.locks).any(|held| held.meets(lock))
    }

    /// Calls an operation off, unless it is being committed; its end is told when its steps under way are done.
    pub fn cancel(&mut self, ticket: Ticket) {
        let Some(one) = self.pending.get_mut(&ticket) else { return };
        if matches!(one.stage, Stage::Preparing | Stage::Ready) && !one.cancelled {
            one.cancelled = true;
            one.script.abandon();
            self.look_after(ticket);
        }
    }

    /// Nobody reads any more where a finished operation's blocks lay: what it gave back is free.
    pub fn release(&mut self, ticket: Ticket) {
        let finished = self.pending.get(&ticket).is_some_and(|one| one.stage == Stage::Finished);
        if finished && let Some(one) = self.pending.remove(&ticket) {
            self.give_back(&one.holds);
        }
    }

    /// The next thing to do, or to know. `None`: nothing until a step is done or an operation begins.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some((ticket, end)) = self.finished.pop_front() {
            return Some(Output::Finished(ticket, end));
        }
        if self.commit.is_none() && !self.poisoned {
            self.commit_ready();
        }
        let id = StepId(self.steps);
        let commit = self.commit.iter_mut().map(|commit| &mut commit.script);
        let preparing = self.pending.values_mut().map(|one| &mut one.script);
        let action = commit.chain(preparing).find_map(|script| script.next(id))?;
        self.steps += 1;
        Some(Output::Do(id, action))
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
    fn look_after(&mut self, ticket: Ticket) {
        let one = self.pending.get_mut(&ticket).expect("it is under way");
        if !one.script.ended() {
            return;
        }
        if one.cancelled || one.script.failed {
            let why = if one.cancelled { Failure::Cancelled } else { Failure::Disk };
            self.end(ticket, Err(why));
        } else {
            one.stage = Stage::Ready;
        }
    }

    fn end(&mut self, ticket: Ticket, end: Result<(), Failure>) {
        let one = self.pending.get_mut(&ticket).expect("it is under way");
        one.stage = Stage::Finished;
        (one.locks, one.changes, one.growth) = (Vec::new(), Vec::new(), 0);
        self.finished.push_back((ticket, end));
    }

    /// Begins to commit what is ready, if anything is.
    fn commit_ready(&mut self) {
        let ready = self.pending.iter().filter(|(_, one)| one.stage == Stage::Ready);
        let ready: Vec<Ticket> = ready.map(|(ticket, _)| *ticket).collect();
        let Some(first) = ready.first() else { return };
        let alone = |ticket: &Ticket| self.pending[ticket].changes.iter().any(Change::is_of_disks);
        if alone(first) {
            return self.commit_images(vec![*first]);
        }
        let mut changes = Vec::new();
        let mut tickets = Vec::new();
        for ticket in ready.iter().filter(|ticket| !alone(ticket)) {
            let more = [changes.as_slice(), &self.pending[ticket].changes].concat();
            if !tickets.is_empty()
                && change::encode(&more).len() > self.state.geometry.record_bytes()
            {
                break;
            }
            changes = more;
            tickets.push(*ticket);
        }
        let body = change::encode(&changes);
        if body.len() > self.state.geometry.record_bytes() {
            return self.commit_images(tickets);
        }
        let units = 2 * Record::units(body.len());
        if self.log_used + units > self.state.geometry.log_units() {
            let phases = vec![
                self.images(&self.state, self.generation + 1, false, Slot::other),
                self.flushes(),
            ];
            self.commit = Some(Commit { kind: Kind::Image, script: Script::new(phases) });
            return;
        }
        let (generation, sequence) = (self.generation, self.state.sequence + 1);
        let record =
            Record { pool: self.state.pool, generation, sequence, position: self.log_used, body };
        let bytes: Arc<[u8]> = record.encode().into();
        let write = |(disk, slot): (&DiskId, &Slot)| {
            let extent = self.state.geometry.log_at(*slot, self.log_used, units);
            Action::Write { disk: *disk, extent, bytes: Arc::clone(&bytes) }
        };
        let phases = [self.active.iter().map(write).collect(), self.flushes()];
        self.mark_committing(&tickets);
        self.commit =
            Some(Commit { kind: Kind::Record { units, tickets }, script: Script::new(phases) });
    }

    fn mark_committing(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            self.pending.get_mut(ticket).expect("it is ready").stage = Stage::Committing;
        }
    }

    /// Commits what no log has room for, or what changes the disks.
    fn commit_images(&mut self, tickets: Vec<Ticket>) {
        let mut next = self.state.clone();
        let changes: Vec<Change> =
            tickets.iter().flat_map(|ticket| self.pending[ticket].changes.clone()).collect();
        next.advance(&changes).expect("it was planned on this state");
        self.mark_committing(&tickets);
        let old = self.state.disks.keys().filter(|id| next.disks.contains_key(id)).copied();
        let old: Vec<DiskId> = old.collect();
        let new: Vec<DiskId> =
            next.disks.keys().filter(|id| !self.state.disks.contains_key(id)).copied().collect();
        let gone: Vec<DiskId> =
            self.state.disks.keys().filter(|id| !next.disks.contains_key(id)).copied().collect();
        self.active.extend(new.iter().map(|id| (*id, Slot::B)));
        let first = self.images(&next, self.generation + 1, true, Slot::other);
        let second = self.images(&next, self.generation + 2, false, |slot| slot);
        let on = |disks: &[DiskId], actions: &[Action]| {
            let of = |action: &&Action| matches!(action, Action::Write { disk, .. } if disks.contains(disk));
            actions.iter().filter(of).cloned().collect::<Vec<_>>()
        };
        let flush =
            |disks: &[DiskId]| disks.iter().map(|disk| Action::Flush { disk: *disk }).collect();
        let labels = new.iter().flat_map(|id| label_writes(&next, *id)).collect();
        let wipes = gone.iter().flat_map(|id| wipes(&self.state.disks[id], *id)).collect();
        let all = [old.clone(), new.clone()].concat();
        // A new disk never knows more than the old ones: its images are written when theirs are durable.
        let phases: Vec<Vec<Action>> = vec![
            labels,
            flush(&new),
            on(&old, &first),
            flush(&old),
            on(&new, &first),
            flush(&new),
            on(&all, &second),
            flush(&all),
            wipes,
            flush(&gone),
        ];
        self.commit = Some(Commit { kind: Kind::Images { tickets }, script: Script::new(phases) });
    }

    /// Writes what is to both slots of every disk, the one that is not in use first.
    fn write_both(&mut self, mut phases: Vec<Vec<Action>>, tickets: Vec<Ticket>) {
        phases.push(self.images(&self.state, self.generation + 1, false, Slot::other));
        phases.push(self.flushes());
        phases.push(self.images(&self.state, self.generation + 2, false, |slot| slot));
        phases.push(self.flushes());
        self.commit = Some(Commit { kind: Kind::Images { tickets }, script: Script::new(phases) });
    }

    fn committed(&mut self) {
        let Commit { kind, script } = self.commit.take().expect("it has ended");
        if script.failed {
            self.poisoned = true;
            let (Kind::Record { tickets, .. } | Kind::Images { tickets }) = kind else { return };
            for ticket in tickets {
                self.end(ticket, Err(Failure::Unknown));
            }
            return;
        }
        match kind {
            Kind::Image => {
                self.generation += 1;
                self.log_used = 0;
                self.active.values_mut().for_each(|slot| *slot = slot.other());
            }
            Kind::Images { tickets } => {
                self.generation += 2;
                self.log_used = 0;
                self.take_effect(&tickets);
            }
            Kind::Record { units, tickets } => {
                self.log_used += units;
                self.take_effect(&tickets);
            }
        }
    }

    /// What is on the disks now holds in memory too.
    fn take_effect(&mut self, tickets: &[Ticket]) {
        if tickets.is_empty() {
            return;
        }
        for ticket in tickets {
            let changes =
                std::mem::take(&mut self.pending.get_mut(ticket).expect("it is there").changes);
            let mut effects = Effects::default();
            for change in &changes {
                self.state.apply(change, &mut effects).expect("it was planned on this state");
                if let Change::AddDisk { number, disk } = change {
                    self.spaces.insert(*number, space(&self.state, *number, disk, &[]));
                }
                if let Change::RemoveDisk { number } = change {
                    self.spaces.remove(number);
                    self.active.remove(number);
                }
            }
            for place in &effects.gained {
                self.spaces.get_mut(&place.disk).expect("its disk is there").hold(*place);
            }
            // What was given back is the operation's until it is released.
            self.pending.get_mut(ticket).expect("it is there").holds.extend(effects.lost);
            self.end(*ticket, Ok(()));
        }
        self.state.sequence += 1;
    }

    pub(super) fn give_back(&mut self, places: &[Place]) {
        for place in places {
            if let Some(space) = self.spaces.get_mut(&place.disk) {
                space.release(*place);
            }
        }
    }

    /// Writes of `state`'s image to the slot of each of its disks that `pick` names, given the one in use.
    fn images(
        &self,
        state: &State,
        generation: u64,
        commits: bool,
        pick: impl Fn(Slot) -> Slot,
    ) -> Vec<Action> {
        let mut bytes = image::encode(state);
        let body = Bytes(bytes.len() as u64);
        bytes.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
        let checksum = crc64(&bytes);
        let bytes: Arc<[u8]> = bytes.into();
        let (pool, sequence, geometry) = (state.pool, state.sequence, state.geometry);
        let write = |(id, disk): (&DiskId, &Disk)| {
            let slot = pick(self.active[id]);
            let header = Header {
                pool,
                disk: disk.uid,
                slot,
                generation,
                sequence,
                body,
                checksum,
                commits,
            };
            let len = Bytes(bytes.len() as u64).sectors_floor();
            let extent = geometry.image(slot).split_at(len).0;
            let image = Action::Write { disk: *id, extent, bytes: Arc::clone(&bytes) };
            let extent = geometry.header(slot);
            [image, Action::Write { disk: *id, extent, bytes: header.encode().into() }]
        };
        state.disks.iter().flat_map(write).collect()
    }

    fn flushes(&self) -> Vec<Action> {
        self.state.disks.keys().map(|disk| Action::Flush { disk: *disk }).collect()
    }

    fn label_phase(&self, id: DiskId) -> Vec<Action> {
        label_writes(&self.state, id)
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
            let books = space(&self.state, id, disk, &places);
            assert!(self.spaces[&id] == books, "the books of disk {} are right", id.0);
        }
        assert!(self.spaces.len() == self.state.disks.len(), "a space each");
    }
}

/// What a disk that joins becomes.
pub(super) fn new_disk(
    state: &State,
    uid: DiskUid,
    blocks: u32,
) -> Result<(DiskId, Disk), Refusal> {
    let first = state.geometry.first_block();
    if blocks < first + 2 {
        return Err(Refusal::TooSmall { blocks: first + 2 });
    }
    if state.disks.values().any(|disk| disk.uid == uid) {
        return Err(Refusal::Known);
    }
    let fast_end = state.geometry.fast_end(blocks);
    Ok((DiskId(state.next_disk), Disk { uid, blocks, fast_end, leaving: false }))
}

fn space(state: &State, id: DiskId, disk: &Disk, held: &[Place]) -> Space {
    if held.is_empty() {
        return Space::new(id, state.data(disk), disk.fast_end);
    }
    Space::build(id, state.data(disk), disk.fast_end, held)
}

fn label_writes(state: &State, id: DiskId) -> Vec<Action> {
    let disk = &state.disks[&id];
    let (pool, blocks, geometry) = (state.pool, disk.blocks, state.geometry);
    let label = Label { pool, disk: disk.uid, number: id, blocks, geometry };
    let copies = label_places(blocks).into_iter().zip([0, 1]);
    let write =
        |(extent, copy)| Action::Write { disk: id, extent, bytes: label.encode(copy).into() };
    copies.map(write).collect()
}

fn wipes(disk: &Disk, id: DiskId) -> Vec<Action> {
    let bytes: Arc<[u8]> = vec![0; UNIT_BYTES].into();
    let wipe = |extent| Action::Write { disk: id, extent, bytes: Arc::clone(&bytes) };
    label_places(disk.blocks).into_iter().map(wipe).collect()
}
