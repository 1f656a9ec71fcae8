//! The shapes that every command prints alike with `--json`.

use serde::Serialize;

use crate::{DeclaredReport, ErrorMs, LatencyMs};

/// The version of every JSON shape that Spindle prints.
pub const SCHEMA: u32 = 1;

/// One disk's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskReport {
    /// As in the plan.
    pub name: String,
    /// The share of the run in which it had work.
    pub busy_share: f64,
    /// Read and written.
    pub bytes_per_s: f64,
    /// How far off the estimates of its requests were; nothing where nobody estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_error_ms: Option<ErrorMs>,
}

/// One volume's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeReport {
    /// As in the plan.
    pub name: String,
    /// The share of its disk's time that it is promised, as a fraction of one.
    pub reserve: f64,
    /// The most that it may get, as a fraction of one.
    pub limit: f64,
    /// What it got: its disk time as a fraction of the run.
    pub disk_time_share: f64,
    /// Requests answered.
    pub requests: u64,
    /// Read and written.
    pub bytes: u64,
    /// Requests answered a second.
    pub iops: f64,
    /// Read and written.
    pub bytes_per_s: f64,
    /// From a request's arrival to its answer.
    pub latency_ms: LatencyMs,
    /// Deadlines that were promised and missed.
    pub deadline_misses: u64,
    /// Requests of an open loop that found the backlog full and were not sent.
    pub dropped: u64,
    /// How far off the estimates of its requests were; nothing where nobody estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_error_ms: Option<ErrorMs>,
    /// What its reserve was worked out from, and whether that still fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredReport>,
}
