//! The copy of a mirror that a read goes to: a client that reads in order has one disk to itself,
//! other reads go where less is in flight.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{PoolRequestId, Work};
use spindle_volume::pool::limits::BLOCK_SECTORS;
use spindle_volume::pool::{Blocks, Copies, Layout, NewVolume, Operation, PoolVolumeId, Zone};
use units::{Extent, Lba, Sectors};

use crate::common::world::BLOCKS;
use crate::world::World;

const BLOCK: u64 = BLOCK_SECTORS.0;
/// Blocks of the mirror that are neighbours on its disks: the next one lies behind a label.
const RUN: u64 = 18;

/// A pool of two disks with a mirror and a volume on the first disk.
fn world() -> (World, PoolVolumeId, PoolVolumeId) {
    let mut world = World::new(1, 2);
    let mut create = |name: &str, layout, blocks, disks: &[u32]| {
        let disks = disks.iter().map(|disk| DiskId(*disk)).collect();
        let (name, size, zone) = (name.to_owned(), Blocks(blocks), Zone::Any);
        let volume =
            NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 1, disks };
        world.change(Operation::Create(volume.clone()));
        world.drain();
        world.flow.pool().state().named(&volume.name).expect("it was created").0
    };
    let mirror = create("mirror", Layout::Mirror(Copies::new(2).unwrap()), BLOCKS - 12, &[0, 1]);
    let single = create("single", Layout::Single, 4, &[0]);
    (world, mirror, single)
}

fn extent(at: u64, sectors: u64) -> Extent {
    Extent::new(Lba(at), Sectors(sectors))
}

fn read(world: &mut World, volume: PoolVolumeId, at: u64, sectors: u64) -> PoolRequestId {
    world.submit(volume, units::Operation::read(extent(at, sectors)), false)
}

/// The disks that the pieces of a request are in flight at.
fn disks(world: &World, id: PoolRequestId) -> Vec<DiskId> {
    let own = world
        .running
        .iter()
        .filter(|one| matches!(one.piece.work, Work::Request { request, .. } if request == id));
    own.map(|one| one.piece.disk).collect()
}

#[test]
fn a_client_that_reads_in_order_stays_on_one_disk() {
    let (mut world, mirror, _) = world();
    let mut seen = Vec::new();
    for part in 0..4 * RUN {
        let id = read(&mut world, mirror, part * BLOCK / 4, BLOCK / 4);
        seen.extend(disks(&world, id));
        world.drain();
        world.flow.invariants();
    }
    assert!(seen.iter().all(|disk| *disk == seen[0]), "{seen:?}");
}

#[test]
fn two_clients_that_read_in_order_have_a_disk_each() {
    let (mut world, mirror, _) = world();
    let mut seen = [Vec::new(), Vec::new()];
    for part in 0..8 {
        for (client, seen) in seen.iter_mut().enumerate() {
            let at = part * BLOCK + client as u64 * RUN / 2 * BLOCK;
            let id = read(&mut world, mirror, at, BLOCK);
            seen.extend(disks(&world, id));
            world.drain();
        }
    }
    let [one, other] = seen;
    assert!(one.iter().all(|disk| *disk == one[0]), "{one:?}");
    assert!(other.iter().all(|disk| *disk == other[0]), "{other:?}");
    assert_ne!(one[0], other[0]);
}

#[test]
fn reads_in_order_with_many_outstanding_use_both_disks() {
    let (mut world, mirror, _) = world();
    let ids: Vec<_> = (0..24).map(|at| read(&mut world, mirror, at * BLOCK, BLOCK)).collect();
    let seen: Vec<DiskId> = ids.iter().flat_map(|id| disks(&world, *id)).collect();
    let first = seen.iter().filter(|disk| **disk == DiskId(0)).count();
    assert!((8..=16).contains(&first), "{seen:?}");
    let switches = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(switches <= 24 / 4, "each disk has several blocks in a row: {seen:?}");
    // One long request has the same.
    world.drain();
    let id = read(&mut world, mirror, 0, 24 * BLOCK);
    let seen = disks(&world, id);
    let first = seen.iter().filter(|disk| **disk == DiskId(0)).count();
    assert!((8..=16).contains(&first), "{seen:?}");
    world.drain();
}

#[test]
fn random_reads_are_spread_evenly() {
    let (mut world, mirror, _) = world();
    let at = |nth: u64| nth * 7 % 28 * BLOCK;
    let ids: Vec<_> = (0..20).map(|nth| read(&mut world, mirror, at(nth), 8)).collect();
    let seen: Vec<DiskId> = ids.iter().flat_map(|id| disks(&world, *id)).collect();
    let first = seen.iter().filter(|disk| **disk == DiskId(0)).count();
    assert!((8..=12).contains(&first), "{seen:?}");
    world.flow.invariants();
    world.drain();
    world.flow.invariants();
}

