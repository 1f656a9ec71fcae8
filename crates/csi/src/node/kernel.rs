//! Volumes as devices of the kernel's NBD driver. What is attached is read back from sysfs, and a
//! thread a device replaces its connection when the daemon has restarted. A driver that was killed
//! takes its devices over when it starts: until then requests wait and do not fail.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attach::limits::DEAD_TIMEOUT;
use attach::{AttachError, Attached, Backend, Control, Device, Devices, Unflushed, supervise};
use nbd::Address;
use tonic::Status;
use units::Bytes;

use super::steps;

/// The connections of a device: a client of a disk gains nothing from more.
const CONNECTIONS: usize = 1;

/// Makes devices of the volumes of a server.
#[derive(Clone, Debug)]
pub(crate) struct KernelNbd {
    server: Address,
    /// The devices that a thread keeps connected.
    supervised: Arc<Mutex<BTreeSet<Device>>>,
}

fn refused(error: &AttachError) -> Status {
    match error {
        AttachError::InUse(..) => Status::failed_precondition(error.to_string()),
        _ => Status::unavailable(error.to_string()),
    }
}

impl KernelNbd {
    /// The devices of a server's volumes. Those that are attached already are kept connected from
    /// now on.
    pub(super) fn new(server: Address) -> Self {
        let this = Self { server, supervised: Arc::default() };
        let attached = Devices::default().list().unwrap_or_default();
        for one in attached {
            if let Some(backend) = one.backend.filter(|backend| backend.server == this.server) {
                this.keep(backend, one.device);
            }
        }
        this
    }

    fn devices(&self) -> MutexGuard<'_, BTreeSet<Device>> {
        // No code panics while it holds the lock.
        self.supervised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backend(&self, volume: &str) -> Backend {
        Backend { volume: volume.to_owned(), server: self.server.clone() }
    }

    /// Keeps a device connected until it is detached, unless a thread does already.
    fn keep(&self, backend: Backend, device: Device) {
        if !self.devices().insert(device) {
            return;
        }
        let this = self.clone();
        std::thread::spawn(move || {
            let told = |happened: attach::Supervised<'_>| eprintln!("{happened}");
            let ended = Control::open().and_then(|mut control| {
                let events = control.events()?;
                // Whether its connection has ended before is not known. The kernel drops a
                // connection that it does not need.
                let connections = (CONNECTIONS, CONNECTIONS);
                supervise(&mut control, &events, (&backend, device), connections, told)
            });
            if let Err(error) = ended {
                eprintln!("{device} is not kept connected: {error}");
            }
            this.devices().remove(&device);
        });
    }

    fn attached(&self, volume: &str) -> Result<Option<Attached>, Status> {
        let backend = self.backend(volume);
        let all = Devices::default().list().map_err(|error| refused(&error))?;
        Ok(all.into_iter().find(|one| one.backend.as_ref() == Some(&backend)))
    }

    /// The device of a volume. It is kept connected, whichever process has attached it.
    pub(super) fn find(&self, volume: &str) -> Result<Option<String>, Status> {
        let Some(attached) = self.attached(volume)? else { return Ok(None) };
        self.keep(self.backend(volume), attached.device);
        Ok(Some(attached.device.to_string()))
    }

    pub(super) fn attach(&self, volume: &str) -> Result<String, Status> {
        let mut control = Control::open().map_err(|error| refused(&error))?;
        let backend = self.backend(volume);
        let attached = control.attach(&backend, None, (CONNECTIONS, DEAD_TIMEOUT));
        let device = steps::after(attached).map_err(|error| refused(&error))?.device;
        self.keep(backend, device);
        Ok(device.to_string())
    }

    pub(super) fn detach(&self, volume: &str) -> Result<(), Status> {
        let Some(attached) = self.attached(volume)? else { return Ok(()) };
        let mut control = Control::open().map_err(|error| refused(&error))?;
        steps::after(control.detach(attached.device, Unflushed::Kept))
            .map_err(|error| refused(&error))
    }

    /// Grows the device of a volume to `size`.
    pub(super) fn grow(&self, volume: &str, size: Bytes) -> Result<(), Status> {
        let Some(attached) = self.attached(volume)? else { return Ok(()) };
        let mut control = Control::open().map_err(|error| refused(&error))?;
        let grown = control.grow(&attached, &self.backend(volume), size);
        steps::after(grown).map(drop).map_err(|error| refused(&error))
    }
}
