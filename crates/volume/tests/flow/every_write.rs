//! The power goes at every metadata write of pools with mirrors, which mark copies stale, make
//! them equal, lose disks, take them back and replace them. It goes before the write, and after
//! it; what no flush has made durable is lost, torn or reordered. In the meantime a disk may be
//! gone for good. `SPINDLE_CASES=1000` for as many worlds and each of their writes; else a sample.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{ChargeTo, Work};
use spindle_volume::pool::{BlockSet, FoundPool, State, VolumeBlock, find};

use crate::common::cases;
use crate::common::disk::Disk;
use crate::common::media;
use crate::common::world::reopen;
use crate::mirrors::{Bears, at_work};
use crate::world::{World, device};

/// One of this number of metadata writes is a crash, unless the number of worlds is said.
const SAMPLED: u32 = 6;

/// What the crashes at metadata writes left. A state that the pool did not have yet is one that was
/// being written.
#[derive(Debug, Default)]
pub(crate) struct MetadataCrashes {
    /// One of this number of metadata writes is a crash.
    every: u32,
    crashes: u64,
    /// Crashes after which a disk was gone for good.
    without_disk: u64,
    /// More blocks of a disk are stale than the pool had recorded.
    marked: u64,
    /// Fewer are.
    renewed: u64,
    taken_out: u64,
    taken_back: u64,
    replaced: u64,
    /// Whether the last step was one.
    is_last: bool,
}

impl MetadataCrashes {
    fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.without_disk += other.without_disk;
        self.marked += other.marked;
        self.renewed += other.renewed;
        self.taken_out += other.taken_out;
        self.taken_back += other.taken_back;
        self.replaced += other.replaced;
    }

    /// Counts in what `found` is ahead of what the pool has recorded.
    fn compare(&mut self, recorded: &State, found: &State) {
        let stale = |state: &State, id| state.stale(id).map_or(0, BlockSet::blocks);
        for (id, disk) in recorded.disks() {
            let Some(now) = found.disk(id) else { continue };
            self.replaced += u64::from(now.uid != disk.uid);
            self.taken_out += u64::from(now.out && !disk.out);
            self.taken_back += u64::from(disk.out && !now.out);
            self.marked += u64::from(stale(found, id) > stale(recorded, id));
            self.renewed += u64::from(stale(found, id) < stale(recorded, id));
        }
    }
}

impl World {
    /// Whether the last step was a crash at a metadata write.
    pub(crate) fn has_crashed_at_metadata(&mut self) -> bool {
        self.metadata.as_mut().is_some_and(|one| std::mem::take(&mut one.is_last))
    }

    /// The power goes now if this piece writes metadata, or makes them durable.
    pub(crate) fn crash_at_metadata(&mut self, at: usize) {
        let piece = &self.running[at].piece;
        let is_flush = piece.work == Work::Flush && piece.payer == ChargeTo::Metadata;
        let is_write = matches!(piece.work, Work::Metadata { .. }) || is_flush;
        if !is_write {
            return;
        }
        let Some(mut counts) = self.metadata.take() else { return };
        if counts.every > 1 && self.rng.below(counts.every) > 0 {
            self.metadata = Some(counts);
            return;
        }
        let (disks, found) = self.crash();
        counts.crashes += 1;
        counts.is_last = true;
        counts.compare(self.flow.pool().state(), &found.state);
        counts.without_disk += u64::from(self.lose_one(&disks, &found));
        self.metadata = Some(counts);
    }

    /// One of the disks does not come back with the power, where the others bear it.
    fn lose_one(&mut self, disks: &[Disk], found: &FoundPool) -> bool {
        let members: Vec<DiskId> = found.state.disks_in().collect();
        let lost = members[self.below(members.len())];
        let pool = self.flow.pool();
        let is_whole = self.dead.is_empty() && pool.failing().is_empty() && !pool.is_opening();
        let is_most = (members.len() - 1) * 2 > members.len();
        if !is_whole || !is_most || !found.state.has_mirrors() || !found.missing.is_empty() {
            return false;
        }
        let lost_device = device(&found.state, lost);
        let (given, _) = reopen(disks);
        let there = found.devices.values().map(|at| given[*at]);
        let there = there.filter(|at| Some(*at) != lost_device);
        let there: Vec<Disk> = there.map(|at| disks[at].clone()).collect();
        let left = find(&media(&there)).expect("more than half of its disks are a pool").state;
        self.verify(disks, &left);
        let was_redundant = self.flow.pool().is_redundant();
        for (id, volume) in left.volumes().filter(|(_, one)| one.layout.is_mirror()) {
            for block in (0..volume.size.0).map(VolumeBlock) {
                let mut copies = volume.copies(block);
                let is_there = copies.any(|one| one.disk != lost && !left.is_stale(one));
                let is_left = volume.locate(block).is_none() || is_there;
                assert!(is_left || !was_redundant, "{block:?} of {id:?} is gone with {lost:?}");
            }
        }
        true
    }
}

fn run(seed: u64) -> MetadataCrashes {
    println!("seed {seed}");
    let mut world = World::new(seed, 2 + usize::try_from(seed % 4).unwrap());
    if seed % 8 >= 4 {
        world.has_faults = true;
        world = world.with_buffers();
    }
    let every = if std::env::var_os("SPINDLE_CASES").is_some() { 1 } else { SAMPLED };
    world.metadata = Some(MetadataCrashes { every, ..MetadataCrashes::default() });
    at_work(world, Bears::All).metadata.expect("it has counted")
}

#[test]
fn a_crash_at_any_metadata_write_loses_nothing_that_the_mirrors_bear() {
    let first = std::env::var("SPINDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut all = MetadataCrashes::default();
    for seed in first..first + cases(8) {
        all.add(&run(seed));
    }
    println!("{all:?}");
    assert!(all.marked > 0, "a write of stale regions was cut off");
    assert!(all.renewed > 0, "a write of what a rebuild has done was cut off");
    assert!(all.taken_out > 0 && all.taken_back > 0, "one of a disk's state was cut off");
    assert!(all.replaced > 0, "one of a spare in a disk's place was cut off");
    assert!(all.without_disk > 0, "disks were lost with the power");
}
