//! The trait of all disks, and the values that go in and out.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use drive::Parts;
use units::{Duration, Extent, Instant, Operation, Sectors};

use crate::buffers::Buffers;
use crate::device::WriteCacheState;

/// A job's identifier, chosen by the submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// One command with its data.
#[derive(Debug)]
pub struct Job {
    /// Returned in the [`Completion`].
    pub tag: Tag,
    /// The command; its extent lies inside the disk.
    pub operation: Operation,
    /// The bytes of a write, as long as the extent; empty for every other command. A read may bring
    /// buffers without bytes but with capacity: the disk fills them. See [`Buffers::fit`].
    pub data: Buffers,
    /// For a write of zeroes: the sectors stay allocated. Ignored for every other command.
    pub no_hole: bool,
}

/// Whether sectors are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// They are allocated, or the disk does not know.
    Data,
    /// They are not allocated: they read as zeroes, and a write to them can find the disk full.
    Hole,
}

/// The end of a job.
#[derive(Debug)]
pub struct Completion {
    /// Which job.
    pub tag: Tag,
    /// Whether the command succeeded, or why it failed.
    pub result: Result<(), Failure>,
    /// The job's buffers. Those of a read that succeeded hold what was read, as long as the extent;
    /// those of a write still hold its bytes, also if it failed. Otherwise their bytes mean
    /// nothing. A disk that was given up returns none: its device may yet use them.
    pub data: Buffers,
    /// For a modelled drive: the time from the modelled completion until it was reaped.
    pub delay: Option<Duration>,
}

impl Job {
    /// The end of a job that failed before it began.
    pub(crate) fn failed(self, failure: Failure) -> Completion {
        Completion { tag: self.tag, result: Err(failure), data: self.data, delay: None }
    }
}

impl Completion {
    /// The bytes of a read.
    ///
    /// # Errors
    /// Why the command failed.
    pub fn into_bytes(self) -> Result<Vec<u8>, Failure> {
        self.result.map(|()| self.data.into_bytes())
    }
}

/// Why a command failed; the contents of its sectors are undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium, or the file in its place, failed.
    Io,
    /// The file system or device under the disk is full.
    NoSpace,
    /// The device has been removed.
    Offline,
}

/// Wakes the thread that drives a disk: a completion can be reaped. Callable from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The components of the disk time of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Controller and command overhead.
    pub overhead: Duration,
    /// Seek, head switch and settle.
    pub seek: Duration,
    /// Rotational latency: from the settled head to the first sector.
    pub rotation: Duration,
    /// Transfer at the medium and on the bus.
    pub transfer: Duration,
}

/// How commands of a real disk reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMethod {
    /// Through io_uring.
    IoUring {
        /// Whether the buffers of short transfers are registered with the kernel, which the limit
        /// on locked memory can forbid.
        registered: bool,
    },
    /// By threads that make one blocking system call each.
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

/// A disk: stores sectors, and takes time to do so.
pub trait Disk: Send {
    /// Its size.
    fn capacity(&self) -> Sectors;

    /// Takes a job.
    ///
    /// # Panics
    /// If the extent passes the end, the job's buffers do not fit its operation, or more jobs are
    /// in flight than the drive's queue holds.
    fn submit(&mut self, job: Job, now: Instant);

    /// Starts the submitted jobs, all in one batch where the backend can.
    fn start(&mut self) {}

    /// Sets the callback for completions that can be reaped before [`Disk::next_event`]: of a disk
    /// that does not know its own times.
    fn set_waker(&mut self, waker: Waker) {
        drop(waker);
    }

    /// A descriptor that is readable while a completion can be reaped, if the disk has one: an
    /// event loop polls it together with its sockets. The waker reports the completions that the
    /// descriptor does not cover.
    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether the completion descriptor is readable. Reads no clock, makes no system call.
    fn has_completions(&mut self) -> bool {
        false
    }

    /// How commands reach the kernel, for a disk whose commands do.
    fn io_method(&self) -> Option<IoMethod> {
        None
    }

    /// How writes get past the write cache of the drive behind it, for a device of this machine.
    fn write_cache(&self) -> Option<WriteCacheState> {
        None
    }

    /// Whether every job is complete when [`Disk::submit`] returns, without blocking. Such a disk
    /// needs no thread of its own: the submitting thread reaps.
    fn completes_synchronously(&self) -> bool {
        false
    }

    /// When the next completion is due, as far as is known.
    fn next_event(&self) -> Option<Instant>;

    /// A completion that is due by `now`.
    fn reap(&mut self, now: Instant) -> Option<Completion>;

    /// The allocation of the extent's first sectors, and the number of sectors that share it, at
    /// most the extent's. `None`: the disk cannot tell. Costs no disk time.
    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        let _ = extent;
        None
    }

    /// Reads sectors at once, outside of the command queue: for labels and the like, before the
    /// disk is served. Blocks until the medium answers.
    ///
    /// # Errors
    /// See [`Failure`].
    ///
    /// # Panics
    /// If the extent passes the end.
    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure>;

    /// Returns to the state just after opening: for disks that cannot be closed. No command is in
    /// flight.
    fn reopen(&mut self) {}

    /// The components of the disk time of the command that was reaped last, from its submission
    /// to its completion by the drive, if the disk can tell.
    fn parts(&self) -> Option<Parts> {
        None
    }

    /// The components of the disk time of all reaped commands, if the disk can tell.
    fn times(&self) -> Option<ServiceTimes> {
        None
    }
}
