//! Resynchronisation: blocks whose copies differ, or may, are made equal, a few at a time.
//!
//! What is to be done is not stored here: the pool knows which copies are stale, unreadable or
//! unsynced. A pass goes over all mirrors; one that found nothing, or only what cannot be mended
//! now, is followed by the next when a disk has come back or another copy fell behind.

use crate::location::DiskId;
use crate::pool::flow::change::PendingChange;
use crate::pool::flow::core::Flow;
use crate::pool::flow::resync::RESYNCS_MAX;
use crate::pool::flow::run_mirrors::RETRIES_MAX;
use crate::pool::flow::values::{ChangeOutcome, ResyncProgress};
use crate::pool::limits::RESYNC_BLOCKS_MAX;
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Operation;
use crate::pool::state::block_set::BlockSet;

impl Flow {
    /// Pauses or resumes resynchronisation. Operations in progress end.
    pub fn pause_resync(&mut self, paused: bool) {
        self.resync_paused = paused;
        self.wake_resync();
    }

    /// What is to be made equal, and what was.
    pub fn resync(&self) -> ResyncProgress {
        let state = self.pool.state();
        let stale = |disk| state.stale(disk).map_or(0, BlockSet::blocks);
        let (live, out) =
            state.disks().map(|(disk, _)| disk).partition::<Vec<_>, _>(|disk| state.is_in(*disk));
        ResyncProgress {
            done: self.resync.done,
            stale: live.into_iter().map(stale).sum(),
            stale_out: out.into_iter().map(stale).sum(),
            is_running: self.resync.running > 0,
            is_stuck: self.resync.resting && self.resync.failures > 0,
        }
    }

    /// Some copies may be behind, or a disk has come back: a pass is made.
    pub fn wake_resync(&mut self) {
        self.resync.wake();
        self.dirty = true;
    }

    /// Starts operations that make copies equal, up to the limit. Returns whether any was started.
    pub(crate) fn issue_resyncs(&mut self) -> bool {
        if self.resync.epoch != self.pool.redundancy.epoch {
            self.resync.epoch = self.pool.redundancy.epoch;
            self.resync.wake();
        }
        let idle = self.resync_paused || self.resync.resting || self.pool.is_poisoned();
        if idle || !self.pool.failing().is_empty() || !self.pool.missing().is_empty() {
            return false;
        }
        if self.resync.cursor.is_none() && !self.pool.has_unequal() {
            self.resync.resting = self.resync.running == 0;
            return false;
        }
        let mut progressed = false;
        while self.resync.running < RESYNCS_MAX {
            let Some((volume, first)) = self.next_unequal() else {
                if self.resync.running == 0 {
                    progressed |= self.finish_resync_pass();
                }
                break;
            };
            let count = self.pool.resync_count(volume, first);
            assert!(self.resync.running < RESYNCS_MAX, "operations are within their limit");
            assert!(count.0 > 0, "the block is within its volume");
            self.resync.cursor = Some((volume, VolumeBlock(first.0 + count.0)));
            self.resync.running += 1;
            progressed = true;
            let id = self.number_change();
            let operation = Operation::Resync { volume, first, count };
            self.changes.insert(id, PendingChange::of_resync(operation));
        }
        progressed
    }

    /// The next blocks of this pass.
    fn next_unequal(&self) -> Option<(PoolVolumeId, VolumeBlock)> {
        let start = (PoolVolumeId(0), VolumeBlock(0));
        let (from, block) = self.resync.cursor.unwrap_or(start);
        debug_assert!(self.pool.missing().is_empty(), "an incomplete pool is not written");
        let volumes = self.pool.state().volumes.range(from..).map(|(id, _)| *id);
        volumes.into_iter().find_map(|id| {
            let block = if id == from { block } else { VolumeBlock(0) };
            Some((id, self.pool.next_unequal(id, block)?))
        })
    }

    /// Ends a pass. Returns whether something follows at once.
    fn finish_resync_pass(&mut self) -> bool {
        assert_eq!(self.resync.running, 0, "a pass ends with its last operation");
        let began = self.resync.cursor.take().is_some();
        assert!(self.resync.cursor.is_none(), "the next pass begins at the front");
        if self.resync.failures > 0 {
            self.resync.tries += 1;
            self.resync.resting = self.resync.tries > RETRIES_MAX;
            self.resync.failures = usize::from(self.resync.resting);
            return !self.resync.resting;
        }
        if began {
            // Copies may have fallen behind where the pass had been.
            return true;
        }
        // No mirror has the stale blocks that are left.
        let garbage =
            |disk: &DiskId| self.pool.is_live(*disk) && self.pool.state().stale(*disk).is_some();
        let disks: Vec<DiskId> = self.pool.state().disks_in().filter(garbage).collect();
        self.resync.resting = true;
        for disk in &disks {
            let id = self.number_change();
            let operation = Operation::ForgetStale { disk: *disk };
            self.changes.insert(id, PendingChange::of_resync(operation));
        }
        !disks.is_empty()
    }

    /// An operation that makes copies equal has ended.
    pub(crate) fn on_resync_done(&mut self, end: &ChangeOutcome) {
        assert!(self.resync.running > 0, "one was in progress");
        self.resync.running -= 1;
        assert!(self.resync.running < RESYNCS_MAX, "operations are within their limit");
        match end {
            ChangeOutcome::Done => self.resync.done += u64::from(RESYNC_BLOCKS_MAX),
            ChangeOutcome::Refused(_) | ChangeOutcome::Failed(_) => self.resync.failures += 1,
        }
    }

    /// Whether blocks are still to be made equal.
    pub(crate) fn is_unequal(
        &self,
        volume: PoolVolumeId,
        first: VolumeBlock,
        count: Blocks,
    ) -> bool {
        assert!(count.0 > 0, "blocks are asked about");
        let next = self.pool.next_unequal(volume, first);
        next.is_some_and(|next| next.0 < first.0 + count.0)
    }
}
