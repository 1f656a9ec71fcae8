//! The plans of what keeps copies equal, and of disks that go and come back.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::{DiskExtent, DiskId};
use crate::pool::format::fields::VERSION_FIRST;
use crate::pool::format::structures::VERSION;
use crate::pool::names::{BlockExtent, Blocks, DiskUid, Layout, PoolVolumeId, VolumeBlock};
use crate::pool::operation::copies::stale_changes;
use crate::pool::operation::machine::Pool;
use crate::pool::operation::plan::Plan;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::Action;
use crate::pool::state::block_set::BlockSet;
use crate::pool::state::change::Change;
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::volume::Volume;

fn placed(place: BlockExtent) -> DiskExtent {
    DiskExtent { disk: place.disk, extent: place.extent() }
}

/// Joins a copy to the one before it if both go on there.
fn join(copies: &mut Vec<(BlockExtent, BlockExtent)>, from: BlockExtent, to: BlockExtent) {
    assert_eq!(from.len, to.len, "a copy is as long as its source");
    assert!(from != to, "to another location");
    if let Some((before, target)) = copies.last_mut()
        && (before.disk, before.end()) == (from.disk, from.block)
        && (target.disk, target.end()) == (to.disk, to.block)
    {
        before.len += from.len;
        target.len += to.len;
        return;
    }
    copies.push((from, to));
}

fn copy_actions(copies: Vec<(BlockExtent, BlockExtent)>) -> Vec<Action> {
    debug_assert!(copies.iter().all(|(from, to)| from.len == to.len), "as long as its source");
    let copy = |(from, to)| Action::Copy { from: placed(from), to: placed(to) };
    copies.into_iter().map(copy).collect()
}

impl Pool {
    /// What prepares new blocks of a volume: those on live disks are erased, the others are stale
    /// from the beginning.
    pub(crate) fn prepare_new(&self, volume: &Volume, runs: &[(usize, Mapping)]) -> NewBlocks {
        let mut new = NewBlocks::default();
        for (_, run) in runs {
            if volume.layout.is_mirror() && !self.is_live(run.disk()) {
                new.changes.push(Change::Stale { blocks: run.place });
                continue;
            }
            new.actions.push(Action::Erase { placed: placed(run.place) });
            new.changes.extend(self.renewal(run.place));
        }
        assert!(new.actions.len() <= runs.len(), "an extent is erased once");
        assert!(new.changes.len() <= runs.len(), "and changes once");
        new
    }

    /// What copies blocks of a volume to new ones: `runs` are the new places, each with the block
    /// that it is copied from in its own column.
    pub(crate) fn prepare_copies(
        &self,
        volume: &Volume,
        (column, from, run): (usize, BlockExtent, Mapping),
    ) -> Result<NewBlocks, Refusal> {
        let mut new = NewBlocks::default();
        assert_eq!(from.len, run.place.len, "as many blocks as are copied");
        assert!(column < volume.columns.len(), "a column of the volume");
        if !volume.layout.is_mirror() {
            if !self.state.is_in(from.disk) {
                return Err(Refusal::Out(from.disk));
            }
            new.actions.push(Action::Copy { from: placed(from), to: placed(run.place) });
            return Ok(new);
        }
        if !self.is_live(run.disk()) {
            new.changes.push(Change::Stale { blocks: run.place });
            return Ok(new);
        }
        let mut copies = Vec::new();
        for nth in 0..run.place.len {
            let readable = self.readable_copies(volume, volume.block(column, run.row + nth));
            let own = readable.iter().find(|place| place.disk == from.disk);
            let source = own.or(readable.first()).ok_or(Refusal::OnlyCopy { blocks: 1 })?;
            let to = BlockExtent { block: run.place.block + nth, len: 1, ..run.place };
            join(&mut copies, *source, to);
        }
        assert!(!copies.is_empty(), "blocks are copied");
        new.actions = copy_actions(copies);
        new.changes.extend(self.renewal(run.place));
        Ok(new)
    }

    /// The change that makes new blocks fresh, if anything says that they are not.
    fn renewal(&self, blocks: BlockExtent) -> Option<Change> {
        assert!(blocks.len > 0, "an extent with blocks");
        debug_assert!(self.state.disks.contains_key(&blocks.disk), "of a disk of the pool");
        let stale = self.state.stale(blocks.disk);
        let stale = stale.and_then(|set| set.first_in(blocks.block..blocks.end())).is_some();
        let known =
            stale || self.redundancy.is_unreadable(blocks) || self.redundancy.is_unsynced(blocks);
        known.then_some(Change::Fresh { blocks })
    }

