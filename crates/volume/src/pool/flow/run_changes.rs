//! An operator's changes, and moves of blocks: each waits for older conflicting changes, quiesces
//! its blocks, and begins.
//!
//! A quiescing change holds requests that conflict with it, waits for those in flight, and begins
//! then. So a change waits for older requests and changes, and for no later one.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::flow::change::CHANGES_MAX;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::change::Stage;
use crate::pool::flow::change::{Quiesced, Scope};
use crate::pool::flow::core::Flow;
use crate::pool::flow::relocation::Relocation;
use crate::pool::flow::snapshot_group::SnapshotGroup;
use crate::pool::flow::values::ChangeId;
use crate::pool::flow::values::ChangeOutcome;
use crate::pool::flow::values::ChargeTo;
use crate::pool::flow::values::Output;
use crate::pool::flow::values::Owner;
use crate::pool::flow::values::PendingOperation;
use crate::pool::flow::values::PoolRequestId;
use crate::pool::names::PoolVolumeId;
use crate::pool::operation::kinds::{Lock, Operation};
use crate::pool::operation::machine::Failure;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::metadata::State;

impl Flow {
    /// Submits a change, which ends with [`Output::Ended`].
    pub fn change(&mut self, operation: Operation) -> ChangeId {
        let id = self.number_change();
        if self.changes.values().filter(|change| change.is_asked_for()).count() >= CHANGES_MAX {
            self.outputs.push_back(Output::Ended(id, ChangeOutcome::Refused(Refusal::TooMany)));
            return id;
        }
        self.changes.insert(id, PendingChange::new(operation, None));
        self.dirty = true;
        id
    }

    /// Whether a change could be made after those in progress. Changes nothing.
    ///
    /// # Errors
    /// The refusal.
    pub fn check(&mut self, operation: &Operation) -> Result<(), Refusal> {
        self.pool.check(operation)
    }

    /// Cancels a change, unless it is being committed. It ends in either case.
    pub fn cancel(&mut self, id: ChangeId) {
        let Some(change) = self.changes.get(&id).filter(|change| change.is_asked_for()) else {
            return;
        };
        match change.stage {
            Stage::Waiting | Stage::Quiescing(_) => {
                self.end_change(id, ChangeOutcome::Failed(Failure::Cancelled));
            }
            Stage::Begun(operation_id) => self.pool.cancel(operation_id),
            Stage::Leaving(_) => {}
        }
        self.dirty = true;
    }

    pub(crate) fn number_change(&mut self) -> ChangeId {
        let id = ChangeId(self.change_numbers);
        self.change_numbers += 1;
        assert!(!self.changes.contains_key(&id), "change numbers are not reused");
        id
    }

    /// Whether a change has quiesced these blocks.
    pub(crate) fn is_quiesced(
        &self,
        volume: PoolVolumeId,
        blocks: &Range<u32>,
        writes: bool,
    ) -> bool {
        let group = self.pool.state().group_of(volume);
        (writes && self.is_held_for_scrub(group, blocks))
            || self.changes.values().filter_map(|change| change.rest.as_ref()).any(|rest| {
                rest.is_of(volume, group)
                    && (writes || rest.reads)
                    && rest.blocks.start < blocks.end
                    && blocks.start < rest.blocks.end
            })
    }

    /// Whether a change blocks an operation with these locks.
    pub(crate) fn is_barred(&self, locks: &[Lock]) -> bool {
        let raised = self.changes.values().filter(|change| change.has_quiesced());
        raised
            .flat_map(|change| &change.locks)
            .any(|held| locks.iter().any(|one| one.conflicts_with(held)))
    }

    /// A request has no piece in flight any more.
    pub(crate) fn on_request_idle(&mut self, id: PoolRequestId) {
        for change in self.changes.values_mut() {
            if let Stage::Quiescing(requests) | Stage::Leaving(requests) = &mut change.stage
                && requests.remove(&id)
                && requests.is_empty()
            {
                self.dirty = true;
            }
        }
    }

