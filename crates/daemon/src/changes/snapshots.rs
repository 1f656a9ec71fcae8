//! Snapshots and the placement of the pool's volumes.

use config::{Document, NamedVolume};
use nbd::ExportId;
use volume::DiskId;
use volume::pool::{Layout, Operation, PoolVolumeId, Volume, Zone};

use super::error::{ChangeError, refused};
use super::operator::Operator;
use crate::routing::routes::Route;

/// A volume's relocation, with the volumes that may share blocks with it.
struct Relocation {
    /// The config with their new placement.
    after: Document,
    group: Vec<(PoolVolumeId, String)>,
    operation: Operation,
}

impl Operator {
    /// The route of a volume.
    pub(super) fn route(&self, name: &str) -> Result<(ExportId, Route), ChangeError> {
        self.state.routes.find(name).ok_or_else(|| self.not_in_pool(name))
    }

    /// The error for a name that is not a volume of the pool.
    pub(super) fn not_in_pool(&self, name: &str) -> ChangeError {
        match self.document().find(name) {
            Err(error) => ChangeError::Missing(error),
            Ok(_) => ChangeError::Refused(format!("\"{name}\" is not in the pool")),
        }
    }

    /// # Errors
    /// The volume is a snapshot.
    pub(super) fn refuse_snapshot(name: &str, volume: &Volume) -> Result<(), ChangeError> {
        if volume.origin.is_none() {
            return Ok(());
        }
        refused(format!(
            "\"{name}\" is a snapshot, which can only be read, rolled back to and removed"
        ))
    }

    /// A volume of the pool that is not a snapshot.
    fn writable_pool_volume(&self, name: &str) -> Result<(PoolVolumeId, Volume), ChangeError> {
        let found = self.state.pool_volume(name).ok_or_else(|| self.not_in_pool(name))?;
        Self::refuse_snapshot(name, &found.1)?;
        Ok(found)
    }

