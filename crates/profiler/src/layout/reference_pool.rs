//! Blocks with known phases, which are read in turn to evict other blocks from the drive's cache.

use crate::estimate::number::fraction;
use crate::layout::block::Block;

/// Blocks in the pool for each read that evicts a block.
pub(crate) const BLOCKS_PER_EVICTION: u64 = 4;

/// Blocks that were read once, and when they come by.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferencePool {
    pub(crate) from: Block,
    pub(crate) apart: u64,
    pub(crate) known: Vec<Known>,
    /// Reads so far.
    pub(crate) reads: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) at: Block,
    pub(crate) phase: f64,
    /// Which of the reads was its last.
    pub(crate) read: u64,
}

impl ReferencePool {
    /// Which block comes by soonest at a phase, of those that were forgotten and are not near `at`: its place, and the
    /// part of a turn until then.
    pub(crate) fn soonest(&self, at: Block, phase: f64, forgets: u64) -> Option<(usize, f64)> {
        let forgotten = |known: &Known| {
            self.reads - known.read > BLOCKS_PER_EVICTION / 2 * forgets
                && known.at.abs_diff(at) > self.apart
        };
        let all = self.known.iter().enumerate().filter(|(_, known)| forgotten(known));
        all.map(|(nth, known)| (nth, fraction(known.phase - phase)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Begins anew, with blocks so far apart.
    pub(crate) fn anew(&mut self, apart: u64) {
        self.apart = apart;
        self.known.clear();
    }
}