    /// Advances every change as far as possible, the oldest first. Returns whether any advanced.
    pub(crate) fn advance_changes(&mut self) -> bool {
        let mut progressed = false;
        let mut ahead: Vec<Lock> = Vec::new();
        for id in self.changes.keys().copied().collect::<Vec<_>>() {
            if self.changes[&id].has_quiesced() {
                progressed |= self.advance_change(id);
            } else {
                match self.changes[&id].operation.locks(self.pool.state()) {
                    Err(refusal) => {
                        self.end_change(id, ChangeOutcome::Refused(refusal));
                        progressed = true;
                    }
                    Ok(locks) => {
                        let free = !locks
                            .iter()
                            .any(|one| ahead.iter().any(|held| held.conflicts_with(one)));
                        self.changes.get_mut(&id).expect("it was listed").locks = locks;
                        if free {
                            self.quiesce(id);
                            self.advance_change(id);
                            progressed = true;
                        }
                    }
                }
            }
            if let Some(change) = self.changes.get(&id) {
                ahead.extend(change.locks.iter().cloned());
            }
        }
        progressed
    }

    /// Quiesces the blocks of a change: no conflicting request begins from here on.
    fn quiesce(&mut self, id: ChangeId) {
        assert!(!self.changes[&id].has_quiesced(), "a change quiesces once");
        let rest = self.rest(&self.changes[&id].operation);
        if let Some(rest) = &rest {
            self.scrub.touch(|volume, group| rest.is_of(volume, group), &rest.blocks);
        }
        let over = |rest: &Quiesced| {
            let in_flight = self.requests.iter();
            let in_flight = in_flight.filter(|(_, request)| request.overlaps(rest));
            in_flight.map(|(id, _)| *id).collect()
        };
        let stage = Stage::Quiescing(rest.as_ref().map(over).unwrap_or_default());
        let change = self.changes.get_mut(&id).expect("it was listed");
        (change.rest, change.stage) = (rest, stage);
    }

    /// The blocks that are quiesced during an operation.
    fn rest(&self, operation: &Operation) -> Option<Quiesced> {
        let state = self.pool.state();
        let all = 0..u32::MAX;
        let (scope, blocks, reads) = match operation {
            Operation::Snapshot { volume, .. } | Operation::Clone { source: volume, .. } => {
                (Scope::Volume(*volume), all, false)
            }
            Operation::Remove { volume } => (Scope::Volume(*volume), all, true),
            Operation::RollBack { snapshot } => {
                let origin = state.volume(*snapshot).and_then(|volume| volume.origin);
                (Scope::Volume(origin.unwrap_or(*snapshot)), all, true)
            }
            Operation::Resize { volume, size } => (Scope::Volume(*volume), size.0..u32::MAX, true),
            // Other volumes of the group that share the block write to it too.
            Operation::Move { volume, block } => {
                (Scope::Group(state.group_of(*volume)), block.0..block.0 + 1, false)
            }
            Operation::Resync { volume, first, count } => {
                let group = state.group_of(*volume);
                (Scope::Group(group), first.0..first.0 + count.0, false)
            }
            Operation::Close => (Scope::All, all, false),
            Operation::Create(_)
            | Operation::CreateInParts { .. }
            | Operation::Allocate { .. }
            | Operation::Trim { .. }
            | Operation::Open { .. }
            | Operation::MarkStale { .. }
            | Operation::ForgetStale { .. }
            | Operation::RecordScrub { .. }
            | Operation::TakeBack { .. }
            | Operation::ReplaceDisk { .. }
            | Operation::Upgrade
            | Operation::AddSums { .. }
            | Operation::Relocate { .. }
            | Operation::AddDisk { .. }
            | Operation::DrainDisk { .. }
            | Operation::KeepDisk { .. }
            | Operation::RemoveDisk { .. }
            | Operation::SetAlarm { .. } => return None,
        };
        Some(Quiesced { scope, blocks, reads })
    }

    /// Advances a change that has begun to quiesce. Returns whether it advanced.
    fn advance_change(&mut self, id: ChangeId) -> bool {
        let change = &self.changes[&id];
        match &change.stage {
            Stage::Quiescing(requests) if requests.is_empty() => self.begin_change(id),
            Stage::Leaving(requests) if requests.is_empty() => {
                self.end_change(id, ChangeOutcome::Done);
                true
            }
            _ => false,
        }
    }

