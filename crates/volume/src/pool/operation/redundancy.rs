//! Copies of blocks: which are whole, and what is known of disks that fail.
//!
//! | a copy is | when | and then |
//! |---|---|---|
//! | whole | its disk is in, its block not stale | it is read, and every write goes to it |
//! | stale | it misses a write, or may | it is not read until it is made equal |
//! | unreadable | a read of it failed | it is read if no other is left, and written again |
//! | unsynced | it may differ in what was not flushed | the first whole copy is read |
//!
//! Invariants: no write is answered before each copy that misses it is durably stale, and before
//! the disks that failed under it are durably out. A disk that is taken out has what clients wrote
//! to it since their last flush stale: it may have lost that. Where no other copy has it, the next
//! flush of the volume fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use units::Extent;

use crate::location::DiskId;
use crate::pool::limits::{BLOCK_SECTORS, REGION_BLOCKS};
use crate::pool::names::{BlockExtent, PoolVolumeId};
use crate::pool::state::block_set::BlockSet;
use crate::pool::state::metadata::State;

/// Runs of unreadable blocks of a disk; with more, the list begins again.
const UNREADABLE_RUNS_MAX: usize = 1_024;

/// What is known of copies beside what is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redundancy {
    /// Disks that failed and are not out yet.
    pub(crate) failing: BTreeSet<DiskId>,
    unreadable: BTreeMap<DiskId, BlockSet>,
    unsynced: BTreeMap<DiskId, BlockSet>,
    /// The regions of a disk to which a volume's writes have ended since its last flush there, with
    /// the number of the last of them.
    unflushed: BTreeMap<(DiskId, PoolVolumeId), BTreeMap<u32, u64>>,
    /// The regions of disks with writes in flight, and how many.
    writing: BTreeMap<(DiskId, u32), u32>,
    /// The volumes of which a write that was answered, and not flushed, may be on no copy, with the
    /// number of the last loss.
    lost: BTreeMap<PoolVolumeId, u64>,
    /// The number of losses.
    losses: u64,
    /// The number of writes that have ended.
    writes: u64,
    /// Counts what gives resynchronisation new work.
    pub(crate) epoch: u64,
}

/// The blocks of a disk that sectors touch.
fn blocks_of(extent: Extent) -> Range<u32> {
    let block = |number: u64| u32::try_from(number).expect("a block of a disk");
    let blocks =
        block(extent.start.0 / BLOCK_SECTORS.0)..block(extent.end().0.div_ceil(BLOCK_SECTORS.0));
    debug_assert!(!blocks.is_empty(), "sectors touch a block");
    blocks
}

/// The regions of a disk that sectors touch.
fn regions_of(extent: Extent) -> Range<u32> {
    let blocks = blocks_of(extent);
    let regions = blocks.start / REGION_BLOCKS..blocks.end.div_ceil(REGION_BLOCKS);
    debug_assert!(!regions.is_empty(), "sectors touch a region");
    regions
}

/// The blocks of a region of a disk.
fn blocks_of_region(region: u32) -> Range<u32> {
    let start = region * REGION_BLOCKS;
    let blocks = start..start.saturating_add(REGION_BLOCKS);
    debug_assert!(!blocks.is_empty(), "a region has blocks");
    blocks
}

impl Redundancy {
    /// What is known when a pool is opened: the copies of mirrors that clients may have written to
    /// may differ.
    pub(crate) fn opened(state: &State) -> Self {
        let mut redundancy = Self::default();
        for (_, volume) in state.volumes().filter(|(_, one)| one.open && one.layout.is_mirror()) {
            // Of a disk that is out the stale blocks are known, and the others were equal.
            let counts = |place: &BlockExtent| {
                state.disk(place.disk).is_some_and(|disk| !disk.out || disk.doubtful)
            };
            for place in volume.places().filter(counts) {
                redundancy.unsynced.entry(place.disk).or_default().insert(place.block..place.end());
            }
        }
        assert!(redundancy.failing.is_empty(), "no disk has failed yet");
        assert!(redundancy.unflushed.is_empty(), "nothing was written yet");
        redundancy
    }

    fn has(sets: &BTreeMap<DiskId, BlockSet>, place: BlockExtent) -> bool {
        debug_assert!(place.len > 0, "an extent with blocks");
        sets.get(&place.disk).is_some_and(|set| set.first_in(place.block..place.end()).is_some())
    }

    pub(crate) fn is_unreadable(&self, place: BlockExtent) -> bool {
        Self::has(&self.unreadable, place)
    }

