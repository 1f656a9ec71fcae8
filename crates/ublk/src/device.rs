//! A volume's block device: found again or added, resized, removed.
//!
//! ```text
//!  none with the mark ─▶ add ─▶ parameters ─▶ a loop fetches ─▶ start
//!  quiesced           ─▶ begin recovery    ─▶ a loop fetches ─▶ end recovery
//!  dead               ─▶ remove, then as none
//!  live               ─▶ wait for the former daemon's end, then as quiesced
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

use nbd::{Export, Handle};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use units::{Bytes, Duration, SECTOR_BYTES};

use crate::client::UblkClient;
use crate::control::{Control, DeviceInfo, DeviceState, Lifetime, is};
use crate::error::UblkError;
use crate::limits::{
    DEPTH, DISCARD_MAX, NODE_MAX, RECOVERY_MAX, RECOVERY_RETRY, REQUEST_BYTES_MAX,
};
use crate::mark::Mark;
use crate::nodes::DeviceId;
use crate::uapi::{Discard, Params, attribute};

/// What a device says of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its size. A partial last sector is not offered.
    pub size: Bytes,
    /// Whether writing is refused.
    pub read_only: bool,
    /// Whether sectors close to each other are read faster than others.
    pub rotational: bool,
    /// The unit in which access is efficient, a power of two.
    pub block_preferred: Bytes,
}

/// What became of a device whose volume has another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The device has the volume's size.
    Done,
    /// The kernel's driver cannot resize a device in use (`UBLK_F_UPDATE_SIZE`): it keeps this
    /// size until it is detached and attached again.
    Unsupported(Bytes),
}

/// A volume's block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    device: DeviceId,
    mark: Mark,
    size: Bytes,
    can_resize: bool,
}

/// The export that a device serves, and its server.
pub type Served<'a> = (&'a Export, &'a Handle);

impl BlockDevice {
    /// Serves the device with this mark, which a former daemon has left, or adds one. Not to be
    /// called from a thread of the server.
    ///
    /// # Errors
    /// See [`UblkError`]. A device that was added is removed then; one that was left stays as it
    /// was.
    pub fn open(
        control: &mut Control,
        mark: Mark,
        geometry: Geometry,
        serve: Served<'_>,
    ) -> Result<Self, UblkError> {
        let left = control.devices().into_iter().find(|info| info.mark == mark);
        let kept = (mark, Lifetime::Kept);
        match left {
            None => Self::add(control, kept, geometry, serve),
            Some(info) if info.state == DeviceState::Dead => {
                // Its daemon was killed before it had started it, or after it had stopped it.
                control.delete(info.device)?;
                Self::add(control, kept, geometry, serve)
            }
            Some(info) => Self::recover(control, info, serve),
        }
    }

    /// Adds a device that ends with this process, and has the mark of emulated drives.
    ///
    /// # Errors
    /// See [`UblkError`]; no device is left then.
    pub fn emulate(
        control: &mut Control,
        geometry: Geometry,
        serve: Served<'_>,
    ) -> Result<Self, UblkError> {
        // Those of processes that were killed have a number and no block device.
        for info in control.devices() {
            if info.mark == Mark::EMULATED && info.state == DeviceState::Dead {
                // Another process may have removed it.
                let _ = control.delete(info.device);
            }
        }
        Self::add(control, (Mark::EMULATED, Lifetime::OfProcess), geometry, serve)
    }

    fn add(
        control: &mut Control,
        (mark, lifetime): (Mark, Lifetime),
        geometry: Geometry,
        serve: Served<'_>,
    ) -> Result<Self, UblkError> {
        let info = control.add(mark, (DEPTH, REQUEST_BYTES_MAX), lifetime)?;
        let device = info.device;
        let started = control
            .set_params(device, params(geometry))
            .and_then(|()| Self::serve(&info, serve))
            .and_then(|()| control.start(device));
        if let Err(error) = started {
            // The error is the one that counts. The client ends with its device.
            let _ = control.stop(device);
            let _ = control.delete(device);
            return Err(error);
        }
        let (size, can_resize) = (whole_sectors(geometry.size), info.can_resize());
        Ok(Self { device, mark, size, can_resize })
    }

    fn recover(
        control: &mut Control,
        info: DeviceInfo,
        serve: Served<'_>,
    ) -> Result<Self, UblkError> {
        let device = info.device;
        if info.queues != 1 || Bytes(info.request_bytes_max.into()) > REQUEST_BYTES_MAX {
            return Err(UblkError::Geometry(device));
        }
        let size = Bytes(control.params(device)?.sectors * SECTOR_BYTES);
        wait_for_recovery(control, info)?;
        Self::serve(&info, serve)?;
        control.end_recovery(device)?;
        Ok(Self { device, mark: info.mark, size, can_resize: info.can_resize() })
    }

    fn serve(info: &DeviceInfo, serve: Served<'_>) -> Result<(), UblkError> {
        let (export, server) = serve;
        let (started, told) = mpsc::sync_channel(1);
        let device = (open_node(info.device)?, info.depth);
        let client = UblkClient::new(device, (export.clone(), server.clone()), started);
        server.attach(Box::new(client));
        // A server that has stopped drops the client, and with it the channel.
        let stopped = |_| UblkError::Server(io::Error::other("the daemon is stopping"));
        told.recv().map_err(stopped)?.map_err(UblkError::Server)
    }

    /// Whether it is there still: not removed by another process.
    pub fn is_there(&self, control: &mut Control) -> bool {
        let info = control.info(self.device);
        info.is_ok_and(|info| info.mark == self.mark && info.state == DeviceState::Live)
    }

