//! Where the structures of a checksum area lie on a disk.

use std::ops::Range;

use units::{Extent, Lba, Sectors};

use crate::pool::format::geometry::disk_blocks;
use crate::pool::limits::{BLOCK_SECTORS, UNIT_BYTES};
use crate::pool::names::Blocks;

/// Bytes of a page before its checksums.
pub const PAGE_HEAD_BYTES: usize = 64;

/// Bytes of a ledger before its bits.
pub const LEDGER_HEAD_BYTES: usize = 128;

/// Sectors that one checksum covers: 4 KiB.
pub const SUM_SECTORS: u64 = 8;

/// Blocks of a region. Its page has 256 KiB: reading a region in order costs one seek to its page
/// and back in more than a second of a hard disk.
pub const SUMS_REGION_BLOCKS: u32 = 255;

/// Checksums of a page.
pub const SUMS_OF_REGION: usize = 65_280;

const PAGE_UNITS: u64 = 64;
const UNIT_SECTORS: u64 = UNIT_BYTES as u64 / 512;
const REGION_SECTORS: u64 = SUMS_REGION_BLOCKS as u64 * BLOCK_SECTORS.0;

const _: () = assert!(SUMS_OF_REGION as u64 * SUM_SECTORS == REGION_SECTORS);
const _: () = assert!(PAGE_HEAD_BYTES + SUMS_OF_REGION * 4 + 8 <= PAGE_BYTES);
const _: () = assert!(SUM_SECTORS == UNIT_SECTORS);

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 64 * UNIT_BYTES;

/// The checksum area of a disk of which a pool uses this number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumsArea {
    blocks: u32,
}

impl SumsArea {
    /// That of a disk of which a pool uses `blocks` blocks.
    pub const fn of(blocks: Blocks) -> Self {
        assert!(blocks.0 > 0, "a disk has blocks");
        Self { blocks: blocks.0 }
    }

    /// Its regions.
    pub const fn regions(self) -> u32 {
        self.blocks.div_ceil(SUMS_REGION_BLOCKS)
    }

    /// Units of one slot of the ledger.
    pub(crate) const fn ledger_units(self) -> usize {
        let bits = (self.regions() as usize).div_ceil(8);
        assert!(bits > 0, "a disk has a region");
        (LEDGER_HEAD_BYTES + bits + 8).div_ceil(UNIT_BYTES)
    }

    /// Where a slot of the ledger lies: 0 or 1.
    pub fn ledger(self, slot: u32) -> Extent {
        assert!(slot < 2, "the ledger has two slots");
        let units = self.ledger_units() as u64;
        Extent::new(self.start() + Sectors(u64::from(slot) * units * UNIT_SECTORS), {
            Sectors(units * UNIT_SECTORS)
        })
    }

    /// Where the page of a region lies.
    pub fn page(self, region: u32) -> Extent {
        assert!(region < self.regions(), "a region of the disk");
        let len = Sectors(PAGE_UNITS * UNIT_SECTORS);
        Extent::new(self.ledger(1).end() + Sectors(u64::from(region) * len.0), len)
    }

    /// The whole area.
    pub fn extent(self) -> Extent {
        assert!(self.blocks > 0, "a disk has blocks");
        let end = self.page(self.regions() - 1).end();
        assert!(self.ledger(0).start == self.start(), "the ledger begins it");
        assert!(self.page(0).start == self.ledger(1).end(), "the pages follow");
        Extent::new(self.start(), self.start().distance(end))
    }

    fn start(self) -> Lba {
        Lba(Blocks(self.blocks).sectors().0)
    }

    /// The regions that an extent touches.
    pub(crate) fn touched(self, extent: Extent) -> Range<u32> {
        debug_assert!(extent.end() <= self.start(), "data lies in front of the area");
        let region = |sector: u64| u32::try_from(sector / REGION_SECTORS).expect("within a disk");
        let last = extent.end().0.saturating_sub(1).max(extent.start.0);
        let touched = region(extent.start.0)..region(last) + 1;
        debug_assert!(touched.end <= self.regions(), "regions of the disk");
        touched
    }

