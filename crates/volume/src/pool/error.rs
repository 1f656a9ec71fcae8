//! What can be wrong with a pool, and what is asked of it.

use core::fmt;

use super::codec::Malformed;
use super::format::{DecodeError, Slot};
use super::names::{DiskUid, PoolUid, PoolVolumeId, Zone};
use super::state::Overlap;
use crate::DiskId;

/// Something of a pool's metadata on one disk that is damaged or missing while another copy is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which of the disks given.
    pub device: usize,
    /// What of it.
    pub what: Damage,
}

/// What is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A copy of the label.
    Label {
        /// Which.
        copy: u32,
        /// How.
        why: DecodeError,
    },
    /// The header of a slot.
    Header {
        /// Which.
        slot: Slot,
        /// How.
        why: DecodeError,
    },
    /// The image in a slot.
    Image {
        /// Which.
        slot: Slot,
    },
    /// A log cannot be read.
    Log {
        /// Which.
        slot: Slot,
    },
    /// A copy of a change.
    Record {
        /// Of which.
        sequence: u64,
        /// Which.
        copy: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label { copy: 0, why } => write!(f, "the label at its beginning {why}"),
            Self::Label { why, .. } => write!(f, "the label at its end {why}"),
            Self::Header { slot, why } => write!(f, "the header of slot {slot:?} {why}"),
            Self::Image { slot } => {
                write!(f, "the image in slot {slot:?} does not fit its checksum")
            }
            Self::Log { slot } => write!(f, "the log of slot {slot:?} cannot be read"),
            Self::Record { sequence, copy } => {
                write!(f, "copy {copy} of change {sequence} is not whole")
            }
        }
    }
}

/// Why disks do not make a pool. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// None were given. Cure: give the pool's disks.
    NoDisks,
    /// A disk has no label that is understood. Cure: leave it out, add it to the pool, or take a newer Spindle.
    NotOurs {
        /// Which of those given.
        device: usize,
        /// How its label is.
        why: DecodeError,
    },
    /// A disk is smaller than it was. Cure: give the whole disk.
    Shrunk {
        /// Which of those given.
        device: usize,
        /// Its blocks.
        blocks: u32,
        /// The blocks that the pool uses of it.
        needed: u32,
    },
    /// A disk's two labels are not one: it was half initialised, or another was copied over a part of it. Cure: leave it
    /// out, or add it to the pool again.
    TwoLabels {
        /// Which of those given.
        device: usize,
    },
    /// One disk was given twice, or a copy of it. Cure: leave one out.
    Twice {
        /// Which of those given.
        device: usize,
        /// The other.
        other: usize,
        /// Which disk it is.
        disk: DiskUid,
    },
    /// Disks of two pools were given. Cure: give those of one.
    Mixed {
        /// The first that is of another pool than the first disk.
        device: usize,
        /// The first disk's pool, and its own.
        pools: [PoolUid; 2],
    },
    /// A disk of the pool is divided otherwise than the first.
    Geometry {
        /// Which of those given.
        device: usize,
    },
    /// A disk's label and the pool's list of disks differ on its number or size.
    Label {
        /// Which of those given.
        device: usize,
    },
    /// Two disks say different things of the same moment: each was used without the other. Cure: give one of them only.
    Conflict {
        /// Of which generation.
        generation: u64,
        /// The second of the two.
        device: usize,
    },
    /// No image of the pool's metadata is whole on any disk. Cure: give more of the pool's disks.
    NoImage,
    /// An image is lost on all disks, and changes since then are there. Cure: give more of the pool's disks.
    ImageLost {
        /// Of which generation.
        generation: u64,
    },
    /// A change is lost on all disks, and a later one is there. Cure: give more of the pool's disks.
    RecordLost {
        /// Of which generation.
        generation: u64,
        /// Which change.
        sequence: u64,
    },
    /// An image fits its checksum and makes no sense.
    Image {
        /// On which of the disks given.
        device: usize,
        /// In which slot.
        slot: Slot,
        /// What of it.
        why: Malformed,
    },
    /// A change fits its checksum and makes no sense.
    Record {
        /// Which.
        sequence: u64,
        /// What of it.
        what: &'static str,
    },
    /// Two volumes have one block.
    Overlap(Overlap),
}

impl OpenError {
    /// Which of the disks given it is about, if about one.
    pub const fn device(&self) -> Option<usize> {
        match self {
            Self::NotOurs { device, .. }
            | Self::Shrunk { device, .. }
            | Self::TwoLabels { device }
            | Self::Twice { device, .. }
            | Self::Mixed { device, .. }
            | Self::Geometry { device }
            | Self::Label { device }
            | Self::Conflict { device, .. }
            | Self::Image { device, .. } => Some(*device),
            _ => None,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDisks => f.write_str("no disks: give those of the pool"),
            Self::NotOurs { why, .. } => {
                write!(f, "its label {why}: leave the disk out, or add it to the pool")
            }
            Self::Shrunk { blocks, needed, .. } => {
                write!(f, "it has {blocks} blocks of 1MiB, and the pool uses {needed} of it")
            }
            Self::TwoLabels { .. } => f.write_str(
                "its two labels differ: half initialised, or overwritten in part; leave it out, or add it again",
            ),
            Self::Twice { other, disk, .. } => {
                write!(f, "it is disk {disk}, as disk {} of those given is: leave one out", other + 1)
            }
            Self::Mixed { pools: [first, other], .. } => {
                write!(f, "it is of pool {other}, and the first disk is of pool {first}: give one pool's")
            }
            Self::Geometry { .. } => f.write_str("its slots are of another size than the first disk's"),
            Self::Label { .. } => f.write_str("the pool's list has another number or size for it"),
            Self::Conflict { generation, .. } => write!(
                f,
                "it says otherwise than another disk of generation {generation}: each was used without the other"
            ),
            Self::NoImage => {
                f.write_str("no image of the pool's metadata is whole: give more of its disks")
            }
            Self::ImageLost { generation } => write!(
                f,
                "the image of generation {generation} is lost on these disks, and changes since are there: give more of the pool's disks"
            ),
            Self::RecordLost { generation, sequence } => write!(
                f,
                "change {sequence} of generation {generation} is lost on these disks, and a later one is there: give more of the pool's disks"
            ),
            Self::Image { slot, why, .. } => {
                write!(f, "the image in slot {slot:?} fits its checksum and makes no sense: {why}")
            }
            Self::Record { sequence, what } => {
                write!(f, "change {sequence} fits its checksum and makes no sense: it {what}")
            }
            Self::Overlap(overlap) => overlap.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

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