    pub(crate) fn is_unsynced(&self, place: BlockExtent) -> bool {
        Self::has(&self.unsynced, place)
    }

    /// The first block of a place that is unreadable or unsynced.
    pub(crate) fn first_suspect(&self, place: BlockExtent) -> Option<u32> {
        let first = |sets: &BTreeMap<DiskId, BlockSet>| {
            sets.get(&place.disk).and_then(|set| set.first_in(place.block..place.end()))
        };
        let found = first(&self.unreadable).into_iter().chain(first(&self.unsynced)).min();
        debug_assert!(found.is_none_or(|block| place.block <= block), "a block of the place");
        debug_assert!(found.is_none_or(|block| block < place.end()), "a block of the place");
        found
    }

    /// Whether anything is known of a disk's blocks.
    pub(crate) fn has_suspects(&self, disk: DiskId) -> bool {
        let any =
            |sets: &BTreeMap<DiskId, BlockSet>| sets.get(&disk).is_some_and(|set| !set.is_empty());
        any(&self.unreadable) || any(&self.unsynced)
    }

    /// Blocks are equal to the other copies again.
    pub(crate) fn renew(&mut self, place: BlockExtent) {
        for sets in [&mut self.unreadable, &mut self.unsynced] {
            if let Some(set) = sets.get_mut(&place.disk) {
                set.remove(place.block..place.end());
            }
        }
        debug_assert!(!self.is_unsynced(place), "they are equal");
        debug_assert!(!self.is_unreadable(place), "they were written");
    }

    /// A disk was taken out: what may differ on it and is not stale may still when it comes back.
    pub(crate) fn take_out(&mut self, disk: DiskId, stale: Option<&BlockSet>) {
        let mut doubtful = self.doubtful(disk);
        for run in stale.into_iter().flat_map(BlockSet::iter) {
            doubtful.remove(run);
        }
        self.forget_disk(disk);
        let before = self.unsynced.insert(disk, doubtful);
        assert!(before.is_none(), "the rest was forgotten");
        self.epoch += 1;
    }

    /// The blocks of a disk that may differ.
    pub(crate) fn unsynced(&self, disk: DiskId) -> Option<&BlockSet> {
        self.unsynced.get(&disk)
    }

    /// Forgets what is known of a disk that is no member, or is another device now.
    pub(crate) fn forget_disk(&mut self, disk: DiskId) {
        self.failing.remove(&disk);
        self.unreadable.remove(&disk);
        self.unsynced.remove(&disk);
        self.unflushed.retain(|(of, _), _| *of != disk);
        assert!(!self.failing.contains(&disk), "a disk that is out fails no more");
        assert!(!self.has_suspects(disk), "nothing is known of it");
    }

    pub(crate) fn forget_volume(&mut self, volume: PoolVolumeId) {
        self.unflushed.retain(|(_, of), _| *of != volume);
        self.lost.remove(&volume);
        debug_assert!(!self.lost.contains_key(&volume), "no flush of it follows");
    }

    /// A write of a volume may be on no copy: its next flush fails.
    pub(crate) fn note_lost(&mut self, volume: PoolVolumeId) {
        self.losses += 1;
        self.lost.insert(volume, self.losses);
        debug_assert!(self.lost.contains_key(&volume), "until a flush is told");
    }

    /// The number of losses so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether a write of a volume may be on no copy, which a flush is told that was submitted
    /// when the number of losses was `known`. The last that is told is one that was submitted after
    /// the loss: the write may have been answered after any earlier flush was submitted.
    pub(crate) fn tell_lost(&mut self, volume: PoolVolumeId, known: u64) -> bool {
        assert!(known <= self.losses, "a flush is submitted before it is told");
        let Some(loss) = self.lost.get(&volume).copied() else { return false };
        if loss <= known {
            self.lost.remove(&volume);
        }
        true
    }

    /// The volumes with writes to a disk that have ended since their last flush there, and the
    /// blocks of the disk that these may be in.
    pub(crate) fn unflushed(&self, disk: DiskId) -> Vec<(PoolVolumeId, BlockSet)> {
        let own = self.unflushed.iter().filter(|((of, _), _)| *of == disk);
        let blocks = |regions: &BTreeMap<u32, u64>| {
            let mut blocks = BlockSet::default();
            for region in regions.keys() {
                blocks.insert(blocks_of_region(*region));
            }
            debug_assert!(!blocks.is_empty(), "a write touches a region");
            blocks
        };
        own.map(|((_, volume), regions)| (*volume, blocks(regions))).collect()
    }

