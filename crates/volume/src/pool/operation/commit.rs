//! How changes become durable: records in every disk's log, or images in both slots.

use std::sync::Arc;

use units::{Bytes, Extent};

use crate::location::DiskId;
use crate::pool::format::geometry::{Slot, label_places};
use crate::pool::format::structures::{Header, Label, Record};
use crate::pool::format::{changes, image};
use crate::pool::limits::UNIT_BYTES;
use crate::pool::names::Blocks;
use crate::pool::operation::allocator::{allocator_of, release_blocks};
use crate::pool::operation::kinds::Lock;
use crate::pool::operation::machine::{Commit, Failure, Kind, OperationId, Pending, Pool, Stage};
use crate::pool::operation::marks::is_mark;
use crate::pool::operation::script::{Action, Script};
use crate::pool::state::apply::Effects;
use crate::pool::state::change::Change;
use crate::pool::state::metadata::State;
use crate::pool::state::volume::Disk;
use crate::pool::sums::SumsArea;
use checksum::crc64;

/// Moved blocks that are committed together while others are copied and no request waits for them.
/// A commit of one block took 20 ms of deskstar-34gxp, and two of them near each other a point of
/// two seconds from its volumes: half of it beside a relocation lacked 2.12 points in the worst of
/// 30 runs of a minute, and 1.72 with 8 together.
pub(crate) const MOVES_TOGETHER: usize = 8;

impl Pool {
    /// Whether moved blocks wait for further ones, to be committed with them.
    fn gathers_moves(&self, ready: &[OperationId]) -> bool {
        debug_assert!(ready.iter().all(|id| self.pending[id].stage == Stage::Ready), "ready ones");
        let mut rest = self.pending.values().filter(|one| one.stage == Stage::Preparing);
        !self.is_waited_for
            && ready.len() < MOVES_TOGETHER
            && ready.iter().all(|id| self.pending[id].moves)
            && rest.any(|one| one.moves)
    }

    /// Begins to commit the operations that are ready, if any.
    pub(crate) fn commit_ready(&mut self) {
        if !self.redundancy.failing.is_empty() {
            return self.take_out();
        }
        let ready = self.pending.iter().filter(|(_, one)| one.stage == Stage::Ready);
        let ready: Vec<OperationId> = ready.map(|(operation_id, _)| *operation_id).collect();
        assert!(self.commit.is_none(), "one commit at a time");
        let Some(first) = ready.first() else { return };
        if self.gathers_moves(&ready) {
            return;
        }
        let alone = |operation_id: &OperationId| {
            self.pending[operation_id].changes.iter().any(Change::is_of_disks)
        };
        if alone(first) {
            if !self.leaves_a_disk(*first) {
                self.end(*first, Err(Failure::Disk));
                return self.commit_ready();
            }
            return self.commit_images(vec![*first]);
        }
        let mut changes = Vec::new();
        let mut operation_ids = Vec::new();
        for operation_id in ready.iter().filter(|operation_id| !alone(operation_id)) {
            let more = [changes.as_slice(), &self.pending[operation_id].changes].concat();
            if !operation_ids.is_empty()
                && changes::encode(&more).len() > self.state.geometry.record_bytes()
            {
                break;
            }
            changes = more;
            operation_ids.push(*operation_id);
        }
        let body = changes::encode(&changes);
        if body.len() > self.state.geometry.record_bytes() {
            return self.commit_images(operation_ids);
        }
        let units = 2 * Record::units(body.len());
        if self.log_used + units > self.state.geometry.log_units() {
            let phases = vec![
                self.images(&self.state, self.generation + 1, false, Slot::other),
                self.flushes(),
            ];
            self.begin_commit(Kind::Image, phases, Vec::new());
            return;
        }
        assert!(!operation_ids.is_empty(), "a record commits an operation");
        assert!(self.log_used + units <= self.state.geometry.log_units(), "it fits the log");
        let (generation, sequence) = (self.generation, self.state.sequence + 1);
        let (pool, version) = (self.state.pool, self.state.version);
        let position = self.log_used;
        let record = Record { version, pool, generation, sequence, position, body };
        let bytes: Arc<[u8]> = record.encode().into();
        let is_forced = operation_ids.iter().any(|id| is_mark(&self.pending[id]));
        let write = |(disk, slot): (&DiskId, &Slot)| {
            let extent = self.state.geometry.log_at(*slot, self.log_used, units);
            Action::Write { disk: *disk, extent, bytes: Arc::clone(&bytes), fua: is_forced }
        };
        let flushes = if is_forced { Vec::new() } else { self.flushes() };
        let phases = [self.active.iter().map(write).collect(), flushes];
        self.mark_committing(&operation_ids);
        self.begin_commit(Kind::Record { units, operation_ids }, phases.into(), Vec::new());
    }