    /// Whether each row has a copy on a disk that is live, and rows without copies have theirs.
    pub(crate) fn check_new(
        &self,
        volume: &Volume,
        runs: &[(usize, Mapping)],
    ) -> Result<(), Refusal> {
        for (column, run) in runs {
            assert!(*column < volume.columns.len(), "a column of the volume");
            let mirror = volume.layout.is_mirror();
            let of = |column: usize| volume.disk_of(column);
            let lives = if mirror {
                volume.copies_of(*column).any(|column| self.is_live(of(column)))
            } else {
                self.state.is_in(run.disk())
            };
            if !lives {
                return Err(Refusal::Out(run.disk()));
            }
        }
        Ok(())
    }

    /// What a volume without copies has on a disk that is out cannot be made durable.
    pub(crate) fn check_reachable(&self, volume: &Volume) -> Result<(), Refusal> {
        let mut places = volume.places().filter(|place| !self.state.is_in(place.disk));
        match places.next() {
            Some(place) if !volume.layout.is_mirror() => Err(Refusal::Out(place.disk)),
            _ => Ok(()),
        }
    }

    pub(crate) fn plan_open(&self, id: PoolVolumeId) -> Result<Plan, Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        if !volume.layout.is_mirror() {
            return Err(Refusal::FewerThanCopies);
        }
        Ok(Plan::of(vec![Change::SetOpen { id, open: true }]))
    }

    pub(crate) fn plan_close(&self) -> Plan {
        let is_equal =
            |volume: &Volume| !volume.places().any(|place| self.redundancy.is_unsynced(place));
        let open = self.state.volumes().filter(|(_, volume)| volume.open && is_equal(volume));
        let open: Vec<PoolVolumeId> = open.map(|(id, _)| id).collect();
        assert!(self.redundancy.failing.is_empty(), "nothing is planned while a disk fails");
        let flush = |id: &PoolVolumeId| self.flushes_of(*id);
        let flushes = open.iter().flat_map(flush).chain(self.flushes()).collect();
        let changes = open.iter().map(|id| Change::SetOpen { id: *id, open: false }).collect();
        Plan { changes, phases: vec![flushes], ..Plan::default() }
    }

    /// The blocks from `first` on that are made equal together, `longest` at most.
    pub(crate) fn resync_count(
        &self,
        id: PoolVolumeId,
        first: VolumeBlock,
        longest: Blocks,
    ) -> Blocks {
        let size = self.state.volume(id).map_or(0, |volume| volume.size.0);
        assert!(first.0 < size, "a block of the volume");
        Blocks(longest.0.min(size - first.0))
    }

    pub(crate) fn plan_resync(
        &self,
        id: PoolVolumeId,
        first: VolumeBlock,
        count: Blocks,
    ) -> Result<Plan, Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        let mut copies = Vec::new();
        let mut fresh: BTreeMap<DiskId, BlockSet> = BTreeMap::new();
        let mut behind_out: BTreeMap<DiskId, BlockSet> = BTreeMap::new();
        let mut lost = 0;
        for column in 0..volume.width() as usize {
            let mut own = vec![Vec::new(); volume.layout.copies()];
            for row in volume.rows(column, first.0, count.0) {
                let block = volume.block(column, row);
                let Some(source) = self.readable_copies(volume, block).first().copied() else {
                    lost += u32::from(volume.locate(block).is_some());
                    continue;
                };
                let mut whole = self.whole_copies(volume, block);
                let unsynced = whole.any(|one| self.redundancy.is_unsynced(one));
                let mut others = volume.copies(block).filter(|to| *to != source);
                // A copy that cannot be read, with none to write it from, stays what it is.
                let is_only = !others.any(|to| self.is_live(to.disk));
                if is_only && self.redundancy.is_unreadable(source) {
                    lost += 1;
                    continue;
                }
                for (to, own) in volume.copies(block).zip(&mut own) {
                    let behind =
                        unsynced || self.state.is_stale(to) || self.redundancy.is_unreadable(to);
                    if !behind {
                        continue;
                    }
                    if !self.is_live(to.disk) {
                        // What is made equal without it may be another content than it has.
                        if !self.state.is_stale(to) {
                            behind_out.entry(to.disk).or_default().insert(to.block..to.end());
                        }
                        continue;
                    }
                    fresh.entry(to.disk).or_default().insert(to.block..to.end());
                    if to != source {
                        join(own, source, to);
                    }
                }
            }
            copies.extend(own.into_iter().flatten());
        }
        assert!(fresh.keys().all(|disk| self.is_live(*disk)), "only live disks are written");
        if fresh.is_empty() {
            return Err(Refusal::OnlyCopy { blocks: lost });
        }
        let blocks = |disk: DiskId, run: Range<u32>| BlockExtent {
            disk,
            block: run.start,
            len: run.end - run.start,
        };
        let change = |(disk, set): (&DiskId, &BlockSet)| {
            let fresh = |run| Change::Fresh { blocks: blocks(*disk, run) };
            set.iter().map(fresh).collect::<Vec<_>>()
        };
        let mut changes: Vec<Change> = fresh.iter().flat_map(change).collect();
        assert!(!changes.is_empty(), "blocks are made equal");
        changes.extend(behind_out.iter().flat_map(|(disk, set)| stale_changes(*disk, set)));
        let flush = |disk: &DiskId| Action::Flush { disk: *disk, of: None };
        let flushes = fresh.keys().map(flush).collect();
        Ok(Plan { changes, phases: vec![copy_actions(copies), flushes], ..Plan::default() })
    }

    /// Stale blocks that no mirror has: they were freed. The disk may have failed since this was
    /// asked for.
    pub(crate) fn plan_forget_stale(&self, disk: DiskId) -> Result<Plan, Refusal> {
        if !self.is_live(disk) {
            return Err(Refusal::Out(disk));
        }
        let mut rest = self.state.stale(disk).cloned().unwrap_or_default();
        for (_, volume) in self.state.volumes().filter(|(_, one)| one.layout.is_mirror()) {
            for place in volume.places().filter(|place| place.disk == disk) {
                rest.remove(place.block..place.end());
            }
        }
        let blocks =
            |run: Range<u32>| BlockExtent { disk, block: run.start, len: run.end - run.start };
        let fresh = rest.iter().map(|run| Change::Fresh { blocks: blocks(run) });
        Ok(Plan::of(fresh.collect()))
    }

    pub(crate) fn plan_take_back(&self, disk: DiskId) -> Result<Plan, Refusal> {
        if !self.state.disk(disk).ok_or(Refusal::NoSuchDisk(disk))?.out {
            return Err(Refusal::In(disk));
        }
        let mut changes = vec![Change::TakeBack { number: disk }];
        if let Some(unsynced) = self.redundancy.unsynced(disk) {
            // What clients have read since is on the others.
            changes.extend(stale_changes(disk, &self.with_other_copies(disk, unsynced).0));
        }
        Ok(Plan::of(changes))
    }

    /// A new device has none of the blocks: each needs a whole copy elsewhere.
    pub(crate) fn plan_replace(
        &self,
        disk: DiskId,
        uid: DiskUid,
        blocks: u32,
    ) -> Result<Plan, Refusal> {
        let old = self.state.disk(disk).ok_or(Refusal::NoSuchDisk(disk))?;
        if !old.out {
            return Err(Refusal::In(disk));
        }
        if blocks < old.blocks {
            return Err(Refusal::TooSmall { blocks: old.blocks });
        }
        if self.state.disks().any(|(_, other)| other.uid == uid) {
            return Err(Refusal::Known);
        }
        self.check_domain_of_new(disk, uid)?;
        let (mut stale, mut lost) = (BlockSet::default(), 0);
        for (_, volume) in self.state.volumes() {
            for (column, run) in volume.runs().filter(|(_, run)| run.disk() == disk) {
                stale.insert(run.place.block..run.place.end());
                for row in run.row..run.end() {
                    lost += u32::from(!self.is_elsewhere(volume, column, row));
                }
            }
        }
        assert!(u64::from(lost) <= stale.blocks() * self.state.volumes.len() as u64, "a part");
        if lost > 0 {
            return Err(Refusal::OnlyCopy { blocks: lost });
        }
        let mut changes = vec![Change::Replace { number: disk, uid }];
        changes.extend(stale_changes(disk, &stale));
        Ok(Plan::of(changes))
    }

    pub(crate) fn plan_upgrade(&self) -> Result<Plan, Refusal> {
        if self.state.version == VERSION {
            return Err(Refusal::Newest);
        }
        assert!(self.state.version < VERSION, "an older one");
        Ok(Plan::of(vec![Change::Upgrade { version: VERSION }]))
    }

    /// Validates the disks of a new mirror, and its pool. A mirror over a disk that is out would
    /// lack copies from the beginning.
    pub(crate) fn check_mirror(&self, layout: Layout, disks: &[DiskId]) -> Result<(), Refusal> {
        if !layout.is_mirror() {
            return Ok(());
        }
        assert!(layout.copies() > 1, "a mirror has copies");
        if self.state.version == VERSION_FIRST {
            return Err(Refusal::OldFormat);
        }
        if disks.len() < layout.copies() {
            return Err(Refusal::FewerThanCopies);
        }
        let out = disks.iter().find(|disk| !self.is_live(**disk));
        out.map_or(Ok(()), |disk| Err(Refusal::Out(*disk)))
    }
}

/// What new blocks take.
#[derive(Debug, Default)]
pub(crate) struct NewBlocks {
    pub(crate) actions: Vec<Action>,
    pub(crate) changes: Vec<Change>,
}
