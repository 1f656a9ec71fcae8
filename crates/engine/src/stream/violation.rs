//! Why a set of tasks does not fit on a disk.

use core::fmt;

use units::{DiskTime, Duration};

use super::{TaskId, Utilization};

/// Whose command is in the way, or whose demand it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingTask {
    /// The task that the verdict is about.
    Candidate,
    /// One that is in the set.
    Task(TaskId),
}

/// The constraint that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The tasks ask for more than the whole disk. Cure: less bandwidth, or larger blocks (fewer positionings).
    ///
    /// A sum that is exactly the whole is told from one above it where the fractions have a common denominator below
    /// 2¹²⁷; where they have none, and differ from the whole by less than 10⁻¹⁵, they are refused.
    Utilization {
        /// What they ask for.
        asked: Utilization,
        /// How much that is above the whole, in 10⁻⁹ of the disk's time: to the nearest, at least 1.
        over_ppb: u64,
    },
    /// In an interval of this length there is not room for all that may be due in it after the longest command of
    /// `beside`, which began 1 ns before. Of all intervals it is the one that is short by most. Cure: smaller blocks of
    /// `beside`, or fewer tasks with short periods.
    Blocked {
        /// L of condition (2).
        interval: Duration,
        /// Whose command is in the way.
        beside: BlockingTask,
        /// How much time is missing.
        short: DiskTime,
    },
    /// The search was broken off at [`STREAM_WORK_MAX`](crate::limits::STREAM_WORK_MAX): intervals up to this length were
    /// not looked at. It takes very many tasks whose periods differ by very much.
    Undecided {
        /// The longest interval that was not looked at.
        interval: Duration,
    },
    /// The set is full: [`STREAM_TASKS_MAX`](crate::limits::STREAM_TASKS_MAX). Cure: another disk.
    Full,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utilization { asked, .. } => {
                write!(f, "{asked} of the disk's time is asked for")
            }
            Self::Blocked { interval, beside: BlockingTask::Task(TaskId(id)), short } => {
                write!(f, "at L = {interval}, beside task {id}: short by {short}")
            }
            Self::Blocked { interval, beside: BlockingTask::Candidate, short } => {
                write!(f, "at L = {interval}, beside its own requests: short by {short}")
            }
            Self::Undecided { interval } => {
                write!(
                    f,
                    "not decided in time for intervals up to {interval}: the periods differ too much"
                )
            }
            Self::Full => f.write_str("the disk has as many tasks as one may have"),
        }
    }
}

impl std::error::Error for Violation {}
