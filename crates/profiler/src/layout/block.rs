//! Addresses, and timed reads of single blocks.

/// Blocks are what addresses count here: the target's own, so that every address can be read.
pub(crate) type Block = u64;

/// One block that was read off the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Block,
    /// When its read ended, in ns since the probe began.
    pub(crate) time: f64,
}

/// The phases at which reads of blocks end, as parts of a revolution.
pub(crate) type Phases = Vec<(Block, f64)>;

/// The most heads that are considered.
pub(crate) const HEADS_MAX: u32 = 64;
