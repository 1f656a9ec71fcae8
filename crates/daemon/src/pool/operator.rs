//! What an operator does to a pool and its volumes.
//!
//! As elsewhere the config is replaced first and put back if the rest fails: what a crash leaves is a config that the next start
//! makes true. A volume that the config has and the pool has not is made then; one that only the pool has is served and promised
//! nothing; one that lies elsewhere than the config says is moved.

use config::{Document, NamedVolume, PoolVolumeEdit, VolumeEdit};
use volume::pool::{Operation, PoolVolumeId, Volume, Zone};

use super::volumes::size;
use crate::live::Live;
use crate::operator::{ChangeError, Created, Operator, Setting};

fn refused<T>(words: impl Into<String>) -> Result<T, ChangeError> {
    Err(ChangeError::Refused(words.into()))
}

impl Operator {
    /// A volume of the pool, which is no snapshot.
    fn pool_volume(&self, name: &str) -> Result<(PoolVolumeId, Volume), ChangeError> {
        match self.live.pooled(name) {
            Some((_, volume)) if volume.origin.is_some() => refused(format!(
                "\"{name}\" is a snapshot, which only is read, rolled back to and removed"
            )),
            Some(found) => Ok(found),
            None => Err(self.missing(name)),
        }
    }

    fn missing(&self, name: &str) -> ChangeError {
        match self.document().find(name) {
            Err(error) => ChangeError::Missing(error),
            Ok(_) => ChangeError::Refused(format!("\"{name}\" is not in the pool")),
        }
    }

