//! The power goes, and comes again.

use spindle_volume::pool::flow::Flow;
use spindle_volume::pool::{
    BlockExtent, FoundPool, Operation, Pool, PoolVolumeId, State, VolumeBlock, find,
};
use units::Lba;

use crate::buffers::Buffers;
use crate::common::disk::Disk;
use crate::common::media;
use crate::common::world::reopen;
use crate::model::Cell;
use crate::world::{PROBE, World, cells, device, stamp};

impl World {
    /// The power goes, on a copy of the disks; returns the surviving contents.
    pub(crate) fn crash(&mut self) -> (Vec<Disk>, FoundPool) {
        self.crashes += 1;
        let rng = &mut self.rng;
        let disks: Vec<Disk> = self.disks.iter().map(|disk| disk.crashed(rng)).collect();
        let (_, found) = reopen(&disks);
        let lost = found.missing.iter().filter(|(id, _)| found.state.is_in(*id)).count();
        // One that failed while it came has no label yet.
        let is_failing = !self.flow.pool().failing().is_empty();
        assert!(lost == 0 || is_failing, "no disk of the pool is lost");
        self.verify(&disks, &found.state);
        (disks, found)
    }

    /// Every volume is there and holds what it may after a crash, with a change under way or
    /// without.
    pub(crate) fn verify(&self, disks: &[Disk], state: &State) {
        let changes = || self.changes.values().chain(&self.unknown);
        let under_way = |right: &dyn Fn(&Operation) -> bool| changes().any(right);
        for id in self.volumes.keys().filter(|id| state.volume(**id).is_none()) {
            let removed =
                |one: &Operation| matches!(one, Operation::Remove { volume } if volume == id);
            assert!(under_way(&removed), "{id:?} is gone");
        }
        for (id, volume) in state.volumes() {
            let known = self.volumes.get(&id);
            let rolled = changes().find_map(|one| match one {
                Operation::RollBack { snapshot }
                    if state.volume(*snapshot).is_some_and(|one| one.origin == Some(id)) =>
                {
                    self.volumes.get(snapshot)
                }
                _ => None,
            });
            let resized =
                under_way(&|one| matches!(one, Operation::Resize { volume, .. } if *volume == id));
            let many = cells(volume.size.0);
            let right =
                known.is_none_or(|known| known.len() == many) || resized || rolled.is_some();
            assert!(right, "the size of {id:?}");
            for probe in 0..many as u64 {
                let at = usize::try_from(probe).unwrap();
                let found = whole(disks, state, id, probe);
                let all = |cell: &Cell| {
                    let holds = |stamp| cell.may_survive(stamp) || self.alternates.contains(&stamp);
                    found.iter().all(|stamp| holds(*stamp))
                };
                let allows =
                    |cells: Option<&Vec<Cell>>| cells.and_then(|cells| cells.get(at)).map(all);
                // A snapshot or clone that is being made holds what its volume does.
                let source = changes().find_map(|one| match one {
                    Operation::Clone { source, name, .. } if *name == volume.name => Some(*source),
                    _ => None,
                });
                let origin = volume.origin.or(source).filter(|_| known.is_none());
                let origin = origin.and_then(|origin| self.volumes.get(&origin));
                let answers = [allows(known), allows(rolled), allows(origin)];
                let is_zero = found.iter().all(|stamp| *stamp == 0);
                // A volume that has grown, and is about to be rolled back, has zeroes behind what
                // it had.
                let is_new = resized && known.is_some_and(|cells| cells.len() <= at);
                let right = match answers.iter().flatten().count() {
                    0 => is_zero,
                    _ => answers.contains(&Some(true)) || is_new && is_zero,
                };
                assert!(
                    right,
                    "probe {probe} of {id:?} holds {found:?} after a crash, of {:?}",
                    known.and_then(|cells| cells.get(at))
                );
            }
        }
    }

    /// The power goes, and comes again: what is there is what there is.
    pub(crate) fn restart(&mut self) {
        let (disks, found) = self.crash();
        let found = self.without_dead(&disks, found);
        self.asked.clear();
        self.changes.clear();
        self.unknown.clear();
        self.alternates.clear();
        self.running.clear();
        self.copies.clear();
        self.digests.clear();
        self.buffered = self.buffered();
        let buffers = self.buffers.iter().map(|_| Buffers::new(&mut self.rng));
        self.buffers = buffers.collect();
        self.time += 1;
        let time = self.time;
        self.flow = Flow::new(Pool::open(found));
        let pool = self.flow.pool();
        for (id, volume) in pool.state().volumes() {
            for probe in 0..cells(volume.size.0) as u64 {
                let stamps = whole(&disks, pool.state(), id, probe);
                if stamps.windows(2).any(|two| two[0] != two[1]) {
                    self.alternates.extend(stamps);
                }
            }
        }
        self.volumes = pool
            .state()
            .volumes()
            .map(|(id, volume)| {
                let stamps = (0..cells(volume.size.0) as u64).map(|at| read(&disks, pool, id, at));
                (id, stamps.map(|stamps| Cell::of(&stamps, time)).collect())
            })
            .collect();
        self.disks = disks;
        self.bad.clear();
        self.refusing.clear();
        self.listen();
    }

