//! A block device or a file of this host.

use core::fmt;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use backend::device::{self as kernel, InUse, check_overwritable};
use host::Clock;
use profiler::{Completion, Facts, Tag, Target};
use rustix::fs::OFlags;
use units::{Bytes, Duration, Instant, Operation, Sectors};

use crate::timed_io::{TimedFile, TransferCost};
use crate::workers::Workers;

/// The number of threads, and so of commands in flight: the queue depth of a SATA drive.
const WORKERS: u32 = 32;
/// The smallest device that can be measured.
const CAPACITY_MIN: Sectors = Sectors(2_048);
/// The most lengths of transfers with separate processor times.
const LENGTHS_MAX: usize = 64;

/// How to open a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessMode {
    /// Whether it may be overwritten.
    pub write: bool,
    /// Whether the page cache may be used: for devices without direct access.
    pub buffered: bool,
}

/// Why a device cannot be measured.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be opened or queried. Cure: as the system says.
    Io(io::Error),
    /// It is neither a block device nor a regular file.
    NoDevice,
    /// It does not support direct access. Cure: `--buffered`, which measures the page cache as much
    /// as the device.
    NoDirectAccess,
    /// It is too small.
    TooSmall(Bytes),
    /// It is in use, and must not be overwritten.
    InUse(InUse),
    /// It is read-only.
    ReadOnly,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => {
                write!(f, "expected a device or a file that can be opened ({error})")
            }
            Self::NoDevice => f.write_str("expected a block device or a regular file"),
            Self::NoDirectAccess => {
                f.write_str("takes no direct access, expected one that does, or --buffered")
            }
            Self::TooSmall(found) => {
                write!(f, "holds {found}, expected at least {}", CAPACITY_MIN.bytes())
            }
            Self::InUse(why) => write!(f, "{why}: expected a device that may be overwritten"),
            Self::ReadOnly => f.write_str("cannot be written to, expected no --write"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The processor time of transfers of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// The number of transfers.
    pub count: u64,
    /// Their processor time, without interrupts.
    pub time: Duration,
}

/// A block device or a file.
pub struct BlockTarget {
    kernel: kernel::DeviceInfo,
    facts: Facts,
    clock: Clock,
    timed_file: TimedFile,
    workers: Workers,
    /// The last command, if nothing was in flight when it was submitted: the caller's thread
    /// performs it in `complete`, without waking another thread.
    waiting: Option<(Tag, Operation)>,
    /// The number of commands that the threads have.
    handed_over: u32,
    processor: BTreeMap<Sectors, ProcessorTime>,
    sparse: bool,
}

impl fmt::Debug for BlockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockTarget").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl BlockTarget {
    /// Opens the device or file at `path`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, access: AccessMode) -> Result<Self, OpenError> {
        let mut file = open(path, access)?;
        let kernel = kernel::DeviceInfo::of(&mut file, !access.buffered)?;
        if kernel.capacity < CAPACITY_MIN {
            return Err(OpenError::TooSmall(kernel.capacity.bytes()));
        }
        if access.write {
            check_overwritable(path, &file, &kernel).map_err(OpenError::InUse)?;
        }
        let metadata = file.metadata()?;
        let sparse =
            !kernel.block_device && metadata.blocks() < Bytes(metadata.len()).sectors_floor().0;
        let facts = Facts {
            sectors: kernel.capacity,
            block: kernel.logical_sector.sectors_floor(),
            writable: access.write,
            flushes: access.write,
            forces: access.write,
            seeks: false,
            depth_max: WORKERS,
        };
        // A timer slack of 1 ns keeps waits exact. Without the privilege for it they are merely
        // longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (file, clock) = (Arc::new(file), Clock::start());
        let workers = Workers::start(&file, clock, WORKERS)?;
        let timed_file = TimedFile::new(file, clock);
        let (waiting, handed_over, processor) = (None, 0, BTreeMap::new());
        Ok(Self {
            kernel,
            facts,
            clock,
            timed_file,
            workers,
            waiting,
            handed_over,
            processor,
            sparse,
        })
    }

    /// The properties that the kernel states.
    pub const fn kernel(&self) -> &kernel::DeviceInfo {
        &self.kernel
    }

    /// Whether parts of the file are not allocated: reads of them reach no disk.
    pub const fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// The time of handing a command to a thread and receiving its completion, beyond the command.
    /// At depth 1 no thread is involved.
    pub const fn overhead(&self) -> Duration {
        self.workers.overhead
    }

    /// The processor time of transfers, by length.
    pub const fn processor(&self) -> &BTreeMap<Sectors, ProcessorTime> {
        &self.processor
    }

    /// Hands the waiting command to the threads.
    fn hand_over(&mut self) {
        if let Some((tag, operation)) = self.waiting.take() {
            self.workers.submit(tag, operation);
            self.handed_over += 1;
        }
    }

    fn count(&mut self, cost: TransferCost) {
        let TransferCost { len, processor } = cost;
        if self.processor.len() < LENGTHS_MAX || self.processor.contains_key(&len) {
            let sum = self.processor.entry(len).or_default();
            sum.count += 1;
            sum.time += processor;
        }
    }
}

/// Opens a device read-only unless it may be overwritten. A block device that may be overwritten is
/// opened exclusively.
fn open(path: &Path, access: AccessMode) -> Result<File, OpenError> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_block_device() && !kind.is_file() {
        // Opening a pipe would block until it has a writer.
        return Err(OpenError::NoDevice);
    }
    let mut flags = OFlags::empty();
    if !access.buffered {
        flags |= OFlags::DIRECT;
    }
    if access.write && kind.is_block_device() {
        flags |= OFlags::EXCL;
    }
    let bits = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
    let mut options = OpenOptions::new();
    options.read(true).write(access.write).custom_flags(bits);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput if !access.buffered => OpenError::NoDirectAccess,
        io::ErrorKind::ResourceBusy => OpenError::InUse(InUse::Held("something".to_owned())),
        io::ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly,
        _ => OpenError::Io(error),
    })
}

impl Target for BlockTarget {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn wait_until(&mut self, at: Instant) {
        self.hand_over();
        host::wait_until(self.clock, at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        assert!(operation.op != units::Op::Write || self.facts.writable, "writing was not allowed");
        let outstanding = self.handed_over + u32::from(self.waiting.is_some());
        assert!(outstanding < self.facts.depth_max, "a thread is free");
        self.hand_over();
        if self.handed_over > 0 {
            self.workers.submit(tag, operation);
            self.handed_over += 1;
        } else {
            self.waiting = Some((tag, operation));
        }
        self.clock.now()
    }

    fn complete(&mut self) -> Completion {
        let (completion, cost) = if let Some((tag, operation)) = self.waiting.take() {
            let (completion, cost) = self.timed_file.perform(tag, operation);
            (completion, Some(cost))
        } else {
            assert!(self.handed_over > 0, "something is outstanding");
            let ended = self.workers.wait();
            self.handed_over -= 1;
            (ended.completion, ended.cost)
        };
        if let Some(cost) = cost {
            self.count(cost);
        }
        completion
    }
}
