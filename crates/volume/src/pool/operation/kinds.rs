//! What can be asked of a pool, and what each operation locks.

use std::ops::Range;

use crate::location::DiskId;
use crate::pool::names::{Blocks, DiskUid, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::metadata::State;

/// A volume that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// What it is called.
    pub name: String,
    /// Its size.
    pub size: Blocks,
    /// How its blocks follow each other.
    pub layout: Layout,
    /// On which part of its disks.
    pub zone: Zone,
    /// Whether blocks appear when they are first written.
    pub thin: bool,
    /// What a random layout follows from.
    pub seed: u64,
    /// On which disks.
    pub disks: Vec<DiskId>,
}

/// Something to do to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new volume.
    Create(NewVolume),
    /// A volume grows, or loses its tail.
    Resize {
        /// Which.
        volume: PoolVolumeId,
        /// Its new size.
        size: Blocks,
    },
    /// A volume without snapshots, or a snapshot, goes.
    Remove {
        /// Which.
        volume: PoolVolumeId,
    },
    /// Blocks are about to be written: those that lie nowhere get a place, those that a snapshot shares a copy.
    Allocate {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// Blocks of a thin volume are no longer needed.
    Trim {
        /// Of which volume.
        volume: PoolVolumeId,
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// What a volume holds is kept. Its writes are to rest until this is finished.
    Snapshot {
        /// Of which volume.
        volume: PoolVolumeId,
        /// What it is called.
        name: String,
    },
    /// A volume holds again what its snapshot holds, its size included. It is to rest until this is finished.
    RollBack {
        /// Which snapshot.
        snapshot: PoolVolumeId,
    },
    /// A volume's blocks are to lie elsewhere; [`Pool::misplaced`] says which do not.
    Relocate {
        /// Which volume; its snapshots go with it.
        volume: PoolVolumeId,
        /// On which part of the disks.
        zone: Zone,
        /// On which disks; as many as before for a stripe.
        disks: Vec<DiskId>,
    },
    /// A block goes to where it is to lie. Its writes are to rest until this is finished.
    Move {
        /// Of which volume.
        volume: PoolVolumeId,
        /// Which.
        block: VolumeBlock,
    },
    /// A disk joins.
    AddDisk {
        /// Which.
        uid: DiskUid,
        /// How many blocks it has.
        blocks: u32,
    },
    /// A disk is to be emptied: its volumes are to lie on others.
    DrainDisk {
        /// Which.
        disk: DiskId,
    },
    /// A disk that was to be emptied stays. What has been laid elsewhere stays there.
    KeepDisk {
        /// Which.
        disk: DiskId,
    },
    /// An empty disk goes; its labels are wiped.
    RemoveDisk {
        /// Which.
        disk: DiskId,
    },
    /// The alarm is raised at another level.
    SetAlarm {
        /// Hundredths of the pool's blocks.
        percent: u8,
    },
}

/// What an operation must have for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Everything.
    Pool,
    /// The list of volumes.
    Table,
    /// A volume and its snapshots.
    Family(PoolVolumeId),
    /// Some blocks of them.
    Blocks(PoolVolumeId, Range<u32>),
}

impl Lock {
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pool, _) | (_, Self::Pool) | (Self::Table, Self::Table) => true,
            (Self::Blocks(one, first), Self::Blocks(two, second)) => {
                one == two && first.start < second.end && second.start < first.end
            }
            (
                Self::Family(one) | Self::Blocks(one, _),
                Self::Family(two) | Self::Blocks(two, _),
            ) => one == two,
            _ => false,
        }
    }
}

impl Operation {
    /// What it must have for itself.
    pub(crate) fn locks(&self, state: &State) -> Result<Vec<Lock>, Refusal> {
        let family = |id: &PoolVolumeId| match state.volume(*id) {
            Some(_) => Ok(state.family(*id)),
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
            Ok(vec![Lock::Blocks(*id, first.0..end)])
        };
        match self {
            Self::Create(_) => Ok(vec![Lock::Table]),
            Self::Snapshot { volume, .. } | Self::Remove { volume } => {
                Ok(vec![Lock::Table, Lock::Family(family(volume)?)])
            }
            Self::Resize { volume, size } => {
                let before = state.volume(*volume).ok_or(Refusal::NoSuchVolume(*volume))?.size;
                // What stays goes on being used.
                Ok(vec![Lock::Blocks(family(volume)?, before.0.min(size.0)..u32::MAX)])
            }
            Self::Relocate { volume, .. } | Self::RollBack { snapshot: volume } => {
                Ok(vec![Lock::Family(family(volume)?)])
            }
            Self::Allocate { volume, first, count } | Self::Trim { volume, first, count } => {
                blocks(volume, first, count)
            }
            Self::Move { volume, block } => {
                let size = state.volume(*volume).ok_or(Refusal::NoSuchVolume(*volume))?.size;
                if block.0 >= size.0 {
                    return Err(Refusal::Size);
                }
                Ok(vec![Lock::Blocks(family(volume)?, block.0..block.0 + 1)])
            }
            Self::AddDisk { .. }
            | Self::DrainDisk { .. }
            | Self::KeepDisk { .. }
            | Self::RemoveDisk { .. }
            | Self::SetAlarm { .. } => Ok(vec![Lock::Pool]),
        }
    }
}
