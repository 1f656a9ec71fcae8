//! How a request becomes disk commands (FAST 2003, "Design and Implementation of Semi-preemptible IO").
//!
//! Between any two commands somebody else may go first. So a request is executed as short ones:
//!
//! ```text
//! a request:  [slack][sub-seek]…[sub-seek][slack][chunk][chunk]…[chunk (FUA if it writes)]
//!              idle   a SEEK               idle   rides the drive's read-ahead or its write buffer
//! ```
//!
//! A plan is not kept: what comes next follows from what is left of the request, where the arm is thought to be
//! and which angle is thought to be under the head. A request that was preempted therefore resumes by itself, with
//! the way there worked out anew.
//!
//! Invariants: the plan of a request transfers each of its sectors once and in order; predictions are made from a
//! [`Profile`](drive_profile::Profile) and from completions, never from the drive; a wait never lasts longer than a turn and a half.

mod arm;
mod execution;
mod executor;
mod positioning;
mod rotation;

pub use execution::{
    Approach, Execution, Jit, Preemptible, PreemptionStats, Purpose, SeekSplit, expected_wait,
};
pub(crate) use executor::{Executor, Step};
