//! Streams: bandwidths whose blocks each meet a deadline.

use config::StreamEdit;
use engine::DeadlineStats;
use engine::stream::{RequestedStream, Span, Task};
use serde::{Deserialize, Serialize};
use units::Instant;
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
}

/// A volume's stream, and its met and missed deadlines since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Bytes per second.
    pub bandwidth: String,
    /// Bytes per request.
    pub block: String,
    /// The time from a block's release to its deadline, which is the next block's release.
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
    /// The number of blocks answered by their deadlines.
    pub met: u64,
    /// The number of blocks answered later.
    pub missed: u64,
    /// The largest time from a deadline to its block's reply.
    pub lateness_max_ms: f64,
}

/// The edit that sets this stream.
pub(super) fn stream_edit(spec: StreamSpec) -> StreamEdit {
    let StreamSpec { bandwidth, block, range, span } = spec;
    StreamEdit::Put { bandwidth, block, range, span }
}

/// A stream as the API shows it.
pub(super) fn stream_of(
    (asked, span, task): (RequestedStream, Span, Task),
    deadlines: DeadlineStats,
) -> Stream {
    let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
    let end = Some(span.end).filter(|end| *end < Instant::FAR_FUTURE);
    Stream {
        bandwidth: format!("{}/s", config::decimal_text(asked.bandwidth)),
        block: config::decimal_text(asked.block),
        period_ms: task.period().as_millis_f64(),
        cost_ms: task.cost().as_secs_f64() * 1e3,
        utilization: Some(task.cost().as_secs_f64() / task.period().as_secs_f64()),
        from_s: seconds(span.start),
        until_s: end.map(seconds),
        met: deadlines.met,
        missed: deadlines.missed,
        lateness_max_ms: deadlines.max_lateness.as_millis_f64(),
    }
}
