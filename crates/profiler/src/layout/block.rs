//! Addresses, and timed reads of single blocks.

/// An address in units of the target's logical block, so that every address can be read.
pub(crate) type Block = u64;

/// One block that was read from the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Block,
    /// When its read completed, in ns since the probe began.
    pub(crate) time: f64,
}

/// The phases at which reads of blocks end, as parts of a revolution.
pub(crate) type Phases = Vec<(Block, f64)>;

/// The most heads that are considered.
pub(crate) const HEADS_MAX: u32 = 64;
