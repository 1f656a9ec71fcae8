//! The progress of a volume's relocation.

use crate::pool::flow::values::ChangeOutcome;
use crate::pool::operation::commit::MOVES_TOGETHER;

/// The number of blocks that are moved at a time: those that are copied, and those that wait for
/// their commit. With 2 there was none to read in every fourth turn, and the relocation had 7.8 %
/// of its disk in place of 10.
pub const RELOCATIONS_MAX: usize = 20;

/// The passes in a row without a moved block that follow each other because an operation failed.
pub(crate) const RELOCATION_RETRIES_MAX: u8 = 4;

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
    /// Passes that began since a block was moved, because an operation failed.
    pub(crate) retries: u8,
}

impl Relocation {
    /// Whether it is stuck because moves were refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.stuck && matches!(self.why, Some(ChangeOutcome::Refused(_)))
    }

    pub(crate) fn restart(&mut self) {
        assert!(self.running <= RELOCATIONS_MAX, "moves are within their limit");
        assert!(!self.stuck || self.why.is_some(), "a stuck relocation has a reason");
        (self.cursor, self.failures, self.why, self.stuck) = (0, 0, None, false);
        self.retries = 0;
    }

    /// Restarts because an operation failed. That may have been a move, and moves that fail would
    /// restart each other without end.
    pub(crate) fn retry(&mut self) {
        let retries = self.retries + 1;
        assert!(retries <= RELOCATION_RETRIES_MAX, "retries are within their limit");
        self.restart();
        self.retries = retries;
    }
}

// While some wait for their commit, others are copied.
const _: () = assert!(MOVES_TOGETHER * 2 <= RELOCATIONS_MAX);
