//! What a run has to tell, in the shape of `spindle sim run --json`.

use report::{DiskReport, VolumeReport};
use serde::Serialize;

use crate::Verdict;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`report::SCHEMA`].
    pub schema: u32,
    /// Where the dice started.
    pub seed: u64,
    /// How long the run was, in virtual seconds.
    pub duration_s: f64,
    /// The disks, in the plan's order.
    pub disks: Vec<DiskReport>,
    /// The volumes, in the plan's order.
    pub volumes: Vec<VolumeReport>,
    /// What the oracles watched, and how much of it.
    pub oracles: Verdict,
}
