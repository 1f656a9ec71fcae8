//! What the kernel says of a device or a file, asked once when it is opened.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FsWord, StatxFlags, fstatfs, ioctl_blksszget, major, minor, statx};
use units::{Bytes, SECTOR_BYTES, Sectors};

/// The alignment of memory that any device takes.
pub const MEMORY_ALIGN: usize = 4_096;
/// What one system call moves at most: Linux cuts longer ones into commands of at most so much, and
/// the time of several is no command's time.
const TRANSFER_MAX: Sectors = Sectors(2_048);

/// What the kernel says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Whether it is a block device; else it is a regular file.
    pub block_device: bool,
    /// How much it holds, in whole logical sectors.
    pub capacity: Sectors,
    /// What every access begins and ends on.
    pub logical_sector: Bytes,
    /// What the memory of every direct access begins on: at most [`MEMORY_ALIGN`].
    pub memory_align: usize,
    /// The longest transfer that is one command.
    pub transfer_max: Sectors,
    /// Its name, as the kernel has it: the model, if the device tells one.
    pub model: Option<String>,
    /// Where the kernel keeps what it knows of the device.
    pub sysfs: Option<PathBuf>,
}

impl DeviceInfo {
    /// Asks about an open block device or regular file.
    ///
    /// # Errors
    /// As the system says.
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

/// File systems of this kind are programs, which are asked for what direct access asks for: see
/// statfs(2).
const FUSE: FsWord = 0x6573_5546;

/// What a file of this file system takes direct access at; old kernels do not tell, and every
/// device takes whole pages.
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

/// What the memory of direct access to this begins on; old kernels do not tell.
fn memory_align(file: &File) -> usize {
    let wanted = StatxFlags::DIOALIGN;
    match statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(told) if told.stx_mask & wanted.bits() != 0 && told.stx_dio_mem_align > 0 => {
            usize::try_from(told.stx_dio_mem_align).unwrap_or(MEMORY_ALIGN)
        }
        _ => MEMORY_ALIGN,
    }
}

/// Where the kernel tells of the device of this number.
fn sysfs(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(format!("{}:{}", major(device), minor(device)))
}

/// What a small file says, without blanks around; nothing if there is none or it says nothing.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
