//! The demand of a stream on one disk, as a task of scheduling theory.

use core::fmt;

use units::{DiskTime, Duration, Share};

use crate::limits::{STREAM_PERIOD_MAX, TASK_BURST_MAX};

/// The caller's id of a task: unique within a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// Requests of at most `cost` of disk time each: at most `burst` + ⌊t ÷ `period`⌋ of them in any t,
/// each due `deadline` after its release. A stream's task has one request in every period, due by
/// the period's end.
///
/// Tasks are ordered by deadline first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    deadline: Duration,
    period: Duration,
    cost: DiskTime,
    longest: DiskTime,
    burst: u32,
    /// What a request takes at [`Granularity::Whole`], if it is another time.
    whole: Option<RequestCost>,
    /// Whether every command is charged for its own positioning.
    is_server: bool,
}

/// How the requests of a disk's tasks become commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// In commands that are as long as the disk takes them: each is charged for its positioning,
    /// and no preemption is.
    #[default]
    Whole,
    /// In chunks: a request is charged for one positioning, and a task for one more with each of
    /// its requests that may preempt another task's.
    Chunks,
}

/// What a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCost {
    /// All of its commands together.
    pub total: DiskTime,
    /// The longest of them.
    pub longest: DiskTime,
}

/// The reason why a task is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTask {
    /// The period is 0 or over [`STREAM_PERIOD_MAX`]. Remedy: another block size or bandwidth.
    Period(Duration),
    /// The cost of a request, or of a burst, is 0 or below, or over [`STREAM_PERIOD_MAX`]. Remedy:
    /// another block size, or a smaller burst.
    Cost(DiskTime),
    /// The deadline is 0 or over [`STREAM_PERIOD_MAX`]. Remedy: another deadline.
    Deadline(Duration),
    /// The burst is 0 or over [`TASK_BURST_MAX`]. Remedy: another burst.
    Burst(u32),
    /// The longest command is 0 or below, or longer than the whole request. A defect of the caller.
    Longest(DiskTime),
}

impl fmt::Display for InvalidTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period(period) => {
                write!(f, "a period of {period}: expected above 0 and at most {STREAM_PERIOD_MAX}")
            }
            Self::Cost(cost) => {
                write!(
                    f,
                    "{cost} of disk time a period: expected above 0 and at most {STREAM_PERIOD_MAX}"
                )
            }
            Self::Deadline(deadline) => {
                write!(
                    f,
                    "a deadline of {deadline}: expected above 0 and at most {STREAM_PERIOD_MAX}"
                )
            }
            Self::Burst(burst) => {
                write!(f, "a burst of {burst} requests: expected 1 to {TASK_BURST_MAX}")
            }
            Self::Longest(longest) => {
                write!(f, "a longest command of {longest}: expected above 0 and at most the cost")
            }
        }
    }
}

impl std::error::Error for InvalidTask {}

impl Task {
    /// A task of which `longest` ≤ `cost` is non-preemptible: the longest of its chunks, its seeks
    /// or sub-seeks, and its positionings after a preemption, whatever is sent to the disk as one
    /// command. A cost above the period is a task that fits nowhere.
    ///
    /// # Errors
    /// See [`InvalidTask`].
    pub fn new(period: Duration, cost: DiskTime, longest: DiskTime) -> Result<Self, InvalidTask> {
        if period == Duration::ZERO || period > STREAM_PERIOD_MAX {
            return Err(InvalidTask::Period(period));
        }
        if cost <= DiskTime::ZERO || cost > STREAM_PERIOD_MAX.into() {
            return Err(InvalidTask::Cost(cost));
        }
        if longest <= DiskTime::ZERO || longest > cost {
            return Err(InvalidTask::Longest(longest));
        }
        assert!(longest <= cost, "a command is a part of its request");
        let (whole, is_server) = (None, false);
        Ok(Self { deadline: period, period, cost, longest, burst: 1, whole, is_server })
    }

