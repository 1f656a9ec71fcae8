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

/// What a pool did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolReport {
    /// Its volumes, its metadata and its relocation on each disk.
    pub parts: Vec<VolumeReport>,
    /// The changes that were made, in the order of their beginning.
    pub changes: Vec<ChangeReport>,
    /// The blocks that were relocated, in bytes.
    pub relocated_bytes: u64,
    /// When the last of them was written, in virtual seconds; `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relocated_s: Option<f64>,
    /// Blocks that are not where their volumes belong, in bytes.
    pub misplaced_bytes: u64,
}

/// A change of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Its volume.
    pub volume: String,
    /// "snapshot" or "relocate".
    pub action: &'static str,
    /// When it began, in virtual seconds.
    pub begun_s: f64,
    /// When it was committed or refused; `None`: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_s: Option<f64>,
    /// Why it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
    /// The volumes, in the plan's order: those of one disk, those of the pool, snapshots. What a
    /// pool's volume has of disk time is added up over its disks.
    pub volumes: Vec<VolumeReport>,
    /// The pool, if the plan has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolReport>,
    /// The traces that were replayed, in the order of their workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
    /// What the oracles checked.
    pub oracles: OracleCounts,
}
