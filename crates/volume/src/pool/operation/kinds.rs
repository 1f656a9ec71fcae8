//! The operations of a pool, and what each locks.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::names::{Blocks, DiskUid, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::metadata::State;
use crate::pool::state::scrub::ScrubRecord;

/// The specification of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: Blocks,
    /// How its blocks are distributed over its disks.
    pub layout: Layout,
    /// The zone of its disks.
    pub zone: Zone,
    /// Whether blocks are allocated when they are first written.
    pub thin: bool,
    /// Whether checksums of its data are kept, on disks that have an area for them.
    pub has_sums: bool,
    /// The seed of a random layout.
    pub seed: u64,
    /// Its disks.
    pub disks: Vec<DiskId>,
}

/// An operation on a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a volume.
    Create(NewVolume),
    /// Creates a volume of a single layout that has a given number of blocks on each of its disks.
    CreateInParts {
        /// The volume.
        volume: NewVolume,
        /// The number of blocks on each of its disks, in their order.
        parts: Vec<Blocks>,
    },
    /// Extends or truncates a volume.
    Resize {
        /// Which.
        volume: PoolVolumeId,
        /// Its new size.
        size: Blocks,
    },
    /// Removes a volume without snapshots, or a snapshot.
    Remove {
        /// Which.
        volume: PoolVolumeId,
    },
    /// Prepares blocks for a write: unallocated blocks are allocated, blocks shared with a snapshot
    /// are copied.
    Allocate {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// Deallocates blocks of a thin volume.
    Trim {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// Takes a snapshot. The volume's writes are quiesced until the operation ends.
    Snapshot {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The snapshot's name.
        name: String,
    },
    /// Makes a volume with the content of a volume or snapshot: the two share blocks until one of
    /// them writes. It has the placement of its source. The writes of the source are quiesced until
    /// the operation ends.
    Clone {
        /// The volume or snapshot.
        source: PoolVolumeId,
        /// The clone's name.
        name: String,
        /// The clone's size: at least that of the source.
        size: Blocks,
    },
    /// Restores a volume from its snapshot, size included. The volume is quiesced until the
    /// operation ends.
    RollBack {
        /// Which snapshot.
        snapshot: PoolVolumeId,
    },
    /// Changes a volume's placement; [`Pool::misplaced`](crate::pool::Pool::misplaced) tells which
    /// blocks do not follow it.
    Relocate {
        /// The volume; the others of its group move with it.
        volume: PoolVolumeId,
        /// The zone.
        zone: Zone,
        /// The disks; as many as before for a stripe.
        disks: Vec<DiskId>,
    },
    /// Moves a block to where its volume's placement wants it. Writes to it are quiesced until the
    /// operation ends.
    Move {
        /// Of which volume.
        volume: PoolVolumeId,
        /// Which.
        block: VolumeBlock,
    },
    /// Adds a disk.
    AddDisk {
        /// Which.
        uid: DiskUid,
        /// Its size in blocks.
        blocks: u32,
    },
    /// Drains a disk: its volumes are placed on others.
    DrainDisk {
        /// Which.
        disk: DiskId,
    },
    /// Cancels the draining of a disk. Moved blocks stay where they are.
    KeepDisk {
        /// Which.
        disk: DiskId,
    },
    /// Removes an empty disk; its labels are wiped.
    RemoveDisk {
        /// Which.
        disk: DiskId,
    },
    /// Sets the level at which the alarm is raised.
    SetAlarm {
        /// Percent of the pool's blocks.
        percent: u8,
    },
    /// Marks a mirror as one that clients may write to.
    Open {
        /// Which.
        volume: PoolVolumeId,
    },
    /// Marks every mirror whose copies are equal as one that no client has written to since. All
    /// writes are quiesced until the operation ends.
    Close,
    /// Marks copies on disks that are out as stale, before these blocks are written.
    MarkStale {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// Makes the copies of blocks equal. Writes to them are quiesced until the operation ends.
    Resync {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// Forgets the stale blocks of a disk that no mirror has any more.
    ForgetStale {
        /// Which.
        disk: DiskId,
    },
    /// Takes a disk back that was taken out.
    TakeBack {
        /// Which.
        disk: DiskId,
    },
    /// Gives the place of a disk that is out to another device, of at least its size.
    ReplaceDisk {
        /// Which.
        disk: DiskId,
        /// The identity of the device.
        uid: DiskUid,
        /// Its size in blocks.
        blocks: u32,
    },
    /// Stores how far a scrub has read, and what it has found.
    RecordScrub {
        /// The record.
        scrub: ScrubRecord,
    },
    /// Writes the pool in the newest version of the format from here on. Older versions of Spindle
    /// refuse it then.
    Upgrade,
    /// Gives each disk a checksum area, in place of its last blocks, which are free
    /// ([`Pool::reserve_areas`](crate::pool::Pool::reserve_areas)), and upgrades the pool. What was
    /// written before has unknown checksums. No request may be in progress.
    AddSums {
        /// The blocks of each disk beside its area
        /// ([`blocks_with_area`](crate::pool::sums::blocks_with_area)).
        areas: BTreeMap<DiskId, Blocks>,
    },
}

/// What an operation has exclusively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// The whole pool.
    Pool,
    /// The list of volumes.
    Table,
    /// The volumes and snapshots of a group.
    Group(PoolVolumeId),
    /// Some blocks of the volumes and snapshots of a group.
    Blocks(PoolVolumeId, Range<u32>),
    /// The record of the scrub.
    Scrub,
}

impl Lock {
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pool, _)
            | (_, Self::Pool)
            | (Self::Table, Self::Table)
            | (Self::Scrub, Self::Scrub) => true,
            (Self::Blocks(one, first), Self::Blocks(two, second)) => {
                one == two && first.start < second.end && second.start < first.end
            }
            (Self::Group(one) | Self::Blocks(one, _), Self::Group(two) | Self::Blocks(two, _)) => {
                one == two
            }
            _ => false,
        }
    }
}