    /// The same task, a request of which takes `whole` at [`Granularity::Whole`].
    ///
    /// # Errors
    /// See [`InvalidTask`].
    pub fn with_whole(self, whole: RequestCost) -> Result<Self, InvalidTask> {
        let RequestCost { total, longest } = whole;
        debug_assert!(longest <= total, "a command is a part of its request");
        Self::sporadic(self.period, self.deadline, self.burst, total, longest)?;
        debug_assert!(total > DiskTime::ZERO, "a request takes time");
        Ok(Self { whole: Some(whole), ..self })
    }

    /// Whether all of `tasks` may be served whole, and some of them take another time then. A
    /// request of several commands of which only this is known may not.
    pub(super) fn may_be_whole(tasks: impl Iterator<Item = Self>) -> bool {
        let mut differs = false;
        for task in tasks {
            debug_assert!(task.longest <= task.cost, "a command is a part of its request");
            differs |= task.whole.is_some();
            if task.whole.is_none() && task.is_preemptible() {
                return false;
            }
        }
        differs
    }

    /// The task at `granularity`: its cost and its longest command.
    #[must_use]
    pub fn at(self, granularity: Granularity) -> Self {
        debug_assert!(self.longest <= self.cost, "a command is a part of its request");
        match (granularity, self.whole) {
            (Granularity::Whole, Some(RequestCost { total, longest })) => {
                Self { cost: total, longest, ..self }
            }
            _ => self,
        }
    }

    /// A sporadic task: at most `burst` + ⌊t ÷ `period`⌋ requests in any t, each due `deadline`
    /// after its release, which may be shorter or longer than the period. A cost above the deadline
    /// is a task that fits nowhere.
    ///
    /// # Errors
    /// See [`InvalidTask`].
    pub fn sporadic(
        period: Duration,
        deadline: Duration,
        burst: u32,
        cost: DiskTime,
        longest: DiskTime,
    ) -> Result<Self, InvalidTask> {
        if deadline == Duration::ZERO || deadline > STREAM_PERIOD_MAX {
            return Err(InvalidTask::Deadline(deadline));
        }
        if burst == 0 || burst > TASK_BURST_MAX {
            return Err(InvalidTask::Burst(burst));
        }
        let task = Self::new(period, cost, longest)?;
        let together = cost.as_nanos().checked_mul(burst.into()).map(DiskTime::from_nanos);
        if together.is_none_or(|together| together > STREAM_PERIOD_MAX.into()) {
            return Err(InvalidTask::Cost(together.unwrap_or(cost)));
        }
        debug_assert_eq!(task.burst, 1, "a task without bursts is given one");
        Ok(Self { deadline, burst, ..task })
    }

    /// A task whose request is one non-preemptible command: q = C.
    ///
    /// # Errors
    /// See [`InvalidTask`].
    pub fn whole(period: Duration, cost: DiskTime) -> Result<Self, InvalidTask> {
        Self::new(period, cost, cost)
    }

    /// A reserve, or the server that keeps best effort from starving: `share` of every `period`, in
    /// commands of at most `longest`. The amount is rounded down, and is at least one command.
    ///
    /// # Errors
    /// See [`InvalidTask`].
    pub fn server(share: Share, period: Duration, longest: DiskTime) -> Result<Self, InvalidTask> {
        if period == Duration::ZERO || period > STREAM_PERIOD_MAX {
            return Err(InvalidTask::Period(period));
        }
        let task = Self::new(period, share.of(period).max(longest), longest)?;
        Ok(Self { is_server: true, ..task })
    }

    /// The same task, each of whose commands is charged for its own positioning: preempting it
    /// costs no other task anything.
    #[must_use]
    pub(crate) fn as_server(self) -> Self {
        debug_assert!(self.has_implicit_deadline(), "a server has one deadline a period");
        Self { is_server: true, ..self }
    }

    /// T: the least mean time between two requests.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// D: the time from a request's release to its deadline; T for streams and reserves.
    pub const fn deadline(&self) -> Duration {
        debug_assert!(self.deadline.as_nanos() > 0, "a deadline is in the future");
        self.deadline
    }

    /// The most requests that may be released at one instant.
    pub const fn burst(&self) -> u32 {
        debug_assert!(self.burst > 0, "a task releases requests");
        self.burst
    }

