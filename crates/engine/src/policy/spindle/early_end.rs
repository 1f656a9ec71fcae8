//! Long writes that are ended early: for a shallow volume, which would wait for their flush.
//!
//! A long write from a write buffer goes to the drive in commands that this buffers, and a flush
//! ends it. Until then no other volume is served. A shallow volume whose reserve pays for it waits
//! no longer than for a flush of what the drive has taken in by then: that goes at once, and the
//! rest of the write later.
//!
//! ```text
//! whole   │ 1 │ 2 │ 3 │ … │ 16 │       flush        │ shallow │
//! early   │ 1 │ 2 │ 3 │ flush │ shallow │ 4 │ … │ 16 │     flush      │
//!                   due ┘
//! ```
//!
//! Each flush costs about a revolution, whatever was written before it. For one that ends a write
//! early the volume that wrote is not charged that: all volumes pay a part of it, as they do of
//! positioning ([`super::switches`]), and the volume that was waited for pays the rest with its
//! switch. A write is ended early when its commands have taken [`WRITTEN_PARTS`] times as long as
//! that, so that it does not consist of flushes. While its volume is ahead of its reserve, and a
//! shallow volume uses the disk, it is ended after [`WRITTEN_PARTS_AHEAD`] times as long.
//!
//! Without early ends 30 % of hgst-7k8 with four writes and a flush at a time and pauses of 1 ms
//! had 0.66 of its worth beside sequential writes; with them it has 0.84.

use core::hint::cold_path;

use units::{DiskTime, Instant};

use super::Spindle;
use super::beside::SHALLOW_ACTIVE_FOR;
use crate::VolumeId;

/// The commands of a write that is ended early take at least this many times as long as the part of
/// a flush that does not depend on their number.
const WRITTEN_PARTS: i64 = 2;
/// The same of one that is ended before the shallow volume is due. The drive takes writes in twice
/// as fast as it writes: of 16 MiB it would be flushed for up to 45 ms when that volume comes. So
/// 30 % of hgst-7k8 with one write and a flush at a time and pauses of 30 ms had 0.62 of its worth,
/// while the writes beside it had 1.18 of theirs. With five times eight writes a flush with pauses
/// of 10 ms leave 0.84 to the writes beside them, with six 0.85.
const WRITTEN_PARTS_AHEAD: i64 = 6;
const _: () = assert!(WRITTEN_PARTS < WRITTEN_PARTS_AHEAD);

impl Spindle {
    /// Whether the long write of `volume`, of which the drive has buffered a part, is ended early.
    pub(super) fn ends_early(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.holds.is_ended_early = false;
        let Some(quantum) = self.quantum_of(volume) else { return false };
        let commands = self.holds.commands + self.volumes[volume.0 as usize].running;
        if commands == 0 {
            // A command that was in the drive before the write has ended last: what has passed of
            // the write counts as that one's hold, and the write goes on.
            return false;
        }
        let written = self.holds.times.written(commands);
        let flush = self.holds.times.flush().as_nanos();
        if written < DiskTime::from_nanos(flush * WRITTEN_PARTS) {
            return false;
        }
        debug_assert!(written >= DiskTime::ZERO, "a part of the write takes time: {written}");
        self.release(now);
        let due = self.due_shallow(None, now);
        let ends = due.is_some_and(|other| self.may_interrupt(quantum, other, now))
            || flush > 0
                && written >= DiskTime::from_nanos(flush * WRITTEN_PARTS_AHEAD)
                && self.is_ahead_of_shallow(volume, now);
        self.holds.is_ended_early = ends;
        ends
    }

    /// Whether `volume` has had more than its reserve, and a shallow volume with one uses the disk:
    /// it may come back at any time.
    fn is_ahead_of_shallow(&mut self, volume: VolumeId, now: Instant) -> bool {
        let Some((shallow, at)) = self.last_shallow else { return false };
        debug_assert!(at <= now, "it was served in the past");
        let uses = shallow != volume && now.since(at) <= SHALLOW_ACTIVE_FOR;
        uses && self.volumes[shallow.0 as usize].account.has_reserve()
            && self.volume(volume).account.reserve_level(now) < DiskTime::ZERO
    }

    /// What `volume` is charged of `own` without `cost`, which it cost to end its write early.
    pub(super) fn without_early_end(
        &mut self,
        volume: VolumeId,
        own: DiskTime,
        cost: DiskTime,
    ) -> DiskTime {
        let cost = cost.min(own);
        debug_assert!(cost >= DiskTime::ZERO, "an early end gives no disk time: {cost}");
        if cost == DiskTime::ZERO {
            return own;
        }
        cold_path();
        let demand = &mut self.volume(volume).demand;
        demand.service = (demand.service - cost).max(DiskTime::ZERO);
        self.early_end += cost;
        own - cost + self.ledger.share_early_end(cost)
    }
}
