//! The state of a pool as operators see it.

use std::collections::BTreeMap;

use units::Bytes;
use volume::DiskId;
use volume::pool::flow::{ChangeOutcome, RelocationProgress};
use volume::pool::{BlockExtent, Blocks, Layout, Pool, PoolUid, Volume, Zone};

/// The names of the pool's disks that are present.
pub(crate) type DiskNames = BTreeMap<DiskId, String>;

/// The size of a volume as clients see it.
pub(crate) fn size(volume: &Volume) -> Bytes {
    volume.size.sectors().bytes()
}

/// A pool, its disks and its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Its unique identifier.
    pub uid: PoolUid,
    /// The number of changes since it was created.
    pub sequence: u64,
    /// Whether it can be written: all of its disks are present, and no write of metadata has
    /// failed.
    pub writable: bool,
    /// The capacity of its disks for volumes.
    pub size: Bytes,
    /// The free part of that capacity.
    pub free: Bytes,
    /// The space that thin volumes may still allocate.
    pub promised: Bytes,
    /// Whether its use has reached the alarm level.
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
    /// Its name in the config; `None` if it is missing.
    pub name: Option<String>,
    /// Its capacity for volumes.
    pub size: Bytes,
    /// The free part of that capacity.
    pub free: Bytes,
    /// Whether it is being drained.
    pub leaving: bool,
}

/// A volume or a snapshot of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolVolumeView {
    /// Its name.
    pub name: String,
    /// Its size as clients see it.
    pub size: Bytes,
    /// The mapped part of its size.
    pub mapped: Bytes,
    /// The number of its extents.
    pub extents: usize,
    /// The layout of its blocks.
    pub layout: Layout,
    /// The part of its disks that it is placed on.
    pub zone: Zone,
    /// Whether blocks are allocated when they are first written.
    pub thin: bool,
    /// The volume that it is a snapshot of.
    pub snapshot_of: Option<String>,
    /// The names of the disks that it is placed on, as far as they are present.
    pub disks: Vec<String>,
    /// Whether all disks that hold its blocks are present.
    pub whole: bool,
    /// The progress of its relocation; `None` if all blocks are where they belong.
    pub moving: Option<Moving>,
}

/// The progress of a volume's relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The data moved since the daemon's start.
    pub moved: Bytes,
    /// The data that remains to be moved.
    pub left: Bytes,
    /// The reason why no block can be moved, if none can.
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

impl PoolView {
    /// A view of the pool whose disks the daemon knows by these names.
    pub(crate) fn new(pool: &Pool, relocations: &[RelocationProgress], names: &DiskNames) -> Self {
        let (state, status) = (pool.state(), pool.status());
        let name = |id: DiskId| names.get(&id).cloned();
        let disks = state.disks().map(|(id, disk)| {
            let (all, free) = pool.free(id);
            let (size, free) = (bytes(all.0.into()), bytes(free.0.into()));
            PoolDiskView { number: id.0, name: name(id), size, free, leaving: disk.draining }
        });
        let volumes = state.volumes().map(|(id, volume)| {
            let origin = volume.origin.and_then(|id| state.volume(id));
            let is_present = |place: BlockExtent| names.contains_key(&place.disk);
            let progress = relocations.iter().find(|one| one.volume == id && one.misplaced > 0);
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
                whole: volume.places().all(is_present),
                moving: progress.map(moving),
            }
        });
        let is_missing = state.disks().any(|(id, _)| !names.contains_key(&id));
        let (disks, mut volumes): (Vec<_>, Vec<_>) = (disks.collect(), volumes.collect());
        volumes.sort_by(|one, two| one.name.cmp(&two.name));
        Self {
            uid: state.pool,
            sequence: state.sequence,
            writable: !is_missing && !pool.is_poisoned(),
            size: bytes(status.blocks),
            free: bytes(status.free),
            promised: bytes(status.promised),
            alarm: status.alarm,
            disks,
            volumes,
        }
    }
}
