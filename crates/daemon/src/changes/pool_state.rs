//! The steps of changes to the pool: its metadata, its volumes' numbers on the disks, their routes.

use std::collections::BTreeMap;

use config::{DiskIndex, Plan, PoolVolume};
use nbd::ExportId;
use units::Bytes;
use volume::DiskId;
use volume::pool::flow::ChangeOutcome;
use volume::pool::{Layout, NewVolume, Operation, PoolVolumeId, Refusal, Volume};

use super::error::{ChangeError, refused};
use crate::disk::message::Change;
use crate::pool::accounts::{PoolDisk, PoolVolumeAccounts, volume_terms};
use crate::pool::view::size;
use crate::routing::placement::{Placement, PoolPlacement};
use crate::routing::routes::{DeviceInfo, Route, clients};
use crate::state::DaemonState;

/// # Errors
/// The size is above the largest for which there is space.
pub(super) fn fits(size: Bytes, size_max: Bytes) -> Result<(), ChangeError> {
    if size <= size_max {
        return Ok(());
    }
    let (size, most) = (config::size_text(size), config::size_text(size_max));
    refused(format!(
        "field `size`: found `{size}`, expected at most {most} (what is free in its zone of its \
         disks)"
    ))
}

impl DaemonState {
    /// Changes the pool.
    pub(crate) fn change_pool(&self, operation: Operation) -> Result<(), ChangeError> {
        match self.pool()?.change(operation) {
            ChangeOutcome::Done => Ok(()),
            ChangeOutcome::Refused(refusal) => {
                Err(ChangeError::Refused(self.describe_refusal(&refusal)))
            }
            ChangeOutcome::Failed(failure) => Err(ChangeError::Pool(failure)),
        }
    }

    /// Refuses what [`Self::change_pool`] would refuse now. Changes nothing.
    pub(crate) fn check_pool_change(&self, operation: &Operation) -> Result<(), ChangeError> {
        let checked = self.pool()?.check(operation);
        checked.map_err(|refusal| ChangeError::Refused(self.describe_refusal(&refusal)))
    }

    /// A refusal, with the disk's name.
    fn describe_refusal(&self, refusal: &Refusal) -> String {
        let text = refusal.to_string();
        let (Refusal::NoSpace { disk, .. } | Refusal::NoSuchDisk(disk) | Refusal::Draining(disk)) =
            refusal
        else {
            return text;
        };
        let disks = self.pool.as_ref().map(|pool| pool.disks()).unwrap_or_default();
        let Some(found) = disks.get(disk) else { return text };
        let name = self.disk_name(found.disk);
        format!("{text} (disk {} of the pool is \"{name}\")", disk.0)
    }

    /// The pool's numbers of these disks of the config.
    pub(crate) fn pool_disks(
        &self,
        plan: &Plan,
        disks: &[DiskIndex],
    ) -> Result<Vec<DiskId>, ChangeError> {
        let there = self.pool()?.disks();
        let number = |index: &DiskIndex| {
            let found = there.iter().find(|(_, disk)| disk.disk == *index);
            found.map(|(id, _)| *id).ok_or_else(|| {
                let name = &plan.disks[index.0].name;
                ChangeError::Refused(format!("disk \"{name}\" is not in the pool"))
            })
        };
        disks.iter().map(number).collect()
    }

    /// Attaches a volume to each of the pool's disks.
    pub(crate) fn attach_pool_volume(
        &self,
        plan: &Plan,
        (name, layout): (&str, Layout),
    ) -> Result<PoolVolumeAccounts, ChangeError> {
        let export = self.routes.next_export();
        let mut by_disk = BTreeMap::new();
        for member in self.pool()?.disks().values() {
            let terms = volume_terms(plan, (name, layout), member.disk);
            let attached =
                self.inbox(member.disk).change(Change::Attach { export, terms: Box::new(terms) });
            let volume = attached.expect("a volume is attached without the disk");
            by_disk.insert(member.disk, volume);
        }
        Ok(PoolVolumeAccounts { export, by_disk })
    }

