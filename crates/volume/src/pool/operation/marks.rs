//! Which copies are stale before they are: a write is answered when the copies that miss it are
//! durably stale, and one commit marks what many writes need.
//!
//! | what is marked | with which commit |
//! |---|---|
//! | what may be lost on a disk that has failed | the one that takes the disk out |
//! | the regions of all writes that wait then | the same |
//! | the region behind each volume's last write to the disk | the same, if it fits |
//! | the region of a write to a copy that is not stale yet | one that the write waits for |
//! | what is behind a client that writes in order | one that no write waits for |
//!
//! Only copies of blocks that another disk has whole are marked: one that is marked and not
//! written is made equal without need, and nothing is lost.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::limits::{REGION_BLOCKS, STALE_RUNS_MAX};
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::copies::stale_changes;
use crate::pool::operation::machine::{Failure, OperationId, Pending, Pool, Stage};
use crate::pool::operation::plan::Plan;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::block_set::BlockSet;
use crate::pool::state::change::Change;
use crate::pool::state::volume::Volume;

/// Blocks that become stale, by disk.
type Marks = BTreeMap<DiskId, BlockSet>;

impl Pool {
    /// Whether a disk is out: writes to copies there are missed.
    pub(crate) fn has_out(&self) -> bool {
        self.state.disks().any(|(_, disk)| disk.out)
    }

    /// Whether a copy of one of `blocks` on a disk that is out is not stale yet.
    pub(crate) fn has_unmarked(&self, volume: &Volume, blocks: Range<u32>) -> bool {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let mut blocks = blocks.into_iter().map(VolumeBlock);
        blocks.any(|block| {
            let mut out = volume.copies(block).filter(|place| !self.state.is_in(place.disk));
            out.any(|place| !self.state.is_stale(place))
        })
    }

    /// The first of `blocks` of which a copy can be marked: it is on a disk that is out, is not
    /// stale yet, and another one is whole.
    pub(crate) fn first_markable(
        &self,
        volume: &Volume,
        blocks: Range<u32>,
    ) -> Option<VolumeBlock> {
        debug_assert!(blocks.end <= volume.size.0, "blocks of the volume");
        let of_column = |column: usize| {
            let rows = volume.rows(column, blocks.start, blocks.end - blocks.start);
            let runs = volume.columns[column].within(rows.start, rows.end - rows.start);
            let mut out = runs.filter(|run| !self.state.is_in(run.disk()));
            let row = out.find_map(|run| {
                let stale = self.state.stale(run.disk());
                let mut from = run.place.block;
                loop {
                    let rest = from..run.place.end();
                    let block = stale.map_or_else(
                        || (!rest.is_empty()).then_some(rest.start),
                        |stale| stale.first_lacking(rest.clone()),
                    )?;
                    let row = run.row + (block - run.place.block);
                    if self.is_elsewhere(volume, column, row) {
                        return Some(row);
                    }
                    from = block + 1;
                }
            })?;
            Some(volume.block(column, row))
        };
        let first = (0..volume.columns.len()).filter_map(of_column).min();
        debug_assert!(first.is_none_or(|first| blocks.contains(&first.0)), "one of the blocks");
        first
    }

    /// Adds the regions of the blocks, on every disk that is lost and where another has them whole.
    fn add_regions(&self, volume: &Volume, blocks: Range<u32>, marks: &mut Marks) {
        debug_assert!(blocks.end <= volume.size.0, "blocks of the volume");
        for column in 0..volume.columns.len() {
            let rows = volume.rows(column, blocks.start, blocks.end - blocks.start);
            if rows.is_empty() {
                continue;
            }
            let start = rows.start / REGION_BLOCKS * REGION_BLOCKS;
            let end = rows.end.next_multiple_of(REGION_BLOCKS);
            assert!(start <= rows.start && rows.end <= end, "regions hold the rows");
            self.add_rows(volume, column, start..end, marks);
        }
    }

    /// Adds rows of a column, on every disk that is lost and where another has them whole.
    fn add_rows(&self, volume: &Volume, column: usize, rows: Range<u32>, marks: &mut Marks) {
        debug_assert!(rows.start <= rows.end, "a range of rows");
        for run in volume.columns[column].within(rows.start, rows.end - rows.start) {
            if self.is_live(run.disk()) {
                continue;
            }
            let set = marks.entry(run.disk()).or_default();
            if set.has_all(run.place.block..run.place.end()) {
                continue;
            }
            for row in run.row..run.end() {
                if self.is_elsewhere(volume, column, row) {
                    let block = run.place.block + (row - run.row);
                    set.insert(block..block + 1);
                }
            }
        }
        assert!(marks.keys().all(|disk| !self.is_live(*disk)), "of disks that are lost");
    }

    /// The changes that mark what is not stale yet.
    fn mark(&self, marks: &Marks) -> Vec<Change> {
        let of_disk = |(disk, set): (&DiskId, &BlockSet)| {
            let known = self.state.stale(*disk);
            let mut changes = stale_changes(*disk, set);
            changes.retain(|change| match change {
                Change::Stale { blocks } => {
                    known.is_none_or(|known| !known.has_all(blocks.block..blocks.end()))
                }
                _ => true,
            });
            changes
        };
        let changes: Vec<Change> = marks.iter().flat_map(of_disk).collect();
        debug_assert!(changes.iter().all(|one| matches!(one, Change::Stale { .. })), "marks");
        changes
    }

