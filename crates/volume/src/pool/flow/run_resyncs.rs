//! Resynchronisation: blocks whose copies differ, or may, are made equal, a few at a time.
//!
//! What is to be done is not stored here: the pool knows which copies are stale, unreadable or
//! unsynced. A pass goes over all mirrors twice: first for blocks of which one whole copy is left
//! at most, then for all others. It begins again when a disk is lost. One that found nothing, or
//! only what cannot be mended now, is followed by the next when a disk has come back or another
//! copy fell behind.
//!
//! An operation copies all of its blocks, then flushes the disks that it wrote to, once, and then
//! one record says that they are equal. Writes to its blocks wait meanwhile. The first that waits
//! ends an operation that is not short: nothing of it is recorded, and the next few are short.
//! After one that failed its blocks are made equal one by one.

use crate::location::DiskId;
use crate::pool::flow::change::{PendingChange, Stage};
use crate::pool::flow::core::Flow;
use crate::pool::flow::request::blocks;
use crate::pool::flow::resync::{RESYNC_SHORTS_MAX, RESYNCS_MAX, ResyncStage};
use crate::pool::flow::run_mirrors::RETRIES_MAX;
use crate::pool::flow::values::{ChangeId, ChangeOutcome, ResyncProgress};
use crate::pool::limits::{RESYNC_BLOCKS_MAX, RESYNC_SHORT_BLOCKS};
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::{Lock, Operation};
use crate::pool::operation::machine::Failure;
use crate::pool::state::block_set::BlockSet;

impl Flow {
    /// Pauses or resumes resynchronisation. Operations in progress end.
    pub fn pause_resync(&mut self, paused: bool) {
        self.resync_paused = paused;
        self.wake_resync();
        if paused {
            let resyncs = self.changes.iter().filter(|(_, change)| change.is_resync());
            let resyncs: Vec<ChangeId> = resyncs.map(|(id, _)| *id).collect();
            for id in resyncs {
                self.end_early(id);
            }
        }
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
            self.resync.begins_again = true;
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
        if self.resync.begins_again {
            if self.resync.running > 0 {
                return false;
            }
            self.resync.begins_again = false;
            self.begin_stage(ResyncStage::Endangered);
        }
        let mut progressed = false;
        while self.resync.running < RESYNCS_MAX {
            let Some((volume, first)) = self.next_unequal() else {
                if self.resync.running > 0 {
                    break;
                }
                if self.resync.stage == ResyncStage::Endangered {
                    self.begin_stage(ResyncStage::Rest);
                    continue;
                }
                progressed |= self.finish_resync_pass();
                break;
            };
            let longest = self.resync.blocks_max(volume, first);
            let count = self.pool.resync_count(volume, first, longest);
            self.resync.short = self.resync.short.saturating_sub(1);
            assert!(self.resync.running < RESYNCS_MAX, "operations are within their limit");
            assert!(count.0 > 0, "the block is within its volume");
            self.resync.pass(volume, VolumeBlock(first.0 + count.0));
            self.resync.running += 1;
            progressed = true;
            let id = self.number_change();
            let operation = Operation::Resync { volume, first, count };
            self.changes.insert(id, PendingChange::internal(operation));
        }
        progressed
    }

    /// Ends operations for which a write or an operator's change waits, unless they are short.
    /// Returns whether any was ended.
    pub(crate) fn yield_resyncs(&mut self) -> bool {
        if self.resync.running == 0 || (self.held.is_empty() && !self.has_waiting_change()) {
            return false;
        }
        let resyncs = self.changes.iter().filter(|(_, change)| change.is_resync());
        let resyncs = resyncs.filter(|(_, change)| self.is_waited_for(&change.locks));
        let resyncs: Vec<ChangeId> = resyncs.map(|(id, _)| *id).collect();
        assert!(self.resync.running <= RESYNCS_MAX, "operations are within their limit");
        let mut ended = false;
        for id in resyncs {
            self.resync.short = RESYNC_SHORTS_MAX;
            ended |= self.end_early(id);
        }
        ended
    }

    fn has_waiting_change(&self) -> bool {
        let waits = |change: &PendingChange| !change.has_quiesced() && change.is_asked_for();
        self.changes.values().any(waits)
    }

