//! The effect of changes on a pool's metadata.

use crate::location::DiskId;
use crate::pool::format::fields::{VERSION_FIRST, VERSION_SCRUB, VERSION_SUMS};
use crate::pool::format::structures::VERSION;
use crate::pool::limits::{DISKS_MAX, SNAPSHOTS_MAX, VOLUME_BLOCKS_MAX, VOLUMES_MAX};
use crate::pool::names::{BlockExtent, Blocks, DiskUid, PoolVolumeId};
use crate::pool::state::change::Change;
use crate::pool::state::extent_map::{ExtentMap, Mapping};
use crate::pool::state::metadata::State;
use crate::pool::state::volume::{Disk, Volume};

/// The blocks that changes mapped and unmapped.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) gained: Vec<BlockExtent>,
    pub(crate) lost: Vec<BlockExtent>,
}

impl Effects {
    fn lose(&mut self, runs: impl IntoIterator<Item = Mapping>) {
        self.lost.extend(runs.into_iter().map(|run| run.place));
    }

    fn gain(&mut self, runs: impl IntoIterator<Item = Mapping>) {
        self.gained.extend(runs.into_iter().map(|run| run.place));
    }
}

impl State {
    /// Applies one change.
    pub(crate) fn apply(
        &mut self,
        change: &Change,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        match change {
            Change::Create { id, volume } => self.create(*id, volume),
            Change::Resize { id, size } => self.resize(*id, *size, effects),
            Change::Remove { id } => self.remove(*id, effects),
            Change::Map { id, column, run } => self.map_rows(*id, *column, *run, effects),
            Change::Unmap { id, column, row, rows } => {
                let map = self.column(*id, *column)?;
                effects.lose(map.remove(*row, *rows));
                Ok(())
            }
            Change::Snapshot { id, origin, name } => self.snapshot(*id, *origin, name, effects),
            Change::Clone { id, source, name } => self.clone_volume(*id, *source, name, effects),
            Change::RollBack { snapshot } => self.roll_back(*snapshot, effects),
            Change::SetPlacement { id, zone, disks } => {
                if disks.iter().any(|disk| !self.disks.contains_key(disk)) {
                    return Err("lays a volume on a disk that is not there");
                }
                let volume = self.volumes.get_mut(id).ok_or("names a volume that is not there")?;
                let columns = volume.layout.columns(disks.len());
                if disks.is_empty() || columns != volume.columns.len() {
                    return Err("has as many disks as a stripe has columns");
                }
                (volume.zone, volume.disks) = (*zone, disks.clone());
                Ok(())
            }
            Change::AddDisk { number, disk } => self.add_disk(*number, *disk),
            Change::SetDraining { number, draining } => {
                let disk = self.disks.get_mut(number).ok_or("names a disk that is not there")?;
                disk.draining = *draining;
                Ok(())
            }
            Change::RemoveDisk { number } => {
                let used = self.volumes.values().any(|volume| {
                    volume.disks.contains(number) || volume.places().any(|at| at.disk == *number)
                });
                if used {
                    return Err("removes a disk that volumes lie on");
                }
                self.stale.remove(number);
                self.disks.remove(number).map(drop).ok_or("names a disk that is not there")
            }
            Change::SetAlarm { percent } if *percent <= 100 => {
                self.alarm = *percent;
                Ok(())
            }
            Change::SetAlarm { .. } => Err("has an alarm beyond 100 %"),
            Change::Upgrade { version } => self.upgrade(*version),
            _ if self.version == VERSION_FIRST => Err("is of a newer version than its pool"),
            Change::Stale { blocks } => self.set_stale(*blocks, true),
            Change::Fresh { blocks } => self.set_stale(*blocks, false),
            Change::SetOpen { id, open } => {
                let volume = self.volumes.get_mut(id).ok_or("names a volume that is not there")?;
                volume.open = *open;
                Ok(())
            }
            Change::TakeOut { number, doubtful } => self.set_out(*number, true, *doubtful),
            Change::TakeBack { number } => self.set_out(*number, false, false),
            Change::Replace { number, uid } => self.replace_disk(*number, *uid),
            Change::AddSums { number, blocks } => self.add_sums(*number, *blocks),
            Change::Scrub { .. } if self.version < VERSION_SCRUB => {
                Err("is of a newer version than its pool")
            }
            Change::Scrub { scrub } => {
                self.scrub = *scrub;
                Ok(())
            }
        }
    }

