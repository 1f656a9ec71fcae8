//! Properties of a device or a file, queried once when it is opened.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FsWord, StatxFlags, fstatfs, ioctl_blksszget, major, minor, statx};
use units::{Bytes, SECTOR_BYTES, Sectors};

/// The memory alignment that every device accepts.
pub const MEMORY_ALIGN: usize = 4_096;
/// The longest transfer of a system call: Linux splits longer ones into commands of at most this
/// length, and the time of several is not the time of a command.
const TRANSFER_MAX: Sectors = Sectors(2_048);

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Whether it is a block device; otherwise a regular file.
    pub block_device: bool,
    /// Its size, in whole logical blocks.
    pub capacity: Sectors,
    /// The logical block: every access begins and ends on one.
    pub logical_sector: Bytes,
    /// The memory alignment of every direct access: at most [`MEMORY_ALIGN`].
    pub memory_align: usize,
    /// The longest transfer that is one command.
    pub transfer_max: Sectors,
    /// The model name, if the device reports one.
    pub model: Option<String>,
    /// The device's directory in sysfs.
    pub sysfs: Option<PathBuf>,
}

impl DeviceInfo {
    /// Queries an open block device or regular file.
    ///
    /// # Errors
    /// See the system's error.
    pub fn of(file: &mut File, direct: bool) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let block_device = metadata.file_type().is_block_device();
        let bytes = if block_device { file.seek(SeekFrom::End(0))? } else { metadata.len() };
        let sector = match (block_device, direct) {
            (true, _) => u64::from(ioctl_blksszget(&*file)?),
            (false, true) => direct_align(file),
            (false, false) => SECTOR_BYTES,
        };
        let logical_sector = Bytes(sector.max(SECTOR_BYTES));
        let sysfs = block_device.then(|| sysfs(metadata.rdev()));
        // A partition has no queue of its own.
        let queue = |name: &str| {
            let of = sysfs.as_deref()?;
            let all = [of.join("queue").join(name), of.join("../queue").join(name)];
            all.iter().find_map(|path| text(path))
        };
        let kibibytes = queue("max_sectors_kb").and_then(|text| text.parse::<u64>().ok());
        let transfer = kibibytes.map_or(TRANSFER_MAX, |kib| Bytes(kib << 10).sectors_floor());
        let whole = |sectors: Sectors| {
            let sector = logical_sector.sectors_floor().0;
            Sectors(sectors.0 / sector * sector)
        };
        let model = sysfs.as_deref().and_then(|of| {
            [of.join("device/model"), of.join("../device/model")].iter().find_map(|path| text(path))
        });
        Ok(Self {
            block_device,
            capacity: whole(Bytes(bytes).sectors_floor()),
            logical_sector,
            memory_align: memory_align(file),
            transfer_max: whole(transfer.min(TRANSFER_MAX)).max(logical_sector.sectors_floor()),
            model,
            sysfs,
        })
    }
}

/// The file systems of this magic number are user-space programs, which take any alignment: see
/// statfs(2).
const FUSE: FsWord = 0x6573_5546;

/// The file offset alignment of direct access; older kernels do not report it, and every device
/// takes whole pages.
fn direct_align(file: &File) -> u64 {
    let wanted = StatxFlags::DIOALIGN;
    match statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(told) if told.stx_mask & wanted.bits() != 0 && told.stx_dio_offset_align > 0 => {
            u64::from(told.stx_dio_offset_align)
        }
        _ if fstatfs(file).is_ok_and(|told| told.f_type == FUSE) => SECTOR_BYTES,
        _ => 4_096,
    }
}

/// The memory alignment of direct access; older kernels do not report it.
fn memory_align(file: &File) -> usize {
    let wanted = StatxFlags::DIOALIGN;
    match statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(told) if told.stx_mask & wanted.bits() != 0 && told.stx_dio_mem_align > 0 => {
            usize::try_from(told.stx_dio_mem_align).unwrap_or(MEMORY_ALIGN)
        }
        _ => MEMORY_ALIGN,
    }
}

/// The directory in sysfs of the device with this number.
fn sysfs(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(format!("{}:{}", major(device), minor(device)))
}

/// The trimmed contents of a small file; `None` if there is none or it is empty.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
