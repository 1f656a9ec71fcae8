//! Seeks, command overheads, caches and queueing of a drive.

use units::{Bytes, Duration, Sectors, Share};

use super::figure::Figure;
use super::stage::Stage;

/// Seeks, overheads, caches and queueing. Each part is filled as soon as it is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamics {
    /// Seek times before reads.
    pub seek: Option<Seeks>,
    /// Seek times before writes, settling included.
    pub seek_write: Option<Seeks>,
    /// Command overheads beside the media time.
    pub overheads: Overheads,
    /// The cache for reads.
    pub read_buffer: Option<ReadBuffer>,
    /// The write buffer.
    pub write_buffer: Option<WriteBuffer>,
    /// Throughput of sequential reads against the length of a command (FAST 2003, figure 5).
    pub chunks_read: Option<Chunks>,
    /// Throughput of sequential writes against the length of a command (FAST 2003, figure 6).
    pub chunks_write: Option<Chunks>,
    /// Random reads of a block at rising queue depths.
    pub depths: Vec<DepthPoint>,
    /// Random reads during a sequential stream.
    pub starvation: Option<Starvation>,
    /// The accuracy of rotational predictions.
    pub prediction: Option<Prediction>,
}

impl Dynamics {
    /// The stages with figures, and the confidence of each figure.
    pub(super) fn confidences(&self) -> Vec<(Stage, Share)> {
        let Overheads { hit, read, cached, write, seek, bus_read, bus_write, .. } = self.overheads;
        let switches = [self.overheads.head_switch, self.overheads.head_switch_write];
        let times = [hit, cached, write, seek, bus_read, bus_write].into_iter().chain(switches);
        let sure = |figure: Figure<Duration>| figure.confidence;
        let mut all: Vec<_> =
            times.flatten().map(|figure| (Stage::Overheads, sure(figure))).collect();
        all.extend(read.map(|figure| (Stage::Seeks, sure(figure))));
        if let Some(memory) = &self.read_buffer {
            let sure =
                [memory.ahead.confidence, memory.segments.confidence, memory.segment.confidence];
            all.extend(sure.map(|sure| (Stage::ReadBuffer, sure)));
        }
        if let Some(memory) = &self.write_buffer {
            all.extend(memory.size.map(|figure| (Stage::WriteBuffer, figure.confidence)));
            all.extend(memory.destage.map(|figure| (Stage::WriteBuffer, figure.confidence)));
        }
        let ranges = [&self.chunks_read, &self.chunks_write].into_iter().flatten();
        all.extend(ranges.filter_map(|range| range.confidence).map(|sure| (Stage::Chunks, sure)));
        all
    }
}

/// Seek time against distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeks {
    /// Points at rising distances, with linear interpolation between them.
    pub points: Vec<SeekPoint>,
    /// The seek time to the next cylinder.
    pub least: Duration,
    /// The mean seek time between uniformly random cylinders.
    pub mean: Duration,
    /// The seek time from the first cylinder to the last.
    pub full_stroke: Duration,
    /// The number of seeks that the curve was measured from.
    pub samples: u32,
}

/// One point of a seek curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekPoint {
    /// The distance, in cylinders.
    pub distance: u32,
    /// The median seek time.
    pub time: Duration,
    /// The standard error of the median.
    pub error: Duration,
    /// The standard deviation of single seeks.
    pub variation: Duration,
}

/// Times between a command's submission and its effect.
///
/// If [`Overheads::path`] is known, the other overheads are the drive's alone. Otherwise they
/// include the latency of the path from the host to the drive and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// The latency of the path to the drive and back, where the target can time it alone.
    pub path: Option<Figure<Duration>>,
    /// A cache hit of a read, until its data is on the bus.
    pub hit: Option<Figure<Duration>>,
    /// A read from the media, until the arm moves, and the delay of its completion after its last
    /// sector.
    pub read: Option<Figure<Duration>>,
    /// A write into the write buffer, until the drive accepts data.
    pub cached: Option<Figure<Duration>>,
    /// A write with forced unit access, until the arm moves, with the same completion delay as
    /// reads and its data transfer.
    pub write: Option<Figure<Duration>>,
    /// A seek command over zero distance.
    pub seek: Option<Figure<Duration>>,
    /// The transfer of one sector of a read on the bus.
    pub bus_read: Option<Figure<Duration>>,
    /// The transfer of one sector of a write on the bus.
    pub bus_write: Option<Figure<Duration>>,
    /// The share of a read that comes off the media before its data goes on the bus, where the
    /// two do not overlap.
    pub read_share: Option<Figure<Share>>,
    /// A head switch on one cylinder before a read.
    pub head_switch: Option<Figure<Duration>>,
    /// A head switch on one cylinder before a write.
    pub head_switch_write: Option<Figure<Duration>>,
}

/// The cache for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBuffer {
    /// The sectors that the drive reads ahead of a read of one block if no other command comes.
    pub ahead: Figure<Sectors>,
    /// Whether read-ahead stops at the end of a track.
    pub ends_with_track: bool,
    /// Whether read-ahead continues on the next track after a read that ends with its track.
    pub reads_next_track: bool,
    /// Whether a read of a sector that is about to pass is served in the same revolution, where
    /// that was observable.
    pub waits: Option<bool>,
    /// Whether data that was read ahead stays in the cache after its first use, where that was
    /// observable.
    pub keeps: Option<bool>,
    /// The number of cache segments.
    pub segments: Figure<u32>,
    /// The longest segment.
    pub segment: Figure<Sectors>,
}

/// The write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    /// Whether writes complete before they are on the media.
    pub write_back: bool,
    /// The amount of data that it accepts before writes wait, if it was ever full.
    pub size: Option<Figure<Sectors>>,
    /// The number of scattered writes that it accepts before writes wait, where that limit is
    /// reached first.
    pub runs: Option<u32>,
    /// The additional flush time for each scattered write before the flush.
    pub destage: Option<Figure<Duration>>,
    /// Whether the drive destages within a second without a flush.
    pub destages_when_idle: bool,
}

/// Throughput of a sequential stream against the length of its commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Throughput at rising lengths.
    pub points: Vec<ChunkPoint>,
    /// The shortest and the longest chunk of the optimal range (FAST 2003, figure 3: a and b).
    pub optimal: (Sectors, Sectors),
    /// The probability that each length is correctly in the range or outside of it.
    pub confidence: Option<Share>,
}

/// Throughput at one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPoint {
    /// The length of each command.
    pub chunk: Sectors,
    /// Bytes per second as observed by this host, its delays included.
    pub seen: Bytes,
    /// Bytes per second without the host's delays.
    pub drive: Bytes,
}

/// Random reads at one queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthPoint {
    /// Commands in flight.
    pub depth: u32,
    /// Reads in a thousand seconds.
    pub per_1000_s: u64,
    /// The number of reads.
    pub samples: u32,
}

/// The latency of random reads during a sequential stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starvation {
    /// Queue depths, the random read included, and its longest latency.
    pub waits: Vec<(u32, Duration)>,
    /// The greatest depth up to which the random read did not starve.
    pub safe_depth: u32,
}

/// The accuracy of predictions of a sector's passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The standard deviation of completions about their prediction, modulo revolutions.
    pub noise: Duration,
    /// The time before its sector at which a command's heads were predicted to arrive.
    pub offset: Duration,
    /// The share of commands that missed a revolution nevertheless.
    pub missed: Share,
    /// The number of commands.
    pub samples: u32,
    /// Whether just-in-time seeks gain more than they cost.
    pub just_in_time_gains: bool,
}