    /// Whether a request that writes or an operator's change waits for blocks with these locks.
    fn is_waited_for(&self, locks: &[Lock]) -> bool {
        debug_assert!(self.resync.running > 0, "copies are made equal");
        let conflicts = |wanted: &Lock| locks.iter().any(|lock| lock.conflicts_with(wanted));
        let held = self.held.values().map(|id| &self.requests[id]);
        let mut writes = held.filter(|request| request.operation.op.writes());
        let is_held = writes.any(|request| {
            let over = request.blocks.clone().unwrap_or_else(|| blocks(request.part()));
            let group = self.pool.state().group_of(request.volume);
            conflicts(&Lock::Blocks(group, over))
        });
        let is_waiting = |one: &&PendingChange| !one.has_quiesced() && one.is_asked_for();
        let waiting = self.changes.values().filter(is_waiting);
        is_held || waiting.flat_map(|change| &change.locks).any(conflicts)
    }

    /// Ends an operation that is not short before all of it is copied. Nothing of it is recorded:
    /// it is copied again. Returns whether it was ended.
    fn end_early(&mut self, id: ChangeId) -> bool {
        let PendingChange { operation, stage, .. } = &self.changes[&id];
        let Operation::Resync { count, .. } = operation else { return false };
        assert!(count.0 <= RESYNC_BLOCKS_MAX, "operations have few blocks");
        if count.0 <= RESYNC_SHORT_BLOCKS {
            return false;
        }
        match *stage {
            Stage::Waiting | Stage::Quiescing(_) => {
                self.end_change(id, ChangeOutcome::Failed(Failure::Cancelled));
                true
            }
            Stage::Begun(operation_id) if self.has_copies_to_start(operation_id) => {
                self.pool.cancel(operation_id);
                self.abandon_copies(operation_id);
                true
            }
            Stage::Begun(_) | Stage::Leaving(_) => false,
        }
    }

    /// The pass goes over the mirrors from the front.
    fn begin_stage(&mut self, stage: ResyncStage) {
        assert_eq!(self.resync.running, 0, "what is in progress is not made equal twice");
        (self.resync.stage, self.resync.cursor) = (stage, None);
        self.resync.singly.clear();
    }

    /// The next blocks of this pass.
    fn next_unequal(&self) -> Option<(PoolVolumeId, VolumeBlock)> {
        let start = (PoolVolumeId(0), VolumeBlock(0));
        let (from, block) = self.resync.cursor.unwrap_or(start);
        debug_assert!(self.pool.missing().is_empty(), "an incomplete pool is not written");
        let volumes = self.pool.state().volumes.range(from..).map(|(id, _)| *id);
        volumes.into_iter().find_map(|id| {
            let block = if id == from { block } else { VolumeBlock(0) };
            let next = match self.resync.stage {
                ResyncStage::Endangered => self.pool.next_endangered(id, block),
                ResyncStage::Rest => self.pool.next_unequal(id, block),
            };
            Some((id, next?))
        })
    }

    /// Ends a pass. Returns whether something follows at once.
    fn finish_resync_pass(&mut self) -> bool {
        assert_eq!(self.resync.running, 0, "a pass ends with its last operation");
        let began = self.resync.cursor.is_some();
        self.begin_stage(ResyncStage::Endangered);
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
            self.changes.insert(id, PendingChange::internal(operation));
        }
        !disks.is_empty()
    }

    /// An operation that makes copies equal has ended.
    pub(crate) fn on_resync_done(
        &mut self,
        (volume, first, count): (PoolVolumeId, VolumeBlock, Blocks),
        end: &ChangeOutcome,
    ) {
        assert!(self.resync.running > 0, "one was in progress");
        self.resync.running -= 1;
        assert!(self.resync.running < RESYNCS_MAX, "operations are within their limit");
        match end {
            ChangeOutcome::Done => self.resync.done += u64::from(count.0),
            // The pass goes on with its blocks, in short operations.
            ChangeOutcome::Failed(Failure::Cancelled) => self.resync.go_back_to(volume, first),
            ChangeOutcome::Failed(Failure::Disk) if count.0 > 1 => {
                self.resync.singly.push((volume, first.0..first.0 + count.0));
                self.resync.go_back_to(volume, first);
            }
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
