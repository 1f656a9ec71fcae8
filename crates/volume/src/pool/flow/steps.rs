//! The pool's steps in progress, and the copies that some of them consist of.

use std::collections::{BTreeMap, VecDeque};

use units::{Extent, Sectors};

use crate::location::DiskId;
use crate::pool::flow::values::{ChargeTo, CopyId};
use crate::pool::operation::machine::OperationId;
use crate::pool::operation::script::StepId;

/// The limit on steps in progress.
pub const STEPS_MAX: usize = 256;

/// The limit on copies in progress, each of a block at most: 40 MiB of memory. A rebuild has its
/// disks in turns of different lengths, and what it reads in one waits in memory for another: with
/// 24 copies it ran at 0.96 of its speed alone beside neighbours on the disk that is read, in the
/// mean of eight runs, with 32 at 0.95, and with 40 at 0.98.
pub const COPIES_MAX: usize = 40;

/// Of these, copies of blocks that are moved. The disk that is written may be as fast as the one
/// that is read, so that either waits for the other now and then: with 4 there was nothing to read
/// in one of six turns, and the relocation took it late, in its neighbours' time.
pub const RELOCATION_COPIES_MAX: usize = 12;

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

impl CopyJob {
    /// Drops the copies that are not started: the job fails.
    pub(crate) fn abandon(&mut self) {
        self.ok = false;
        (self.from, _) = self.from.split_at(Sectors::ZERO);
        (self.to, _) = self.to.split_at(Sectors::ZERO);
        assert!(self.from.is_empty() && self.to.is_empty(), "nothing is left to start");
    }
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

impl Steps {
    /// The job that starts the next copy. Those that make copies equal come one after the other, so
    /// that their disks read and write in order, and behind others but for one copy. Those that
    /// move blocks have [`RELOCATION_COPIES_MAX`].
    pub(crate) fn next_job(&mut self) -> Option<StepId> {
        debug_assert!(self.copies.len() < COPIES_MAX, "there is room for a copy");
        let is_resync = |step: &StepId| self.is_paid_by(*step, ChargeTo::Rebuild);
        let has_one = self.copies.values().any(|copy| is_resync(&copy.step));
        let moves_more = self.moved() < RELOCATION_COPIES_MAX;
        let may_start = |step: &StepId| moves_more || !self.is_paid_by(*step, ChargeTo::Relocation);
        let waiting = || self.waiting.iter();
        let next = waiting().position(|step| may_start(step) && is_resync(step) != has_one);
        let next = next.or_else(|| waiting().position(may_start))?;
        self.waiting.remove(next)
    }

    /// The copies of blocks that are moved.
    pub(crate) fn moved(&self) -> usize {
        let copies = self.copies.values();
        let moved = copies.filter(|copy| self.is_paid_by(copy.step, ChargeTo::Relocation)).count();
        debug_assert!(moved <= RELOCATION_COPIES_MAX, "they are within their limit");
        moved
    }

    fn is_paid_by(&self, step: StepId, payer: ChargeTo) -> bool {
        self.jobs.get(&step).is_some_and(|job| job.payer == payer)
    }
}
