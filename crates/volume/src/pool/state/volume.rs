//! A pool's disks and volumes, and where a volume's blocks lie.

use std::ops::Range;

use units::{Extent, Sectors};

use crate::location::{DiskExtent, DiskId};
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{BlockExtent, Blocks, DiskUid, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::state::extent_map::{ExtentMap, Mapping};

/// A disk of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of a disk in an image")]
pub struct Disk {
    /// Its permanent identity.
    pub uid: DiskUid,
    /// Blocks that the pool uses, metadata included.
    pub blocks: u32,
    /// The first block of its slow zone.
    pub fast_end: u32,
    /// Whether it is being drained: nothing is allocated on it.
    pub draining: bool,
    /// Whether it was taken out: it is neither read nor written, and its metadata are older.
    pub out: bool,
    /// Whether it has blocks that may differ, of which no other disk had a whole copy when it was
    /// taken out.
    pub doubtful: bool,
    /// Whether it has a checksum area, behind its blocks.
    pub has_sums: bool,
}

/// A volume, a snapshot of one, or a clone: a volume that began with the blocks of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: Blocks,
    /// How its blocks are distributed over its disks.
    pub layout: Layout,
    /// The zone of its placement.
    pub zone: Zone,
    /// Whether blocks are allocated when they are first written.
    pub thin: bool,
    /// Whether checksums of its data are kept, on disks that have an area for them.
    pub sums: bool,
    /// Whether clients may have written to it since its copies were last known to be equal.
    pub open: bool,
    /// The seed of a random layout.
    pub seed: u64,
    /// The disks of its placement; those of a stripe in the order of the columns.
    pub disks: Vec<DiskId>,
    /// The volume that it is a snapshot of. Snapshots are read-only.
    pub origin: Option<PoolVolumeId>,
    /// The group of volumes that it may share blocks with: the number of the volume from which the
    /// first snapshot or clone of the group was made. That volume may have been removed since.
    pub group: PoolVolumeId,
    /// The mappings of its rows: block n is row n / k of column n modulo k. Of a mirror, the
    /// columns of the first copy, then those of the second, and so on.
    pub(crate) columns: Vec<ExtentMap>,
}

/// Sectors of a volume, and their location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// Which sectors.
    pub extent: Extent,
    /// Their location; none if they were never written, and read as zeroes.
    pub location: Option<DiskExtent>,
}

impl Volume {
    /// The number of columns that its blocks are dealt to.
    #[inline]
    pub(crate) fn width(&self) -> u32 {
        let columns = u32::try_from(self.columns.len()).expect("a disk each");
        match self.layout {
            Layout::Single | Layout::Stripe | Layout::Random => columns,
            Layout::Mirror(copies) => {
                let copies = u32::from(copies.code());
                debug_assert!(columns.is_multiple_of(copies), "as many columns of each copy");
                columns / copies
            }
        }
    }

    /// The disk that a column of a stripe or a mirror is placed on.
    pub(crate) fn disk_of(&self, column: usize) -> DiskId {
        let width = self.width() as usize;
        debug_assert!(column < self.columns.len(), "a column of the volume");
        debug_assert!(self.layout.keeps_width(), "its columns have disks of their own");
        debug_assert!(!self.disks.is_empty(), "a volume has disks");
        self.disks[(column % width + column / width) % self.disks.len()]
    }

    /// The columns of all copies of a column.
    pub(crate) fn copies_of(&self, column: usize) -> impl Iterator<Item = usize> + use<> {
        let width = self.width() as usize;
        debug_assert!(column < self.columns.len(), "a column of the volume");
        debug_assert!(width > 0, "a volume has columns");
        (column % width..self.columns.len()).step_by(width)
    }

