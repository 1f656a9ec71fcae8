//! How a request becomes disk commands: semi-preemptible IO (FAST 2003, "Design and Implementation
//! of Semi-preemptible IO").
//!
//! Another request can be served between any two commands. So a request is executed as short ones:
//!
//! ```text
//! a request:  [slack][sub-seek]…[sub-seek][slack][chunk][chunk]…[chunk (FUA if it writes)]
//!              idle   a SEEK               idle   rides the drive's read-ahead or its write buffer
//! ```
//!
//! No plan is kept: the next step follows from the remainder of the request, the predicted position
//! of the arm and the predicted angle under the head. A preempted request therefore resumes without
//! further state, with its positioning computed again.
//!
//! Invariants: the commands of a request transfer each of its sectors once and in order;
//! predictions are made from a [`Profile`](drive_profile::Profile) and from completions, never from
//! the drive; a wait never lasts longer than one and a half revolutions.

mod arm;
mod assessment;
mod execution;
mod executor;
mod loss_budget;
mod positioning;
mod read_segments;
mod rotation;

pub(crate) use arm::{Arm, continues_run};
pub use assessment::{SeeksAhead, ShortReadTrade};
pub use execution::{
    Approach, Execution, FreePrefetch, Jit, Preemptible, PreemptionStats, Purpose, SeekSplit,
    expected_wait,
};
pub(crate) use executor::{Executor, Step};
pub(crate) use read_segments::{ReadSegments, hit_time_max};
pub(crate) use rotation::RotationTracker;
