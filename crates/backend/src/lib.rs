//! Disks that hold data. No policy: a backend does what it is told, in the order in which it is told.
//!
//! A [`Disk`] is driven like everything else here: time is an argument. There are four, and three that stand before another:
//!
//! ```text
//! Guarded ─▶ Faulty ─▶ EmulatedDisk   data in memory or in a file, and a drive model that says when each command is done
//!    │       (tests)   RealDisk       a block device or a file of this machine, which says so itself
//!    │       Flaky     MemoryDisk     data in memory, at once; NullDisk keeps nothing
//!    └─ what failed, how long the longest command has been under way, and that a failed flush fails what follows
//! ```
//!
//! Completions of an emulated drive come when the model says, or later if the caller comes later; how much later is part of
//! each completion. A real disk wakes the caller, or has a bell that he waits for.
//!
//! Invariants: an operation owns its buffer from [`Disk::submit`] until its [`Completion`]; every submitted job
//! finishes exactly once; a failure is a value that travels to the client, and nothing is retried.

pub mod device;

mod emulated;
mod faulty;
mod flaky;
mod guarded;
mod memory;
mod real;
mod reopening;
mod store;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use units::{Duration, Extent, Instant, Operation, Sectors};

pub use drive::Parts;
pub use emulated::EmulatedDisk;
pub use faulty::{FaultKind, FaultRule, FaultScript, ScriptedFaults};
pub use flaky::{FaultRates, RandomFaults};
pub use guarded::{Health, HealthMonitor, HealthState};
pub use memory::{MemoryDisk, NullDisk};
pub use real::{RealDisk, RealError, RealOptions};
pub use reopening::{OpenFn, ReopenRequest};
pub use store::{FileStore, FileStoreError, RAM_BYTES_MAX, RamStore, Store};

/// A job's name, chosen by who submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// One command with its data.
#[derive(Debug)]
pub struct Job {
    /// Given back in [`Completion`].
    pub tag: Tag,
    /// What to do; the extent lies inside the disk.
    pub operation: Operation,
    /// What to write, as long as the extent; empty for everything but a write. With a read comes a buffer that may have
    /// the capacity for what is read: it can be filled, or dropped.
    pub data: Vec<u8>,
    /// For a write of zeroes: the space stays the disk's. Else of no meaning.
    pub no_hole: bool,
}

/// Whether sectors have space of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// They have, or it is not known.
    Data,
    /// They have none: they read as zeroes, and writing to them may find the disk full.
    Hole,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Completion {
    /// Which one.
    pub tag: Tag,
    /// What was read, as long as the extent. Or that the disk could not. For anything else its bytes are of no meaning: a
    /// write may give its buffer back, to be used again.
    pub result: Result<Vec<u8>, Failure>,
    /// How long after the drive was done this was noticed, where the drive is a model that says when it was.
    pub delay: Option<Duration>,
}

/// The disk could not do it; what it holds there is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium or what stands for it failed.
    Io,
    /// What stands for the medium is full.
    NoSpace,
    /// The disk is not there any more.
    Offline,
}

/// Wakes whoever drives a disk: something can be reaped. From any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What the time of a disk's commands went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    /// The electronics.
    pub overhead: Duration,
    /// Arm movement, head switch and settling.
    pub seek: Duration,
    /// From there until the first sector was under the head.
    pub rotation: Duration,
    /// The media and the bus.
    pub transfer: Duration,
}

/// How a real disk's commands get to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMethod {
    /// Through a ring.
    IoUring {
        /// Whether the kernel knows the memory of short transfers beforehand: it may not let so much be kept in memory.
        registered: bool,
    },
    /// By threads that each wait for one.
    Threads,
}

impl core::fmt::Display for IoMethod {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::IoUring { registered: true } => "io_uring",
            Self::IoUring { registered: false } => "io_uring, buffers not registered",
            Self::Threads => "threads",
        })
    }
}

/// Something that stores sectors and takes its time.
pub trait Disk: Send {
    /// How much it holds.
    fn capacity(&self) -> Sectors;

    /// Takes a job.
    ///
    /// # Panics
    /// If the extent passes the end, or there are more jobs than the drive's queue holds.
    fn submit(&mut self, job: Job, now: Instant);

    /// Nothing more is submitted for now: what was submitted may begin, all at once.
    fn start(&mut self) {}

    /// Whom to wake when something can be reaped before [`Disk::next_event`], for a disk that does not know its own times.
    fn set_waker(&mut self, waker: Waker) {
        drop(waker);
    }

    /// A file that is readable when something can be reaped, of a disk that has one: whoever waits for requests can wait for
    /// it too. The waker is called all the same for what it does not tell of.
    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether the bell has something to tell of, without a look at the clock.
    fn has_completions(&mut self) -> bool {
        false
    }

    /// How commands get to the kernel, where they do.
    fn io_method(&self) -> Option<IoMethod> {
        None
    }

    /// Whether every job is done when [`Disk::submit`] returns, without having waited for anything. Then it takes no thread
    /// of its own to wait for it: whoever brings requests can carry them out.
    fn completes_synchronously(&self) -> bool {
        false
    }

    /// When there is something to reap, as things stand.
    fn next_event(&self) -> Option<Instant>;

    /// A job that is done by now.
    fn reap(&mut self, now: Instant) -> Option<Completion>;

    /// Which sectors from the extent's first on have space: as many as are alike, at most the extent. `None`: it cannot
    /// tell. It takes none of the disk's time.
    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        let _ = extent;
        None
    }

    /// What these sectors hold, now: for who looks at a disk before it is served, such as at its labels. It waits for the
    /// medium where there is one, and is none of the commands.
    ///
    /// # Errors
    /// See [`Failure`].
    ///
    /// # Panics
    /// If the extent passes the end.
    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure>;

    /// Begins as if it had just been opened: for disks that are always there. No command is under way.
    fn reopen(&mut self) {}

    /// What the time of the command that was reaped last went into, from its submission until the drive was done, if it can
    /// tell.
    fn parts(&self) -> Option<Parts> {
        None
    }

    /// What the time of the commands reaped so far went into, if it can tell.
    fn times(&self) -> Option<ServiceTimes> {
        None
    }
}
