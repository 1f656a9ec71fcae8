//! How long a command will take, before it has (RTAS 2008 §3).
//!
//! The paper's estimator, with its constants as defaults: a command that starts under 100 sectors from where
//! its volume's previous one ended is sequential and costs little, any other costs a safe value. What was
//! estimated wrong is put right at the command's completion.

use units::{DiskTime, Lba, Operation, Sectors};

/// A command that starts nearer than this to its predecessor is sequential.
pub const SEQUENTIAL_WITHIN: Sectors = Sectors(100);

/// The two constants of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimates {
    /// For a sequential command: 300 µs in the paper.
    pub sequential: DiskTime,
    /// For any other: 20 ms in the paper.
    pub random: DiskTime,
}

impl Default for Estimates {
    fn default() -> Self {
        Self { sequential: DiskTime::from_micros(300), random: DiskTime::from_millis(20) }
    }
}

impl Estimates {
    pub(crate) fn of(&self, sequential: bool) -> DiskTime {
        if sequential { self.sequential } else { self.random }
    }
}

/// Whether `operation` goes on where a volume's previous command ended at `last_end`.
pub(crate) fn is_sequential(operation: &Operation, last_end: Option<Lba>) -> bool {
    // A flush has no place; it neither continues a run nor begins one.
    !operation.extent.is_empty()
        && last_end.is_some_and(|end| operation.extent.start.distance(end) < SEQUENTIAL_WITHIN)
}
