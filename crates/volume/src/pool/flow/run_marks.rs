//! Copies on disks that are out are marked for the writes that wait, and for those that are likely
//! to follow, so that few writes wait for a commit of their own.

use std::ops::Range;

use crate::pool::flow::change::PendingChange;
use crate::pool::flow::core::Flow;
use crate::pool::flow::request::{Request, Stage, blocks};
use crate::pool::limits::{MARKED_AHEAD_BLOCKS, REGION_BLOCKS};
use crate::pool::names::{Blocks, PoolVolumeId};
use crate::pool::operation::kinds::Operation;

impl Flow {
    /// Tells the pool, before it takes a disk out, for which blocks writes wait.
    pub(crate) fn expect_writes(&mut self) {
        if !self.pool.is_about_to_take_out() {
            return;
        }
        let is_waiting = |request: &&Request| {
            let waits = !matches!(request.stage, Stage::InFlight { .. });
            waits && request.operation.op.writes() && !request.part().is_empty()
        };
        let waiting = self.requests.values().filter(is_waiting);
        let waiting: Vec<(PoolVolumeId, Range<u32>)> =
            waiting.map(|request| (request.volume, blocks(request.part()))).collect();
        debug_assert!(waiting.iter().all(|(_, over)| !over.is_empty()), "a part has blocks");
        self.pool.expect_writes(waiting);
    }

    /// Marks what is behind these blocks, which are being written, if a disk is out and the volume
    /// is written in order: the write begins within a region of where the one before ended. No
    /// request waits for it unless it comes to the marked blocks first.
    pub(crate) fn mark_ahead(&mut self, id: PoolVolumeId, written: &Range<u32>) {
        if !self.pool.has_out() {
            self.written_ends.clear();
            return;
        }
        let before = self.written_ends.insert(id, written.end);
        let is_in_order = before.is_some_and(|end| end.abs_diff(written.start) <= REGION_BLOCKS);
        let Some(volume) = self.pool.state().volume(id).filter(|_| is_in_order) else { return };
        let size = volume.size.0;
        let ahead = written.end..(written.end + REGION_BLOCKS).min(size);
        if ahead.is_empty() || self.is_marking_ahead(id) {
            return;
        }
        let Some(first) = self.pool.first_markable(volume, ahead) else { return };
        let count = Blocks(MARKED_AHEAD_BLOCKS.min(size - first.0));
        assert!(count.0 > 0, "a block that can be marked is within the volume");
        let change = self.number_change();
        let operation = Operation::MarkStale { volume: id, first, count };
        self.changes.insert(change, PendingChange::internal(operation));
        self.dirty = true;
    }

    fn is_marking_ahead(&self, id: PoolVolumeId) -> bool {
        let own = self.changes.values().filter(|change| change.is_internal);
        let mut marked = own.filter_map(|change| match change.operation {
            Operation::MarkStale { volume, .. } => Some(volume),
            _ => None,
        });
        marked.any(|volume| volume == id)
    }
}
