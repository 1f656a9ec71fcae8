//! RealOptions a real disk: a block device that nobody else uses, or a file that nobody else has
//! locked.

use core::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use units::{Bytes, Duration, Sectors};

use crate::device::{DeviceInfo, InUse, check_overwritable, check_unused};

/// How a real disk is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealOptions {
    /// What is served of it: it holds at least so much.
    pub capacity: Sectors,
    /// Commands at once, at least one.
    pub depth: u32,
    /// Whether the page cache may stand between: for what takes no direct access.
    pub buffered: bool,
    /// Whether a table of partitions on a block device is taken as what was stored there through
    /// us. What a file holds is taken as that in any case: whoever names a file means it.
    pub adopt: bool,
    /// Whether commands go through io_uring, where the kernel lets us and the page cache does not
    /// stand between.
    pub ring: bool,
}

/// Why a real disk cannot be served.
#[derive(Debug)]
pub enum RealError {
    /// It cannot be opened or asked. Cure: as the system says.
    Io(io::Error),
    /// It is neither a block device nor a regular file.
    NoDevice,
    /// It takes no direct access. Cure: `buffered = true`, with the page cache between.
    NoDirectAccess,
    /// Somebody uses it.
    InUse(InUse),
    /// It holds something that somebody put there. Cure: `adopt = true`, if that was one of its
    /// volumes' clients.
    Foreign(InUse),
    /// Another process has locked it. Cure: stop that one.
    Locked,
    /// It holds less than it did.
    Smaller {
        /// What it holds.
        found: Bytes,
        /// What is to be served of it.
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
                "expected one that takes direct access, or `buffered = true` (the page cache stands between then)",
            ),
            Self::InUse(why) => write!(f, "expected a disk that nobody uses ({why})"),
            Self::Foreign(why) => write!(
                f,
                "expected an empty disk, or `adopt = true` if what is on it is its volumes' ({why})"
            ),
            Self::Locked => f.write_str("expected one that no other process has locked"),
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

/// How long a disk is waited for that somebody has. One who was killed has it until the last
/// command that it gave the kernel has ended, and until then the disk must not be anybody else's: a
/// write that is under way would pass one of ours.
const LET_GO_MAX: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Opens the disk, for this process alone for as long as the file is open.
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
        // RealOptions a pipe would wait for somebody to write into it.
        return Err(RealError::NoDevice);
    }
    let mut flags = OFlags::empty();
    if !opening.buffered {
        flags |= OFlags::DIRECT;
    }
    if kind.is_block_device() {
        // The kernel keeps out whoever else claims the device or a partition of it: mounts, RAID,
        // another of us.
        flags |= OFlags::EXCL;
    }
    let bits = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(bits);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput if !opening.buffered => RealError::NoDirectAccess,
        io::ErrorKind::ResourceBusy => RealError::InUse(who_claims(path)),
        _ => RealError::Io(error),
    })?;
    // Of a device this keeps udev from looking for partitions while clients write them.
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

/// Who keeps us from claiming a device, as far as that can be told from outside: nobody says who
/// has opened it.
fn who_claims(path: &Path) -> InUse {
    let found = File::open(path).and_then(|mut file| {
        let facts = DeviceInfo::of(&mut file, false)?;
        Ok(check_overwritable(path, &file, &facts).err())
    });
    found.ok().flatten().unwrap_or(InUse::Claimed)
}