    /// Takes a snapshot of a volume of the pool, which can be read, rolled back to and removed.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn snapshot(&self, volume: &str, name: &str) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let snapshot = self.snapshot_operation(volume, name)?;
        self.end_removals([name])?;
        let plan = self.document().plan().clone();
        let layout = self.state.pool_volume(volume).map_or(Layout::Single, |(_, one)| one.layout);
        let accounts = self.state.attach_pool_volume(&plan, (name, layout))?;
        let taken = self.state.change_pool(snapshot);
        taken.inspect_err(|_| self.state.detach_pool_volume(&accounts))?;
        self.state.publish_new_pool_volume(&plan, name, accounts)
    }

    /// The operation that takes a snapshot under a name that is free.
    fn snapshot_operation(&self, volume: &str, name: &str) -> Result<Operation, ChangeError> {
        let (id, _) = self.writable_pool_volume(volume)?;
        if self.document().find(name).is_ok() || self.state.routes.find(name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        Ok(Operation::Snapshot { volume: id, name: name.to_owned() })
    }

    /// Checks whether a snapshot could be taken now. Changes nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]: the reason why it could not.
    pub fn admit_snapshot(&self, volume: &str, name: &str) -> Result<(), ChangeError> {
        let _lock = self.lock();
        self.state.check_pool_change(&self.snapshot_operation(volume, name)?)
    }

    /// Restores a volume's content and size from its snapshot. With `force`, clients of the volume
    /// are disconnected, and see the old content when they reconnect; without, it must have none.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then, but for clients that were disconnected.
    pub fn roll_back(&self, snapshot: &str, force: bool) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let found = self.state.pool_volume(snapshot).ok_or_else(|| self.not_in_pool(snapshot))?;
        let (id, volume) = found;
        let Some(origin) = volume.origin else {
            return refused(format!("\"{snapshot}\" is no snapshot"));
        };
        let name = self
            .state
            .pool()?
            .inspect(|flow| flow.pool().state().volume(origin).map(|volume| volume.name.clone()));
        let name = name.expect("a snapshot is removed before its volume");
        let (export, route) = self.route(&name)?;
        self.withdraw(&name, export, force)?;
        let rolled_back = self.state.change_pool(Operation::RollBack { snapshot: id });
        let (id, volume) = self.writable_pool_volume(&name)?;
        let route = match rolled_back {
            Ok(()) => self.state.pool_route(self.document().plan(), (id, &volume))?,
            Err(_) => route,
        };
        self.state.routes.publish(export, route);
        rolled_back
    }

    /// The volumes that can be written and may share blocks with a volume, itself included: they
    /// have one placement.
    pub(super) fn writable_group(
        &self,
        id: PoolVolumeId,
    ) -> Result<Vec<(PoolVolumeId, String)>, ChangeError> {
        Ok(self.state.pool()?.inspect(|flow| {
            let members = flow.pool().state().group_members(id);
            let writable = members.filter(|(_, volume)| volume.origin.is_none());
            writable.map(|(id, volume)| (id, volume.name.clone())).collect()
        }))
    }

    /// Relocates a volume of the pool, with the volumes that may share blocks with it, to another
    /// zone or to other disks. It is answered when that is decided; the blocks are moved while the
    /// volumes are in use.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn relocate(
        &self,
        name: &str,
        zone: Option<Zone>,
        disks: Option<&[String]>,
    ) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let Some(relocation) = self.relocation(&before, name, (zone, disks))? else {
            return Ok(());
        };
        let Relocation { after, group, operation } = relocation;
        self.persist(&before, &after)?;
        let set_terms = |document: &Document| -> Result<(), ChangeError> {
            for (id, member) in &group {
                if let Some(accounts) = self.state.pool()?.accounts(*id) {
                    self.state.set_pool_terms(document.plan(), member, &accounts);
                }
            }
            Ok(())
        };
        set_terms(&after)?;
        let relocated = self.state.change_pool(operation);
        let relocated = self.restore_on_error(&after, &before, relocated);
        if relocated.is_err() {
            set_terms(&before)?;
        }
        relocated
    }

    /// What a relocation changes; `None` if the volume is placed there already.
    fn relocation(
        &self,
        before: &Document,
        name: &str,
        (zone, disks): (Option<Zone>, Option<&[String]>),
    ) -> Result<Option<Relocation>, ChangeError> {
        let (id, volume) = self.writable_pool_volume(name)?;
        let zone = zone.unwrap_or(volume.zone);
        let disks = match disks {
            Some(disks) => disks.to_vec(),
            None => self.pool_disk_names(&volume.disks)?,
        };
        let numbers = self.pool_disk_numbers(&disks)?;
        if (zone, &numbers) == (volume.zone, &volume.disks) {
            return Ok(None);
        }
        let mut after = Document::clone(before);
        let group = self.writable_group(id)?;
        for (_, member) in &group {
            if let Ok(NamedVolume::InPool(..)) = before.find(member) {
                after = after.relocate_pool_volume(member, zone, &disks)?.0;
            }
        }
        let operation = Operation::Relocate { volume: id, zone, disks: numbers };
        Ok(Some(Relocation { after, group, operation }))
    }

    /// Checks whether a volume of the pool could be relocated now. Changes nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]: the reason why it could not.
    pub fn admit_relocation(
        &self,
        name: &str,
        zone: Option<Zone>,
        disks: Option<&[String]>,
    ) -> Result<(), ChangeError> {
        let _lock = self.lock();
        match self.relocation(&self.document(), name, (zone, disks))? {
            Some(relocation) => self.state.check_pool_change(&relocation.operation),
            None => Ok(()),
        }
    }

    /// The names of the pool's disks.
    pub(super) fn pool_disk_names(&self, disks: &[DiskId]) -> Result<Vec<String>, ChangeError> {
        let there = self.state.pool()?.disks();
        let disks = disks.iter().filter_map(|disk| there.get(disk));
        Ok(disks.map(|disk| self.state.disk_name(disk.disk).to_owned()).collect())
    }

    /// The pool's numbers of disks.
    pub(super) fn pool_disk_numbers(&self, names: &[String]) -> Result<Vec<DiskId>, ChangeError> {
        let there = self.state.pool()?.disks();
        let number = |name: &String| {
            let found = there.iter().find(|(_, disk)| self.state.disk_name(disk.disk) == *name);
            found.map(|(id, _)| *id).ok_or_else(|| {
                let all = there.values().map(|disk| self.state.disk_name(disk.disk));
                ChangeError::Refused(format!(
                    "disks: found \"{name}\", expected some of the pool's: {}",
                    all.collect::<Vec<_>>().join(", ")
                ))
            })
        };
        names.iter().map(number).collect()
    }

    /// Pauses relocation, or resumes it.
    ///
    /// # Errors
    /// There is no pool.
    pub fn pause_relocation(&self, paused: bool) -> Result<(), ChangeError> {
        self.state.pool()?.pause_relocation(paused);
        Ok(())
    }

    /// Sets the pool's alarm level, in percent of its blocks.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn set_alarm(&self, percent: u8) -> Result<(), ChangeError> {
        let _lock = self.lock();
        self.state.change_pool(Operation::SetAlarm { percent })
    }
}
