//! Which copies of a block are whole, and what a disk that fails means to its pool.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::format::fields::VERSION_FIRST;
use crate::pool::names::{BlockExtent, PoolVolumeId, VolumeBlock};
use crate::pool::operation::machine::{Kind, Pool};
use crate::pool::state::block_set::BlockSet;
use crate::pool::state::change::Change;
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::volume::Volume;

impl Pool {
    /// Whether a disk is in and has not failed.
    pub fn is_live(&self, disk: DiskId) -> bool {
        let lost = self.redundancy.failing.contains(&disk) || self.missing.contains(&disk);
        self.state.is_in(disk) && !lost
    }

    /// The disks that failed and are not out yet: writes to mirrors wait until they are.
    pub fn failing(&self) -> &BTreeSet<DiskId> {
        &self.redundancy.failing
    }

    /// Whether a copy has every write.
    pub(crate) fn is_whole(&self, place: BlockExtent) -> bool {
        self.is_live(place.disk) && !self.state.is_stale(place)
    }

    /// Whether a copy has every write to each of these blocks.
    pub(crate) fn is_whole_run(&self, place: BlockExtent) -> bool {
        self.is_live(place.disk) && !self.has_stale(place)
    }

    /// The whole copies of a block, in the order of the copies.
    pub(crate) fn whole_copies<'a>(
        &'a self,
        volume: &'a Volume,
        block: VolumeBlock,
    ) -> impl Iterator<Item = BlockExtent> + 'a {
        volume.copies(block).filter(|place| self.is_whole(*place))
    }

    /// The copies of a block that may be read: any of them is as good as the others. None if disks
    /// are missing that may have gone on without those that are there.
    pub fn readable_copies(&self, volume: &Volume, block: VolumeBlock) -> Vec<BlockExtent> {
        if !self.missing.is_empty() && volume.layout.is_mirror() {
            return Vec::new();
        }
        let mut copies: Vec<BlockExtent> = self.whole_copies(volume, block).collect();
        let unsynced = copies.iter().any(|place| self.redundancy.is_unsynced(*place));
        if copies.iter().any(|place| !self.redundancy.is_unreadable(*place)) {
            copies.retain(|place| !self.redundancy.is_unreadable(*place));
        }
        if unsynced {
            copies.truncate(1);
        }
        debug_assert!(copies.iter().all(|place| place.len == 1), "a block each");
        debug_assert!(copies.iter().all(|place| self.is_whole(*place)), "whole ones");
        debug_assert!(copies.len() <= volume.layout.copies(), "no more than there are");
        copies
    }

    /// Whether a row of a column has a whole copy on another disk.
    pub(crate) fn is_elsewhere(&self, volume: &Volume, column: usize, row: u32) -> bool {
        debug_assert!(column < volume.columns.len(), "a column of the volume");
        let own = volume.columns[column].block(row).map(|place| place.disk);
        debug_assert!(own.is_some(), "its row is mapped");
        let copies = volume.copies_of(column).filter_map(|one| volume.columns[one].block(row));
        copies.into_iter().any(|place| Some(place.disk) != own && self.is_whole(place))
    }

    /// Whether each mapped block of `blocks` has a whole copy.
    pub(crate) fn has_whole_copies(&self, volume: &Volume, blocks: Range<u32>) -> bool {
        debug_assert!(blocks.end <= volume.size.0, "blocks of the volume");
        blocks.into_iter().map(VolumeBlock).all(|block| {
            volume.locate(block).is_none() || self.whole_copies(volume, block).next().is_some()
        })
    }

    /// A disk has failed a write or a flush. Returns whether the pool goes on without it: the next
    /// commit takes it out.
    pub fn fail(&mut self, disk: DiskId) -> bool {
        let is_out = self.state.disk(disk).is_some_and(|one| one.out);
        let is_coming = self.commit.as_ref().is_some_and(|commit| commit.coming.contains(&disk));
        if self.redundancy.failing.contains(&disk) || (is_out && !is_coming) {
            return true;
        }
        if !self.may_lose(disk) {
            return false;
        }
        let is_new = self.redundancy.failing.insert(disk);
        assert!(is_new, "it had not failed before");
        assert!(!self.poisoned, "a poisoned pool loses no more disk");
        self.end_marks();
        if let Some(commit) = &mut self.commit {
            commit.script.forget(disk);
            if commit.script.ended() {
                self.committed();
            }
        }
        true
    }

    /// Whether the pool goes on without a disk that is in, and no block is lost with it: each that
    /// has a copy there has a whole one elsewhere.
    pub fn can_spare(&self, disk: DiskId) -> bool {
        debug_assert!(self.state.disk(disk).is_some(), "a disk of the pool");
        self.is_live(disk)
            && self.may_lose(disk)
            && self.state.volumes().all(|(_, volume)| {
                let mut there = volume.runs().filter(|(_, run)| run.disk() == disk);
                there.all(|(column, run)| {
                    (run.row..run.end()).all(|row| self.is_elsewhere(volume, column, row))
                })
            })
    }

    /// Whether the pool can go on without a disk, as far as its metadata are concerned. At least
    /// half of the disks that are in stay: those that go can never pass for most of them, so that
    /// no later start takes theirs for the newest state.
    fn may_lose(&self, disk: DiskId) -> bool {
        if self.state.version == VERSION_FIRST || !self.state.has_mirrors() {
            return false;
        }
        if self.poisoned || !self.missing.is_empty() {
            return false;
        }
        let mut members: BTreeSet<DiskId> = self.state.disks_in().collect();
        members.extend(self.commit.iter().flat_map(|commit| &commit.coming));
        let stays = |id: &&DiskId| **id != disk && !self.redundancy.failing.contains(*id);
        let is_enough = |members: &BTreeSet<DiskId>| {
            let staying = members.iter().filter(stays).count();
            assert!(staying <= members.len(), "a part of the members");
            staying > 0 && staying * 2 >= members.len()
        };
        // Before the commit in progress, and after it.
        let rest: BTreeSet<DiskId> = members.difference(&self.leaving()).copied().collect();
        members.contains(&disk) && is_enough(&members) && is_enough(&rest)
    }

    /// The disks that the commit in progress removes.
    fn leaving(&self) -> BTreeSet<DiskId> {
        let kind = self.commit.as_ref().map(|commit| &commit.kind);
        let Some(Kind::Images { operation_ids }) = kind else { return BTreeSet::new() };
        let pending = operation_ids.iter().filter_map(|id| self.pending.get(id));
        let changes = pending.flat_map(|one| &one.changes);
        let removed = |change: &Change| match change {
            Change::RemoveDisk { number } => Some(*number),
            _ => None,
        };
        changes.filter_map(removed).collect()
    }

    /// Those of a disk's blocks that have a whole copy elsewhere, and whether others are left that
    /// a mirror has.
    pub(crate) fn with_other_copies(&self, disk: DiskId, blocks: &BlockSet) -> (BlockSet, bool) {
        let (mut found, mut left) = (BlockSet::default(), false);
        if blocks.is_empty() {
            return (found, left);
        }
        for (_, volume) in self.state.volumes().filter(|(_, one)| one.layout.is_mirror()) {
            for (column, run) in volume.runs().filter(|(_, run)| run.disk() == disk) {
                let mut from = run.place.block;
                while let Some(block) = blocks.first_in(from..run.place.end()) {
                    let row = run.row + (block - run.place.block);
                    if self.is_elsewhere(volume, column, row) {
                        found.insert(block..block + 1);
                    } else {
                        left = true;
                    }
                    from = block + 1;
                }
            }
        }
        assert!(found.blocks() <= blocks.blocks(), "a part of the blocks");
        (found, left)
    }

    /// A disk was taken out: the volumes that have blocks without another whole copy among what was
    /// not flushed there may have lost a write that was answered.
    pub(crate) fn note_left(&mut self, disk: DiskId) {
        assert!(!self.state.is_in(disk), "it is out");
        for (id, blocks) in self.redundancy.unflushed(disk) {
            let Some(volume) = self.state.volume(id) else { continue };
            let is_left = |(column, run): (usize, Mapping)| {
                let mut from = run.place.block;
                core::iter::from_fn(|| {
                    let block = blocks.first_in(from..run.place.end())?;
                    from = block + 1;
                    Some(run.row + (block - run.place.block))
                })
                .any(|row| !self.is_elsewhere(volume, column, row))
            };
            let mut own = volume.runs().filter(|(_, run)| run.disk() == disk);
            if own.any(is_left) {
                self.redundancy.note_lost(id);
            }
        }
    }

    /// A disk has lost what it had answered of a volume, and stays in: other copies are read of all
    /// that was not flushed there, and the volume's next flush fails.
    pub(crate) fn note_losses(&mut self, disk: DiskId, id: PoolVolumeId) {
        debug_assert!(self.state.is_in(disk), "it stays in");
        let doubtful = self.redundancy.doubtful(disk);
        let (elsewhere, _) = self.with_other_copies(disk, &doubtful);
        assert!(elsewhere.blocks() <= doubtful.blocks(), "a part of it");
        self.redundancy.note_behind(disk, &elsewhere);
        self.redundancy.note_lost(id);
    }

    /// A write to a mirror has failed for good: its copies may differ.
    pub(crate) fn note_torn(&mut self, id: PoolVolumeId, blocks: Range<u32>) {
        let volume = self.state.volume(id).filter(|volume| volume.layout.is_mirror());
        let Some(volume) = volume else { return };
        let blocks = blocks.start..blocks.end.min(volume.size.0);
        for place in blocks.map(VolumeBlock).flat_map(|block| volume.copies(block)) {
            self.redundancy.note_torn(place);
        }
    }

    /// The first blocks of a mirror from `from` on that are not equal in all copies on live disks.
    pub(crate) fn next_unequal(&self, id: PoolVolumeId, from: VolumeBlock) -> Option<VolumeBlock> {
        let volume = self.state.volume(id).filter(|volume| volume.layout.is_mirror())?;
        let count = volume.size.0.saturating_sub(from.0);
        let columns = (0..volume.columns.len()).filter_map(|column| {
            let rows = volume.rows(column, from.0, count);
            let row = self.first_lacking(volume, column, rows, true)?;
            Some(volume.block(column, row))
        });
        let first = columns.min();
        debug_assert!(first.is_none_or(|first| from <= first), "a pass goes forward");
        debug_assert!(first.is_none_or(|first| first.0 < volume.size.0), "within the volume");
        first
    }

    /// The first block of a mirror from `from` on that is to be made equal, and of which one whole
    /// copy is left at most.
    pub(crate) fn next_endangered(
        &self,
        id: PoolVolumeId,
        from: VolumeBlock,
    ) -> Option<VolumeBlock> {
        let volume = self.state.volume(id).filter(|volume| volume.layout.is_mirror())?;
        let (copies, columns) = (volume.columns.len(), volume.width() as usize);
        if copies == 2 * columns {
            // A block with a copy that lacks it has one other.
            return self.next_unequal(id, from);
        }
        let count = volume.size.0.saturating_sub(from.0);
        let of_column = |column: usize| {
            let rows = volume.rows(column, from.0, count);
            let row = self.first_endangered(volume, column, rows)?;
            Some(volume.block(column, row))
        };
        let first = (0..copies).filter_map(of_column).min();
        debug_assert!(first.is_none_or(|first| from <= first), "a pass goes forward");
        first
    }

    /// Asserts of small mirrors that the first endangered block is the first of which two copies
    /// lack it.
    pub(crate) fn check_endangered(&self) {
        const SMALL: u32 = 64;
        let mirrors = self.state.volumes().filter(|(_, volume)| volume.layout.is_mirror());
        for (id, volume) in mirrors.filter(|(_, volume)| volume.size.0 <= SMALL) {
            let is_lacking = |place: &BlockExtent| {
                !self.is_live(place.disk) || self.first_unequal(*place).is_some()
            };
            let mut blocks = (0..volume.size.0).map(VolumeBlock);
            let first = blocks.find(|block| {
                let lacking: Vec<_> = volume.copies(*block).filter(is_lacking).collect();
                let is_mendable = lacking.iter().any(|place| self.is_live(place.disk));
                is_mendable && (lacking.len() >= 2 || volume.layout.copies() == 2)
            });
            let found = self.next_endangered(id, VolumeBlock(0));
            assert!(found == first, "{id:?}: {found:?} is found, and {first:?} is the first");
        }
    }

    /// The first of these rows in which a copy is to be made equal and another is not whole. Each
    /// of the two is looked up from where the other one is, so that runs are passed as a whole.
    fn first_endangered(&self, volume: &Volume, column: usize, rows: Range<u32>) -> Option<u32> {
        let mut row = rows.start;
        loop {
            row = self.first_lacking(volume, column, row..rows.end, true)?;
            let others = volume.copies_of(column).filter(|other| *other != column);
            let lacking = |other| self.first_lacking(volume, other, row..rows.end, false);
            let next = others.filter_map(lacking).min()?;
            debug_assert!(rows.contains(&next), "one of the rows");
            if next == row {
                return Some(row);
            }
            row = next;
        }
    }

    /// The first of these rows in which a copy is not whole; with `is_live`, in which it can be
    /// made equal.
    fn first_lacking(
        &self,
        volume: &Volume,
        column: usize,
        rows: Range<u32>,
        is_live: bool,
    ) -> Option<u32> {
        let mut runs = volume.columns[column].within(rows.start, rows.end - rows.start);
        let row = runs.find_map(|run| {
            if !is_live && !self.is_live(run.place.disk) {
                return Some(run.row);
            }
            let first = self.first_unequal(run.place)?;
            Some(run.row + (first - run.place.block))
        });
        debug_assert!(row.is_none_or(|row| rows.contains(&row)), "one of the rows");
        row
    }

    /// The first block of a place that is to be brought up to date.
    fn first_unequal(&self, place: BlockExtent) -> Option<u32> {
        debug_assert!(place.len > 0, "an extent with blocks");
        if !self.is_live(place.disk) {
            return None;
        }
        let stale = self.state.stale(place.disk);
        let stale = stale.and_then(|set| set.first_in(place.block..place.end()));
        stale.into_iter().chain(self.redundancy.first_suspect(place)).min()
    }

    /// Whether each column of a mirror has a copy that can be read on one of `disks`. While copies
    /// may differ, one of them is read, and has to be there.
    pub(crate) fn is_readable_on(&self, volume: &Volume, disks: &BTreeSet<DiskId>) -> bool {
        debug_assert!(volume.layout.is_mirror(), "its columns have copies");
        debug_assert!(!volume.columns.is_empty(), "a volume has columns");
        (0..volume.width() as usize).all(|column| {
            let is_whole = |copy: &usize| {
                let mut places = volume.columns[*copy].iter().map(|run| run.place);
                places.all(|place| self.is_whole_run(place))
            };
            let is_there = |copy: &usize| {
                let mut places = volume.columns[*copy].iter().map(|run| run.place);
                places.all(|place| disks.contains(&place.disk))
            };
            let mut whole = volume.copies_of(column).filter(is_whole);
            if self.is_column_unsynced(volume, column) {
                return whole.next().as_ref().is_some_and(is_there);
            }
            whole.any(|copy| is_there(&copy))
        })
    }

    fn is_column_unsynced(&self, volume: &Volume, column: usize) -> bool {
        debug_assert!(column < volume.width() as usize, "a column of blocks");
        let mut runs = volume.copies_of(column).flat_map(|copy| volume.columns[copy].iter());
        runs.any(|run| self.redundancy.is_unsynced(run.place))
    }

    /// How many copies of a mirror's blocks are not whole, and how many blocks have no whole copy.
    pub fn shortfall(&self, volume: &Volume) -> Shortfall {
        let mut shortfall = Shortfall::default();
        if !volume.layout.is_mirror() {
            return shortfall;
        }
        for (column, run) in volume.runs() {
            let Mapping { row, place } = run;
            let lacking = if self.is_live(place.disk) {
                let stale = self.state.stale(place.disk);
                stale.map_or(0, |stale| stale.blocks_in(place.block..place.end()))
            } else {
                u64::from(place.len)
            };
            shortfall.copies += lacking;
            let others = || volume.copies_of(column).filter(|other| *other != column);
            let is_first = others().all(|other| column < other);
            let is_whole = |other: usize| {
                let mut runs = volume.columns[other].within(row, place.len);
                runs.all(|run| self.is_whole_run(run.place))
            };
            if lacking == 0 || !is_first || others().any(is_whole) {
                continue;
            }
            let rows = (row..run.end()).filter(|row| {
                let own = volume.columns[column].block(*row);
                !own.is_some_and(|place| self.is_whole(place))
                    && !self.is_elsewhere(volume, column, *row)
            });
            shortfall.lost += rows.count() as u64;
        }
        assert!(shortfall.lost <= shortfall.copies, "a block that is lost lacks its copies");
        shortfall
    }

    fn has_stale(&self, place: BlockExtent) -> bool {
        let stale = self.state.stale(place.disk);
        stale.is_some_and(|stale| stale.first_in(place.block..place.end()).is_some())
    }

    /// Whether every disk is in, and all copies of every mirror are equal.
    pub fn is_redundant(&self) -> bool {
        let all = self.state.disks().all(|(disk, _)| self.is_live(disk));
        let mut volumes = self.state.volumes().map(|(id, _)| id);
        all && !volumes.any(|id| self.next_unequal(id, VolumeBlock(0)).is_some())
    }

    /// Whether copies of a mirror may differ on disks that are live.
    pub fn is_unsynced(&self) -> bool {
        let mut live = self.state.disks_in().filter(|disk| self.is_live(*disk));
        if !live.any(|disk| self.redundancy.unsynced(disk).is_some_and(|set| !set.is_empty())) {
            return false;
        }
        // Whole regions are listed, and some of their blocks are no mirror's.
        let mirrors = self.state.volumes().filter(|(_, volume)| volume.layout.is_mirror());
        let mut places = mirrors.flat_map(|(_, volume)| volume.places());
        places.any(|place| self.is_live(place.disk) && self.redundancy.is_unsynced(place))
    }

    /// Whether any disk that is live has blocks to be brought up to date.
    pub(crate) fn has_unequal(&self) -> bool {
        let mut live = self.state.disks_in().filter(|disk| self.is_live(*disk));
        live.any(|disk| self.state.stale(disk).is_some() || self.redundancy.has_suspects(disk))
    }
}

/// What a mirror lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Copies of blocks that are stale, or on a disk that is not served.
    pub copies: u64,
    /// Blocks without a whole copy: they cannot be read.
    pub lost: u64,
}

/// Changes that make blocks of a disk stale.
pub(crate) fn stale_changes(disk: DiskId, blocks: &BlockSet) -> Vec<Change> {
    let run = |run: Range<u32>| BlockExtent { disk, block: run.start, len: run.end - run.start };
    debug_assert!(blocks.iter().all(|run| run.start < run.end), "runs have blocks");
    blocks.iter().map(|blocks| Change::Stale { blocks: run(blocks) }).collect()
}
