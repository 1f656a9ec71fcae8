//! Counter-offers: what would fit in place of a refused stream.

use units::Bytes;

use super::demand_bound::Candidate;
use super::{Task, TaskSet};

/// The bandwidth and block size that a stream requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedStream {
    /// Bytes a second.
    pub bandwidth: Bytes,
    /// Bytes a request.
    pub block: Bytes,
}

/// Alternatives that fit: each passed the same check, and changes one quantity only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterOffers {
    /// The largest block, among the halvings of the requested one, that fits at the requested
    /// bandwidth.
    pub block: Option<Bytes>,
    /// The largest bandwidth, in bytes a second, that fits with the requested block.
    pub bandwidth: Option<Bytes>,
}

impl CounterOffers {
    /// Searches for alternatives that fit beside `set`. `task` computes a stream's demand on the
    /// disk; `None` is a stream that the disk cannot serve at all, such as one with a block that is
    /// not a whole number of sectors. With a smaller bandwidth the period must not be shorter, and
    /// the cost must be the same.
    pub fn find(
        set: &TaskSet,
        asked: RequestedStream,
        task: impl FnMut(RequestedStream) -> Option<Task>,
    ) -> Self {
        Self::find_by(asked, task, |task, counts| set.check_candidate(task, counts).is_ok())
    }

    pub(super) fn find_by(
        asked: RequestedStream,
        mut task: impl FnMut(RequestedStream) -> Option<Task>,
        fits: impl Fn(Task, Candidate) -> bool,
    ) -> Self {
        let halves = core::iter::successors(Some(asked.block.0 / 2), |block| Some(block / 2));
        let block = halves.take_while(|&block| block > 0).map(Bytes).find(|&block| {
            task(RequestedStream { block, ..asked })
                .is_some_and(|task| fits(task, Candidate::Whole))
        });
        let with = |bandwidth: u64| task(RequestedStream { bandwidth: Bytes(bandwidth), ..asked });
        let bandwidth = largest_bandwidth(asked.bandwidth, with, fits);
        debug_assert!(block.is_none_or(|block| block < asked.block), "an offer is a smaller block");
        debug_assert!(
            bandwidth.is_none_or(|rate| rate < asked.bandwidth),
            "or a smaller bandwidth"
        );
        Self { block, bandwidth }
    }
}

/// The largest bandwidth below the requested one that fits.
///
/// With a longer period a task demands less everywhere and is blocked by fewer tasks; but it blocks
/// more, up to its own period. So the periods that fit are an interval: from the shortest at which
/// its *demand* fits (which grows with bandwidth, so that bisection finds it) to the longest at
/// which its *command* does. If the first of them does not fit, none does. (Where preemptions have
/// a cost, a longer period also adds to what others pay, and a smaller bandwidth might still fit.)
fn largest_bandwidth(
    asked: Bytes,
    mut task: impl FnMut(u64) -> Option<Task>,
    fits: impl Fn(Task, Candidate) -> bool,
) -> Option<Bytes> {
    let (mut low, mut high) = (0, asked.0);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        debug_assert!(low < middle, "a bisection raises its lower bound");
        debug_assert!(middle < high, "or reduces its upper bound");
        // No task at a lower bandwidth is one whose period is too long: as a demand it is less than
        // any.
        if task(middle).is_none_or(|task| fits(task, Candidate::OnlyDemands)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    debug_assert!(low <= asked.0, "an offer is at most what was requested");
    let found = task(low).filter(|_| low > 0)?;
    fits(found, Candidate::Whole).then_some(Bytes(low))
}
