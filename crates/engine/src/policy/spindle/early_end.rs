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
//! that, so that it does not consist of flushes.
//!
//! They are for clients that write and flush, as databases do. One that only reads has 0.84 of its
//! worth beside sequential writes, and these have 0.86; with early ends 0.88 and 0.82.
//!
//! Without early ends 30 % of hgst-7k8 with four writes and a flush at a time and pauses of 1 ms
//! had 0.66 of its worth beside sequential writes; with them it has 0.84.

use units::{DiskTime, Instant};

use super::Spindle;
use crate::VolumeId;

/// The commands of a write that is ended early take at least this many times as long as the part of
/// a flush that does not depend on their number.
const WRITTEN_PARTS: i64 = 2;

impl Spindle {
    /// Whether the long write of `volume`, of which the drive has buffered a part, is ended early.
    pub(super) fn ends_early(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.holds.is_ended_early = false;
        let Some(quantum) = self.quantum_of(volume) else { return false };
        let commands = self.holds.commands + self.volumes[volume.0 as usize].running;
        let least = DiskTime::from_nanos(self.holds.times.flush().as_nanos() * WRITTEN_PARTS);
        if self.holds.times.written(commands) < least {
            return false;
        }
        debug_assert!(commands > 0, "the drive has buffered a part of it");
        self.release(now);
        let due = self.due_shallow(None, now);
        let ends = due.is_some_and(|other| {
            self.volumes[other.0 as usize].is_writer() && self.may_interrupt(quantum, other, now)
        });
        self.holds.is_ended_early = ends;
        ends
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
        let demand = &mut self.volume(volume).demand;
        demand.service = (demand.service - cost).max(DiskTime::ZERO);
        self.early_end += cost;
        own - cost + self.ledger.share_early_end(cost)
    }
}