    /// The region of a disk to which each volume's last write there went, of those that have not
    /// flushed it since.
    pub(crate) fn last_written(&self, disk: DiskId) -> Vec<(PoolVolumeId, Range<u32>)> {
        let own = self.unflushed.iter().filter(|((of, _), _)| *of == disk);
        let last = |((_, volume), regions): (&(DiskId, PoolVolumeId), &BTreeMap<u32, u64>)| {
            let (region, _) = regions.iter().max_by_key(|(_, number)| **number)?;
            Some((*volume, blocks_of_region(*region)))
        };
        let last: Vec<_> = own.filter_map(last).collect();
        debug_assert!(last.iter().all(|(_, region)| !region.is_empty()), "regions have blocks");
        last
    }

    /// The blocks of a disk that it may have lost, or that may differ.
    pub(crate) fn doubtful(&self, disk: DiskId) -> BlockSet {
        let mut doubtful = self.unsynced.get(&disk).cloned().unwrap_or_default();
        let ended = self.unflushed.iter().filter(|((of, _), _)| *of == disk);
        let ended = ended.flat_map(|(_, regions)| regions.keys());
        let begun = self.writing.range((disk, 0)..=(disk, u32::MAX)).map(|((_, region), _)| region);
        for region in ended.chain(begun) {
            doubtful.insert(blocks_of_region(*region));
        }
        doubtful
    }

    /// A client's write to a mirror begins on a disk.
    pub(crate) fn begin_write(&mut self, disk: DiskId, extent: Extent) {
        for region in regions_of(extent) {
            *self.writing.entry((disk, region)).or_default() += 1;
        }
    }

    /// A client's write to a mirror has ended on a disk, well or not.
    pub(crate) fn note_write(&mut self, disk: DiskId, volume: PoolVolumeId, extent: Extent) {
        self.writes += 1;
        let number = self.writes;
        for region in regions_of(extent) {
            let count = self.writing.get_mut(&(disk, region)).expect("a write ends once");
            assert!(*count > 0, "writes in flight are counted");
            *count -= 1;
            if *count == 0 {
                self.writing.remove(&(disk, region));
            }
        }
        let regions = self.unflushed.entry((disk, volume)).or_default();
        for region in regions_of(extent) {
            regions.insert(region, number);
        }
        debug_assert!(!regions.is_empty(), "a write touches a region");
    }

    /// The number of the last write that a flush covers if it begins now.
    pub(crate) fn last_write(&self) -> u64 {
        self.writes
    }

    /// A client's flush that began after write `last` has ended on a disk.
    pub(crate) fn note_flush(&mut self, disk: DiskId, volume: PoolVolumeId, last: u64) {
        assert!(last <= self.writes, "a flush covers writes that have ended");
        if let Some(regions) = self.unflushed.get_mut(&(disk, volume)) {
            regions.retain(|_, number| *number > last);
            if regions.is_empty() {
                self.unflushed.remove(&(disk, volume));
            }
        }
    }

    /// A read of a mirror's copy has failed. Returns whether that was not known.
    pub(crate) fn note_unreadable(&mut self, disk: DiskId, extent: Extent) -> bool {
        self.insert_unreadable(disk, blocks_of(extent))
    }

    fn insert_unreadable(&mut self, disk: DiskId, blocks: Range<u32>) -> bool {
        let set = self.unreadable.entry(disk).or_default();
        if set.len() >= UNREADABLE_RUNS_MAX {
            *set = BlockSet::default();
        }
        let known = set.blocks();
        set.insert(blocks);
        assert!(set.len() <= UNREADABLE_RUNS_MAX, "the runs are within their limit");
        set.blocks() > known
    }

    /// A disk that stays in has lost what it had answered of these blocks, which have another whole
    /// copy: that one is read, and the disk's is written again.
    pub(crate) fn note_behind(&mut self, disk: DiskId, blocks: &BlockSet) {
        for run in blocks.iter() {
            self.insert_unreadable(disk, run.clone());
            self.unsynced.entry(disk).or_default().insert(run);
        }
        assert!(!self.failing.contains(&disk), "it stays in");
        self.epoch += 1;
    }

    /// Copies of a block may differ from here on.
    pub(crate) fn note_torn(&mut self, place: BlockExtent) {
        self.unsynced.entry(place.disk).or_default().insert(place.block..place.end());
        debug_assert!(self.is_unsynced(place), "the block is known");
    }
}
