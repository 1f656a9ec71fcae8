//! Why an operation is refused.

use core::fmt;

use crate::location::DiskId;
use crate::pool::names::{PoolVolumeId, Zone};

/// Why an operation is not begun. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Disks of the pool are missing: it can only be read. Cure: open it with all of them.
    ReadOnly {
        /// How many.
        missing: usize,
    },
    /// A disk failed while metadata were written: what it has is not known. Cure: open the pool anew.
    Poisoned,
    /// Another operation is at the same blocks, or at the pool's list of volumes or disks. Cure: wait for its end.
    Busy,
    /// As many operations are under way as there may be. Cure: wait for one's end.
    TooMany,
    /// No volume has that number.
    NoSuchVolume(PoolVolumeId),
    /// No disk has that number.
    NoSuchDisk(DiskId),
    /// Another volume has the name. Cure: another name.
    NameTaken,
    /// A name has 1 to [`NAME_BYTES_MAX`](super::limits::NAME_BYTES_MAX) bytes without control characters.
    Name,
    /// A size of nothing, or beyond the limits; blocks behind the volume's end.
    Size,
    /// No disks, too many, or one twice.
    Disks,
    /// A disk is being emptied. Cure: another one.
    Draining(DiskId),
    /// The disks have too few free blocks. Cure: free some, another zone, or more disks.
    NoSpace {
        /// The disk that was asked last.
        disk: DiskId,
        /// On which part of it.
        zone: Zone,
        /// How many blocks are missing.
        missing: u32,
    },
    /// The metadata have no room for more volumes, disks or extents. Cure: remove some; a new pool has larger slots.
    MetadataFull,
    /// It is a snapshot, which only is read, rolled back to and removed.
    IsSnapshot,
    /// It is no snapshot.
    NotSnapshot,
    /// It has snapshots. Cure: remove those first.
    HasSnapshots,
    /// Only a thin volume gives blocks back.
    NotThin,
    /// The disk still has blocks, or volumes that are to lie on it. Cure: empty it first.
    InUse {
        /// How many blocks.
        blocks: u32,
    },
    /// The pool has no other disk for what lies on this one.
    LastDisk,
    /// The disk is of the pool already.
    Known,
    /// The disk is too small for the metadata and a block.
    TooSmall {
        /// Blocks that it is to have at least.
        blocks: u32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly { missing } => {
                write!(f, "{missing} of the pool's disks are missing: it can only be read")
            }
            Self::Poisoned => f.write_str("a disk failed under the metadata: open the pool anew"),
            Self::Busy => f.write_str("another operation is at it: wait for its end"),
            Self::TooMany => f.write_str("too many operations are under way: wait for one's end"),
            Self::NoSuchVolume(id) => write!(f, "no volume has number {}", id.0),
            Self::NoSuchDisk(id) => write!(f, "no disk has number {}", id.0),
            Self::NameTaken => f.write_str("another volume has the name"),
            Self::Name => f.write_str("a name has 1 to 255 bytes, none of them control characters"),
            Self::Size => f.write_str("a volume has 1 to 2147483648 blocks of 1MiB"),
            Self::Disks => f.write_str("a volume has 1 to 64 disks, each once"),
            Self::Draining(id) => write!(f, "disk {} is being emptied: name another", id.0),
            Self::NoSpace { disk, zone, missing } => {
                let zone = match zone {
                    Zone::Fast => "the fast part of ",
                    Zone::Slow => "the slow part of ",
                    Zone::Any => "",
                };
                write!(f, "{missing} blocks of 1MiB do not fit {zone}disk {}", disk.0)
            }
            Self::MetadataFull => f.write_str("the metadata have no room for more extents"),
            Self::IsSnapshot => f.write_str("it is a snapshot, which is only read"),
            Self::NotSnapshot => f.write_str("it is no snapshot"),
            Self::HasSnapshots => f.write_str("it has snapshots: remove those first"),
            Self::NotThin => f.write_str("only a thin volume gives blocks back"),
            Self::InUse { blocks } => {
                write!(f, "{blocks} blocks lie on it, or are to: empty it first")
            }
            Self::LastDisk => f.write_str("the pool has no other disk for what lies on it"),
            Self::Known => f.write_str("the disk is of the pool already"),
            Self::TooSmall { blocks } => write!(f, "a disk of this pool has at least {blocks}MiB"),
        }
    }
}

impl core::error::Error for Refusal {}