    /// The daemon is killed: the next one writes what the hosts had in memory to the disks, and no
    /// write that was answered is missing on a whole copy.
    pub(crate) fn kill(&mut self) {
        assert!(self.dead.is_empty(), "each log has its disk");
        for (disk, buffers) in self.disks.iter_mut().zip(&self.buffers) {
            for (extent, contents) in buffers.logged() {
                disk.enter_forced(extent, &contents);
            }
            disk.flush();
        }
        let is_calm = self.changes.is_empty() && self.unknown.is_empty();
        let (_, found) = reopen(&self.disks);
        let (state, now) = (&found.state, self.time + 1);
        for (id, cells) in self.volumes.iter().filter(|_| is_calm) {
            for (probe, cell) in (0..).zip(cells) {
                for stamp in whole(&self.disks, state, *id, probe) {
                    let right = cell.may_read(stamp, now) || self.alternates.contains(&stamp);
                    assert!(right, "probe {probe} of {id:?} has {stamp} after a kill, of {cell:?}");
                }
            }
        }
        self.kills += 1;
        self.restart();
    }

    /// Disks that were pulled may stay away while the power is off, as far as the others are more
    /// than half of those that are in.
    fn without_dead(&mut self, disks: &[Disk], found: FoundPool) -> FoundPool {
        let state = &found.state;
        let members: Vec<usize> = state.disks_in().filter_map(|disk| device(state, disk)).collect();
        let dead = members.iter().filter(|device| self.dead.contains(device)).count();
        let able = state.has_mirrors() && (members.len() - dead) * 2 > members.len();
        if self.dead.is_empty() || !able || self.below(2) == 0 {
            self.dead.clear();
            return found;
        }
        let all: Vec<usize> = found.devices.values().copied().collect();
        let (given, _) = reopen(disks);
        let there: Vec<Disk> = all
            .into_iter()
            .map(|at| given[at])
            .filter(|device| !self.dead.contains(device))
            .map(|device| disks[device].clone())
            .collect();
        find(&media(&there)).expect("more than half of its disks are a pool")
    }
}

/// What a probe holds at a place.
pub(crate) fn at(disks: &[Disk], state: &State, place: BlockExtent, probe: u64) -> u64 {
    let at = Lba(place.extent().start.0 + probe * PROBE % 2_048);
    stamp(&disks[device(state, place.disk).unwrap()], at, probe)
}

fn block(probe: u64) -> VolumeBlock {
    VolumeBlock(u32::try_from(probe * PROBE / 2_048).unwrap())
}

/// What the whole copies of a probe hold.
fn whole(disks: &[Disk], state: &State, id: PoolVolumeId, probe: u64) -> Vec<u64> {
    let volume = state.volume(id).unwrap();
    let is_whole = |place: &BlockExtent| state.is_in(place.disk) && !state.is_stale(*place);
    let copies = volume.copies(block(probe));
    let whole = copies.filter(|place| !volume.layout.is_mirror() || is_whole(place));
    let stamps: Vec<u64> = whole.map(|place| at(disks, state, place, probe)).collect();
    let is_mapped = state.volume(id).unwrap().locate(block(probe)).is_some();
    if is_mapped { stamps } else { vec![0] }
}

/// What a probe of a volume holds for a client: one of these, if no copy can be read now.
fn read(disks: &[Disk], pool: &Pool, id: PoolVolumeId, probe: u64) -> Vec<u64> {
    let (state, block) = (pool.state(), block(probe));
    let volume = state.volume(id).unwrap();
    if volume.locate(block).is_none() {
        return vec![0];
    }
    if !volume.layout.is_mirror() {
        return vec![at(disks, state, volume.locate(block).unwrap(), probe)];
    }
    if let Some(place) = pool.readable_copies(volume, block).first() {
        return vec![at(disks, state, *place, probe)];
    }
    let fresh = volume.copies(block).filter(|place| !state.is_stale(*place));
    fresh.map(|place| at(disks, state, place, probe)).collect()
}
