//! The scheduler of one disk: contracts, admission, accounting and policies. Sans-IO.
//!
//! An [`Engine`] serves one disk. Its driver reports events with [`Engine::handle`], polls actions
//! with [`Engine::poll`] until it returns `None`, and returns at [`Engine::next_wakeup`] at the
//! latest. The same calls drive a disk in real time and a simulated one in virtual time.
//!
//! ```text
//!  Submit ──▶ queue per volume ──pick──▶ commands (at most `depth`) ──Issue──▶ the drive
//!                    ▲                         │                                  │
//!                 Policy ◀──── charge ◀──── Meter ◀───────── Completed ◀──────────┘
//! ```
//!
//! Invariants: the engine reads no clock, does no I/O and uses no randomness; it never sees the
//! drive's true state, only completions; every request is answered exactly once; the charges of the
//! volumes add up to the disk's busy time.

mod accounting;
mod chooser;
mod contract;
mod engine;
pub mod limits;
mod policy;
mod preempt;
mod read_ahead;
mod request;
mod settings;
pub mod stream;
mod write_buffer;

pub use accounting::deferred::{DeferredWrites, StoreRate};
pub use accounting::estimate::{
    DriveTable, Estimates, EstimatorName, SEQUENTIAL_WITHIN, TABLE_POINTS, UnknownEstimator,
};
pub use chooser::{ChooserName, PredictionStats, UnknownChooser};
pub use contract::{
    Admission, ClosestCalls, Contract, ContractSchedule, LatencyContract, LatencyStats, Mechanics,
    Priority, RateContract, RateRequirement, Refusal, StreamContract, Tokens, VolumeId, Weight,
};
pub use engine::{
    BEST_EFFORT_TASK, CommandPieces, Engine, FreeblockStats, IdleReason, LongestCommand,
    RESERVES_TASK, latency_task, reserve_task, volume_of_task,
};
pub use policy::{ContractUnit, Feature, PolicyName, UnknownPolicy, WorstCase};
pub use preempt::{
    Approach, Execution, FreePrefetch, Jit, Preemptible, PreemptionStats, Purpose, SeekSplit,
    SeeksAhead, ShortReadTrade, expected_wait,
};
pub use read_ahead::{
    Part, ReadAhead, ReadAheadAction, ReadAheadSettings, ReadAheadUsage, SegmentId, ServedBy,
};
pub use request::{
    Action, Command, CommandId, DeadlineStats, Event, Outcome, Reply, Request, RequestId,
    ServiceDemand, StreamBytes, VolumeUsage,
};
pub use settings::{BestEffortServer, Charging, CommandBound, Deadlines, ForcedWrites, Settings};
pub use write_buffer::{
    BufferedPart, Buffering, Destage, DestageId, Handling, PieceId, WriteBuffer, WriteBufferAction,
    WriteBufferSettings, WriteBufferUsage,
};
