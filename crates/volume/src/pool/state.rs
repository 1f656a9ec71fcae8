//! What a pool's metadata say: its disks, its volumes, and where each block lies. A plain value.
//!
//! A [`State`] changes by [`Change`]s alone, the same when a change is committed and when it is read back from a log.
//!
//! Invariants ([`State::held`]): no block of a disk belongs to two volumes, but for a volume and its snapshots, which
//! share it at the same place; every block lies on a disk of the pool, behind its metadata.

use std::collections::BTreeMap;
use std::ops::Range;

use units::{Extent, Sectors};

use super::change::{Change, Effects};
use super::format::{Geometry, IMAGE_DISK_BYTES, IMAGE_HEAD_BYTES, IMAGE_VOLUME_BYTES, RUN_BYTES};
use super::limits::BLOCK_SECTORS;
use super::names::{
    BlockExtent, Blocks, DiskUid, Layout, PoolUid, PoolVolumeId, VolumeBlock, Zone,
};
use super::runs::{ExtentMap, Mapping};
use crate::{DiskExtent, DiskId};

/// A disk of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Which it is, for good.
    pub uid: DiskUid,
    /// How many blocks of it the pool uses, metadata and all.
    pub blocks: u32,
    /// The first block that is not of its fast part.
    pub fast_end: u32,
    /// Whether it is being emptied: nothing new is laid on it.
    pub draining: bool,
}

/// A volume, or a snapshot of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What it is called.
    pub name: String,
    /// Its size.
    pub size: Blocks,
    /// How its blocks follow each other.
    pub layout: Layout,
    /// On which part of its disks its blocks are to lie.
    pub zone: Zone,
    /// Whether blocks appear when they are first written.
    pub thin: bool,
    /// What a random layout follows from.
    pub seed: u64,
    /// On which disks its blocks are to lie; those of a stripe in the order of the rotation.
    pub disks: Vec<DiskId>,
    /// Of which volume it is a snapshot. Snapshots are only read.
    pub origin: Option<PoolVolumeId>,
    /// Where its rows lie: block n is row n / k of column n modulo k.
    pub(super) columns: Vec<ExtentMap>,
}

/// Sectors of a volume, and where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// Which sectors.
    pub extent: Extent,
    /// Where; nowhere if they were never written, and read as zeroes.
    pub location: Option<DiskExtent>,
}

impl Volume {
    /// The column and the row of a block.
    #[inline]
    pub(super) fn row(&self, block: VolumeBlock) -> (usize, u32) {
        let columns = u32::try_from(self.columns.len()).expect("a disk each");
        if columns == 1 {
            return (0, block.0);
        }
        ((block.0 % columns) as usize, block.0 / columns)
    }

    /// The block of a row.
    pub(super) fn block(&self, column: usize, row: u32) -> VolumeBlock {
        let columns = u32::try_from(self.columns.len()).expect("a disk each");
        VolumeBlock(row * columns + u32::try_from(column).expect("a disk each"))
    }

    /// The rows of a column that hold those of so many blocks from `first` on.
    pub(super) fn rows(&self, column: usize, first: u32, count: u32) -> Range<u32> {
        let columns = u32::try_from(self.columns.len()).expect("a disk each");
        let column = u32::try_from(column).expect("a disk each");
        // The rows whose block lies before `end`.
        let before = |end: u32| (end.saturating_sub(column)).div_ceil(columns);
        before(first)..before(first + count)
    }

    /// Where a block lies, or `None` if it was never written. Takes O(log extents).
    ///
    /// # Panics
    /// If it lies behind the volume's end.
    #[inline]
    pub fn locate(&self, block: VolumeBlock) -> Option<BlockExtent> {
        assert!(block.0 < self.size.0, "block {} passes the volume's end", block.0);
        let (column, row) = self.row(block);
        let run = self.columns[column].get(row)?;
        let place = run.place;
        Some(BlockExtent { disk: place.disk, block: place.block + (row - run.row), len: 1 })
    }

