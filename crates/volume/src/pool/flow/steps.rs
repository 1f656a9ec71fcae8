//! The pool's steps under way, and the copies that some of them are made of.

use std::collections::{BTreeMap, VecDeque};

use units::Extent;

use crate::location::DiskId;
use crate::pool::flow::values::{ChargeTo, CopyId};
use crate::pool::operation::machine::OperationId;
use crate::pool::operation::script::StepId;

/// Steps that a pool has under way at a time.
pub const STEPS_MAX: usize = 256;

/// Copies at a time, each of a block at most: 8 MiB of memory.
pub const COPIES_MAX: usize = 8;

/// A step that copies, cut to blocks.
#[derive(Clone, Debug)]
pub(crate) struct CopyJob {
    pub(crate) payer: ChargeTo,
    pub(crate) source: DiskId,
    pub(crate) target: DiskId,
    /// What is not begun yet, and where it goes.
    pub(crate) from: Extent,
    pub(crate) to: Extent,
    pub(crate) running: usize,
    pub(crate) well: bool,
}

/// A copy that is read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCopy {
    pub(crate) step: StepId,
    pub(crate) to: Extent,
}

/// The steps under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// Whose each is, unless it commits.
    pub(crate) owners: BTreeMap<StepId, Option<OperationId>>,
    pub(crate) jobs: BTreeMap<StepId, CopyJob>,
    /// Jobs with something not begun.
    pub(crate) waiting: VecDeque<StepId>,
    pub(crate) copies: BTreeMap<CopyId, BlockCopy>,
    pub(crate) numbers: u64,
}
