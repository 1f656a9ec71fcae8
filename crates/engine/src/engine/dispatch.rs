//! The decision which command goes next, and how its request is executed.

use core::hint::cold_path;

use units::{Instant, Op, Operation, Sectors};

use super::pending::{OwnFlush, Slot};
use super::{ActiveRequest, Engine, Issued, NO_SLOT, Selection};
use crate::limits::PREEMPTIONS_MAX;
use crate::policy::{Dispatch, DispatchRecord, Pick};
use crate::preempt::Step;
use crate::request::Command;
use crate::{Execution, Purpose, VolumeId};

impl Engine {
    /// The volume whose command goes next, or the instant at which to poll again.
    pub(super) fn choose(&mut self, now: Instant) -> Result<Selection, Option<Instant>> {
        debug_assert_eq!(now, self.now, "the time until now is charged");
        debug_assert!(self.issued.len() < self.depth(), "the drive takes a command");
        if let Some(active) = &mut self.active {
            active.waits_for_rotation = false;
        }
        if let Some(active) = self.active
            && self.is_non_preemptible(active.slot)
        {
            cold_path();
            self.end_hold(active, now);
            if !self.issued.is_empty() && self.next_piece(active.slot).op == Op::Flush {
                // The flush that ends it is for what the drive has taken in.
                return Err(None);
            }
            let urgent = self.is_urgent(active.volume);
            return Ok(Selection { volume: active.volume, urgent });
        }
        let policy = &mut self.policy;
        let urgent = self.urgent.iter().find(|volume| policy.is_eligible(**volume, now)).copied();
        if let Some(volume) = urgent {
            cold_path();
            return Ok(Selection { volume, urgent: true });
        }
        // A request whose positioning has begun is served: else two requests could alternate in
        // starting to position.
        if let Some(ActiveRequest { volume, slot, .. }) = self.active
            && self.pending(slot).issued == Sectors::ZERO
            && self.policy.is_eligible(volume, now)
        {
            cold_path();
            return Ok(Selection { volume, urgent: false });
        }
        // For the policy a write of a batch is in the drive until the flush has ended.
        match self.policy.pick(self.issued.len() + self.batch.written(), now) {
            Pick::Volume(volume) => Ok(Selection { volume, urgent: false }),
            Pick::Wait(until) => Err(Some(until)),
            Pick::Nothing => Err(None),
        }
    }

    /// If the disk is held until a flush has ended what the drive has buffered of this request, and
    /// the policy wants to serve another volume, the flush is next.
    fn end_hold(&mut self, active: ActiveRequest, now: Instant) {
        let ActiveRequest { volume, slot, .. } = active;
        let is_whole = self.settings.execution == Execution::Whole { split: None };
        let is_open = is_whole && self.pending(slot).own_flush == OwnFlush::Buffered;
        if !is_open || self.next_piece(slot).op == Op::Flush || !self.policy.ends_hold(volume, now)
        {
            return;
        }
        self.pending_mut(slot).own_flush = OwnFlush::Next;
        let head = self.next_piece(slot);
        debug_assert_eq!(head.op, Op::Flush, "what is buffered is flushed");
        self.policy.head_changed(volume, &head, now);
    }

    /// Whether the rest of this request is non-preemptible.
    pub(super) fn is_non_preemptible(&self, slot: Slot) -> bool {
        let pending = self.pending(slot);
        debug_assert!(!pending.issued_whole(), "the disk is held for an unfinished request");
        // Deadlines alone decide, and a preempted request has slack for the preemption.
        if self.is_guarded() {
            return false;
        }
        let begun = pending.issued > Sectors::ZERO;
        match self.settings.execution {
            // What the drive has taken in of it is written before another volume is served.
            Execution::Whole { split } => {
                begun && split.is_some() || pending.own_flush.is_buffered()
            }
            Execution::Preemptible(how) => {
                let writes = pending.request.operation.op == Op::Write;
                pending.preemptions >= PREEMPTIONS_MAX || begun && writes && !how.preempt_writes
            }
        }
    }

