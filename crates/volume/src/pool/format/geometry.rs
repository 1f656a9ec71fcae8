//! Where the structures of a pool lie on a disk.

use units::{Extent, Lba, SECTOR_BYTES, Sectors};

use crate::pool::format::fields::{CHECKSUM, RECORD_HEAD_BYTES};
use crate::pool::limits::{
    BLOCK_SECTORS, BLOCK_UNITS, DISK_BLOCKS_MAX, IMAGE_UNITS_MAX, IMAGE_UNITS_MIN, LOG_UNITS_MAX,
    LOG_UNITS_MIN, UNIT_BYTES,
};
use crate::pool::names::Blocks;

/// One of the two places of an image and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// The sizes of a pool's metadata slots on each disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub(crate) image: u32,
    pub(crate) log: u32,
}

impl Geometry {
    /// The smallest slots.
    pub const SMALLEST: Self = Self { image: IMAGE_UNITS_MIN, log: LOG_UNITS_MIN };
    /// The largest.
    pub const LARGEST: Self = Self { image: IMAGE_UNITS_MAX, log: LOG_UNITS_MAX };

    /// Slots with these units for the image and for the log, or `None` beyond the limits.
    pub fn new(image_units: u32, log_units: u32) -> Option<Self> {
        let image = (IMAGE_UNITS_MIN..=IMAGE_UNITS_MAX).contains(&image_units);
        let log = (LOG_UNITS_MIN..=LOG_UNITS_MAX).contains(&log_units);
        (image && log).then_some(Self { image: image_units, log: log_units })
    }

    /// The sizes for a pool whose smallest disk has `blocks` blocks: two slots in a five-hundredth
    /// of it, at least 1 MiB and at most the largest.
    pub fn suited(blocks: u32) -> Self {
        let units = (blocks / 1_024).max(1).saturating_mul(BLOCK_UNITS);
        let log = (units / 4).min(LOG_UNITS_MAX);
        let suited = Self { image: (units - log).min(IMAGE_UNITS_MAX), log };
        assert!(suited.image >= IMAGE_UNITS_MIN, "the least image fits");
        assert!(suited.log >= LOG_UNITS_MIN, "the least log fits");
        suited
    }

    /// Units of an image.
    pub const fn image_units(self) -> u32 {
        self.image
    }

    /// Bytes that an image may have.
    pub const fn image_bytes(self) -> usize {
        self.image as usize * UNIT_BYTES
    }

    /// Units of a log.
    pub const fn log_units(self) -> u32 {
        self.log
    }

    /// Bytes that the body of a record may have: two copies of it fill half of the log.
    pub const fn record_bytes(self) -> usize {
        (self.log / 4) as usize * UNIT_BYTES - RECORD_HEAD_BYTES - CHECKSUM.bytes
    }

    /// The first block that can be allocated.
    pub const fn first_block(self) -> u32 {
        (1 + 2 * (1 + self.image + self.log)).div_ceil(BLOCK_UNITS)
    }

    /// The first block of the slow zone of a disk with `blocks` blocks: the blocks between the
    /// metadata and the last label are half fast, half slow.
    pub const fn fast_end(self, blocks: u32) -> u32 {
        let first = self.first_block();
        first + blocks.saturating_sub(1 + first) / 2
    }

    /// Where a slot's header lies.
    pub fn header(self, slot: Slot) -> Extent {
        units(1 + slot.number() * (1 + self.image + self.log), 1)
    }

    /// Where a slot's image lies.
    pub fn image(self, slot: Slot) -> Extent {
        let image = Extent::new(self.header(slot).end(), units(0, self.image).len);
        assert_eq!(image.len.bytes_usize(), self.image_bytes(), "an image fills its place");
        image
    }

    /// Where a slot's log lies.
    pub fn log(self, slot: Slot) -> Extent {
        let log = Extent::new(self.image(slot).end(), units(0, self.log).len);
        let next = if slot == Slot::A { self.header(Slot::B).start } else { log.end() };
        assert_eq!(log.end(), next, "the slots follow each other");
        let data = Blocks(self.first_block()).sectors();
        assert!(log.end().0 <= data.0, "the metadata end before the data");
        log
    }

    /// Where `count` units of a slot's log lie, from unit `position` on.
    pub fn log_at(self, slot: Slot, position: u32, count: u32) -> Extent {
        assert!(count > 0, "units are written");
        assert!(position + count <= self.log, "they lie in the log");
        Extent::new(self.log(slot).start + units(0, position).len, units(0, count).len)
    }
}

fn units(first: u32, count: u32) -> Extent {
    let sectors = UNIT_BYTES as u64 / SECTOR_BYTES;
    Extent::new(Lba(u64::from(first) * sectors), Sectors(u64::from(count) * sectors))
}

/// Whole blocks of a disk of that size that a pool uses.
pub fn disk_blocks(size: Sectors) -> u32 {
    let blocks = size.0 / BLOCK_SECTORS.0;
    u32::try_from(blocks).unwrap_or(DISK_BLOCKS_MAX).min(DISK_BLOCKS_MAX)
}

/// Where the two copies of a label lie, on a disk with `blocks` blocks.
pub fn label_places(blocks: u32) -> [Extent; 2] {
    let last = u64::from(blocks.saturating_sub(1)) * BLOCK_SECTORS.0;
    let first = units(0, 1);
    [first, Extent::new(Lba(last), first.len)]
}

const _: () = assert!(Slot::A.number() == 0 && Slot::B.number() == 1);
const _: () = assert!(Slot::A.other().number() == 1 && Slot::B.other().number() == 0);
const _: () = assert!(Geometry::SMALLEST.first_block() >= 1);
const _: () = assert!(Geometry::LARGEST.first_block() < DISK_BLOCKS_MAX);
const _: () = assert!(Geometry::SMALLEST.record_bytes() > RECORD_HEAD_BYTES);
const _: () = assert!(Geometry::SMALLEST.image_bytes() < Geometry::LARGEST.image_bytes());
