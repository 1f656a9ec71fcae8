//! A pool's metadata as a plain value: its disks, its volumes, and the mapping of each block.
//!
//! A [`State`] changes by [`Change`](crate::pool::Change)s only, in the same way when a change is
//! committed and when it is replayed from a log.
//!
//! Invariants ([`State::held`]): no block of a disk belongs to two volumes, except to volumes of
//! one group, snapshots included, at the same row; every mapped block lies on a disk of the pool,
//! behind its metadata.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::pool::state::block_set::BlockSet;
use crate::pool::state::scrub::ScrubRecord;
use crate::pool::state::volume::{Disk, Volume};

use crate::location::DiskId;
use crate::pool::format::fields::{
    IMAGE_DISK_BYTES, IMAGE_HEAD_BYTES, IMAGE_VOLUME_BYTES, RUN_BYTES, SCRUB_BYTES, STALE_BYTES,
    VERSION_FIRST, VERSION_SCRUB,
};
use crate::pool::format::geometry::Geometry;
use crate::pool::limits::{DISKS_MAX, VOLUMES_MAX};
use crate::pool::names::{BlockExtent, PoolUid, PoolVolumeId};

/// All metadata of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The pool's identity.
    pub pool: PoolUid,
    /// The version of the format that it is written in.
    pub version: u32,
    /// The layout of metadata on its disks.
    pub geometry: Geometry,
    /// The number of commits so far.
    pub sequence: u64,
    /// The percentage of allocated blocks at which the alarm is raised.
    pub alarm: u8,
    pub(crate) next_volume: u32,
    pub(crate) next_disk: u32,
    pub(crate) disks: BTreeMap<DiskId, Disk>,
    pub(crate) volumes: BTreeMap<PoolVolumeId, Volume>,
    /// The blocks of each disk that miss a write, or may: copies that are never read. Blocks that
    /// no mirror has mean nothing here. No set is empty.
    pub(crate) stale: BTreeMap<DiskId, BlockSet>,
    /// How far its scrub has read, and what it has found.
    pub scrub: ScrubRecord,
    /// The snapshots of each volume that has some.
    snapshots: BTreeMap<PoolVolumeId, Vec<PoolVolumeId>>,
    /// The volumes and snapshots of each group: every write looks them up.
    groups: BTreeMap<PoolVolumeId, Vec<PoolVolumeId>>,
}

impl State {
    /// A pool without disks.
    pub(crate) fn new(pool: PoolUid, geometry: Geometry, version: u32) -> Self {
        let (disks, volumes, stale) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (snapshots, groups) = (BTreeMap::new(), BTreeMap::new());
        Self {
            pool,
            version,
            geometry,
            sequence: 0,
            alarm: 90,
            next_volume: 1,
            next_disk: 0,
            disks,
            volumes,
            stale,
            scrub: ScrubRecord::default(),
            snapshots,
            groups,
        }
    }

    /// Its disks, by number.
    pub fn disks(&self) -> impl Iterator<Item = (DiskId, &Disk)> {
        self.disks.iter().map(|(id, disk)| (*id, disk))
    }

    /// Its volumes and snapshots, by number.
    pub fn volumes(&self) -> impl Iterator<Item = (PoolVolumeId, &Volume)> {
        self.volumes.iter().map(|(id, volume)| (*id, volume))
    }

    /// The number of the next disk.
    pub(crate) fn next_disk(&self) -> DiskId {
        let next = DiskId(self.next_disk);
        assert!(!self.disks.contains_key(&next), "disk numbers are not reused");
        next
    }

    /// Whether a disk is of the pool and was not taken out.
    pub fn is_in(&self, id: DiskId) -> bool {
        self.disks.get(&id).is_some_and(|disk| !disk.out)
    }

