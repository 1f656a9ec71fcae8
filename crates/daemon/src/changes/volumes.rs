//! Volumes are created, changed and removed, wherever they lie.

use config::{Document, PoolVolumeEdit, VolumeEdit};

use super::backend::{NewVolumeBackend, VolumeBackend};
use super::disk_volume::{DiskVolume, NewDiskVolume};
use super::error::ChangeError;
use super::operator::Operator;
use super::pool_volume::{NewPoolVolume, PoolVolume};

/// A volume that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewVolume {
    /// One extent on one disk.
    OnDisk {
        /// The disk's name.
        disk: String,
        /// The volume's size and contract.
        edit: VolumeEdit,
    },
    /// Blocks of the pool.
    InPool(PoolVolumeEdit),
}

/// The result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The volume was created.
    New,
    /// An equal volume of the same name was there.
    Unchanged,
}

/// A change of a volume in [`Operator::set`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The changed fields.
    pub edit: VolumeEdit,
    /// Whether clients are disconnected if the change needs it, because the volume shrinks.
    pub force: bool,
}

impl Operator {
    pub(super) fn new_backend<'a>(
        &'a self,
        name: &'a str,
        volume: &'a NewVolume,
    ) -> Box<dyn NewVolumeBackend + 'a> {
        match volume {
            NewVolume::OnDisk { disk, edit } => {
                Box::new(NewDiskVolume { operator: self, name, disk, edit })
            }
            NewVolume::InPool(edit) => Box::new(NewPoolVolume { operator: self, name, edit }),
        }
    }

    /// The volume of this name, as something that can be changed.
    fn backend<'a>(&'a self, name: &'a str) -> Result<Box<dyn VolumeBackend + 'a>, ChangeError> {
        Ok(match self.state.pool_volume(name) {
            Some((id, volume)) => Box::new(PoolVolume::new(self, name, id, volume)),
            None => Box::new(DiskVolume::new(self, name)?),
        })
    }

    /// Creates a volume. If an equal volume of the same name is there, nothing is done.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn create(&self, name: &str, volume: &NewVolume) -> Result<Created, ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let backend = self.new_backend(name, volume);
        let exists = || ChangeError::Exists { name: name.to_owned() };
        match backend.equals_existing(&before)? {
            Some(true) => return Ok(Created::Unchanged),
            Some(false) => return Err(exists()),
            None if self.state.routes.find(name).is_some() => return Err(exists()),
            None => {}
        }
        let after = backend.add_to(&before)?;
        backend.create(&before, &after)?;
        assert!(self.state.routes.find(name).is_some(), "clients can open a new volume");
        Ok(Created::New)
    }

    /// Checks whether a volume's size and contract could be changed now. Changes nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]: the reason why they could not.
    pub fn admit_change(&self, name: &str, edit: &VolumeEdit) -> Result<(), ChangeError> {
        let volume = self.backend(name)?;
        let (_, size) = volume.edit_in(&self.document(), edit)?;
        volume.check_space(size)
    }

    /// Changes a volume's size and contract: all fields or none.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then, but for clients that were disconnected.
    pub fn set(&self, name: &str, setting: &Setting) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let Some(_) = setting.edit.ublk else { return self.apply(name, setting, &before) };
        let after = self.backend(name)?.edit_in(&before, &setting.edit);
        after.and_then(|_| self.change_block_device(name, setting.edit.ublk, &before))?;
        let applied = self.apply(name, setting, &before);
        applied.inspect_err(|_| self.undo_block_device(name, &before))
    }

    /// Changes a volume's size and contract, and the config.
    fn apply(&self, name: &str, setting: &Setting, before: &Document) -> Result<(), ChangeError> {
        let volume = self.backend(name)?;
        let (after, size) = volume.edit_in(before, &setting.edit)?;
        let (export, route) = self.route(name)?;
        let shrinks = size < volume.size();
        if shrinks {
            self.withdraw(name, export, setting.force)?;
        }
        if let Err(error) = volume.resize(before, &after, size) {
            if shrinks {
                self.state.routes.publish(export, route);
            }
            return Err(error);
        }
        volume.apply_terms(&after)?;
        if size != volume.size() {
            let route = volume.resized_route(&after, route)?;
            self.state.routes.publish(export, route);
            self.state.block_devices.resize(name, size);
        }
        Ok(())
    }

    /// Removes a volume or a snapshot with its data. With `force`, its clients get their last
    /// replies and are disconnected; without, it must have none.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then, but for clients that were disconnected.
    pub fn delete(&self, name: &str, force: bool) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let volume = self.backend(name)?;
        let after = volume.remove_from(&before)?;
        let (export, route) = self.route(name)?;
        self.remove_block_device(name, force)?;
        self.withdraw(name, export, force)?;
        volume.remove(&before, &after).inspect_err(|_| self.state.routes.publish(export, route))
    }
}
