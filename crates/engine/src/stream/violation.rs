//! The reason why a set of tasks does not fit on a disk.

use core::fmt;

use units::{DiskTime, Duration};

use super::{TaskId, Utilization};

/// The task that blocks, or whose demand it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingTask {
    /// The candidate of the check.
    Candidate,
    /// A task of the set.
    Task(TaskId),
}

/// The constraint that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The tasks demand more than the whole disk. Remedy: less bandwidth, or larger blocks (fewer
    /// seeks).
    ///
    /// A sum that is exactly the whole is distinguished from a larger one if the fractions have a
    /// common denominator below 2¹²⁷; without one, sums within 10⁻¹⁵ of the whole are refused.
    Utilization {
        /// The demanded utilization.
        asked: Utilization,
        /// The excess over the whole, in 10⁻⁹ of the disk's time: to the nearest, at least 1.
        over_ppb: u64,
    },
    /// An interval of this length cannot hold all that may be due in it after the longest command
    /// of `beside`, which began 1 ns before. Of all intervals it is the one with the largest
    /// shortfall. Remedy: smaller blocks of `beside`, or fewer tasks with short periods.
    Blocked {
        /// L of condition (2).
        interval: Duration,
        /// The task whose command blocks.
        beside: BlockingTask,
        /// The missing time.
        short: DiskTime,
    },
    /// More may be released and due within an interval of this length than fits into it, with no
    /// command before it. Only tasks whose deadlines are shorter than their periods, or that
    /// release several requests at one instant, demand that. Remedy: later deadlines, or smaller
    /// bursts.
    Demand {
        /// The length.
        interval: Duration,
        /// The missing time.
        short: DiskTime,
    },
    /// The search was broken off at [`STREAM_WORK_MAX`](crate::limits::STREAM_WORK_MAX): intervals
    /// up to this length were not all examined. It needs very many tasks with very different
    /// periods, or bursts in a set that demands the whole disk.
    Undecided {
        /// An interval that was not examined, longer than most that were.
        interval: Duration,
    },
    /// The set is full: [`STREAM_TASKS_MAX`](crate::limits::STREAM_TASKS_MAX). Remedy: another
    /// disk.
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
            Self::Demand { interval, short } => {
                write!(f, "what may be due within {interval} is {short} more than that")
            }
            Self::Undecided { interval } => {
                write!(
                    f,
                    "not decided in time for intervals up to {interval}: \
                     the periods differ too much"
                )
            }
            Self::Full => f.write_str("the disk has as many tasks as one may have"),
        }
    }
}

impl std::error::Error for Violation {}
