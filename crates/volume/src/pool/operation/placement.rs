//! Placement: where blocks are allocated, by a volume's layout and zone.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::names::{BlockExtent, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::operation::allocator::BlockAllocator;
use crate::pool::operation::allocator::release_blocks;
use crate::pool::operation::machine::Pool;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::volume::Volume;
use rng::SplitMix64;

/// The blocks that are examined first, in each column: more only if none was found.
const WINDOW_MIN: u32 = 64;

impl Pool {
    /// The first misplaced block of a volume, from `from` on.
    pub fn misplaced(&self, id: PoolVolumeId, from: VolumeBlock) -> Option<VolumeBlock> {
        let size = self.state.volume(id)?.size.0;
        let (mut from, mut len) = (from.0, WINDOW_MIN);
        while from < size {
            let end = from.saturating_add(len).min(size);
            let found = self.misplaced_in(id, from..end).map(|(column, rows)| (column, rows.start));
            let volume = self.state.volume(id)?;
            if let Some(first) = found.map(|(column, row)| volume.block(column, row)).min() {
                debug_assert!(self.is_misplaced(id, first), "the block is misplaced");
                return Some(first);
            }
            (from, len) = (end, len.saturating_mul(2));
        }
        None
    }

    /// Whether a block is allocated and misplaced.
    pub(crate) fn is_misplaced(&self, id: PoolVolumeId, block: VolumeBlock) -> bool {
        assert!(block.0 < u32::MAX, "a block of a volume");
        let there = self.state.volume(id).is_some_and(|volume| block.0 < volume.size.0);
        there && self.misplaced_in(id, block.0..block.0 + 1).next().is_some()
    }

    /// The number of misplaced blocks of a volume. Examines every extent.
    pub fn misplaced_blocks(&self, id: PoolVolumeId) -> u64 {
        let size = self.state.volume(id).map_or(0, |volume| volume.size.0);
        self.misplaced_in(id, 0..size).map(|(_, rows)| u64::from(rows.end - rows.start)).sum()
    }

    /// The rows of the misplaced ones among some blocks, by column.
    fn misplaced_in(
        &self,
        id: PoolVolumeId,
        blocks: Range<u32>,
    ) -> impl Iterator<Item = (usize, Range<u32>)> + '_ {
        let volume = self.state.volume(id).into_iter();
        volume
            .flat_map(move |volume| {
                let blocks = blocks.clone();
                (0..volume.columns.len()).flat_map(move |column| {
                    let rows = volume.rows(column, blocks.start, blocks.end - blocks.start);
                    let runs = volume.columns[column].within(rows.start, rows.end - rows.start);
                    runs.map(move |run| (column, self.misplaced_rows(volume, column, run)))
                })
            })
            .filter(|(_, rows)| !rows.is_empty())
    }

    /// Whether a row of a column is allocated and misplaced.
    pub(crate) fn is_row_misplaced(&self, volume: &Volume, column: usize, row: u32) -> bool {
        let run = volume.columns[column].within(row, 1).next();
        run.is_some_and(|run| !self.misplaced_rows(volume, column, run).is_empty())
    }

    /// The rows of a mapping that are misplaced.
    fn misplaced_rows(&self, volume: &Volume, column: usize, run: Mapping) -> Range<u32> {
        let on = match volume.layout {
            Layout::Stripe | Layout::Mirror(_) => volume.disk_of(column) == run.disk(),
            Layout::Single | Layout::Random => volume.disks.contains(&run.disk()),
        };
        let BlockExtent { block, len, .. } = run.place;
        assert!(len > 0, "a mapping has rows");
        assert!(column < volume.columns.len(), "a column of the volume");
        let disk = &self.state.disks[&run.disk()];
        let limit = self.allocators[&run.disk()].limit();
        let before = |end: u32| end.min(limit).saturating_sub(block).min(len);
        let (fast, kept) = (before(disk.fast_end), before(limit));
        match volume.zone {
            _ if !on => run.row..run.end(),
            Zone::Fast => run.row + fast..run.end(),
            // The others are misplaced once these are moved.
            Zone::Slow if fast > 0 => run.row..run.row + fast,
            Zone::Any | Zone::Slow => run.row + kept..run.end(),
            Zone::Fastest(part) => run.row + before(part.end(limit + 1))..run.end(),
        }
    }
}

