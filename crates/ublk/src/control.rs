//! Commands to the driver: devices are added, started, recovered, resized and removed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use units::{Bytes, SECTOR_BYTES, Sectors};

use crate::error::UblkError;
use crate::mark::Mark;
use crate::nodes::{DeviceId, devices_in};
use crate::ring::ControlRing;
use crate::uapi::{ControlCommand, ControlOp, DevInfo, Params, feature};

const CONTROL: &str = "/dev/ublk-control";
const CLASS: &str = "/sys/class/ublk-char";
/// No device: the driver chooses a number, or needs none.
const NONE: u32 = u32::MAX;

/// What the driver can do, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u64);

/// The features without which no device is made, by their names in the kernel.
const NEEDED: [(u64, &str); 4] = [
    (feature::USER_RECOVERY, "UBLK_F_USER_RECOVERY"),
    (feature::USER_RECOVERY_REISSUE, "UBLK_F_USER_RECOVERY_REISSUE"),
    (feature::CMD_IOCTL_ENCODE, "UBLK_F_CMD_IOCTL_ENCODE"),
    (feature::USER_COPY, "UBLK_F_USER_COPY"),
];

impl Features {
    /// Whether a device can be resized while it is used.
    pub const fn can_resize(self) -> bool {
        self.0 & feature::UPDATE_SIZE != 0
    }

    /// The needed features that are absent.
    fn missing(self) -> Vec<&'static str> {
        let absent = NEEDED.iter().filter(|(bit, _)| self.0 & bit == 0);
        absent.map(|(_, name)| *name).collect()
    }

    /// What is asked for when a device is added.
    fn asked(self, lifetime: Lifetime) -> u64 {
        let all = NEEDED.iter().fold(feature::UPDATE_SIZE, |all, (bit, _)| all | bit);
        let recovery = feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
        match lifetime {
            Lifetime::Kept => self.0 & all,
            Lifetime::OfProcess => self.0 & all & !recovery,
        }
    }
}

/// How long a device is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is removed: its requests wait for the next process that serves it.
    Kept,
    /// As long as the process that serves it: its requests fail at the end.
    OfProcess,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It was added and not started, or stopped.
    Dead,
    /// A process serves it.
    Live,
    /// Its requests wait for a process that serves it.
    Quiesced,
    /// Another one, of a feature that is not asked for.
    Other,
}

/// A device as the driver describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub device: DeviceId,
    /// Its state.
    pub state: DeviceState,
    /// The process that serves it or did.
    pub pid: i32,
    /// The mark that its server gave it.
    pub mark: Mark,
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) request_bytes_max: u32,
    pub(crate) flags: u64,
}

impl DeviceInfo {
    fn new(info: DevInfo) -> Self {
        Self {
            device: DeviceId(info.device),
            state: match info.state {
                0 => DeviceState::Dead,
                1 => DeviceState::Live,
                2 => DeviceState::Quiesced,
                _ => DeviceState::Other,
            },
            pid: info.pid,
            mark: Mark(info.server_flags),
            queues: info.queues,
            depth: info.depth,
            request_bytes_max: info.request_bytes_max,
            flags: info.flags,
        }
    }

    /// Whether the device was made with this feature.
    pub(crate) const fn can_resize(&self) -> bool {
        Features(self.flags).can_resize()
    }
}

/// The driver's control file. Its commands block: it is not for a thread that serves requests.
pub struct Control {
    ring: ControlRing,
    features: Features,
}