#[test]
fn a_part_that_all_clients_read_is_read_from_both_disks() {
    let (mut world, mirror, _) = world();
    let at = |nth: u64| nth * 5 % 14 * BLOCK;
    let ids: Vec<_> = (0..30).map(|nth| read(&mut world, mirror, at(nth), 8)).collect();
    let seen: Vec<DiskId> = ids.iter().flat_map(|id| disks(&world, *id)).collect();
    let first = seen.iter().filter(|disk| **disk == DiskId(0)).count();
    assert!((15..=20).contains(&first), "the home has more, and not much more: {seen:?}");
    world.drain();
}

#[test]
fn reads_avoid_a_disk_that_another_volume_keeps_busy() {
    let (mut world, mirror, single) = world();
    let busy: Vec<_> = (0..4).map(|at| read(&mut world, single, at * BLOCK, BLOCK)).collect();
    let id = read(&mut world, mirror, 0, 8);
    assert_eq!(disks(&world, id), [DiskId(1)]);
    let ids: Vec<_> = (1..3).map(|at| read(&mut world, mirror, at * 9 * BLOCK, 8)).collect();
    // Of the two, one may wait behind the first.
    assert!(ids.iter().any(|id| disks(&world, *id) == [DiskId(1)]));
    assert_eq!(busy.iter().flat_map(|id| disks(&world, *id)).count(), 4);
    world.drain();
}

/// The disk that keeps the stream of a mirror has its reads, however busy it is. When it is lost,
/// reads go on elsewhere, and come back when each block is whole there again.
#[test]
fn reads_go_to_the_disks_that_they_are_sent_to_while_these_have_a_whole_copy() {
    let (mut world, mirror, single) = world();
    let only = Some([DiskId(0)].into());
    assert_eq!(world.flow.is_read_there(mirror), None, "any disk is read");
    world.flow.set_read_disks(mirror, only);
    let busy: Vec<_> = (0..4).map(|at| read(&mut world, single, at * BLOCK, BLOCK)).collect();
    assert_eq!(busy.iter().flat_map(|id| disks(&world, *id)).count(), 4);
    let reads = |world: &mut World| -> Vec<DiskId> {
        let ids: Vec<_> = (0..8).map(|at| read(world, mirror, at * BLOCK, BLOCK)).collect();
        let seen = ids.iter().flat_map(|id| disks(world, *id)).collect();
        world.drain();
        world.flow.invariants();
        seen
    };
    assert_eq!(reads(&mut world), [DiskId(0); 8]);
    assert_eq!(world.flow.is_read_there(mirror), Some(true));
    world.dead.insert(0);
    let id = world.submit(mirror, units::Operation::write(extent(0, BLOCK)), false);
    world.drain();
    assert!(world.answers.contains(&(id, Ok(()))), "the other disk has it");
    assert_eq!(world.flow.is_read_there(mirror), Some(false));
    assert_eq!(reads(&mut world), [DiskId(1); 8]);
    world.dead.clear();
    world.flow.pause_resync(true);
    world.change(Operation::TakeBack { disk: DiskId(0) });
    world.drain();
    assert_eq!(world.flow.is_read_there(mirror), Some(false), "it has missed a write");
    world.flow.pause_resync(false);
    world.listen();
    world.drain();
    assert_eq!(world.flow.is_read_there(mirror), Some(true));
    assert_eq!(reads(&mut world), [DiskId(0); 8]);
    world.flow.set_read_disks(mirror, None);
    assert!(reads(&mut world).contains(&DiskId(1)), "any disk is read again");
}

/// A block that cannot be read where reads are sent to is read elsewhere.
#[test]
fn a_read_that_fails_where_it_was_sent_to_is_answered_from_another_copy() {
    let (mut world, mirror, _) = world();
    world.flow.set_read_disks(mirror, Some([DiskId(1)].into()));
    let (_, volume) = world.flow.pool().state().named("mirror").expect("it was created");
    let places: Vec<_> = volume.copies(spindle_volume::pool::VolumeBlock(3)).collect();
    let there = places.iter().find(|place| place.disk == DiskId(1)).expect("a copy each");
    world.bad.insert((1, u64::from(there.block)));
    let id = read(&mut world, mirror, 3 * BLOCK, 8);
    assert_eq!(disks(&world, id), [DiskId(1)]);
    world.drain();
    assert!(world.answers.contains(&(id, Ok(()))), "{:?}", world.answers);
}
