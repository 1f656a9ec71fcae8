//! Reads in the rotational waits of other volumes' commands: freeblock scheduling (Lumb et al.,
//! OSDI 2000, FAST 2002).
//!
//! Before a command goes to the drive, the queues of volumes without a guarantee are searched for a
//! read that is done in the time in which the command would wait for its sector. It goes first. The
//! next decision is as it was, and looks again, with what is left of the wait.
//!
//! ```text
//! queue of A   │ a │            chosen: a, whose sector passes at T
//! queue of B   │ b │ c │ d │    c is read and the heads are at a's track before T: c, then a
//! ```
//!
//! A read is charged to its own volume, as any command. The volume whose command waits is charged
//! that much less, and is served as if it had waited.
//!
//! **What it may cost.** Predictions err: then the command loses a revolution. If too many of the
//! last commands behind such reads have lost one, there are none for [`PAUSE`] commands
//! ([`super::lent`]). The heads are to be on the target's track by the instant that held when the
//! first read of a row was chosen, so that a command is never put off twice.

use core::hint::cold_path;

use units::{DiskTime, Instant, Op, Operation, Sectors};

use super::lent::{FreeblockStats, PAUSE, Waiting};
use super::{Engine, Issued, NO_SLOT, Selection};
use crate::chooser::Candidate;
use crate::limits::{FREEBLOCK_CANDIDATES_MAX, FREEBLOCK_READ_MAX, FREEBLOCK_VOLUMES_MAX};
use crate::policy::{DispatchRecord, GuardedAs};
use crate::request::{Command, CommandId};
use crate::{Priority, VolumeId};

/// The best read so far: more sectors, then the earlier end.
#[derive(Clone, Copy, Debug)]
struct Found {
    key: (Sectors, core::cmp::Reverse<Instant>),
    volume: VolumeId,
    candidate: Candidate,
}

impl Engine {
    /// What freeblock scheduling has done; `None` if it is off.
    pub fn freeblock_stats(&self) -> Option<FreeblockStats> {
        let stats = self.freeblock.as_ref().map(|freeblock| freeblock.stats);
        debug_assert!(stats.is_none() || self.settings.freeblock, "it is on");
        stats
    }

    /// The service times of other volumes' reads in the rotational waits of `volume`'s commands:
    /// what it was charged less than without them.
    pub fn lent(&self, volume: VolumeId) -> DiskTime {
        let lent = self.freeblock.as_ref().and_then(|f| f.lent.get(volume.0 as usize));
        let total = lent.map_or(DiskTime::ZERO, |lent| lent.total);
        debug_assert!(total >= DiskTime::ZERO, "a sum of service times");
        total
    }

    /// Issues a read that is done in the rotational wait of the selected volume's command.
    pub(super) fn issue_freeblock(
        &mut self,
        selection: Selection,
        now: Instant,
    ) -> Option<Command> {
        let found = self.find_freeblock(selection, now)?;
        debug_assert_ne!(found.volume, selection.volume, "the wait is another volume's");
        debug_assert!(self.issued.len() < self.depth(), "the drive takes a command");
        let Found { volume, candidate: Candidate { before, slot }, .. } = found;
        if let Some(before) = before {
            self.make_head(volume, (before, slot));
            let head = self.next_piece(slot);
            self.policy.head_changed(volume, &head, now);
        }
        let read = self.next_piece(slot);
        debug_assert_eq!(read.op, Op::Read, "what changes data waits for its turn");
        let lent_to = Selection { volume, urgent: false };
        Some(self.issue_piece(lent_to, (read, 1), Some(selection.volume), now))
    }

    /// The read that fits best, if any, into the wait of the selected volume's command.
    fn find_freeblock(&mut self, selection: Selection, now: Instant) -> Option<Found> {
        let Selection { volume: lender, urgent } = selection;
        let freeblock = self.freeblock.as_deref()?;
        cold_path();
        let is_off =
            freeblock.pause > 0 || self.guarded || self.active.is_some() || self.batch.is_open();
        if is_off || !self.policy.lends_wait(lender, urgent) {
            return None;
        }
        let first = self.volumes[lender.0 as usize].first;
        if self.pending(first).own_flush.is_owed() {
            return None;
        }
        let (command, _) = self.gather(lender, first);
        let wait = self.chooser.as_deref()?.rotational_wait(&command, now)?;
        let (late_after, own) = (wait.late_after(), wait.arrive_by());
        debug_assert!(own < late_after, "a command is late after its sector has passed");
        let arrive_by = freeblock.waiting.map_or(own, |waiting| waiting.arrive_by.min(own));
        let (begin, count) = (freeblock.next, self.volumes.len());
        let mut left = FREEBLOCK_CANDIDATES_MAX;
        let mut found = None;
        for nth in 0..count.min(FREEBLOCK_VOLUMES_MAX) {
            let index = (begin + nth) % count;
            let volume = VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits"));
            if volume == lender || !self.may_borrow(volume, now) {
                continue;
            }
            self.search((volume, &command), arrive_by, (&mut found, &mut left), now);
            if left == 0 {
                break;
            }
        }
        let freeblock = self.freeblock.as_deref_mut()?;
        let looked = if count > FREEBLOCK_VOLUMES_MAX { FREEBLOCK_VOLUMES_MAX } else { 0 };
        freeblock.next = found.map_or(begin + looked, |found: Found| found.volume.0 as usize + 1);
        freeblock.next %= count;
        if found.is_some() {
            freeblock.waiting = Some(Waiting { slot: first, arrive_by, late_after });
        }
        found
    }