impl core::fmt::Debug for Control {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Control").field("features", &self.features).finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the control file, and asks for the driver's features.
    ///
    /// # Errors
    /// [`UblkError::NoDriver`], [`UblkError::NoPermission`], [`UblkError::KernelTooOld`].
    pub fn open() -> Result<Self, UblkError> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::NoPermission,
            _ => UblkError::Refused("open its control file", error),
        })?;
        Self::on(file)
    }

    fn on(file: File) -> Result<Self, UblkError> {
        let ring = ControlRing::new(file);
        let ring = ring.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => UblkError::NoRing(error),
            _ => UblkError::Refused("take commands by io_uring", error),
        })?;
        let mut control = Self { ring, features: Features(0) };
        let mut bytes = [0; 8];
        let asked = control.command(ControlOp::GetFeatures, NONE, 0, &mut bytes);
        control.features = match asked {
            Ok(_) => Features(u64::from_ne_bytes(bytes)),
            Err(error) if is(&error, Errno::PERM) => return Err(UblkError::NoPermission),
            // Drivers before Linux 6.5 do not know the question.
            Err(_) => return Err(UblkError::KernelTooOld(vec!["UBLK_U_CMD_GET_FEATURES"])),
        };
        let missing = control.features.missing();
        if missing.is_empty() { Ok(control) } else { Err(UblkError::KernelTooOld(missing)) }
    }

    /// What the driver can do.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// The devices that there are, in the order of their numbers.
    pub fn devices(&mut self) -> Vec<DeviceInfo> {
        let there = devices_in(Path::new(CLASS));
        // One that was removed meanwhile is none.
        there.into_iter().filter_map(|device| self.info(device).ok()).collect()
    }

    /// One device.
    ///
    /// # Errors
    /// [`UblkError::NoDevice`], or the driver's error.
    pub fn info(&mut self, device: DeviceId) -> Result<DeviceInfo, UblkError> {
        let mut bytes = [0; DevInfo::BYTES];
        self.command_to("describe a device", ControlOp::GetDevInfo, device, 0, &mut bytes)?;
        Ok(DeviceInfo::new(DevInfo::from_bytes(&bytes)))
    }

    /// Adds a device with this mark and one queue.
    pub(crate) fn add(
        &mut self,
        mark: Mark,
        (depth, request_max): (u16, Bytes),
        lifetime: Lifetime,
    ) -> Result<DeviceInfo, UblkError> {
        let info = DevInfo {
            queues: 1,
            depth,
            request_bytes_max: u32::try_from(request_max.0).expect("at most 32 MiB"),
            device: NONE,
            flags: self.features.asked(lifetime),
            server_flags: mark.0,
            ..DevInfo::default()
        };
        let mut bytes = info.to_bytes();
        self.command(ControlOp::AddDev, NONE, 0, &mut bytes).map_err(|error| {
            // Not the rights of this process, whose lack is EPERM.
            let is_full = is(&error, Errno::ACCESS);
            if is_full { UblkError::TooManyDevices } else { refused("add a device", error) }
        })?;
        Ok(DeviceInfo::new(DevInfo::from_bytes(&bytes)))
    }

    pub(crate) fn set_params(&mut self, device: DeviceId, params: Params) -> Result<(), UblkError> {
        let mut bytes = params.to_bytes();
        self.command_to("take a device's parameters", ControlOp::SetParams, device, 0, &mut bytes)
    }

    pub(crate) fn params(&mut self, device: DeviceId) -> Result<Params, UblkError> {
        let mut bytes = Params::default().to_bytes();
        let what = "tell a device's parameters";
        self.command_to(what, ControlOp::GetParams, device, 0, &mut bytes)?;
        Ok(Params::from_bytes(&bytes))
    }

    /// Makes the block device. Returns when the kernel has looked for partitions on it, which the
    /// server's threads have to serve meanwhile.
    pub(crate) fn start(&mut self, device: DeviceId) -> Result<(), UblkError> {
        self.command_to("start a device", ControlOp::StartDev, device, pid(), &mut [])
    }

    pub(crate) fn begin_recovery(&mut self, device: DeviceId) -> io::Result<()> {
        self.command(ControlOp::StartUserRecovery, device.0, 0, &mut []).map(drop)
    }

    /// Ends the recovery, when all tags are fetched again.
    pub(crate) fn end_recovery(&mut self, device: DeviceId) -> Result<(), UblkError> {
        self.command_to("recover a device", ControlOp::EndUserRecovery, device, pid(), &mut [])
    }

    pub(crate) fn resize(&mut self, device: DeviceId, size: Sectors) -> Result<(), UblkError> {
        self.command_to("resize a device", ControlOp::UpdateSize, device, size.0, &mut [])
    }

    /// Removes the block device. Requests under way are answered first.
    pub(crate) fn stop(&mut self, device: DeviceId) -> Result<(), UblkError> {
        self.command_to("stop a device", ControlOp::StopDev, device, 0, &mut [])
    }

    /// Forgets a stopped device. Returns when nothing has it open any more.
    pub(crate) fn delete(&mut self, device: DeviceId) -> Result<(), UblkError> {
        self.command_to("remove a device", ControlOp::DelDev, device, 0, &mut [])
    }

    fn command_to(
        &mut self,
        what: &'static str,
        op: ControlOp,
        device: DeviceId,
        data: u64,
        buffer: &mut [u8],
    ) -> Result<(), UblkError> {
        let done = self.command(op, device.0, data, buffer).map(drop);
        done.map_err(|error| match error {
            error if is(&error, Errno::NODEV) => UblkError::NoDevice(device),
            error => refused(what, error),
        })
    }

    fn command(
        &mut self,
        op: ControlOp,
        device: u32,
        data: u64,
        buffer: &mut [u8],
    ) -> io::Result<i32> {
        self.ring.carry_out(ControlCommand { op, device, data }, buffer)
    }
}

fn refused(what: &'static str, error: io::Error) -> UblkError {
    if is(&error, Errno::PERM) || is(&error, Errno::ACCESS) {
        return UblkError::NoPermission;
    }
    UblkError::Refused(what, error)
}

pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The process that serves the devices, for the driver.
fn pid() -> u64 {
    std::process::id().into()
}

const _: () = assert!(SECTOR_BYTES == 512);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_asked_for_and_their_absence_is_named() {
        // Linux 6.12, and Linux 6.0 with the first two features.
        let (new, old) = (Features(0x1fe), Features(0x3));
        assert_eq!(new.missing(), [""; 0]);
        assert!(!new.can_resize());
        assert!(Features(0x7ff).can_resize());
        assert_eq!(new.asked(Lifetime::Kept), 0xd8);
        assert_eq!(new.asked(Lifetime::OfProcess), 0xc0);
        assert_eq!(Features(0x7ff).asked(Lifetime::Kept), 0x4d8);
        let words = UblkError::KernelTooOld(old.missing()).to_string();
        assert!(words.contains("UBLK_F_USER_RECOVERY, "), "{words}");
        assert!(words.contains("UBLK_F_USER_COPY"), "{words}");
    }
}
