//! Handover: where one task ends and another begins, intervals that lie in both times.
//!
//! That the tasks fit before a moment e, and fit after it, is not enough. With periods and costs of
//! (10, 4) until e, (14, 7) from e on, and (23, 8) and (59, 7) all the time, both sets fit if none
//! but the last has commands longer than 1. But the last one's command of 7 may begin at e − 11 and
//! end at e − 4; 4 + 8 are released at e − 10 and 7 at e, all due by e + 14: 19 of work for 18 of
//! time. (Without blocking it would be enough: what is due in an interval is at most U times its
//! length on either side of e.)
//!
//! Two tests, both safe. Nothing blocks longer than the longest deadline; and demand is at most
//! U·t and K, with U at the busiest time, so that no interval above K ÷ (1 − U) that nothing blocks
//! has a shortfall. The larger of the two is the *reach*: if all tasks that are present within that
//! distance of e fit together, no interval has a shortfall. This is fast, but refuses tasks that
//! take over from each other. For those, if all deadlines are periods, the intervals are examined:
//! demand is that of the requests whose whole time lies in both the interval and their task's span.
//! Moved to later times, an interval loses demand only where a request of a task that ends is cut
//! off at its beginning, and its blocking where the blocking task's last request would be due too
//! late: the examined intervals begin there.

use units::{DiskTime, Duration, Instant};

use super::demand_bound::{BlockingFunction, Candidate, DemandBound, horizon, nanos};
use super::set::check;
use super::span::Span;
use super::{BlockingTask, Task, Utilization, Violation};
use crate::limits::STREAM_WORK_MAX;

/// A task and its span; its cost includes preemptions.
#[derive(Clone, Copy, Debug)]
pub(super) struct BookedTask {
    pub(super) whose: BlockingTask,
    pub(super) task: Task,
    pub(super) span: Span,
}

/// The longest interval that may have a shortfall where the tasks that are present at each instant
/// fit together. `all` is sorted by deadline.
pub(super) fn reach(all: &[BookedTask]) -> Duration {
    debug_assert!(all.is_sorted_by_key(|present| present.task.deadline()), "by deadline");
    let longest = all.last().map_or(Duration::ZERO, |present| present.task.deadline());
    let excess = excess(all).as_nanos();
    if excess == 0 {
        return longest;
    }
    longest.max(duration(horizon(excess, busiest(all))))
}

/// K of all of these.
pub(super) fn excess(all: &[BookedTask]) -> DiskTime {
    let excess = all.iter().map(|present| present.task.excess(DiskTime::ZERO));
    let sum = excess.fold(DiskTime::ZERO, |sum, excess| sum + excess);
    debug_assert!(sum >= DiskTime::ZERO, "an excess is not negative: {sum}");
    sum
}

/// The largest utilization at any instant.
pub(super) fn busiest(all: &[BookedTask]) -> Utilization {
    let mut changes: Vec<(Instant, bool, u128)> = Vec::new();
    for BookedTask { task, span, .. } in all {
        let share = Utilization::of(task).0;
        // A task that ends precedes one that begins at the same time: `false` is sorted first.
        changes.extend([(span.end, false, share), (span.start, true, share)]);
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, comes, share) in changes {
        now = if comes { now + share } else { now - share };
        most = most.max(now);
    }
    debug_assert_eq!(now, 0, "each task that begins ends");
    Utilization(most)
}

/// The tasks of `all` that are present at some moment of `span`, sorted by deadline.
pub(super) fn within(all: &[BookedTask], span: Span) -> Vec<BookedTask> {
    assert!(span.start <= span.end, "a span does not end before it begins");
    all.iter().filter(|present| present.span.overlaps(&span)).copied().collect()
}

/// Whether all of them fit at once.
pub(super) fn together(tasks: &[BookedTask], counts: Candidate) -> Result<(), Violation> {
    debug_assert!(tasks.is_sorted_by_key(|present| present.task.deadline()), "by deadline");
    let tasks = tasks.iter().map(|present| (present.whose, present.task));
    check(&DemandBound::new(tasks, DiskTime::ZERO, counts))
}

