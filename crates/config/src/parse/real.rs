//! `path` of a `[[disk]]` table: a real disk. Before it is opened, its parameters are read from the
//! kernel by its path.
//!
//! ```text
//! /dev/sdb ── its number ──▶ /sys/dev/block/8:16/{size, queue/rotational}
//! /srv/a.img ─ its length; the number of its file system's device ─▶ queue/rotational
//! ```

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use drive::{AnyModel, Unmeasured};
use rustix::fs::{major, minor};
use units::{Bytes, Sectors};

use super::path::path;

use super::measured;
use crate::limits::{DEPTH_MAX, DISK_SIZE_MIN};
use crate::plan::{Backing, Disk, DriveRef, IoMethod, ProfileRef, RealDisk};
use input::{InputError, Table, size_text};

/// Help for a disk that needs a profile.
pub(crate) const HELP_MEASURE_PROFILE: &str =
    "a `profile` of this disk (`spindle profile DEVICE` measures one)";

/// Direct access uses blocks of at most this size: the sectors after the last whole block are not
/// used.
const BLOCK: Sectors = Sectors(8);

/// Whether the drive is a real one without a profile.
pub(crate) const fn is_unmeasured(model: &AnyModel) -> bool {
    matches!(model, AnyModel::Unknown(_))
}

/// The real disk that the table names, if it names one.
pub(crate) fn check(
    table: &Table<'_>,
    base_dir: &Path,
    known: &[Disk],
) -> Result<Option<ProbedDisk>, InputError> {
    let Some(value) = table.value("path") else {
        let unexpected =
            ["buffered", "adopt", "io_uring"].into_iter().find_map(|key| table.value(key));
        return unexpected
            .map_or(Ok(None), |value| Err(value.refuse("no such field, or a `path`")));
    };
    for key in ["drive", "slowed", "backing"] {
        if let Some(other) = table.value(key) {
            let expected = format_args!("no such field beside `path`: the disk is a real one");
            return Err(other.refuse(expected));
        }
    }
    let flag = |key, or| table.value(key).map_or(Ok(or), |value| value.boolean());
    let text = value.text("the path of a block device or of a file")?;
    let path = path(&value, text, base_dir)?;
    let (buffered, adopt) = (flag("buffered", false)?, flag("adopt", false)?);
    let io_method = if flag("io_uring", true)? { IoMethod::IoUring } else { IoMethod::Threads };
    let parameters = match served(&path, known) {
        Some(parameters) => Some(parameters),
        None => KernelParameters::of(&path)
            .map_err(|error| value.refuse(format_args!("a block device or a file ({error})")))?,
    };
    let Some(parameters) = parameters else {
        return Err(value.refuse("a block device or a regular file"));
    };
    if parameters.capacity.bytes() < DISK_SIZE_MIN {
        let (found, least) = (size_text(parameters.capacity.bytes()), size_text(DISK_SIZE_MIN));
        let expected = format_args!("a disk of at least {least}: this one holds {found}");
        return Err(value.refuse(expected));
    }
    let fast_zero = parameters.fast_zero;
    let real = RealDisk { path, buffered, adopt, io_method, fast_zero };
    Ok(Some(ProbedDisk { real, parameters }))
}

/// The parameters of a disk that is already served. They are kept even if it is no longer present,
/// so that other disks' volumes can still be changed.
fn served(path: &Path, known: &[Disk]) -> Option<KernelParameters> {
    known.iter().find_map(|disk| match &disk.backing {
        Backing::Real(real) if real.path == path => Some(KernelParameters {
            capacity: disk.drive.model.capacity(),
            rotational: disk.drive.model.rotational(),
            fast_zero: real.fast_zero,
        }),
        _ => None,
    })
}

/// The disk's drive: from its profile, or its capacity and whether it rotates.
pub(crate) fn drive(
    table: &Table<'_>,
    base_dir: &Path,
    ProbedDisk { real, parameters }: &ProbedDisk,
) -> Result<(DriveRef, Option<ProfileRef>), InputError> {
    if let Some((value, name, measured)) = measured::read(table, base_dir)? {
        let drive = measured::drive(&value, &name, &measured)?;
        let (here, there) = (parameters.capacity, drive.model.capacity());
        if here.0 / BLOCK.0 != there.0 / BLOCK.0 {
            return Err(value.refuse(format_args!(
                "a profile of this disk, which has {here}; this one is of {there}"
            )));
        }
        let profile = measured::profile(&value, name, &measured, &drive)?;
        return Ok((drive, profile));
    }
    let name = real.path.display().to_string();
    let KernelParameters { capacity, rotational, .. } = *parameters;
    let unknown = Unmeasured { capacity, rotational, queue_depth_max: DEPTH_MAX };
    Ok((DriveRef { name, model: AnyModel::Unknown(unknown) }, None))
}

/// A real disk, and its parameters from the kernel.
pub(crate) struct ProbedDisk {
    pub(crate) real: RealDisk,
    parameters: KernelParameters,
}

/// The kernel's parameters of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelParameters {
    /// In whole blocks.
    capacity: Sectors,
    rotational: bool,
    /// Whether zeroing moves no data.
    fast_zero: bool,
}

impl KernelParameters {
    /// `None` for a path that is neither a block device nor a regular file.
    fn of(path: &Path) -> std::io::Result<Option<Self>> {
        let metadata = std::fs::metadata(path)?;
        let Some(kind) = Kind::of(&metadata) else { return Ok(None) };
        let (device, sectors) = match kind {
            Kind::Device => {
                let device = sysfs(metadata.rdev());
                let size = std::fs::read_to_string(device.join("size"))?;
                (device, Sectors(size.trim().parse().unwrap_or(0)))
            }
            Kind::File => (sysfs(metadata.dev()), Bytes(metadata.len()).sectors_floor()),
        };
        // A partition has no queue of its own.
        let queue = |name: &str| {
            let paths = [device.join("queue").join(name), device.join("../queue").join(name)];
            let text = paths.iter().find_map(|path| std::fs::read_to_string(path).ok());
            text.map_or(0, |text| text.trim().parse::<u64>().unwrap_or(0))
        };
        Ok(Some(Self {
            capacity: Sectors(sectors.0 / BLOCK.0 * BLOCK.0),
            rotational: queue("rotational") == 1,
            fast_zero: matches!(kind, Kind::File) || queue("write_zeroes_max_bytes") > 0,
        }))
    }
}

enum Kind {
    Device,
    File,
}

impl Kind {
    fn of(metadata: &Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        let device = kind.is_block_device().then_some(Self::Device);
        device.or(kind.is_file().then_some(Self::File))
    }
}

/// The sysfs directory of the device of this number.
fn sysfs(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(format!("{}:{}", major(device), minor(device)))
}