    /// The regions of the blocks, on every disk that is out and where another has them whole.
    pub(crate) fn plan_mark_stale(
        &self,
        id: PoolVolumeId,
        first: VolumeBlock,
        count: Blocks,
    ) -> Result<Plan, Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        assert!(self.redundancy.failing.is_empty(), "nothing is planned while a disk fails");
        let mut marks = Marks::new();
        self.add_regions(volume, first.0..first.0 + count.0, &mut marks);
        Ok(Plan::of(self.mark(&marks)))
    }

    /// Whether disks that failed are about to be taken out.
    pub(crate) fn is_about_to_take_out(&self) -> bool {
        !self.redundancy.failing.is_empty() && self.commit.is_none() && !self.poisoned
    }

    /// Sets the blocks of mirrors for which writes wait: the commit that takes failed disks out
    /// marks their regions, so that none of the writes waits for another.
    pub(crate) fn expect_writes(&mut self, waiting: Vec<(PoolVolumeId, Range<u32>)>) {
        debug_assert!(self.is_about_to_take_out(), "they are marked with that commit");
        self.waiting_writes = waiting;
    }

    /// Ends the marks that are not being committed. The disk that has failed may have had the only
    /// other whole copy of a block: what waits for them is marked with the commit that takes it
    /// out.
    pub(crate) fn end_marks(&mut self) {
        assert!(!self.redundancy.failing.is_empty(), "a disk has failed");
        let ready =
            self.pending.iter().filter(|(_, one)| one.stage == Stage::Ready && is_mark(one));
        let ready: Vec<OperationId> = ready.map(|(operation_id, _)| *operation_id).collect();
        for operation_id in ready {
            self.end(operation_id, Err(Failure::Disk));
        }
    }

    /// The changes that take the failed disks out, or `None` if they do not fit the metadata. What
    /// is marked for writes to come is left out if it does not fit.
    pub(crate) fn plan_take_out(&self) -> Option<Vec<Change>> {
        let marks = self.marks_of_take_out();
        let pending: usize = self.pending.values().map(|one| one.growth).sum();
        let changes = self.take_out_with(&marks);
        if self.fits(&changes, pending) {
            return Some(changes);
        }
        let changes = self.take_out_with(&Marks::new());
        self.fits(&changes, 0).then_some(changes)
    }

    /// Whether the metadata hold changes, and leave this number of bytes.
    fn fits(&self, changes: &[Change], left: usize) -> bool {
        let mut next = self.state.clone();
        next.advance(changes).expect("a disk that failed is in");
        assert!(next.disks_in().next().is_some(), "a disk stays");
        assert!(next.sequence > self.state.sequence + 1, "it outranks what the disks had");
        next.image_bytes() + left <= next.geometry.image_bytes()
            && next.stale_runs() <= STALE_RUNS_MAX
    }

    fn take_out_with(&self, marks: &Marks) -> Vec<Change> {
        let mut changes = Vec::new();
        for disk in &self.redundancy.failing {
            let doubtful = self.redundancy.doubtful(*disk);
            let (stale, left) = self.with_other_copies(*disk, &doubtful);
            changes.push(Change::TakeOut { number: *disk, doubtful: left });
            changes.extend(stale_changes(*disk, &stale));
        }
        changes.extend(self.mark(marks));
        changes
    }

    /// What the writes need that wait, and what those need that are likely to follow.
    fn marks_of_take_out(&self) -> Marks {
        let mut marks = Marks::new();
        for (id, blocks) in &self.waiting_writes {
            let volume = self.state.volume(*id).filter(|volume| volume.layout.is_mirror());
            // It may have been resized meanwhile.
            if let Some(volume) = volume.filter(|volume| blocks.end <= volume.size.0) {
                self.add_regions(volume, blocks.clone(), &mut marks);
            }
        }
        for disk in &self.redundancy.failing {
            for (id, region) in self.redundancy.last_written(*disk) {
                if let Some(volume) = self.state.volume(id) {
                    self.add_region_behind(volume, (*disk, region), &mut marks);
                }
            }
        }
        marks
    }

    /// Adds the region of a volume behind what it has of these blocks of a disk.
    fn add_region_behind(
        &self,
        volume: &Volume,
        (disk, blocks): (DiskId, Range<u32>),
        marks: &mut Marks,
    ) {
        debug_assert!(blocks.end - blocks.start <= REGION_BLOCKS, "a region");
        for (column, run) in volume.runs().filter(|(_, run)| run.disk() == disk) {
            let end = run.place.end().min(blocks.end);
            if run.place.block.max(blocks.start) < end {
                let row = run.row + (end - run.place.block);
                self.add_rows(volume, column, row..row + REGION_BLOCKS, marks);
            }
        }
    }
}

/// Whether an operation marks copies. No other makes blocks stale alone.
pub(crate) fn is_mark(one: &Pending) -> bool {
    let is_stale = |change: &Change| matches!(change, Change::Stale { .. });
    !one.changes.is_empty() && one.changes.iter().all(is_stale)
}