    /// Makes a volume in the pool. One of the same name that is the same already is as good.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn create_in_pool(
        &self,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<Created, ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let exists = || ChangeError::Exists { name: name.to_owned() };
        if let Ok((_, there)) = before.pool_volume(name) {
            let asked = before
                .preview_create_pool_volume(name, edit)
                .map_err(|error| if error.is_refusal() { exists() } else { error.into() })?;
            let what = |one: &config::PoolVolume| {
                (one.disks.clone(), one.layout, one.zone, one.thin, one.parts.clone(), one.span())
            };
            let of_size =
                self.live.pooled(name).is_some_and(|(_, volume)| size(&volume) == asked.size);
            let same = what(&asked) == what(there) && of_size;
            return if same { Ok(Created::Unchanged) } else { Err(exists()) };
        }
        if self.live.routes.find(name).is_some() {
            return Err(exists());
        }
        let after = before.create_pool_volume(name, edit)?;
        let (index, planned) = after.pool_volume(name)?;
        after.reject_expired_pool_span(index, self.now())?;
        self.persist(&before, &after)?;
        self.or_back(&after, &before, self.live.make(after.plan(), planned))?;
        Ok(Created::New)
    }

    /// Puts the config back if what was to follow has failed.
    fn or_back<T>(
        &self,
        after: &Document,
        before: &Document,
        done: Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        done.inspect_err(|_| {
            if let Err(error) = self.persist(after, before) {
                eprintln!("the config keeps a change that came to nothing: {error}");
            }
        })
    }

    /// The document with another contract, or size, of a volume of the pool, which it may not have known.
    fn promised(
        &self,
        before: &Document,
        (name, volume): (&str, &Volume),
        edit: &VolumeEdit,
    ) -> Result<Document, ChangeError> {
        if let Ok(NamedVolume::InPool(..)) = before.find(name) {
            return Ok(before.set_pool_volume(name, edit)?);
        }
        let disks = self.names_of(&volume.disks)?;
        let as_it_is = config::size_text(size(volume));
        let edit = VolumeEdit { size: edit.size.clone().or(Some(as_it_is)), ..edit.clone() };
        let edit = PoolVolumeEdit {
            volume: edit,
            disks: Some(disks),
            layout: Some(config::layout_name(volume.layout).to_owned()),
            zone: Some(config::zone_name(volume.zone).to_owned()),
            thin: volume.thin.then_some(true),
        };
        Ok(before.create_pool_volume(name, &edit)?)
    }

    /// Changes the size and the contract of a volume of the pool.
    pub(crate) fn set_in_pool(&self, name: &str, setting: &Setting) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let (id, old) = self.pool_volume(name)?;
        let after = self.promised(&before, (name, &old), &setting.edit)?;
        let (index, new) = after.pool_volume(name)?;
        if setting.edit.stream.is_some() {
            after.reject_expired_pool_span(index, self.now())?;
        }
        let to = if setting.edit.size.is_some() { new.blocks() } else { old.size };
        let (export, route) = self.live.routes.find(name).ok_or_else(|| self.missing(name))?;
        if to < old.size {
            self.withdraw(name, export, setting.force)?;
        }
        let resized = self.persist(&before, &after).and_then(|()| {
            let resize = Operation::Resize { volume: id, size: to };
            let done = if to == old.size { Ok(()) } else { self.live.change_pool(resize) };
            self.or_back(&after, &before, done)
        });
        if let Err(error) = resized {
            if to < old.size {
                self.live.routes.publish(export, route);
            }
            return Err(error);
        }
        if let Some(tenant) = self.live.pool()?.tenant(id) {
            self.live.promise(after.plan(), name, &tenant);
        }
        if to != old.size {
            let (id, volume) = self.pool_volume(name)?;
            self.live.show(after.plan(), (id, &volume), export);
        }
        Ok(())
    }

    /// Removes a volume or a snapshot of the pool, with its data.
    pub(crate) fn delete_in_pool(&self, name: &str, force: bool) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let (id, volume) = self.live.pooled(name).ok_or_else(|| self.missing(name))?;
        let snapshots = |live: &Live| {
            live.pool.as_ref().is_some_and(|pool| {
                pool.look(|flow| flow.pool().state().snapshots(id).next().is_some())
            })
        };
        if volume.origin.is_none() && snapshots(&self.live) {
            return refused(format!("\"{name}\" has snapshots: remove those first"));
        }
        let known = matches!(before.find(name), Ok(NamedVolume::InPool(..)));
        let after = if known { before.delete_pool_volume(name)? } else { Document::clone(&before) };
        let (export, route) = self.live.routes.find(name).ok_or_else(|| self.missing(name))?;
        self.withdraw(name, export, force)?;
        let removed = self.persist(&before, &after).and_then(|()| {
            let removed = self.live.change_pool(Operation::Remove { volume: id });
            self.or_back(&after, &before, removed)
        });
        if let Err(error) = removed {
            self.live.routes.publish(export, route);
            return Err(error);
        }
        if let Some(tenant) = self.live.pool()?.unseat(id) {
            self.live.unseat(&tenant);
        }
        Ok(())
    }

    /// Keeps what a volume of the pool holds now, as a snapshot that can be read, rolled back to and removed.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn snapshot(&self, volume: &str, name: &str) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let (id, _) = self.pool_volume(volume)?;
        if self.document().find(name).is_ok() || self.live.routes.find(name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        let plan = self.document().plan().clone();
        let tenant = self.live.seat(&plan, name)?;
        let taken = Operation::Snapshot { volume: id, name: name.to_owned() };
        self.live.change_pool(taken).inspect_err(|_| self.live.unseat(&tenant))?;
        self.live.present(&plan, name, tenant);
        Ok(())
    }

    /// Has a volume hold again what its snapshot holds, its size included. With `force`, clients of the volume are disconnected,
    /// and see it when they come back; without, there must be none.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then, but for clients that were sent away.
    pub fn roll_back(&self, snapshot: &str, force: bool) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let (id, kept) = self.live.pooled(snapshot).ok_or_else(|| self.missing(snapshot))?;
        let Some(origin) = kept.origin else {
            return refused(format!("\"{snapshot}\" is no snapshot"));
        };
        let name = self
            .live
            .pool()?
            .look(|flow| flow.pool().state().volume(origin).map(|volume| volume.name.clone()));
        let name = name.expect("a snapshot's volume is there as long as it");
        let (export, route) = self.live.routes.find(&name).ok_or_else(|| self.missing(&name))?;
        self.withdraw(&name, export, force)?;
        let rolled = self.live.change_pool(Operation::RollBack { snapshot: id });
        let (id, volume) = self.pool_volume(&name)?;
        match rolled {
            Ok(()) => self.live.show(self.document().plan(), (id, &volume), export),
            Err(_) => self.live.routes.publish(export, route),
        }
        rolled
    }

    /// Has a volume lie on another part of the disks, or on others; answered when that is decided. Its blocks are moved while it is
    /// used.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn settle(
        &self,
        name: &str,
        zone: Option<Zone>,
        disks: Option<&[String]>,
    ) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let (id, volume) = self.pool_volume(name)?;
        let zone = zone.unwrap_or(volume.zone);
        let disks = match disks {
            Some(disks) => disks.to_vec(),
            None => self.names_of(&volume.disks)?,
        };
        let numbers = self.numbers_of(&disks)?;
        if (zone, &numbers) == (volume.zone, &volume.disks) {
            return Ok(());
        }
        let after = match before.find(name) {
            Ok(NamedVolume::InPool(..)) => before.relocate_pool_volume(name, zone, &disks)?.0,
            _ => Document::clone(&before),
        };
        self.persist(&before, &after)?;
        if let Some(tenant) = self.live.pool()?.tenant(id) {
            self.live.promise(after.plan(), name, &tenant);
        }
        let settle = Operation::Relocate { volume: id, zone, disks: numbers };
        let settled = self.or_back(&after, &before, self.live.change_pool(settle));
        if settled.is_err()
            && let Some(tenant) = self.live.pool()?.tenant(id)
        {
            self.live.promise(before.plan(), name, &tenant);
        }
        settled
    }

    /// The names of the pool's disks.
    pub(super) fn names_of(&self, disks: &[volume::DiskId]) -> Result<Vec<String>, ChangeError> {
        let members = self.live.pool()?.members();
        let disks = disks.iter().filter_map(|disk| members.get(disk));
        Ok(disks.map(|member| self.live.disks[member.disk].clone()).collect())
    }

    /// The pool's numbers of disks.
    pub(super) fn numbers_of(&self, names: &[String]) -> Result<Vec<volume::DiskId>, ChangeError> {
        let members = self.live.pool()?.members();
        let number = |name: &String| {
            let found = members.iter().find(|(_, member)| self.live.disks[member.disk] == *name);
            found.map(|(id, _)| *id).ok_or_else(|| {
                let all = members.values().map(|member| self.live.disks[member.disk].as_str());
                let all: Vec<&str> = all.collect();
                ChangeError::Refused(format!(
                    "disks: found \"{name}\", expected some of the pool's: {}",
                    all.join(", ")
                ))
            })
        };
        names.iter().map(number).collect()
    }

    /// Has blocks that are to lie elsewhere wait where they are, or go on.
    ///
    /// # Errors
    /// There is no pool.
    pub fn pause_moving(&self, paused: bool) -> Result<(), ChangeError> {
        self.live.pool()?.pause_moving(paused);
        Ok(())
    }

    /// Has the pool raise its alarm at so many hundredths of its blocks.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn set_alarm(&self, percent: u8) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        self.live.change_pool(Operation::SetAlarm { percent })
    }
}
