//! The pool's steps in progress, and the copies that some of them consist of.

use std::collections::{BTreeMap, VecDeque};

use units::Extent;

use crate::location::DiskId;
use crate::pool::flow::values::{ChargeTo, CopyId};
use crate::pool::operation::machine::OperationId;
use crate::pool::operation::script::StepId;

/// The limit on steps in progress.
pub const STEPS_MAX: usize = 256;

/// The limit on copies in progress, each of a block at most: 8 MiB of memory.
pub const COPIES_MAX: usize = 8;

/// A step that copies, split into blocks.
#[derive(Clone, Debug)]
pub(crate) struct CopyJob {
    pub(crate) payer: ChargeTo,
    pub(crate) source: DiskId,
    pub(crate) target: DiskId,
    /// What is not started yet: source and target.
    pub(crate) from: Extent,
    pub(crate) to: Extent,
    pub(crate) running: usize,
    pub(crate) ok: bool,
}

/// A copy that is being loaded or stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCopy {
    pub(crate) step: StepId,
    pub(crate) from: Extent,
    pub(crate) to: Extent,
}

/// The steps in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// The operation of each, unless it is a step of a commit.
    pub(crate) owners: BTreeMap<StepId, Option<OperationId>>,
    pub(crate) jobs: BTreeMap<StepId, CopyJob>,
    /// Jobs with copies to start.
    pub(crate) waiting: VecDeque<StepId>,
    pub(crate) copies: BTreeMap<CopyId, BlockCopy>,
    pub(crate) numbers: u64,
}
