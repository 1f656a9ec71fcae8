//! The changes that a pool's metadata go through, what they do, and their bytes in a record of the log.

use super::codec::{Malformed, Reader, Writer};
use super::format::{IMAGE_DISK_BYTES, IMAGE_VOLUME_BYTES, RUN_BYTES};
use super::image::{
    layout_code, layout_of, read_disks, read_name, read_run, write_disks, write_name, write_run,
    zone_code, zone_of,
};
use super::limits::{DISKS_MAX, EXTENTS_MAX, SNAPSHOTS_MAX, VOLUME_BLOCKS_MAX, VOLUMES_MAX};
use super::names::{BlockExtent, Blocks, DiskUid, Layout, PoolVolumeId, Zone};
use super::runs::{ExtentMap, Mapping};
use super::state::{Disk, State, Volume};
use crate::DiskId;

/// One change of a pool's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A volume of which no block lies anywhere yet.
    Create {
        /// Its number: the next one.
        id: PoolVolumeId,
        /// What it is to be: without columns, of no origin.
        volume: Volume,
    },
    /// A volume's end moves; what lay behind it is given back.
    Resize {
        /// Which.
        id: PoolVolumeId,
        /// Its new size.
        size: Blocks,
    },
    /// A volume without snapshots, or a snapshot, is gone.
    Remove {
        /// Which.
        id: PoolVolumeId,
    },
    /// Rows lie there from now on; where they lay is given back.
    Map {
        /// Of which volume.
        id: PoolVolumeId,
        /// Of which of its columns.
        column: u32,
        /// Which rows, and where.
        run: Mapping,
    },
    /// Rows lie nowhere from now on.
    Unmap {
        /// Of which volume.
        id: PoolVolumeId,
        /// Of which of its columns.
        column: u32,
        /// The first row.
        row: u32,
        /// How many.
        rows: u32,
    },
    /// What a volume holds now is kept.
    Snapshot {
        /// The snapshot's number: the next one.
        id: PoolVolumeId,
        /// Of which volume.
        origin: PoolVolumeId,
        /// What it is called.
        name: String,
    },
    /// A volume holds again what it held at its snapshot.
    RollBack {
        /// Which snapshot.
        snapshot: PoolVolumeId,
    },
    /// A volume's blocks are to lie elsewhere. They are moved one by one.
    SetPlacement {
        /// Which.
        id: PoolVolumeId,
        /// On which part of the disks.
        zone: Zone,
        /// On which disks.
        disks: Vec<DiskId>,
    },
    /// A disk more.
    AddDisk {
        /// Its number: the next one.
        number: DiskId,
        /// What it is.
        disk: Disk,
    },
    /// A disk is to be emptied, or is to stay after all.
    SetDraining {
        /// Which.
        number: DiskId,
        /// Whether it is to be emptied.
        draining: bool,
    },
    /// An empty disk is gone.
    RemoveDisk {
        /// Which.
        number: DiskId,
    },
    /// The alarm is raised at another level.
    SetAlarm {
        /// Hundredths of the pool's blocks.
        percent: u8,
    },
}

