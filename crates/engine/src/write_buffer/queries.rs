//! What the write buffers of a disk hold, and what they have done.

use units::{Extent, Instant, Op, Sectors};

use super::WriteBuffer;
use super::interface::{BufferedPart, Buffering, WriteBufferUsage};
use super::parts::Part;
use super::volume::{DriveFlush, Volume};
use crate::VolumeId;
use crate::limits::DEFER_AFTER;
use crate::request::Request;

impl WriteBuffer {
    /// Whether a request that goes past the buffer has to be forced. A write is: no flush of its
    /// volume then waits for the drive's own buffer, and the drive does not write it in another
    /// volume's time. It need not be if all flushes of its volume go to the drive, and no other
    /// volume has used the disk for a while or has deadlines there.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn forces(&self, request: &Request, now: Instant) -> bool {
        let there = self.volumes.get(request.volume.0 as usize).and_then(Option::as_ref);
        let there = there.expect("the volume was added");
        if !matches!(request.operation.op, Op::Write | Op::WriteZeroes) {
            return false;
        }
        let may_defer =
            there.flushes == DriveFlush::Always && there.buffering == Buffering::HostAndDrive;
        !may_defer || !self.has_no_client(now)
    }

    /// Whether no volume whose flushes do not all go to the drive has used the disk for a while,
    /// has anything buffered, or has deadlines.
    fn has_no_client(&self, now: Instant) -> bool {
        debug_assert!(self.client_at.is_none_or(|at| at <= now), "requests are of the past");
        let is_away = self.client_at.is_none_or(|at| at + DEFER_AFTER <= now);
        let volumes = || self.volumes.iter().flatten();
        is_away
            && self.used == Sectors::ZERO
            && volumes().all(|one| one.buffering != Buffering::Off)
    }

    /// The memory in use.
    pub fn used(&self) -> Sectors {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        self.used
    }

    /// What was done for a volume so far.
    pub fn usage(&self, volume: VolumeId) -> WriteBufferUsage {
        let there = self.volumes.get(volume.0 as usize).and_then(Option::as_ref);
        there.map_or_else(WriteBufferUsage::default, |there| there.usage)
    }

    /// What was done for all volumes so far, removed ones included.
    pub fn total(&self) -> WriteBufferUsage {
        let present = self.volumes.iter().flatten().map(|there| there.usage);
        let total = present.fold(self.removed, |sum, usage| sum + usage);
        debug_assert_eq!(total.used, self.used, "the memory is the volumes'");
        total
    }

    /// The memory of all volumes.
    pub fn memory(&self) -> Sectors {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        self.settings.memory
    }

    /// Whether the driver is to act on what a destage of this volume fails to write.
    pub fn reports_losses(&self, volume: VolumeId) -> bool {
        let there = self.volumes.get(volume.0 as usize).and_then(Option::as_ref);
        there.is_some_and(|there| there.reports_losses)
    }

    /// Whether nothing of a volume is buffered, in the engine, or waiting.
    pub fn is_empty(&self, volume: VolumeId) -> bool {
        let there = self.volumes.get(volume.0 as usize).and_then(Option::as_ref);
        there.is_none_or(Volume::is_empty)
    }

    /// Whether any volume has buffered some of these sectors.
    pub fn is_dirty(&self, extent: Extent) -> bool {
        debug_assert!(!extent.is_empty(), "a sector is asked for");
        self.volumes.iter().flatten().any(|there| there.is_dirty(extent))
    }

    /// Whether nothing is buffered, in the engine, or waiting.
    pub fn is_clean(&self) -> bool {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        self.volumes.iter().flatten().all(Volume::is_empty)
    }

    /// What the buffer holds of an extent of a volume, in order: the parts that a read copies, or
    /// the whole of a destage that [`Self::poll`] has just returned.
    pub fn parts(&self, volume: VolumeId, extent: Extent) -> impl Iterator<Item = BufferedPart> {
        let there = self.volumes.get(volume.0 as usize).and_then(Option::as_ref);
        let parts = there.into_iter().flat_map(move |there| there.parts.within(extent));
        parts.map(|Part { piece, offset, extent, .. }| BufferedPart { piece, offset, extent })
    }

    /// What all volumes' buffers hold, volume by volume.
    pub fn held(&self) -> impl Iterator<Item = BufferedPart> {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        let parts = self.volumes.iter().flatten().flat_map(|there| there.parts.from(0));
        parts.map(|part| {
            let Part { piece, offset, extent, .. } = *part;
            BufferedPart { piece, offset, extent }
        })
    }
}
