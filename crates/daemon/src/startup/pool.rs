//! Opening the config's pool: its disks, its volumes, and the config's volumes that it lacks.

use std::collections::BTreeMap;

use backend::Disk;
use config::{DiskIndex, Plan, Retention};
use units::Instant;
use volume::DiskId;
use volume::pool::{Operation, Pool, PoolVolumeId, Volume};

use super::error::StartError;
use crate::changes::error::ChangeError;
use crate::disk::scheduler::DiskScheduler;
use crate::pool::accounts::{PoolDisk, PoolVolumeAccounts, internal_terms, volume_terms};
use crate::pool::discovery::{self, OpenedPool};
use crate::pool::view::size;
use crate::routing::routes::Routes;
use crate::state::DaemonState;

/// A disk that is opened and not served yet.
pub(super) struct OpenedDisk {
    pub(super) scheduler: DiskScheduler,
    pub(super) disk: Box<dyn Disk>,
}

/// Finds the config's pool on its disks.
pub(super) fn find_pool(
    plan: &Plan,
    disks: &mut [OpenedDisk],
) -> Result<Option<OpenedPool>, StartError> {
    let Some(planned) = &plan.pool else { return Ok(None) };
    let members = disks.iter_mut().enumerate().map(|(index, disk)| (DiskIndex(index), disk));
    let members: Vec<_> = members.filter(|(disk, _)| planned.disks.contains(disk)).collect();
    let is_volatile = |(disk, _): &(DiskIndex, _)| {
        plan.disks[disk.0].backing.capabilities().retention == Retention::UntilExit
    };
    if members.iter().all(is_volatile) {
        let sizes: Vec<_> =
            members.iter().map(|(index, opened)| (*index, opened.disk.capacity())).collect();
        let made = discovery::in_memory(&sizes).map_err(StartError::Thread)?;
        return Ok(Some(made.expect("the config has checked the disks")));
    }
    let members = members.into_iter();
    let members = members.map(|(index, opened)| (index, opened.disk.as_mut() as &mut dyn Disk));
    let found = discovery::open(plan, planned.line, members.collect()).map_err(StartError::Pool)?;
    for finding in &found.findings {
        eprintln!("{finding}");
    }
    Ok(Some(found))
}

/// Attaches a pool's volumes and its internal volumes to its disks.
pub(super) fn attach(
    plan: &Plan,
    (pool, places): (&Pool, &BTreeMap<DiskId, DiskIndex>),
    disks: &mut [OpenedDisk],
    routes: &Routes,
    now: Instant,
) -> (BTreeMap<DiskId, PoolDisk>, BTreeMap<PoolVolumeId, PoolVolumeAccounts>) {
    // No client opens the internal volumes: they have export numbers, but no routes.
    let exports = [routes.next_export(), routes.next_export()];
    let mut members = BTreeMap::new();
    for (id, disk) in places {
        let scheduler = &mut disks[disk.0].scheduler;
        let [metadata, moving] = internal_terms(plan, *disk);
        let metadata = scheduler.attach(exports[0], &metadata, now);
        let moving = scheduler.attach(exports[1], &moving, now);
        members.insert(*id, PoolDisk { disk: *disk, metadata, moving });
    }
    let mut accounts = BTreeMap::new();
    for (id, volume) in pool.state().volumes() {
        let export = routes.next_export();
        let by_disk = places.values().map(|disk| {
            let terms = volume_terms(plan, &volume.name, *disk);
            (*disk, disks[disk.0].scheduler.attach(export, &terms, now))
        });
        accounts.insert(id, PoolVolumeAccounts { export, by_disk: by_disk.collect() });
    }
    (members, accounts)
}

impl DaemonState {
    /// Opens the pool to clients: publishes its volumes, and creates those that only the plan has.
    pub(super) fn open_pool(&self, plan: &Plan) -> Result<(), StartError> {
        let (Some(service), Some(planned)) = (&self.pool, &plan.pool) else { return Ok(()) };
        service.begin();
        let there: Vec<(PoolVolumeId, Volume)> = service.inspect(|flow| {
            flow.pool().state().volumes().map(|(id, volume)| (id, volume.clone())).collect()
        });
        for (id, volume) in &there {
            let same_name = plan.volumes.iter().find(|plain| plain.name == volume.name);
            if let Some(plain) = same_name {
                return Err(StartError::Volume {
                    place: format!("{}:{}", plan.file, plain.line),
                    name: plain.name.clone(),
                    error: ChangeError::Exists { name: plain.name.clone() },
                });
            }
            if volume.origin.is_none() && planned.removing.contains(&volume.name) {
                match self.remove_pool_volume(*id) {
                    Ok(()) => {
                        eprintln!("pool: the removal of volume {} has ended", volume.name);
                        continue;
                    }
                    Err(error) => eprintln!("pool: volume {} is still there: {error}", volume.name),
                }
            }
            let accounts = service.accounts(*id).expect("the pool's volumes are attached");
            let published = self.publish_pool_volume(plan, (*id, volume), accounts.export);
            published.expect("there is a pool");
            report_differences(plan, volume);
            self.relocate_as_planned(plan, *id, volume);
        }
        for wanted in &planned.volumes {
            if there.iter().any(|(_, volume)| volume.name == wanted.name) {
                continue;
            }
            // In a pool that has lost all volumes, so has the source of a clone.
            let mut wanted = wanted.clone();
            if there.is_empty() {
                wanted.source = None;
            }
            self.create_pool_volume(plan, &wanted).map_err(|error| StartError::Volume {
                place: format!("{}:{}", plan.file, wanted.line),
                name: wanted.name.clone(),
                error,
            })?;
            eprintln!("pool: volume {} was not there, and was made: {}", wanted.name, wanted.size);
        }
        Ok(())
    }

    /// Relocates a volume to where the config places it: the relocation was in progress when the
    /// daemon ended, or the config was edited since.
    fn relocate_as_planned(&self, plan: &Plan, id: PoolVolumeId, volume: &Volume) {
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
        let Some((planned, Ok(disks))) =
            planned.map(|planned| (planned, self.pool_disks(plan, &planned.disks)))
        else {
            return;
        };
        if volume.origin.is_some() || (planned.zone, &disks) == (volume.zone, &volume.disks) {
            return;
        }
        let relocate = Operation::Relocate { volume: id, zone: planned.zone, disks };
        match self.change_pool(relocate) {
            Ok(()) => eprintln!("pool: volume {} is moved to where the config says", volume.name),
            Err(error) => {
                eprintln!("pool: volume {} stays where it lies: {error}", volume.name);
            }
        }
    }
}

/// Reports the differences between the config and the pool on a volume.
fn report_differences(plan: &Plan, volume: &Volume) {
    let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
    let name = &volume.name;
    match planned {
        None if volume.origin.is_some() => {}
        None => {
            eprintln!("pool: volume {name} is not in the config: it is served without a contract");
        }
        Some(planned) if planned.size != size(volume) => {
            let (here, there) = (size(volume), planned.size);
            eprintln!(
                "pool: volume {name} has {here}; that the config says {there} changes nothing"
            );
        }
        Some(_) => {}
    }
}