    /// Whether reads of `volume` may be carried out in the waits of others: it has no guarantee, a
    /// request, and is not at its limit.
    fn may_borrow(&mut self, volume: VolumeId, now: Instant) -> bool {
        let first = self.volumes[volume.0 as usize].first;
        let contract = &self.contracts[volume.0 as usize];
        let is_best_effort = contract.reserve.is_none() && !contract.has_deadlines();
        let is_normal = self.priorities[volume.0 as usize] == Priority::Normal;
        debug_assert!(!self.guarded, "no volume has a guarantee by deadlines");
        first != NO_SLOT
            && is_best_effort
            && is_normal
            && self.pending(first).issued == Sectors::ZERO
            && self.policy.is_eligible(volume, now)
    }

    /// Searches the queue of `volume` for a read that fits into the wait of `command`, up to the
    /// first request that is no read: none is overtaken that changes data.
    fn search(
        &self,
        (volume, command): (VolumeId, &Operation),
        arrive_by: Instant,
        (found, left): (&mut Option<Found>, &mut usize),
        now: Instant,
    ) {
        let Some(chooser) = self.chooser.as_deref() else { return };
        let Some(wait) = chooser.rotational_wait(command, now) else { return };
        let wait = wait.until(arrive_by);
        debug_assert!(wait.arrive_by() <= arrive_by, "a command is not put off twice");
        let first = self.volumes[volume.0 as usize].first;
        let mut operation = self.pending(first).request.operation;
        let mut candidate = Candidate { before: None, slot: first };
        while *left > 0 && operation.op == Op::Read {
            *left -= 1;
            let extent = operation.extent;
            let completes = Some(extent)
                .filter(|extent| extent.len <= FREEBLOCK_READ_MAX)
                .and_then(|extent| chooser.fits(&wait, candidate.slot, extent));
            if let Some(completes) = completes {
                let key = (extent.len, core::cmp::Reverse(completes));
                if found.is_none_or(|found| key > found.key) {
                    *found = Some(Found { key, volume, candidate });
                }
            }
            let Some((slot, next)) = self.pending(candidate.slot).next_in_queue else { break };
            candidate = Candidate { before: Some(candidate.slot), slot };
            operation = next;
        }
    }

    /// `issued` goes to the drive, in the wait of a command of `lender`, or as any other.
    pub(super) fn note_freeblock(&mut self, issued: &Issued, lender: Option<VolumeId>) {
        let Some(freeblock) = self.freeblock.as_deref_mut() else { return };
        cold_path();
        if let Some(lender) = lender {
            debug_assert_eq!(issued.operation.op, Op::Read, "reads alone are carried out there");
            debug_assert!((lender.0 as usize) < self.volumes.len(), "the lender exists");
            freeblock.stats.reads += 1;
            freeblock.stats.sectors += issued.operation.extent.len;
            return;
        }
        debug_assert!(freeblock.pause <= PAUSE, "a pause is bounded");
        freeblock.pause = freeblock.pause.saturating_sub(1);
        let waited = freeblock.waiting.take().filter(|waiting| waiting.slot == issued.slot);
        if let Some(waiting) = waited {
            freeblock.watched = Some((issued.id, waiting.late_after));
        }
    }

    /// Charges the service time `took` of a command of `volume`. Returns what the volume pays.
    pub(super) fn charge(
        &mut self,
        (id, volume): (CommandId, VolumeId),
        record: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        let Some(freeblock) = self.freeblock.as_deref_mut() else {
            return self.policy.completed(volume, record, took, now);
        };
        cold_path();
        if let Some(lender) = record.lender {
            freeblock.stats.disk_time += took;
            if lender != volume {
                let lent = freeblock.lent(lender);
                lent.total += took;
                lent.uncounted += took;
            }
            self.policy.completed_freeblock(volume, took, now);
            return took;
        }
        if let Some((_, late_after)) = freeblock.watched.take_if(|(watched, _)| *watched == id) {
            freeblock.record_outcome(now > late_after);
        }
        let counts = record.guarded == GuardedAs::Nothing && self.policy.counts_lent(volume);
        let lent = freeblock.lent(volume);
        let counted = if counts { core::mem::take(&mut lent.uncounted) } else { DiskTime::ZERO };
        let charge = self.policy.completed(volume, record, took + counted, now);
        // Shared costs that were paid too much may make the charge less than that.
        lent.credit += counted;
        let part = lent.credit.min(charge);
        lent.credit -= part;
        debug_assert!(part <= charge, "a charge is not negative");
        debug_assert!(lent.credit >= DiskTime::ZERO, "no more is taken off than was counted");
        charge - part
    }

    /// What volumes will be charged less for what was carried out in their waits.
    pub(super) fn credit(&self) -> DiskTime {
        let lent = self.freeblock.iter().flat_map(|freeblock| &freeblock.lent);
        let credit = lent.map(|lent| lent.credit).sum();
        debug_assert!(credit >= DiskTime::ZERO, "a charge is not less by more than was counted");
        credit
    }

    /// `volume` is removed: what is carried out in its waits is no volume's to count.
    pub(super) fn forget_lender(&mut self, volume: VolumeId) {
        let Some(freeblock) = self.freeblock.as_deref_mut() else { return };
        let lent = core::mem::take(freeblock.lent(volume));
        debug_assert!(lent.credit >= DiskTime::ZERO, "as counted");
        self.removed_volumes_charged -= lent.credit;
        for issued in &mut self.issued {
            let own = self.pending[issued.slot as usize].as_ref();
            let own = own.expect("a request in the drive is pending").request.volume;
            if let Some(record) = issued.record.as_mut().filter(|r| r.lender == Some(volume)) {
                record.lender = Some(own);
            }
        }
    }
}
