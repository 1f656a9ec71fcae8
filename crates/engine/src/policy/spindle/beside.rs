//! What the commands of one volume in the drive cost the others that use it: how many go.
//!
//! A quantum drains for another deep volume at its end. A shallow volume, whose client waits for
//! each answer, is served at the first command boundary from when its bucket pays for its quantum.
//! So beside one the drive has one command at a time, but for those that are done before that.
//!
//! ```text
//! shallow   served ├──┤                              due ├──┤
//! deep                 │ several commands │ fewer │ one │
//! ```
//!
//! Where there are no quanta the places in the drive are divided ([`super::places`]).

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant, Operation, Share};

use super::places::Kept;
use super::quantum::Quantum;
use super::{SignedInstant, Spindle};
use crate::VolumeId;
use crate::limits::DEPTH_MAX;
use crate::policy::interface::Pick;

/// A shallow volume uses the disk for this long after it was served.
pub(super) const SHALLOW_ACTIVE_FOR: Duration = Duration::from_secs(1);

impl Spindle {
    /// Whether the drive takes no command beside those in it: a shallow volume uses the disk, and
    /// its client would wait for them.
    pub(super) fn keeps_to_one(&mut self, now: Instant) -> bool {
        let Some((shallow, at)) = self.last_shallow else { return false };
        cold_path();
        if now.since(at) > SHALLOW_ACTIVE_FOR {
            return false;
        }
        debug_assert!((shallow.0 as usize) < self.volumes.len(), "the volume exists");
        match self.quantum {
            Some(quantum) if quantum.volume == shallow => self.has_rival(shallow),
            Some(quantum) => !self.is_done_before(quantum, shallow, now),
            None => true,
        }
    }

    /// Whether the drive takes as many commands as it holds: no shallow volume uses the disk, nor
    /// one with a promise. To serve the nearest requests beside a shallow volume, whose quanta take
    /// the heads elsewhere, would leave the others for too long: 50 % of hgst-7k8 had 0.65 of its
    /// worth beside a client that pauses for 0.1 ms, and 0.76 with a sweep.
    pub(super) fn takes_several(&self, now: Instant) -> bool {
        let at = self.last_shallow.map(|(_, at)| at);
        debug_assert!(at.is_none_or(|at| at <= now), "it was served in the past");
        let is_beside = at.is_some_and(|at| now.since(at) <= SHALLOW_ACTIVE_FOR);
        self.queue_depth > 1 && self.guard.is_vacuous() && !is_beside
    }

    /// Whether one command more of `quantum`'s volume, and those in the drive, are done before
    /// `shallow`, or any other shallow volume, is due.
    fn is_done_before(&mut self, quantum: Quantum, shallow: VolumeId, now: Instant) -> bool {
        let unknown = self.estimates.random;
        let allowance = self.ledger.allowance(now);
        let entry = &self.volumes[shallow.0 as usize];
        let returns = entry.account.holds_with(entry.need(allowance, unknown), Share::NONE);
        let waits = self.shallow.first().map(|((at, _), _)| at);
        let Some(due) = returns.into_iter().chain(waits).min() else { return false };
        let entry = &self.volumes[quantum.volume.0 as usize];
        let inside = (entry.running + 1).min(DEPTH_MAX);
        let drain = u64::try_from(entry.drains.drain(inside, unknown).as_nanos()).unwrap_or(0);
        debug_assert_ne!(quantum.volume, shallow, "another volume's quantum");
        due >= SignedInstant::at(now + Duration::from_nanos(drain))
    }

    /// A quantum does not overlap other volumes' commands in the drive.
    pub(super) fn after_drain(&self, volume: VolumeId, running: usize) -> Pick {
        let own = self.volumes[volume.0 as usize].running as usize;
        debug_assert!(own <= running, "a volume's commands are in the drive");
        if self.positions() && running > own { Pick::Nothing } else { Pick::Volume(volume) }
    }

    /// Whether the places in the drive are divided: where there are no quanta.
    pub(super) fn divides(&self) -> bool {
        debug_assert!(self.queue_depth > 0, "a drive takes a command");
        self.queue_depth > 1 && !self.positions()
    }

    /// What `volume` keeps in a drive whose places are divided.
    pub(super) fn kept(&mut self, volume: VolumeId, now: Instant) -> Kept {
        debug_assert!(self.queue_depth > 1, "one command takes the drive");
        let entry = &mut self.volumes[volume.0 as usize];
        let account = &mut entry.account;
        let is_paid = !account.has_reserve() || account.reserve_level(now) > DiskTime::ZERO;
        Kept { requests: entry.outstanding(), inside: entry.running, is_paid }
    }

    /// A request of `volume` arrives, which is not counted yet.
    pub(super) fn note_arrival(&mut self, volume: VolumeId, asked: &Operation, now: Instant) {
        if !self.divides() || self.guard.has_promise(volume) {
            return;
        }
        cold_path();
        let before = self.kept(volume, now);
        let kept = Kept { requests: before.requests + 1, ..before };
        self.places.on_arrival(volume, (kept, asked.extent.len), now);
    }

    /// A command of `volume` has left the drive, and is charged.
    pub(super) fn leave_drive(&mut self, volume: VolumeId, now: Instant) {
        let own_part = self.ledger.own_part();
        let entry = self.volume(volume);
        assert!(entry.running > 0, "a completed command was dispatched");
        entry.update_quantum(own_part);
        entry.running -= 1;
        debug_assert!(now >= entry.last_completion, "completions are in order");
        entry.last_completion = now;
        if entry.outstanding() == 0 {
            entry.idle_level = entry.account.reserve_level(now);
            self.places.on_idle(volume, now);
        }
    }

    /// A command of `volume` leaves the drive, which had it for `time`.
    pub(super) fn note_time(&mut self, volume: VolumeId, time: Duration, now: Instant) {
        if !self.divides() || self.guard.has_promise(volume) {
            return;
        }
        cold_path();
        let kept = self.kept(volume, now);
        debug_assert!(kept.requests > 0, "it had a command in the drive");
        self.places.on_completion(volume, (kept, time), now);
    }
}
