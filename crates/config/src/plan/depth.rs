//! The number of commands in flight inside a drive, and where it comes from.

use core::fmt;

use drive::AnyModel;
use engine::{Execution, PolicyName};
use units::Duration;

use super::backing::Backing;
use crate::limits::DEPTH_MAX;

/// The queue of a rotating drive that was not measured: what NCQ allows.
const ROTATING_DEPTH: u32 = 32;

/// The commands in a flash drive, if its queue takes more: enough for the dies of one drive.
const FLASH_DEPTH: u32 = 128;

/// Commands in flight inside a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    /// From 1 to [`crate::limits::DEPTH_MAX`], and at most the drive's own queue.
    pub(crate) commands: u32,
    /// Where the number comes from.
    pub(crate) from: DepthSource,
}

/// Why a disk has its queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthSource {
    /// The config says so.
    Config,
    /// The policy keeps its contracts with one command at a time, or is that of a publication.
    Policy,
    /// A request that is executed in pieces is alone in the drive.
    Pieces,
    /// Without batches no volume has the drive for a quantum, and a share is of single commands.
    NoBatches,
    /// Volumes have the drive in turn, each with as many commands as the drive's queue takes.
    Queue,
    /// The places of the drive's queue are divided among the volumes that use it.
    Flash,
    /// The disk has no service times: its commands complete at once.
    Memory,
}

impl DepthSource {
    /// As the documents and the API write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Policy => "auto: the policy's",
            Self::Pieces => "auto: requests are executed in pieces",
            Self::NoBatches => "auto: no batches",
            Self::Queue => "auto: the drive's queue, one volume at a time",
            Self::Flash => "auto: the drive's queue, divided by share",
            Self::Memory => "auto: commands complete at once",
        }
    }
}

impl fmt::Display for DepthSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the queue depth of a disk depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthTerms<'a> {
    pub(crate) model: &'a AnyModel,
    /// Whether commands take no time.
    is_memory: bool,
    policy: PolicyName,
    execution: Execution,
    batch: Duration,
}

impl<'a> DepthTerms<'a> {
    /// The terms of a disk with this drive, its data, its policy, execution and batches.
    pub(crate) fn of(
        (model, backing): (&'a AnyModel, &Backing),
        (policy, execution, batch): (PolicyName, Execution, Duration),
    ) -> Self {
        let is_memory = matches!(backing, Backing::Memory | Backing::Null);
        Self { model, is_memory, policy, execution, batch }
    }

    /// The depth that keeps each promise which can be made on this disk, at the most throughput.
    pub(crate) fn auto(self) -> QueueDepth {
        let one = |from| QueueDepth { commands: 1, from };
        if !self.policy.has_exclusive_quanta() {
            return one(DepthSource::Policy);
        }
        if !matches!(self.execution, Execution::Whole { split: None }) {
            return one(DepthSource::Pieces);
        }
        if self.is_memory {
            return one(DepthSource::Memory);
        }
        let queue = self.model.queue_depth_max();
        if !self.model.rotational() {
            let commands = if self.batch == Duration::ZERO { queue.min(FLASH_DEPTH) } else { 1 };
            return QueueDepth { commands, from: DepthSource::Flash };
        }
        if self.batch == Duration::ZERO {
            return one(DepthSource::NoBatches);
        }
        let most = if self.model.mechanical().is_some() { DEPTH_MAX } else { ROTATING_DEPTH };
        let commands = queue.clamp(1, most);
        QueueDepth { commands, from: DepthSource::Queue }
    }
}
