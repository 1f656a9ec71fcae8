//! The demand bound function, blocking and room of an interval, and the search for the minimum
//! room.
//!
//! All times are ns in an `i64`: periods, deadlines and the costs of bursts are at most
//! [`STREAM_PERIOD_MAX`], of which [`STREAM_TASKS_MAX`] add up to less than 2⁶². Demand is computed
//! only where utilization is at most the whole: then it is at most the interval, which is at most
//! [`HORIZON_MAX`], and the excess of bursts.

use core::cmp::Ordering;

use units::{DiskTime, Duration};

use super::task::Utilization;
use super::{BlockingTask, Task};
use crate::limits::{STREAM_PERIOD_MAX, STREAM_TASKS_MAX, STREAM_WORK_MAX};

/// No interval beyond this is examined (2⁶¹ ns, 73 years).
pub(super) const HORIZON_MAX: i64 = 1 << 61;

const _: () =
    assert!(STREAM_PERIOD_MAX.as_nanos() as u128 * 2 * (STREAM_TASKS_MAX as u128 + 1) < (1 << 62));

/// The tasks of a set, prepared for questions about intervals.
#[derive(Clone, Debug)]
pub(super) struct DemandBound {
    /// T, ascending, of the tasks whose deadlines are their periods.
    periods: Vec<i64>,
    /// The costs of the first j of them, with what their preemptions cost.
    costs: Vec<i64>,
    /// All other tasks, by deadline.
    sporadic: Vec<Sporadic>,
    /// K: demand(t) ≤ U·t + K.
    excess: i64,
    /// The least and the largest D.
    ends: Option<(i64, i64)>,
    blocking_function: BlockingFunction,
    utilization: Utilization,
    /// Utilization compared with the whole.
    load: Ordering,
}

/// A task whose deadline is not its period, or that releases several requests at one instant.
#[derive(Clone, Copy, Debug)]
struct Sporadic {
    deadline: i64,
    period: i64,
    burst: i64,
    /// With what its preemptions cost.
    cost: i64,
}

/// The blocking function b(t) as steps, ascending by deadline: each step has a longer command than
/// all later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockingFunction(Vec<BlockingStep>);

/// The longest command among the tasks of this deadline and above.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockingStep {
    /// The largest t that it blocks: D − 2.
    pub(super) reach: i64,
    /// Its part inside the interval: q − 1.
    pub(super) blocking: i64,
    /// The task of the command.
    pub(super) task_id: BlockingTask,
}

/// The minimum room found so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Minimum {
    /// The t where it is.
    pub(super) at: i64,
    /// t − demand(t) − b(t).
    pub(super) room: i64,
    /// The task of b(t).
    pub(super) beside: Option<BlockingTask>,
}

/// The part of the candidate that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// All of it.
    Whole,
    /// Its demand, but not its blocking of others.
    OnlyDemands,
}

/// The extent of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Searched {
    /// All of it.
    Whole,
    /// Down to this t; it and smaller ones were not examined.
    DownTo(i64),
}

impl BlockingFunction {
    /// Adds a task whose deadline is at least that of all previous ones.
    pub(super) fn push(&mut self, task_id: BlockingTask, task: &Task) {
        let blocking = task.longest().as_nanos() - 1;
        debug_assert!(blocking >= 0, "the longest command of a task takes time");
        let (last, reach) = (self.0.last(), nanos(task.deadline()) - 2);
        debug_assert!(last.is_none_or(|last| last.reach <= reach), "by deadline");
        while self.0.last().is_some_and(|last| last.blocking <= blocking) {
            self.0.pop();
        }
        self.0.push(BlockingStep { reach, blocking, task_id });
    }

    /// The longest interval that is blocked.
    pub(super) fn reach(&self) -> Option<i64> {
        self.0.last().map(|step| step.reach)
    }

    /// The step that blocks an interval of length t.
    pub(super) fn at(&self, t: i64) -> Option<&BlockingStep> {
        self.0.get(self.0.partition_point(|step| step.reach < t))
    }

    /// The least t with t − b(t) ≥ `level`. t − b(t) grows with t, so there is one.
    pub(super) fn first_above(&self, level: i64) -> i64 {
        let place = self.0.partition_point(|step| step.reach - step.blocking < level);
        let blocking = self.0.get(place).map_or(0, |step| step.blocking);
        let from = place.checked_sub(1).map_or(0, |before| self.0[before].reach + 1);
        let first = from.max(level + blocking);
        let blocked = self.at(first).map_or(0, |step| step.blocking);
        debug_assert!(first - blocked >= level, "the level is reached where the answer says");
        first
    }
}

