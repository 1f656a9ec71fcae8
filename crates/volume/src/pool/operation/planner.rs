//! Planning: what each operation asks of the disks before it is committed.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::format::fields::{VERSION_SCRUB, VERSION_SUMS};
use crate::pool::limits::{DISKS_MAX, NAME_BYTES_MAX, VOLUME_BLOCKS_MAX};
use crate::pool::names::{BlockExtent, Blocks, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::operation::allocator::{BlockAllocator, release_blocks};
use crate::pool::operation::kinds::{NewVolume, Operation};
use crate::pool::operation::machine::Pool;
use crate::pool::operation::placement::{holes, place};
use crate::pool::operation::plan::{Plan, new_disk};
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::Action;
use crate::pool::state::change::Change;
use crate::pool::state::extent_map::{ExtentMap, Mapping};
use crate::pool::state::metadata::State;
use crate::pool::state::volume::Volume;

/// Validates a volume's name.
fn name(state: &State, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Refusal::Name);
    }
    if state.named(name).is_some() { Err(Refusal::NameTaken) } else { Ok(()) }
}

fn size(blocks: Blocks) -> Result<(), Refusal> {
    if (1..=VOLUME_BLOCKS_MAX).contains(&blocks.0) { Ok(()) } else { Err(Refusal::Size) }
}

/// Validates the disks of a volume.
fn disks(state: &State, disks: &[DiskId]) -> Result<(), Refusal> {
    for disk in disks {
        let known = state.disk(*disk).ok_or(Refusal::NoSuchDisk(*disk))?;
        if known.draining {
            return Err(Refusal::Draining(*disk));
        }
    }
    let twice = (1..disks.len()).any(|at| disks[..at].contains(&disks[at]));
    if disks.is_empty() || disks.len() > DISKS_MAX || twice { Err(Refusal::Disks) } else { Ok(()) }
}

impl Pool {
    /// Plans an operation; the blocks that it allocates are held from here on.
    pub(crate) fn plan(&mut self, operation: &Operation) -> Result<Plan, Refusal> {
        match operation {
            Operation::Create(volume) => self.plan_create(volume, None),
            Operation::CreateInParts { volume, parts } => self.plan_create(volume, Some(parts)),
            Operation::Resize { volume, size } => self.plan_resize(*volume, *size),
            Operation::Remove { volume } => {
                if self.state.snapshots(*volume).next().is_some() {
                    return Err(Refusal::HasSnapshots);
                }
                Ok(Plan::of(vec![Change::Remove { id: *volume }]))
            }
            Operation::Allocate { volume, first, count } => {
                self.plan_allocate(*volume, *first, *count)
            }
            Operation::Trim { volume, first, count } => self.plan_trim(*volume, *first, *count),
            Operation::Snapshot { volume, name } => self.plan_snapshot(*volume, name),
            Operation::Clone { source, name: called, size } => {
                self.plan_clone(*source, called, *size)
            }
            Operation::RollBack { snapshot } => {
                self.volume(*snapshot)?.origin.ok_or(Refusal::NotSnapshot)?;
                Ok(Plan::of(vec![Change::RollBack { snapshot: *snapshot }]))
            }
            Operation::Relocate { volume, zone, disks } => self.plan_settle(*volume, *zone, disks),
            Operation::Move { volume, block } => self.plan_move(*volume, *block),
            Operation::AddDisk { uid, blocks } => {
                let has_sums = self.state.has_sums();
                let (number, disk) = new_disk(&self.state, *uid, *blocks, has_sums)?;
                Ok(Plan::of(vec![Change::AddDisk { number, disk }]))
            }
            Operation::DrainDisk { disk } => self.plan_leave(*disk),
            Operation::KeepDisk { disk } => {
                self.state.disk(*disk).ok_or(Refusal::NoSuchDisk(*disk))?;
                Ok(Plan::of(vec![Change::SetDraining { number: *disk, draining: false }]))
            }
            Operation::RemoveDisk { disk } => self.plan_remove_disk(*disk),
            Operation::SetAlarm { percent } if *percent > 100 => Err(Refusal::Size),
            Operation::SetAlarm { percent } => {
                Ok(Plan::of(vec![Change::SetAlarm { percent: *percent }]))
            }
            Operation::Open { volume } => self.plan_open(*volume),
            Operation::Close => Ok(self.plan_close()),
            Operation::MarkStale { volume, first, count } => {
                self.plan_mark_stale(*volume, *first, *count)
            }
            Operation::Resync { volume, first, count } => self.plan_resync(*volume, *first, *count),
            Operation::ForgetStale { disk } => self.plan_forget_stale(*disk),
            Operation::TakeBack { disk } => self.plan_take_back(*disk),
            Operation::ReplaceDisk { disk, uid, blocks } => self.plan_replace(*disk, *uid, *blocks),
            Operation::RecordScrub { .. } if self.state.version < VERSION_SCRUB => {
                Err(Refusal::OldFormat)
            }
            Operation::RecordScrub { scrub } => Ok(Plan::of(vec![Change::Scrub { scrub: *scrub }])),
            Operation::Upgrade => self.plan_upgrade(),
            Operation::AddSums { areas } => self.plan_add_sums(areas),
        }
    }