    fn begin_change(&mut self, id: ChangeId) -> bool {
        let change = &self.changes[&id];
        let quiet = matches!(&change.stage, Stage::Quiescing(requests) if requests.is_empty());
        assert!(quiet, "a change begins when its blocks are quiet");
        let (operation, relocation) = (change.operation.clone(), change.relocation);
        // Its freed blocks must be released before a disk is found empty.
        if matches!(operation, Operation::RemoveDisk { .. }) && self.pool.oldest().is_some() {
            return false;
        }
        // What is still in flight at a disk that was taken out may reach it late.
        if let Operation::TakeBack { disk } | Operation::ReplaceDisk { disk, .. } = operation
            && self.is_busy(disk)
        {
            return false;
        }
        if let Operation::Resync { volume, first, count } = operation
            && !self.is_unequal(volume, first, count)
        {
            self.changes.remove(&id);
            self.on_resync_done((volume, first, count), &ChangeOutcome::Done);
            return true;
        }
        if let Operation::Move { volume, block } = operation
            && relocation.is_some()
            && !self.pool.is_misplaced(volume, block)
        {
            self.changes.remove(&id);
            self.skip_move(volume);
            return true;
        }
        match self.pool.begin(&operation) {
            Ok(operation_id) => {
                let (payer, group) = (payer(&operation), group(self.pool.state(), &operation));
                let owner = Owner::Change(id);
                self.operation_ids
                    .insert(operation_id, PendingOperation { owner, payer, group, fault: None });
                self.changes.get_mut(&id).expect("it was listed").stage =
                    Stage::Begun(operation_id);
                true
            }
            Err(Refusal::Busy | Refusal::TooMany) => false,
            Err(refusal @ (Refusal::NoSpace { .. } | Refusal::MetadataFull)) => {
                let (oldest, next) = (self.pool.oldest(), self.pool.next_ticket());
                let change = self.changes.get_mut(&id).expect("it was listed");
                let since = *change.nospace_retry_after.get_or_insert(next);
                if oldest.is_some_and(|oldest| oldest < since) {
                    return false;
                }
                self.end_change(id, ChangeOutcome::Refused(refusal));
                true
            }
            Err(refusal) => {
                self.end_change(id, ChangeOutcome::Refused(refusal));
                true
            }
        }
    }

    /// The operation of a change has ended.
    pub(crate) fn on_change_committed(&mut self, id: ChangeId, end: Result<(), Failure>) {
        if let Err(failure) = end {
            return self.end_change(id, ChangeOutcome::Failed(failure));
        }
        let began = matches!(self.changes[&id].stage, Stage::Begun(_));
        assert!(began, "a change that ends had begun");
        let operation = self.changes[&id].operation.clone();
        self.update_groups(&operation);
        if matches!(operation, Operation::RemoveDisk { .. }) {
            let in_flight = self.requests.iter().filter(|(_, request)| request.flushes());
            let in_flight: BTreeSet<PoolRequestId> = in_flight.map(|(id, _)| *id).collect();
            self.changes.get_mut(&id).expect("it is pending way").stage = Stage::Leaving(in_flight);
            self.dirty = true;
            return;
        }
        self.end_change(id, ChangeOutcome::Done);
    }

    fn forget_volume(&mut self, volume: PoolVolumeId) {
        debug_assert!(self.pool.state().volume(volume).is_none(), "it was removed");
        self.relocations.remove(&volume);
        self.orders.remove(&volume);
        self.read_disks.remove(&volume);
        self.written_ends.remove(&volume);
    }

