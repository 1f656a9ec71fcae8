//! Devices without a spindle: flash, memory, and disks with a rate limit.

use core::fmt;

use units::{Duration, Op, Sectors};

use super::figure::Figure;

/// What is known of a device that does not rotate, or of which rotation is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flash {
    /// Whether random reads can come from a rotating disk.
    pub rotation_test: Option<RotationTest>,
    /// Rate limits; empty if there is none.
    pub limits: Vec<RateLimit>,
    /// Throughput and latency against length and queue depth.
    pub rates: Vec<Rate>,
    /// The amount of data that is accepted faster than it is stored.
    pub write_buffer: Option<Figure<Sectors>>,
    /// Reads during writes.
    pub reads_during_writes: Option<ReadsDuringWrites>,
    /// Flush times.
    pub flushes: Vec<FlushTime>,
}

impl Flash {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a device rotates, as far as random reads show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationVerdict {
    /// It does not: random reads complete sooner than an arm and a disk allow.
    TooFast,
    /// It does not: all random reads take the same time.
    Uniform,
    /// It may.
    MayRotate,
}

/// Random reads, and whether they can come from a rotating disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationTest {
    /// Whether the device rotates.
    pub verdict: RotationVerdict,
    /// The median service time.
    pub median: Duration,
    /// The range between the 10th and the 90th percentile of the service times.
    pub spread: Duration,
    /// The number of reads.
    pub samples: u32,
}

impl fmt::Display for RotationTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, median, spread, samples } = self;
        match verdict {
            RotationVerdict::TooFast => write!(
                f,
                "not rotating: random reads complete sooner than an arm can move, \
                 half of {samples} within {median}"
            ),
            RotationVerdict::Uniform => write!(
                f,
                "not rotating: {samples} random reads took about {median}, \
                 eight of ten within {spread} of one another"
            ),
            RotationVerdict::MayRotate => write!(
                f,
                "may be rotating: half of {samples} random reads took {median}, \
                 as on rotating disks"
            ),
        }
    }
}

/// The quantity that a rate limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitedQuantity {
    /// Commands of any length.
    Commands,
    /// Bytes.
    Bytes,
}

/// A rate limit: a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The quantity that is limited.
    pub of: LimitedQuantity,
    /// The fill rate of the bucket, per second.
    pub per_second: Figure<u64>,
    /// The tokens that were in the bucket when measuring began, zero if there were too few to be
    /// seen. This is the bucket's size if it was full.
    pub burst: Figure<u64>,
}

/// The order of the addresses of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessPattern {
    /// Each command begins where the command before it ended.
    Sequential,
    /// Each command begins at a random address.
    Random,
}

/// Throughput and latency of one kind of command at one queue depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Reads or writes.
    pub op: Op,
    /// The order of the addresses.
    pub access: AccessPattern,
    /// The length of a command.
    pub len: Sectors,
    /// The number of commands in flight.
    pub depth: u32,
    /// The mean time between two completions, the inverse of commands per second.
    pub interval: Figure<Duration>,
    /// The mean latency, without outliers.
    pub latency: Figure<Duration>,
    /// The 99th percentile of the latency.
    pub latency_p99: Duration,
    /// The longest latency.
    pub latency_max: Duration,
}

/// Latency of reads during a stream of writes, and of reads alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadsDuringWrites {
    /// The mean latency of random reads of 4 KiB without other load.
    pub alone: Figure<Duration>,
    /// Their mean latency during a stream of writes.
    pub mean: Figure<Duration>,
    /// The 99th percentile of their latency during a stream of writes.
    pub p99: Duration,
    /// Their longest latency during a stream of writes.
    pub max: Duration,
}

/// The time of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushTime {
    /// The number of scattered writes of 4 KiB before the flush.
    pub writes: u32,
    /// The mean time.
    pub time: Figure<Duration>,
}
