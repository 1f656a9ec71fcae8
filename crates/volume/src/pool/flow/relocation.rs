//! The progress of a volume's relocation.

use crate::pool::flow::values::ChangeOutcome;

/// The number of blocks that are moved at a time.
pub const RELOCATIONS_MAX: usize = 2;

/// The relocation of one volume's blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relocation {
    /// The next block to examine.
    pub(crate) cursor: u32,
    /// Moves in progress.
    pub(crate) running: usize,
    pub(crate) moved: u64,
    /// Consecutive failed moves since the beginning of this pass.
    pub(crate) failures: usize,
    /// Why the last of those failed.
    pub(crate) why: Option<ChangeOutcome>,
    /// No block can be moved until something has changed.
    pub(crate) stuck: bool,
}

impl Relocation {
    pub(crate) fn restart(&mut self) {
        assert!(self.running <= RELOCATIONS_MAX, "moves are within their limit");
        assert!(!self.stuck || self.why.is_some(), "a stuck relocation has a reason");
        (self.cursor, self.failures, self.why, self.stuck) = (0, 0, None, false);
    }
}