    /// Where the sectors of `extent` lie, in their order.
    ///
    /// # Panics
    /// If it passes the volume's end: it was to be refused at the edge.
    pub fn map(&self, extent: Extent) -> impl Iterator<Item = MappedExtent> + '_ {
        let whole = Extent::new(units::Lba(0), self.size.sectors());
        assert!(whole.contains(extent), "{extent} passes the volume's end");
        let mut rest = extent;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (placed, len) = self.piece(rest);
            let (head, tail) = rest.split_at(len);
            rest = tail;
            Some(MappedExtent { extent: head, location: placed })
        })
    }

    /// Where the first sectors of `extent` lie, and how many of them lie so.
    fn piece(&self, extent: Extent) -> (Option<DiskExtent>, Sectors) {
        let block = u32::try_from(extent.start.0 / BLOCK_SECTORS.0).expect("within the volume");
        let skip = Sectors(extent.start.0 % BLOCK_SECTORS.0);
        let (column, row) = self.row(VolumeBlock(block));
        let map = &self.columns[column];
        let one = self.columns.len() > 1;
        match map.next(row) {
            Some(run) if run.row <= row => {
                let block = run.place.block + (row - run.row);
                let len = if one { 1 } else { run.end() - row };
                let place = BlockExtent { disk: run.disk(), block, len }.extent();
                let (found, _) = place.split_at(skip).1.split_at(extent.len);
                (Some(DiskExtent { disk: DiskId(run.disk().0), extent: found }), found.len)
            }
            next => {
                let rows = next.map_or(u32::MAX, |run| run.row - row);
                let hole = Blocks(if one { 1 } else { rows }).sectors() - skip;
                (None, Sectors(hole.0.min(extent.len.0)))
            }
        }
    }

    /// Extents of its map.
    pub fn extents(&self) -> usize {
        self.columns.iter().map(ExtentMap::len).sum()
    }

    /// Blocks that lie somewhere.
    pub fn mapped(&self) -> Blocks {
        let rows: u64 = self.columns.iter().map(ExtentMap::rows).sum();
        Blocks(u32::try_from(rows).expect("a volume has a limit"))
    }

    /// All places of its blocks.
    pub fn places(&self) -> impl Iterator<Item = BlockExtent> + '_ {
        self.columns.iter().flat_map(ExtentMap::iter).map(|run| run.place)
    }

    /// The runs of its columns.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, Mapping)> + '_ {
        let columns = self.columns.iter().enumerate();
        columns.flat_map(|(column, map)| map.iter().map(move |run| (column, run)))
    }
}

/// All that a pool's metadata say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Which pool.
    pub pool: PoolUid,
    /// How its disks are divided.
    pub geometry: Geometry,
    /// How many changes it has seen.
    pub sequence: u64,
    /// At how many hundredths of its blocks in use it raises an alarm.
    pub alarm: u8,
    pub(super) next_volume: u32,
    pub(super) next_disk: u32,
    pub(super) disks: BTreeMap<DiskId, Disk>,
    pub(super) volumes: BTreeMap<PoolVolumeId, Volume>,
    /// The snapshots of each volume that has some: a write asks for them.
    snapshots: BTreeMap<PoolVolumeId, Vec<PoolVolumeId>>,
}

