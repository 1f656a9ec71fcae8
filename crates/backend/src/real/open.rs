//! Opening a real disk: a block device that no other program uses, or a file that none has locked.

use core::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use units::{Bytes, Duration, Sectors};

use crate::device::{DeviceInfo, InUse, WriteCacheUse, check_overwritable, check_unused};

/// How a real disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealOptions {
    /// The sectors that are served: the disk has at least as many.
    pub capacity: Sectors,
    /// The queue depth, at least one.
    pub depth: u32,
    /// Whether the page cache is used: for devices and files without direct access.
    pub buffered: bool,
    /// Whether a partition table on a block device is accepted as data that clients stored there.
    /// The contents of a regular file are always accepted: naming the file is enough.
    pub adopt: bool,
    /// Whether io_uring is used, if available and if the page cache is not.
    pub ring: bool,
    /// What is asked of the drive's write cache; of a file's drive nothing is.
    pub write_cache: WriteCacheUse,
}

/// Why a real disk cannot be served.
#[derive(Debug)]
pub enum RealError {
    /// It cannot be opened or queried. Cure: see the system's error.
    Io(io::Error),
    /// It is neither a block device nor a regular file.
    NoDevice,
    /// It has no direct access. Cure: `buffered = true`, which uses the page cache.
    NoDirectAccess,
    /// It is in use.
    InUse(InUse),
    /// It holds data of another program. Cure: `adopt = true`, if a client of its volumes wrote
    /// them.
    Foreign(InUse),
    /// Another process has locked it. Cure: stop that one.
    Locked,
    /// Its drive's write cache cannot be switched off. Cure: another `write_cache`.
    WriteCache(io::Error),
    /// It is smaller than before.
    Smaller {
        /// Its size.
        found: Bytes,
        /// The size that is to be served.
        expected: Bytes,
    },
}

impl fmt::Display for RealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => {
                write!(f, "expected a block device or a file that can be opened ({error})")
            }
            Self::NoDevice => f.write_str("expected a block device or a regular file"),
            Self::NoDirectAccess => f.write_str(
                "expected one that takes direct access, or `buffered = true` (which uses the page \
                 cache)",
            ),
            Self::InUse(why) => write!(f, "expected a disk that is not in use ({why})"),
            Self::Foreign(why) => write!(
                f,
                "expected an empty disk, or `adopt = true` if what is on it is its volumes' ({why})"
            ),
            Self::Locked => f.write_str("expected one that no other process has locked"),
            Self::WriteCache(error) => write!(
                f,
                "expected a drive whose write cache can be switched off, or \
                 `write_cache = \"auto\"` ({error})"
            ),
            Self::Smaller { found, expected } => {
                write!(f, "expected one that holds {expected}, not {found}")
            }
        }
    }
}

impl std::error::Error for RealError {}

impl From<io::Error> for RealError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How long to wait for a disk that is in use. A killed process keeps it until its last command has
/// completed, and until then the disk must not be opened: such a write could overtake a new one.
const LET_GO_MAX: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Opens the disk exclusively, for as long as the file is open.
pub(super) fn open(path: &Path, opening: RealOptions) -> Result<(File, DeviceInfo), RealError> {
    for _ in 0..LET_GO_MAX.as_nanos() / LOOK_AGAIN.as_nanos() {
        match open_now(path, opening) {
            Err(RealError::Locked | RealError::InUse(InUse::Claimed)) => {
                std::thread::park_timeout(std::time::Duration::from_nanos(LOOK_AGAIN.as_nanos()));
            }
            opened => return opened,
        }
    }
    open_now(path, opening)
}

fn open_now(path: &Path, opening: RealOptions) -> Result<(File, DeviceInfo), RealError> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_block_device() && !kind.is_file() {
        // Opening a pipe would wait for a writer.
        return Err(RealError::NoDevice);
    }
    let mut flags = OFlags::empty();
    if !opening.buffered {
        flags |= OFlags::DIRECT;
    }
    if kind.is_block_device() {
        // The kernel rejects any other claim on the device or its partitions: mounts, RAID, another
        // server.
        flags |= OFlags::EXCL;
    }
    let bits = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(bits);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput if !opening.buffered => RealError::NoDirectAccess,
        io::ErrorKind::ResourceBusy => RealError::InUse(claimed_by(path)),
        _ => RealError::Io(error),
    })?;
    // The lock keeps udev from probing partitions of a device while clients write them.
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => RealError::Locked,
        TryLockError::Error(error) => RealError::Io(error),
    })?;
    let facts = DeviceInfo::of(&mut file, !opening.buffered)?;
    check_unused(path, &file, &facts).map_err(RealError::InUse)?;
    if facts.block_device && !opening.adopt {
        check_overwritable(path, &file, &facts).map_err(RealError::Foreign)?;
    }
    let (found, expected) = (facts.capacity.bytes(), opening.capacity.bytes());
    if found < expected {
        return Err(RealError::Smaller { found, expected });
    }
    Ok((file, facts))
}

/// What claims the device, as far as sysfs and procfs tell: the kernel does not name the process.
fn claimed_by(path: &Path) -> InUse {
    let found = File::open(path).and_then(|mut file| {
        let facts = DeviceInfo::of(&mut file, false)?;
        Ok(check_overwritable(path, &file, &facts).err())
    });
    found.ok().flatten().unwrap_or(InUse::Claimed)
}
