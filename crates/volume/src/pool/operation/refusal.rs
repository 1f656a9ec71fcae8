//! Why an operation is refused.

use core::fmt;

use crate::location::DiskId;
use crate::pool::names::{Blocks, PoolVolumeId, Zone};

/// Why an operation is refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Disks of the pool are missing: it is read-only. Cure: open it with all of them.
    ReadOnly {
        /// The number of missing disks.
        missing: usize,
    },
    /// A disk failed during a commit: its contents are unknown. Cure: open the pool again.
    Poisoned,
    /// An operation in progress has the same blocks, or the pool's list of volumes or disks. Cure:
    /// wait for its end.
    Busy,
    /// [`OPERATIONS_MAX`](crate::pool::limits::OPERATIONS_MAX) operations are in progress. Cure:
    /// wait for one's end.
    TooMany,
    /// No volume has that number.
    NoSuchVolume(PoolVolumeId),
    /// No disk has that number.
    NoSuchDisk(DiskId),
    /// Another volume has the name. Cure: another name.
    NameTaken,
    /// A name has 1 to [`NAME_BYTES_MAX`](crate::pool::limits::NAME_BYTES_MAX) bytes without
    /// control characters.
    Name,
    /// A size of zero or beyond the limits, or blocks behind the volume's end.
    Size,
    /// No disks, too many, or one twice.
    Disks,
    /// Parts that are not those of a single layout with all of its blocks: one for each disk, each
    /// of at least a block, together the volume's size.
    Parts,
    /// The disk is being drained. Cure: name another one.
    Draining(DiskId),
    /// The disks have too few free blocks. Cure: free some, another zone, or more disks.
    NoSpace {
        /// The disk that was tried last.
        disk: DiskId,
        /// The zone.
        zone: Zone,
        /// The number of missing blocks.
        missing: u32,
    },
    /// The metadata slots have no space for more volumes, disks or extents. Cure: remove some; a
    /// new pool has larger slots.
    MetadataFull,
    /// It is a snapshot: those are read, rolled back to and removed only.
    IsSnapshot,
    /// It is not a snapshot.
    NotSnapshot,
    /// It has snapshots. Cure: remove those first.
    HasSnapshots,
    /// A clone has at least the size of its source.
    SmallerThanSource {
        /// The size of the source.
        blocks: Blocks,
    },
    /// Only a thin volume deallocates blocks.
    NotThin,
    /// The disk has allocated blocks, or volumes that are placed on it. Cure: drain it first.
    InUse {
        /// The number of blocks.
        blocks: u32,
    },
    /// The pool has no other disk for the volumes of this one.
    LastDisk,
    /// The disk belongs to the pool already.
    Known,
    /// The pool is of an older version of the format. Cure: upgrade it.
    OldFormat,
    /// It is of the newest version already.
    Newest,
    /// The disks have checksum areas already.
    HasSums,
    /// Blocks of a disk are in use where its checksum area would lie. Cure: move them.
    AreaInUse {
        /// The disk.
        disk: DiskId,
        /// The number of blocks.
        blocks: u32,
    },
    /// The disk was taken out. Cure: take it back, or replace it.
    Out(DiskId),
    /// The disk is in.
    In(DiskId),
    /// The other disks lack whole copies of blocks. Cure: take the disks back that have them.
    OnlyCopy {
        /// The number of blocks.
        blocks: u32,
    },
    /// A mirror has at least as many disks as copies, and at most three copies. Cure: more disks.
    FewerThanCopies,
    /// Two copies of a block would be in one failure domain. Cure: disks of more domains.
    SharedDomain,
    /// Blocks of the mirror are still moved to where they are placed. Cure: wait for the end.
    Moving,
    /// The pool is being scrubbed already.
    Scrubbing,
    /// The pool is not being scrubbed.
    NotScrubbing,
    /// The disk is too small for the metadata and a block.
    TooSmall {
        /// The least number of blocks.
        blocks: u32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly { missing } => {
                write!(f, "{missing} of the pool's disks are missing: it can only be read")
            }
            Self::Poisoned => f.write_str("a disk failed under the metadata: open the pool again"),
            Self::Busy => f.write_str("another operation is at it: wait for its end"),
            Self::TooMany => f.write_str("too many operations are under way: wait for one's end"),
            Self::NoSuchVolume(id) => write!(f, "no volume has number {}", id.0),
            Self::NoSuchDisk(id) => write!(f, "no disk has number {}", id.0),
            Self::NameTaken => f.write_str("another volume has the name"),
            Self::Name => f.write_str("a name has 1 to 255 bytes, none of them control characters"),
            Self::Size => f.write_str("a volume has 1 to 2147483648 blocks of 1MiB"),
            Self::Disks => f.write_str("a volume has 1 to 64 disks, each once"),
            Self::Parts => f.write_str(
                "parts are of a single layout that is not thin: a block or more on each disk, \
                 together the volume's size",
            ),
            Self::Draining(id) => write!(f, "disk {} is being emptied: name another", id.0),
            Self::NoSpace { disk, zone, missing } => {
                let zone = match zone {
                    Zone::Fast => "the fast part of ".to_owned(),
                    Zone::Slow => "the slow part of ".to_owned(),
                    Zone::Any => String::new(),
                    Zone::Fastest(part) => format!("the fastest {}% of ", part.number()),
                };
                write!(f, "{missing} blocks of 1MiB do not fit {zone}disk {}", disk.0)
            }
            Self::MetadataFull => f.write_str("the metadata have no room for more extents"),
            Self::IsSnapshot => f.write_str("it is a snapshot, which is only read"),
            Self::NotSnapshot => f.write_str("it is no snapshot"),
            Self::HasSnapshots => f.write_str("it has snapshots: remove those first"),
            Self::SmallerThanSource { blocks } => {
                write!(f, "a clone has at least the {} MiB of its source", blocks.0)
            }
            Self::NotThin => f.write_str("only a thin volume gives blocks back"),
            Self::InUse { blocks } => {
                write!(f, "{blocks} blocks lie on it, or are to: empty it first")
            }
            Self::LastDisk => f.write_str("the pool has no other disk for what lies on it"),
            Self::Known => f.write_str("the disk is of the pool already"),
            Self::OldFormat => f.write_str("the pool is of an older format: upgrade it first"),
            Self::HasSums => f.write_str("the pool has checksums already"),
            Self::AreaInUse { disk, blocks } => write!(
                f,
                "{blocks} blocks of 1MiB of disk {} are in use where its checksums would be",
                disk.0
            ),
            Self::Newest => f.write_str("the pool is of the newest format already"),
            Self::Out(id) => write!(f, "disk {} was taken out: take it back, or replace it", id.0),
            Self::In(id) => write!(f, "disk {} is in", id.0),
            Self::OnlyCopy { blocks } => write!(f, "no other disk has {blocks} of its blocks"),
            Self::FewerThanCopies => f.write_str("a mirror has at least as many disks as copies"),
            Self::SharedDomain => f.write_str(
                "two copies of a block would be in one failure domain: name disks of more domains",
            ),
            Self::Moving => f.write_str("its blocks are still moved: wait for the end"),
            Self::Scrubbing => f.write_str("the pool is being scrubbed already"),
            Self::NotScrubbing => f.write_str("the pool is not being scrubbed"),
            Self::TooSmall { blocks } => write!(f, "a disk of this pool has at least {blocks}MiB"),
        }
    }
}

impl core::error::Error for Refusal {}