    /// Whether an extent covers a region wholly, as far as the disk has it.
    pub(crate) fn covers(self, extent: Extent, region: u32) -> bool {
        let start = u64::from(region) * REGION_SECTORS;
        debug_assert!(start < self.start().0, "a region of the disk");
        let end = (start + REGION_SECTORS).min(self.start().0);
        extent.start.0 <= start && end <= extent.end().0
    }
}

/// The whole 4 KiB of an extent, by number from the beginning of the disk.
pub fn whole_sums(extent: Extent) -> Range<u64> {
    let start = extent.start.0.div_ceil(SUM_SECTORS);
    let whole = start..(extent.end().0 / SUM_SECTORS).max(start);
    debug_assert!(whole.start <= whole.end, "a range of checksums");
    whole
}

/// The 4 KiB that an extent touches, in part or wholly.
pub fn touched_sums(extent: Extent) -> Range<u64> {
    let touched = extent.start.0 / SUM_SECTORS..extent.end().0.div_ceil(SUM_SECTORS);
    debug_assert!(touched.start < touched.end, "an extent has sectors");
    touched
}

/// The region of a checksum, and its place there.
pub(crate) fn place_of(sum: u64) -> (u32, usize) {
    let of_region = SUMS_OF_REGION as u64;
    let region = u32::try_from(sum / of_region).expect("within a disk");
    let at = usize::try_from(sum % of_region).expect("within a region");
    debug_assert!(at < SUMS_OF_REGION, "within a page");
    (region, at)
}

/// Sectors of the checksum area of a disk of which a pool uses `blocks` blocks: 0.1 % of it.
fn area_sectors(blocks: Blocks) -> Sectors {
    SumsArea::of(blocks).extent().len
}

/// The blocks that a pool can use of a disk of that size if its checksums are to lie behind them.
pub fn blocks_with_area(size: Sectors) -> u32 {
    let mut blocks = disk_blocks(size);
    while blocks > 0 {
        let needed = Blocks(blocks).sectors() + area_sectors(Blocks(blocks));
        if needed <= size {
            break;
        }
        let excess = (needed.0 - size.0) / BLOCK_SECTORS.0;
        blocks = blocks.saturating_sub(u32::try_from(excess).unwrap_or(u32::MAX).max(1));
    }
    assert!(blocks <= disk_blocks(size), "no more than the disk has");
    assert!(Blocks(blocks).sectors() <= size, "they lie on the disk");
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_takes_a_thousandth_of_a_disk_and_ends_on_it() {
        for mib in [64_u64, 255, 256, 257, 1_000, 7_630_885, 200_000_000] {
            let size = Sectors(mib * BLOCK_SECTORS.0 + 7);
            let blocks = blocks_with_area(size);
            let area = SumsArea::of(Blocks(blocks));
            assert!(area.extent().end().0 <= size.0, "{mib} MiB");
            let left = mib - u64::from(blocks);
            assert!(left <= mib / 1_000 + 2, "{mib} MiB: {left} are for checksums");
            assert_eq!(area.ledger(0).start.0, u64::from(blocks) * BLOCK_SECTORS.0);
            assert_eq!(area.ledger(0).end(), area.ledger(1).start);
        }
    }

    #[test]
    fn a_part_of_4_kib_is_touched_and_not_whole() {
        let extent = Extent::new(Lba(7), Sectors(10));
        assert_eq!((whole_sums(extent), touched_sums(extent)), (1..2, 0..3));
        assert_eq!(whole_sums(Extent::new(Lba(1), Sectors(2))), 1..1, "none is whole");
        assert_eq!(place_of(SUMS_OF_REGION as u64 + 3), (1, 3));
    }
}
