//! How far the relocation of a volume has come.

use crate::pool::flow::values::ChangeOutcome;

/// Blocks that are moved at a time.
pub const RELOCATIONS_MAX: usize = 2;

/// The way of one volume's blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relocation {
    /// The next block to look at.
    pub(crate) cursor: u32,
    /// Blocks that are on their way.
    pub(crate) running: usize,
    pub(crate) moved: u64,
    /// Blocks since the beginning of this pass that could not be moved, one after the other.
    pub(crate) failures: usize,
    /// Why the last of those could not.
    pub(crate) why: Option<ChangeOutcome>,
    /// Nothing can be moved until something has changed.
    pub(crate) stuck: bool,
}

impl Relocation {
    pub(crate) fn begin_again(&mut self) {
        (self.cursor, self.failures, self.why, self.stuck) = (0, 0, None, false);
    }
}
