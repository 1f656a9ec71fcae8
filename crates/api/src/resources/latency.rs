//! Bounded latencies: times within which requests of a bounded rate are answered.

use config::LatencyEdit;
use engine::stream::RequestedLatency;
use engine::{LatencyContract, LatencyStats};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A bounded latency: each read and write within a rate is answered within a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencySpec {
    /// The time from a request's arrival to its answer.
    #[schema(example = "80ms")]
    pub within: String,
    /// The rate of the requests that are answered in time.
    #[schema(example = "20/s")]
    pub requests: String,
    /// The number of requests that may arrive at once. Default: 1.
    #[schema(example = 4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i64>,
    /// The largest request that counts, up to 32MiB.
    #[schema(example = "64KiB")]
    pub size: String,
}

/// A volume's bounded latency, and its requests since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// The time from a request's arrival to its answer.
    pub within_ms: f64,
    /// The requests a second that are answered in time.
    pub requests_per_s: f64,
    /// The number of requests that may arrive at once.
    pub burst: u32,
    /// The largest request that counts.
    pub size: String,
    /// The worst-case disk time of a request; of one of its pieces for a volume of the pool.
    pub cost_ms: f64,
    /// The number of answered requests within the contract. A request of a volume of the pool
    /// counts once for each of its pieces.
    pub answered: u64,
    /// The number of these that were answered after their deadlines.
    pub late: u64,
    /// The number of reads and writes outside of the contract: beyond its rate, or larger than its
    /// size.
    pub beyond: u64,
    /// The least time that an answer left to its deadline; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closest_ms: Option<f64>,
}

/// The edit that sets this bounded latency.
pub(super) fn latency_edit(spec: LatencySpec) -> LatencyEdit {
    let LatencySpec { within, requests, burst, size } = spec;
    LatencyEdit::Put { within, requests, burst, size }
}

/// A bounded latency as the API shows it, with its contract on one disk.
pub(super) fn latency_of(
    requested: RequestedLatency,
    on_disk: &LatencyContract,
    stats: LatencyStats,
) -> Latency {
    let RequestedLatency { within, interval, burst, size } = requested;
    let LatencyStats { answered, late, beyond, closest } = stats;
    Latency {
        within_ms: within.as_millis_f64(),
        requests_per_s: 1.0 / interval.as_secs_f64(),
        burst,
        size: config::size_text(size.bytes()),
        cost_ms: on_disk.cost().as_secs_f64() * 1e3,
        answered,
        late,
        beyond,
        closest_ms: closest.all().map(units::Duration::as_millis_f64),
    }
}
