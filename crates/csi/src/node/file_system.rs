//! File systems: found, made where there is nothing, checked, grown.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tonic::Status;

use super::tools;

/// `blkid` has found nothing.
const NOTHING: i32 = 2;
/// `e2fsck` has left errors: it has repaired what is below.
const LEFT_ERRORS: i32 = 4;

/// The offset of `sb_inprogress` in the superblock of XFS. It is 1 until `mkfs.xfs` has finished; a
/// file system that was ever mounted has 0.
const XFS_IN_PROGRESS: u64 = 126;

/// Whether a `mkfs.xfs` on this device was killed. The superblock of ext4 is written last, so that
/// a killed `mkfs.ext4` leaves no signature.
fn is_unfinished_xfs(device: &str) -> Result<bool, Status> {
    let mut flag = [0; 1];
    let read = File::open(device).and_then(|file| file.read_exact_at(&mut flag, XFS_IN_PROGRESS));
    read.map_err(|error| Status::internal(format!("{device} cannot be read: {error}")))?;
    Ok(flag[0] == 1)
}

/// What is on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// No signature of anything.
    Blank,
    /// A file system, or another signature by its name: a partition table, LVM, LUKS.
    Of(String),
}

impl FileSystem {
    /// What is on a device, by its own reading and not by a cache.
    ///
    /// # Errors
    /// It cannot be told: then nothing is made there.
    fn find(device: &str) -> Result<Self, Status> {
        let output = tools::run("blkid", &["-p", "-o", "export", "--", device])?;
        let text = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(0) => {
                let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
                let found = value("TYPE=").or_else(|| value("PTTYPE="));
                Ok(Self::Of(found.unwrap_or("an unknown kind").to_owned()))
            }
            Some(NOTHING) => Ok(Self::Blank),
            // Ambiguous signatures, or the device cannot be read.
            _ => Err(Status::internal(format!("blkid of {device}: {}", tools::said(&output)))),
        }
    }

    /// Makes a device ready to be mounted: makes a file system where there is no signature, checks
    /// the one that is there, and refuses anything else.
    pub(super) fn prepare(volume: &str, device: &str, file_system: &str) -> Result<(), Status> {
        match Self::find(device)? {
            Self::Blank => Self::make(device, file_system, false),
            Self::Of(found) if found != file_system => Err(Status::failed_precondition(format!(
                "volume \"{volume}\" has a signature of {found}, expected {file_system} or none: \
                 it is not formatted again"
            ))),
            Self::Of(_) if file_system == "xfs" && is_unfinished_xfs(device)? => {
                Self::make(device, file_system, true)
            }
            Self::Of(_) => Self::repair(device, file_system),
        }
    }

    /// Makes a file system. Without `again`, `mkfs.xfs` refuses a device with a signature, too.
    fn make(device: &str, file_system: &str, again: bool) -> Result<(), Status> {
        match (file_system, again) {
            ("xfs", false) => tools::expect("mkfs.xfs", &["-K", device]),
            ("xfs", true) => tools::expect("mkfs.xfs", &["-f", "-K", device]),
            _ => tools::expect("mkfs.ext4", &["-q", "-E", "nodiscard", "-m", "0", device]),
        }
        .map(drop)
    }

    /// Checks a file system before it is mounted. XFS replays its log when it is mounted.
    fn repair(device: &str, file_system: &str) -> Result<(), Status> {
        if file_system != "ext4" {
            return Ok(());
        }
        let output = tools::run("e2fsck", &["-p", device])?;
        if output.status.code().is_some_and(|code| code < LEFT_ERRORS) {
            return Ok(());
        }
        let (text, said) = (String::from_utf8_lossy(&output.stdout), tools::said(&output));
        Err(Status::internal(format!("e2fsck of {device}: {said}: {}", text.trim())))
    }

    /// Grows a mounted file system to its device.
    pub(super) fn grow(device: &str, at: &str, file_system: &str) -> Result<(), Status> {
        match file_system {
            "xfs" => tools::expect("xfs_growfs", &[at]),
            "ext4" => tools::expect("resize2fs", &[device]),
            _ => return Ok(()),
        }
        .map(drop)
    }
}
