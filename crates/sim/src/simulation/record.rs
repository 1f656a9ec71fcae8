//! The requests of a run, one by one, for those that look at more than sums.

use config::VolumeIndex;
use engine::{Outcome, Reply};
use units::{DiskTime, Duration, Instant, Operation};

/// The largest number of requests that a run records: 350 MB of memory.
pub const RECORDED_MAX: usize = 1 << 22;

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Its volume: the place in [`Report::volumes`](crate::Report::volumes).
    pub volume: VolumeIndex,
    /// What it did, in the sectors of its disk, or of its volume if that is a pool's.
    pub operation: Operation,
    /// When it was sent.
    pub sent: Instant,
    /// When it was answered.
    pub answered: Instant,
    /// From then until its first command was issued; zero in a pool, which has it by disk.
    pub waited: Duration,
    /// The disk time that its volume was charged for it; zero in a pool.
    pub disk_time: DiskTime,
    /// Whether it failed.
    pub failed: bool,
}

/// What a run records of its requests.
#[derive(Debug, Default)]
pub(super) struct Record {
    is_on: bool,
    requests: Vec<RecordedRequest>,
    /// Requests beyond [`RECORDED_MAX`].
    left_out: u64,
}

impl Record {
    /// Records the answers from now on.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Takes what was recorded, and the number of requests beyond the limit.
    pub(super) fn take(&mut self) -> (Vec<RecordedRequest>, u64) {
        (core::mem::take(&mut self.requests), core::mem::take(&mut self.left_out))
    }

    /// Records an answer.
    pub(super) fn add(
        &mut self,
        volume: usize,
        (operation, sent): (Operation, Instant),
        reply: &Reply,
        answered: Instant,
    ) {
        self.push(RecordedRequest {
            volume: VolumeIndex(volume),
            operation,
            sent,
            answered,
            waited: reply.waited,
            disk_time: reply.disk_time,
            failed: reply.outcome == Outcome::Failed,
        });
    }

    /// Records an answer of the pool.
    pub(super) fn add_to_pool(
        &mut self,
        volume: usize,
        (operation, sent): (Operation, Instant),
        is_done: bool,
        answered: Instant,
    ) {
        self.push(RecordedRequest {
            volume: VolumeIndex(volume),
            operation,
            sent,
            answered,
            waited: Duration::ZERO,
            disk_time: DiskTime::ZERO,
            failed: !is_done,
        });
    }

    fn push(&mut self, request: RecordedRequest) {
        if !self.is_on {
            return;
        }
        if self.requests.len() == RECORDED_MAX {
            self.left_out += 1;
            return;
        }
        self.requests.push(request);
    }
}
