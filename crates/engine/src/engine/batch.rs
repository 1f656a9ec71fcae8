//! The writes that one flush is to end: [`flush_batch`](super::flush_batch) carries it out.

use units::DiskTime;

use super::issued::Issued;
use crate::VolumeId;
use crate::limits::FLUSH_BATCH_MAX;
use crate::request::{CommandId, Outcome};

/// A write that the drive has in its buffer.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) issued: Issued,
    pub(super) took: DiskTime,
    pub(super) outcome: Outcome,
}

/// The forced writes of one volume that one flush is to end.
#[derive(Debug, Default)]
pub(super) struct FlushBatch {
    /// The volume; `None` while no batch is open.
    pub(super) volume: Option<VolumeId>,
    pub(super) written: Vec<Written>,
    /// Whether one write is a batch: the flush follows it at once.
    pub(super) is_single: bool,
    /// The flush, when it is in the drive.
    pub(super) flush: Option<CommandId>,
}

impl FlushBatch {
    /// None is open. Nothing is allocated later.
    pub(super) fn new(is_used: bool) -> Self {
        let written = Vec::with_capacity(if is_used { FLUSH_BATCH_MAX } else { 0 });
        debug_assert!(is_used || written.capacity() == 0, "no memory for what is not used");
        Self { written, ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        debug_assert!(self.volume.is_some() || self.written.is_empty(), "writes are a batch's");
        self.volume.is_some()
    }

    /// Whether the flush is in the drive.
    pub(super) fn is_ending(&self) -> bool {
        debug_assert!(self.flush.is_none() || self.is_open(), "a flush is a batch's");
        self.flush.is_some()
    }

    /// The commands that the drive has completed, and the policy has in it.
    pub(super) fn written(&self) -> usize {
        debug_assert!(self.written.len() <= FLUSH_BATCH_MAX, "a batch is bounded");
        self.written.len()
    }

    /// The requests that those commands cover.
    pub(super) fn covered(&self) -> usize {
        debug_assert!(self.written.is_empty() || self.is_open(), "writes are a batch's");
        self.written.iter().map(|written| written.issued.covered as usize).sum()
    }

    /// What the drive took for them, and no volume has been charged yet.
    pub(super) fn uncharged(&self) -> DiskTime {
        debug_assert!(self.written.is_empty() || self.is_open(), "writes are a batch's");
        self.written.iter().map(|written| written.took).sum()
    }
}
