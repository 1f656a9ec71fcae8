//! A world whose hosts buffer writes: what its disks carry out, what they fail, and what becomes of
//! the memory.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{ChargeTo, Fault, Work};
use units::Extent;

use crate::buffers::{Ended, Owner, Sent};
use crate::model::Cell;
use crate::scrub::digest;
use crate::world::{Contents, PROBE, World, device, probes, stamp_of};

impl World {
    /// Whose the writes are that are charged to this account.
    pub(crate) fn owner(&self, payer: ChargeTo) -> Owner {
        let ChargeTo::Volume(volume) = payer else { return Owner::Single };
        let found = self.flow.pool().state().volume(volume);
        match found.is_some_and(|one| one.layout.is_mirror()) {
            true => Owner::Mirror,
            false if self.has_faults => Owner::Fragile,
            false => Owner::Single,
        }
    }

    /// A host learns that a device is there again.
    pub(crate) fn learn(&mut self, device: usize) {
        if !self.dead.contains(&device) {
            self.buffers[device].set_offline(false);
        }
    }

    /// One disk does something, or a piece ends.
    pub(crate) fn step_buffered(&mut self) -> bool {
        let count = self.buffers.len();
        let first = self.below(count);
        for device in (first..count).chain(0..first) {
            if let Some(ended) = self.buffers[device].take_ended(&mut self.rng) {
                self.end_piece(ended);
                return true;
            }
            if self.step_disk(device) {
                return true;
            }
        }
        false
    }

    fn end_piece(&mut self, Ended { piece, seen, is_done }: Ended) {
        let place = self.running.iter().position(|one| one.piece.id == piece);
        let one = self.running.swap_remove(place.expect("a piece ends once"));
        let is_store = matches!(one.piece.work, Work::Store { .. });
        self.moved += u64::from(is_store && one.piece.payer == ChargeTo::Relocation);
        self.resynced += u64::from(is_store && one.piece.payer == ChargeTo::Rebuild);
        if let (Work::Verify { extent, .. }, Some(seen)) = (&one.piece.work, &seen) {
            let seen = seen.iter().map(|(at, bytes)| (at - extent.start.0, bytes.clone()));
            self.digests.insert(piece, digest(&seen.collect()));
        }
        self.deliver(&one.piece.work, seen);
        self.report(&one.piece, if is_done { Ok(()) } else { Err(Fault::Disk) });
        if let Work::Load { copy, .. } = one.piece.work
            && !self.flow.keeps(copy)
        {
            self.copies.remove(&copy);
        }
        self.listen();
    }

    /// A disk carries a command out or fails it. Returns whether there was something.
    fn step_disk(&mut self, device: usize) -> bool {
        self.learn(device);
        let Some(sent) = self.buffers[device].take_sent(&mut self.rng) else {
            return self.buffers[device].is_busy();
        };
        let is_dead = self.dead.contains(&device);
        let (fails, is_lost) = match &sent {
            Sent::Piece(id) => {
                let at = self.running.iter().position(|one| one.piece.id.0 == *id);
                let fails = is_dead || self.is_unreadable(at.expect("it has not ended"));
                (fails, fails)
            }
            Sent::Destage(destage, _) => {
                let fails = is_dead || self.refusing.remove(&device);
                self.mend(device, destage.operation.extent);
                (fails, is_dead || fails && self.rng.below(2) == 0)
            }
        };
        self.buffers[device].set_offline(is_dead);
        let written = match &sent {
            Sent::Piece(id) if !fails => self.running.iter().position(|one| one.piece.id.0 == *id),
            _ => None,
        };
        if let Some(at) = written {
            self.crash_at_metadata(at);
        }
        let disk = &mut self.disks[device];
        self.buffers[device].perform(sent, (disk, fails, is_lost), &mut self.rng);
        if let Some(at) = written {
            self.crash_at_metadata(at);
        }
        self.report_losses(device);
        true
    }

    /// What a device has lost of what the host had answered is reported before anything that it
    /// has done since.
    fn report_losses(&mut self, at: usize) {
        for (volume, contents) in self.buffers[at].take_losses() {
            for bytes in contents.values().filter(|_| !self.is_strict) {
                let probe = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
                let cells = self.volumes.get_mut(&volume);
                let cell = cells.and_then(|cells| cells.get_mut(usize::try_from(probe).unwrap()));
                cell.into_iter().for_each(Cell::lose);
            }
            self.lost += 1;
            if let Some(disk) = self.number_of(at) {
                self.flow.lose(disk, volume);
                self.listen();
            }
        }
    }

    /// The number of a device in the pool.
    fn number_of(&self, at: usize) -> Option<DiskId> {
        let state = self.flow.pool().state();
        state.disks().map(|(id, _)| id).find(|id| device(state, *id) == Some(at))
    }

    /// The hosts notice which devices are gone.
    pub(crate) fn notice_dead(&mut self) {
        for at in self.dead.clone() {
            if let Some(disk) = self.number_of(at) {
                self.flow.fail(disk);
                self.listen();
            }
        }
    }

    /// A read has ended, and saw this.
    fn deliver(&mut self, work: &Work, seen: Option<Contents>) {
        let Some(seen) = seen else { return };
        match work {
            Work::Request { request, extent, at, .. } => {
                let asked = self.asked.get_mut(request).expect("it waits for its pieces");
                let start = asked.operation.extent.start + *at;
                for probe in probes(Extent::new(start, extent.len)) {
                    let at = probe * PROBE - start.0 + extent.start.0;
                    let bytes = seen.get(&at).map_or([0; 512], |bytes| **bytes);
                    asked.read.insert(probe, stamp_of(&bytes, probe));
                }
            }
            Work::Load { copy, extent } => {
                let contents = seen.into_iter().map(|(at, bytes)| (at - extent.start.0, bytes));
                self.copies.insert(*copy, (*extent, contents.collect()));
            }
            Work::Verify { .. } => {}
            _ => unreachable!("nothing else reads"),
        }
    }
}
