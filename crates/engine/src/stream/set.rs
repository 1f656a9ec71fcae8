//! The tasks of one disk at one time.

use core::cmp::Ordering;

use units::{DiskTime, Duration};

use super::demand_bound::{Candidate, DemandBound, HORIZON_MAX, Minimum, Searched, horizon};
use super::{BlockingTask, Granularity, Task, TaskId, Utilization, Violation};
use crate::limits::{STREAM_PERIOD_MAX, STREAM_TASKS_MAX, TASK_BURST_MAX};

/// The most that a preemption costs: those of a burst cost at most a day.
const PREEMPTION_MAX: DiskTime =
    DiskTime::from_nanos((STREAM_PERIOD_MAX.as_nanos() / TASK_BURST_MAX as u64).cast_signed());

/// Tasks that share a disk, sorted by deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSet {
    preemption: DiskTime,
    tasks: Vec<(Task, TaskId)>,
}

/// The intervals that count for the slack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlackRange {
    /// All of them.
    #[default]
    All,
    /// Those from the shortest to the longest deadline, as Clockwise (RTAS 2000, Definition 1) has
    /// it: too few. Periods and costs of (15, 5), (25, 5), (27, 6), (29, 5) ms have a slack of 5 ms
    /// by it, and a best-effort command of that length makes the first task late at 30 ms. For
    /// comparison only: admission never uses it.
    Published,
}

/// The interval with the least room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tightest {
    /// Its length: the t of the module's formulas.
    pub interval: Duration,
    /// The task that blocks; `None` in intervals about as long as the longest deadline or longer.
    pub beside: Option<TaskId>,
    /// The room: the set's slack.
    pub room: DiskTime,
    /// Whether it is exact. If not, the search was broken off: the slack is at least `room`.
    pub exact: bool,
}

impl TaskSet {
    /// An empty set. Each preemption costs the preempting task `preemption` at
    /// [`Granularity::Chunks`]: the positioning for the interrupted request.
    pub fn new(preemption: DiskTime) -> Self {
        assert!(preemption >= DiskTime::ZERO, "a preemption has a cost");
        assert!(preemption <= PREEMPTION_MAX, "a positioning is short");
        Self { preemption, tasks: Vec::new() }
    }

    /// A set of these tasks, whose ids are unique.
    pub(super) fn of(tasks: impl Iterator<Item = (TaskId, Task)>, preemption: DiskTime) -> Self {
        let mut tasks: Vec<(Task, TaskId)> = tasks.map(|(id, task)| (task, id)).collect();
        assert!(tasks.len() <= STREAM_TASKS_MAX, "a set has {STREAM_TASKS_MAX} tasks at most");
        tasks.sort_unstable();
        Self { tasks, ..Self::new(preemption) }
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The tasks, shortest deadline first.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, Task)> + Clone {
        self.tasks.iter().map(|&(task, id)| (id, task))
    }

    /// The cost of a preemption.
    pub fn preemption(&self) -> DiskTime {
        self.preemption
    }

    /// Adds a task without a check: [`TaskSet::admit`] checks.
    ///
    /// # Panics
    /// If the set is full, or has the id already.
    pub fn insert(&mut self, id: TaskId, task: Task) {
        assert!(self.tasks.len() < STREAM_TASKS_MAX, "a set has {STREAM_TASKS_MAX} tasks at most");
        assert!(self.tasks.iter().all(|&(_, other)| other != id), "an id is unique");
        let index = self.tasks.partition_point(|entry| *entry < (task, id));
        self.tasks.insert(index, (task, id));
        debug_assert!(self.tasks.is_sorted(), "tasks are sorted by deadline");
    }

    /// Removes and returns a task.
    pub fn remove(&mut self, id: TaskId) -> Option<Task> {
        let index = self.tasks.iter().position(|&(_, other)| other == id)?;
        let task = self.tasks.remove(index).0;
        debug_assert!(self.tasks.is_sorted(), "a removal keeps the order");
        debug_assert!(self.tasks.iter().all(|&(_, other)| other != id), "an id is unique");
        Some(task)
    }

    /// Adds a task if it fits beside the others; otherwise nothing changes.
    ///
    /// # Errors
    /// See [`Violation`].
    ///
    /// # Panics
    /// If the set has the id already.
    pub fn admit(&mut self, id: TaskId, task: Task) -> Result<(), Violation> {
        self.check_with(task)?;
        self.insert(id, task);
        debug_assert!(!self.is_empty(), "an admitted task is in the set");
        Ok(())
    }