    fn upgrade(&mut self, version: u32) -> Result<(), &'static str> {
        if version <= self.version || version > VERSION {
            return Err("upgrades to an impossible version");
        }
        self.version = version;
        assert!(self.version > VERSION_FIRST, "the first is where every pool began");
        Ok(())
    }

    fn set_stale(&mut self, blocks: BlockExtent, stale: bool) -> Result<(), &'static str> {
        let disk = self.disks.get(&blocks.disk).ok_or("names a disk that is not there")?;
        let data = self.data(disk);
        let end = blocks.block.checked_add(blocks.len);
        if blocks.len == 0 || blocks.block < data.start || end.is_none_or(|end| end > data.end) {
            return Err("has stale blocks outside their disk");
        }
        let set = self.stale.entry(blocks.disk).or_default();
        let range = blocks.block..blocks.end();
        if stale {
            set.insert(range);
        } else {
            set.remove(range);
        }
        if set.is_empty() {
            self.stale.remove(&blocks.disk);
        }
        debug_assert_eq!(self.is_stale(blocks), stale, "the first of them is as it was said");
        assert!(self.version > VERSION_FIRST, "the first version knows no stale block");
        Ok(())
    }

    fn set_out(&mut self, number: DiskId, out: bool, doubtful: bool) -> Result<(), &'static str> {
        let others = self.disks_in().filter(|id| *id != number).count();
        let disk = self.disks.get_mut(&number).ok_or("names a disk that is not there")?;
        if disk.out == out {
            return Err("takes out what is out, or back what is in");
        }
        if others == 0 {
            return Err("takes the last disk out");
        }
        (disk.out, disk.doubtful) = (out, doubtful);
        assert!(out || !doubtful, "a disk that is in is asked");
        assert!(self.disks_in().next().is_some(), "a disk is left");
        Ok(())
    }

    fn replace_disk(&mut self, number: DiskId, uid: DiskUid) -> Result<(), &'static str> {
        if self.disks.values().any(|other| other.uid == uid) {
            return Err("adds a disk twice");
        }
        let disk = self.disks.get_mut(&number).ok_or("names a disk that is not there")?;
        if !disk.out {
            return Err("replaces a disk that is in");
        }
        (disk.uid, disk.out, disk.doubtful) = (uid, false, false);
        assert!(self.is_in(number), "the device has its place");
        Ok(())
    }

    fn add_sums(&mut self, number: DiskId, blocks: Blocks) -> Result<(), &'static str> {
        if self.version < VERSION_SUMS {
            return Err("is of a newer version than its pool");
        }
        let first = self.geometry.first_block();
        let disk = self.disks.get_mut(&number).ok_or("names a disk that is not there")?;
        if disk.has_sums || blocks.0 > disk.blocks || blocks.0 < first + 2 {
            return Err("gives a disk a checksum area that it has, or has no room for");
        }
        let end = blocks.0 - 1;
        let mut places = self.volumes.values().flat_map(Volume::places);
        if places.any(|place| place.disk == number && place.end() > end) {
            return Err("puts a checksum area where a volume's blocks are");
        }
        (disk.blocks, disk.fast_end, disk.has_sums) = (blocks.0, disk.fast_end.min(end), true);
        // Stale blocks that no volume has mean nothing.
        if let Some(stale) = self.stale.get_mut(&number) {
            stale.remove(end..u32::MAX);
            if stale.is_empty() {
                self.stale.remove(&number);
            }
        }
        let disk = self.disks[&number];
        assert!(self.data(&disk).contains(&first), "blocks are left");
        assert!(disk.fast_end <= end, "the fast zone ends within them");
        Ok(())
    }

    fn column(&mut self, id: PoolVolumeId, column: u32) -> Result<&mut ExtentMap, &'static str> {
        let volume = self.volumes.get_mut(&id).ok_or("names a volume that is not there")?;
        volume.columns.get_mut(column as usize).ok_or("names a column that is not there")
    }

    fn admit(&mut self, id: PoolVolumeId, name: &str) -> Result<(), &'static str> {
        if id.0 != self.next_volume {
            return Err("gives a volume another number than the next");
        }
        if self.named(name).is_some() {
            return Err("gives a name twice");
        }
        if self.volumes.len() >= VOLUMES_MAX {
            return Err("makes more volumes than a pool has");
        }
        self.next_volume = self.next_volume.checked_add(1).ok_or("numbers too many volumes")?;
        Ok(())
    }

    fn create(&mut self, id: PoolVolumeId, volume: &Volume) -> Result<(), &'static str> {
        if volume.disks.is_empty() || volume.disks.iter().any(|disk| !self.disks.contains_key(disk))
        {
            return Err("lays a volume on a disk that is not there");
        }
        if volume.size.0 == 0 || volume.size.0 > VOLUME_BLOCKS_MAX {
            return Err("gives a volume a size beyond the limits");
        }
        self.admit(id, &volume.name)?;
        if self.version == VERSION_FIRST && volume.layout.is_mirror() {
            return Err("is of a newer version than its pool");
        }
        if self.version < VERSION_SUMS && !volume.sums {
            return Err("is of a newer version than its pool");
        }
        if volume.disks.len() < volume.layout.copies() {
            return Err("has fewer disks than copies");
        }
        let columns = volume.layout.columns(volume.disks.len());
        let columns = vec![ExtentMap::default(); columns];
        assert!(volume.origin.is_none(), "snapshots are not created");
        assert!(volume.columns.is_empty(), "a new volume has no blocks");
        self.insert_volume(id, Volume { columns, group: id, ..volume.clone() });
        Ok(())
    }

    fn resize(
        &mut self,
        id: PoolVolumeId,
        size: Blocks,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let volume = self.volumes.get_mut(&id).ok_or("names a volume that is not there")?;
        if size.0 == 0 || size.0 > VOLUME_BLOCKS_MAX {
            return Err("gives a volume a size beyond the limits");
        }
        for column in 0..volume.columns.len() {
            let kept = volume.rows(column, 0, size.0).end;
            effects.lose(volume.columns[column].remove(kept, u32::MAX - kept));
        }
        volume.size = size;
        assert!(volume.mapped() <= size, "no block is mapped behind the end");
        Ok(())
    }

    fn remove(&mut self, id: PoolVolumeId, effects: &mut Effects) -> Result<(), &'static str> {
        if self.snapshots(id).next().is_some() {
            return Err("removes a volume that has snapshots");
        }
        let volume = self.remove_volume(id).ok_or("names a volume that is not there")?;
        effects.lost.extend(volume.places());
        assert!(!self.volumes.contains_key(&id), "it is removed");
        assert!(self.snapshots(id).next().is_none(), "it had no snapshots");
        Ok(())
    }

    fn map_rows(
        &mut self,
        id: PoolVolumeId,
        column: u32,
        run: Mapping,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let disk = self.disks.get(&run.disk()).ok_or("lays a block on a disk that is not there")?;
        let data = self.data(disk);
        let end = run.place.block.checked_add(run.place.len);
        if run.place.block < data.start || end.is_none_or(|end| end > data.end) {
            return Err("lays a block outside its disk");
        }
        let volume = self.volumes.get(&id).ok_or("names a volume that is not there")?;
        let rows = volume.rows(column as usize, 0, volume.size.0);
        let end = run.row.checked_add(run.place.len);
        if run.place.len == 0 || end.is_none_or(|end| end > rows.end) {
            return Err("lays a block behind its volume's end");
        }
        let map = self.column(id, column)?;
        effects.lose(map.remove(run.row, run.place.len));
        map.insert(run);
        assert!(map.get(run.row).is_some_and(|one| one.end() >= run.end()), "the rows are mapped");
        effects.gain([run]);
        Ok(())
    }

    fn snapshot(
        &mut self,
        id: PoolVolumeId,
        origin: PoolVolumeId,
        name: &str,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        if self.snapshots(origin).count() >= SNAPSHOTS_MAX {
            return Err("makes more snapshots than a volume has");
        }
        let volume = self.volumes.get(&origin).ok_or("names a volume that is not there")?;
        if volume.origin.is_some() {
            return Err("makes a snapshot of a snapshot");
        }
        let snapshot = Volume { name: name.to_owned(), origin: Some(origin), ..volume.clone() };
        self.admit(id, name)?;
        assert!(snapshot.origin == Some(origin), "a snapshot names its origin");
        effects.gained.extend(snapshot.places());
        self.insert_volume(id, snapshot);
        Ok(())
    }

    fn clone_volume(
        &mut self,
        id: PoolVolumeId,
        source: PoolVolumeId,
        name: &str,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let from = self.volumes.get(&source).ok_or("clones a volume that is not there")?;
        let clone = Volume { name: name.to_owned(), origin: None, ..from.clone() };
        self.admit(id, name)?;
        effects.gained.extend(clone.places());
        assert!(clone.group < id, "a clone is of the group of its source");
        assert!(clone.origin.is_none(), "a clone can be written");
        self.insert_volume(id, clone);
        Ok(())
    }

    fn roll_back(
        &mut self,
        snapshot: PoolVolumeId,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let from = self.volumes.get(&snapshot).ok_or("names a snapshot that is not there")?;
        let origin = from.origin.ok_or("rolls back to what is no snapshot")?;
        let (columns, size, open) = (from.columns.clone(), from.size, from.open);
        effects.gained.extend(from.places());
        let volume =
            self.volumes.get_mut(&origin).ok_or("rolls back a volume that is not there")?;
        effects.lost.extend(volume.places());
        assert!(volume.origin.is_none(), "a snapshot is of a volume");
        assert_eq!(volume.columns.len(), columns.len(), "with the same columns");
        (volume.columns, volume.size) = (columns, size);
        // Copies of the snapshot may differ too.
        volume.open |= open;
        Ok(())
    }

    fn add_disk(&mut self, number: DiskId, disk: Disk) -> Result<(), &'static str> {
        if number.0 != self.next_disk {
            return Err("gives a disk another number than the next");
        }
        let data = self.geometry.first_block()..disk.blocks.saturating_sub(1);
        if data.is_empty() || disk.fast_end < data.start || disk.fast_end > data.end {
            return Err("adds a disk of an impossible size");
        }
        if self.disks.len() >= DISKS_MAX {
            return Err("makes more disks than a pool has");
        }
        if self.disks.values().any(|other| other.uid == disk.uid) {
            return Err("adds a disk twice");
        }
        self.next_disk = self.next_disk.checked_add(1).ok_or("numbers too many disks")?;
        let before = self.disks.insert(number, disk);
        assert!(before.is_none(), "disk numbers are not reused");
        assert!(self.disks.len() <= DISKS_MAX, "the disks are within their limit");
        Ok(())
    }

    /// Applies `changes`, as one step of the sequence.
    ///
    /// # Errors
    /// Which of them is impossible here; the state is unusable then.
    pub(crate) fn advance(&mut self, changes: &[Change]) -> Result<Effects, &'static str> {
        let mut effects = Effects::default();
        for change in changes {
            self.apply(change, &mut effects)?;
        }
        assert!(effects.gained.iter().all(|place| place.len > 0), "blocks are mapped");
        assert!(effects.lost.iter().all(|place| place.len > 0), "blocks are unmapped");
        if cfg!(debug_assertions) {
            self.invariants();
        }
        // What a disk that was taken out has may be one commit further than it should be, and never
        // as far as the pool that goes on without it.
        let takes_out = changes.iter().any(|change| matches!(change, Change::TakeOut { .. }));
        self.sequence += 1 + u64::from(takes_out);
        Ok(effects)
    }
}
