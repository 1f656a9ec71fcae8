//! Volumes become block devices of this machine, and cease to be.

use config::{Document, NamedVolume};
use ublk::{DeviceId, Mark};

use super::error::ChangeError;
use super::operator::Operator;
use crate::block_devices::VolumeDevice;
use crate::startup::error::StartError;
use crate::state::DaemonState;

impl DaemonState {
    /// Serves a volume as the block device with this mark.
    pub(crate) fn open_block_device(
        &self,
        name: &str,
        mark: Mark,
    ) -> Result<DeviceId, ChangeError> {
        let opened = self.block_devices.open((name, mark), (&self.routes, &self.handle));
        opened.map_err(ChangeError::BlockDevice)
    }
}

impl Operator {
    /// The block device of a volume, if it has one.
    pub fn block_device(&self, name: &str) -> Option<VolumeDevice> {
        self.state.block_devices.get(name)
    }

    /// Serves the block devices that the config asks for: those that a former daemon has left go
    /// on with their requests.
    ///
    /// # Errors
    /// [`StartError::BlockDevice`] for the first that cannot be served. Those before it are served.
    pub fn open_block_devices(&self) -> Result<(), StartError> {
        let document = self.document();
        let plan = document.plan();
        let pooled = plan.pool.iter().flat_map(|pool| &pool.volumes);
        let pooled = pooled.map(|volume| (&volume.name, volume.line, volume.ublk));
        let volumes = plan.volumes.iter().map(|volume| (&volume.name, volume.line, volume.ublk));
        for (name, line, _) in volumes.chain(pooled).filter(|(.., asked)| *asked) {
            let opened = self.state.open_block_device(name, mark(&document, name));
            let device = opened.map_err(|error| StartError::BlockDevice {
                place: format!("{}:{line}", plan.file),
                name: name.clone(),
                error,
            })?;
            eprintln!("{name}: {device}");
        }
        Ok(())
    }

    /// Brings a volume's block device in line with a change of `ublk`, before it is in the config.
    pub(super) fn change_block_device(
        &self,
        name: &str,
        change: Option<bool>,
        before: &Document,
    ) -> Result<(), ChangeError> {
        match change {
            None => Ok(()),
            Some(true) => {
                let opened = self.state.open_block_device(name, mark(before, name));
                opened.map(drop)
            }
            Some(false) => {
                let closed = self.state.block_devices.close(name, false);
                closed.map_err(ChangeError::BlockDevice)
            }
        }
    }

    /// Undoes [`Operator::change_block_device`] when the rest of the change has failed.
    pub(super) fn undo_block_device(&self, name: &str, before: &Document) {
        let was = match before.find(name) {
            Ok(NamedVolume::OnDisk(_, volume)) => volume.ublk,
            Ok(NamedVolume::InPool(_, volume)) => volume.ublk,
            Err(_) => false,
        };
        if let Err(error) = self.change_block_device(name, Some(was), before) {
            eprintln!("volume {name}: its block device is not as the config says: {error}");
        }
    }

    /// Refuses a change that a block device does not survive.
    pub(super) fn refuse_block_device(&self, name: &str) -> Result<(), ChangeError> {
        let there = self.block_device(name).map(|there| there.device);
        there.map_or(Ok(()), |device| {
            Err(ChangeError::Attached { name: name.to_owned(), device: device.to_string() })
        })
    }

    /// Removes the block device of a volume that is removed.
    pub(super) fn remove_block_device(&self, name: &str, force: bool) -> Result<(), ChangeError> {
        if !force {
            return self.refuse_block_device(name);
        }
        self.state.block_devices.close(name, true).map_err(ChangeError::BlockDevice)
    }
}

/// The mark of a volume of this config.
fn mark(document: &Document, name: &str) -> Mark {
    // A config that cannot be found any more keeps the path that it was read by.
    let path = document.path().canonicalize().unwrap_or_else(|_| document.path().to_owned());
    Mark::new(&path, name)
}
