//! Neighbours of one volume's queue that go to the drive as one command, and what becomes of such a
//! command if it fails.
//!
//! Under a policy that [merges](crate::PolicyName::merges_neighbours), requests of one kind that
//! follow each other on the disk become one command of up to [`MERGED_MAX`]: a drive takes about as
//! long for its 32 requests of 4 KiB as for two of them. [`super::gather`] makes the command of
//! requests that are next to each other in the queue; here they are brought there.
//!
//! ```text
//! queue      │ A 0..8 │ X 90.. │ B 8..16 │ Y 50.. │ C 16..24 │
//! then       │ A 0..8 │ B 8..16 │ C 16..24 │ X 90.. │ Y 50.. │     one command for A, B and C
//! ```
//!
//! No request goes before an earlier one with which it shares sectors, if either changes data.
//!
//! **Gathering.** A drive with one actuator takes the next request of a run no earlier for having
//! it in its own queue: it has read ahead, or buffers what is written. So a run has one command in
//! the drive at a time, and what arrives meanwhile is merged. Forced writes wait for the medium and
//! are not held back.
//!
//! **Errors.** A merged command that fails says nothing about single requests. Each of them is
//! issued again as a command of its own, one at a time and before all else, and fails or succeeds
//! by that. Their time is charged to the volume. Beside guarantees by deadlines nothing is merged
//! but blocks of streams, and a failure there is that of every request: there is no time for a
//! second attempt.

use core::hint::cold_path;

use units::{Extent, Instant, Lba, Op, Operation, Sectors};

use super::gather::Covered;
use super::pending::{Retry, Slot};
use super::{Engine, Issued, NO_SLOT};
use crate::chooser::conflicts;
use crate::limits::{MERGE_CANDIDATES_MAX, MERGED_MAX};
use crate::request::{Command, Outcome};
use crate::{Charging, Execution, Purpose, VolumeId};

/// The command that grows by neighbours.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: (Op, bool),
    begins: Lba,
    end: Lba,
    len: Sectors,
}

impl Run {
    /// Whether `operation` follows, and the command is not too long with it.
    fn takes(&self, operation: &Operation) -> bool {
        self.kind == (operation.op, operation.fua)
            && operation.extent.start == self.end
            && self.len + operation.extent.len <= MERGED_MAX
    }

    fn take(&mut self, extent: Extent) {
        debug_assert_eq!(extent.start, self.end, "a neighbour begins where the other ends");
        (self.end, self.len) = (extent.end(), self.len + extent.len);
    }
}

impl Engine {
    /// Whether neighbours are merged now.
    pub(super) fn merges(&self) -> bool {
        debug_assert!(self.settings.depth > 0, "the drive takes a command");
        self.settings.policy.merges_neighbours()
            && self.settings.execution == Execution::Whole { split: None }
            && !self.is_guarded()
    }

    /// The run that begins with the head of `volume`; `None` if nothing is merged with that.
    fn run_of_head(&self, slot: Slot) -> Option<Run> {
        let pending = self.pending(slot);
        if !self.merges() || pending.own_flush.is_owed() {
            return None;
        }
        let Operation { op, extent, fua } = pending.request.operation;
        let (_, Extent { start: begins, len }) = extent.split_at(pending.issued);
        // Without a split a transfer's next command is the rest of it, as far as a command goes.
        let is_last = len < MERGED_MAX && len <= self.settings.command_max;
        if !is_last || !matches!(op, Op::Read | Op::Write) {
            return None;
        }
        debug_assert_eq!(self.next_piece(slot).extent, Extent::new(begins, len), "it is the next");
        Some(Run { kind: (op, fua), begins, end: extent.end(), len })
    }

    /// Brings the requests that follow the head of `volume` on the disk next to it in the queue.
    /// Returns whether the run is to gather more, while its previous command is in the drive.
    pub(super) fn line_up(&mut self, volume: VolumeId) -> bool {
        let first = self.volumes[volume.0 as usize].first;
        let Some(mut run) = self.run_of_head(first) else { return false };
        let is_run = self.chooser.as_ref().is_none_or(|c| c.ends_at(volume, run.begins));
        let mut tail = first;
        while let Some((next, operation)) = self.pending(tail).next_in_queue {
            if run.takes(&operation) {
                run.take(operation.extent);
                tail = next;
                continue;
            }
            // Elsewhere in the queue: looked for where requests have followed each other before.
            let reorders = self.chooser.is_some() && is_run;
            let Some((before, slot)) = reorders.then(|| self.follower(next, &run)).flatten() else {
                break;
            };
            run.take(self.pending(slot).request.operation.extent);
            self.move_behind(volume, tail, (before, slot));
            tail = slot;
        }
        run.len < MERGED_MAX && self.is_awaited(volume, &run)
    }