    /// Whether a flush is to end this request: if all of its pieces were forced, each would lose a
    /// revolution.
    pub(super) fn owes_flush(&self, operation: &Operation) -> bool {
        if operation.op != Op::Write || !operation.fua || self.is_guarded() {
            return false;
        }
        let command_max = self.settings.command_max;
        let piece = match self.settings.execution {
            // With several commands in flight a flush would not wait for them.
            Execution::Preemptible(_) if self.settings.depth > 1 => None,
            Execution::Preemptible(_) => {
                self.executor.as_ref().map(|e| e.piece(Op::Write, operation.extent))
            }
            Execution::Whole { split: Some(_) } => None,
            Execution::Whole { split: None } => {
                self.settings.policy.buffers_writes().then_some(command_max)
            }
        };
        debug_assert!(piece.is_none_or(|piece| piece > Sectors::ZERO), "a piece has sectors");
        piece.is_some_and(|piece| operation.extent.len > piece)
    }

    /// The next command of the selected request, if it is time for one.
    pub(super) fn execute(&mut self, selection: Selection, now: Instant) -> Option<Command> {
        if let Execution::Whole { split: None } = self.settings.execution {
            // No request holds the disk between two commands, but one that a flush ends, and none
            // is preempted.
            let selection = self.choose_volume(selection, now);
            if self.ends_batch(selection.volume) {
                cold_path();
                return self.issue_batch_flush(now);
            }
            if self.line_up(selection.volume) {
                cold_path();
                return None;
            }
            if let Some(command) = self.issue_freeblock(selection, now) {
                cold_path();
                return Some(command);
            }
            let slot = self.volumes[selection.volume.0 as usize].first;
            if self.pending(slot).own_flush.is_owed() {
                cold_path();
                self.set_active_request(selection.volume, slot);
            }
            return Some(self.issue(selection, now));
        }
        cold_path();
        let (volume, slot) = (selection.volume, self.volumes[selection.volume.0 as usize].first);
        debug_assert_ne!(slot, NO_SLOT, "a selected volume has a head");
        debug_assert_eq!(self.pending(slot).request.volume, volume, "a head is its volume's");
        self.set_active_request(volume, slot);
        // No seek is just in time beside deadlines: they are kept by the worst case of commands.
        let head = self.next_piece(slot);
        let at_once = selection.urgent || self.guarded && !self.settings.policy.has_deadlines();
        let Some(executor) = self.executor.as_deref_mut().filter(|_| !at_once) else {
            return Some(self.issue(selection, now));
        };
        match executor.step(&head, now) {
            Step::Transfer => Some(self.issue(selection, now)),
            Step::Wait(until) => {
                let command = self.read_in_wait((volume, slot), until, now);
                if command.is_none() {
                    self.active = Some(ActiveRequest { volume, slot, waits_for_rotation: true });
                    assert!(until > now, "a rotational wait ends in the future");
                    self.wakeup = Some(until);
                }
                command
            }
            Step::Seek(to) => {
                let purpose = (Purpose::Seek, None);
                Some(self.issue_auxiliary(slot, Operation::seek(to), purpose, now))
            }
            Step::ShortRead(extent) => {
                let purpose = (Purpose::Seek, None);
                Some(self.issue_auxiliary(slot, Operation::read(extent), purpose, now))
            }
        }
    }

    /// Issues the next command of the selected volume.
    fn issue(&mut self, selection: Selection, now: Instant) -> Command {
        let slot = self.volumes[selection.volume.0 as usize].first;
        assert_ne!(slot, NO_SLOT, "a selected volume has a head");
        let gathered = self.gather(selection.volume, slot);
        self.issue_piece(selection, gathered, None, now)
    }

