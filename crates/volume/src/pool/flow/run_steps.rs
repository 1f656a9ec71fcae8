//! A pool's steps as pieces: metadata, erased blocks, and copies, of which a limited number is in
//! memory at a time.

use crate::location::DiskId;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::core::Flow;
use crate::pool::flow::steps::BlockCopy;
use crate::pool::flow::steps::COPIES_MAX;
use crate::pool::flow::steps::CopyJob;
use crate::pool::flow::steps::STEPS_MAX;
use crate::pool::flow::values::ChargeTo;
use crate::pool::flow::values::CopyId;
use crate::pool::flow::values::Fault;
use crate::pool::flow::values::Owner;
use crate::pool::flow::values::Work;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::operation::machine::OperationId;
use crate::pool::operation::script::{Action, StepId};

impl Flow {
    /// Issues the pool's steps, up to the limit. Returns whether there were any.
    pub(crate) fn issue_steps(&mut self) -> bool {
        let mut progressed = false;
        self.expect_writes();
        self.pool.is_waited_for = self.waits_for_commits();
        while self.steps.owners.len() < STEPS_MAX {
            let Some((step, operation_id, action)) = self.pool.step() else { break };
            progressed = true;
            let before = self.steps.owners.insert(step, operation_id);
            assert!(before.is_none(), "step numbers are not reused");
            assert!(self.steps.owners.len() <= STEPS_MAX, "steps are within their limit");
            let payer = operation_id.and_then(|operation_id| self.operation_ids.get(&operation_id));
            let payer = payer.map_or(ChargeTo::Metadata, |pending| pending.payer);
            let owner = Owner::Step(step);
            match action {
                Action::Write { disk, extent, bytes, fua } => {
                    let work = Work::Metadata { extent, bytes, fua };
                    self.issue(owner, disk, ChargeTo::Metadata, work);
                }
                Action::Flush { disk, of } => {
                    // It makes durable what was written to make copies equal.
                    let own = if payer == ChargeTo::Rebuild { payer } else { ChargeTo::Metadata };
                    self.issue(owner, disk, of.map_or(own, ChargeTo::Volume), Work::Flush);
                }
                Action::Erase { placed } => {
                    self.issue(owner, placed.disk, payer, Work::Erase { extent: placed.extent });
                }
                Action::Copy { from, to } => {
                    let (source, target) = (from.disk, to.disk);
                    let (from, to) = (from.extent, to.extent);
                    let job = CopyJob { payer, source, target, from, to, running: 0, ok: true };
                    assert_eq!(job.from.len, job.to.len, "a copy is as long as its source");
                    self.steps.jobs.insert(step, job);
                    self.steps.waiting.push_back(step);
                }
            }
        }
        self.copy();
        progressed
    }

    /// Whether a commit may be waited for: by a request that is held, as one is that writes to a
    /// block that is moved, or by an operator's change.
    fn waits_for_commits(&self) -> bool {
        debug_assert!(self.held.len() <= self.requests.len(), "requests are held");
        !self.held.is_empty() || self.changes.values().any(PendingChange::is_asked_for)
    }

    /// Starts copies, up to the limit; each job has one in progress before any has two, except
    /// those that make copies equal.
    fn copy(&mut self) {
        while self.steps.copies.len() < COPIES_MAX
            && let Some(step) = self.steps.next_job()
        {
            let Some(job) = self.steps.jobs.get_mut(&step) else { continue };
            let (from, more) = job.from.split_at(BLOCK_SECTORS);
            let (to, behind) = job.to.split_at(BLOCK_SECTORS);
            (job.from, job.to) = (more, behind);
            assert!(!from.is_empty(), "a waiting job has sectors to copy");
            assert_eq!(from.len, to.len, "a copy is as long as its source");
            job.running += 1;
            let (source, payer) = (job.source, job.payer);
            if !more.is_empty() && payer == ChargeTo::Rebuild {
                self.steps.waiting.push_front(step);
            } else if !more.is_empty() {
                self.steps.waiting.push_back(step);
            }
            let copy = CopyId(self.steps.numbers);
            self.steps.numbers += 1;
            assert!(from.len <= BLOCK_SECTORS, "a block at a time");
            self.steps.copies.insert(copy, BlockCopy { step, from, to });
            assert!(self.steps.copies.len() <= COPIES_MAX, "copies are within their limit");
            self.issue(Owner::Load(copy), source, payer, Work::Load { copy, extent: from });
        }
    }