    /// Whether a disk that is in stays, which has the state before: others may have been taken out
    /// since the operation was planned.
    fn leaves_a_disk(&self, operation_id: OperationId) -> bool {
        let changes = &self.pending[&operation_id].changes;
        let removes = |id: DiskId| {
            changes
                .iter()
                .any(|change| matches!(change, Change::RemoveDisk { number } if *number == id))
        };
        debug_assert!(!changes.is_empty(), "an operation that is ready changes something");
        self.state.disks_in().any(|id| !removes(id))
    }

    fn begin_commit(&mut self, kind: Kind, phases: Vec<Vec<Action>>, coming: Vec<DiskId>) {
        assert!(self.commit.is_none(), "one commit at a time");
        self.commit = Some(Commit { kind, coming, script: Script::new(phases) });
    }

    /// Begins to take out the disks that failed.
    fn take_out(&mut self) {
        assert!(!self.poisoned, "a poisoned pool commits nothing");
        // A disk that was to come may have failed with the commit that brought it.
        let state = &self.state;
        self.redundancy.failing.retain(|disk| state.is_in(*disk));
        if self.redundancy.failing.is_empty() {
            return;
        }
        let changes = self.plan_take_out();
        self.waiting_writes.clear();
        let Some(changes) = changes else { return self.poison(Kind::Image) };
        self.active.retain(|disk, _| !self.redundancy.failing.contains(disk));
        assert!(!self.active.is_empty(), "a disk stays");
        let mut next = self.state.clone();
        next.advance(&changes).expect("it was planned on this state");
        self.commit_next(&next, Kind::TakeOut { changes });
    }

    fn mark_committing(&mut self, operation_ids: &[OperationId]) {
        for operation_id in operation_ids {
            let one = self.pending.get_mut(operation_id).expect("it is ready");
            assert!(one.stage == Stage::Ready, "what is committed is ready");
            one.stage = Stage::Committing;
        }
    }

    /// Commits changes that fit no log, or that change the set of disks.
    fn commit_images(&mut self, operation_ids: Vec<OperationId>) {
        assert!(self.commit.is_none(), "one commit at a time");
        assert!(!operation_ids.is_empty(), "an image commits an operation");
        let mut next = self.state.clone();
        let changes: Vec<Change> = operation_ids
            .iter()
            .flat_map(|operation_id| self.pending[operation_id].changes.clone())
            .collect();
        next.advance(&changes).expect("it was planned on this state");
        self.mark_committing(&operation_ids);
        self.commit_next(&next, Kind::Images { operation_ids });
    }

