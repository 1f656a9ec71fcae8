//! The progress of making copies equal.

use crate::pool::names::{PoolVolumeId, VolumeBlock};

/// The number of operations that make copies equal at a time: while one is committed, the other
/// copies.
pub(crate) const RESYNCS_MAX: usize = 2;

/// A pass over the mirrors of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resync {
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
}

impl Resync {
    /// Begins a pass, unless one is in progress: it ends, and another follows.
    pub(crate) fn wake(&mut self) {
        assert!(self.running <= RESYNCS_MAX, "operations are within their limit");
        (self.resting, self.failures, self.tries) = (false, 0, 0);
    }
}
