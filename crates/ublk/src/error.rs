//! Why a volume has no block device, or keeps it.

use core::fmt;
use std::io;

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
    /// There is no such device.
    NoDevice(DeviceId),
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
            Self::NoDevice(device) => {
                write!(f, "found no {device}, expected a device such as /dev/ublkb0")
            }
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
            Self::Refused(what, error) => write!(f, "the ublk driver does not {what}: {error}"),
            Self::Server(error) => write!(f, "the block device is not served: {error}"),
        }
    }
}

impl std::error::Error for UblkError {}
