//! One flush for several forced writes of one volume.
//!
//! Where the FUA of a drive is not used ([`ForcedWrites`](crate::ForcedWrites)), a forced write
//! goes to the drive's own buffer, and is durable when a flush has followed. A flush after each
//! write would lose what the drive gains by the order in which it empties its buffer. So the forced
//! writes of one volume that follow each other are a *batch*, which one flush ends before another
//! volume is served:
//!
//! ```text
//! drive    │ A1 │ A2 │ A3 │ flush of A's │ B1 │ flush of B's │ …
//! replies                          A1 A2 A3            B1
//! ```
//!
//! A batch ends when the next command is another one than a forced write of its volume, when there
//! is none, or with [`FLUSH_BATCH_MAX`] commands. In pairs it ends with each write where the
//! chooser predicts positioning times: 64 writes that wait in the host have a better order than 32
//! in the buffer of a drive, of which it is not known where it leaves the heads. A write of a batch
//! is completed for the policy when the flush has: it is charged its own time and an equal part of
//! the flush's. So the policy learns what such a write costs, and a quantum ends by it.
//!
//! A request of several commands has a flush of its own ([`Engine::owes_flush`]). Beside guarantees
//! by deadlines there are no batches: the backend flushes after each forced write.
//!
//! Invariants:
//! - A request is answered when a flush that began after its last write has ended. If that failed,
//!   the request has.
//! - While a batch is open the drive has no command of another volume.

use core::hint::cold_path;

use units::{DiskTime, Instant, Op, Operation, Sectors};

use super::batch::Written;
use super::pending::Slot;
use super::{Engine, Issued};
use crate::limits::FLUSH_BATCH_MAX;
use crate::request::{Command, CommandId, Outcome};
use crate::{ForcedWrites, Purpose, VolumeId};

/// The part of `total` that falls to the write of this index, of `count`.
fn part(total: DiskTime, index: usize, count: usize) -> DiskTime {
    debug_assert!(index < count, "it is one of them");
    let count = i64::try_from(count).expect("a batch is bounded");
    let even = total.as_nanos() / count;
    // The first one has what is left by rounding down.
    let first = total.as_nanos() - even * (count - 1);
    DiskTime::from_nanos(if index == 0 { first } else { even })
}

impl Engine {
    /// Whether `operation`, the next command of the request in `slot`, is a write of a batch.
    pub(super) fn awaits_flush(&self, slot: Slot, operation: &Operation) -> bool {
        let pending = self.pending(slot);
        debug_assert!(!operation.fua || !pending.own_flush.is_owed(), "a flush stands for FUA");
        self.settings.forced_writes != ForcedWrites::Fua
            && operation.op == Op::Write
            && !operation.fua
            && pending.request.operation.fua
            && !pending.own_flush.is_owed()
    }

    /// A command of a request of `volume` goes to the drive: it joins a batch if it is to be
    /// flushed, and the chooser is told of it.
    pub(super) fn note_transfer(&mut self, issued: &Issued, volume: VolumeId, now: Instant) {
        if issued.awaits_flush {
            cold_path();
            self.join_batch(volume);
        }
        if self.chooser.is_none() {
            return;
        }
        cold_path();
        let told = self.told(issued);
        debug_assert_eq!(told.extent, issued.operation.extent, "it is the same transfer");
        if let Some(chooser) = &mut self.chooser {
            chooser.issued((issued.id, volume), &told, now);
        }
    }

    /// A write of a batch of `volume` goes to the drive.
    fn join_batch(&mut self, volume: VolumeId) {
        let before = self.batch.volume.replace(volume);
        assert!(before.is_none_or(|before| before == volume), "a batch is one volume's");
        if before.is_none() {
            let predicts = self.chooser.as_ref().is_some_and(|chooser| chooser.predicts());
            let in_pairs = self.settings.forced_writes == ForcedWrites::FlushedInPairs;
            self.batch.is_single = in_pairs && predicts;
        }
        assert!(!self.batch.is_ending(), "nothing goes beside the flush");
    }

