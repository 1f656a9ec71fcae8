//! Free prefetching (FAST 2003 §3.2): reads in rotational waits, of what a volume reads next.
//!
//! While the heads are still behind a volume's last read, and a command waits for its sector
//! elsewhere, the disk reads on in short commands that end before the wait does:
//!
//! - the volume's next read, if it is queued and begins there: it is served out of order;
//! - else what the driver's [`ReadAhead`](crate::ReadAhead) offers for it, into the host's memory.
//!
//! The volume that is read for is charged, not the one whose command waits.

use units::{Extent, Instant, Lba, Op, Operation};

use super::pending::Slot;
use super::{Engine, Issued, NO_SLOT, Selection};
use crate::request::Command;
use crate::{Purpose, VolumeId};

impl Engine {
    /// `volume` would have `extent` prefetched; `None`: nothing.
    pub(super) fn offer_prefetch(&mut self, volume: VolumeId, extent: Option<Extent>) {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        debug_assert!(!self.vacant.contains(&volume), "it has not been removed");
        if let Some(executor) = &mut self.executor {
            executor.offer(volume, extent);
        }
    }

    /// Reads on in the rotational wait of the request in `slot`, which ends at `until`, if there is
    /// what fits into it: the volume's own next read, or what it would have prefetched. A volume at
    /// its limit does not gain.
    pub(super) fn read_in_wait(
        &mut self,
        (waits, slot): (VolumeId, Slot),
        until: Instant,
        now: Instant,
    ) -> Option<Command> {
        let executor = self.executor.as_deref()?;
        let (from, reader) = executor.reads_on()?;
        debug_assert_eq!(self.pending(slot).request.volume, waits, "a head is its volume's");
        if executor.reads_for_the_host()
            && (executor.drive_reads_on(until) || !self.policy.is_eligible(reader, now))
        {
            return None;
        }
        if let Some(read) = self.next_read(reader, from).filter(|_| reader != waits) {
            return self.read_for(reader, read, until, now);
        }
        let executor = self.executor.as_deref_mut()?;
        let (extent, volume) = executor.prefetch((from, reader))?;
        if !executor.fits(extent, now, until) {
            return None;
        }
        if let Some(volume) = volume {
            executor.take_offer(volume, extent);
        }
        let purpose = (Purpose::Prefetch, volume);
        Some(self.issue_auxiliary(slot, Operation::read(extent), purpose, now))
    }

    /// The next command of a volume's queue, if it is a read that begins at `from`.
    fn next_read(&self, volume: VolumeId, from: Lba) -> Option<Operation> {
        let first = self.volumes[volume.0 as usize].first;
        if first == NO_SLOT || !self.executor.as_deref()?.reads_for_the_host() {
            return None;
        }
        let piece = self.next_piece(first);
        debug_assert!(!self.guarded, "no wait is used beside deadlines");
        (piece.op == Op::Read && !piece.fua && piece.extent.start == from).then_some(piece)
    }

    /// Issues the next read of `volume` out of order, if it fits into the wait.
    fn read_for(
        &mut self,
        volume: VolumeId,
        read: Operation,
        until: Instant,
        now: Instant,
    ) -> Option<Command> {
        let holds = self.active.is_some_and(|active| self.is_non_preemptible(active.slot));
        let fits = self.executor.as_deref()?.fits(read.extent, now, until);
        if holds || !fits {
            return None;
        }
        let waits = self.active;
        let out_of_order = Selection { volume, urgent: true };
        let command = self.issue_piece(out_of_order, (read, 1), None, now);
        // The disk is still held for the request that waits.
        self.active = waits;
        debug_assert_eq!(command.operation, read, "its next command");
        Some(command)
    }

    /// The volume that a command in the drive is charged to.
    pub(super) fn charged_volume(&self, issued: &Issued) -> VolumeId {
        let own = self.pending(issued.slot).request.volume;
        debug_assert!(
            issued.gains.is_none() || issued.purpose == Purpose::Prefetch,
            "a volume gains by what is prefetched for it"
        );
        issued.gains.unwrap_or(own)
    }

    /// `volume` is removed: what is being prefetched for it is charged to the volume whose request
    /// waits.
    pub(super) fn forget_prefetches(&mut self, volume: VolumeId) {
        for issued in &mut self.issued {
            issued.gains.take_if(|gains| *gains == volume);
        }
        if let Some(executor) = &mut self.executor {
            executor.offer(volume, None);
        }
        debug_assert!(self.issued.iter().all(|i| i.gains != Some(volume)), "nothing is left");
    }
}
