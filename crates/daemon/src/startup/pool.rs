//! Opening the config's pool: its disks, its volumes, and the config's volumes that it lacks.

use std::collections::BTreeMap;

use backend::Disk;
use config::{DiskIndex, Plan, Retention};
use units::Instant;
use volume::DiskId;
use volume::pool::{Layout, Operation, Pool, PoolVolumeId, Volume};

use super::error::StartError;
use crate::changes::error::ChangeError;
use crate::disk::open::BackendError;
use crate::disk::scheduler::DiskScheduler;
use crate::pool::accounts::{PoolDisk, PoolVolumeAccounts, volume_terms};
use crate::pool::discovery::{self, OpenedPool};
use crate::pool::view::size;
use crate::routing::routes::Routes;
use crate::state::DaemonState;

/// A disk that is opened and not served yet.
pub(super) struct OpenedDisk {
    pub(super) scheduler: DiskScheduler,
    pub(super) disk: Box<dyn Disk>,
    /// Why it could not be opened, if so: a disk of the pool that others may stand in for.
    pub(super) absent: Option<BackendError>,
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
    let members = members.into_iter().filter(|(_, opened)| opened.absent.is_none());
    let members = members.map(|(index, opened)| (index, opened.disk.as_mut() as &mut dyn Disk));
    let found = discovery::open(plan, planned.line, members.collect());
    let found = found.map_err(|error| {
        let absent = disks.iter_mut().find_map(|opened| opened.absent.take());
        absent.map_or(StartError::Pool(error), StartError::from)
    })?;
    for finding in &found.findings {
        eprintln!("{finding}");
    }
    // Without the disks that could not be opened the pool goes on, or the daemon does not start.
    for opened in disks.iter_mut() {
        match opened.absent.take() {
            Some(error) if !found.pool.missing().is_empty() => {
                return Err(error.into());
            }
            absent => opened.absent = absent,
        }
    }
    for error in disks.iter().filter_map(|opened| opened.absent.as_ref()) {
        eprintln!("pool: {error}");
    }
    Ok(Some(found))
}

/// Whether a pool may go on without this disk of the config, as its other disks say.
pub(super) fn may_be_absent(plan: &Plan, disk: DiskIndex) -> bool {
    let is_durable = plan.disks[disk.0].backing.capabilities().retention == Retention::Durable;
    let pool = plan.pool.as_ref().filter(|pool| pool.disks.contains(&disk));
    is_durable && pool.is_some_and(|pool| pool.disks.len() > 1)
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
    let exports = [(); PoolDisk::INTERNAL_MAX].map(|()| routes.next_export());
    let mut members = BTreeMap::new();
    for (id, disk) in places {
        let scheduler = &mut disks[disk.0].scheduler;
        let mut exports = exports.into_iter();
        let place = PoolDisk::attach(plan, *disk, |terms| {
            let export = exports.next().expect("there are no more internal volumes");
            scheduler.attach(export, &terms, now)
        });
        members.insert(*id, place);
    }
    let mut accounts = BTreeMap::new();
    for (id, volume) in pool.state().volumes() {
        let export = routes.next_export();
        let by_disk = places.values().map(|disk| {
            let terms = volume_terms(plan, (&volume.name, volume.layout), *disk);
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
        self.take_back_all(plan);
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
        let (mut wanted, mut placed) = (disks.clone(), volume.disks.clone());
        if volume.layout.is_mirror() {
            // The pool keeps the order in which no two copies of a block meet on a disk.
            wanted.sort_unstable();
            placed.sort_unstable();
        }
        if volume.origin.is_some() || (planned.zone, wanted) == (volume.zone, placed) {
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
        Some(planned) if planned.layout != volume.layout => {
            let (here, there) = (layout_text(volume.layout), layout_text(planned.layout));
            eprintln!(
                "pool: volume {name} is {here}; that the config says {there} changes nothing"
            );
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

/// A layout as the config has it.
fn layout_text(layout: Layout) -> String {
    let word = config::layout_name(layout);
    match config::layout_copies(layout) {
        Some(copies) => format!("\"{word}\" with {copies} copies"),
        None => format!("\"{word}\""),
    }
}