impl Operation {
    /// The locks that the operation needs.
    pub(crate) fn locks(&self, state: &State) -> Result<Vec<Lock>, Refusal> {
        let family = |id: &PoolVolumeId| match state.volume(*id) {
            Some(_) => Ok(state.group_of(*id)),
            None => Err(Refusal::NoSuchVolume(*id)),
        };
        let blocks = |id: &PoolVolumeId, first: &VolumeBlock, count: &Blocks| {
            let end = first.0.checked_add(count.0).ok_or(Refusal::Size)?;
            let volume = state.volume(*id).ok_or(Refusal::NoSuchVolume(*id))?;
            if volume.origin.is_some() {
                return Err(Refusal::IsSnapshot);
            }
            if count.0 == 0 || end > volume.size.0 {
                return Err(Refusal::Size);
            }
            Ok(vec![Lock::Blocks(volume.group, first.0..end)])
        };
        match self {
            Self::Create(_) | Self::CreateInParts { .. } => Ok(vec![Lock::Table]),
            Self::Snapshot { volume, .. }
            | Self::Clone { source: volume, .. }
            | Self::Remove { volume } => Ok(vec![Lock::Table, Lock::Group(family(volume)?)]),
            Self::Resize { volume, size } => {
                let before = state.volume(*volume).ok_or(Refusal::NoSuchVolume(*volume))?.size;
                // The blocks that remain stay in use.
                Ok(vec![Lock::Blocks(family(volume)?, before.0.min(size.0)..u32::MAX)])
            }
            Self::Relocate { volume, .. } | Self::RollBack { snapshot: volume } => {
                Ok(vec![Lock::Group(family(volume)?)])
            }
            Self::Allocate { volume, first, count } | Self::Trim { volume, first, count } => {
                blocks(volume, first, count)
            }
            // It changes a mark alone, and waits for nothing but what has the volume as a whole.
            Self::Open { volume } => Ok(vec![Lock::Blocks(family(volume)?, 0..0)]),
            Self::MarkStale { volume, first, count } => blocks(volume, first, count),
            Self::Resync { volume, first, count } => {
                let size = state.volume(*volume).ok_or(Refusal::NoSuchVolume(*volume))?.size;
                match first.0.checked_add(count.0) {
                    Some(end) if count.0 > 0 && end <= size.0 => {
                        Ok(vec![Lock::Blocks(family(volume)?, first.0..end)])
                    }
                    _ => Err(Refusal::Size),
                }
            }
            Self::Move { volume, block } => {
                let size = state.volume(*volume).ok_or(Refusal::NoSuchVolume(*volume))?.size;
                if block.0 >= size.0 {
                    return Err(Refusal::Size);
                }
                Ok(vec![Lock::Blocks(family(volume)?, block.0..block.0 + 1)])
            }
            Self::RecordScrub { .. } => Ok(vec![Lock::Scrub]),
            Self::AddDisk { .. }
            | Self::DrainDisk { .. }
            | Self::KeepDisk { .. }
            | Self::RemoveDisk { .. }
            | Self::SetAlarm { .. }
            | Self::Close
            | Self::ForgetStale { .. }
            | Self::TakeBack { .. }
            | Self::ReplaceDisk { .. }
            | Self::AddSums { .. }
            | Self::Upgrade => Ok(vec![Lock::Pool]),
        }
    }
}
