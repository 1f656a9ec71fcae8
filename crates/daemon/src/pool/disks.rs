//! Disks that join a pool and leave it, and what follows when blocks have been moved.

use std::collections::BTreeMap;

use config::{Document, NamedVolume};
use volume::DiskId;
use volume::pool::{DiskUid, Layout, Operation, PoolVolumeId, Volume};

use super::seat;
use super::served::{Member, Served};
use crate::inbox::Change;
use crate::operator::{ChangeError, Operator};

/// A volume that is to lie on other disks.
struct Settles {
    id: PoolVolumeId,
    volume: Volume,
    disks: Vec<String>,
}

impl Operator {
    /// Has a disk of the config join the pool. What it holds is lost.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn add_pool_disk(&self, name: &str, uid: DiskUid) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let known = before.plan().pool.as_ref().is_some_and(|pool| {
            pool.disks.iter().any(|disk| before.plan().disks[disk.0].name == name)
        });
        // A disk that the config gives to the pool, and that has not joined yet.
        let after = if known { Document::clone(&before) } else { before.add_pool_disk(name)? };
        let pool = self.live.pool()?;
        let disk = self.live.disks.iter().position(|there| there == name);
        let disk = disk.expect("the config has found it");
        if pool.members().values().any(|member| member.disk == disk) {
            return Err(ChangeError::Refused(format!("disk \"{name}\" is in the pool already")));
        }
        self.persist(&before, &after)?;
        let plan = after.plan();
        let inbox = &self.live.inboxes[disk];
        let exports = [self.live.routes.number(), self.live.routes.number()];
        let own = seat::own(plan, disk);
        let mut own = own.into_iter().zip(exports).map(|(joins, export)| {
            inbox.change(Change::Add { export, joins }).expect("a volume is added without the disk")
        });
        let (metadata, moving) = (own.next().expect("two"), own.next().expect("two"));
        let member = Member { disk, metadata, moving };
        pool.expect(member);
        let blocks = plan.disks[disk].pool_blocks();
        let added = self.live.change_pool(Operation::AddDisk { uid, blocks });
        let number = pool.look(|flow| {
            flow.pool().state().disks().find(|(_, disk)| disk.uid == uid).map(|(id, _)| id)
        });
        pool.joined(number);
        if let Err(error) = added {
            inbox.dismiss(metadata);
            inbox.dismiss(moving);
            if let Err(back) = self.persist(&after, &before) {
                eprintln!("the config keeps a change that came to nothing: {back}");
            }
            return Err(error);
        }
        for (id, tenant) in pool.tenants() {
            let name = pool.look(|flow| flow.pool().state().volume(id).map(|one| one.name.clone()));
            let joins = seat::promise(plan, &name.unwrap_or_default(), disk);
            let account = inbox.change(Change::Add { export: tenant.export, joins });
            let account = account.expect("a volume is added without the disk");
            let mut tenant = tenant;
            tenant.accounts.insert(disk, account);
            pool.seat(id, tenant);
        }
        Ok(())
    }

    /// Empties a disk of the pool, which then leaves it; answered when that is decided. Its volumes are used meanwhile.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn remove_pool_disk(&self, name: &str) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let number = self.numbers_of(&[name.to_owned()])?[0];
        let pool = self.live.pool()?;
        let (volumes, free) = pool.look(|flow| {
            let state = flow.pool().state();
            let volumes: Vec<(PoolVolumeId, Volume)> = state
                .volumes()
                .filter(|(_, one)| one.origin.is_none() && one.disks.contains(&number))
                .map(|(id, volume)| (id, volume.clone()))
                .collect();
            let others = state.disks().filter(|(id, disk)| *id != number && !disk.draining);
            let free: BTreeMap<DiskId, u32> =
                others.map(|(id, _)| (id, flow.pool().free(id).1.0)).collect();
            let (all, left) = flow.pool().free(number);
            ((volumes, all.0 - left.0), free)
        });
        let (volumes, used) = volumes;
        let room: u32 = free.values().sum();
        if free.is_empty() || room < used {
            return Err(ChangeError::Refused(format!(
                "disk \"{name}\" has {used} MiB in use, and the pool's others have {room} MiB free"
            )));
        }
        let mut after = Document::clone(&before);
        let mut settles = Vec::new();
        for (id, volume) in volumes {
            let (document, disks) = self.elsewhere(&after, (number, &free), &volume)?;
            after = document;
            settles.push(Settles { id, volume, disks });
        }
        self.persist(&before, &after)?;
        for Settles { id, volume, .. } in &settles {
            if let Some(tenant) = pool.tenant(*id) {
                self.live.promise(after.plan(), &volume.name, &tenant);
            }
        }
        for Settles { id, volume, disks } in settles {
            let disks = self.numbers_of(&disks)?;
            let settle = Operation::Relocate { volume: id, zone: volume.zone, disks };
            self.live.change_pool(settle)?;
        }
        self.live.change_pool(Operation::DrainDisk { disk: number })
    }

    /// The config with a volume that is to lie on other disks than `number`, and which: those with the most free blocks
    /// that admit it.
    fn elsewhere(
        &self,
        before: &Document,
        (number, free): (DiskId, &BTreeMap<DiskId, u32>),
        volume: &Volume,
    ) -> Result<(Document, Vec<String>), ChangeError> {
        let members = self.live.pool()?.members();
        let name = |id: &DiskId| self.live.disks[members[id].disk].clone();
        let left: Vec<DiskId> = volume.disks.iter().copied().filter(|id| *id != number).collect();
        let mut choices: Vec<Vec<DiskId>> = Vec::new();
        if volume.layout != Layout::Stripe && !left.is_empty() {
            choices.push(left.clone());
        }
        let mut unused: Vec<DiskId> =
            free.keys().copied().filter(|id| !volume.disks.contains(id)).collect();
        unused.sort_by_key(|id| std::cmp::Reverse(free[id]));
        for instead in unused {
            let put = |id: &DiskId| if *id == number { instead } else { *id };
            choices.push(volume.disks.iter().map(put).collect());
        }
        let known = matches!(before.find(&volume.name), Ok(NamedVolume::InPool(..)));
        let mut refusal = ChangeError::Refused(format!(
            "volume \"{}\" is to lie on {} disks, and the pool has no other for it",
            volume.name,
            volume.disks.len()
        ));
        for choice in choices {
            let disks: Vec<String> = choice.iter().map(name).collect();
            if !known {
                return Ok((before.clone(), disks));
            }
            match before.relocate_pool_volume(&volume.name, volume.zone, &disks) {
                Ok((during, _)) => return Ok((during, disks)),
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal)
    }

    /// Ends what has been moved: promises on disks that a volume has left, and disks that are empty.
    pub(crate) fn tidy(&self) -> Result<(), ChangeError> {
        let Some(pool) = self.live.pool.as_deref() else { return Ok(()) };
        if !self.is_untidy(pool) {
            return Ok(());
        }
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let on_the_way: Vec<PoolVolumeId> = pool.look(|flow| {
            flow.relocations()
                .into_iter()
                .filter(|one| one.misplaced > 0)
                .map(|one| one.volume)
                .collect()
        });
        let mut after = Document::clone(&before);
        let mut settled = Vec::new();
        for planned in before.plan().pool.iter().flat_map(|pool| &pool.volumes) {
            let Some((id, _)) = self.live.pooled(&planned.name) else { continue };
            let family = |one: &PoolVolumeId| {
                let origin =
                    pool.look(|flow| flow.pool().state().volume(*one).and_then(|v| v.origin));
                *one == id || origin == Some(id)
            };
            if planned.from.is_some() && !on_the_way.iter().any(family) {
                after = after.relocated_pool_volume(&planned.name)?;
                settled.push((id, planned.name.clone()));
            }
        }
        self.persist(&before, &after)?;
        for (id, name) in settled {
            if let Some(tenant) = pool.tenant(id) {
                self.live.promise(after.plan(), &name, &tenant);
            }
        }
        for (number, member) in pool.members() {
            self.let_go(number, member)?;
        }
        Ok(())
    }

    fn is_untidy(&self, pool: &Served) -> bool {
        let moved =
            |pool: &config::PoolPlan| pool.volumes.iter().any(|volume| volume.from.is_some());
        self.document().plan().pool.as_ref().is_some_and(moved)
            || pool.look(|flow| flow.pool().state().disks().any(|(_, disk)| disk.draining))
    }

    /// Removes a disk that was to be emptied, and is.
    fn let_go(&self, number: DiskId, member: Member) -> Result<(), ChangeError> {
        let pool = self.live.pool()?;
        let empty = pool.look(|flow| {
            let (all, free) = flow.pool().free(number);
            let state = flow.pool().state();
            let leaving = state.disk(number).is_some_and(|disk| disk.draining);
            leaving && all == free && !state.volumes().any(|(_, one)| one.disks.contains(&number))
        });
        if !empty {
            return Ok(());
        }
        let before = self.document();
        let name = &self.live.disks[member.disk];
        let after = before.remove_pool_disk(name)?;
        self.live.change_pool(Operation::RemoveDisk { disk: number })?;
        pool.leave(number);
        let inbox = &self.live.inboxes[member.disk];
        for (id, mut tenant) in pool.tenants() {
            if let Some(account) = tenant.accounts.remove(&member.disk) {
                pool.seat(id, tenant);
                inbox.dismiss(account);
            }
        }
        inbox.dismiss(member.metadata);
        inbox.dismiss(member.moving);
        eprintln!("pool: disk {name} is empty, and has left");
        self.persist(&before, &after)
    }
}
