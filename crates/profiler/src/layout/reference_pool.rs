//! Blocks with known phases, which are read in turn to evict other blocks from the drive's cache.

use crate::estimate::number::fraction;
use crate::layout::block::Block;

/// Blocks in the pool for each read that evicts a block.
pub(crate) const BLOCKS_PER_EVICTION: u64 = 4;

/// Blocks that were read once, and their phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferencePool {
    pub(crate) from: Block,
    pub(crate) apart: u64,
    pub(crate) known: Vec<Known>,
    /// The number of reads so far.
    pub(crate) reads: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) at: Block,
    pub(crate) phase: f64,
    /// The number of the block's last read.
    pub(crate) read: u64,
}

impl ReferencePool {
    /// The block that passes next after a phase, of those that are evicted and not near `at`: its
    /// index, and the fraction of a revolution until then.
    pub(crate) fn soonest(
        &self,
        at: Block,
        phase: f64,
        eviction_reads: u64,
    ) -> Option<(usize, f64)> {
        let forgotten = |known: &Known| {
            self.reads - known.read > BLOCKS_PER_EVICTION / 2 * eviction_reads
                && known.at.abs_diff(at) > self.apart
        };
        let all = self.known.iter().enumerate().filter(|(_, known)| forgotten(known));
        all.map(|(nth, known)| (nth, fraction(known.phase - phase)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Clears the pool, for blocks `apart` from each other.
    pub(crate) fn clear(&mut self, apart: u64) {
        self.apart = apart;
        self.known.clear();
    }
}