    /// Its number.
    pub const fn device(&self) -> DeviceId {
        self.device
    }

    /// Its size.
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// Gives the device its volume's size, used or not, where the driver can.
    ///
    /// # Errors
    /// The driver's error; the device keeps its size then.
    pub fn resize(&mut self, control: &mut Control, size: Bytes) -> Result<Growth, UblkError> {
        let size = whole_sectors(size);
        if size == self.size {
            return Ok(Growth::Done);
        }
        if !self.can_resize {
            return Ok(Growth::Unsupported(self.size));
        }
        control.resize(self.device, size.sectors_floor())?;
        self.size = size;
        Ok(Growth::Done)
    }

    /// Removes the device, after the requests under way are answered. Without `force`, one that is
    /// mounted or held by another device stays.
    ///
    /// # Errors
    /// [`UblkError::InUse`], or the driver's error. One that is gone already is none.
    pub fn remove(&self, control: &mut Control, force: bool) -> Result<(), UblkError> {
        // Its number may be another device's by now.
        if control.info(self.device).is_ok_and(|info| info.mark == self.mark) {
            remove(control, self.device, force)?;
        }
        Ok(())
    }
}

/// Removes a device, whether a daemon serves it or not.
///
/// # Errors
/// As [`BlockDevice::remove`].
pub fn remove(control: &mut Control, device: DeviceId, force: bool) -> Result<(), UblkError> {
    // While it is claimed nothing can begin to use it.
    let claim = if force { None } else { claim(device)? };
    control.stop(device)?;
    drop(claim);
    control.delete(device)
}

/// Opens a block device so that nothing else can claim it; `None` if there is no block device.
fn claim(device: DeviceId) -> Result<Option<OwnedFd>, UblkError> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(device.to_string(), flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::NXIO) => Ok(None),
        Err(Errno::BUSY) => Err(UblkError::InUse(device)),
        Err(Errno::ACCESS | Errno::PERM) => Err(UblkError::NoPermission),
        Err(error) => Err(UblkError::Refused("open a block device", error.into())),
    }
}

/// Opens the control node of a device. A new one may not be the daemon's yet.
fn open_node(device: DeviceId) -> Result<File, UblkError> {
    let mut attempts = NODE_MAX.as_nanos() / RECOVERY_RETRY.as_nanos();
    loop {
        let file = OpenOptions::new().read(true).write(true).open(device.control_node());
        match file {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && attempts > 0 => {
                attempts -= 1;
                pause(RECOVERY_RETRY);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(UblkError::NoPermission);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(UblkError::NoNode(device.control_node()));
            }
            Err(error) => return Err(UblkError::Refused("open a device's control node", error)),
        }
    }
}

/// Waits until the driver has noticed the end of the device's former daemon, and begins the
/// recovery.
fn wait_for_recovery(control: &mut Control, info: DeviceInfo) -> Result<(), UblkError> {
    let mut attempts = RECOVERY_MAX.as_nanos() / RECOVERY_RETRY.as_nanos();
    loop {
        match control.begin_recovery(info.device) {
            Ok(()) => {
                // The driver ends the commands of the former daemon after it has let the device go
                // (`ublk_quiesce_work_fn`): those of this one are not to be among them.
                pause(RECOVERY_RETRY);
                return Ok(());
            }
            Err(error) if !is(&error, Errno::BUSY) => {
                return Err(UblkError::Refused("recover a device", error));
            }
            Err(_) if attempts == 0 => return Err(UblkError::Served(info.device, info.pid)),
            Err(_) => {
                attempts -= 1;
                pause(RECOVERY_RETRY);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "no event says that a device is ready")]
fn pause(length: Duration) {
    std::thread::sleep(core::time::Duration::from_nanos(length.as_nanos()));
}

fn whole_sectors(size: Bytes) -> Bytes {
    size.sectors_floor().bytes()
}

fn params(geometry: Geometry) -> Params {
    let Geometry { size, read_only, rotational, block_preferred } = geometry;
    let set = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    let attributes = attribute::VOLATILE_CACHE
        | attribute::FUA
        | set(read_only, attribute::READ_ONLY)
        | set(rotational, attribute::ROTATIONAL);
    let sectors = |bytes: Bytes| u32::try_from(bytes.sectors_floor().0).expect("a limit");
    let shift = |bytes: u64| u8::try_from(bytes.trailing_zeros()).expect("under 64");
    let preferred = shift(block_preferred.0);
    Params {
        attributes,
        logical_shift: shift(SECTOR_BYTES),
        physical_shift: preferred,
        optimal_shift: preferred,
        minimal_shift: preferred,
        request_sectors_max: sectors(REQUEST_BYTES_MAX),
        sectors: size.sectors_floor().0,
        discard: (!read_only).then_some(Discard {
            granularity: u32::try_from(SECTOR_BYTES).expect("a sector"),
            sectors_max: sectors(DISCARD_MAX),
            zeroes_sectors_max: sectors(DISCARD_MAX),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_says_what_its_volume_is() {
        let size = Bytes((1 << 30) + 700);
        let disk =
            Geometry { size, read_only: false, rotational: true, block_preferred: Bytes(4_096) };
        let found = params(disk);
        assert_eq!(found.sectors, (1 << 21) + 1, "a partial sector is not offered");
        assert_eq!((found.logical_shift, found.physical_shift), (9, 12));
        assert_eq!(found.attributes, 0b1110);
        assert_eq!(found.request_sectors_max, 2_048);
        assert!(found.discard.is_some());
        let snapshot = params(Geometry { read_only: true, rotational: false, ..disk });
        assert_eq!((snapshot.attributes, snapshot.discard), (0b1101, None));
    }
}
