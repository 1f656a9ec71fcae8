//! The names of devices: `/dev/ublkbN`, the block device, and `/dev/ublkcN`, its control node.

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use crate::limits::DEVICES_MAX;

/// A device of the driver, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// The block device's name in sysfs.
    pub fn name(self) -> String {
        format!("ublkb{}", self.0)
    }

    /// The path of its control node.
    pub(crate) fn control_node(self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkc{}", self.0))
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/ublkb{}", self.0)
    }
}

/// The text names no ublk device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoDeviceName(String);

impl fmt::Display for NoDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected a device such as /dev/ublkb0", self.0)
    }
}

impl std::error::Error for NoDeviceName {}

impl FromStr for DeviceId {
    type Err = NoDeviceName;

    /// Reads `/dev/ublkb0` or `ublkb0`.
    fn from_str(text: &str) -> Result<Self, NoDeviceName> {
        let digits = text.strip_prefix("/dev/").unwrap_or(text).strip_prefix("ublkb");
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or_else(|| NoDeviceName(text.chars().take(80).collect()))
    }
}

/// The devices of which there is a control node in `directory`, such as `/sys/class/ublk-char`, in
/// the order of their numbers.
pub(crate) fn devices_in(directory: &Path) -> Vec<DeviceId> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("ublkc")?.parse().ok().map(DeviceId)
    });
    let mut found: Vec<_> = numbers.take(DEVICES_MAX).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_named() {
        assert_eq!("/dev/ublkb0".parse(), Ok(DeviceId(0)));
        assert_eq!("ublkb12".parse(), Ok(DeviceId(12)));
        for text in ["", "ublkb", "/dev/ublkc0", "/dev/nbd0", "ublkb+1", "ublkb99999999999"] {
            assert!(text.parse::<DeviceId>().is_err(), "{text}");
        }
    }

    #[test]
    fn devices_are_found_by_their_control_nodes() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["ublkc10", "ublkc2", "ublk-control", "ublkb3", "ublkcx"] {
            std::fs::write(directory.path().join(name), "").expect("it is written");
        }
        assert_eq!(devices_in(directory.path()), [DeviceId(2), DeviceId(10)]);
        assert_eq!(devices_in(Path::new("/nowhere")), []);
    }
}