    /// Whether the open batch, if there is one, is to end before the head of `volume` goes.
    pub(super) fn ends_batch(&self, volume: VolumeId) -> bool {
        let Some(own) = self.batch.volume else { return false };
        cold_path();
        debug_assert!(!self.batch.is_ending(), "nothing goes beside the flush");
        let slot = self.volumes[volume.0 as usize].first;
        let joins = own == volume && self.awaits_flush(slot, &self.next_piece(slot));
        let most = if self.batch.is_single { 1 } else { FLUSH_BATCH_MAX };
        !joins || self.batch.written() + self.issued.len() >= most
    }

    /// Issues the flush that ends the open batch, when all of its writes are in the drive's buffer.
    pub(super) fn issue_batch_flush(&mut self, now: Instant) -> Option<Command> {
        assert!(!self.batch.is_ending(), "one flush ends a batch");
        if !self.issued.is_empty() {
            return None;
        }
        let volume = self.batch.volume.expect("a batch is open");
        let slot = self.batch.written.last().expect("its writes are in the buffer").issued.slot;
        let (id, operation) = (self.next_command(), Operation::flush());
        self.batch.flush = Some(id);
        self.pending_mut(slot).running += 1;
        self.meter.issued(id, &operation, now);
        if let Some(chooser) = self.chooser.as_mut().filter(|_| !self.batch.is_single) {
            chooser.issued((id, volume), &operation, now);
        }
        let (offset, purpose) = (Sectors::ZERO, Purpose::Transfer);
        self.issued.push(Issued::of_one((id, slot), (operation, offset), purpose));
        let request = self.pending(slot).request.id;
        Some(Command { id, request, volume, operation, offset, purpose })
    }

    /// What the chooser is told of a command: a write and the flush that follows it at once are to
    /// it a forced write, whose positioning can be predicted.
    fn told(&self, issued: &Issued) -> Operation {
        debug_assert!(!issued.awaits_flush || self.batch.is_open(), "it has joined a batch");
        let is_pair = issued.awaits_flush && self.batch.is_single;
        if is_pair { issued.operation.with_fua() } else { issued.operation }
    }

    /// The command that has ended for the chooser now that this one has left the drive: `None` for
    /// a write whose flush follows at once.
    pub(super) fn ended_for_chooser(&self, issued: &Issued) -> Option<CommandId> {
        let is_flush = self.batch.flush == Some(issued.id);
        if !self.batch.is_single || !is_flush && !issued.awaits_flush {
            return Some(issued.id);
        }
        let write = self.batch.written.last().filter(|_| is_flush)?;
        debug_assert_eq!(self.batch.written.len(), 1, "the write and its flush");
        Some(write.issued.id)
    }

    /// A command has left the drive. Returns it if it ends now: a write of a batch ends with the
    /// flush.
    pub(super) fn hold_for_flush(
        &mut self,
        issued: Issued,
        took: DiskTime,
        outcome: Outcome,
        now: Instant,
    ) -> Option<Issued> {
        if self.batch.flush == Some(issued.id) {
            cold_path();
            self.end_batch(&issued, took, outcome, now);
            return None;
        }
        if !issued.awaits_flush {
            return Some(issued);
        }
        cold_path();
        debug_assert!(self.batch.is_open(), "it has joined a batch");
        self.batch.written.push(Written { issued, took, outcome });
        assert!(self.batch.written.len() <= FLUSH_BATCH_MAX, "a batch is bounded");
        None
    }

    /// The flush of the batch took `took`: its writes end.
    fn end_batch(&mut self, flush: &Issued, took: DiskTime, outcome: Outcome, now: Instant) {
        let mut batch = core::mem::take(&mut self.batch);
        debug_assert_eq!(flush.operation.op, Op::Flush, "a flush ends a batch");
        let running = &mut self.pending_mut(flush.slot).running;
        assert!(*running > 1, "the flush, and the write for which it is");
        *running -= 1;
        let (count, is_lost) = (batch.written.len(), outcome == Outcome::Failed);
        for (index, mut written) in batch.written.drain(..).enumerate() {
            if let Some(record) = &mut written.issued.record {
                record.holds = index + 1 < count;
            }
            let took = written.took + part(took, index, count);
            if is_lost {
                // The parts of a merged command have not failed on their own.
                self.settle((written.issued, false), took, Outcome::Failed, now);
            } else {
                let is_retried = self.is_retried_after(&written.issued, written.outcome);
                self.settle((written.issued, is_retried), took, written.outcome, now);
            }
        }
        (batch.volume, batch.flush) = (None, None);
        self.batch = batch;
    }
}
