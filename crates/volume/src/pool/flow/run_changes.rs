//! An operator's changes, and blocks that are moved: each waits for its turn, has what it is about rest, and is begun.
//!
//! A change that is raised bars what it would meet: requests that arrive are held, those under way end, and then it is begun. So a change
//! waits for what was there before it, and for nothing that comes after.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::flow::change::CHANGES_MAX;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::change::Quiesced;
use crate::pool::flow::change::Stage;
use crate::pool::flow::core::Flow;
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
    /// A change, which ends with [`Output::Ended`].
    pub fn change(&mut self, operation: Operation) -> ChangeId {
        let id = self.number_change();
        if self.changes.values().filter(|change| change.course.is_none()).count() >= CHANGES_MAX {
            self.outputs.push_back(Output::Ended(id, ChangeOutcome::Refused(Refusal::TooMany)));
            return id;
        }
        self.changes.insert(id, PendingChange::new(operation, None));
        self.stirred = true;
        id
    }

    /// Calls a change off, unless it is being committed. It ends all the same.
    pub fn cancel(&mut self, id: ChangeId) {
        let Some(change) = self.changes.get(&id).filter(|change| change.course.is_none()) else {
            return;
        };
        match change.stage {
            Stage::Waiting | Stage::Draining(_) => {
                self.end_change(id, ChangeOutcome::Failed(Failure::Cancelled));
            }
            Stage::Begun(ticket) => self.pool.cancel(ticket),
            Stage::Leaving(_) => {}
        }
        self.stirred = true;
    }

    pub(crate) fn number_change(&mut self) -> ChangeId {
        let id = ChangeId(self.change_numbers);
        self.change_numbers += 1;
        id
    }

    /// Whether a change has these blocks rest.
    pub(crate) fn rests(&self, volume: PoolVolumeId, blocks: &Range<u32>, writes: bool) -> bool {
        self.changes.values().filter_map(|change| change.rest.as_ref()).any(|rest| {
            rest.volume == volume
                && (writes || rest.reads)
                && rest.blocks.start < blocks.end
                && blocks.start < rest.blocks.end
        })
    }

    /// Whether a change bars an operation with these locks.
    pub(crate) fn is_barred(&self, locks: &[Lock]) -> bool {
        let raised = self.changes.values().filter(|change| change.is_raised());
        raised.flat_map(|change| &change.locks).any(|held| locks.iter().any(|one| one.meets(held)))
    }

    /// A request has no piece under way any more.
    pub(crate) fn drained(&mut self, id: PoolRequestId) {
        for change in self.changes.values_mut() {
            if let Stage::Draining(requests) | Stage::Leaving(requests) = &mut change.stage
                && requests.remove(&id)
                && requests.is_empty()
            {
                self.stirred = true;
            }
        }
    }

    /// Takes every change as far as it goes, the oldest first. Says whether any went on.
    pub(crate) fn advance(&mut self) -> bool {
        let mut some = false;
        let mut ahead: Vec<Lock> = Vec::new();
        for id in self.changes.keys().copied().collect::<Vec<_>>() {
            if self.changes[&id].is_raised() {
                some |= self.go_on(id);
            } else {
                match self.changes[&id].operation.locks(self.pool.state()) {
                    Err(refusal) => {
                        self.end_change(id, ChangeOutcome::Refused(refusal));
                        some = true;
                    }
                    Ok(locks) => {
                        let free =
                            !locks.iter().any(|one| ahead.iter().any(|held| held.meets(one)));
                        self.changes.get_mut(&id).expect("it was listed").locks = locks;
                        if free {
                            self.raise(id);
                            self.go_on(id);
                            some = true;
                        }
                    }
                }
            }
            if let Some(change) = self.changes.get(&id) {
                ahead.extend(change.locks.iter().cloned());
            }
        }
        some
    }

    /// From here on nothing begins that a change would meet.
    fn raise(&mut self, id: ChangeId) {
        let rest = self.rest(&self.changes[&id].operation);
        let over = |rest: &Quiesced| {
            let flying = self.requests.iter();
            let flying = flying
                .filter(|(_, request)| request.flies_over(rest.volume, &rest.blocks, rest.reads));
            flying.map(|(id, _)| *id).collect()
        };
        let stage = Stage::Draining(rest.as_ref().map(over).unwrap_or_default());
        let change = self.changes.get_mut(&id).expect("it was listed");
        (change.rest, change.stage) = (rest, stage);
    }

    /// What is to rest while an operation is under way.
    fn rest(&self, operation: &Operation) -> Option<Quiesced> {
        let state = self.pool.state();
        let all = 0..u32::MAX;
        match operation {
            Operation::Snapshot { volume, .. } => {
                Some(Quiesced { volume: *volume, blocks: all, reads: false })
            }
            Operation::Remove { volume } => {
                Some(Quiesced { volume: *volume, blocks: all, reads: true })
            }
            Operation::RollBack { snapshot } => {
                Some(Quiesced { volume: state.family(*snapshot), blocks: all, reads: true })
            }
            Operation::Resize { volume, size } => {
                Some(Quiesced { volume: *volume, blocks: size.0..u32::MAX, reads: true })
            }
            Operation::Move { volume, block } => {
                let volume = state.family(*volume);
                Some(Quiesced { volume, blocks: block.0..block.0 + 1, reads: false })
            }
            Operation::Create(_)
            | Operation::Allocate { .. }
            | Operation::Trim { .. }
            | Operation::Relocate { .. }
            | Operation::AddDisk { .. }
            | Operation::DrainDisk { .. }
            | Operation::KeepDisk { .. }
            | Operation::RemoveDisk { .. }
            | Operation::SetAlarm { .. } => None,
        }
    }

    /// Takes a raised change a step further. Says whether it went.
    fn go_on(&mut self, id: ChangeId) -> bool {
        let change = &self.changes[&id];
        match &change.stage {
            Stage::Draining(requests) if requests.is_empty() => self.begin_change(id),
            Stage::Leaving(requests) if requests.is_empty() => {
                self.end_change(id, ChangeOutcome::Done);
                true
            }
            _ => false,
        }
    }

    fn begin_change(&mut self, id: ChangeId) -> bool {
        let change = &self.changes[&id];
        let (operation, course) = (change.operation.clone(), change.course);
        // What was given back on it is to be free before a disk is found empty.
        if matches!(operation, Operation::RemoveDisk { .. }) && self.pool.oldest().is_some() {
            return false;
        }
        if let Operation::Move { volume, block } = operation
            && course.is_some()
            && !self.pool.is_misplaced(volume, block)
        {
            self.changes.remove(&id);
            self.stayed(volume);
            return true;
        }
        match self.pool.begin(&operation) {
            Ok(ticket) => {
                let (payer, family) = (payer(&operation), family(self.pool.state(), &operation));
                let owner = Owner::Change(id);
                self.tickets.insert(ticket, PendingOperation { owner, payer, family, fault: None });
                self.changes.get_mut(&id).expect("it was listed").stage = Stage::Begun(ticket);
                true
            }
            Err(Refusal::Busy | Refusal::TooMany) => false,
            Err(refusal @ (Refusal::NoSpace { .. } | Refusal::MetadataFull)) => {
                let (oldest, next) = (self.pool.oldest(), self.pool.next_ticket());
                let change = self.changes.get_mut(&id).expect("it was listed");
                let since = *change.patience.get_or_insert(next);
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
    pub(crate) fn carried_out(&mut self, id: ChangeId, end: Result<(), Failure>) {
        if let Err(failure) = end {
            return self.end_change(id, ChangeOutcome::Failed(failure));
        }
        let operation = self.changes[&id].operation.clone();
        self.follow(&operation);
        if matches!(operation, Operation::RemoveDisk { .. }) {
            let flying = self.requests.iter().filter(|(_, request)| request.flushes());
            let flying: BTreeSet<PoolRequestId> = flying.map(|(id, _)| *id).collect();
            self.changes.get_mut(&id).expect("it is under way").stage = Stage::Leaving(flying);
            self.stirred = true;
            return;
        }
        self.end_change(id, ChangeOutcome::Done);
    }

    /// What a change that holds means to families and to blocks that are to lie elsewhere.
    fn follow(&mut self, operation: &Operation) {
        let state = self.pool.state();
        match operation {
            Operation::Create(volume) => {
                let (id, _) = state.named(&volume.name).expect("it was created");
                self.families.insert(id, SnapshotGroup::new(&self.pool, id));
            }
            Operation::Remove { volume } => {
                self.courses.remove(volume);
                self.forget(*volume);
            }
            Operation::Relocate { volume, disks, .. } => {
                let family = state.family(*volume);
                let relatives: Vec<PoolVolumeId> =
                    state.relatives(family).map(|(id, _)| id).collect();
                self.families.get_mut(&family).expect("it is listed").disks.extend(disks);
                for id in relatives {
                    self.set_out(id);
                }
            }
            Operation::Snapshot { name, .. } => {
                let (id, _) = state.named(name).expect("it was made");
                self.set_out(id);
            }
            Operation::RollBack { snapshot } => self.set_out(state.family(*snapshot)),
            Operation::DrainDisk { .. } => {
                let volumes: Vec<(PoolVolumeId, Vec<DiskId>)> =
                    state.volumes().map(|(id, volume)| (id, volume.disks.clone())).collect();
                for (id, disks) in volumes {
                    let family = self.pool.state().family(id);
                    self.families.get_mut(&family).expect("it is listed").disks.extend(disks);
                    self.set_out(id);
                }
            }
            Operation::RemoveDisk { disk } => {
                for family in self.families.values_mut() {
                    family.disks.remove(disk);
                }
            }
            Operation::Resize { .. }
            | Operation::AddDisk { .. }
            | Operation::Allocate { .. }
            | Operation::Trim { .. }
            | Operation::Move { .. }
            | Operation::KeepDisk { .. }
            | Operation::SetAlarm { .. } => {}
        }
        self.encourage();
    }

    fn end_change(&mut self, id: ChangeId, end: ChangeOutcome) {
        let change = self.changes.remove(&id).expect("a change ends once");
        self.stirred = true;
        match (change.course, change.operation) {
            (Some(volume), Operation::Move { block, .. }) => self.moved(volume, block, end),
            _ => self.outputs.push_back(Output::Ended(id, end)),
        }
    }
}

/// Who pays for the blocks that an operation erases or copies.
fn payer(operation: &Operation) -> ChargeTo {
    match operation {
        Operation::Move { .. } => ChargeTo::Relocation,
        Operation::Resize { volume, .. } | Operation::Allocate { volume, .. } => {
            ChargeTo::Volume(*volume)
        }
        _ => ChargeTo::Metadata,
    }
}

/// Whose blocks an operation may give back.
fn family(state: &State, operation: &Operation) -> Option<PoolVolumeId> {
    match operation {
        Operation::Resize { volume, .. }
        | Operation::Remove { volume }
        | Operation::RollBack { snapshot: volume }
        | Operation::Trim { volume, .. }
        | Operation::Allocate { volume, .. }
        | Operation::Move { volume, .. } => Some(state.family(*volume)),
        _ => None,
    }
}