    /// Attaches what the pool itself is charged for to a disk.
    pub(crate) fn attach_pool_disk(&self, plan: &Plan, disk: DiskIndex) -> PoolDisk {
        let inbox = self.inbox(disk);
        PoolDisk::attach(plan, disk, |terms| {
            let export = self.routes.next_export();
            let attached = inbox.change(Change::Attach { export, terms: Box::new(terms) });
            attached.expect("a volume is attached without the disk")
        })
    }

    /// Attaches the pool's volumes to a disk that has joined the pool, or has come back.
    pub(crate) fn attach_pool_volumes(
        &self,
        plan: &Plan,
        disk: DiskIndex,
    ) -> Result<(), ChangeError> {
        let (pool, inbox) = (self.pool()?, self.inbox(disk));
        for (id, mut accounts) in pool.all_accounts() {
            let found = pool.inspect(|flow| {
                let volume = flow.pool().state().volume(id);
                volume.map(|one| (one.name.clone(), one.layout))
            });
            let (name, layout) = found.unwrap_or((String::new(), Layout::Single));
            let terms = volume_terms(plan, (&name, layout), disk);
            let attached =
                inbox.change(Change::Attach { export: accounts.export, terms: Box::new(terms) });
            let volume = attached.expect("a volume is attached without the disk");
            accounts.by_disk.insert(disk, volume);
            pool.set_accounts(id, accounts);
        }
        Ok(())
    }

    /// Detaches the pool and its volumes from a disk, when all of their requests there have ended.
    pub(crate) fn detach_pool_disk(&self, member: PoolDisk) -> Result<(), ChangeError> {
        let (pool, inbox) = (self.pool()?, self.inbox(member.disk));
        for (id, mut accounts) in pool.all_accounts() {
            if let Some(volume) = accounts.by_disk.remove(&member.disk) {
                pool.set_accounts(id, accounts);
                inbox.detach(volume);
            }
        }
        for volume in member.internal() {
            inbox.detach(volume);
        }
        Ok(())
    }

    /// Detaches a volume from the pool's disks, when all of its requests there are answered.
    pub(crate) fn detach_pool_volume(&self, accounts: &PoolVolumeAccounts) {
        for (disk, volume) in &accounts.by_disk {
            self.inbox(*disk).detach(*volume);
        }
    }

    /// Gives every disk of the pool the terms that the plan has for a volume.
    pub(crate) fn set_pool_terms(&self, plan: &Plan, name: &str, accounts: &PoolVolumeAccounts) {
        let layout = self.pool_volume(name).map_or(Layout::Single, |(_, volume)| volume.layout);
        for (disk, volume) in &accounts.by_disk {
            let terms = volume_terms(plan, (name, layout), *disk);
            let changed = self
                .inbox(*disk)
                .change(Change::SetTerms { volume: *volume, terms: Box::new(terms) });
            changed.expect("terms change without the disk");
        }
        self.count_on_stream(plan, name);
    }

