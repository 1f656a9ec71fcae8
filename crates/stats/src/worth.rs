//! The worth of a reserve, in a report.

use serde::Serialize;

use crate::LatencyMs;

/// What a client got beside others, divided by what the same client gets alone on a drive slowed
/// to its reserve. Both are measured, without the start of their runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorthReport {
    /// `rate` ÷ `reference_rate`.
    pub value: f64,
    /// Requests answered a second, beside the others.
    pub rate: f64,
    /// Requests answered a second, alone on the slowed drive.
    pub reference_rate: f64,
    /// Latencies beside the others.
    pub latency_ms: LatencyMs,
    /// Latencies alone on the slowed drive.
    pub reference_latency_ms: LatencyMs,
}
