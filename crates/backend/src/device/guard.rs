//! Protection of devices in use, and of foreign data.
//!
//! Measuring and serving both overwrite a device. The check protects a disk that is mounted, that
//! other devices are built on, or that is partitioned, from a mistyped path.

use core::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

use super::kernel::{DeviceInfo, MEMORY_ALIGN};
use super::memory::AlignedBuffer;

/// Why a device must not be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InUse {
    /// A file system on it is mounted here. Cure: unmount it, if its contents may be lost.
    Mounted(String),
    /// It is a swap device.
    Swap,
    /// Another device is built on it: device mapper, RAID, a loop device.
    Held(String),
    /// It is claimed exclusively; the claimant is unknown.
    Claimed,
    /// It has partitions.
    Partitioned(String),
    /// It begins with a partition table that the kernel has not read.
    Table(&'static str),
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted(place) => write!(f, "it is mounted on {place}"),
            Self::Swap => f.write_str("it is swapped to"),
            Self::Held(by) => write!(f, "{by} is built on it"),
            Self::Claimed => f.write_str("it is claimed by another program"),
            Self::Partitioned(name) => write!(f, "it is partitioned: it has {name}"),
            Self::Table(kind) => write!(f, "it begins with {kind}"),
        }
    }
}

/// Checks that a device may be overwritten.
///
/// # Errors
/// The first objection.
pub fn check_overwritable(path: &Path, file: &File, facts: &DeviceInfo) -> Result<(), InUse> {
    check_unused(path, file, facts)?;
    let partition = facts.sysfs.iter().flat_map(|sysfs| partitions(sysfs)).next();
    if let Some(partition) = partition {
        return Err(InUse::Partitioned(partition));
    }
    table_of(file).map_or(Ok(()), |kind| Err(InUse::Table(kind)))
}

/// Checks that no program of this machine uses it, whatever it contains.
///
/// # Errors
/// The first use that is found.
pub fn check_unused(path: &Path, file: &File, facts: &DeviceInfo) -> Result<(), InUse> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let device = file.metadata().map_or(0, |metadata| metadata.rdev());
    if let Some(sysfs) = &facts.sysfs {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(place) = mount_of(&mountinfo, device, &path) {
            return Err(InUse::Mounted(place));
        }
        if let Some(holder) = entries(&sysfs.join("holders")).into_iter().next() {
            return Err(InUse::Held(holder));
        }
    } else if let Some(by) = loop_over(Path::new("/sys/block"), &path) {
        return Err(InUse::Held(by));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps_to(&swaps, &path) { Err(InUse::Swap) } else { Ok(()) }
}

/// The mount point of the device with this number or path: fields 3, 5 and, behind the dash, 2 of
/// mountinfo in proc(5).
fn mount_of(mountinfo: &str, device: u64, path: &Path) -> Option<String> {
    let number = format!("{}:{}", major(device), minor(device));
    mountinfo.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(2);
        let (of, place) = (head.next()?, head.nth(1)?);
        // Some file systems have their own device number, and name the device as their source.
        let source = tail.split(' ').nth(1)?;
        (of == number || Path::new(source) == path).then(|| place.to_owned())
    })
}

/// Whether the path is in the list of swaps of proc(5).
fn swaps_to(swaps: &str, path: &Path) -> bool {
    let mut listed = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    listed.any(|swap| Path::new(swap) == path)
}

fn entries(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The partitions that the kernel knows of a device.
fn partitions(sysfs: &Path) -> Vec<String> {
    let is_partition = |name: &String| sysfs.join(name).join("partition").exists();
    entries(sysfs).into_iter().filter(is_partition).collect()
}

/// The loop device over this file.
fn loop_over(block: &Path, path: &Path) -> Option<String> {
    entries(block).into_iter().find(|name| {
        let backing = fs::read_to_string(block.join(name).join("loop/backing_file"));
        backing.is_ok_and(|text| Path::new(text.trim_end_matches('\n')) == path)
    })
}

/// A partition table in the first sectors: the master boot record's signature at 510, or GPT's in
/// the second sector, of 512 or of 4,096 bytes (UEFI specification, 5.2.3 and 5.3.2). A boot sector
/// has the first, too.
fn table_of(file: &File) -> Option<&'static str> {
    const HEAD_BYTES: usize = 8_192;
    let mut memory = AlignedBuffer::new(HEAD_BYTES, MEMORY_ALIGN);
    let head = memory.bytes(HEAD_BYTES);
    let read = file.read_at(head, 0).unwrap_or(0);
    let head = &head[..read];
    let at = |from: usize, text: &[u8]| head.get(from..from + text.len()) == Some(text);
    if at(512, b"EFI PART") || at(4_096, b"EFI PART") {
        return Some("a table of partitions (GPT)");
    }
    at(510, &[0x55, 0xaa]).then_some("a boot sector or a table of partitions (MBR)")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MOUNTINFO: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 22 0:25 / /data rw - btrfs /dev/sdb rw\n";

    #[test]
    fn a_mount_is_found_by_number_or_by_source() {
        let root = rustix::fs::makedev(254, 0);
        assert_eq!(mount_of(MOUNTINFO, root, Path::new("/dev/x")).as_deref(), Some("/"));
        let other = rustix::fs::makedev(8, 16);
        assert_eq!(mount_of(MOUNTINFO, other, Path::new("/dev/sdb")).as_deref(), Some("/data"));
        assert_eq!(mount_of(MOUNTINFO, other, Path::new("/dev/sdc")), None);
    }

    #[test]
    fn swap_is_found_by_its_path() {
        let swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2  partition\t1\t0\t-2\n";
        assert!(swaps_to(swaps, Path::new("/dev/sda2")));
        assert!(!swaps_to(swaps, Path::new("/dev/sda")) && !swaps_to("", Path::new("/dev/sda2")));
    }

    #[test]
    fn tables_of_partitions_are_seen_without_the_kernel() {
        let with = |at: usize, text: &[u8]| {
            let mut bytes = vec![0; 16_384];
            bytes[at..at + text.len()].copy_from_slice(text);
            let mut file = tempfile::tempfile().expect("a scratch file");
            file.write_all(&bytes).expect("room");
            table_of(&file)
        };
        assert_eq!(with(0, b"nothing"), None);
        assert!(with(510, &[0x55, 0xaa]).is_some_and(|kind| kind.contains("MBR")));
        assert!(with(512, b"EFI PART").is_some_and(|kind| kind.contains("GPT")));
        assert!(with(4_096, b"EFI PART").is_some_and(|kind| kind.contains("GPT")));
    }
}