    /// Whether the bytes of a copy that was loaded are to be kept: its store follows. Of a disk
    /// that has failed meanwhile they are not.
    pub fn keeps(&self, copy: CopyId) -> bool {
        debug_assert!(copy.0 < self.steps.numbers, "it was issued");
        self.steps.copies.contains_key(&copy)
    }

    /// The load of a copy has ended.
    pub(crate) fn on_loaded(&mut self, id: CopyId, end: Result<(), Fault>) {
        let BlockCopy { step, to, .. } = self.steps.copies[&id];
        let job = &self.steps.jobs[&step];
        let (source, target, payer) = (job.source, job.target, job.payer);
        if let Err(fault) = end {
            // Another copy is the source of the next attempt.
            let extent = self.steps.copies[&id].from;
            // A block that no copy has readable is not tried for ever.
            if self.pool.redundancy.note_unreadable(source, extent) {
                self.wake_resync();
            }
            return self.end_copy(id, Err(fault));
        }
        if !self.pool.is_live(source) {
            // It may have lost what it had answered: what it has now is written nowhere.
            return self.end_copy(id, Err(Fault::Disk));
        }
        // A volume's buffer is flushed by that volume alone.
        let fua = payer != ChargeTo::Rebuild;
        self.issue(Owner::Store(id), target, payer, Work::Store { copy: id, extent: to, fua });
    }

    /// The store of a copy has ended.
    pub(crate) fn on_stored(&mut self, id: CopyId, end: Result<(), Fault>) {
        if end == Err(Fault::Disk) {
            let target = self.steps.jobs[&self.steps.copies[&id].step].target;
            self.pool.fail(target);
        }
        self.end_copy(id, end);
    }

    /// A copy has ended.
    fn end_copy(&mut self, id: CopyId, end: Result<(), Fault>) {
        let BlockCopy { step, from, to } = self.steps.copies.remove(&id).expect("a copy ends once");
        assert_eq!(from.len, to.len, "a copy is as long as its source");
        let job = self.steps.jobs.get_mut(&step).expect("a job outlives its copies");
        assert!(job.running > 0, "a copy of the job was in progress");
        job.running -= 1;
        if let Err(fault) = end {
            job.abandon();
            self.steps.waiting.retain(|other| *other != step);
            self.record_fault(step, fault);
        }
        let job = &self.steps.jobs[&step];
        if job.running == 0 && job.from.is_empty() {
            let ok = job.ok;
            self.steps.jobs.remove(&step);
            self.end_step(step, ok);
        }
        self.copy();
    }

    /// Whether copies of an operation are not started yet.
    pub(crate) fn has_copies_to_start(&self, operation_id: OperationId) -> bool {
        debug_assert!(self.operation_ids.contains_key(&operation_id), "it is in progress");
        let mut jobs = self.steps.jobs.iter().filter(|(_, job)| !job.from.is_empty());
        jobs.any(|(step, _)| self.steps.owners[step] == Some(operation_id))
    }

    /// Drops the copies of an operation that are not started. It was cancelled.
    pub(crate) fn abandon_copies(&mut self, operation_id: OperationId) {
        let owners = self.steps.owners.iter().filter(|(_, owner)| **owner == Some(operation_id));
        for step in owners.map(|(step, _)| *step).collect::<Vec<_>>() {
            let Some(job) = self.steps.jobs.get_mut(&step) else { continue };
            job.abandon();
            let is_ended = job.running == 0;
            self.steps.waiting.retain(|other| *other != step);
            if is_ended {
                self.steps.jobs.remove(&step);
                self.end_step(step, false);
            }
        }
        assert!(!self.has_copies_to_start(operation_id), "none is left to start");
    }

    /// A step of one piece has ended.
    pub(crate) fn on_step_done(&mut self, step: StepId, disk: DiskId, end: Result<(), Fault>) {
        if let Err(fault) = end {
            if fault == Fault::Disk {
                self.pool.fail(disk);
            }
            self.record_fault(step, fault);
        }
        self.end_step(step, end.is_ok());
    }

    fn end_step(&mut self, step: StepId, ok: bool) {
        let owner = self.steps.owners.remove(&step);
        assert!(owner.is_some(), "a step ends once");
        assert!(!self.steps.jobs.contains_key(&step), "its copies have ended");
        self.pool.done(step, ok);
        self.dirty = true;
    }

    /// Records why an operation failed.
    fn record_fault(&mut self, step: StepId, fault: Fault) {
        let operation_id = self.steps.owners.get(&step).copied().flatten();
        if let Some(pending) =
            operation_id.and_then(|operation_id| self.operation_ids.get_mut(&operation_id))
        {
            pending.fault.get_or_insert(fault);
        }
    }
}
