//! The demand of a stream on one disk, as a task of scheduling theory.

use core::fmt;

use units::{DiskTime, Duration, Share};

use crate::limits::STREAM_PERIOD_MAX;

/// The caller's id of a task: unique within a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// At most `cost` of disk time in every `period`, due by the period's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    period: Duration,
    cost: DiskTime,
    longest: DiskTime,
}

/// The reason why a task is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTask {
    /// The period is 0 or over [`STREAM_PERIOD_MAX`]. Remedy: another block size or bandwidth.
    Period(Duration),
    /// The cost is 0 or below, or over [`STREAM_PERIOD_MAX`]. Remedy: another block size.
    Cost(DiskTime),
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
        Ok(Self { period, cost, longest })
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
        Self::new(period, share.of(period).max(longest), longest)
    }

    /// T: the least time between two requests, and the time that each has.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// C: the worst-case disk time of a request.
    pub const fn cost(&self) -> DiskTime {
        self.cost
    }

    /// q: the longest non-preemptible command of a request.
    pub const fn longest(&self) -> DiskTime {
        self.longest
    }

    /// The same task with `extra` work in each period, in commands of the same length.
    pub(super) fn with_more(self, extra: DiskTime) -> Self {
        assert!(extra >= DiskTime::ZERO, "preemptions add to a cost: {extra}");
        Self { cost: self.cost + extra, ..self }
    }

    /// Whether a decision falls between two commands of one request.
    pub fn is_preemptible(&self) -> bool {
        debug_assert!(self.longest <= self.cost, "a command is a part of its request");
        self.longest < self.cost
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