impl DemandBound {
    /// The demand of `tasks`, which are sorted by deadline. A task that can preempt a request (its
    /// deadline is shorter, and that request consists of several commands) pays `preemption` with
    /// each of its own: it interrupts one at most, whose positioning is due together with what
    /// interrupted it.
    pub(super) fn new(
        tasks: impl Iterator<Item = (BlockingTask, Task)> + Clone,
        preemption: DiskTime,
        candidate: Candidate,
    ) -> Self {
        let preempted = tasks
            .clone()
            .filter(|(_, task)| task.is_preemptible())
            .map(|(_, task)| task.deadline())
            .max()
            .unwrap_or_default();
        let mut bound = Self::empty();
        let (mut utilization, mut effective) = (0, Vec::new());
        for (task_id, task) in tasks {
            let extra = if task.deadline() < preempted { preemption } else { DiskTime::ZERO };
            bound.add(&task, extra);
            let cost = (task.cost() + extra).as_nanos().unsigned_abs();
            let period = task.period().as_nanos();
            effective.push((cost, period));
            utilization += (u128::from(cost) << 64).div_ceil(u128::from(period));
            if task_id == BlockingTask::Candidate && candidate == Candidate::OnlyDemands {
                continue;
            }
            bound.blocking_function.push(task_id, &task);
        }
        assert_eq!(bound.costs.len(), bound.periods.len() + 1, "a sum for each number of tasks");
        debug_assert!(bound.costs.is_sorted(), "a task has a cost");
        assert!(bound.periods.is_sorted(), "tasks are sorted by deadline");
        bound.utilization = Utilization(utilization);
        bound.load = load(bound.utilization, &effective);
        bound
    }

    /// No tasks.
    fn empty() -> Self {
        Self {
            periods: Vec::new(),
            costs: vec![0],
            sporadic: Vec::new(),
            excess: 0,
            ends: None,
            blocking_function: BlockingFunction::default(),
            utilization: Utilization::default(),
            load: Ordering::Less,
        }
    }

    /// Adds the demand of `task`, each of whose requests takes `extra` more.
    fn add(&mut self, task: &Task, extra: DiskTime) {
        let cost = (task.cost() + extra).as_nanos();
        debug_assert!(cost > 0, "a task demands disk time");
        let (deadline, period) = (nanos(task.deadline()), nanos(task.period()));
        self.ends = Some((self.ends.map_or(deadline, |(first, _)| first), deadline));
        if task.has_implicit_deadline() {
            self.periods.push(period);
            self.costs.push(cost + self.costs.last().expect("the sum of none"));
        } else {
            self.sporadic.push(Sporadic { deadline, period, burst: task.burst().into(), cost });
            self.excess += task.excess(extra).as_nanos();
        }
    }

    pub(super) fn utilization(&self) -> Utilization {
        self.utilization
    }

    /// Utilization compared with the whole: above it, condition (1) is violated.
    pub(super) fn load(&self) -> Ordering {
        self.load
    }

    /// D₁ and Dₙ.
    pub(super) fn ends(&self) -> Option<(i64, i64)> {
        let (first, last) = self.ends?;
        debug_assert!(first > 0, "a deadline is in the future");
        debug_assert!(first <= last, "tasks are sorted by deadline");
        Some((first, last))
    }

    /// K: demand(t) ≤ U·t + K. Zero if every deadline is its task's period.
    pub(super) fn excess(&self) -> i64 {
        debug_assert!(self.excess >= 0, "an excess is not negative: {}", self.excess);
        self.excess
    }

    /// Whether every deadline is its task's period, without bursts.
    pub(super) fn has_implicit_deadlines(&self) -> bool {
        debug_assert!(!self.sporadic.is_empty() || self.excess == 0, "periods have no excess");
        self.sporadic.is_empty()
    }

    /// The demand of an interval of length t, the last point at or before t where it grew, and the
    /// number of quotients. Tasks with the same ⌊t ÷ T⌋ count together, if their deadlines are
    /// their periods; the last of them has the last such point.
    fn demand(&self, t: i64) -> (i64, i64, u64) {
        debug_assert!(t >= 0, "an interval has a length");
        let (mut demand, mut step, mut work) = (0, 0, 0);
        let mut first = 0;
        while let Some(&period) = self.periods.get(first)
            && period <= t
        {
            let times = t / period;
            let end = self.after(first, t / times);
            debug_assert!(end > first, "each quotient counts a task at least");
            demand += times * (self.costs[end] - self.costs[first]);
            step = step.max(times * self.periods[end - 1]);
            first = end;
            work += 1;
        }
        for task in self.sporadic.iter().take_while(|task| task.deadline <= t) {
            let further = (t - task.deadline) / task.period;
            demand += (task.burst + further) * task.cost;
            step = step.max(task.deadline + further * task.period);
            work += 1;
        }
        debug_assert!(demand >= 0, "demand is not negative: {demand}");
        debug_assert!(step <= t, "demand last grew within the interval");
        (demand, step, work)
    }