    /// The disks that were not taken out.
    pub fn disks_in(&self) -> impl Iterator<Item = DiskId> + '_ {
        self.disks.iter().filter(|(_, disk)| !disk.out).map(|(id, _)| *id)
    }

    /// The blocks of a disk that miss a write, or may.
    pub fn stale(&self, id: DiskId) -> Option<&BlockSet> {
        self.stale.get(&id)
    }

    /// Whether a block misses a write, or may.
    pub fn is_stale(&self, place: BlockExtent) -> bool {
        self.stale.get(&place.disk).is_some_and(|stale| stale.contains(place.block))
    }

    /// Whether every disk has a checksum area: a disk that joins then gets one.
    pub fn has_sums(&self) -> bool {
        !self.disks.is_empty() && self.disks.values().all(|disk| disk.has_sums)
    }

    /// Whether blocks of a volume have copies.
    pub fn has_mirrors(&self) -> bool {
        self.volumes.values().any(|volume| volume.layout.is_mirror())
    }

    /// The number of runs of stale blocks.
    pub(crate) fn stale_runs(&self) -> usize {
        debug_assert!(self.stale.values().all(|set| !set.is_empty()), "no set is empty");
        self.stale.values().map(BlockSet::len).sum()
    }

    /// A disk.
    pub fn disk(&self, id: DiskId) -> Option<&Disk> {
        self.disks.get(&id)
    }

    /// A volume or snapshot.
    pub fn volume(&self, id: PoolVolumeId) -> Option<&Volume> {
        self.volumes.get(&id)
    }

    /// The volume or snapshot of that name.
    pub fn named(&self, name: &str) -> Option<(PoolVolumeId, &Volume)> {
        self.volumes().find(|(_, volume)| volume.name == name)
    }

    /// The snapshots of a volume, the oldest first.
    pub fn snapshots(&self, id: PoolVolumeId) -> impl Iterator<Item = (PoolVolumeId, &Volume)> {
        let snapshots = self.snapshots.get(&id).into_iter().flatten();
        snapshots.map(|snapshot| (*snapshot, &self.volumes[snapshot]))
    }

    /// Inserts a volume; its number is greater than all before.
    pub(crate) fn insert_volume(&mut self, id: PoolVolumeId, volume: Volume) {
        assert!(id.0 > 0, "volumes are numbered from 1");
        let last = self.volumes.last_key_value().map(|(last, _)| *last);
        assert!(last.is_none_or(|last| last < id), "numbers increase");
        if let Some(origin) = volume.origin {
            self.snapshots.entry(origin).or_default().push(id);
        }
        self.groups.entry(volume.group).or_default().push(id);
        self.volumes.insert(id, volume);
    }

    /// Checks what holds after every change. Takes O(volumes).
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn invariants(&self) {
        assert!(self.alarm <= 100, "the alarm is a percentage");
        assert!(self.disks.len() <= DISKS_MAX, "the disks are within their limit");
        assert!(self.volumes.len() <= VOLUMES_MAX, "the volumes are within their limit");
        let last = self.volumes.last_key_value().map(|(id, _)| id.0);
        assert!(last.is_none_or(|last| last < self.next_volume), "volume numbers are not reused");
        let last = self.disks.last_key_value().map(|(id, _)| id.0);
        assert!(last.is_none_or(|last| last < self.next_disk), "disk numbers are not reused");
        for volume in self.volumes.values() {
            assert!(volume.size.0 > 0, "a volume has a size");
            assert!(!volume.disks.is_empty(), "a volume has disks");
            assert!(!volume.columns.is_empty(), "a volume has columns");
            let columns = volume.layout.columns(volume.disks.len());
            assert_eq!(volume.columns.len(), columns, "a stripe has a column per disk");
        }
        for (id, stale) in &self.stale {
            assert!(self.disks.contains_key(id), "stale blocks are of disks of the pool");
            assert!(!stale.is_empty(), "disks without stale blocks are not listed");
        }
        if self.version == VERSION_FIRST {
            assert!(self.stale.is_empty(), "the first version knows no stale block");
            assert!(!self.has_mirrors(), "the first version knows no mirror");
            assert!(self.disks.values().all(|disk| !disk.out), "nor a disk that is out");
        }
        if self.version < VERSION_SCRUB {
            assert_eq!(self.scrub, ScrubRecord::default(), "the version knows no scrub");
        }
        let members: usize = self.groups.values().map(Vec::len).sum();
        assert_eq!(members, self.volumes.len(), "every volume is of one group");
        for (group, members) in &self.groups {
            assert!(!members.is_empty(), "groups without volumes are not listed");
            let of = |id: &PoolVolumeId| self.volumes[id].group == *group;
            assert!(members.iter().all(of), "volumes name their group");
        }
        for (origin, snapshots) in &self.snapshots {
            assert!(!snapshots.is_empty(), "volumes without snapshots are not listed");
            assert!(self.volumes.contains_key(origin), "the origin of a snapshot exists");
            let of = |id: &PoolVolumeId| self.volumes[id].origin == Some(*origin);
            assert!(snapshots.iter().all(of), "snapshots name their origin");
        }
    }

    /// Removes a volume.
    pub(crate) fn remove_volume(&mut self, id: PoolVolumeId) -> Option<Volume> {
        let volume = self.volumes.remove(&id)?;
        assert!(!self.snapshots.contains_key(&id), "a volume with snapshots stays");
        if let Some(origin) = volume.origin
            && let Some(snapshots) = self.snapshots.get_mut(&origin)
        {
            snapshots.retain(|snapshot| *snapshot != id);
            if snapshots.is_empty() {
                self.snapshots.remove(&origin);
            }
        }
        let members = self.groups.get_mut(&volume.group).expect("every volume is of a group");
        members.retain(|member| *member != id);
        if members.is_empty() {
            self.groups.remove(&volume.group);
        }
        Some(volume)
    }

    /// The group of a volume or snapshot; `id` itself if it is not there.
    pub fn group_of(&self, id: PoolVolumeId) -> PoolVolumeId {
        self.volumes.get(&id).map_or(id, |volume| volume.group)
    }

    /// The volumes and snapshots that may share blocks with a volume, itself included, in the order
    /// of their creation.
    pub fn group_members(&self, id: PoolVolumeId) -> impl Iterator<Item = (PoolVolumeId, &Volume)> {
        self.members(self.group_of(id))
    }

    /// The volumes and snapshots of a group.
    pub(crate) fn members(
        &self,
        group: PoolVolumeId,
    ) -> impl Iterator<Item = (PoolVolumeId, &Volume)> {
        let members = self.groups.get(&group).into_iter().flatten();
        debug_assert!(members.clone().is_sorted(), "members are in the order of their creation");
        members.map(|member| (*member, &self.volumes[member]))
    }

    /// Whether a volume has others in its group, with which it may share blocks.
    pub(crate) fn may_share(&self, id: PoolVolumeId) -> bool {
        let members = self.groups.get(&self.group_of(id));
        debug_assert!(members.is_none_or(|all| all.contains(&id)), "a volume is of its group");
        members.is_some_and(|members| members.len() > 1)
    }

    /// The number of mappings of all volumes.
    pub fn extents(&self) -> usize {
        self.volumes.values().map(Volume::extents).sum()
    }

    /// The blocks of a disk that can be allocated.
    pub(crate) fn data(&self, disk: &Disk) -> Range<u32> {
        // The last block holds the second label.
        let data = self.geometry.first_block()..disk.blocks - 1;
        assert!(data.start < data.end, "a disk has blocks to allocate");
        data
    }

    /// The length of its image.
    pub fn image_bytes(&self) -> usize {
        let volumes = self.volumes.values();
        let volume = |volume: &Volume| {
            IMAGE_VOLUME_BYTES + volume.columns.len() * 4 + volume.extents() * RUN_BYTES
        };
        let volumes: usize = volumes.map(volume).sum();
        let stale = self.stale_runs() * STALE_BYTES;
        let scrub = if self.version < VERSION_SCRUB { 0 } else { SCRUB_BYTES };
        IMAGE_HEAD_BYTES + self.disks.len() * IMAGE_DISK_BYTES + volumes + stale + scrub
    }

    /// The blocks of each disk that are mapped, once per map.
    ///
    /// # Errors
    /// If a mapping lies outside its disk or behind its volume's end, or overlaps another's.
    pub fn held(&self) -> Result<BTreeMap<DiskId, Vec<BlockExtent>>, Overlap> {
        let mut claims: BTreeMap<DiskId, Vec<Claim>> = BTreeMap::new();
        for (id, volume) in &self.volumes {
            for (column, run) in volume.runs() {
                let BlockExtent { disk, block, len } = run.place;
                let data = self.disks.get(&disk).map(|disk| self.data(disk));
                let end = block.checked_add(len);
                let inside = data.zip(end).is_some_and(|(d, end)| d.start <= block && end <= d.end);
                let rows = volume.rows(column, 0, volume.size.0);
                if !inside || len == 0 || run.end() > rows.end {
                    return Err(Overlap { volume: *id, place: run.place });
                }
                let key = (volume.group, column, i64::from(run.row) - i64::from(block));
                claims.entry(disk).or_default().push(Claim { block, len, volume: *id, key });
            }
        }
        let count: usize = claims.values().map(Vec::len).sum();
        assert_eq!(count, self.extents(), "every mapping claims its blocks");
        let mut held = BTreeMap::new();
        for (disk, mut claims) in claims {
            assert!(self.disks.contains_key(&disk), "claims lie on disks of the pool");
            claims.sort_unstable_by_key(|claim| claim.block);
            let mut last: Option<&Claim> = None;
            for claim in &claims {
                if let Some(before) = last
                    && claim.block < before.block + before.len
                {
                    if claim.key != before.key {
                        let place = BlockExtent { disk, block: claim.block, len: claim.len };
                        return Err(Overlap { volume: claim.volume, place });
                    }
                    if claim.block + claim.len <= before.block + before.len {
                        continue;
                    }
                }
                last = Some(claim);
            }
            let place = |claim: &Claim| BlockExtent { disk, block: claim.block, len: claim.len };
            held.insert(disk, claims.iter().map(place).collect());
        }
        Ok(held)
    }
}

/// One map's reference to blocks: equal keys share them legitimately.
struct Claim {
    block: u32,
    len: u32,
    volume: PoolVolumeId,
    key: (PoolVolumeId, usize, i64),
}

/// A mapping that cannot be: outside its disk or volume, or on blocks of another volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The volume.
    pub volume: PoolVolumeId,
    /// The blocks.
    pub place: BlockExtent,
}

impl core::fmt::Display for Overlap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let BlockExtent { disk, block, len } = self.place;
        let volume = self.volume.0;
        write!(
            f,
            "volume {volume} has blocks {block}+{len} of disk {}, which cannot be its",
            disk.0
        )
    }
}

impl core::error::Error for Overlap {}
