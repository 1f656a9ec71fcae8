//! A device of the kernel's NBD driver, and what may use it.

use core::fmt;
use core::str::FromStr;

/// A device of the driver, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device(pub u32);

impl Device {
    /// Its name in sysfs.
    pub fn name(self) -> String {
        format!("nbd{}", self.0)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/nbd{}", self.0)
    }
}

/// The text names no NBD device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoDeviceName(String);

impl fmt::Display for NoDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected a device such as /dev/nbd0", self.0)
    }
}

impl std::error::Error for NoDeviceName {}

impl FromStr for Device {
    type Err = NoDeviceName;

    /// Reads `/dev/nbd0` or `nbd0`.
    fn from_str(text: &str) -> Result<Self, NoDeviceName> {
        let digits = text.strip_prefix("/dev/").unwrap_or(text).strip_prefix("nbd");
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or_else(|| NoDeviceName(text.chars().take(80).collect()))
    }
}

/// A use of a device or of one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is mounted here.
    Mounted(String),
    /// It is swap space.
    Swap,
    /// Another block device has it, such as one of the device mapper.
    Held(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted(path) => write!(f, "mounted on {path}"),
            Self::Swap => f.write_str("in use as swap space"),
            Self::Held(name) => write!(f, "in use by {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_named() {
        assert_eq!("/dev/nbd0".parse(), Ok(Device(0)));
        assert_eq!("nbd12".parse(), Ok(Device(12)));
        for text in ["", "nbd", "/dev/nbd", "/dev/sda", "nbd1p1", "nbd+1", "nbd99999999999"] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
    }
}
