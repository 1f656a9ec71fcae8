//! Disks that hold data. No policy: a backend executes what is submitted, in the order of
//! submission as far as the device keeps it.
//!
//! A [`Disk`] is driven like the engine: time is an argument. Four backends, and three layers that
//! stand before one:
//!
//! ```text
//! HealthMonitor ─▶ ScriptedFaults ─▶ EmulatedDisk  data in memory or a file; a model's times
//!  state, failure   (tests)          RealDisk      a block device or a file of this machine
//!  counts, reopen   RandomFaults     MemoryDisk    data in memory, completed on submission
//!                   (config)         NullDisk      keeps nothing, completed on submission
//! ```
//!
//! Completions of an emulated drive are due when the model says so. They are reaped then or later;
//! [`Completion::delay`] is the difference. A real disk wakes its driver, or has a completion
//! descriptor that the driver polls.
//!
//! Invariants: an operation owns its buffers from [`Disk::submit`] until its [`Completion`]; every
//! submitted job completes exactly once; a failure is a value that travels to the client, and
//! nothing is retried. `tests/conformance.rs` holds every backend and every layer to them.

pub mod device;
pub mod limits;

mod buffers;
mod disk;
mod emulated;
mod layers;
mod memory;
mod real;
mod vectored;

pub use buffers::{Buffers, Part};
pub use disk::{Allocation, Completion, Disk, Failure, IoMethod, Job, ServiceTimes, Tag, Waker};
pub use drive::{Parts, SharedBus};
pub use emulated::EmulatedDisk;
pub use emulated::store::{FileStore, FileStoreError, RAM_BYTES_MAX, RamStore, Store};
pub use layers::health::{Health, HealthMonitor, HealthState};
pub use layers::random_faults::{FaultRates, RandomFaults};
pub use layers::reopen::{OpenFn, ReopenRequest};
pub use layers::scripted_faults::{FaultKind, FaultRule, FaultScript, ScriptedFaults};
pub use layers::slow_disk::{SLOW_IN_A_ROW, STALLED_TIMES, SlowDisk, SlowDiskRule};
pub use memory::{AbsentDisk, MemoryDisk, NullDisk};
pub use real::{RealDisk, RealError, RealOptions};
