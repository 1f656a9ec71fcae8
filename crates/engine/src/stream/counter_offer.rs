//! Counter-offers: what would fit in place of a refused stream or a refused latency.

use units::{Bytes, Duration, Sectors};

use super::demand_bound::Candidate;
use super::{Task, TaskSet};
use crate::limits::{LATENCY_MAX, STREAM_PERIOD_MAX};

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

/// The bounded latency that a contract requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedLatency {
    /// The time in which each request is answered.
    pub within: Duration,
    /// The mean time between two requests.
    pub interval: Duration,
    /// The most requests at one instant.
    pub burst: u32,
    /// The most that one request transfers.
    pub size: Sectors,
}

/// Alternatives that fit: each passed the same check, and changes one quantity only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyOffers {
    /// The shortest latency that fits; in whole ms, if that fits too.
    pub within: Option<Duration>,
    /// The shortest mean time between two requests that fits.
    pub interval: Option<Duration>,
    /// The largest burst that fits.
    pub burst: Option<u32>,
    /// The largest request, among the halvings of the requested one, that fits.
    pub size: Option<Sectors>,
}

impl LatencyOffers {
    /// Searches for alternatives that fit beside `set`. `task` computes a contract's demand on the
    /// disk; `None` is a contract that the disk cannot serve at all. Only the size may change the
    /// cost.
    pub fn find(
        set: &TaskSet,
        asked: RequestedLatency,
        task: impl FnMut(RequestedLatency) -> Option<Task>,
    ) -> Self {
        Self::find_by(asked, task, |task, counts| set.check_candidate(task, counts).is_ok())
    }

    pub(super) fn find_by(
        asked: RequestedLatency,
        mut task: impl FnMut(RequestedLatency) -> Option<Task>,
        fits: impl Fn(Task, Candidate) -> bool,
    ) -> Self {
        let mut fits = |asked, counts| task(asked).is_some_and(|task| fits(task, counts));
        let halves = core::iter::successors(Some(asked.size.0 / 2), |size| Some(size / 2));
        let size = halves
            .take_while(|&size| size > 0)
            .map(Sectors)
            .find(|&size| fits(RequestedLatency { size, ..asked }, Candidate::Whole));
        // With fewer requests, or later ones, the demand is less everywhere and the blocking as
        // before.
        let burst = first_true(1, asked.burst.into(), |less| {
            fits(RequestedLatency { burst: fewer(asked.burst, less), ..asked }, Candidate::Whole)
        });
        let burst = burst.map(|less| fewer(asked.burst, less));
        let longest = STREAM_PERIOD_MAX.as_nanos();
        debug_assert!(asked.interval > Duration::ZERO, "a rate has an interval");
        let interval = first_true(asked.interval.as_nanos(), longest + 1, |nanos| {
            let interval = Duration::from_nanos(nanos);
            fits(RequestedLatency { interval, ..asked }, Candidate::Whole)
        });
        let within = shortest_latency(asked, &mut fits);
        debug_assert!(within.is_none_or(|within| within >= asked.within), "or a longer latency");
        debug_assert!(size.is_none_or(|size| size < asked.size), "an offer is a smaller request");
        debug_assert!(burst.is_none_or(|burst| burst < asked.burst), "or a smaller burst");
        Self { within, interval: interval.map(Duration::from_nanos), burst, size }
    }
}

fn fewer(burst: u32, less: u64) -> u32 {
    debug_assert!(less < burst.into(), "a burst is not empty");
    burst - u32::try_from(less).expect("it is less than the burst")
}

/// The shortest latency above the requested one that fits.
///
/// With a later deadline a task demands less everywhere, and blocks longer intervals; but none in
/// which it has a demand of its own. So if its command does not fit with the shortest deadline at
/// which its demand does, it fits with no later one.
fn shortest_latency(
    asked: RequestedLatency,
    fits: &mut impl FnMut(RequestedLatency, Candidate) -> bool,
) -> Option<Duration> {
    const STEP: u64 = Duration::from_millis(1).as_nanos();
    let longest = LATENCY_MAX.as_nanos();
    let with = |nanos| RequestedLatency { within: Duration::from_nanos(nanos), ..asked };
    let first = first_true(asked.within.as_nanos(), longest + 1, |nanos| {
        fits(with(nanos), Candidate::OnlyDemands)
    })?;
    debug_assert!(first >= asked.within.as_nanos(), "an offer is a longer latency");
    let whole = first.next_multiple_of(STEP).min(longest);
    let mut offers = [whole, first].into_iter().map(with);
    offers.find(|&offer| fits(offer, Candidate::Whole)).map(|offer| offer.within)
}

/// The first from `low` until before `end` for which `holds`, which then holds for all later ones.
fn first_true(low: u64, end: u64, mut holds: impl FnMut(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (low, end.max(low));
    while low < high {
        let middle = low + (high - low) / 2;
        debug_assert!(middle < high, "a bisection ends");
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    debug_assert!(low >= high, "the search is over");
    (low < end).then_some(low)
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