    /// Has the pool do what the disks that keep a volume's stream count on: watch the order of its
    /// requests, and send reads to them.
    fn count_on_stream(&self, plan: &Plan, name: &str) {
        let (Some(pool), Some((id, _))) = (&self.pool, self.pool_volume(name)) else { return };
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(name));
        pool.watch_order(id, planned.is_some_and(config::PoolVolume::is_sequential));
        let read_disks = planned.and_then(config::PoolVolume::read_disks).map(|disks| {
            let there = pool.disks().into_iter();
            let keeps = |(_, member): &(DiskId, PoolDisk)| disks.contains(&member.disk);
            there.filter(keeps).map(|(id, _)| id).collect()
        });
        pool.set_read_disks(id, read_disks);
    }

    /// A volume or snapshot of the pool by its name.
    pub(crate) fn pool_volume(&self, name: &str) -> Option<(PoolVolumeId, Volume)> {
        let pool = self.pool.as_ref()?;
        pool.inspect(|flow| flow.pool().state().named(name).map(|(id, one)| (id, one.clone())))
    }

    /// The route of a volume or snapshot of the pool.
    pub(crate) fn pool_route(
        &self,
        plan: &Plan,
        (id, volume): (PoolVolumeId, &Volume),
    ) -> Result<Route, ChangeError> {
        let pool = self.pool()?;
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
        let first = pool.disks().values().next().map_or(DiskIndex(0), |disk| disk.disk);
        let read_only = volume.origin.is_some();
        let description = if read_only { "a snapshot in the pool" } else { "in the pool" };
        let device = DeviceInfo::of(&plan.disks[first.0]);
        Ok(Route {
            name: volume.name.clone(),
            size: size(volume),
            placement: Placement::Pool(PoolPlacement { pool: pool.clone(), volume: id, read_only }),
            device: DeviceInfo { description: description.to_owned(), ..device },
            clients: clients(planned.and_then(|planned| planned.clients.as_ref())),
        })
    }

    /// Lets clients open a volume or snapshot of the pool.
    pub(crate) fn publish_pool_volume(
        &self,
        plan: &Plan,
        found: (PoolVolumeId, &Volume),
        export: ExportId,
    ) -> Result<(), ChangeError> {
        self.routes.publish(export, self.pool_route(plan, found)?);
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&found.1.name));
        let parts = planned.map_or(Ok(()), |planned| self.check_stream_parts(planned, found.1));
        if let Err(error) = parts {
            let name = &found.1.name;
            eprintln!("volume {name}: what its stream asks of other disks is best effort: {error}");
        }
        self.count_on_stream(plan, &found.1.name);
        Ok(())
    }

    /// Lets clients open a volume or snapshot that was just created in the pool.
    pub(crate) fn publish_new_pool_volume(
        &self,
        plan: &Plan,
        name: &str,
        accounts: PoolVolumeAccounts,
    ) -> Result<(), ChangeError> {
        let (id, volume) = self.pool_volume(name).expect("the volume was created");
        let export = accounts.export;
        self.pool()?.set_accounts(id, accounts);
        self.publish_pool_volume(plan, (id, &volume), export)
    }

    /// A volume of the plan that begins with zeroes.
    fn new_volume(&self, plan: &Plan, planned: &PoolVolume) -> Result<NewVolume, ChangeError> {
        let disks = self.pool_disks(plan, &planned.disks)?;
        let (name, size) = (planned.name.clone(), planned.blocks());
        let &PoolVolume { layout, zone, thin, checksums: has_sums, .. } = planned;
        // The seed of a random layout differs from that of every other volume.
        let seed = checksum::crc64(name.as_bytes());
        Ok(NewVolume { name, size, layout, zone, thin, has_sums, seed, disks })
    }

    /// The volume or snapshot that a volume of the plan begins as.
    fn clone_source(
        &self,
        planned: &PoolVolume,
        source: &str,
    ) -> Result<(PoolVolumeId, Volume), ChangeError> {
        self.pool_volume(source).ok_or_else(|| {
            let name = &planned.name;
            ChangeError::Refused(format!(
                "volume \"{name}\" begins as \"{source}\", which is not in the pool"
            ))
        })
    }

    /// The operation that makes a volume of the plan with the content of its source.
    fn clone_operation(
        &self,
        planned: &PoolVolume,
        source: &str,
    ) -> Result<Operation, ChangeError> {
        let (source, _) = self.clone_source(planned, source)?;
        Ok(Operation::Clone { source, name: planned.name.clone(), size: planned.blocks() })
    }

    /// The operation that makes a volume of the plan.
    fn create_operation(
        &self,
        plan: &Plan,
        planned: &PoolVolume,
    ) -> Result<Operation, ChangeError> {
        if let Some(source) = &planned.source {
            return self.clone_operation(planned, source);
        }
        let volume = self.new_volume(plan, planned)?;
        Ok(match planned.stream_parts.as_slice() {
            [] => Operation::Create(volume),
            parts => Operation::CreateInParts { volume, parts: parts.to_vec() },
        })
    }

    /// Refuses a new mirror over disks that the pool has taken out: it would lack copies from the
    /// beginning.
    ///
    /// # Errors
    /// Which disks are out, and which are in.
    pub(super) fn check_mirror_disks(
        &self,
        plan: &Plan,
        planned: &PoolVolume,
    ) -> Result<(), ChangeError> {
        if !planned.layout.is_mirror() {
            return Ok(());
        }
        let pool = self.pool()?;
        let members = pool.disks();
        let is_live: BTreeMap<DiskIndex, bool> = pool.inspect(|flow| {
            let live = |(id, member): (&DiskId, &PoolDisk)| (member.disk, flow.pool().is_live(*id));
            members.iter().map(live).collect()
        });
        let names = |disks: Vec<&DiskIndex>| {
            let quoted = |disk: &&DiskIndex| format!("\"{}\"", plan.disks[disk.0].name);
            disks.iter().map(quoted).collect::<Vec<_>>().join(", ")
        };
        let lives = |disk: &DiskIndex| is_live.get(disk).copied().unwrap_or(false);
        let out: Vec<_> = planned.disks.iter().filter(|disk| !lives(disk)).collect();
        if out.is_empty() {
            return Ok(());
        }
        let all = &plan.pool.as_ref().expect("the plan has a pool's volume").disks;
        let live = names(all.iter().filter(|disk| lives(disk)).collect());
        refused(format!(
            "field `disks`: found {}, which the pool has taken out, expected some of {live}, which \
             are in: a new mirror has all of its copies (`spindle disk reopen` takes a disk back, \
             `spindle pool replace` gives its place to another)",
            names(out)
        ))
    }

    /// Refuses a volume for which the pool has no free space, or which it cannot make now.
    pub(crate) fn check_pool_space(
        &self,
        plan: &Plan,
        planned: &PoolVolume,
    ) -> Result<(), ChangeError> {
        let create = self.create_operation(plan, planned)?;
        let Err(refusal) = self.pool()?.check(&create) else { return Ok(()) };
        if let (Refusal::NoSpace { .. }, Operation::Create(volume)) = (&refusal, &create) {
            let NewVolume { layout, zone, disks, .. } = volume;
            let size_max = self.pool()?.inspect(|flow| flow.pool().size_max(*layout, *zone, disks));
            fits(planned.size, size_max.sectors().bytes())?;
        }
        Err(ChangeError::Refused(self.describe_refusal(&refusal)))
    }

    /// Removes a volume or snapshot, to which no request can come any more, from the pool.
    pub(crate) fn remove_pool_volume(&self, id: PoolVolumeId) -> Result<(), ChangeError> {
        self.change_pool(Operation::Remove { volume: id })?;
        if let Some(accounts) = self.pool()?.remove_accounts(id) {
            self.detach_pool_volume(&accounts);
        }
        Ok(())
    }

    /// Creates a volume of the plan in the pool.
    pub(crate) fn create_pool_volume(
        &self,
        plan: &Plan,
        planned: &PoolVolume,
    ) -> Result<(), ChangeError> {
        let create = self.create_operation(plan, planned)?;
        let layout = match &create {
            Operation::Clone { source, .. } => self.pool()?.layout(*source),
            _ => planned.layout,
        };
        let accounts = self.attach_pool_volume(plan, (&planned.name, layout))?;
        let created = self.change_pool(create);
        created.inspect_err(|_| self.detach_pool_volume(&accounts))?;
        self.publish_new_pool_volume(plan, &planned.name, accounts)
    }
}
