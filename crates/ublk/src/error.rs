//! Why a volume has no block device, or keeps it.

use core::fmt;
use std::io;
use std::path::PathBuf;

use crate::nodes::DeviceId;

/// The error of an operation, each with its remedy.
#[derive(Debug)]
pub enum UblkError {
    /// The kernel has no ublk driver.
    NoDriver,
    /// The driver is the administrator's.
    NoPermission,
    /// The driver lacks features that are needed, by their names.
    KernelTooOld(Vec<&'static str>),
    /// This process may not use io_uring, by which the driver takes its commands.
    NoRing(io::Error),
    /// The driver has as many devices as it is told to allow.
    TooManyDevices,
    /// There is no such device.
    NoDevice(DeviceId),
    /// The driver has the device, and this process no node of this path.
    NoNode(PathBuf),
    /// Another process serves the device.
    Served(DeviceId, i32),
    /// The device is in use: mounted, or held by another device.
    InUse(DeviceId),
    /// The device is another program's.
    Foreign(DeviceId),
    /// The device's size or request size is none that this build can serve.
    Geometry(DeviceId),
    /// The driver refused a command, with this error.
    Refused(&'static str, io::Error),
    /// The device cannot be served by the server's threads.
    Server(io::Error),
}

impl UblkError {
    /// Whether the device is in use.
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse(_))
    }

    /// Whether the caller can remove the cause.
    pub const fn is_correctable(&self) -> bool {
        !matches!(self, Self::Refused(..) | Self::Server(_))
    }
}

impl fmt::Display for UblkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => f.write_str(
                "found no ublk driver in the kernel, expected one (`modprobe ublk_drv`, Linux 6.5 \
                 or later with CONFIG_BLK_DEV_UBLK; or `spindle attach` over NBD)",
            ),
            Self::NoPermission => f.write_str(
                "found no permission to make block devices with ublk, expected CAP_SYS_ADMIN and \
                 access to /dev/ublk-control (contrib/spindle-ublk.conf)",
            ),
            Self::KernelTooOld(missing) => write!(
                f,
                "found a ublk driver without {}, expected Linux 6.5 or later (or `spindle attach` \
                 over NBD)",
                missing.join(", ")
            ),
            Self::NoRing(error) => write!(
                f,
                "found no io_uring for this process ({error}), expected it for ublk \
                 (`sysctl kernel.io_uring_disabled=0`, or a system-call filter that allows it)"
            ),
            Self::TooManyDevices => f.write_str(
                "found as many devices as the ublk driver is told to allow, expected fewer \
                 (`spindle detach` one, or raise /sys/module/ublk_drv/parameters/ublks_max)",
            ),
            Self::NoDevice(device) => write!(
                f,
                "found no {device}, expected one of the devices of `spindle attach --list`"
            ),
            Self::NoNode(path) => write!(
                f,
                "found no node {}, though the driver has the device, expected one (in a \
                 container: give it the host's /dev)",
                path.display()
            ),
            Self::Served(device, pid) => write!(
                f,
                "found {device} served by process {pid} already, expected one daemon for a config \
                 (stop the other)"
            ),
            Self::InUse(device) => write!(
                f,
                "found {device} mounted or otherwise in use, expected one that is not in use \
                 (unmount or stop that first)"
            ),
            Self::Foreign(device) => write!(
                f,
                "found {device} of another program, expected one that `spindle` made (remove it \
                 with that program)"
            ),
            Self::Geometry(device) => write!(
                f,
                "found {device} with several queues or longer requests than this build serves, \
                 expected one that `spindle` made (`spindle detach {device}`)"
            ),
            Self::Refused(what, error) => write!(
                f,
                "the ublk driver does not {what}: {error} (the kernel's log may say why: `dmesg`)"
            ),
            Self::Server(error) => write!(f, "the block device is not served: {error}"),
        }
    }
}

impl std::error::Error for UblkError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line with its remedy.
    #[test]
    fn each_error_is_one_line_that_says_what_to_do() {
        let device = DeviceId(2);
        let forbidden = || io::Error::from(io::ErrorKind::PermissionDenied);
        let lines = [
            (UblkError::NoDriver, "`modprobe ublk_drv`"),
            (UblkError::NoPermission, "CAP_SYS_ADMIN and access to /dev/ublk-control (contrib/"),
            (UblkError::KernelTooOld(vec!["UBLK_F_A"]), "without UBLK_F_A, expected Linux 6.5"),
            (UblkError::NoRing(forbidden()), "`sysctl kernel.io_uring_disabled=0`"),
            (UblkError::TooManyDevices, "/sys/module/ublk_drv/parameters/ublks_max"),
            (UblkError::NoDevice(device), "`spindle attach --list`"),
            (UblkError::NoNode("/dev/ublkc2".into()), "give it the host's /dev"),
            (
                UblkError::Served(device, 7),
                "by process 7 already, expected one daemon for a config",
            ),
            (UblkError::InUse(device), "(unmount or stop that first)"),
            (UblkError::Foreign(device), "remove it with that program"),
            (UblkError::Geometry(device), "`spindle detach /dev/ublkb2`"),
        ];
        for (error, remedy) in lines {
            let line = error.to_string();
            assert!(line.contains("found ") && line.contains(", expected "), "{line}");
            assert!(line.contains(remedy), "{line}: {remedy}");
            assert!(!line.contains('\n'), "{line}");
            assert!(error.is_correctable(), "{line}");
        }
    }
}
