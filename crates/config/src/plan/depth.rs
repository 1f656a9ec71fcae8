//! The number of commands in flight inside a drive, and where it comes from.

use core::fmt;

use drive::AnyModel;
use engine::{Execution, PolicyName};
use units::Duration;

use crate::limits::DEPTH_MAX;

/// The queue of a rotating drive that was not measured: what NCQ allows.
const ROTATING_DEPTH: u32 = 32;

/// Commands in flight inside a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    /// From 1 to [`crate::limits::DEPTH_MAX`], and at most the drive's own queue.
    pub(crate) commands: u32,
    /// Where the number comes from.
    pub(crate) from: DepthSource,
}

impl QueueDepth {
    /// That of a config which names none.
    pub(crate) const DEFAULT: Self = Self { commands: 1, from: DepthSource::Default };
}

/// Why a disk has its queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthSource {
    /// The config names none.
    Default,
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
    /// The places of a flash drive's queue are not divided among volumes.
    Flash,
}

impl DepthSource {
    /// As the documents and the API write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Config => "config",
            Self::Policy => "auto: the policy's",
            Self::Pieces => "auto: requests are executed in pieces",
            Self::NoBatches => "auto: no batches",
            Self::Queue => "auto: the drive's queue, one volume at a time",
            Self::Flash => "auto: flash",
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
    pub(crate) policy: PolicyName,
    pub(crate) execution: Execution,
    pub(crate) batch: Duration,
}

impl DepthTerms<'_> {
    /// The depth that keeps each promise which can be made on this disk, at the most throughput.
    pub(crate) fn auto(self) -> QueueDepth {
        let one = |from| QueueDepth { commands: 1, from };
        if !self.policy.has_exclusive_quanta() {
            return one(DepthSource::Policy);
        }
        if !matches!(self.execution, Execution::Whole { split: None }) {
            return one(DepthSource::Pieces);
        }
        if !self.model.rotational() {
            return one(DepthSource::Flash);
        }
        if self.batch == Duration::ZERO {
            return one(DepthSource::NoBatches);
        }
        let most = if self.model.mechanical().is_some() { DEPTH_MAX } else { ROTATING_DEPTH };
        let commands = self.model.queue_depth_max().clamp(1, most);
        QueueDepth { commands, from: DepthSource::Queue }
    }
}
