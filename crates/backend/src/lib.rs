//! Disks that hold data. No policy: a backend does what it is told, in the order in which it is told.
//!
//! A [`Disk`] is driven like everything else here: time is an argument. [`Emulated`] is data in memory or in a file,
//! and a drive model that says when each command is done; [`Memory`] and [`Null`] take no time. Completions of a model
//! come when it says, or later if the caller comes later; how much later is part of each completion.
//!
//! Invariants: an operation owns its buffer from [`Disk::submit`] until its [`Finished`]; every submitted job
//! finishes exactly once; a failure is a value that travels to the client, and nothing is retried.

mod emulated;
mod memory;
mod store;

use units::{Duration, Extent, Instant, Operation, Sectors};

pub use emulated::Emulated;
pub use memory::{Memory, Null};
pub use store::{FileStore, OpenError, RAM_BYTES_MAX, RamStore, Store};

/// A job's name, chosen by who submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// One command with its data.
#[derive(Debug)]
pub struct Job {
    /// Given back in [`Finished`].
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
pub enum Space {
    /// They have, or it is not known.
    Taken,
    /// They have none: they read as zeroes, and writing to them may find the disk full.
    Hole,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Which one.
    pub tag: Tag,
    /// What was read, as long as the extent. Or that the disk could not. For anything else its bytes are of no meaning: a
    /// write may give its buffer back, to be used again.
    pub result: Result<Vec<u8>, Failure>,
    /// How long after the drive was done this was noticed.
    pub late: Duration,
}

/// The disk could not do it; what it holds there is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium or what stands for it failed.
    Io,
    /// What stands for the medium is full.
    NoSpace,
}

/// What the time of a disk's commands went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The electronics.
    pub overhead: Duration,
    /// Arm movement, head switch and settling.
    pub seek: Duration,
    /// From there until the first sector was under the head.
    pub rotation: Duration,
    /// The media and the bus.
    pub transfer: Duration,
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

    /// Whether every job is done when [`Disk::submit`] returns, without having waited for anything. Then it takes no thread
    /// of its own to wait for it: whoever brings requests can carry them out.
    fn is_prompt(&self) -> bool {
        false
    }

    /// When there is something to reap, as things stand.
    fn next_event(&self) -> Option<Instant>;

    /// A job that is done by now.
    fn reap(&mut self, now: Instant) -> Option<Finished>;

    /// Which sectors from the extent's first on have space: as many as are alike, at most the extent. `None`: it cannot
    /// tell. It takes none of the disk's time.
    fn space(&mut self, extent: Extent) -> Option<(Space, Sectors)> {
        let _ = extent;
        None
    }

    /// What the time of the commands reaped so far went into, if it can tell.
    fn times(&self) -> Option<Times> {
        None
    }
}
