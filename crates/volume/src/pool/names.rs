//! The identifiers of a pool, and the properties of its volumes.

use core::fmt;

use units::{Extent, Lba, Sectors};

use crate::location::DiskId;
use crate::pool::limits::BLOCK_SECTORS;

/// A pool's identity: 128 random bits, drawn by its creator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolUid(pub [u8; 16]);

/// A disk's identity: 128 random bits, drawn when it is added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskUid(pub [u8; 16]);

/// A volume or snapshot of a pool. Numbers are never reused.
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

/// A block of a volume, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeBlock(pub u32);

/// Consecutive blocks on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockExtent {
    /// Which disk.
    pub disk: DiskId,
    /// Its first block.
    pub block: u32,
    /// The number of blocks.
    pub len: u32,
}

impl BlockExtent {
    /// The first block behind it.
    pub const fn end(self) -> u32 {
        debug_assert!(self.block.checked_add(self.len).is_some(), "blocks of a disk");
        self.block + self.len
    }

    /// Its sectors on the disk.
    pub fn extent(self) -> Extent {
        let start = Lba(u64::from(self.block) * BLOCK_SECTORS.0);
        let extent = Extent::new(start, Blocks(self.len).sectors());
        debug_assert_eq!(extent.end().0, u64::from(self.end()) * BLOCK_SECTORS.0);
        extent
    }
}

/// How a volume's blocks are distributed over its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One disk after the other: the next is used when the one before is full.
    Single,
    /// Round-robin: block n on disk n modulo their number.
    Stripe,
    /// Each block on a disk and at a location drawn from the volume's seed and the block's number.
    Random,
}

/// The zone of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The first half, which passes more sectors per revolution.
    Fast,
    /// The second half.
    Slow,
    /// Either, the slow zone first: the fast one is for volumes that ask for it.
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