    /// Whether every deadline is met, whenever requests come.
    ///
    /// # Errors
    /// The constraint that is short by most.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_at(self.granularity())
    }

    /// The granularity at which the tasks are served: whole while they fit so, else in chunks.
    /// Where no task takes another time whole, there is nothing to choose; nor without tasks, where
    /// nothing is split for their sake.
    pub fn granularity(&self) -> Granularity {
        if self.tasks.is_empty() {
            return Granularity::Whole;
        }
        let has_whole = Task::may_be_whole(self.tasks.iter().map(|(task, _)| *task));
        debug_assert!(self.tasks.is_sorted(), "tasks are sorted by deadline");
        let fits = has_whole && self.check_at(Granularity::Whole).is_ok();
        if fits { Granularity::Whole } else { Granularity::Chunks }
    }

    fn check_at(&self, granularity: Granularity) -> Result<(), Violation> {
        debug_assert!(self.tasks.is_sorted(), "tasks are sorted by deadline");
        check(&self.demand(granularity))
    }

    /// Whether every deadline would be met if `candidate` were in the set too.
    ///
    /// # Errors
    /// The constraint that is short by most.
    pub fn check_with(&self, candidate: Task) -> Result<(), Violation> {
        self.check_candidate(candidate, Candidate::Whole)
    }

    /// The same; or the candidate's demand alone, as if its commands blocked no task.
    pub(super) fn check_candidate(
        &self,
        candidate: Task,
        counts: Candidate,
    ) -> Result<(), Violation> {
        if self.tasks.len() >= STREAM_TASKS_MAX {
            return Err(Violation::Full);
        }
        let tasks = self.tasks.iter().map(|(task, _)| *task).chain([candidate]);
        let has_whole = Task::may_be_whole(tasks);
        let at = |granularity| check(&self.demand_with(candidate, counts, granularity));
        if has_whole && at(Granularity::Whole).is_ok() {
            return Ok(());
        }
        at(Granularity::Chunks)
    }

    /// ΔL: the disk time that best effort may take, in all, from one moment without a queued
    /// released request to the next, without making a request late. Zero for a set that does not
    /// fit. At most, and for an empty set, [`STREAM_PERIOD_MAX`].
    pub fn slack(&self) -> DiskTime {
        self.slack_in(SlackRange::All)
    }

    /// The slack as it would be if only these intervals counted.
    pub fn slack_in(&self, range: SlackRange) -> DiskTime {
        debug_assert!(self.tasks.is_sorted(), "tasks are sorted by deadline");
        self.slack_at(range, self.granularity())
    }

    /// The slack of the tasks at `granularity`.
    pub(crate) fn slack_at(&self, range: SlackRange, granularity: Granularity) -> DiskTime {
        if self.is_empty() {
            return STREAM_PERIOD_MAX.into();
        }
        let tightest = self.tightest_at(range, granularity);
        let slack = tightest.map_or(DiskTime::ZERO, |tightest| tightest.room);
        debug_assert!(slack >= DiskTime::ZERO, "slack is not negative: {slack}");
        debug_assert!(slack <= STREAM_PERIOD_MAX.into(), "slack is at most the shortest deadline");
        slack
    }

    /// The interval with the minimum room; `None` for an empty set, or one that does not fit.
    pub fn tightest(&self, range: SlackRange) -> Option<Tightest> {
        debug_assert!(self.tasks.is_sorted(), "tasks are sorted by deadline");
        self.tightest_at(range, self.granularity())
    }

    fn tightest_at(&self, range: SlackRange, granularity: Granularity) -> Option<Tightest> {
        let demand = self.demand(granularity);
        check(&demand).ok()?;
        let (least, exact) = least(&demand, range)?;
        debug_assert!(least.at > 0, "an interval has a length");
        debug_assert!(!exact || least.room >= 0, "a set that fits has no negative room");
        let beside = match least.beside {
            Some(BlockingTask::Task(id)) => Some(id),
            Some(BlockingTask::Candidate) | None => None,
        };
        let room = DiskTime::from_nanos(least.room.max(0));
        Some(Tightest { interval: duration(least.at), beside, room, exact })
    }

    /// The demanded utilization, preemptions included.
    pub fn utilization(&self) -> Utilization {
        self.demand(self.granularity()).utilization()
    }

    /// The cost of a preemption at `granularity`.
    fn preemption_at(&self, granularity: Granularity) -> DiskTime {
        debug_assert!(self.preemption >= DiskTime::ZERO, "a preemption has a cost");
        match granularity {
            Granularity::Whole => DiskTime::ZERO,
            Granularity::Chunks => self.preemption,
        }
    }

    fn demand(&self, granularity: Granularity) -> DemandBound {
        debug_assert!(self.tasks.len() <= STREAM_TASKS_MAX, "tasks are bounded");
        let task = |&(task, id): &(Task, TaskId)| (BlockingTask::Task(id), task.at(granularity));
        let (tasks, preemption) = (self.tasks.iter().map(task), self.preemption_at(granularity));
        DemandBound::new(tasks, preemption, Candidate::Whole)
    }

    fn demand_with(
        &self,
        candidate: Task,
        counts: Candidate,
        granularity: Granularity,
    ) -> DemandBound {
        let index = self.tasks.partition_point(|(task, _)| *task <= candidate);
        let (before, after) = self.tasks.split_at(index);
        let named = |&(task, id): &(Task, TaskId)| (BlockingTask::Task(id), task.at(granularity));
        let candidate = (BlockingTask::Candidate, candidate.at(granularity));
        let tasks = before
            .iter()
            .map(named)
            .chain(core::iter::once(candidate))
            .chain(after.iter().map(named));
        DemandBound::new(tasks, self.preemption_at(granularity), counts)
    }
}

