//! The kernel's NBD devices, as sysfs shows them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use units::{Bytes, SECTOR_BYTES};

use crate::backend::Backend;
use crate::device::Device;
use crate::error::AttachError;
use crate::limits::{DEVICES_MAX, FILE_BYTES_MAX};

/// A connected device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The device.
    pub device: Device,
    /// The volume; `None` if another program connected it.
    pub backend: Option<Backend>,
    /// Its size.
    pub size: Bytes,
    /// Whether writing is refused.
    pub read_only: bool,
}

/// The devices of a sysfs.
#[derive(Clone, Debug)]
pub struct Devices {
    block: PathBuf,
}

impl Default for Devices {
    fn default() -> Self {
        Self::at(Path::new("/sys"))
    }
}

impl Devices {
    /// The devices of the sysfs that is mounted here.
    pub fn at(sys: &Path) -> Self {
        Self { block: sys.join("block") }
    }

    /// The connected devices, in the order of their numbers.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn list(&self) -> Result<Vec<Attached>, AttachError> {
        let failed = |error| AttachError::File(self.block.display().to_string(), error);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.block).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(device) = name.to_str().and_then(|name| name.parse().ok()) {
                found.push(device);
            }
        }
        found.sort_unstable();
        found.truncate(DEVICES_MAX);
        Ok(found.into_iter().filter_map(|device| self.attached(device)).collect())
    }

    /// The device's connection, if it has one.
    pub fn attached(&self, device: Device) -> Option<Attached> {
        // The driver has this file while the device is connected.
        self.read(device, "pid").ok()?;
        let sectors: u64 = self.read(device, "size").ok()?.parse().ok()?;
        Some(Attached {
            device,
            backend: self.read(device, "backend").ok().and_then(|text| text.parse().ok()),
            size: Bytes(sectors.checked_mul(SECTOR_BYTES)?),
            read_only: self.read(device, "ro").is_ok_and(|text| text == "1"),
        })
    }

    /// The device's connection to this volume, if it has one.
    pub fn attached_to(&self, device: Device, backend: &Backend) -> Option<Attached> {
        self.attached(device).filter(|found| found.backend.as_ref() == Some(backend))
    }

    /// Whether there is such a device, connected or not.
    pub fn exists(&self, device: Device) -> bool {
        self.block.join(device.name()).exists()
    }

    /// A setting or a number of the device.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, device: Device, file: &str) -> io::Result<String> {
        self.read_of(&device.name(), file)
    }

    /// A setting or a number of the block device of this name, such as `ublkb0`.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read_of(&self, block: &str, file: &str) -> io::Result<String> {
        let mut text = String::new();
        let path = self.block.join(block).join(file);
        File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// Sets a setting of the device.
    ///
    /// # Errors
    /// If there is none, or the kernel refuses the value.
    pub fn set(&self, device: Device, file: &str, value: u64) -> io::Result<()> {
        let path = self.block.join(device.name()).join(file);
        File::options().write(true).open(path)?.write_all(value.to_string().as_bytes())
    }

    /// The names that stand in a directory of a block device; none if it is absent.
    pub(crate) fn names(&self, block: &str, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.block.join(block).join(directory));
        let names = entries.into_iter().flatten().flatten();
        let mut names: Vec<_> =
            names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join("block").join(file);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }

    #[test]
    fn connected_devices_are_those_with_a_process() {
        let root = tempfile::tempdir().expect("a directory");
        for (file, text) in [
            ("nbd0/size", "0\n"),
            ("nbd10/pid", "7\n"),
            ("nbd10/size", "2048\n"),
            ("nbd10/ro", "0\n"),
            ("nbd2/pid", "7\n"),
            ("nbd2/size", "8\n"),
            ("nbd2/ro", "1\n"),
            ("nbd2/backend", "spindle:a@unix:/x\n"),
            ("nbd2/nbd2p1/size", "1\n"),
            ("sda/size", "9\n"),
        ] {
            put(root.path(), file, text);
        }
        let devices = Devices::at(root.path());
        let found = devices.list().expect("it is read");
        let of_spindle = Backend { volume: "a".into(), server: Address::Unix("/x".into()) };
        let (device, size, read_only) = (Device(2), Bytes(4096), true);
        let first = Attached { device, backend: Some(of_spindle.clone()), size, read_only };
        let (device, size, read_only) = (Device(10), Bytes(1 << 20), false);
        assert_eq!(found, [first.clone(), Attached { device, backend: None, size, read_only }]);
        assert_eq!(devices.attached_to(Device(2), &of_spindle), Some(first));
        assert_eq!(devices.attached_to(Device(10), &of_spindle), None);
        assert!(devices.exists(Device(0)));
        assert!(!devices.exists(Device(1)));
    }

    use nbd::Address;
}
