//! What a run has to tell, in the shape of `spindle sim run --json`.

use serde::Serialize;
use stats::{DiskReport, VolumeReport};

use crate::Verdict;

/// One trace's replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Its file.
    pub file: String,
    /// Requests sent, those among them that were dropped included.
    pub sent: u64,
    /// Requests that began or ended within a sector, and were widened to all of it.
    pub widened: u64,
    /// Whether it was replayed to its end: a run may be too short for it.
    pub whole: bool,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`stats::SCHEMA`].
    pub schema: u32,
    /// Where the dice started.
    pub seed: u64,
    /// How long the run was, in virtual seconds.
    pub duration_s: f64,
    /// The disks, in the plan's order.
    pub disks: Vec<DiskReport>,
    /// The volumes, in the plan's order.
    pub volumes: Vec<VolumeReport>,
    /// The traces that were replayed, in the order of their workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
    /// What the oracles watched, and how much of it.
    pub oracles: Verdict,
}
