//! One disk's brain: contracts, accounting, admission, policies. Sans-IO.
//!
//! An [`Engine`] serves one disk. The world tells it what happened with [`Engine::handle`], asks it what to do
//! with [`Engine::poll`] until it says `None`, and comes back at [`Engine::next_wakeup`] at the latest. The same
//! calls drive a disk in real time and a simulated one in virtual time.
//!
//! ```text
//!  Submit ──▶ a queue a volume ──pick──▶ commands (at most `depth`) ──Issue──▶ the drive
//!                    ▲                         │                                  │
//!                 Policy ◀──── charge ◀──── Meter ◀───────── Completed ◀──────────┘
//! ```
//!
//! Invariants: the engine cannot tell the time, does no I/O and rolls no dice; it never sees the drive's true
//! state, only completions; every request is answered exactly once; what the volumes are charged adds up to
//! the disk's busy time.

mod accounting;
mod contract;
mod engine;
pub mod limits;
mod policy;
mod preempt;
mod request;
mod settings;
pub mod stream;

pub use accounting::estimate::{
    DriveTable, Estimates, EstimatorName, SEQUENTIAL_WITHIN, TABLE_POINTS, UnknownEstimator,
};
pub use contract::{
    Admission, Contract, ContractSchedule, Mechanics, Priority, RateContract, RateRequirement,
    Refusal, StreamContract, VolumeId, Weight,
};
pub use engine::{BEST_EFFORT_TASK, Engine, IdleReason};
pub use policy::{PolicyName, UnknownPolicy};
pub use preempt::{
    Approach, Execution, Jit, Preemptible, PreemptionStats, Purpose, SeekSplit, expected_wait,
};
pub use request::{
    Action, Command, CommandId, DeadlineStats, Event, Outcome, Reply, Request, RequestId,
    VolumeUsage,
};
pub use settings::{BestEffortServer, CommandBound, Deadlines, Settings};