/// Checks the intervals of up to `reach` around `end`, where a task ends. `all` is sorted by
/// deadline.
pub(super) fn fits_around(
    all: &[BookedTask],
    end: Instant,
    reach: Duration,
    counts: Candidate,
    work: &mut u64,
) -> Result<(), Violation> {
    debug_assert!(all.is_sorted_by_key(|present| present.task.deadline()), "by deadline");
    debug_assert!(end < Instant::FAR_FUTURE, "a task ends there");
    let near = Span { start: end.saturating_sub(reach), end: end + reach };
    let nearby = within(all, near);
    *work += nearby.len() as u64;
    let comes = nearby.iter().any(|present| present.span.start > near.start);
    let verdict = if comes { together(&nearby, counts) } else { Ok(()) };
    let is_examined = nearby.iter().all(|present| present.task.has_implicit_deadline());
    if verdict.is_ok() || !is_examined {
        return verdict;
    }
    let longest = nearby.last().map_or(Duration::ZERO, |present| present.task.period());
    for leaving in nearby.iter().filter(|present| present.span.end == end) {
        for from in interval_starts(leaving, longest) {
            blocked_from(&nearby, from, counts, work)?;
        }
    }
    Ok(())
}

/// The beginnings of intervals that have the most demand of a task that ends, or are blocked by it.
fn interval_starts(leaving: &BookedTask, longest: Duration) -> impl Iterator<Item = Instant> {
    let BookedTask { task, span, .. } = *leaving;
    debug_assert!(task.period() <= longest, "no period is longer than the longest");
    debug_assert!(!span.is_empty(), "a booking takes time");
    let whole = (1..=longest.as_nanos() / task.period().as_nanos()).map_while(move |requests| {
        let back = task.period() * requests;
        (span.end.since(span.start) >= back).then(|| span.end.saturating_sub(back))
    });
    let blocks = span.end.saturating_sub(task.period()) + Duration::from_nanos(1);
    whole.chain(core::iter::once(blocks))
}

/// Condition (2) for the intervals that begin at `from`.
fn blocked_from(
    tasks: &[BookedTask],
    from: Instant,
    counts: Candidate,
    work: &mut u64,
) -> Result<(), Violation> {
    let mut blocking = BlockingFunction::default();
    for BookedTask { whose, task, span } in tasks {
        // The blocking command began 1 ns before, and is due when its period is over.
        let due = from.as_nanos().saturating_add(task.period().as_nanos()).saturating_sub(1);
        let counts = *whose != BlockingTask::Candidate || counts == Candidate::Whole;
        if counts && span.start < from && due <= span.end.as_nanos() {
            blocking.push(*whose, task);
        }
    }
    let Some(mut t) = blocking.reach() else { return Ok(()) };
    while t > 0 {
        *work += tasks.len() as u64;
        if *work > STREAM_WORK_MAX {
            return Err(Violation::Undecided { interval: duration(t + 1) });
        }
        let demand = demand_from(tasks, from, t);
        debug_assert!(demand >= 0, "demand is not negative: {demand}");
        if demand == 0 {
            return Ok(());
        }
        let step = blocking.at(t).expect("no interval beyond the last step is examined");
        debug_assert!(step.reach >= t, "the step blocks an interval of this length");
        let room = t - demand - step.blocking;
        if room < 0 {
            let short = DiskTime::from_nanos(-room);
            let (interval, beside) = (duration(t + 1), step.task_id);
            return Err(Violation::Blocked { interval, beside, short });
        }
        let below = blocking.first_above(demand) - 1;
        debug_assert!(below < t, "the search goes backwards");
        t = below;
    }
    Ok(())
}

/// The demand from `from` until t ns later, of each task in its own span.
fn demand_from(tasks: &[BookedTask], from: Instant, t: i64) -> i64 {
    debug_assert!(t > 0, "an interval has a length");
    let until = from + duration(t);
    let of = |present: &BookedTask| {
        let (start, end) = (present.span.start.max(from), present.span.end.min(until));
        let period = nanos(present.task.period()).unsigned_abs();
        let requests = end.saturating_since(start).as_nanos() / period;
        i64::try_from(requests).expect("it is at most t") * present.task.cost().as_nanos()
    };
    tasks.iter().map(of).sum()
}

fn duration(nanos: i64) -> Duration {
    debug_assert!(nanos >= 0, "a length is not negative: {nanos}");
    Duration::from_nanos(nanos.unsigned_abs())
}
