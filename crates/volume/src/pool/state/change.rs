//! The changes that a pool's metadata go through.

use crate::location::DiskId;
use crate::pool::format::fields::{IMAGE_DISK_BYTES, IMAGE_VOLUME_BYTES, RUN_BYTES};
use crate::pool::limits::{DISKS_MAX, EXTENTS_MAX, SNAPSHOTS_MAX, VOLUMES_MAX};
use crate::pool::names::{Blocks, PoolVolumeId, Zone};
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::metadata::State;
use crate::pool::state::volume::{Disk, Volume};

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

impl Change {
    /// Bytes by which it makes an image longer, at most.
    pub(crate) fn growth(&self, state: &State) -> usize {
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
    pub(crate) fn is_of_disks(&self) -> bool {
        matches!(self, Self::AddDisk { .. } | Self::RemoveDisk { .. })
    }
}

/// Whether `changes` keep a pool within its limits.
pub(crate) fn room(state: &State, changes: &[Change]) -> bool {
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
