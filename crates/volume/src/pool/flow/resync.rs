//! The progress of making copies equal.

use std::ops::Range;

use crate::pool::limits::{RESYNC_BLOCKS_MAX, RESYNC_SHORT_BLOCKS};
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};

/// The number of operations that make copies equal at a time: while one is flushed and committed,
/// the other copies.
pub(crate) const RESYNCS_MAX: usize = 2;

/// The short operations that follow one for which something waited.
pub(crate) const RESYNC_SHORTS_MAX: u32 = 8;

/// What a pass makes equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResyncStage {
    /// Blocks of which one whole copy is left at most: another loss would take them.
    #[default]
    Endangered,
    /// All others.
    Rest,
}

/// A pass over the mirrors of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resync {
    /// What it makes equal now.
    pub(crate) stage: ResyncStage,
    /// Whether the pass begins again when the operations in progress have ended: another disk may
    /// have lost blocks that it had put off.
    pub(crate) begins_again: bool,
    /// The next block to examine.
    pub(crate) cursor: Option<(PoolVolumeId, VolumeBlock)>,
    /// Operations in progress.
    pub(crate) running: usize,
    /// Operations that failed since the beginning of this pass.
    pub(crate) failures: usize,
    /// Passes in a row in which operations failed.
    pub(crate) tries: u8,
    /// The value of `Redundancy::epoch` that was seen last.
    pub(crate) epoch: u64,
    /// Blocks that were made equal since the pool was opened.
    pub(crate) done: u64,
    /// Whether a pass found nothing that can be made equal until something has changed.
    pub(crate) resting: bool,
    /// Short operations to come before a longer one.
    pub(crate) short: u32,
    /// The blocks of operations that failed, which are made equal one by one: what cannot be read
    /// holds back no other block.
    pub(crate) singly: Vec<(PoolVolumeId, Range<u32>)>,
}

impl Resync {
    /// The blocks of an operation that begins at `first`, at most.
    pub(crate) fn blocks_max(&self, volume: PoolVolumeId, first: VolumeBlock) -> Blocks {
        assert!(self.short <= RESYNC_SHORTS_MAX, "short ones are within their limit");
        let longest = if self.short > 0 { RESYNC_SHORT_BLOCKS } else { RESYNC_BLOCKS_MAX };
        let own = self.singly.iter().filter(|(of, blocks)| *of == volume && first.0 < blocks.end);
        let until = own.map(|(_, blocks)| blocks.start.saturating_sub(first.0).max(1)).min();
        let count = until.map_or(longest, |until| until.min(longest));
        assert!((1..=RESYNC_BLOCKS_MAX).contains(&count), "operations have few blocks");
        Blocks(count)
    }

    /// The pass goes back to an operation that ended without its blocks being equal.
    pub(crate) fn go_back_to(&mut self, volume: PoolVolumeId, first: VolumeBlock) {
        assert!(self.running < RESYNCS_MAX, "its operation has ended");
        let cursor = self.cursor.as_mut().expect("a pass is in progress");
        *cursor = (*cursor).min((volume, first));
    }

    /// The pass goes on behind these blocks.
    pub(crate) fn pass(&mut self, volume: PoolVolumeId, next: VolumeBlock) {
        self.cursor = Some((volume, next));
        self.singly.retain(|(of, blocks)| (volume, next) < (*of, VolumeBlock(blocks.end)));
        debug_assert!(self.singly.len() <= 2 * RESYNCS_MAX, "those behind are forgotten");
    }

    /// Begins a pass, unless one is in progress: it ends, and another follows.
    pub(crate) fn wake(&mut self) {
        assert!(self.running <= RESYNCS_MAX, "operations are within their limit");
        (self.resting, self.failures, self.tries) = (false, 0, 0);
    }
}