/// Conditions (1) and (2).
pub(super) fn check(demand: &DemandBound) -> Result<(), Violation> {
    if demand.load() == Ordering::Greater {
        let asked = demand.utilization();
        return Err(Violation::Utilization { asked, over_ppb: asked.excess_ppb() });
    }
    let Some((first, last)) = demand.ends() else { return Ok(()) };
    let mut least = Minimum { at: first, room: 0, beside: None };
    // Beyond Dₙ − 2 nothing blocks: t has room if t·(1 − U) ≥ K.
    let bursts =
        if demand.excess() > 0 { horizon(demand.excess(), demand.utilization()) } else { 0 };
    let (horizon, mut low, mut work) = (bursts.max(last - 2), first, 0);
    let searched = loop {
        let high = horizon.min(low.saturating_mul(2).max(last));
        let searched = demand.search(low, high, &mut least, &mut work);
        // A demand of the whole repeats its shortfalls for ever.
        let repeats = least.room < 0 && demand.load() == Ordering::Equal;
        if searched != Searched::Whole || high == horizon || repeats {
            break searched;
        }
        low = high + 1;
    };
    debug_assert!(least.at >= first, "nothing is due in less than the shortest deadline");
    debug_assert!(least.room <= 0, "a search begins at no room");
    let short = DiskTime::from_nanos(-least.room);
    match (least.beside, searched) {
        (Some(beside), _) if least.room < 0 => {
            Err(Violation::Blocked { interval: duration(least.at + 1), beside, short })
        }
        (None, _) if least.room < 0 => {
            Err(Violation::Demand { interval: duration(least.at), short })
        }
        (_, Searched::Whole) => Ok(()),
        (_, Searched::DownTo(t)) => Err(Violation::Undecided { interval: duration(t + 1) }),
    }
}

/// The least room of a set that fits, and whether it is exact.
fn least(demand: &DemandBound, range: SlackRange) -> Option<(Minimum, bool)> {
    debug_assert_ne!(demand.load(), Ordering::Greater, "condition (1) holds");
    let (first, last) = demand.ends()?;
    let mut least = demand.at_first()?;
    let mut work = 0;
    let searched = demand.search(first, last, &mut least, &mut work);
    if let Searched::DownTo(_) = searched {
        // Unreachable for a set that was just checked with the same work bound, but for the few
        // intervals around Dₙ.
        return Some((Minimum { room: 0, ..least }, false));
    }
    if range == SlackRange::Published {
        return Some((least, true));
    }
    if demand.load() == Ordering::Equal {
        return Some((Minimum { room: 0, ..least }, demand.has_implicit_deadlines()));
    }
    let mut low = last + 1;
    loop {
        let horizon = horizon(least.room + demand.excess(), demand.utilization());
        if low > horizon {
            return Some((least, true));
        }
        let high = horizon.min(low.saturating_mul(2));
        debug_assert!(high >= low, "a range is not empty");
        debug_assert!(low > last, "beyond the longest deadline nothing blocks");
        let searched = demand.search(low, high, &mut least, &mut work);
        if searched != Searched::Whole || high == HORIZON_MAX {
            // From `low` on there is at least what the mean demand leaves, less the excess.
            let left = demand.utilization().leaves(duration(low)).as_nanos() - demand.excess();
            let room = least.room.min(left);
            return Some((Minimum { room, ..least }, false));
        }
        low = high + 1;
    }
}

