//! What can be wrong with the disks of a pool.

use core::fmt;

use crate::pool::format::codec::Malformed;
use crate::pool::format::geometry::Slot;
use crate::pool::format::structures::DecodeError;
use crate::pool::names::{DiskUid, PoolUid};
use crate::pool::state::metadata::Overlap;

/// Metadata on one disk that are damaged or missing while another copy is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The index among the disks given.
    pub device: usize,
    /// The damage.
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
    /// Its labels are those from before it got a checksum area.
    LabelOutdated,
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
    /// A copy of a record.
    Record {
        /// Of which.
        sequence: u64,
        /// Which.
        copy: u32,
    },
    /// A slot of the ledger of the checksum area: the checksums of the disk are unknown until its
    /// data is written.
    Ledger {
        /// Which.
        slot: u32,
        /// How.
        why: DecodeError,
    },
    /// The page of a region: its checksums are unknown until its data is written.
    Sums {
        /// Which.
        region: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label { copy: 0, why } => write!(f, "the label at its beginning {why}"),
            Self::Label { why, .. } => write!(f, "the label at its end {why}"),
            Self::LabelOutdated => {
                f.write_str("the labels are those from before it got its checksums")
            }
            Self::Header { slot, why } => write!(f, "the header of slot {slot:?} {why}"),
            Self::Image { slot } => {
                write!(f, "the image in slot {slot:?} does not fit its checksum")
            }
            Self::Log { slot } => write!(f, "the log of slot {slot:?} cannot be read"),
            Self::Record { sequence, copy } => {
                write!(f, "copy {copy} of change {sequence} is not whole")
            }
            Self::Ledger { slot, why } => write!(f, "slot {slot} of the checksums' ledger {why}"),
            Self::Sums { region } => {
                write!(f, "the page with the checksums of region {region} is damaged")
            }
        }
    }
}

/// Why disks are not a pool. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// None were given. Cure: give the pool's disks.
    NoDisks,
    /// A disk has no valid label. Cure: leave it out, add it to the pool, or use a newer Spindle.
    NotOurs {
        /// Which of those given.
        device: usize,
        /// Why its label is invalid.
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
    /// A disk's two labels differ: it was half initialised, or partly overwritten. Cure: leave it
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
    /// A disk of the pool has other slot sizes than the first.
    Geometry {
        /// Which of those given.
        device: usize,
    },
    /// A disk's label and the pool's list of disks differ on its number or size.
    Label {
        /// Which of those given.
        device: usize,
    },
    /// Two disks hold different versions of one generation: each was used without the other. Cure:
    /// give one of them only.
    Conflict {
        /// Of which generation.
        generation: u64,
        /// The second of the two.
        device: usize,
    },
    /// No image of the pool's metadata is whole on any disk. Cure: give more of the pool's disks.
    NoImage,
    /// An image is lost on all disks, and changes since then are there. Cure: give more of the
    /// pool's disks.
    ImageLost {
        /// Of which generation.
        generation: u64,
    },
    /// A record is lost on all disks, and a later one is there. Cure: give more of the pool's
    /// disks.
    RecordLost {
        /// Of which generation.
        generation: u64,
        /// Which change.
        sequence: u64,
    },
    /// An image has a valid checksum and invalid contents.
    Image {
        /// On which of the disks given.
        device: usize,
        /// In which slot.
        slot: Slot,
        /// What of it.
        why: Malformed,
    },
    /// A record has a valid checksum and invalid contents.
    Record {
        /// Which.
        sequence: u64,
        /// What of it.
        what: &'static str,
    },
    /// Two volumes have the same block.
    Overlap(Overlap),
}

impl OpenError {
    /// The index of the disk that the error is about, if about one.
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
                "its two labels differ: half initialised, or overwritten in part; leave it out, or \
                 add it again",
            ),
            Self::Twice { other, disk, .. } => {
                let other = other + 1;
                write!(f, "it is disk {disk}, as disk {other} of those given is: leave one out")
            }
            Self::Mixed { pools: [first, other], .. } => {
                write!(
                    f,
                    "it is of pool {other}, and the first disk is of pool {first}: give one pool's"
                )
            }
            Self::Geometry { .. } => {
                f.write_str("its slots are of another size than the first disk's")
            }
            Self::Label { .. } => f.write_str("the pool's list has another number or size for it"),
            Self::Conflict { generation, .. } => write!(
                f,
                "it says otherwise than another disk of generation {generation}: each was used \
                 without the other"
            ),
            Self::NoImage => {
                f.write_str("no image of the pool's metadata is whole: give more of its disks")
            }
            Self::ImageLost { generation } => write!(
                f,
                "the image of generation {generation} is lost on these disks, and later changes \
                 are present: give more of the pool's disks"
            ),
            Self::RecordLost { generation, sequence } => write!(
                f,
                "change {sequence} of generation {generation} is lost on these disks, and a later \
                 one is there: give more of the pool's disks"
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