    fn volume(&self, id: PoolVolumeId) -> Result<&Volume, Refusal> {
        self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))
    }

    fn plan_snapshot(&self, origin: PoolVolumeId, called: &str) -> Result<Plan, Refusal> {
        name(&self.state, called)?;
        if self.volume(origin)?.origin.is_some() {
            return Err(Refusal::IsSnapshot);
        }
        self.check_reachable(self.volume(origin)?)?;
        let id = PoolVolumeId(self.state.next_volume);
        let name = called.to_owned();
        let mut plan = Plan::of(vec![Change::Snapshot { id, origin, name }]);
        plan.phases = vec![self.flushes_of(origin)];
        Ok(plan)
    }

    fn plan_create(
        &mut self,
        wanted: &NewVolume,
        parts: Option<&[Blocks]>,
    ) -> Result<Plan, Refusal> {
        name(&self.state, &wanted.name)?;
        size(wanted.size)?;
        disks(&self.state, &wanted.disks)?;
        self.check_mirror(wanted.layout, &wanted.disks)?;
        if !wanted.has_sums && self.state.version < VERSION_SUMS {
            return Err(Refusal::OldFormat);
        }
        let id = PoolVolumeId(self.state.next_volume);
        let NewVolume { name, size, layout, zone, thin, has_sums: sums, seed, disks } =
            wanted.clone();
        let disks = self.order_of_new(layout.copies(), disks)?;
        let columns = vec![ExtentMap::default(); layout.columns(disks.len())];
        let (origin, group, open) = (None, id, false);
        let volume = Volume {
            name,
            size,
            layout,
            zone,
            thin,
            sums,
            open,
            seed,
            disks,
            origin,
            group,
            columns,
        };
        let mut plan = Plan::default();
        if parts.is_some_and(|parts| !are_parts_of(&volume, parts)) {
            return Err(Refusal::Parts);
        }
        if !thin {
            let placed = match parts {
                Some(parts) => lay_parts(&mut self.allocators, &volume, parts)?,
                None => lay(&mut self.allocators, &volume, holes(&volume, 0, size.0))?,
            };
            let planned = self.plan_new(id, &volume, placed);
            plan = self.or_release(planned)?;
        }
        let volume = Volume { columns: Vec::new(), ..volume };
        let placed: u32 = plan.holds.iter().map(|place| place.len).sum();
        let all = size.0.saturating_mul(u32::try_from(layout.copies()).expect("few"));
        assert_eq!(placed, if thin { 0 } else { all }, "thick volumes are allocated whole");
        assert!(self.state.volume(id).is_none(), "volume numbers are not reused");
        plan.changes.insert(0, Change::Create { id, volume });
        Ok(plan)
    }

    /// What makes the data of a volume durable, independently of later flushes of its clients.
    pub(crate) fn flushes_of(&self, volume: PoolVolumeId) -> Vec<Action> {
        let of = Some(volume);
        self.state.disks_in().map(|disk| Action::Flush { disk, of }).collect()
    }

    fn plan_clone(
        &mut self,
        source: PoolVolumeId,
        called: &str,
        to: Blocks,
    ) -> Result<Plan, Refusal> {
        name(&self.state, called)?;
        size(to)?;
        let from = self.state.volume(source).ok_or(Refusal::NoSuchVolume(source))?;
        if to < from.size {
            return Err(Refusal::SmallerThanSource { blocks: from.size });
        }
        self.check_reachable(from)?;
        let id = PoolVolumeId(self.state.next_volume);
        let mut plan = Plan::default();
        if !from.thin {
            // The clone has the disks of its source, and no block behind its end.
            let longer = Volume { size: to, ..from.clone() };
            let more = holes(&longer, from.size.0, to.0 - from.size.0);
            let placed = lay(&mut self.allocators, &longer, more)?;
            let planned = self.plan_new(id, &longer, placed);
            plan = self.or_release(planned)?;
        }
        let from = self.volume(source)?;
        let held: u32 = plan.holds.iter().map(|place| place.len).sum();
        let copies = u32::try_from(from.layout.copies()).expect("few");
        let more = if from.thin { 0 } else { (to.0 - from.size.0).saturating_mul(copies) };
        assert_eq!(held, more, "what a clone has beyond its source is allocated");
        assert!(self.state.volume(id).is_none(), "volume numbers are not reused");
        let changes = [
            Change::Clone { id, source, name: called.to_owned() },
            Change::Resize { id, size: to },
        ];
        plan.changes.splice(0..0, changes);
        let flushes = self.flushes_of(source);
        match plan.phases.last_mut() {
            Some(last) => last.extend(flushes),
            None => plan.phases.push(flushes),
        }
        Ok(plan)
    }

    fn plan_resize(&mut self, id: PoolVolumeId, to: Blocks) -> Result<Plan, Refusal> {
        size(to)?;
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        if volume.origin.is_some() {
            return Err(Refusal::IsSnapshot);
        }
        let mut plan = Plan::default();
        if to > volume.size && !volume.thin {
            let more = holes(volume, volume.size.0, to.0 - volume.size.0);
            let placed = lay(&mut self.allocators, volume, more)?;
            let planned = self.plan_new(id, self.volume(id)?, placed);
            plan = self.or_release(planned)?;
        }
        assert!(
            plan.holds.is_empty() || plan.phases.len() == 2,
            "new blocks are erased and flushed"
        );
        plan.changes.insert(0, Change::Resize { id, size: to });
        Ok(plan)
    }

    fn plan_allocate(
        &mut self,
        id: PoolVolumeId,
        first: VolumeBlock,
        count: Blocks,
    ) -> Result<Plan, Refusal> {
        let volume = self.volume(id)?;
        let mut shared = Vec::new();
        if self.state.may_share(id) {
            for column in 0..volume.columns.len() {
                let rows = volume.rows(column, first.0, count.0);
                for run in volume.columns[column].within(rows.start, rows.end - rows.start) {
                    shared
                        .extend(self.shared(id, column, run).into_iter().map(|run| (column, run)));
                }
            }
        }
        assert!(shared.iter().all(|(_, run): &(usize, Mapping)| run.place.len > 0));
        let volume = self.state.volume(id).expect("it was there a moment ago");
        assert!(volume.origin.is_none(), "a snapshot is not written");
        let placed = lay(&mut self.allocators, volume, holes(volume, first.0, count.0))?;
        let planned = self.plan_new(id, self.volume(id)?, placed);
        let mut plan = self.or_release(planned)?;
        let mut actions = plan.phases.first().cloned().unwrap_or_default();
        for (column, old) in shared {
            if let Err(refusal) = self.plan_copies(id, (column, old), &mut plan, &mut actions) {
                self.release_blocks(&plan.holds);
                return Err(refusal);
            }
        }
        assert!(plan.holds.len() <= plan.changes.len(), "each extent is mapped");
        plan.prepare(actions);
        Ok(plan)
    }

    /// Adds to a plan what copies shared blocks to blocks of the volume's own.
    fn plan_copies(
        &mut self,
        id: PoolVolumeId,
        (column, old): (usize, Mapping),
        plan: &mut Plan,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        let runs = place(&mut self.allocators, volume, column, old.row..old.end())?;
        plan.holds.extend(runs.iter().map(|run| run.place));
        let volume = self.volume(id)?;
        for run in runs {
            let block = old.place.block + (run.row - old.row);
            let from = BlockExtent { disk: old.disk(), block, len: run.place.len };
            self.check_new(volume, &[(column, run)])?;
            let new = self.prepare_copies(volume, (column, from, run))?;
            actions.extend(new.actions);
            plan.changes.push(map(id, column, run));
            plan.changes.extend(new.changes);
        }
        Ok(())
    }

    /// Maps rows to the blocks that were allocated for them, which are erased. A refusal comes with
    /// the blocks that are to be released.
    fn plan_new(
        &self,
        id: PoolVolumeId,
        volume: &Volume,
        placed: Vec<(usize, Mapping)>,
    ) -> Result<Plan, (Refusal, Vec<BlockExtent>)> {
        let holds: Vec<BlockExtent> = placed.iter().map(|(_, run)| run.place).collect();
        if let Err(refusal) = self.check_new(volume, &placed) {
            return Err((refusal, holds));
        }
        let new = self.prepare_new(volume, &placed);
        let mut plan = Plan { holds, ..Plan::default() };
        plan.prepare(new.actions);
        plan.changes = placed.into_iter().map(|(column, run)| map(id, column, run)).collect();
        plan.changes.extend(new.changes);
        Ok(plan)
    }

    fn or_release(
        &mut self,
        planned: Result<Plan, (Refusal, Vec<BlockExtent>)>,
    ) -> Result<Plan, Refusal> {
        planned.map_err(|(refusal, holds)| {
            self.release_blocks(&holds);
            refusal
        })
    }

    /// The parts of a mapping that other volumes or snapshots share.
    pub(crate) fn shared(&self, id: PoolVolumeId, column: usize, run: Mapping) -> Vec<Mapping> {
        let mut rows: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, other) in self.state.group_members(id).filter(|(other, _)| *other != id) {
            for theirs in other.columns[column].within(run.row, run.place.len) {
                let ours = run.place.block + (theirs.row - run.row);
                if theirs.disk() == run.disk() && theirs.place.block == ours {
                    let end = rows.entry(theirs.row).or_default();
                    *end = theirs.end().max(*end);
                }
            }
        }
        let mut parts: Vec<Range<u32>> = Vec::new();
        for (start, end) in rows {
            match parts.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => parts.push(start..end),
            }
        }
        let inside = |rows: &Range<u32>| run.row <= rows.start && rows.end <= run.end();
        assert!(parts.iter().all(inside), "parts of the mapping");
        assert!(parts.windows(2).all(|two| two[0].end < two[1].start), "apart from each other");
        let part = |rows: Range<u32>| {
            let block = run.place.block + (rows.start - run.row);
            Mapping {
                row: rows.start,
                place: BlockExtent { block, len: rows.end - rows.start, ..run.place },
            }
        };
        parts.into_iter().map(part).collect()
    }

    fn plan_trim(
        &self,
        id: PoolVolumeId,
        first: VolumeBlock,
        count: Blocks,
    ) -> Result<Plan, Refusal> {
        let volume = self.volume(id)?;
        if !volume.thin {
            return Err(Refusal::NotThin);
        }
        let columns = 0..volume.columns.len();
        let changes = columns.filter_map(|column| {
            let Range { start: row, end } = volume.rows(column, first.0, count.0);
            let column = u32::try_from(column).expect("few disks");
            (row < end).then_some(Change::Unmap { id, column, row, rows: end - row })
        });
        Ok(Plan::of(changes.collect()))
    }

    fn plan_settle(&self, id: PoolVolumeId, zone: Zone, on: &[DiskId]) -> Result<Plan, Refusal> {
        disks(&self.state, on)?;
        let volume = self.volume(id)?;
        if volume.layout.keeps_width() && on.len() != volume.disks.len() {
            return Err(Refusal::Disks);
        }
        self.check_moved(id)?;
        let disks = self.order_of_moved(volume, on)?;
        let relatives = self.state.group_members(id);
        let place = |(id, _)| Change::SetPlacement { id, zone, disks: disks.clone() };
        Ok(Plan::of(relatives.map(place).collect()))
    }

    /// No two copies of a block may come to lie on one disk: a mirror gets another placement when
    /// its blocks are where the one before wants them.
    fn check_moved(&self, id: PoolVolumeId) -> Result<(), Refusal> {
        let mut mirrors = self.state.group_members(id).filter(|(_, one)| one.layout.is_mirror());
        let moving = mirrors.any(|(id, _)| self.misplaced(id, VolumeBlock(0)).is_some());
        if moving { Err(Refusal::Moving) } else { Ok(()) }
    }

    fn plan_move(&mut self, id: PoolVolumeId, block: VolumeBlock) -> Result<Plan, Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        let (column, row) = volume.row(block);
        if volume.locate(block).is_none() {
            return Ok(Plan::default());
        }
        let mut columns: Vec<usize> = volume.copies_of(column).collect();
        if volume.layout.is_mirror() {
            columns.retain(|column| self.is_row_misplaced(volume, *column, row));
        }
        let (mut plan, mut actions) = (Plan::default(), Vec::new());
        for column in columns {
            if let Err(refusal) = self.plan_move_of((id, column, row), &mut plan, &mut actions) {
                self.release_blocks(&plan.holds);
                return Err(refusal);
            }
        }
        plan.prepare(actions);
        Ok(plan)
    }

    /// Adds to a plan what moves a row of a column.
    fn plan_move_of(
        &mut self,
        (id, column, row): (PoolVolumeId, usize, u32),
        plan: &mut Plan,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let volume = self.state.volume(id).ok_or(Refusal::NoSuchVolume(id))?;
        let from = volume.columns[column].block(row).expect("its row is mapped");
        let run = place(&mut self.allocators, volume, column, row..row + 1)?.remove(0);
        plan.holds.push(run.place);
        let sharing = self.state.group_members(id).filter(|(_, other)| {
            let there = other.columns[column].within(row, 1).next();
            there.is_some_and(|run| run.place == from)
        });
        assert_eq!(run.place.len, 1, "a block is moved at a time");
        assert!(run.place != from, "to another location");
        let changes: Vec<Change> = sharing.map(|(id, _)| map(id, column, run)).collect();
        assert!(!changes.is_empty(), "the volume itself has the block");
        plan.changes.extend(changes);
        let volume = self.volume(id)?;
        self.check_new(volume, &[(column, run)])?;
        if volume.layout.is_mirror() && !self.is_live(run.disk()) {
            // The copy that is moved may be the last whole one.
            return Err(Refusal::Out(run.disk()));
        }
        let new = self.prepare_copies(volume, (column, from, run))?;
        actions.extend(new.actions);
        plan.changes.extend(new.changes);
        Ok(())
    }

    /// Places a disk's volumes on the others: a stripe's column on the one with the most free
    /// blocks.
    fn plan_leave(&self, number: DiskId) -> Result<Plan, Refusal> {
        self.state.disk(number).ok_or(Refusal::NoSuchDisk(number))?;
        let mut others: Vec<DiskId> = self.state.disks().map(|(id, _)| id).collect();
        others.retain(|id| *id != number && !self.state.disks[id].draining && self.is_live(*id));
        others.sort_by_key(|id| std::cmp::Reverse(self.allocators[id].free_blocks()));
        let first = *others.first().ok_or(Refusal::LastDisk)?;
        let mut changes = vec![Change::SetDraining { number, draining: true }];
        for (id, volume) in self.state.volumes() {
            if !volume.disks.contains(&number) {
                continue;
            }
            let mut disks = volume.disks.clone();
            let unused = self.instead_of(number, volume, &others)?;
            self.check_moved(id)?;
            if volume.layout.keeps_width() || disks.len() == 1 {
                let instead = unused.unwrap_or(first);
                assert!(instead != number, "another disk takes its place");
                disks.iter_mut().filter(|id| **id == number).for_each(|id| *id = instead);
            } else {
                disks.retain(|id| *id != number);
            }
            assert!(!disks.is_empty(), "a volume keeps a disk");
            assert!(!disks.contains(&number), "the drained disk is left");
            changes.push(Change::SetPlacement { id, zone: volume.zone, disks });
        }
        Ok(Plan::of(changes))
    }

    fn plan_remove_disk(&self, number: DiskId) -> Result<Plan, Refusal> {
        self.state.disk(number).ok_or(Refusal::NoSuchDisk(number))?;
        if !self.state.disks_in().any(|disk| disk != number) {
            return Err(Refusal::LastDisk);
        }
        let data = self.allocators[&number].data();
        assert!(self.allocators[&number].free_blocks() <= data.end - data.start, "free is a part");
        let blocks = data.end - data.start - self.allocators[&number].free_blocks();
        let wanted = self.state.volumes().any(|(_, volume)| volume.disks.contains(&number));
        if blocks > 0 || wanted {
            return Err(Refusal::InUse { blocks });
        }
        Ok(Plan::of(vec![Change::RemoveDisk { number }]))
    }
}

