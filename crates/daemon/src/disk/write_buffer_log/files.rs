//! The two files of a log: where they are, whose they are, and what they bring back.

use core::fmt::{self, Display};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use checksum::crc64;
use config::WriteBufferLog as Wanted;
use rustix::fs::{major, minor};
use units::{Bytes, Extent, SECTOR_BYTES, Sectors};

use super::record::{Kept, RECORD_BYTES, Undone, seal};

const MAGIC: [u8; 8] = *b"SPNDWBL1";
/// Where Linux keeps shared memory.
const MEMORY: &str = "/dev/shm";
/// The identifier of this boot of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The bytes that are written to the disk at once.
const STEP: usize = 1 << 20;

impl Display for LogFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.records.display())
    }
}

/// What was written to a disk from the log of an earlier daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) writes: u64,
    pub(crate) size: Bytes,
}

/// The files of a disk's log.
#[derive(Clone, Debug)]
pub(crate) struct LogFiles {
    records: PathBuf,
    data: PathBuf,
    head: [u8; RECORD_BYTES],
    /// The file or block device that holds the disk's data.
    disk: PathBuf,
}

impl LogFiles {
    /// The files for the disk whose data is at `disk`; `None` if there are to be none.
    ///
    /// # Errors
    /// The directory, and why it cannot be used.
    pub(crate) fn of(disk: &Path, wanted: &Wanted) -> Result<Option<Self>, String> {
        let directory = match wanted {
            Wanted::Off => return Ok(None),
            Wanted::Directory(directory) => directory.clone(),
            Wanted::Auto => automatic(),
        };
        let failed = |error: &dyn Display| format!("{}: {error}", directory.display());
        private(&directory).map_err(|error| failed(&error))?;
        Self::inside(&directory, disk).map(Some).map_err(|error| failed(&error))
    }

    pub(super) fn inside(directory: &Path, disk: &Path) -> io::Result<Self> {
        let identity = crc64(identity(disk)?.as_bytes());
        let boot = fs::read_to_string(BOOT);
        let boot =
            boot.map_err(|error| io::Error::new(error.kind(), format!("{BOOT}: {error}")))?;
        let mut head = [0; RECORD_BYTES];
        head[..8].copy_from_slice(&MAGIC);
        head[8..16].copy_from_slice(&identity.to_le_bytes());
        head[16..24].copy_from_slice(&crc64(boot.trim().as_bytes()).to_le_bytes());
        seal(&mut head);
        let file = |kind: &str| directory.join(format!("write-buffer-{identity:016x}.{kind}"));
        let disk = disk.to_owned();
        Ok(Self { records: file("records"), data: file("data"), head, disk })
    }

    pub(super) fn create(&self) -> io::Result<(File, File)> {
        // The records first: old ones must not name new data.
        let records = create(&self.records)?;
        records.write_all_at(&self.head, 0)?;
        Ok((records, create(&self.data)?))
    }

    /// Replaces the records; a kill leaves the old ones or the new ones.
    pub(super) fn replace(&self, records: &[u8]) -> io::Result<File> {
        let path = self.records.with_extension("new");
        let file = create(&path)?;
        file.write_all_at(&self.head, 0)?;
        file.write_all_at(records, RECORD_BYTES as u64)?;
        fs::rename(path, &self.records)?;
        Ok(file)
    }

    pub(super) fn remove(&self) {
        // Records without data are refused by the next daemon; data without records is not read.
        let removed = fs::remove_file(&self.records);
        if removed.is_ok() || removed.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let _ = fs::remove_file(&self.data);
        }
    }

    /// What an earlier daemon had buffered for the disk when it was killed.
    fn read(&self) -> Result<Option<Undone>, String> {
        let bytes = match fs::read(&self.records) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", self.records.display())),
        };
        // One of another boot, or one that was not begun.
        let Some((head, records)) = bytes.split_at_checked(RECORD_BYTES) else { return Ok(None) };
        if head != self.head {
            return Ok(None);
        }
        let undone = Undone::read(records).map_err(|_| {
            let path = self.records.display();
            format!(
                "found damage in {path}, what an earlier daemon had buffered for this disk; \
                 expected a whole file (without it the disk is as after a power failure)"
            )
        })?;
        Ok(Some(undone))
    }

    /// Whether an earlier daemon has left something for the disk.
    pub(crate) fn is_left(&self) -> Result<bool, String> {
        Ok(self.read()?.is_some_and(|undone| undone.kept().next().is_some()))
    }

    /// Writes what an earlier daemon had buffered to the disk, of `capacity`, and removes the log.
    /// The disk is not served yet.
    ///
    /// # Errors
    /// What failed; the log is kept.
    pub(crate) fn write_back(&self, capacity: Sectors) -> Result<Rewritten, String> {
        let Some(undone) = self.read()? else {
            self.remove();
            return Ok(Rewritten::default());
        };
        let failed = |error: io::Error| {
            format!(
                "cannot write what an earlier daemon had buffered ({}): {error}",
                self.records.display()
            )
        };
        let data = File::open(&self.data).map_err(failed)?;
        let disk = File::options().write(true).open(&self.disk).map_err(failed)?;
        let mut rewritten = Rewritten::default();
        let mut buffer = vec![0; STEP];
        for Kept { extent, at } in undone.kept() {
            if extent.end().0 > capacity.0 {
                return Err(failed(io::Error::other("it passes the end of the disk")));
            }
            copy((&data, at), (&disk, extent), &mut buffer).map_err(failed)?;
            rewritten.writes += 1;
            rewritten.size = Bytes(rewritten.size.0 + extent.len.bytes().0);
        }
        disk.sync_all().map_err(failed)?;
        self.remove();
        Ok(rewritten)
    }
}

fn copy(
    (data, at): (&File, u64),
    (disk, extent): (&File, Extent),
    buffer: &mut [u8],
) -> io::Result<()> {
    let (mut from, mut to) = (at, extent.start.0 * SECTOR_BYTES);
    let mut left = extent.len.bytes_usize();
    while left > 0 {
        let step = left.min(buffer.len());
        data.read_exact_at(&mut buffer[..step], from)?;
        disk.write_all_at(&buffer[..step], to)?;
        (from, to, left) = (from + step as u64, to + step as u64, left - step);
    }
    Ok(())
}

/// An empty file that its owner alone reads: it has what clients wrote.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The directory of the service manager, or one of this user.
fn automatic() -> PathBuf {
    let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|given| !given.is_empty());
    // With several directories, the first.
    let given = given.and_then(|given| std::env::split_paths(&given).next());
    given.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        Path::new(MEMORY).join(format!("spindle-{user}"))
    })
}

/// Makes sure of a directory that belongs to this user.
fn private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("expected a directory of this user"));
    }
    Ok(())
}

/// What distinguishes the disk from others with the same path or number, now or later: a file has
/// the time of its creation, a device the kernel's number of the disk in it.
fn identity(disk: &Path) -> io::Result<String> {
    let found = fs::metadata(disk)?;
    if found.file_type().is_block_device() {
        let number = format!("{}:{}", major(found.rdev()), minor(found.rdev()));
        let sysfs = Path::new("/sys/dev/block").join(&number);
        let inserted = ["diskseq", "../diskseq"].iter().find_map(|file| {
            let text = fs::read_to_string(sysfs.join(file)).ok()?;
            Some(text.trim().to_owned())
        });
        return Ok(format!("device {number} {}", inserted.unwrap_or_default()));
    }
    let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let created = created.map_or(0, |since| since.as_nanos());
    Ok(format!("file {}:{} {created}", found.dev(), found.ino()))
}
