//! The changes of a pool's metadata.

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
    /// A new volume, without blocks.
    Create {
        /// Its number: the next one.
        id: PoolVolumeId,
        /// Its properties: without columns or origin.
        volume: Volume,
    },
    /// A new size; blocks behind it are unmapped.
    Resize {
        /// Which.
        id: PoolVolumeId,
        /// Its new size.
        size: Blocks,
    },
    /// Removes a volume without snapshots, or a snapshot.
    Remove {
        /// Which.
        id: PoolVolumeId,
    },
    /// Maps rows; the blocks that they were mapped to are unmapped.
    Map {
        /// The volume.
        id: PoolVolumeId,
        /// The column.
        column: u32,
        /// The mapping.
        run: Mapping,
    },
    /// Unmaps rows.
    Unmap {
        /// The volume.
        id: PoolVolumeId,
        /// The column.
        column: u32,
        /// The first row.
        row: u32,
        /// The number of rows.
        rows: u32,
    },
    /// Takes a snapshot.
    Snapshot {
        /// The snapshot's number: the next one.
        id: PoolVolumeId,
        /// The volume.
        origin: PoolVolumeId,
        /// The snapshot's name.
        name: String,
    },
    /// A new volume with the blocks and the size of a volume or snapshot, of its group.
    Clone {
        /// Its number: the next one.
        id: PoolVolumeId,
        /// The volume or snapshot.
        source: PoolVolumeId,
        /// Its name.
        name: String,
    },
    /// Restores a volume's blocks and size from its snapshot.
    RollBack {
        /// Which snapshot.
        snapshot: PoolVolumeId,
    },
    /// A new placement. The blocks are moved one by one.
    SetPlacement {
        /// Which.
        id: PoolVolumeId,
        /// The zone.
        zone: Zone,
        /// The disks.
        disks: Vec<DiskId>,
    },
    /// Adds a disk.
    AddDisk {
        /// Its number: the next one.
        number: DiskId,
        /// The disk.
        disk: Disk,
    },
    /// Drains a disk, or cancels that.
    SetDraining {
        /// Which.
        number: DiskId,
        /// Whether it is drained.
        draining: bool,
    },
    /// Removes an empty disk.
    RemoveDisk {
        /// Which.
        number: DiskId,
    },
    /// A new alarm level.
    SetAlarm {
        /// Percent of the pool's blocks.
        percent: u8,
    },
}

impl Change {
    /// The bytes by which it can extend an image.
    pub(crate) fn growth(&self, state: &State) -> usize {
        let extents = |id| state.volume(id).map_or(0, |volume| volume.extents() * RUN_BYTES);
        let columns = IMAGE_VOLUME_BYTES + DISKS_MAX * 4;
        match self {
            Self::Create { .. } => columns,
            // The new mapping, and the second part of the one that it splits.
            Self::Map { .. } => 2 * RUN_BYTES,
            Self::Unmap { .. } => RUN_BYTES,
            Self::Snapshot { origin: from, .. } | Self::Clone { source: from, .. } => {
                columns + extents(*from)
            }
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

    /// Whether it changes the set of disks.
    pub(crate) fn is_of_disks(&self) -> bool {
        matches!(self, Self::AddDisk { .. } | Self::RemoveDisk { .. })
    }
}

/// Whether the pool stays within its limits after `changes`.
pub(crate) fn room(state: &State, changes: &[Change]) -> bool {
    let more = |change: &Change| {
        matches!(change, Change::Create { .. } | Change::Snapshot { .. } | Change::Clone { .. })
    };
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
