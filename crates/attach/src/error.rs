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
    /// The driver makes no device of this number.
    NumberTooLarge(Device),
    /// The kernel has the device, and this process no node of it.
    NoNode(Device),
    /// The device is connected already, to something else.
    Connected(Device, Option<Backend>),
    /// The volume has a device already.
    Attached(Device, Backend),
    /// The device is not connected.
    NotConnected(Device),
    /// Another program connected the device.
    Foreign(Device),
    /// No server takes what was written to the device and is not flushed.
    Unflushed(Device, Backend, ClientError),
    /// No device is connected to a volume of this name.
    NotAttached(String),
    /// Several devices are connected to volumes of this name, on different servers.
    Ambiguous(String, Vec<Device>),
    /// The device is in use; what uses it, as far as that is visible.
    InUse(Device, Vec<Use>),
    /// The server does not open the volume.
    Server(Backend, ClientError),
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
                "found no permission to change block devices, expected root with CAP_SYS_ADMIN \
                 (`sudo`)",
            ),
            Self::KernelTooOld => f.write_str(
                "found an NBD driver that does not keep what a device is connected to, expected \
                 Linux 5.14 or later (boot a newer kernel)",
            ),
            Self::NoDevice(device) => write!(
                f,
                "found no {device}, expected one of the devices of `spindle attach --list`"
            ),
            Self::NumberTooLarge(device) => write!(
                f,
                "found {device}, beyond the numbers of the kernel's driver, expected a device such \
                 as /dev/nbd0 (or name none)"
            ),
            Self::NoNode(device) => write!(
                f,
                "found no node {device}, though the kernel has the device, expected one (in a \
                 container: give it the host's /dev)"
            ),
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
            Self::Server(Backend { volume, server }, error) => refused(f, volume, server, error),
            Self::OneConnection(Backend { volume, server }) => write!(
                f,
                "found a server at {server} that allows one connection to \"{volume}\", expected \
                 --connections 1"
            ),
            Self::Refused(what, error) => {
                write!(f, "the kernel does not {what}: {error} (its log may say why: `dmesg`)")
            }
            Self::NoAnswer => write!(f, "{Malformed}, or absent"),
            Self::File(path, error) => write!(f, "{path}: {error}"),
            Self::NotConnected(_)
            | Self::Foreign(_)
            | Self::Unflushed(..)
            | Self::NotAttached(_)
            | Self::Ambiguous(..)
            | Self::InUse(..) => self.fmt_kept(f),
        }
    }
}

impl AttachError {
    /// Why a device is not detached.
    fn fmt_kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(device) => write!(
                f,
                "found nothing attached to {device}, expected one of the devices of `spindle \
                 attach --list`"
            ),
            Self::Foreign(device) => write!(
                f,
                "found {device} connected by another program, expected one that `spindle` attached \
                 (disconnect it with that program)"
            ),
            Self::Unflushed(device, Backend { volume, server }, error) => write!(
                f,
                "found no server of volume \"{volume}\" at {server} ({error}), expected one that \
                 takes what {device} has not flushed (start it, or lose that with --force)"
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
            _ => unreachable!("the others are those of attaching"),
        }
    }
}

/// Why a server does not open a volume, with the remedy.
fn refused(
    f: &mut fmt::Formatter<'_>,
    volume: &str,
    server: &Address,
    error: &ClientError,
) -> fmt::Result {
    match error {
        ClientError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
            f,
            "found no permission to connect to {server}, expected a user that the socket's mode \
             lets in (`sudo`)"
        ),
        ClientError::Io(error) => write!(
            f,
            "found no server at {server} ({error}), expected one that listens (start it, or name \
             it with --server)"
        ),
        ClientError::UnknownExport => write!(
            f,
            "found no volume \"{volume}\" at {server}, expected one that this client may open \
             (`spindle vol ls`)"
        ),
        ClientError::TlsRequired => write!(
            f,
            "found a server at {server} that requires TLS for volume \"{volume}\", expected one \
             that does not: the kernel's driver has none (`[nbd] tls = \"allowed\"`, no `clients`)"
        ),
        ClientError::Refused(_) => write!(
            f,
            "found volume \"{volume}\" closed to this client by {server} ({error}), expected one \
             with a connection to spare (`spindle vol show {volume}`)"
        ),
        error => write!(f, "{server}: {error}"),
    }
}

impl std::error::Error for AttachError {}

impl From<Malformed> for AttachError {
    fn from(_: Malformed) -> Self {
        Self::NoAnswer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line with its remedy.
    #[test]
    fn each_error_is_one_line_that_says_what_to_do() {
        let device = Device(3);
        let server = Address::Unix("/run/nbd.sock".into());
        let backend = || Backend { volume: "vm1".into(), server: server.clone() };
        let io = io::Error::from;
        let lines = [
            (AttachError::NoDriver, "`modprobe nbd`"),
            (AttachError::NoPermission, "CAP_SYS_ADMIN (`sudo`)"),
            (AttachError::KernelTooOld, "expected Linux 5.14 or later (boot a newer kernel)"),
            (AttachError::NoDevice(device), "`spindle attach --list`"),
            (AttachError::NumberTooLarge(device), "(or name none)"),
            (AttachError::NoNode(device), "give it the host's /dev"),
            (AttachError::Connected(device, Some(backend())), "(`spindle detach /dev/nbd3`, or"),
            (AttachError::Connected(device, None), "disconnect it with that program"),
            (AttachError::Attached(device, backend()), "(use /dev/nbd3, or `spindle detach"),
            (AttachError::NotConnected(device), "`spindle attach --list`"),
            (AttachError::NotAttached("vm1".into()), "`spindle attach --list`"),
            (AttachError::Foreign(device), "disconnect it with that program"),
            (
                AttachError::Unflushed(device, backend(), ClientError::UnknownExport),
                "(start it, or lose that with --force)",
            ),
            (AttachError::Ambiguous("vm1".into(), vec![device]), "expected one of these devices"),
            (
                AttachError::InUse(device, vec![Use::Mounted("/srv".into()), Use::Swap]),
                "/dev/nbd3 mounted on /srv, in use as swap space, expected one that is not in use \
                 (unmount or stop that first)",
            ),
            (AttachError::InUse(device, Vec::new()), "by another program or mount namespace"),
            (AttachError::OneConnection(backend()), "expected --connections 1"),
            (
                AttachError::Server(backend(), io(io::ErrorKind::NotFound).into()),
                "(start it, or name it with --server)",
            ),
            (
                AttachError::Server(backend(), io(io::ErrorKind::PermissionDenied).into()),
                "the socket's mode lets in (`sudo`)",
            ),
            (AttachError::Server(backend(), ClientError::UnknownExport), "(`spindle vol ls`)"),
            (AttachError::Server(backend(), ClientError::TlsRequired), "`[nbd] tls = \"allowed\"`"),
            (
                AttachError::Server(backend(), ClientError::Refused(0x8000_0002)),
                "(`spindle vol show vm1`)",
            ),
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