/// What changes did to the disks' blocks.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) gained: Vec<BlockExtent>,
    pub(super) lost: Vec<BlockExtent>,
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
    /// Goes through one change.
    pub(super) fn apply(
        &mut self,
        change: &Change,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        match change {
            Change::Create { id, volume } => self.create(*id, volume),
            Change::Resize { id, size } => self.resize(*id, *size, effects),
            Change::Remove { id } => self.remove(*id, effects),
            Change::Map { id, column, run } => self.lay(*id, *column, *run, effects),
            Change::Unmap { id, column, row, rows } => {
                let map = self.column(*id, *column)?;
                effects.lose(map.remove(*row, *rows));
                Ok(())
            }
            Change::Snapshot { id, origin, name } => self.snapshot(*id, *origin, name, effects),
            Change::RollBack { snapshot } => self.roll_back(*snapshot, effects),
            Change::SetPlacement { id, zone, disks } => {
                if disks.iter().any(|disk| !self.disks.contains_key(disk)) {
                    return Err("lays a volume on a disk that is not there");
                }
                let volume = self.volumes.get_mut(id).ok_or("names a volume that is not there")?;
                if disks.is_empty()
                    || (volume.layout == Layout::Stripe && disks.len() != volume.disks.len())
                {
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
                self.disks.remove(number).map(drop).ok_or("names a disk that is not there")
            }
            Change::SetAlarm { percent } if *percent <= 100 => {
                self.alarm = *percent;
                Ok(())
            }
            Change::SetAlarm { .. } => Err("has an alarm beyond 100 %"),
        }
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
        let columns = if volume.layout == Layout::Stripe { volume.disks.len() } else { 1 };
        let columns = vec![ExtentMap::default(); columns];
        self.enter(id, Volume { columns, ..volume.clone() });
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
        Ok(())
    }

    fn remove(&mut self, id: PoolVolumeId, effects: &mut Effects) -> Result<(), &'static str> {
        if self.snapshots(id).next().is_some() {
            return Err("removes a volume that has snapshots");
        }
        let volume = self.strike(id).ok_or("names a volume that is not there")?;
        effects.lost.extend(volume.places());
        Ok(())
    }

    fn lay(
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
        effects.gained.extend(snapshot.places());
        self.enter(id, snapshot);
        Ok(())
    }

    fn roll_back(
        &mut self,
        snapshot: PoolVolumeId,
        effects: &mut Effects,
    ) -> Result<(), &'static str> {
        let from = self.volumes.get(&snapshot).ok_or("names a snapshot that is not there")?;
        let origin = from.origin.ok_or("rolls back to what is no snapshot")?;
        let (columns, size) = (from.columns.clone(), from.size);
        effects.gained.extend(from.places());
        let volume =
            self.volumes.get_mut(&origin).ok_or("rolls back a volume that is not there")?;
        effects.lost.extend(volume.places());
        (volume.columns, volume.size) = (columns, size);
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
        self.disks.insert(number, disk);
        Ok(())
    }
}

/// The bytes of changes, as the body of a record.
pub(super) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = Writer::default();
    out.count(changes.len());
    for change in changes {
        change.write(&mut out);
    }
    out.0
}

/// The changes in the body of a record.
pub(super) fn decode(body: &[u8]) -> Result<Vec<Change>, Malformed> {
    let mut from = Reader::new(body);
    let count = from.count(EXTENTS_MAX, "more changes than extents")?;
    let changes = (0..count).map(|_| Change::read(&mut from)).collect::<Result<_, _>>()?;
    if from.is_empty() { Ok(changes) } else { Err(from.refuse("more than its changes")) }
}

/// Whether `changes` keep a pool within its limits.
pub(super) fn room(state: &State, changes: &[Change]) -> bool {
    let more = |change: &Change| matches!(change, Change::Create { .. } | Change::Snapshot { .. });
    let volumes = changes.iter().filter(|change| more(change)).count();
    let disks = changes.iter().filter(|change| matches!(change, Change::AddDisk { .. })).count();
    let origin = changes.iter().find_map(|change| match change {
        Change::Snapshot { origin, .. } => Some(*origin),
        _ => None,
    });
    let snapshots = origin.map_or(0, |origin| state.snapshots(origin).count() + 1);
    let extents: usize = changes.iter().map(|change| change.growth(state) / RUN_BYTES).sum();
    state.volumes.len() + volumes <= VOLUMES_MAX
        && state.disks.len() + disks <= DISKS_MAX
        && snapshots <= SNAPSHOTS_MAX
        && state.extents() + extents <= EXTENTS_MAX
}

impl Change {
    /// Bytes by which it makes an image longer, at most.
    pub(super) fn growth(&self, state: &State) -> usize {
        let extents = |id| state.volume(id).map_or(0, |volume| volume.extents() * RUN_BYTES);
        let columns = IMAGE_VOLUME_BYTES + DISKS_MAX * 4;
        match self {
            Self::Create { .. } => columns,
            // One that is laid, and the second part of the one that it cuts in two.
            Self::Map { .. } => 2 * RUN_BYTES,
            Self::Unmap { .. } => RUN_BYTES,
            Self::Snapshot { origin, .. } => columns + extents(*origin),
            Self::RollBack { snapshot } => extents(*snapshot),
            Self::AddDisk { .. } => IMAGE_DISK_BYTES,
            Self::Resize { .. }
            | Self::Remove { .. }
            | Self::SetPlacement { .. }
            | Self::SetDraining { .. }
            | Self::RemoveDisk { .. }
            | Self::SetAlarm { .. } => 0,
        }
    }

