//! The volumes' block devices of this machine, by the kernel's ublk driver.
//!
//! The driver keeps a device and its requests while no daemon serves it. The next one finds it by
//! its mark, and goes on.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nbd::{Export, Exports};
use ublk::limits::DEVICES_MAX;
use ublk::{BlockDevice, Control, DeviceId, Geometry, Growth, Mark, UblkError};
use units::Bytes;

use crate::routing::routes::Routes;

/// A volume's block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeDevice {
    /// Its number.
    pub device: DeviceId,
    /// Its size. It is less than the volume's if the volume has grown and the kernel cannot resize.
    pub size: Bytes,
}

#[derive(Debug, Default)]
struct Opened {
    /// The driver's control file, from the first device on.
    control: Option<Control>,
    devices: BTreeMap<String, BlockDevice>,
}

/// The block devices that this daemon serves, by the names of their volumes.
#[derive(Debug, Default)]
pub(crate) struct BlockDevices(Mutex<Opened>);

impl BlockDevices {
    fn opened(&self) -> MutexGuard<'_, Opened> {
        // A panic leaves the table whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of the volume of this name, if it has one.
    pub(crate) fn get(&self, volume: &str) -> Option<VolumeDevice> {
        let opened = self.opened();
        let device = opened.devices.get(volume)?;
        Some(VolumeDevice { device: device.device(), size: device.size() })
    }

    /// Serves a volume as a block device: as the one that a former daemon has left, or a new one.
    ///
    /// # Errors
    /// See [`UblkError`]; no device was added then.
    pub(crate) fn open(
        &self,
        (volume, mark): (&str, Mark),
        (routes, server): (&Routes, &nbd::Handle),
    ) -> Result<DeviceId, UblkError> {
        let export = export(routes, volume)?;
        let mut opened = self.opened();
        let Opened { control, devices } = &mut *opened;
        let control = control_in(control)?;
        if let Some(there) = devices.get(volume)
            && control.info(there.device()).is_ok_and(|info| info.mark == mark)
        {
            return Ok(there.device());
        }
        if devices.len() >= DEVICES_MAX {
            return Err(UblkError::Server(io::Error::other("as many devices as there may be")));
        }
        let mut device = BlockDevice::open(control, mark, geometry(&export), (&export, server))?;
        let number = device.device();
        let grown = device.resize(control, export.size);
        report_growth(volume, (number, export.size), &grown);
        devices.insert(volume.to_owned(), device);
        Ok(number)
    }

    /// Serves a volume as a block device that ends with this process.
    ///
    /// # Errors
    /// See [`UblkError`]; no device was added then.
    pub(crate) fn emulate(
        &self,
        volume: &str,
        (routes, server): (&Routes, &nbd::Handle),
    ) -> Result<DeviceId, UblkError> {
        let export = export(routes, volume)?;
        let mut opened = self.opened();
        let Opened { control, devices } = &mut *opened;
        let (control, served) = (control_in(control)?, (&export, server));
        let device = BlockDevice::emulate(control, geometry(&export), served)?;
        let number = device.device();
        devices.insert(volume.to_owned(), device);
        Ok(number)
    }

    /// Whether a volume's device is there: not removed by another process.
    pub(crate) fn is_there(&self, volume: &str) -> bool {
        let mut opened = self.opened();
        let Opened { control, devices } = &mut *opened;
        let control = control_in(control).ok();
        devices.get(volume).zip(control).is_some_and(|(device, control)| device.is_there(control))
    }

    /// Gives a volume's device, if it has one, the volume's size.
    pub(crate) fn resize(&self, volume: &str, size: Bytes) {
        let mut opened = self.opened();
        let Opened { control, devices } = &mut *opened;
        let (Some(device), Ok(control)) = (devices.get_mut(volume), control_in(control)) else {
            return;
        };
        let grown = device.resize(control, size);
        report_growth(volume, (device.device(), size), &grown);
    }

    /// Removes a volume's device, if it has one. Without `force`, one that is in use stays.
    ///
    /// # Errors
    /// See [`UblkError`]; the device stays then.
    pub(crate) fn close(&self, volume: &str, force: bool) -> Result<(), UblkError> {
        let mut opened = self.opened();
        let Opened { control, devices } = &mut *opened;
        let Some(device) = devices.get(volume) else { return Ok(()) };
        device.remove(control_in(control)?, force)?;
        devices.remove(volume);
        Ok(())
    }
}

/// The volume of this name as clients see it.
fn export(routes: &Routes, volume: &str) -> Result<Export, UblkError> {
    let export = routes.open(volume);
    export.ok_or_else(|| UblkError::Server(io::Error::other("the volume has been removed")))
}

fn control_in(control: &mut Option<Control>) -> Result<&mut Control, UblkError> {
    match control {
        Some(control) => Ok(control),
        none => Ok(none.insert(Control::open()?)),
    }
}

fn geometry(export: &Export) -> Geometry {
    let Export { size, read_only, rotational, block_preferred, .. } = *export;
    Geometry { size, read_only, rotational, block_preferred }
}

/// Reports a device that has another size than its volume.
fn report_growth(
    volume: &str,
    (device, size): (DeviceId, Bytes),
    grown: &Result<Growth, UblkError>,
) {
    match grown {
        Ok(Growth::Done) => {}
        Ok(Growth::Unsupported(kept)) => eprintln!(
            "volume {volume} has {size}, and {device} keeps {kept}: this kernel's ublk driver \
             cannot resize a device; detach and attach it when it is not in use"
        ),
        Err(error) => eprintln!("volume {volume} has {size}, and {device} keeps its size: {error}"),
    }
}