    /// Whether each request is due when the next one may be released, so that its demand is ⌊t ÷
    /// T⌋·C.
    pub(crate) fn has_implicit_deadline(&self) -> bool {
        debug_assert!(self.burst > 0, "a task releases requests");
        self.deadline == self.period && self.burst == 1
    }

    /// The most of its demand that exceeds the mean, b·C − D·C ÷ T, with `extra` work for each
    /// request: rounded up, at least zero.
    pub(super) fn excess(&self, extra: DiskTime) -> DiskTime {
        let cost = u128::from((self.cost + extra).as_nanos().unsigned_abs());
        let mean = cost * u128::from(self.deadline.as_nanos()) / u128::from(self.period.as_nanos());
        let excess = (cost * u128::from(self.burst)).saturating_sub(mean);
        debug_assert!(!self.has_implicit_deadline() || excess == 0, "of the period no excess");
        DiskTime::from_nanos(i64::try_from(excess).expect("a burst costs under a day"))
    }

    /// C: the worst-case disk time of a request.
    pub const fn cost(&self) -> DiskTime {
        self.cost
    }

    /// q: the longest non-preemptible command of a request.
    pub const fn longest(&self) -> DiskTime {
        self.longest
    }

    /// The same task with `extra` work in each request, in commands of the same length.
    pub(super) fn with_more(self, extra: DiskTime) -> Self {
        assert!(extra >= DiskTime::ZERO, "preemptions add to a cost: {extra}");
        Self { cost: self.cost + extra, ..self }
    }

    /// Whether a decision falls between two commands of one request, and a preemption there costs
    /// a positioning for which the task is not charged.
    pub fn is_preemptible(&self) -> bool {
        debug_assert!(self.longest <= self.cost, "a command is a part of its request");
        self.longest < self.cost && !self.is_server
    }
}

/// The sum of C ÷ T, in units of 2⁻⁶⁴ and rounded up: never less than it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utilization(pub(super) u128);

impl Utilization {
    /// All of a disk's time.
    pub(super) const WHOLE: u128 = 1 << 64;
    const PPB: u128 = 1_000_000_000;

    /// What one task asks for.
    pub(super) fn of(task: &Task) -> Self {
        let cost = u128::from(task.cost.as_nanos().unsigned_abs());
        debug_assert!(cost > 0, "a task demands disk time");
        Self((cost << 64).div_ceil(u128::from(task.period.as_nanos())))
    }

    /// What it leaves of an interval at least, on the mean.
    pub(super) fn leaves(self, interval: Duration) -> DiskTime {
        let room = (u128::from(interval.as_nanos()) * self.idle()) >> 64;
        debug_assert!(room <= u128::from(interval.as_nanos()), "the rest is a part");
        DiskTime::from_nanos(i64::try_from(room).expect("an interval is under 292 years"))
    }

    /// In 10⁻⁹ of a disk's time, to the nearest. Above 10⁹ it is more than there is.
    pub fn ppb(self) -> u64 {
        // The product would not fit where it is far over the whole.
        let (whole, part) = (self.0 / Self::WHOLE, self.0 % Self::WHOLE);
        let ppb = whole * Self::PPB + (part * Self::PPB + Self::WHOLE / 2) / Self::WHOLE;
        u64::try_from(ppb).unwrap_or(u64::MAX)
    }

    /// The idle part of the whole, in 2⁻⁶⁴, rounded down.
    pub(super) fn idle(self) -> u128 {
        Self::WHOLE.saturating_sub(self.0)
    }

    /// What there is of it above the whole, in 10⁻⁹ of a disk's time: to the nearest, but not
    /// nothing.
    pub(super) fn excess_ppb(self) -> u64 {
        debug_assert!(self.0 >= Self::WHOLE, "only what exceeds the whole has an excess");
        Self(self.0.saturating_sub(Self::WHOLE)).ppb().max(1)
    }
}

/// In percent.
impl fmt::Display for Utilization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ppb = self.ppb();
        let text = format!("{}.{:07}", ppb / 10_000_000, ppb % 10_000_000);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
