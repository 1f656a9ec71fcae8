//! How a volume becomes a block device of this node.

use std::path::PathBuf;

use nbd::Address;
use tonic::Status;
use units::Bytes;

use super::fuse::Fuse;
use super::kernel::KernelNbd;
use super::steps;
use crate::daemon::Daemon;

/// How volumes become devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TransportKind {
    /// The kernel's NBD driver, from Linux 5.14.
    Nbd,
    /// The kernel's ublk driver: the daemon makes the devices.
    Ublk,
    /// `nbdfuse` and a loop device: for tests on kernels without either. A process is in the path
    /// of the data.
    Nbdfuse,
}

/// Makes block devices of the volumes of a daemon.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Nbd(KernelNbd),
    Ublk(Daemon),
    Nbdfuse(Fuse),
}

impl Transport {
    pub(crate) fn new(
        kind: TransportKind,
        daemon: Daemon,
        server: Address,
        directory: PathBuf,
    ) -> Self {
        match kind {
            TransportKind::Nbd => Self::Nbd(KernelNbd::new(server)),
            TransportKind::Ublk => Self::Ublk(daemon),
            TransportKind::Nbdfuse => Self::Nbdfuse(Fuse { server, directory }),
        }
    }

    /// The device of a volume, if it is attached.
    pub(super) fn find(&self, volume: &str) -> Result<Option<String>, Status> {
        match self {
            Self::Nbd(kernel) => kernel.find(volume),
            Self::Ublk(daemon) => daemon.block_device(volume),
            Self::Nbdfuse(fuse) => fuse.find(volume),
        }
    }

    /// Attaches a volume that is not attached.
    pub(super) fn attach(&self, volume: &str) -> Result<String, Status> {
        match self {
            Self::Nbd(kernel) => kernel.attach(volume),
            Self::Ublk(daemon) => {
                steps::after(daemon.serve_block_device(volume, true))?;
                let none = || Status::unavailable("the daemon names no device");
                daemon.block_device(volume)?.ok_or_else(none)
            }
            Self::Nbdfuse(fuse) => fuse.attach(volume),
        }
    }

    /// Detaches a volume from its device.
    pub(super) fn detach(&self, volume: &str, device: &str) -> Result<(), Status> {
        match self {
            Self::Nbd(kernel) => kernel.detach(volume),
            Self::Ublk(daemon) => steps::after(daemon.serve_block_device(volume, false)),
            Self::Nbdfuse(fuse) => fuse.detach(volume, device),
        }
    }

    /// Removes what a detachment that was cut short has left.
    pub(super) fn end_detaching(&self, volume: &str) -> Result<(), Status> {
        match self {
            Self::Nbdfuse(fuse) => fuse.stop(volume),
            Self::Nbd(_) | Self::Ublk(_) => Ok(()),
        }
    }

    /// Grows a device to the size of its volume.
    pub(super) fn grow(&self, volume: &str, device: &str, size: Bytes) -> Result<(), Status> {
        match self {
            Self::Nbd(kernel) => kernel.grow(volume, size),
            // The daemon grows it with the volume, where the kernel can.
            Self::Ublk(_) => Ok(()),
            Self::Nbdfuse(_) => Fuse::grow(device),
        }
    }
}
