//! The scrub of the pool.

use daemon::ScrubView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use volume::pool::ScrubPhase;

/// The scrub of a pool that goes on, or the last one: it reads every copy of every block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolScrub {
    /// Whether it goes on.
    pub running: bool,
    /// Whether it was stopped before all was read.
    pub stopped: bool,
    /// Whether it waits until copies are equal, or until the pool can be written.
    pub waiting: bool,
    /// When it began, in seconds since 1970; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// When all was read; absent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// What it has read, of all copies.
    pub read_bytes: u64,
    /// What is left to be read; an estimate while volumes grow, shrink or are written to first.
    pub left_bytes: u64,
    /// Copies that could not be read, were written from another, and then were read.
    pub mended: u64,
    /// Copies that cannot be read although they were written from another.
    pub unmended: u64,
    /// Blocks of 1 MiB that can be read from no copy.
    pub lost: u64,
    /// Blocks whose copies differ; none of them was changed.
    pub differing: u64,
    /// How fast it read in the last 30 s; absent while there is no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// The time until all is read at that rate; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_s: Option<f64>,
}

impl From<ScrubView> for PoolScrub {
    fn from(scrub: ScrubView) -> Self {
        Self {
            running: scrub.phase == ScrubPhase::Running,
            stopped: scrub.phase == ScrubPhase::Stopped,
            waiting: scrub.is_waiting,
            began: scrub.began,
            ended: scrub.ended,
            read_bytes: scrub.read.0,
            left_bytes: scrub.left.0,
            mended: scrub.mended,
            unmended: scrub.unmended,
            lost: scrub.lost,
            differing: scrub.differing,
            bytes_per_s: scrub.estimate.map(|estimate| estimate.bytes_per_s),
            time_left_s: scrub.estimate.map(|estimate| estimate.time_left.as_secs_f64()),
        }
    }
}
