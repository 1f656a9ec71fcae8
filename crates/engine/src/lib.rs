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

mod admission;
mod agenda;
mod bucket;
mod contract;
mod engine;
mod estimate;
mod execute;
pub mod limits;
mod meter;
mod order;
mod pending;
mod policy;
mod request;
mod settings;
pub mod stream;
mod translate;
mod usage;

pub use admission::{Admission, Refusal};
pub use agenda::Agenda;
pub use contract::{Contract, PolicyName, Priority, Stream, UnknownPolicy, VolumeId, Weight};
pub use engine::{BEST_EFFORT_TASK, Engine, Rest};
pub use estimate::{
    DriveTable, Estimates, EstimatorName, SEQUENTIAL_WITHIN, TABLE_POINTS, UnknownEstimator,
};
pub use execute::{
    Approach, Executed, Execution, Jit, Preemptible, Purpose, SeekSplit, expected_wait,
};
pub use request::{
    Account, Action, Command, CommandId, Event, Kept, Outcome, Reply, Request, RequestId,
};
pub use settings::{CommandBound, Deadlines, Server, Settings};
pub use translate::{Declared, Demand, Mechanics};
