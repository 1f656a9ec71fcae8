//! What the drive's read buffer holds: such a read needs no positioning, and leaves the arm where
//! it is. The contents are predicted; what a read's duration shows corrects the arm's position.

use units::{Instant, Op, Operation};

use super::{InDrive, Predictor};
use crate::preempt::hit_time_max;

impl Predictor {
    /// Whether the drive's read buffer serves a command that is issued now.
    pub(super) fn is_hit(&mut self, operation: &Operation, now: Instant) -> bool {
        let begins = now.max(self.free);
        let extent = operation.extent;
        if extent.is_empty() || extent.end().0 > self.profile.capacity().0 {
            return false;
        }
        let is_read = operation.op == Op::Read;
        let is_hit = is_read && self.segments.missing(&self.profile, extent, begins).is_none();
        if !is_hit && operation.op != Op::Trim {
            self.segments.stop_for(&self.profile, operation, begins);
        }
        is_hit
    }

    /// `command` has completed.
    pub(super) fn update_segments(&mut self, command: &InDrive, now: Instant) {
        let InDrive { operation: Operation { op, extent, .. }, is_hit, .. } = *command;
        if extent.is_empty() || extent.end().0 > self.profile.capacity().0 {
            return;
        }
        debug_assert!(!is_hit || op == Op::Read, "the buffer serves reads");
        if op.writes() {
            self.segments.written(extent);
        } else if op == Op::Read {
            self.segments.read(&self.profile, extent, is_hit, now);
        }
    }

    /// When a read that begins at `begins` has completed at the latest if the read buffer serves
    /// it. `None` where the arm's position is not known.
    pub(super) fn served_by(&self, read: &Operation, begins: Instant) -> Option<Instant> {
        debug_assert_eq!(read.op, Op::Read, "the buffer serves reads");
        let arm = self.then_at?;
        Some(begins + hit_time_max(&self.profile, &arm, read.extent))
    }

    /// A command has completed: its duration shows whether the read buffer served it, and so where
    /// the arm is.
    pub(super) fn correct_hit(&mut self, command: &mut InDrive, now: Instant) {
        if command.operation.op != Op::Read {
            return;
        }
        debug_assert!(command.issued <= now, "a command was issued in the past");
        debug_assert!(command.served_by.is_none() || command.is_hit, "the buffer should serve it");
        if command.served_by.is_some_and(|by| now > by) {
            command.is_hit = false;
            self.segments.stop_for(&self.profile, &command.operation, command.issued);
        } else if command.prediction.is_some_and(|prediction| now < prediction.soonest) {
            command.is_hit = true;
        }
    }
}
