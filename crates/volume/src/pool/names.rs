//! Who is who in a pool, and the words of its volumes.

use core::fmt;

use units::{Extent, Lba, Sectors};

use crate::location::DiskId;
use crate::pool::limits::BLOCK_SECTORS;

/// A pool's identity: 128 bits of chance, from whoever creates it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolUid(pub [u8; 16]);

/// A disk's identity: 128 bits of chance, from whoever adds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskUid(pub [u8; 16]);

/// A volume or snapshot of a pool. A number is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolVolumeId(pub u32);

/// A count of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocks(pub u32);

impl Blocks {
    /// Their sectors.
    pub fn sectors(self) -> Sectors {
        Sectors(u64::from(self.0) * BLOCK_SECTORS.0)
    }
}

/// A block of a volume, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeBlock(pub u32);

/// A run of blocks on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockExtent {
    /// Which disk.
    pub disk: DiskId,
    /// Its first block.
    pub block: u32,
    /// How many.
    pub len: u32,
}

impl BlockExtent {
    /// The first block behind it.
    pub const fn end(self) -> u32 {
        self.block + self.len
    }

    /// Its sectors on the disk.
    pub fn extent(self) -> Extent {
        let start = Lba(u64::from(self.block) * BLOCK_SECTORS.0);
        Extent::new(start, Blocks(self.len).sectors())
    }
}

/// How a volume's blocks follow each other over its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One disk after the other: the next is used when the one before is full.
    Single,
    /// In rotation: block n on disk n modulo their count.
    Stripe,
    /// Each block on a disk and at a place that the volume's seed and the block's number say.
    Random,
}

/// On which part of a disk a volume's blocks lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The first part, which passes more sectors a turn.
    Fast,
    /// The rest.
    Slow,
    /// Where there is room, in the slow part first: the fast one is for those who ask for it.
    Any,
}

fn hex(id: [u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for PoolUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

impl fmt::Display for DiskUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

impl fmt::Debug for PoolUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolUid({self})")
    }
}

impl fmt::Debug for DiskUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskUid({self})")
    }
}
