//! Reads that are carried out in the rotational waits of another volume's commands.
//!
//! The volume whose command waits is served as if it had waited: its bucket, its recent usage and
//! its quantum count the time of the read as theirs ([`Policy::completed`] is told of it). So the
//! order of volumes is the one without such reads. The volume that is read for has no reserve: the
//! time counts for its limit, and for nothing else that decides.
//!
//! [`Policy::completed`]: crate::policy::Policy::completed

use units::{DiskTime, Instant};

use super::{Spindle, State};
use crate::VolumeId;
use crate::policy::interface::{Dispatch, DispatchRecord};

impl Spindle {
    /// Whether the next command of `volume` is one inside its quantum: its positioning is its own.
    pub(super) fn may_lend(&self, volume: VolumeId, urgent: bool) -> bool {
        let is_current = self.quantum_of(volume).is_some();
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        let is_plain = self.positions() && self.guard.is_vacuous();
        is_plain && (is_current || urgent) && self.is_unswitched(volume)
    }

    /// Whether no command of `volume` bears the cost of a switch.
    pub(super) fn is_unswitched(&self, volume: VolumeId) -> bool {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.switch.is_none_or(|switch| switch.to != volume)
    }

    pub(super) fn dispatch_freeblock(
        &mut self,
        dispatch: Dispatch<'_>,
        now: Instant,
    ) -> DispatchRecord {
        let Dispatch { volume, command, ended, next, .. } = dispatch;
        if let Some(quantum) = &mut self.quantum {
            quantum.lingering = false;
        }
        let entry = self.volume(volume);
        assert!(!entry.account.has_reserve(), "it is best effort");
        assert_ne!(entry.account.state(), State::Empty, "a dispatched volume has a head");
        entry.enter_drive();
        entry.queued -= ended;
        entry.note_command(command, next);
        entry.head = next.copied();
        if next.is_none() {
            entry.account.set_empty();
        }
        self.in_drive += 1;
        self.place(volume, now);
        DispatchRecord { at: now, ..DispatchRecord::new(DiskTime::ZERO, true) }
    }

    pub(super) fn complete_freeblock(&mut self, volume: VolumeId, took: DiskTime, now: Instant) {
        assert!(self.in_drive > 0, "a completed command was dispatched");
        self.in_drive -= 1;
        let entry = self.volume(volume);
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        debug_assert!(entry.running > 0, "it is in the drive");
        entry.demand.service += took;
        entry.account.take_of_limit(took, now);
        self.leave_drive(volume, now);
        self.place(volume, now);
    }
}