/// Allocates blocks for these rows of columns.
fn lay(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    volume: &Volume,
    rows: Vec<(usize, Range<u32>)>,
) -> Result<Vec<(usize, Mapping)>, Refusal> {
    let columns = volume.columns.len();
    debug_assert!(rows.iter().all(|(column, _)| *column < columns), "rows of its columns");
    lay_each(allocators, rows.into_iter().map(|(column, rows)| (volume, column, rows)))
}

/// Allocates blocks for rows of columns, each as if the volume were the one beside it. If there are
/// too few, none is held.
fn lay_each<'a>(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    rows: impl Iterator<Item = (&'a Volume, usize, Range<u32>)>,
) -> Result<Vec<(usize, Mapping)>, Refusal> {
    let (mut placed, mut count): (Vec<(usize, Mapping)>, u32) = (Vec::new(), 0);
    for (volume, column, rows) in rows {
        count += rows.end - rows.start;
        match place(allocators, volume, column, rows) {
            Ok(runs) => placed.extend(runs.into_iter().map(|run| (column, run))),
            Err(refusal) => {
                let holds: Vec<_> = placed.iter().map(|(_, run)| run.place).collect();
                release_blocks(allocators, &holds);
                return Err(refusal);
            }
        }
    }
    let held: u32 = placed.iter().map(|(_, run)| run.place.len).sum();
    assert_eq!(held, count, "every row has a block");
    Ok(placed)
}

