//! The changes of a pool's metadata.

use crate::location::DiskId;
use crate::pool::format::fields::{
    IMAGE_DISK_BYTES, IMAGE_VOLUME_BYTES, RUN_BYTES, SCRUB_BYTES, STALE_BYTES, VERSION_SCRUB,
};
use crate::pool::limits::{DISKS_MAX, EXTENTS_MAX, SNAPSHOTS_MAX, STALE_RUNS_MAX, VOLUMES_MAX};
use crate::pool::names::{BlockExtent, Blocks, DiskUid, PoolVolumeId, Zone};
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::metadata::State;
use crate::pool::state::scrub::ScrubRecord;
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
    /// Blocks miss a write, or may: they are not read.
    Stale {
        /// Which.
        blocks: BlockExtent,
    },
    /// Blocks are equal to the other copies again, or were allocated.
    Fresh {
        /// Which.
        blocks: BlockExtent,
    },
    /// Clients may write to a mirror from here on, or its copies are equal.
    SetOpen {
        /// Which.
        id: PoolVolumeId,
        /// Whether clients may write.
        open: bool,
    },
    /// Takes a disk out: the pool goes on without it.
    TakeOut {
        /// Which.
        number: DiskId,
        /// Whether it has blocks that may differ and are not stale.
        doubtful: bool,
    },
    /// Takes a disk back; its stale blocks stay stale.
    TakeBack {
        /// Which.
        number: DiskId,
    },
    /// Gives the place of a disk that is out to another device.
    Replace {
        /// Which.
        number: DiskId,
        /// The identity of the device.
        uid: DiskUid,
    },
    /// How far a scrub has read, and what it has found.
    Scrub {
        /// The record.
        scrub: ScrubRecord,
    },
    /// Gives a disk a checksum area, in place of its last blocks.
    AddSums {
        /// Which.
        number: DiskId,
        /// The blocks that are left.
        blocks: Blocks,
    },
    /// Writes the pool in a newer version of the format from here on.
    Upgrade {
        /// Which.
        version: u32,
    },
}

impl Change {
    /// The bytes by which it can extend an image.
    pub(crate) fn growth(&self, state: &State) -> usize {
        let extents = |id| state.volume(id).map_or(0, |volume| volume.extents() * RUN_BYTES);
        let head = |columns: usize| IMAGE_VOLUME_BYTES + columns * 4;
        let columns = |id| state.volume(id).map_or(0, |volume| head(volume.columns.len()));
        match self {
            Self::Create { volume, .. } => head(volume.layout.columns(volume.disks.len())),
            // The new mapping, and the second part of the one that it splits.
            Self::Map { .. } => 2 * RUN_BYTES,
            Self::Unmap { .. } => RUN_BYTES,
            Self::Snapshot { origin: from, .. } | Self::Clone { source: from, .. } => {
                columns(*from) + extents(*from)
            }
            // A new run, or the second part of the one that it splits.
            Self::Stale { .. } | Self::Fresh { .. } => STALE_BYTES,
            Self::RollBack { snapshot } => extents(*snapshot),
            Self::AddDisk { .. } => IMAGE_DISK_BYTES,
            Self::Upgrade { .. } if state.version < VERSION_SCRUB => SCRUB_BYTES,
            Self::Resize { .. }
            | Self::Remove { .. }
            | Self::SetPlacement { .. }
            | Self::SetDraining { .. }
            | Self::RemoveDisk { .. }
            | Self::SetAlarm { .. }
            | Self::SetOpen { .. }
            | Self::TakeOut { .. }
            | Self::TakeBack { .. }
            | Self::Replace { .. }
            | Self::Scrub { .. }
            | Self::AddSums { .. }
            | Self::Upgrade { .. } => 0,
        }
    }

    /// Whether it changes the set of disks that have the pool's metadata, or their version.
    pub(crate) fn is_of_disks(&self) -> bool {
        matches!(
            self,
            Self::AddDisk { .. }
                | Self::RemoveDisk { .. }
                | Self::TakeOut { .. }
                | Self::TakeBack { .. }
                | Self::Replace { .. }
                | Self::AddSums { .. }
                | Self::Upgrade { .. }
        )
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
    let is_stale = |change: &&Change| matches!(change, Change::Stale { .. } | Change::Fresh { .. });
    let stale = changes.iter().filter(is_stale).count();
    let others = changes.iter().filter(|change| !is_stale(change));
    let extents: usize = others.map(|change| change.growth(state) / RUN_BYTES).sum();
    state.volumes.len() + volumes <= VOLUMES_MAX
        && state.disks.len() + disks <= DISKS_MAX
        && snapshots <= SNAPSHOTS_MAX
        && state.extents() + extents <= EXTENTS_MAX
        && (stale == 0 || state.stale_runs() + stale <= STALE_RUNS_MAX)
}