    /// Commits the next state as images in both slots.
    fn commit_next(&mut self, next: &State, kind: Kind) {
        let now = &self.state;
        let old: Vec<DiskId> = now.disks_in().filter(|id| next.is_in(*id)).collect();
        let new: Vec<DiskId> = next.disks_in().filter(|id| !now.is_in(*id)).collect();
        let gone: Vec<DiskId> = now.disks_in().filter(|id| !next.disks.contains_key(id)).collect();
        assert_eq!(old.len() + new.len(), next.disks_in().count(), "a disk stayed or came");
        assert!(!old.is_empty(), "a disk has the state before");
        assert!(new.iter().all(|id| !gone.contains(id)), "a disk comes or goes");
        self.active.extend(new.iter().map(|id| (*id, Slot::B)));
        let first = self.images(next, self.generation + 1, true, Slot::other);
        let second = self.images(next, self.generation + 2, false, |slot| slot);
        let on = |disks: &[DiskId], actions: &[Action]| {
            let of = |action: &&Action| match action {
                Action::Write { disk, .. } => disks.contains(disk),
                _ => false,
            };
            actions.iter().filter(of).cloned().collect::<Vec<_>>()
        };
        let flush = |disks: &[DiskId]| {
            disks.iter().map(|disk| Action::Flush { disk: *disk, of: None }).collect()
        };
        let is_forced = matches!(kind, Kind::TakeOut { .. });
        let durably = |disks: &[DiskId], actions: &[Action]| {
            let writes = on(disks, actions);
            if is_forced { [forced(writes), Vec::new()] } else { [writes, flush(disks)] }
        };
        let labels = new.iter().flat_map(|id| label_writes(next, *id)).collect();
        let wipes = gone.iter().flat_map(|id| wipes(&self.state.disks[id], *id)).collect();
        let all = [old.clone(), new.clone()].concat();
        let is_shrunk = |id: &DiskId| now.disks[id].blocks != next.disks[id].blocks;
        let is_relabelled = |id: &DiskId| is_shrunk(id) || self.unlabelled.contains(id);
        let relabelled: Vec<DiskId> = old.iter().copied().filter(is_relabelled).collect();
        // A new disk never holds newer metadata than the old ones: its images are written when
        // theirs are durable.
        let mut phases = self.torn_wipes();
        phases.extend([labels, flush(&new)]);
        phases.extend(durably(&old, &first));
        phases.extend(durably(&new, &first));
        phases.extend(durably(&all, &second));
        phases.extend([wipes, flush(&gone)]);
        phases.extend(relabel(next, &relabelled));
        self.begin_commit(kind, phases, new);
    }

    /// Writes the current state to both slots of every disk, the inactive one first.
    pub(crate) fn write_both(
        &mut self,
        mut phases: Vec<Vec<Action>>,
        operation_ids: Vec<OperationId>,
    ) {
        assert!(self.commit.is_none(), "one commit at a time");
        assert!(self.missing.is_empty(), "an incomplete pool is not written");
        phases.extend(self.torn_wipes());
        phases.push(self.images(&self.state, self.generation + 1, false, Slot::other));
        phases.push(self.flushes());
        phases.push(self.images(&self.state, self.generation + 2, false, |slot| slot));
        phases.push(self.flushes());
        phases.extend(relabel(&self.state, &self.unlabelled.iter().copied().collect::<Vec<_>>()));
        self.begin_commit(Kind::Images { operation_ids }, phases, Vec::new());
    }

    pub(crate) fn committed(&mut self) {
        let Commit { kind, script, .. } = self.commit.take().expect("it has ended");
        assert!(script.ended(), "all of its steps are done");
        if script.failed {
            return self.poison(kind);
        }
        if matches!(kind, Kind::Images { .. } | Kind::TakeOut { .. }) {
            self.unlabelled.clear();
            self.torn.clear();
        }
        match kind {
            Kind::Image => {
                self.generation += 1;
                self.log_used = 0;
                self.active.values_mut().for_each(|slot| *slot = slot.other());
            }
            Kind::Images { operation_ids } => {
                self.generation += 2;
                self.log_used = 0;
                self.apply_committed(&operation_ids);
            }
            Kind::TakeOut { changes } => {
                self.generation += 2;
                self.log_used = 0;
                self.state.advance(&changes).expect("it was planned on this state");
                assert!(self.active.keys().all(|id| self.state.is_in(*id)), "those that stay");
                for change in &changes {
                    if let Change::TakeOut { number, .. } = change {
                        self.note_left(*number);
                        let stale = self.state.stale(*number).cloned();
                        self.redundancy.take_out(*number, stale.as_ref());
                    }
                }
            }
            Kind::Record { units, operation_ids } => {
                self.log_used += units;
                assert!(self.log_used <= self.state.geometry.log_units(), "the log holds it");
                self.apply_committed(&operation_ids);
            }
        }
    }

