//! How a pool stands.

use units::Bytes;
use volume::pool::flow::{ChangeOutcome, RelocationProgress};
use volume::pool::{BlockExtent, Blocks, Layout, PoolUid, Zone};

use super::volumes::size;
use crate::operator::Operator;

/// A pool, its disks and its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Which pool.
    pub uid: PoolUid,
    /// How many changes it has seen.
    pub sequence: u64,
    /// Whether it can be written: all of its disks are there, and none has failed under its metadata.
    pub writable: bool,
    /// What its disks hold for volumes.
    pub size: Bytes,
    /// What of that is free.
    pub free: Bytes,
    /// What thin volumes may yet ask for.
    pub promised: Bytes,
    /// Whether so much is in use that somebody should look.
    pub alarm: bool,
    /// Its disks.
    pub disks: Vec<PoolDiskView>,
    /// Its volumes and snapshots.
    pub volumes: Vec<PoolVolumeView>,
}

/// A disk of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDiskView {
    /// Its number in the pool.
    pub number: u32,
    /// Its name in the config; `None`: it is missing.
    pub name: Option<String>,
    /// What it holds for volumes.
    pub size: Bytes,
    /// What of that is free.
    pub free: Bytes,
    /// Whether it is being emptied.
    pub leaving: bool,
}

/// A volume or a snapshot of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolVolumeView {
    /// Its name.
    pub name: String,
    /// What clients see of it.
    pub size: Bytes,
    /// What of it lies somewhere.
    pub mapped: Bytes,
    /// The pieces in which it lies.
    pub extents: usize,
    /// How its blocks follow each other.
    pub layout: Layout,
    /// On which part of its disks they are to lie.
    pub zone: Zone,
    /// Whether blocks appear when they are first written.
    pub thin: bool,
    /// The volume that it is a snapshot of.
    pub snapshot_of: Option<String>,
    /// The names of the disks that it is to lie on, as far as they are there.
    pub disks: Vec<String>,
    /// Whether all disks that it lies on are there.
    pub whole: bool,
    /// What of it is on its way; `None`: all of it lies where it is to lie.
    pub moving: Option<Moving>,
}

/// A volume on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// What has been moved since the daemon's start.
    pub moved: Bytes,
    /// What is still to be moved.
    pub left: Bytes,
    /// Why nothing of it can be moved, if that is so.
    pub stuck: Option<String>,
}

fn bytes(blocks: u64) -> Bytes {
    Bytes(blocks * Blocks(1).sectors().bytes().0)
}

fn moving(one: &RelocationProgress) -> Moving {
    let stuck = one.stuck.as_ref().map(|end| match end {
        ChangeOutcome::Done => "nothing".to_owned(),
        ChangeOutcome::Refused(why) => why.to_string(),
        ChangeOutcome::Failed(_) => "a disk failed".to_owned(),
    });
    Moving { moved: bytes(one.moved), left: bytes(one.misplaced), stuck }
}

impl Operator {
    /// How the pool stands, if there is one.
    pub fn pool(&self) -> Option<PoolView> {
        let served = self.live.pool.as_ref()?;
        let members = served.members();
        let name = |id| members.get(&id).map(|member| self.live.disks[member.disk].clone());
        let mut view = served.look(|flow| {
            let (pool, on_the_way) = (flow.pool(), flow.relocations());
            let (state, status) = (pool.state(), pool.status());
            let missing = state.disks().any(|(id, _)| !members.contains_key(&id));
            let disks = state.disks().map(|(id, disk)| {
                let (all, free) = pool.free(id);
                let (size, free) = (bytes(all.0.into()), bytes(free.0.into()));
                PoolDiskView { number: id.0, name: name(id), size, free, leaving: disk.draining }
            });
            let volumes = state.volumes().map(|(id, volume)| {
                let origin = volume.origin.and_then(|id| state.volume(id));
                let there = |place: BlockExtent| members.contains_key(&place.disk);
                let progress = on_the_way.iter().find(|one| one.volume == id && one.misplaced > 0);
                PoolVolumeView {
                    name: volume.name.clone(),
                    size: size(volume),
                    mapped: bytes(volume.mapped().0.into()),
                    extents: volume.extents(),
                    layout: volume.layout,
                    zone: volume.zone,
                    thin: volume.thin,
                    snapshot_of: origin.map(|origin| origin.name.clone()),
                    disks: volume.disks.iter().filter_map(|disk| name(*disk)).collect(),
                    whole: volume.places().all(there),
                    moving: progress.map(moving),
                }
            });
            PoolView {
                uid: state.pool,
                sequence: state.sequence,
                writable: !missing && !pool.is_poisoned(),
                size: bytes(status.blocks),
                free: bytes(status.free),
                promised: bytes(status.promised),
                alarm: status.alarm,
                disks: disks.collect(),
                volumes: volumes.collect(),
            }
        });
        view.volumes.sort_by(|one, two| one.name.cmp(&two.name));
        Some(view)
    }
}