/// Whether these can be the parts of a volume on its disks.
fn are_parts_of(volume: &Volume, parts: &[Blocks]) -> bool {
    let sum: u64 = parts.iter().map(|part| u64::from(part.0)).sum();
    volume.layout == Layout::Single
        && !volume.thin
        && parts.len() == volume.disks.len()
        && parts.iter().all(|part| part.0 > 0)
        && sum == u64::from(volume.size.0)
}

/// Allocates blocks for a volume of a single layout, as many on each of its disks as `parts` says.
/// If there are too few, none is held.
fn lay_parts(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    volume: &Volume,
    parts: &[Blocks],
) -> Result<Vec<(usize, Mapping)>, Refusal> {
    let on = |disk: &DiskId| Volume { disks: vec![*disk], ..volume.clone() };
    let alone: Vec<Volume> = volume.disks.iter().map(on).collect();
    let mut end = 0;
    let rows = parts.iter().map(|part| {
        end += part.0;
        end - part.0..end
    });
    let placed = lay_each(allocators, alone.iter().zip(rows).map(|(disk, rows)| (disk, 0, rows)))?;
    assert_eq!(end, volume.size.0, "the parts are the whole volume");
    Ok(placed)
}

fn map(id: PoolVolumeId, column: usize, run: Mapping) -> Change {
    Change::Map { id, column: u32::try_from(column).expect("few disks"), run }
}