    /// Ends all commits: pending operations fail.
    fn poison(&mut self, kind: Kind) {
        assert!(self.commit.is_none(), "the failed commit was taken");
        self.poisoned = true;
        if let Kind::Record { operation_ids, .. } | Kind::Images { operation_ids } = kind {
            for operation_id in operation_ids {
                // What locks the pool as a whole changes no volume's blocks.
                let locks = self.pending[&operation_id].locks.iter();
                self.unknown.extend(locks.filter(|lock| **lock != Lock::Pool).cloned());
                self.end(operation_id, Err(Failure::Unknown));
            }
        }
        let waiting = |one: &Pending| matches!(one.stage, Stage::Preparing | Stage::Ready);
        let waiting = self.pending.iter().filter(|(_, one)| waiting(one));
        for operation_id in waiting.map(|(operation_id, _)| *operation_id).collect::<Vec<_>>() {
            self.pending.get_mut(&operation_id).expect("it was listed").script.abandon();
            self.finish_preparing(operation_id);
        }
    }

    /// Applies committed changes to the state in memory.
    fn apply_committed(&mut self, operation_ids: &[OperationId]) {
        if operation_ids.is_empty() {
            return;
        }
        for operation_id in operation_ids {
            let changes = std::mem::take(
                &mut self.pending.get_mut(operation_id).expect("it is there").changes,
            );
            let mut effects = Effects::default();
            for change in &changes {
                self.state.apply(change, &mut effects).expect("it was planned on this state");
                if let Change::AddDisk { number, disk } = change {
                    self.allocators.insert(*number, allocator_of(&self.state, *number, disk, &[]));
                }
                self.note_committed(change);
            }
            for place in &effects.gained {
                self.allocators.get_mut(&place.disk).expect("its disk is there").hold(*place);
            }
            // Freed blocks belong to the operation until it is released. What it allocated belongs
            // to its volume alone.
            let one = self.pending.get_mut(operation_id).expect("it is there");
            one.freed_blocks = !effects.lost.is_empty();
            let allocated = std::mem::replace(&mut one.holds, effects.lost);
            release_blocks(&mut self.allocators, &allocated);
            self.end(*operation_id, Ok(()));
        }
        self.state.sequence += 1;
        if cfg!(debug_assertions) {
            self.state.invariants();
        }
    }

    /// What a committed change means to what is known beside the state.
    fn note_committed(&mut self, change: &Change) {
        match change {
            Change::RemoveDisk { number } => {
                self.allocators.remove(number);
                self.active.remove(number);
                self.redundancy.forget_disk(*number);
            }
            Change::Replace { number, .. } => {
                let failed = self.redundancy.failing.contains(number);
                self.redundancy.forget_disk(*number);
                // It may have failed again while it came.
                self.redundancy.failing.extend(failed.then_some(*number));
                assert!(self.active.contains_key(number), "it has the pool's metadata");
            }
            Change::Remove { id } => self.redundancy.forget_volume(*id),
            Change::AddSums { number, blocks } => {
                let own = self.allocators.get_mut(number).expect("its disk is there");
                own.shrink(blocks.0 - 1);
            }
            Change::Fresh { blocks } => self.redundancy.renew(*blocks),
            Change::Stale { blocks } if self.state.is_in(blocks.disk) => {
                self.redundancy.epoch += 1;
            }
            _ => {}
        }
    }

    /// Writes of `state`'s image to the slot of each of its disks that `pick` names, given the
    /// active one.
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
        assert!(bytes.len() <= state.geometry.image_bytes(), "the image fits its slot");
        assert!(bytes.len().is_multiple_of(UNIT_BYTES), "whole units are written");
        let checksum = crc64(&bytes);
        let bytes: Arc<[u8]> = bytes.into();
        let (pool, sequence, geometry) = (state.pool, state.sequence, state.geometry);
        let version = state.version;
        let write = |(id, disk): (&DiskId, &Disk)| {
            let slot = pick(self.active[id]);
            let header = Header {
                version,
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
            let image = Action::Write { disk: *id, extent, bytes: Arc::clone(&bytes), fua: false };
            let extent = geometry.header(slot);
            [image, Action::Write { disk: *id, extent, bytes: header.encode().into(), fua: false }]
        };
        state.disks.iter().filter(|(_, disk)| !disk.out).flat_map(write).collect()
    }