    /// The locations of all copies of a block; none if it was never written.
    ///
    /// # Panics
    /// If it lies behind the volume's end.
    pub fn copies(&self, block: VolumeBlock) -> impl Iterator<Item = BlockExtent> + '_ {
        assert!(block.0 < self.size.0, "block {} passes the volume's end", block.0);
        let (column, row) = self.row(block);
        self.copies_of(column).filter_map(move |column| self.columns[column].block(row))
    }

    /// The column and the row of a block.
    #[inline]
    pub(crate) fn row(&self, block: VolumeBlock) -> (usize, u32) {
        let columns = self.width();
        debug_assert!(columns > 0, "a volume has columns");
        if columns == 1 {
            return (0, block.0);
        }
        ((block.0 % columns) as usize, block.0 / columns)
    }

    /// The block of a row.
    pub(crate) fn block(&self, column: usize, row: u32) -> VolumeBlock {
        let columns = self.width();
        debug_assert!(column < self.columns.len(), "a column of the volume");
        let column = u32::try_from(column).expect("a disk each") % columns;
        let block = VolumeBlock(row * columns + column);
        debug_assert_eq!(self.row(block), (column as usize, row), "the inverse of `row`");
        block
    }

    /// The rows of a column that hold `count` blocks from `first` on.
    pub(crate) fn rows(&self, column: usize, first: u32, count: u32) -> Range<u32> {
        let columns = self.width();
        let column = u32::try_from(column).expect("a disk each") % columns;
        // The rows whose block lies before `end`.
        let before = |end: u32| (end.saturating_sub(column)).div_ceil(columns);
        debug_assert!(column < columns, "a column of the volume");
        debug_assert!(first.checked_add(count).is_some(), "blocks of a volume");
        let rows = before(first)..before(first + count);
        debug_assert!(rows.end - rows.start <= count.div_ceil(columns), "a share of the blocks");
        rows
    }

    /// The location of a block, or `None` if it was never written. Takes O(log extents).
    ///
    /// # Panics
    /// If it lies behind the volume's end.
    #[inline]
    pub fn locate(&self, block: VolumeBlock) -> Option<BlockExtent> {
        assert!(block.0 < self.size.0, "block {} passes the volume's end", block.0);
        let (column, row) = self.row(block);
        self.columns[column].block(row)
    }

    /// The locations of the sectors of `extent`, in their order.
    ///
    /// # Panics
    /// If it passes the volume's end, which the caller checks.
    pub fn map(&self, extent: Extent) -> impl Iterator<Item = MappedExtent> + '_ {
        let whole = Extent::new(units::Lba(0), self.size.sectors());
        assert!(whole.contains(extent), "{extent} passes the volume's end");
        let mut rest = extent;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (placed, len) = self.piece(rest);
            debug_assert!(len > Sectors::ZERO, "every step advances");
            debug_assert!(len <= rest.len, "a part of the extent");
            debug_assert!(placed.is_none_or(|at| at.extent.len == len), "as long as its place");
            let (head, tail) = rest.split_at(len);
            rest = tail;
            Some(MappedExtent { extent: head, location: placed })
        })
    }

    /// The location of the first sectors of `extent`, and the number of sectors that share it.
    fn piece(&self, extent: Extent) -> (Option<DiskExtent>, Sectors) {
        let block = u32::try_from(extent.start.0 / BLOCK_SECTORS.0).expect("within the volume");
        let skip = Sectors(extent.start.0 % BLOCK_SECTORS.0);
        let (column, row) = self.row(VolumeBlock(block));
        let map = &self.columns[column];
        let one = self.width() > 1;
        match map.next(row) {
            Some(run) if run.row <= row => {
                let block = run.place.block + (row - run.row);
                let len = if one { 1 } else { run.end() - row };
                let place = BlockExtent { disk: run.disk(), block, len }.extent();
                debug_assert!(row < run.end(), "the mapping contains the row");
                let (found, _) = place.split_at(skip).1.split_at(extent.len);
                debug_assert!(place.contains(found), "a part of the mapping");
                (Some(DiskExtent { disk: DiskId(run.disk().0), extent: found }), found.len)
            }
            next => {
                let rows = next.map_or(u32::MAX, |run| run.row - row);
                debug_assert!(rows > 0, "the row is unmapped");
                let hole = Blocks(if one { 1 } else { rows }).sectors() - skip;
                (None, Sectors(hole.0.min(extent.len.0)))
            }
        }
    }

    /// The number of its mappings.
    pub fn extents(&self) -> usize {
        self.columns.iter().map(ExtentMap::len).sum()
    }

    /// Allocated blocks, copies not counted.
    pub fn mapped(&self) -> Blocks {
        let first = self.columns.iter().take(self.width() as usize);
        let rows: u64 = first.map(ExtentMap::rows).sum();
        assert!(rows <= u64::from(self.size.0), "no block is mapped behind the end");
        Blocks(u32::try_from(rows).expect("a volume has a limit"))
    }

    /// The blocks of all its mappings.
    pub fn places(&self) -> impl Iterator<Item = BlockExtent> + '_ {
        self.columns.iter().flat_map(ExtentMap::iter).map(|run| run.place)
    }

    /// The mappings of its columns.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, Mapping)> + '_ {
        let columns = self.columns.iter().enumerate();
        columns.flat_map(|(column, map)| map.iter().map(move |run| (column, run)))
    }
}