impl State {
    /// A pool without disks.
    pub(super) fn new(pool: PoolUid, geometry: Geometry) -> Self {
        let (disks, volumes, snapshots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            pool,
            geometry,
            sequence: 0,
            alarm: 90,
            next_volume: 1,
            next_disk: 0,
            disks,
            volumes,
            snapshots,
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

    /// The number of the disk that joins next.
    pub(super) fn next_disk(&self) -> DiskId {
        DiskId(self.next_disk)
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

    /// Lists a volume; its number is to be greater than all before.
    pub(super) fn enter(&mut self, id: PoolVolumeId, volume: Volume) {
        if let Some(origin) = volume.origin {
            self.snapshots.entry(origin).or_default().push(id);
        }
        self.volumes.insert(id, volume);
    }

    /// Takes a volume off the list.
    pub(super) fn strike(&mut self, id: PoolVolumeId) -> Option<Volume> {
        let volume = self.volumes.remove(&id)?;
        if let Some(origin) = volume.origin
            && let Some(snapshots) = self.snapshots.get_mut(&origin)
        {
            snapshots.retain(|snapshot| *snapshot != id);
            if snapshots.is_empty() {
                self.snapshots.remove(&origin);
            }
        }
        Some(volume)
    }

    /// The volume that `id` is or is a snapshot of: what may share blocks.
    pub(super) fn family(&self, id: PoolVolumeId) -> PoolVolumeId {
        self.volumes.get(&id).and_then(|volume| volume.origin).unwrap_or(id)
    }

    /// A volume and its snapshots.
    pub(super) fn relatives(
        &self,
        id: PoolVolumeId,
    ) -> impl Iterator<Item = (PoolVolumeId, &Volume)> {
        let family = self.family(id);
        let origin = self.volumes.get(&family).map(|volume| (family, volume));
        origin.into_iter().chain(self.snapshots(family))
    }

    /// Extents of all maps.
    pub fn extents(&self) -> usize {
        self.volumes.values().map(Volume::extents).sum()
    }

    /// The blocks of a disk that can belong to volumes.
    pub(super) fn data(&self, disk: &Disk) -> Range<u32> {
        // The last block holds the second label.
        self.geometry.first_block()..disk.blocks - 1
    }

    /// How long its image is.
    pub fn image_bytes(&self) -> usize {
        let volumes = self.volumes.values();
        let volume = |volume: &Volume| {
            IMAGE_VOLUME_BYTES + volume.columns.len() * 4 + volume.extents() * RUN_BYTES
        };
        let volumes: usize = volumes.map(volume).sum();
        IMAGE_HEAD_BYTES + self.disks.len() * IMAGE_DISK_BYTES + volumes
    }

    /// The same after `changes`, one step further.
    ///
    /// # Errors
    /// What of them is impossible here; the state is of no use then.
    pub(super) fn advance(&mut self, changes: &[Change]) -> Result<Effects, &'static str> {
        let mut effects = Effects::default();
        for change in changes {
            self.apply(change, &mut effects)?;
        }
        self.sequence += 1;
        Ok(effects)
    }

    /// What each disk's blocks are held by, once for each map.
    ///
    /// # Errors
    /// If a block lies outside its disk, behind its volume's end, or belongs to two.
    pub fn held(&self) -> Result<BTreeMap<DiskId, Vec<BlockExtent>>, Overlap> {
        let mut claims: BTreeMap<DiskId, Vec<Claim>> = BTreeMap::new();
        for (id, volume) in &self.volumes {
            let family = volume.origin.unwrap_or(*id);
            for (column, run) in volume.runs() {
                let BlockExtent { disk, block, len } = run.place;
                let data = self.disks.get(&disk).map(|disk| self.data(disk));
                let end = block.checked_add(len);
                let inside = data.zip(end).is_some_and(|(d, end)| d.start <= block && end <= d.end);
                let rows = volume.rows(column, 0, volume.size.0);
                if !inside || len == 0 || run.end() > rows.end {
                    return Err(Overlap { volume: *id, place: run.place });
                }
                let key = (family, column, i64::from(run.row) - i64::from(block));
                claims.entry(disk).or_default().push(Claim { block, len, volume: *id, key });
            }
        }
        let mut held = BTreeMap::new();
        for (disk, mut claims) in claims {
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

/// One map's hold on some blocks: equal keys share them rightly.
struct Claim {
    block: u32,
    len: u32,
    volume: PoolVolumeId,
    key: (PoolVolumeId, usize, i64),
}

/// A volume's extent is where it cannot be: outside its disk or volume, or on another's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Whose.
    pub volume: PoolVolumeId,
    /// Which.
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
