//! Disks join the pool and leave it, and relocations are completed.

use std::collections::{BTreeMap, BTreeSet};

use config::{Document, NamedVolume};
use volume::DiskId;
use volume::pool::{DiskUid, Operation, PoolVolumeId, Volume};

use super::error::{ChangeError, refused};
use super::operator::Operator;
use crate::pool::accounts::PoolDisk;
use crate::pool::service::PoolService;

/// A volume that is relocated to other disks.
struct Relocation {
    id: PoolVolumeId,
    volume: Volume,
    /// The volumes that move with it, itself included.
    group: Vec<(PoolVolumeId, String)>,
    disks: Vec<String>,
}

impl Operator {
    /// Adds a disk of the config to the pool. The disk's data is lost.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn add_pool_disk(&self, name: &str, uid: DiskUid) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let is_planned = before.plan().pool.as_ref().is_some_and(|pool| {
            pool.disks.iter().any(|disk| before.plan().disks[disk.0].name == name)
        });
        // The config may give the pool a disk that has not joined yet.
        let after =
            if is_planned { Document::clone(&before) } else { before.add_pool_disk(name)? };
        let pool = self.state.pool()?;
        let disk = self.state.disk(name).expect("the config has found the disk");
        if pool.disks().values().any(|member| member.disk == disk) {
            return refused(format!("disk \"{name}\" is in the pool already"));
        }
        self.persist(&before, &after)?;
        let plan = after.plan();
        let member = self.state.attach_pool_disk(plan, disk);
        pool.begin_join(uid, member);
        // A disk that joins disks with checksum areas gets one.
        let has_sums = pool.inspect(|flow| flow.pool().state().has_sums());
        let blocks = plan.disks[disk.0].blocks_in_pool(has_sums);
        pool.set_domains(&plan.disks, Some((uid, disk)));
        let added = self.state.change_pool(Operation::AddDisk { uid, blocks });
        if !pool.end_join() {
            self.state.detach_pool_disk(member)?;
        }
        self.restore_on_error(&after, &before, added)?;
        self.state.attach_pool_volumes(plan, disk)
    }

    /// Drains a disk of the pool, which then leaves it. It is answered when that is decided; the
    /// volumes stay in use meanwhile.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn remove_pool_disk(&self, name: &str) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let number = self.pool_disk_numbers(&[name.to_owned()])?[0];
        let pool = self.state.pool()?;
        let (volumes, used, free) = pool.inspect(|flow| {
            let state = flow.pool().state();
            let volumes: Vec<(PoolVolumeId, Volume)> = state
                .volumes()
                .filter(|(_, one)| one.origin.is_none() && one.disks.contains(&number))
                .map(|(id, volume)| (id, volume.clone()))
                .collect();
            // Those that may share blocks have one placement: the first stands for its group.
            let mut groups = BTreeSet::new();
            let volumes: Vec<_> =
                volumes.into_iter().filter(|(_, one)| groups.insert(one.group)).collect();
            let others = state.disks().filter(|(id, disk)| *id != number && !disk.draining);
            let free: BTreeMap<DiskId, u32> =
                others.map(|(id, _)| (id, flow.pool().free(id).1.0)).collect();
            let (all, left) = flow.pool().free(number);
            (volumes, all.0 - left.0, free)
        });
        let free_elsewhere: u32 = free.values().sum();
        if free.is_empty() || free_elsewhere < used {
            return refused(format!(
                "disk \"{name}\" has {used} MiB in use, and the pool's others have \
                 {free_elsewhere} MiB free"
            ));
        }
        let mut after = Document::clone(&before);
        let mut relocations = Vec::new();
        for (id, volume) in volumes {
            let group = self.writable_group(id)?;
            let (document, disks) =
                self.place_elsewhere(&after, (number, &free), (&volume, &group))?;
            after = document;
            relocations.push(Relocation { id, volume, group, disks });
        }
        self.persist(&before, &after)?;
        for (id, name) in relocations.iter().flat_map(|one| &one.group) {
            if let Some(accounts) = pool.accounts(*id) {
                self.state.set_pool_terms(after.plan(), name, &accounts);
            }
        }
        for Relocation { id, volume, disks, .. } in relocations {
            let disks = self.pool_disk_numbers(&disks)?;
            self.state.change_pool(Operation::Relocate { volume: id, zone: volume.zone, disks })?;
        }
        self.state.change_pool(Operation::DrainDisk { disk: number })
    }

    /// The config with the volumes of a group placed on other disks than `number`, and those disks:
    /// the ones with the most free blocks that admit it.
    fn place_elsewhere(
        &self,
        before: &Document,
        (number, free): (DiskId, &BTreeMap<DiskId, u32>),
        (volume, group): (&Volume, &[(PoolVolumeId, String)]),
    ) -> Result<(Document, Vec<String>), ChangeError> {
        let others = volume.disks.iter().copied().filter(|id| *id != number);
        let others: Vec<DiskId> = others.collect();
        let mut choices: Vec<Vec<DiskId>> = Vec::new();
        if !volume.layout.keeps_width() && !others.is_empty() {
            choices.push(others);
        }
        let mut unused: Vec<DiskId> =
            free.keys().copied().filter(|id| !volume.disks.contains(id)).collect();
        unused.sort_by_key(|id| std::cmp::Reverse(free[id]));
        for instead in unused {
            let replace = |id: &DiskId| if *id == number { instead } else { *id };
            choices.push(volume.disks.iter().map(replace).collect());
        }
        let is_known = |name: &String| matches!(before.find(name), Ok(NamedVolume::InPool(..)));
        let known: Vec<&String> =
            group.iter().map(|(_, name)| name).filter(|name| is_known(name)).collect();
        let mut refusal = ChangeError::Refused(format!(
            "volume \"{}\" is to lie on {} disks, and the pool has no other for it",
            volume.name,
            volume.disks.len()
        ));
        for choice in choices {
            let disks = self.pool_disk_names(&choice)?;
            let (id, zone) = (group[0].0, volume.zone);
            let relocate = Operation::Relocate { volume: id, zone, disks: choice };
            let moved = self.state.check_pool_change(&relocate).and_then(|()| {
                known.iter().try_fold(before.clone(), |document, name| {
                    Ok(document.relocate_pool_volume(name, zone, &disks)?.0)
                })
            });
            match moved {
                Ok(during) => return Ok((during, disks)),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Completes relocations: cancels contracts on disks that a volume has left, and removes disks
    /// that are drained.
    pub(super) fn complete_relocations(&self) -> Result<(), ChangeError> {
        let Some(pool) = self.state.pool.as_deref() else { return Ok(()) };
        if !self.has_relocations(pool) {
            return Ok(());
        }
        let _lock = self.lock();
        let before = self.document();
        let in_progress: Vec<PoolVolumeId> = pool.inspect(|flow| {
            let relocations = flow.relocations().into_iter();
            relocations.filter(|one| one.misplaced > 0).map(|one| one.volume).collect()
        });
        let mut after = Document::clone(&before);
        let mut completed = Vec::new();
        for planned in before.plan().pool.iter().flat_map(|pool| &pool.volumes) {
            let Some((id, _)) = self.state.pool_volume(&planned.name) else { continue };
            let group_of = |one| pool.inspect(|flow| flow.pool().state().group_of(one));
            let is_of_volume = |one: &PoolVolumeId| group_of(*one) == group_of(id);
            if planned.from.is_some() && !in_progress.iter().any(is_of_volume) {
                after = after.relocated_pool_volume(&planned.name)?;
                completed.push((id, planned.name.clone()));
            }
        }
        self.persist(&before, &after)?;
        for (id, name) in completed {
            if let Some(accounts) = pool.accounts(id) {
                self.state.set_pool_terms(after.plan(), &name, &accounts);
            }
        }
        for (number, member) in pool.disks() {
            self.remove_if_drained(number, member)?;
        }
        Ok(())
    }

    fn has_relocations(&self, pool: &PoolService) -> bool {
        let moved =
            |pool: &config::PoolPlan| pool.volumes.iter().any(|volume| volume.from.is_some());
        self.document().plan().pool.as_ref().is_some_and(moved)
            || pool.inspect(|flow| flow.pool().state().disks().any(|(_, disk)| disk.draining))
    }

    /// Removes a disk that was to be drained, and is empty.
    fn remove_if_drained(&self, number: DiskId, member: PoolDisk) -> Result<(), ChangeError> {
        let pool = self.state.pool()?;
        let is_drained = pool.inspect(|flow| {
            let (all, free) = flow.pool().free(number);
            let state = flow.pool().state();
            let is_draining = state.disk(number).is_some_and(|disk| disk.draining);
            let is_used = state.volumes().any(|(_, one)| one.disks.contains(&number));
            is_draining && all == free && !is_used
        });
        if !is_drained {
            return Ok(());
        }
        let before = self.document();
        let name = self.state.disk_name(member.disk);
        let after = before.remove_pool_disk(name)?;
        self.state.change_pool(Operation::RemoveDisk { disk: number })?;
        pool.remove_disk(number);
        self.state.detach_pool_disk(member)?;
        eprintln!("pool: disk {name} is empty, and has left");
        self.persist(&before, &after)
    }
}
