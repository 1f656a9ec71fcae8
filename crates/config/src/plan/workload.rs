//! The load that a simulation puts on a volume.

use core::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;

use units::{Bytes, Duration, Extent, Operation, Share};

use super::pool::{PoolChangeIndex, PoolVolumeIndex};
use super::volume::VolumeIndex;

/// A stream of requests to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The volume that it loads.
    pub volume: LoadedVolume,
    /// The source of its requests.
    pub requests: Requests,
    /// When the first request arrives, from the beginning of the run.
    pub start: Duration,
    /// When requests end, from the beginning of the run; after `start`. `None`: never.
    pub stop: Option<Duration>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// The volume that a workload loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadedVolume {
    /// A volume on one disk.
    Single(VolumeIndex),
    /// A volume of the pool.
    Pool(PoolVolumeIndex),
    /// The snapshot that this change takes; nothing loads it before.
    Snapshot(PoolChangeIndex),
}

impl LoadedVolume {
    /// The volume, if it is on one disk.
    pub fn single(self) -> Option<VolumeIndex> {
        match self {
            Self::Single(volume) => Some(volume),
            Self::Pool(_) | Self::Snapshot(_) => None,
        }
    }
}

/// The source of a workload's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Generated.
    Synthetic(Synthetic),
    /// From a trace.
    Trace(Replay),
    /// From a list, one after the other in a closed loop. Only experiments build it, no file.
    Listed(Arc<[Operation]>),
    /// From a list with the arrival time of each, from the workload's start, in that order, in an
    /// open loop. Only experiments build it, no file.
    Timed(Arc<[(Duration, Operation)]>),
    /// Steps in a closed loop. Only experiments build it, no file.
    Steps(Arc<[Step]>),
}

/// Requests that are sent at one instant: when all of the step before are answered, and not before
/// a time. A file system's `fsync` is some: the data, the journal, a flush, the commit record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The earliest time, from the workload's start.
    pub not_before: Duration,
    /// At least one.
    pub operations: Vec<Operation>,
}

/// Generated requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Their operations.
    pub mix: Mix,
    /// Their locations.
    pub access: Access,
    /// The size of each: a whole number of sectors, at least one, at most the volume.
    pub block: Bytes,
    /// Their arrival times.
    pub arrival: Arrival,
    /// Writes between two flushes, each of which follows the answer to the write before it at once.
    /// Only a closed loop of one request outstanding that writes has them. `None`: no flushes.
    pub flush_every: Option<NonZeroU32>,
}

/// Requests of a trace, sent at the trace's times in an open loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The trace's file; the path is already relative to the working directory rather than to the
    /// config.
    pub path: PathBuf,
    /// How it is read: its format, the device whose requests are replayed, and, where requests past
    /// the volume's end are refused, that end.
    pub options: trace::Options,
    /// The factor by which its times are multiplied.
    pub scale: trace::Scale,
    /// What happens to a request past the volume's end.
    pub remap: Remap,
}

/// What happens to a trace's request past its volume's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// The run ends, with the record's number.
    Refuse,
    /// Its location is taken modulo the volume's size, and a request that would pass the end from
    /// there goes to the last location that holds it: sequential runs stay sequential. A request
    /// that is larger than the volume is refused.
    Modulo,
}

/// The operations of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All are reads.
    Read,
    /// All are writes.
    Write,
    /// Each is drawn at random.
    Mix {
        /// The share of reads.
        read_share: Share,
    },
}

/// The locations of a workload's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Each begins where its predecessor ended; at the volume's end the next one begins at the
    /// start.
    Sequential {
        /// Requests before a jump to a random location. `None`: there are no jumps.
        run: Option<NonZeroU64>,
    },
    /// Each begins where its predecessor ended, within these sectors of the volume; at their end
    /// the next one begins at their start.
    Within {
        /// The range of the volume's stream.
        range: Extent,
    },
    /// Each at a random location.
    Random,
    /// At random locations, in ascending order: `batch` requests are generated at a time and
    /// sorted, as an elevator serves them.
    Elevator {
        /// The number of requests that are generated at a time.
        batch: NonZeroU64,
    },
}

/// The think time of a closed loop: its client's pause before the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// Always the same.
    Fixed(Duration),
    /// Independent and exponentially distributed.
    Exponential {
        /// Above zero.
        mean: Duration,
    },
}

impl ThinkTime {
    /// No pause.
    pub const NONE: Self = Self::Fixed(Duration::ZERO);
}

/// The arrival times of a workload's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A closed loop: each completion is followed by the next request.
    Closed {
        /// Requests in flight, from 1 to [`crate::limits::OUTSTANDING_MAX`].
        outstanding: u32,
        /// The pause between a completion and the request that follows it.
        think: ThinkTime,
    },
    /// A closed loop of bursts: when all requests of a burst are completed, a pause follows, and
    /// then the next burst.
    Bursts {
        /// Requests of a burst, which are sent at one instant: from 1 to
        /// [`crate::limits::OUTSTANDING_MAX`].
        size: u32,
        /// The pause between the last completion of a burst and the next burst.
        think: ThinkTime,
    },
    /// An open loop: requests arrive at a constant rate, whether or not earlier ones have
    /// completed.
    Open {
        /// The time between two arrivals. Above zero.
        interval: Duration,
    },
    /// An open loop with independent arrivals: a Poisson process.
    Poisson {
        /// The mean time between two arrivals. Above zero.
        interval: Duration,
    },
}

impl Arrival {
    /// A closed loop of `outstanding` requests without a pause.
    pub const fn closed(outstanding: u32) -> Self {
        Self::Closed { outstanding, think: ThinkTime::NONE }
    }

    /// Whether the client of a closed loop thinks.
    pub fn pauses(self) -> bool {
        match self {
            Self::Closed { think, .. } | Self::Bursts { think, .. } => think != ThinkTime::NONE,
            Self::Open { .. } | Self::Poisson { .. } => false,
        }
    }

    /// The most requests in flight; `None` in an open loop.
    pub const fn outstanding(self) -> Option<u32> {
        match self {
            Self::Closed { outstanding, .. } => Some(outstanding),
            Self::Bursts { size, .. } => Some(size),
            Self::Open { .. } | Self::Poisson { .. } => None,
        }
    }
}
