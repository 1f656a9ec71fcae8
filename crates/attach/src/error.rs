//! Why a volume was not attached or detached.

use core::fmt;
use std::io;

use nbd::Address;
use nbd::client::ClientError;

use crate::backend::Backend;
use crate::device::{Device, Use};
use crate::netlink::Malformed;

/// The error of an operation, each with its remedy.
#[derive(Debug)]
pub enum AttachError {
    /// The kernel has no NBD driver, or it is not reachable from this network namespace.
    NoDriver,
    /// The operation is the administrator's.
    NoPermission,
    /// The driver does not keep what a device is connected to, so that it cannot be found again.
    KernelTooOld,
    /// There is no such device.
    NoDevice(Device),
    /// The device is connected already, to something else.
    Connected(Device, Option<Backend>),
    /// The volume has a device already.
    Attached(Device, Backend),
    /// The device is not connected.
    NotConnected(Device),
    /// No device is connected to a volume of this name.
    NotAttached(String),
    /// Several devices are connected to volumes of this name, on different servers.
    Ambiguous(String, Vec<Device>),
    /// The device is in use; what uses it, as far as that is visible.
    InUse(Device, Vec<Use>),
    /// The server does not open the volume.
    Server(Address, ClientError),
    /// The server does not allow several connections to the volume.
    OneConnection(Backend),
    /// The kernel refused the request, with this error.
    Refused(&'static str, io::Error),
    /// The kernel sent no answer, or a malformed one.
    NoAnswer,
    /// A file of the system could not be read.
    File(String, io::Error),
}

impl AttachError {
    /// Whether the caller can remove the cause.
    pub const fn is_correctable(&self) -> bool {
        !matches!(self, Self::Refused(..) | Self::NoAnswer | Self::File(..))
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => f.write_str(
                "found no NBD driver in the kernel, expected one (`modprobe nbd`; it is visible in \
                 the host's network namespace alone)",
            ),
            Self::NoPermission => f.write_str(
                "found no permission to change block devices, expected root (CAP_SYS_ADMIN)",
            ),
            Self::KernelTooOld => f.write_str(
                "found an NBD driver that does not keep what a device is connected to, expected \
                 Linux 5.14 or later",
            ),
            Self::NoDevice(device) => {
                write!(f, "found no {device}, expected a device such as /dev/nbd0")
            }
            Self::Connected(device, Some(Backend { volume, server })) => write!(
                f,
                "found {device} attached to volume \"{volume}\" of {server}, expected a free \
                 device (`spindle detach {device}`, or name no device)"
            ),
            Self::Connected(device, None) => write!(
                f,
                "found {device} connected by another program, expected a free device (disconnect \
                 it with that program, or name no device)"
            ),
            Self::Attached(device, Backend { volume, .. }) => write!(
                f,
                "found volume \"{volume}\" attached as {device} already, expected one that is not \
                 (use {device}, or `spindle detach {device}`)"
            ),
            Self::NotConnected(device) => write!(
                f,
                "found nothing attached to {device}, expected one of the devices of `spindle \
                 attach --list`"
            ),
            Self::NotAttached(volume) => write!(
                f,
                "found no device attached to volume \"{volume}\", expected one of the volumes of \
                 `spindle attach --list`"
            ),
            Self::Ambiguous(volume, devices) => {
                let devices: Vec<_> = devices.iter().map(ToString::to_string).collect();
                let devices = devices.join(", ");
                write!(f, "found volume \"{volume}\" on {devices}, expected one of these devices")
            }
            Self::InUse(device, uses) => {
                write!(f, "found {device} ")?;
                for (at, each) in uses.iter().enumerate() {
                    write!(f, "{}{each}", if at > 0 { ", " } else { "" })?;
                }
                if uses.is_empty() {
                    f.write_str("in use by another program or mount namespace")?;
                }
                f.write_str(", expected one that is not in use (unmount or stop that first)")
            }
            Self::Server(address, error) => write!(f, "{address}: {error}"),
            Self::OneConnection(Backend { volume, server }) => write!(
                f,
                "found a server at {server} that allows one connection to \"{volume}\", expected \
                 --connections 1"
            ),
            Self::Refused(what, error) => write!(f, "the kernel does not {what}: {error}"),
            Self::NoAnswer => write!(f, "{Malformed}, or absent"),
            Self::File(path, error) => write!(f, "{path}: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<Malformed> for AttachError {
    fn from(_: Malformed) -> Self {
        Self::NoAnswer
    }
}
