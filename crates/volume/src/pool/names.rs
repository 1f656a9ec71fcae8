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

/// The number of copies of a mirror: 2 or 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies(u8);

impl Copies {
    /// The most.
    pub const MAX: u8 = 3;
    /// Two: what a mirror has unless it is told otherwise.
    pub const DEFAULT: Self = Self(2);

    /// That number, if a mirror can have it.
    pub const fn new(copies: u8) -> Option<Self> {
        if copies >= 2 && copies <= Self::MAX { Some(Self(copies)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn code(self) -> u8 {
        self.0
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
    /// Each block on several disks. With as many disks as copies each disk has all blocks; with
    /// more, block n is on disk n modulo their number and on those that follow it.
    Mirror(Copies),
}

impl Layout {
    /// The number of copies of a block.
    pub const fn copies(self) -> usize {
        match self {
            Self::Single | Self::Stripe | Self::Random => 1,
            Self::Mirror(copies) => copies.number(),
        }
    }

    /// Whether blocks have several copies.
    pub const fn is_mirror(self) -> bool {
        matches!(self, Self::Mirror(_))
    }

    /// Whether a volume keeps its number of disks.
    pub const fn keeps_width(self) -> bool {
        matches!(self, Self::Stripe | Self::Mirror(_))
    }

    /// The number of columns that the blocks of a volume on `disks` disks are dealt to.
    pub(crate) const fn width(self, disks: usize) -> usize {
        match self {
            Self::Single | Self::Random => 1,
            Self::Mirror(copies) if copies.number() == disks => 1,
            Self::Stripe | Self::Mirror(_) => disks,
        }
    }

    /// The number of columns, copies included.
    pub(crate) const fn columns(self, disks: usize) -> usize {
        self.width(disks) * self.copies()
    }
}

// A mirror has a copy on another disk. Of as many disks as copies each has all blocks, of more each
// has as many columns as there are copies.
const TWO: Layout = Layout::Mirror(Copies(2));
const THREE: Layout = Layout::Mirror(Copies(Copies::MAX));
const _: () = assert!(Copies::new(1).is_none() && Copies::new(0).is_none());
const _: () = assert!(Copies::new(2).is_some() && Copies::new(Copies::MAX).is_some());
const _: () = assert!(Copies::new(Copies::MAX + 1).is_none());
const _: () = assert!(Layout::Single.copies() == 1 && Layout::Single.columns(5) == 1);
const _: () = assert!(Layout::Random.copies() == 1 && Layout::Random.columns(5) == 1);
const _: () = assert!(Layout::Stripe.copies() == 1 && Layout::Stripe.columns(5) == 5);
const _: () = assert!(TWO.copies() == 2 && THREE.copies() == 3);
const _: () = assert!(TWO.width(2) == 1 && TWO.columns(2) == 2);
const _: () = assert!(TWO.width(3) == 3 && TWO.columns(3) == 6);
const _: () = assert!(THREE.width(3) == 1 && THREE.columns(3) == 3);
const _: () = assert!(THREE.width(4) == 4 && THREE.columns(4) == 12);
const _: () = assert!(TWO.is_mirror() && !Layout::Stripe.is_mirror());
const _: () = assert!(TWO.keeps_width() && Layout::Stripe.keeps_width());
const _: () = assert!(!Layout::Single.keeps_width() && !Layout::Random.keeps_width());

/// The zone of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The first half, which passes more sectors per revolution.
    Fast,
    /// The second half.
    Slow,
    /// Either, the slow zone first: the fast one is for volumes that ask for it.
    Any,
    /// The first part of the disk: how slow its tracks are is known more closely than of a half.
    Fastest(Percent),
}

/// A part of a disk's blocks, from its first one on, metadata included: 1 to 99 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u8);

impl Percent {
    /// The largest part.
    pub const MAX: u8 = 99;

    /// `None` if it is no part, or the whole.
    pub const fn new(percent: u8) -> Option<Self> {
        if 1 <= percent && percent <= Self::MAX { Some(Self(percent)) } else { None }
    }

    /// The number of per cent.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The first block behind the part, on a disk of `blocks` blocks; rounded down. It is no later
    /// on a disk with fewer blocks.
    pub fn end(self, blocks: u32) -> u32 {
        let end = u64::from(blocks) * u64::from(self.0) / 100;
        assert!(self.0 <= Self::MAX, "a part is less than the whole");
        assert!(end <= u64::from(blocks), "a part ends within the blocks");
        u32::try_from(end).expect("a part of the blocks")
    }
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
