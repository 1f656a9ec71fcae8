//! What uses a device: mounts, swap, other devices.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::device::{Device, Use};
use crate::devices::Devices;
use crate::error::AttachError;
use crate::limits::FILE_BYTES_MAX;

/// The uses of a device that are visible to this process.
pub fn uses(devices: &Devices, device: Device) -> Vec<Use> {
    uses_of(devices, &device.name())
}

/// The uses of the block device of this name, such as `ublkb0`, that are visible to this process.
pub fn uses_of(devices: &Devices, name: &str) -> Vec<Use> {
    let names = devices.names(name, "");
    let partitions = names.into_iter().filter(|part| {
        let number = part.strip_prefix(name).and_then(|rest| rest.strip_prefix('p'));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let mut blocks = vec![(String::new(), name.to_owned())];
    blocks.extend(partitions.map(|part| (format!("{part}/"), part)));
    let (mountinfo, swaps) = (procfs("/proc/self/mountinfo"), procfs("/proc/swaps"));
    let mut found = Vec::new();
    for (directory, block) in blocks {
        let number = devices.read_of(name, &format!("{directory}dev")).unwrap_or_default();
        let path = format!("/dev/{block}");
        found.extend(mounts(&mountinfo, &number, &path).map(Use::Mounted));
        if is_swap(&swaps, &path) {
            found.push(Use::Swap);
        }
        let holders = devices.names(name, &format!("{directory}holders"));
        found.extend(holders.into_iter().map(Use::Held));
    }
    found
}

/// Opens a device so that nothing can begin to use it until it is closed.
///
/// # Errors
/// [`AttachError::InUse`], [`AttachError::NoNode`], and if it cannot be opened.
pub(crate) fn claim(devices: &Devices, device: Device) -> Result<OwnedFd, AttachError> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(device.to_string(), flags, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(Errno::BUSY) => Err(AttachError::InUse(device, uses(devices, device))),
        Err(Errno::ACCESS | Errno::PERM) => Err(AttachError::NoPermission),
        Err(Errno::NOENT) => Err(AttachError::NoNode(device)),
        Err(error) => Err(AttachError::File(device.to_string(), error.into())),
    }
}

/// A file of procfs; empty if it cannot be read, because what is in it only completes messages.
fn procfs(path: &str) -> String {
    let read = || -> io::Result<String> {
        let mut text = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_default()
}

/// The mount points of a device, by its numbers or by its path: some file systems, such as btrfs,
/// have numbers of their own.
fn mounts<'a>(
    mountinfo: &'a str,
    number: &'a str,
    path: &'a str,
) -> impl Iterator<Item = String> + 'a {
    mountinfo.lines().filter_map(move |line| {
        let mut fields = line.split(' ');
        let (dev, point) = (fields.nth(2)?, fields.nth(1)?);
        let source = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(1));
        (dev == number || source == Some(path)).then(|| unescaped(point))
    })
}

/// The kernel writes spaces and the like as octal numbers.
fn unescaped(text: &str) -> String {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

fn is_swap(swaps: &str, path: &str) -> bool {
    swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number_and_by_path() {
        let mountinfo = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 43:0 / /mnt/a\\040b rw,relatime shared:1 - ext4 /dev/nbd0 rw
31 22 0:45 / /srv rw - btrfs /dev/nbd0 rw
32 22 43:1 / /part rw - ext4 /dev/nbd0p1 rw
odd
";
        let found: Vec<_> = mounts(mountinfo, "43:0", "/dev/nbd0").collect();
        assert_eq!(found, ["/mnt/a b", "/srv"]);
        assert_eq!(mounts(mountinfo, "43:2", "/dev/nbd2").count(), 0);
    }

    #[test]
    fn swap_space_is_found() {
        let swaps = "Filename Type Size Used Priority\n/dev/nbd3 partition 1 0 -2\n";
        assert!(is_swap(swaps, "/dev/nbd3"));
        assert!(!is_swap(swaps, "/dev/nbd"));
        assert!(!is_swap("", "/dev/nbd3"));
    }
}
