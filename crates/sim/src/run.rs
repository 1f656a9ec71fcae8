//! The report of a run, in the shape of `spindle sim run --json`.

use serde::Serialize;
use stats::{DiskReport, VolumeReport};

use crate::OracleCounts;

/// One trace's replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// The trace's file.
    pub file: String,
    /// Requests sent, including those that were dropped.
    pub sent: u64,
    /// Requests that began or ended within a sector, and were widened to whole sectors.
    pub widened: u64,
    /// Whether the trace was replayed to its end: the run may be shorter.
    pub whole: bool,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`stats::SCHEMA`].
    pub schema: u32,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The length of the run, in virtual seconds.
    pub duration_s: f64,
    /// The disks, in the plan's order.
    pub disks: Vec<DiskReport>,
    /// The volumes, in the plan's order.
    pub volumes: Vec<VolumeReport>,
    /// The traces that were replayed, in the order of their workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
    /// What the oracles checked.
    pub oracles: OracleCounts,
}