    /// The first task from `first` on whose period is above `period`. The next one is the most
    /// likely.
    fn after(&self, first: usize, period: i64) -> usize {
        debug_assert!(first < self.periods.len(), "the first task is one of the set");
        let mut width = 1;
        let mut low = first;
        while let Some(&there) = self.periods.get(low + width) {
            if there > period {
                break;
            }
            low += width;
            width *= 2;
        }
        let high = self.periods.len().min(low + width);
        let end = low + self.periods[low..high].partition_point(|&there| there <= period);
        debug_assert!(end >= first, "the search goes forwards");
        debug_assert!(self.periods.get(end).is_none_or(|&next| next > period), "the last is found");
        end
    }

    /// The room at t, moved back to where demand last grew: there it is least.
    fn room(&self, t: i64, work: &mut u64) -> (i64, Minimum) {
        let (demand, grown, quotients) = self.demand(t);
        assert!(
            demand <= t + self.excess,
            "demand is at most the interval and the excess where utilization is at most the whole"
        );
        *work += quotients;
        let step = self.blocking_function.at(grown);
        let room = grown - demand - step.map_or(0, |step| step.blocking);
        (demand, Minimum { at: grown, room, beside: step.map(|step| step.task_id) })
    }

    /// The room at D₁: a first bound of the minimum.
    pub(super) fn at_first(&self) -> Option<Minimum> {
        let (first, _) = self.ends()?;
        Some(self.room(first, &mut 0).1)
    }

    /// Searches for less room than `least` at `low` ≤ t ≤ `high`, backwards. Several ranges are
    /// searched in ascending order, so that the growth before a range has been examined.
    pub(super) fn search(
        &self,
        low: i64,
        high: i64,
        least: &mut Minimum,
        work: &mut u64,
    ) -> Searched {
        debug_assert_ne!(self.load, Ordering::Greater, "condition (1) holds");
        debug_assert!(low > 0, "an interval has a length");
        let mut t = high;
        while t >= low {
            if *work > STREAM_WORK_MAX {
                return Searched::DownTo(t);
            }
            let (demand, here) = self.room(t, work);
            if here.room < least.room {
                *least = here;
            }
            // Every t′ below from which t′ − b(t′) ≥ demand + least has at least as much room.
            let below = self.blocking_function.first_above(demand + least.room) - 1;
            debug_assert!(below < t, "the search goes backwards");
            t = below;
        }
        Searched::Whole
    }
}

/// The longest interval of which a mean demand of `utilization` leaves `room` at most: t·(1 − U) ≤
/// `room`.
pub(super) fn horizon(room: i64, utilization: Utilization) -> i64 {
    let idle = utilization.idle();
    debug_assert!(room >= 0, "what is left is not negative: {room}");
    debug_assert!(idle <= Utilization::WHOLE, "the idle part is at most the whole");
    let longest = (u128::from(room.unsigned_abs()) << 64).checked_div(idle);
    longest
        .and_then(|longest| i64::try_from(longest).ok())
        .map_or(HORIZON_MAX, |longest| longest.min(HORIZON_MAX))
}

/// A period or a deadline.
pub(super) fn nanos(length: Duration) -> i64 {
    let nanos = DiskTime::from(length).as_nanos();
    debug_assert!(nanos > 0, "a period takes time");
    nanos
}

/// The sum of the costs over the periods, compared with 1: exact, except that a sum within the
/// rounding of `bound` whose common denominator does not fit counts as more.
fn load(bound: Utilization, tasks: &[(u64, u64)]) -> Ordering {
    if bound.0 < Utilization::WHOLE {
        return Ordering::Less;
    }
    let rounding = tasks.len() as u128;
    if bound.0 - rounding >= Utilization::WHOLE {
        return Ordering::Greater;
    }
    let exact = tasks.iter().try_fold((0_u128, 1_u128), |sum, &(cost, period)| {
        add(sum, (u128::from(cost), u128::from(period)))
    });
    exact.map_or(Ordering::Greater, |(numerator, denominator)| numerator.cmp(&denominator))
}

/// The sum of two fractions in lowest terms, if it fits.
fn add(one: (u128, u128), other: (u128, u128)) -> Option<(u128, u128)> {
    debug_assert!(one.1 > 0, "a fraction has a denominator");
    debug_assert!(other.1 > 0, "a fraction has a denominator");
    let shared = common(one.1, other.1);
    let left = one.0.checked_mul(other.1 / shared)?;
    let right = other.0.checked_mul(one.1 / shared)?;
    let (numerator, denominator) =
        (left.checked_add(right)?, (one.1 / shared).checked_mul(other.1)?);
    let shared = common(numerator, denominator);
    Some((numerator / shared, denominator / shared))
}

/// The greatest common divisor.
fn common(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    debug_assert!(one > 0, "a common divisor divides");
    one
}
