//! Regions that are opened, or closed, together.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The data of regions that are closed is flushed.
    Data,
    /// Their pages are written.
    Pages,
    /// The pages are flushed.
    PagesFlush,
    /// The ledger is written durably.
    Ledger,
}

/// Regions are opened, or closed.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) opens: bool,
    pub(crate) regions: Vec<u32>,
    pub(crate) phase: Phase,
    /// Steps that have not ended.
    pub(crate) steps: usize,
    pub(crate) has_failed: bool,
}
