//! The mark of a device: which volume of which config it is.
//!
//! The driver keeps 64 bits for a device's server. They hold a checksum of the config's path and of
//! the volume's name: a daemon finds its devices again after it was killed, and takes no other
//! daemon's.

use core::fmt;
use std::path::Path;

/// The mark of a volume's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(crate) u64);

impl Mark {
    /// The mark of devices that end with their process.
    pub const EMULATED: Self = Self(1);

    /// Whether the device is one of this program's.
    pub const fn is_of_spindle(self) -> bool {
        self.0 != 0
    }

    /// The mark of the volume of this name, in the config at this path. The path is absolute and
    /// without links, so that it names one config.
    pub fn new(config: &Path, volume: &str) -> Self {
        let mut bytes = b"spindle ublk 1\0".to_vec();
        bytes.extend_from_slice(config.as_os_str().as_encoded_bytes());
        bytes.push(0);
        bytes.extend_from_slice(volume.as_bytes());
        // Zero is the mark of the devices of other programs, one that of emulated drives.
        Self(checksum::crc64(&bytes).max(2))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_volume_of_one_config() {
        let [a, b] = [Path::new("/etc/a.toml"), Path::new("/etc/b.toml")];
        let marks = [Mark::new(a, "x"), Mark::new(a, "y"), Mark::new(b, "x"), Mark::new(b, "y")];
        let different: std::collections::BTreeSet<_> = marks.iter().collect();
        assert_eq!(different.len(), marks.len());
        // Devices outlive the daemon, and are found by its next version.
        assert_eq!(Mark::new(a, "x").to_string(), "a5a8dbf3be6fbbcb");
    }
}
