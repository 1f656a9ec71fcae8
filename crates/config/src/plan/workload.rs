//! The load that a simulation puts on a volume.

use core::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use units::{Bytes, Duration, Extent, Operation, Share};

use super::volume::VolumeIndex;

/// A stream of requests to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The volume it loads.
    pub volume: VolumeIndex,
    /// Where its requests come from.
    pub requests: Requests,
    /// When the first request comes, from the beginning of the run.
    pub start: Duration,
    /// When no more requests come, from the beginning of the run; after `start`. `None`: never.
    pub stop: Option<Duration>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// Where the requests of a workload come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    /// From dice.
    Synthetic(Synthetic),
    /// From a trace.
    Trace(Replay),
    /// From a list, one after the other in a closed loop: no file says that, experiments build it.
    Listed(Arc<[Operation]>),
    /// From a list with the time of each, from the workload's start, in that order; sent whether or not the last one was
    /// answered. No file says that either.
    Timed(Arc<[(Duration, Operation)]>),
}

/// Requests that dice make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// What they do.
    pub mix: Mix,
    /// Where they go.
    pub access: Access,
    /// The size of each: a whole number of sectors, at least one, at most the volume.
    pub block: Bytes,
    /// When they come.
    pub arrival: Arrival,
}

/// Requests of a trace, sent when it says, whether or not the last one was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The trace's file, its path already relative to the working directory rather than to the config.
    pub path: PathBuf,
    /// How it is read: its format, the device whose requests are wanted, and, where requests past the volume's end are
    /// refused, that end.
    pub options: trace::Options,
    /// What its times are multiplied by.
    pub scale: trace::Scale,
    /// What becomes of a request past the volume's end.
    pub remap: Remap,
}

/// What becomes of a request of a trace that passes its volume's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// The run ends, with the record's number.
    Refuse,
    /// It goes to its place modulo the volume's size, and one that would pass the end from there goes to the last place
    /// that holds it: runs stay runs. One that is larger than the volume is refused.
    Modulo,
}

/// What the requests of a workload do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All of them read.
    Read,
    /// All of them write.
    Write,
    /// Each is drawn anew.
    Mix {
        /// The share of them that read.
        read_share: Share,
    },
}

/// Where the requests of a workload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Each starts where the one before ended; behind the volume's end it goes on at the beginning.
    Sequential {
        /// Requests before a jump to a random place. `None`: it never jumps.
        run: Option<NonZeroU64>,
    },
    /// Each starts where the one before ended, within these sectors of the volume, and behind their end at their beginning.
    Within {
        /// The range of the volume's stream.
        range: Extent,
    },
    /// Each goes to a place of its own.
    Random,
    /// As random, but in the order of their places: so many are drawn at a time and sorted, as an elevator serves them.
    Elevator {
        /// How many.
        batch: NonZeroU64,
    },
}

/// When the requests of a workload come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A closed loop: an answer makes room for the next request.
    Closed {
        /// Requests under way at once, from 1 to [`crate::limits::OUTSTANDING_MAX`].
        outstanding: u32,
        /// The pause between an answer and the request that follows it.
        think: Duration,
    },
    /// An open loop: requests come at a constant rate, whether or not the last one was answered.
    Open {
        /// The time between two requests. Above zero.
        interval: Duration,
    },
    /// An open loop whose requests come independently of one another: a Poisson process.
    Poisson {
        /// The mean time between two requests. Above zero.
        interval: Duration,
    },
}