/// Allocates blocks for rows of a column, and holds them. If there are too few, none is held.
pub(crate) fn place(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    volume: &Volume,
    column: usize,
    rows: Range<u32>,
) -> Result<Vec<Mapping>, Refusal> {
    assert!(column < volume.columns.len(), "a column of the volume");
    assert!(rows.start <= rows.end, "a range of rows");
    let count = rows.end - rows.start;
    let mut runs: Vec<Mapping> = Vec::new();
    let placed = match volume.layout {
        Layout::Stripe | Layout::Mirror(_) => {
            let disks = [volume.disk_of(column)];
            place_sequentially(allocators, volume, &disks, column, rows, &mut runs)
        }
        Layout::Single => {
            place_sequentially(allocators, volume, &volume.disks, column, rows, &mut runs)
        }
        Layout::Random => place_at_random(allocators, volume, rows, &mut runs),
    };
    if let Err(refusal) = placed {
        release_blocks(allocators, &runs.iter().map(|run| run.place).collect::<Vec<_>>());
        return Err(refusal);
    }
    let placed: u32 = runs.iter().map(|run| run.place.len).sum();
    assert_eq!(placed, count, "every row is placed, and once");
    Ok(runs)
}

/// Rows on these disks, one disk after the other, behind the preceding row if that is free.
fn place_sequentially(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    volume: &Volume,
    disks: &[DiskId],
    column: usize,
    rows: Range<u32>,
    runs: &mut Vec<Mapping>,
) -> Result<(), Refusal> {
    let before = rows.start.checked_sub(1).and_then(|row| volume.columns[column].get(row));
    let mut row = rows.start;
    let mut last = DiskId(0);
    for disk in disks {
        last = *disk;
        let space = allocators.get_mut(disk).ok_or(Refusal::NoSuchDisk(*disk))?;
        let count = (rows.end - row).min(space.left(volume.zone));
        if count == 0 {
            continue;
        }
        let near = before.filter(|run| run.disk() == *disk && row == rows.start);
        let near = near.map(|run| run.place.block + (rows.start - run.row));
        for place in space.find(volume.zone, count, near).expect("as many are free") {
            space.hold(place);
            runs.push(Mapping { row, place });
            row += place.len;
        }
    }
    assert!(row <= rows.end, "no more is placed than was asked for");
    if row == rows.end {
        return Ok(());
    }
    Err(Refusal::NoSpace { disk: last, zone: volume.zone, missing: rows.end - row })
}

/// Each row on a disk and at a location drawn from the seed, or at the next free one.
fn place_at_random(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    volume: &Volume,
    rows: Range<u32>,
    runs: &mut Vec<Mapping>,
) -> Result<(), Refusal> {
    let width = u32::try_from(volume.disks.len()).expect("few disks");
    assert!(width > 0, "a volume has disks");
    for row in rows.clone() {
        let mut rng = SplitMix64::new(volume.seed ^ (u64::from(row) << 32));
        let (first, target) = (rng.below(width), rng.below(u32::MAX));
        let order = (0..width).map(|n| volume.disks[((first + n) % width) as usize]);
        let found = order.map(|disk| allocators[&disk].find_at(volume.zone, target));
        let Some(place) = found.flatten().next() else {
            let (disk, missing) = (volume.disks[0], rows.end - row);
            return Err(Refusal::NoSpace { disk, zone: volume.zone, missing });
        };
        assert_eq!(place.len, 1, "a block at a time");
        allocators.get_mut(&place.disk).expect("it was found there").hold(place);
        runs.push(Mapping { row, place });
    }
    Ok(())
}

/// The unallocated rows of `count` blocks from `first` on.
pub(crate) fn holes(volume: &Volume, first: u32, count: u32) -> Vec<(usize, Range<u32>)> {
    let mut holes = Vec::new();
    for (column, map) in volume.columns.iter().enumerate() {
        let rows = volume.rows(column, first, count);
        let mut at = rows.start;
        for run in map.within(rows.start, rows.end - rows.start) {
            if at < run.row {
                holes.push((column, at..run.row));
            }
            at = run.end();
        }
        assert!(at <= rows.end, "mappings are cut to the rows");
        if at < rows.end {
            holes.push((column, at..rows.end));
        }
    }
    holes
}