    /// Whether the command before a run's head is in the drive, and is served no later without the
    /// head in the drive beside it.
    fn is_awaited(&self, volume: VolumeId, run: &Run) -> bool {
        let ((op, fua), begins) = (run.kind, run.begins);
        debug_assert!(run.end > begins, "a run has sectors");
        if fua || self.settings.charging != Charging::Completions {
            return false;
        }
        let precedes = |issued: &&Issued| {
            issued.operation.op == op
                && issued.operation.extent.end() == begins
                && self.pending(issued.slot).request.volume == volume
        };
        self.issued.iter().find(precedes).is_some()
    }

    /// A request in the queue from `from` on that follows `run`, and the one before it: one that
    /// may go before those in front of it.
    fn follower(&self, from: Slot, run: &Run) -> Option<(Slot, Slot)> {
        debug_assert!(run.len <= MERGED_MAX, "merged commands are bounded");
        let (mut before, mut left) = (from, MERGE_CANDIDATES_MAX);
        loop {
            let (slot, operation) = self.pending(before).next_in_queue?;
            if run.takes(&operation) {
                return self.may_overtake(from, slot, &operation).then_some((before, slot));
            }
            (before, left) = (slot, left.checked_sub(1)?);
        }
    }

    /// Whether the request in `slot` may go before those from `from` on that precede it.
    fn may_overtake(&self, from: Slot, slot: Slot, operation: &Operation) -> bool {
        let mut at = from;
        debug_assert_ne!(from, slot, "others precede the request");
        while at != slot {
            let pending = self.pending(at);
            if conflicts(&pending.request.operation, operation) {
                return false;
            }
            at = pending.next_in_queue.expect("the request is in the queue").0;
        }
        true
    }

    /// Moves the request in `slot`, which follows the one in `before`, behind the one in `tail`.
    fn move_behind(&mut self, volume: VolumeId, tail: Slot, (before, slot): (Slot, Slot)) {
        assert_ne!(tail, before, "it is elsewhere in the queue");
        let operation = self.pending(slot).request.operation;
        let behind = self.pending(slot).next_in_queue;
        self.pending_mut(before).next_in_queue = behind;
        let link = self.pending_mut(tail).next_in_queue.replace((slot, operation));
        self.pending_mut(slot).next_in_queue = link;
        let entry = &mut self.volumes[volume.0 as usize];
        if behind.is_none() {
            debug_assert_eq!(entry.last, slot, "the last one has none behind it");
            entry.last = before;
        }
        debug_assert_ne!(entry.first, NO_SLOT, "the queue has a head");
    }

    /// Whether each part of `command`, which is in flight, is issued again on its own if it fails.
    ///
    /// # Panics
    /// If the command is not in flight.
    pub fn is_retried_in_parts(&self, command: &Command) -> bool {
        let issued = self.issued.iter().find(|issued| issued.id == command.id);
        self.is_retried(issued.expect("the command is in flight"))
    }

    pub(super) fn is_retried(&self, issued: &Issued) -> bool {
        debug_assert!(issued.covered > 0, "a command covers a request");
        issued.covered > 1 && issued.purpose == Purpose::Transfer && self.merges()
    }

    /// Whether the parts of a command that ended so are issued again.
    pub(super) fn is_retried_after(&self, issued: &Issued, outcome: Outcome) -> bool {
        debug_assert!(issued.covered > 0, "a command covers a request");
        outcome == Outcome::Failed && self.is_retried(issued)
    }

    /// Answers the requests that a completed command has ended, or enters its parts.
    pub(super) fn end_command(&mut self, issued: &Issued, is_retried: bool, now: Instant) {
        if is_retried {
            cold_path();
            self.retry_in_parts(issued);
        } else {
            self.reply_ended(issued, now);
        }
    }

    /// Enters the parts of a merged command that failed.
    fn retry_in_parts(&mut self, issued: &Issued) {
        let mut covered = Covered::of(issued);
        let mut rest = issued.operation.extent;
        while let Some((slot, offset, len)) = covered.next(self) {
            let (extent, left) = rest.split_at(len);
            rest = left;
            let operation = Operation { extent, ..issued.operation };
            self.pending_mut(slot).running += 1;
            self.retries.push_back(Retry { slot, offset, operation });
        }
        debug_assert!(rest.is_empty(), "the parts are the command");
        assert!(self.retries.len() <= self.requests(), "each is a request's");
    }

    /// Issues the next part that is issued again, when the drive is empty.
    pub(super) fn issue_retry(&mut self, now: Instant) -> Option<Command> {
        debug_assert!(!self.retries.is_empty(), "there is a part to issue");
        if !self.issued.is_empty() {
            return None;
        }
        let Retry { slot, offset, operation } = self.retries.pop_front()?;
        let id = self.next_command();
        let request = self.pending(slot).request;
        debug_assert!(self.pending(slot).running > 0, "its part is unanswered");
        self.meter.issued(id, &operation, now);
        let (purpose, awaits_flush) = (Purpose::Transfer, self.awaits_flush(slot, &operation));
        let one = Issued::of_one((id, slot), (operation, offset), purpose);
        let issued = Issued { awaits_flush, ..one };
        self.note_transfer(&issued, request.volume, now);
        self.issued.push(issued);
        let volume = request.volume;
        Some(Command { id, request: request.id, volume, operation, offset, purpose })
    }
}