    /// Updates groups and relocations after a committed change.
    fn update_groups(&mut self, operation: &Operation) {
        let state = self.pool.state();
        match operation {
            Operation::Create(volume) | Operation::CreateInParts { volume, .. } => {
                let (id, _) = state.named(&volume.name).expect("it was created");
                self.groups.insert(id, SnapshotGroup::new(&self.pool, id));
            }
            Operation::Remove { volume } => {
                self.forget_volume(*volume);
                for group in self.groups.keys().copied().collect::<Vec<_>>() {
                    self.forget(group);
                }
            }
            Operation::Relocate { volume, disks, .. } => {
                let group = state.group_of(*volume);
                let relatives: Vec<PoolVolumeId> =
                    state.group_members(group).map(|(id, _)| id).collect();
                self.groups.get_mut(&group).expect("it is listed").disks.extend(disks);
                for id in relatives {
                    self.start_relocation(id);
                }
            }
            Operation::Snapshot { name, .. } => {
                let (id, _) = state.named(name).expect("it was made");
                self.start_relocation(id);
            }
            Operation::Clone { name, .. } => {
                let (id, clone) = state.named(name).expect("it was made");
                let group = self.groups.get_mut(&clone.group).expect("it is listed");
                group.disks.extend(&clone.disks);
                self.start_relocation(id);
            }
            Operation::RollBack { snapshot } => {
                let origin = state.volume(*snapshot).and_then(|volume| volume.origin);
                self.start_relocation(origin.expect("a snapshot names its origin"));
            }
            Operation::DrainDisk { .. } => {
                let volumes: Vec<(PoolVolumeId, Vec<DiskId>)> =
                    state.volumes().map(|(id, volume)| (id, volume.disks.clone())).collect();
                for (id, disks) in volumes {
                    let group = self.pool.state().group_of(id);
                    self.groups.get_mut(&group).expect("it is listed").disks.extend(disks);
                    self.start_relocation(id);
                }
            }
            Operation::RemoveDisk { disk } => {
                self.groups.values_mut().for_each(|group| group.forget_disk(*disk));
            }
            Operation::TakeBack { .. } | Operation::ReplaceDisk { .. } => {
                self.relocations.values_mut().for_each(Relocation::restart);
                self.wake_resync();
            }
            Operation::RecordScrub { scrub } => self.on_scrub_recorded(*scrub),
            Operation::Resize { .. }
            | Operation::Open { .. }
            | Operation::Close
            | Operation::MarkStale { .. }
            | Operation::Resync { .. }
            | Operation::ForgetStale { .. }
            | Operation::Upgrade
            | Operation::AddSums { .. }
            | Operation::AddDisk { .. }
            | Operation::Allocate { .. }
            | Operation::Trim { .. }
            | Operation::Move { .. }
            | Operation::KeepDisk { .. }
            | Operation::SetAlarm { .. } => {}
        }
        self.retry_stuck();
    }

    pub(crate) fn end_change(&mut self, id: ChangeId, end: ChangeOutcome) {
        let change = self.changes.remove(&id).expect("a change ends once");
        self.dirty = true;
        if let (Operation::RemoveDisk { disk }, ChangeOutcome::Done) = (&change.operation, &end) {
            self.costs.forget(*disk);
        }
        match (change.relocation, change.operation) {
            (Some(volume), Operation::Move { block, .. }) => self.on_move_done(volume, block, end),
            (None, Operation::Resync { volume, first, count }) if change.is_internal => {
                self.on_resync_done((volume, first, count), &end);
            }
            (
                None,
                Operation::ForgetStale { .. }
                | Operation::RecordScrub { .. }
                | Operation::MarkStale { .. },
            ) if change.is_internal => {}
            _ => self.outputs.push_back(Output::Ended(id, end)),
        }
    }
}

/// The account for blocks that an operation erases or copies.
fn payer(operation: &Operation) -> ChargeTo {
    match operation {
        Operation::Move { .. } => ChargeTo::Relocation,
        Operation::Resync { .. } => ChargeTo::Rebuild,
        Operation::Resize { volume, .. } | Operation::Allocate { volume, .. } => {
            ChargeTo::Volume(*volume)
        }
        _ => ChargeTo::Metadata,
    }
}

/// The group of which an operation can free blocks.
fn group(state: &State, operation: &Operation) -> Option<PoolVolumeId> {
    match operation {
        Operation::Resize { volume, .. }
        | Operation::Remove { volume }
        | Operation::RollBack { snapshot: volume }
        | Operation::Trim { volume, .. }
        | Operation::Allocate { volume, .. }
        | Operation::Move { volume, .. } => Some(state.group_of(*volume)),
        _ => None,
    }
}