    /// Whether it changes which disks are of the pool.
    pub(super) fn is_of_disks(&self) -> bool {
        matches!(self, Self::AddDisk { .. } | Self::RemoveDisk { .. })
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Self::Create { id, volume } => {
                out.u8(1);
                out.u32(id.0);
                out.u32(volume.size.0);
                out.u8(layout_code(volume.layout));
                out.u8(zone_code(volume.zone));
                out.u8(u8::from(volume.thin));
                out.u64(volume.seed);
                write_name(out, &volume.name);
                write_disks(out, &volume.disks);
            }
            Self::Resize { id, size } => {
                out.u8(2);
                out.u32(id.0);
                out.u32(size.0);
            }
            Self::Remove { id } => {
                out.u8(3);
                out.u32(id.0);
            }
            Self::Map { id, column, run } => {
                out.u8(4);
                out.u32(id.0);
                out.u32(*column);
                write_run(out, *run);
            }
            Self::Unmap { id, column, row, rows } => {
                out.u8(5);
                out.u32(id.0);
                out.u32(*column);
                out.u32(*row);
                out.u32(*rows);
            }
            Self::Snapshot { id, origin, name } => {
                out.u8(6);
                out.u32(id.0);
                out.u32(origin.0);
                write_name(out, name);
            }
            Self::RollBack { snapshot } => {
                out.u8(7);
                out.u32(snapshot.0);
            }
            Self::SetPlacement { id, zone, disks } => {
                out.u8(8);
                out.u32(id.0);
                out.u8(zone_code(*zone));
                write_disks(out, disks);
            }
            Self::AddDisk { number, disk } => {
                out.u8(9);
                out.u32(number.0);
                write_disk(out, disk);
            }
            Self::SetDraining { number, draining } => {
                out.u8(10);
                out.u32(number.0);
                out.u8(u8::from(*draining));
            }
            Self::RemoveDisk { number } => {
                out.u8(11);
                out.u32(number.0);
            }
            Self::SetAlarm { percent } => {
                out.u8(12);
                out.u8(*percent);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tag = from.u8()?;
        Ok(match tag {
            1 => Self::Create { id: PoolVolumeId(from.u32()?), volume: read_plan(from)? },
            2 => Self::Resize { id: PoolVolumeId(from.u32()?), size: Blocks(from.u32()?) },
            3 => Self::Remove { id: PoolVolumeId(from.u32()?) },
            4 => Self::Map {
                id: PoolVolumeId(from.u32()?),
                column: from.u32()?,
                run: read_run(from)?,
            },
            5 => Self::Unmap {
                id: PoolVolumeId(from.u32()?),
                column: from.u32()?,
                row: from.u32()?,
                rows: from.u32()?,
            },
            6 => Self::Snapshot {
                id: PoolVolumeId(from.u32()?),
                origin: PoolVolumeId(from.u32()?),
                name: read_name(from)?,
            },
            7 => Self::RollBack { snapshot: PoolVolumeId(from.u32()?) },
            8 => Self::SetPlacement {
                id: PoolVolumeId(from.u32()?),
                zone: zone_of(from)?,
                disks: read_disks(from)?,
            },
            9 => Self::AddDisk { number: DiskId(from.u32()?), disk: read_disk(from)? },
            10 => Self::SetDraining { number: DiskId(from.u32()?), draining: flag(from)? },
            11 => Self::RemoveDisk { number: DiskId(from.u32()?) },
            12 => Self::SetAlarm { percent: from.u8()? },
            _ => return Err(from.refuse("a change of an unknown kind (1 to 12)")),
        })
    }
}

fn flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(from.refuse("a flag that is neither 0 nor 1")),
    }
}

fn write_disk(out: &mut Writer, disk: &Disk) {
    out.bytes(&disk.uid.0);
    out.u32(disk.blocks);
    out.u32(disk.fast_end);
}

fn read_disk(from: &mut Reader<'_>) -> Result<Disk, Malformed> {
    let (uid, blocks, fast_end) = (DiskUid(from.array()?), from.u32()?, from.u32()?);
    Ok(Disk { uid, blocks, fast_end, draining: false })
}

fn read_plan(from: &mut Reader<'_>) -> Result<Volume, Malformed> {
    let size = Blocks(from.u32()?);
    let (layout, zone, thin) = (layout_of(from)?, zone_of(from)?, flag(from)?);
    let (seed, name, disks) = (from.u64()?, read_name(from)?, read_disks(from)?);
    Ok(Volume { name, size, layout, zone, thin, seed, disks, origin: None, columns: Vec::new() })
}