fn duration(nanos: i64) -> Duration {
    debug_assert!(nanos >= 0, "a length is not negative: {nanos}");
    Duration::from_nanos(nanos.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(period: u64, cost: i64) -> Task {
        Task::whole(Duration::from_nanos(period), DiskTime::from_nanos(cost)).expect("a task")
    }

    /// Every command is 1 ns long: no task blocks another.
    fn fluid(period: u64, cost: i64) -> Task {
        let cost = DiskTime::from_nanos(cost);
        Task::new(Duration::from_nanos(period), cost, DiskTime::from_nanos(1)).expect("a task")
    }

    fn set(tasks: &[Task]) -> TaskSet {
        let mut set = TaskSet::default();
        for (id, task) in (0..).zip(tasks) {
            set.insert(TaskId(id), *task);
        }
        set
    }

    #[test]
    fn exactly_the_whole_fits_and_leaves_nothing_and_one_more_is_over() {
        // 1/6 + 1/10 + 1/15 + 2/3 = 1, and none of them is a whole number of 2⁻⁶⁴.
        let full = set(&[fluid(6, 1), fluid(10, 1), fluid(15, 1), fluid(3, 2)]);
        assert_eq!(full.check(), Ok(()));
        assert_eq!(full.slack(), DiskTime::ZERO);
        let day = STREAM_PERIOD_MAX.as_nanos();
        let refused = full.check_with(fluid(day, 1)).expect_err("a ns a day is too much");
        assert!(matches!(refused, Violation::Utilization { over_ppb: 1, .. }), "{refused:?}");
        assert_eq!(full.utilization().to_string(), "100%");
    }

    #[test]
    fn no_tasks_and_one_task_are_sets_too() {
        let mut set = TaskSet::default();
        assert_eq!((set.check(), set.slack()), (Ok(()), STREAM_PERIOD_MAX.into()));
        set.admit(TaskId(3), whole(100, 100)).expect("alone it may have everything");
        assert_eq!(set.slack(), DiskTime::ZERO);
        assert_eq!(set.remove(TaskId(3)), Some(whole(100, 100)));
        set.admit(TaskId(4), whole(100, 30)).expect("less fits too");
        let at = Duration::from_nanos(100);
        let room = DiskTime::from_nanos(70);
        let tightest = Tightest { interval: at, beside: None, room, exact: true };
        assert_eq!(set.tightest(SlackRange::All), Some(tightest));
    }

    #[test]
    fn the_blocking_task_is_named() {
        let set = set(&[whole(10_000, 2_000), whole(100_000, 8_001)]);
        let blocked = Violation::Blocked {
            interval: Duration::from_nanos(10_001),
            beside: BlockingTask::Candidate,
            short: DiskTime::from_nanos(2_000),
        };
        assert_eq!(set.check_with(whole(1_000_000, 10_001)), Err(blocked));
        let cam = BlockingTask::Task(TaskId(1));
        let (interval, short) = (Duration::from_nanos(10_001), DiskTime::from_nanos(2_000));
        let blocked = Violation::Blocked { interval, beside: cam, short };
        assert_eq!(set.check_with(whole(9_000, 2_000)), Err(blocked));
        assert_eq!(blocked.to_string(), "at L = 10.001us, beside task 1: short by 2us");
    }

    #[test]
    fn the_preempting_task_pays_for_preemptions() {
        let mut set = TaskSet::new(DiskTime::from_nanos(2));
        set.insert(TaskId(0), whole(10, 5));
        set.insert(TaskId(1), whole(20, 4));
        assert_eq!(set.utilization().to_string(), "70%", "there is no task to preempt");
        set.insert(TaskId(2), fluid(40, 4));
        assert_eq!(set.utilization().to_string(), "110%", "20% and 10% for preemptions");
        assert!(set.check().is_err());
    }

    #[test]
    fn a_search_that_takes_too_long_ends_with_a_lower_bound() {
        // All but 10⁻¹⁰ of the disk, and periods that meet in no time worth waiting for.
        let mut tasks: Vec<Task> = (0..300)
            .map(|n| {
                fluid(
                    1_000_000_007 + n * 9_999_991,
                    (1_000_000_007 + i64::try_from(n).expect("small") * 9_999_991) / 301,
                )
            })
            .collect();
        let left =
            10_000_000_000 - set(&tasks).utilization().0 * 10_000_000_000 / Utilization::WHOLE;
        tasks.push(fluid(10_000_000_000, i64::try_from(left).expect("small") - 1));
        let set = set(&tasks);
        assert_eq!(set.check(), Ok(()));
        let tightest = set.tightest(SlackRange::All).expect("it fits");
        assert!(!tightest.exact);
        assert!(tightest.room <= set.slack_in(SlackRange::Published));
    }

    #[test]
    fn the_largest_set_overflows_nothing() {
        let day = STREAM_PERIOD_MAX.as_nanos();
        let mut set = TaskSet::default();
        let cost = STREAM_PERIOD_MAX.into();
        set.tasks = (0..20_000)
            .map(|id| (Task::whole(Duration::from_nanos(1), cost).expect("a task"), TaskId(id)))
            .collect();
        assert!(matches!(set.check(), Err(Violation::Utilization { .. })));
        assert_eq!(set.check_with(whole(day, 1)), Err(Violation::Full));
        set.tasks = (0..20_000).map(|id| (fluid(day, 4_000_000_000), TaskId(id))).collect();
        assert_eq!(set.check(), Ok(()));
        assert_eq!(set.slack().as_nanos(), 86_400_000_000_000 - 80_000_000_000_000);
    }
}