    /// Removes the headers of torn images, so that no later write completes one.
    fn torn_wipes(&self) -> Vec<Vec<Action>> {
        let there = self.torn.iter().filter(|(id, _)| self.active.contains_key(id));
        let there: Vec<(DiskId, Slot)> = there.copied().collect();
        let bytes: Arc<[u8]> = vec![0; UNIT_BYTES].into();
        let wipe = |(disk, slot): &(DiskId, Slot)| Action::Write {
            disk: *disk,
            extent: self.state.geometry.header(*slot),
            bytes: Arc::clone(&bytes),
            fua: false,
        };
        let flush = |(disk, _): &(DiskId, Slot)| Action::Flush { disk: *disk, of: None };
        assert!(there.iter().all(|(id, slot)| self.active[id] != *slot), "the other slot counts");
        vec![there.iter().map(wipe).collect(), there.iter().map(flush).collect()]
    }

    pub(crate) fn flushes(&self) -> Vec<Action> {
        self.state.disks_in().map(|disk| Action::Flush { disk, of: None }).collect()
    }

    pub(crate) fn label_phase(&self, id: DiskId) -> Vec<Action> {
        label_writes(&self.state, id)
    }
}

/// The same writes, each durable when it ends. Clients' writes wait for them, and a flush would
/// take the time of all that clients have in the disk's cache.
fn forced(mut writes: Vec<Action>) -> Vec<Action> {
    for action in &mut writes {
        let Action::Write { fua, .. } = action else { unreachable!("metadata are written") };
        *fua = true;
    }
    writes
}

fn label_writes(state: &State, id: DiskId) -> Vec<Action> {
    let disk = &state.disks[&id];
    let (pool, blocks, geometry) = (state.pool, disk.blocks, state.geometry);
    assert!(blocks > geometry.first_block(), "a disk holds more than its metadata");
    let label = Label { pool, disk: disk.uid, number: id, blocks, geometry };
    let copies = label_places(blocks).into_iter().zip([0, 1]);
    let write = |(extent, copy)| Action::Write {
        disk: id,
        extent,
        bytes: label.encode(copy).into(),
        fua: false,
    };
    copies.map(write).collect()
}

/// The labels of disks that have got a checksum area, which may begin where the second one was.
/// The first is written last: until then it says where the second one was, and that what the area
/// has counts for nothing.
fn relabel(state: &State, ids: &[DiskId]) -> Vec<Vec<Action>> {
    let flushes: Vec<Action> =
        ids.iter().map(|disk| Action::Flush { disk: *disk, of: None }).collect();
    let (mut firsts, mut rest) = (Vec::new(), Vec::new());
    for id in ids {
        let mut labels = label_writes(state, *id).into_iter();
        firsts.extend(labels.next());
        rest.extend(labels);
        rest.extend(ledger_wipes(&state.disks[id], *id));
    }
    assert_eq!(firsts.len(), ids.len(), "each disk has a first label");
    assert_eq!(rest.len(), 3 * ids.len(), "and a second one, and a ledger of two slots");
    vec![rest, flushes.clone(), firsts, flushes]
}

/// Removes what happens to be where the ledger of a checksum area goes.
pub(crate) fn ledger_wipes(disk: &Disk, id: DiskId) -> Vec<Action> {
    let area = SumsArea::of(Blocks(disk.blocks));
    let wipe = |extent: Extent| Action::Write {
        disk: id,
        extent,
        bytes: vec![0; extent.len.bytes_usize()].into(),
        fua: false,
    };
    [0, 1].map(|slot| wipe(area.ledger(slot))).into()
}

fn wipes(disk: &Disk, id: DiskId) -> Vec<Action> {
    let bytes: Arc<[u8]> = vec![0; UNIT_BYTES].into();
    let wipe = |extent| Action::Write { disk: id, extent, bytes: Arc::clone(&bytes), fua: false };
    label_places(disk.blocks).into_iter().map(wipe).collect()
}
