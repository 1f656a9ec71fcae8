//! Streams: bandwidths whose blocks each meet a deadline.

use config::{DiskIndex, Plan, PoolVolume, StreamEdit, StreamOrder};
use engine::DeadlineStats;
use engine::stream::{RequestedStream, Span, Task};
use serde::{Deserialize, Serialize};
use units::{Bytes, Instant};
use utoipa::ToSchema;

/// A stream: blocks that are released at a constant rate, each with the next release as deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Bytes per second.
    #[schema(example = "817KB/s")]
    pub bandwidth: String,
    /// Bytes per request, up to 32MiB.
    #[schema(example = "1MB")]
    pub block: String,
    /// The part of the volume that is streamed. Default: all of it.
    #[schema(example = "0GiB..2GiB")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Its start and end, counted from the daemon's start. Default: always.
    #[schema(example = json!(["0s", "2h"]))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[String; 2]>,
    /// For a volume of the pool, the order in which its client asks for bytes: `any` or
    /// `sequential`. Default: `any`.
    #[schema(example = "sequential")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// For a volume of the pool of a single layout, the sizes of its parts on its disks, in their
    /// order: each disk keeps the stream only while play is there. Default: no parts.
    #[schema(example = json!(["3GiB", "1GiB"]))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<String>>,
    /// For a mirror, how many of its disks may be lost before the stream is best effort. Default:
    /// one less than there are copies. With fewer, fewer disks keep the stream, and writes are
    /// best effort.
    #[schema(example = 0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survive: Option<i64>,
}

/// A volume's stream, and its met and missed deadlines since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Bytes per second.
    pub bandwidth: String,
    /// Bytes per request.
    pub block: String,
    /// For a volume of the pool, the order in which its client asks for bytes: `any` or
    /// `sequential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The time from a block's release to its deadline, which is the next block's release; for a
    /// volume of the pool those of a block on one disk.
    pub period_ms: f64,
    /// The worst-case disk time of a block.
    pub cost_ms: f64,
    /// The share of the disk's time that it reserves: the cost of a block in each period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = f64)]
    pub utilization: Option<f64>,
    /// Its start, counted from the daemon's start.
    pub from_s: f64,
    /// Its end, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// If the stream has parts, when each disk keeps it, in the order of the volume's disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<StreamPart>,
    /// For a mirror, how many of its disks may be lost before the stream is best effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survive: Option<u8>,
    /// If only some of a mirror's disks keep the stream, those: its reads go to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// The number of blocks answered by their deadlines.
    pub met: u64,
    /// The number of blocks answered later.
    pub missed: u64,
    /// The largest time from a deadline to its block's reply.
    pub lateness_max_ms: f64,
    /// Its bytes, once there are any, under a policy that promises each byte a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<StreamBytes>,
}

/// When a disk keeps a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamPart {
    /// The disk.
    pub disk: String,
    /// The size of the part of the volume that it has.
    pub size: String,
    /// Its start, counted from the daemon's start.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
}

/// The parts of the stream of a pool's volume, if it has some.
pub fn stream_parts(plan: &Plan, volume: &PoolVolume) -> Vec<StreamPart> {
    let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
    let part = |(disk, size, span): (DiskIndex, Bytes, Span)| StreamPart {
        disk: plan.disks[disk.0].name.clone(),
        size: config::size_text(size),
        from_s: seconds(span.start),
        until_s: seconds(span.end),
    };
    volume.disks_of_parts().map(part).collect()
}

/// How a pool's volume keeps its stream.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptInPool {
    pub(super) order: Option<StreamOrder>,
    pub(super) parts: Vec<StreamPart>,
    pub(super) survive: Option<u8>,
    pub(super) disks: Vec<String>,
}

impl KeptInPool {
    /// How the plan has it.
    pub(super) fn of(plan: &Plan, volume: &PoolVolume) -> Self {
        let is_mirror = volume.layout.is_mirror();
        Self {
            order: volume.stream.map(|stream| stream.order),
            parts: stream_parts(plan, volume),
            survive: volume.stream.filter(|_| is_mirror).map(|stream| stream.survive),
            disks: read_disks(plan, volume),
        }
    }
}

/// The names of the disks that keep the stream of a mirror, if others do without.
pub fn read_disks(plan: &Plan, volume: &PoolVolume) -> Vec<String> {
    let name = |disk: DiskIndex| plan.disks[disk.0].name.clone();
    volume.read_disks().unwrap_or_default().into_iter().map(name).collect()
}

/// The bytes of a stream since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamBytes {
    /// Asked for, all but those outside.
    pub asked: u64,
    /// Answered by the time that was promised.
    pub met: u64,
    /// Answered later.
    pub missed: u64,
    /// Asked for by requests that ended a run of bytes within a block: they begin another block.
    /// For a volume of the pool in sequential order, also by those that did not begin where the
    /// one before had ended.
    pub out_of_order: u64,
    /// Asked for earlier than the bandwidth, one block, and the jitter of half a period allow.
    pub beyond_rate: u64,
    /// Not of the stream: outside of its range, of a disk's span, or of the disks that keep it,
    /// trims, and writes of zeroes.
    pub outside: u64,
    /// Transferred by short commands because the client sends few requests at a time.
    pub not_gathered: u64,
    /// The least time that an answer left to the time that was promised; absent before the first
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closest_ms: Option<f64>,
}

impl StreamBytes {
    /// Those that are not real time: beyond the bandwidth, out of order, or outside. Bytes that are
    /// both beyond the bandwidth and out of order count twice.
    pub const fn beyond(&self) -> u64 {
        self.beyond_rate + self.out_of_order + self.outside
    }
}

impl From<engine::StreamBytes> for StreamBytes {
    fn from(bytes: engine::StreamBytes) -> Self {
        Self {
            asked: bytes.asked.bytes().0,
            met: bytes.met.bytes().0,
            missed: bytes.missed.bytes().0,
            out_of_order: bytes.out_of_order.bytes().0,
            beyond_rate: bytes.beyond_rate.bytes().0,
            outside: bytes.outside.bytes().0,
            not_gathered: bytes.not_gathered.bytes().0,
            closest_ms: bytes.closest.all().map(units::Duration::as_millis_f64),
        }
    }
}

/// The edit that sets this stream.
pub(super) fn stream_edit(spec: StreamSpec) -> StreamEdit {
    let StreamSpec { bandwidth, block, range, span, order, parts, survive } = spec;
    StreamEdit::Put { bandwidth, block, range, span, order, parts, survive }
}

/// A stream as the API shows it.
pub(super) fn stream_of(
    (asked, span, task): (RequestedStream, Span, Task),
    KeptInPool { order, parts, survive, disks }: KeptInPool,
    deadlines: DeadlineStats,
) -> Stream {
    let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
    let end = Some(span.end).filter(|end| *end < Instant::FAR_FUTURE);
    Stream {
        bandwidth: format!("{}/s", config::decimal_text(asked.bandwidth)),
        block: config::decimal_text(asked.block),
        order: order.map(|order| config::order_name(order).to_owned()),
        period_ms: task.period().as_millis_f64(),
        cost_ms: task.cost().as_secs_f64() * 1e3,
        utilization: Some(task.cost().as_secs_f64() / task.period().as_secs_f64()),
        from_s: seconds(span.start),
        until_s: end.map(seconds),
        parts,
        survive,
        disks,
        met: deadlines.met,
        missed: deadlines.missed,
        lateness_max_ms: deadlines.max_lateness.as_millis_f64(),
        bytes: (deadlines.bytes != engine::StreamBytes::default()).then(|| deadlines.bytes.into()),
    }
}