    /// Issues this command of the selected volume, for the first `covered` requests of its queue;
    /// in the rotational wait of a command of `lender`, if there is one.
    pub(super) fn issue_piece(
        &mut self,
        Selection { volume, urgent }: Selection,
        (operation, covered): (Operation, u32),
        lender: Option<VolumeId>,
        now: Instant,
    ) -> Command {
        let slot = self.volumes[volume.0 as usize].first;
        assert_ne!(slot, NO_SLOT, "a selected volume has a head");
        debug_assert!(
            self.issued.len() < self.settings.depth as usize,
            "the drive takes a command"
        );
        let id = self.next_command();
        let purpose = Purpose::Transfer;
        let pending = self.pending(slot);
        let (request, offset) = (pending.request, pending.issued);
        let command = Command { id, request: request.id, volume, operation, offset, purpose };
        debug_assert_eq!(request.volume, volume, "a head is its volume's");
        let awaits_flush = self.awaits_flush(slot, &operation);
        let (record, gains) = (None, None);
        let issued =
            Issued { id, slot, covered, offset, operation, purpose, awaits_flush, record, gains };
        let (ended, next) = self.start(&issued, now);
        if ended == 0 && self.pending(slot).own_flush == OwnFlush::Owed {
            cold_path();
            // The disk is not held for the rest of the request.
            self.active = None;
        }
        self.meter.issued(id, &operation, now);
        self.note_transfer(&issued, volume, now);
        if let Some(executor) = &mut self.executor {
            cold_path();
            executor.issued(&operation, purpose, now);
        }
        let (ends_request, next) = (ended > 0, next.as_ref());
        let dispatch = Dispatch { volume, command: &operation, ends_request, ended, next, urgent };
        let holds = self.active.is_some_and(|active| self.is_non_preemptible(active.slot));
        let record = if lender.is_none() {
            self.policy.dispatched(dispatch, now)
        } else {
            cold_path();
            self.policy.dispatched_freeblock(dispatch, now)
        };
        let record = DispatchRecord { holds, lender, ..record };
        self.note_freeblock(&issued, lender);
        self.share_estimate(&issued, record.estimate);
        self.issued.push(Issued { record: Some(record), ..issued });
        assert!(self.issued.len() <= self.settings.depth as usize, "the depth is kept");
        debug_assert_eq!(self.issued.len(), self.meter.running(), "the meter has every command");
        command
    }

    /// Notes that the disk is held for the request in `slot`. If it was held for another that has
    /// not ended, that one is preempted.
    fn set_active_request(&mut self, volume: VolumeId, slot: Slot) {
        let before = self.active.replace(ActiveRequest { volume, slot, waits_for_rotation: false });
        let Some(before) = before.filter(|before| before.slot != slot) else { return };
        let pending = self.pending_mut(before.slot);
        debug_assert_eq!(pending.request.volume, before.volume, "a request is its volume's");
        debug_assert!(!pending.issued_whole(), "only an unfinished request is preempted");
        pending.preemptions = pending.preemptions.saturating_add(1);
        if let Some(executor) = &mut self.executor {
            executor.abandon();
            executor.done_mut().preemptions += 1;
        }
    }

    /// Issues an auxiliary command: one that transfers no part of its request. `gains`: the volume
    /// that is charged in place of the request's.
    pub(super) fn issue_auxiliary(
        &mut self,
        slot: Slot,
        operation: Operation,
        (purpose, gains): (Purpose, Option<VolumeId>),
        now: Instant,
    ) -> Command {
        assert_ne!(purpose, Purpose::Transfer, "an auxiliary command transfers no piece");
        assert!(!operation.op.writes(), "an auxiliary command changes no data");
        assert!(self.issued.len() < self.settings.depth as usize, "the depth is kept");
        let id = self.next_command();
        let pending = self.pending_mut(slot);
        debug_assert!(!pending.issued_whole(), "an auxiliary command serves an unfinished request");
        pending.running += 1;
        let request = pending.request;
        self.meter.issued(id, &operation, now);
        if let Some(executor) = &mut self.executor {
            executor.issued(&operation, purpose, now);
        }
        let offset = Sectors::ZERO;
        let one = Issued::of_one((id, slot), (operation, offset), purpose);
        self.issued.push(Issued { gains, ..one });
        debug_assert_eq!(self.issued.len(), self.meter.running(), "the meter has every command");
        let volume = gains.unwrap_or(request.volume);
        Command { id, request: request.id, volume, operation, offset, purpose }
    }
}
