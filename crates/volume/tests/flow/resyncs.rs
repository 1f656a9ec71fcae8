//! Copies are made equal many blocks at a time: they are written, flushed once, and recorded then.
//! No write waits for all of them.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{COPIES_MAX, ChargeTo, Fault, PoolRequestId, Work};
use spindle_volume::pool::{Blocks, Copies, Layout, NewVolume, Operation, PoolVolumeId, Zone};
use units::{Extent, Lba};

use crate::world::World;

/// The blocks of the mirror: more than those of two short operations.
const MIRROR: u32 = 24;

fn write(world: &mut World, volume: PoolVolumeId, block: u32, blocks: u32) -> PoolRequestId {
    let extent = Extent::new(Lba(Blocks(block).sectors().0), Blocks(blocks).sectors());
    world.submit(volume, units::Operation::write(extent), false)
}

fn answer(world: &World, id: PoolRequestId) -> Option<Result<(), Fault>> {
    world.answers.iter().find(|(other, _)| *other == id).map(|(_, end)| *end)
}

/// A mirror of which a disk that was out has missed every block, and is back.
fn behind() -> (World, PoolVolumeId) {
    let mut world = World::new(1, 2);
    let layout = Layout::Mirror(Copies::new(2).unwrap());
    let (disks, zone, size) = (vec![DiskId(0), DiskId(1)], Zone::Any, Blocks(MIRROR));
    let name = "mirror".to_owned();
    world.change(Operation::Create(NewVolume {
        name,
        size,
        layout,
        zone,
        thin: false,
        has_sums: true,
        seed: 1,
        disks,
    }));
    world.drain();
    let (id, _) = world.flow.pool().state().named("mirror").unwrap();
    world.dead.insert(1);
    write(&mut world, id, 0, MIRROR);
    world.drain();
    assert_eq!(world.flow.resync().stale_out, u64::from(MIRROR));
    world.dead.clear();
    world.flow.pause_resync(true);
    world.change(Operation::TakeBack { disk: DiskId(1) });
    world.drain();
    world.flow.pause_resync(false);
    world.listen();
    (world, id)
}

fn is_rebuild(world: &World, right: impl Fn(&Work) -> bool) -> usize {
    let pieces = world.running.iter().map(|one| &one.piece);
    pieces.filter(|piece| piece.payer == ChargeTo::Rebuild && right(&piece.work)).count()
}

fn is_store(work: &Work) -> bool {
    matches!(work, Work::Store { .. })
}

/// Blocks are written as the disk takes them, and are not said to be equal before it has them.
#[test]
fn many_blocks_are_written_unforced_flushed_once_and_then_recorded() {
    let (mut world, _) = behind();
    let mut flushes = 0;
    while world.flow.resync().stale > 0 {
        let one = world.running.first().expect("it comes to its end").piece.clone();
        assert!(!matches!(one.work, Work::Store { fua: true, .. }), "a disk's cache is used");
        let is_record = matches!(one.work, Work::Metadata { .. });
        assert!(!is_record || flushes == 1, "nothing is recorded before it is durable");
        if one.payer == ChargeTo::Rebuild && one.work == Work::Flush {
            assert_eq!((one.disk, is_rebuild(&world, is_store)), (DiskId(1), 0));
            let written = world.resynced;
            assert_eq!(written, u64::from(MIRROR), "all of it is written");
            flushes += usize::from(world.running.len() == 1);
            while world.running.iter().any(|other| other.piece.id == one.id) {
                world.step_one(0);
            }
            continue;
        }
        world.step_one(0);
    }
    assert_eq!(flushes, 1, "one flush for all");
    world.drain();
    assert!(world.flow.pool().is_redundant());
}

/// A write to any block that is to be made equal waits for the copies in progress alone.
#[test]
fn a_write_waits_for_the_copies_in_progress_alone() {
    let (mut world, id) = behind();
    assert!(is_rebuild(&world, |_| true) > 0, "copies are made equal");
    let request = write(&mut world, id, MIRROR - 1, 1);
    let flies = |world: &World| {
        let mut pieces = world.running.iter().map(|one| &one.piece.work);
        pieces.any(|work| matches!(work, Work::Request { request: one, .. } if *one == request))
    };
    while !flies(&world) {
        assert!(!world.running.is_empty(), "it goes on");
        world.step_one(0);
    }
    assert!(world.resynced <= COPIES_MAX as u64, "{} blocks came first", world.resynced);
    world.drain();
    assert_eq!(answer(&world, request), Some(Ok(())));
    assert!(world.flow.pool().is_redundant(), "what was ended is made equal again");
    let again = u64::from(MIRROR) + COPIES_MAX as u64;
    assert!(world.resynced <= again, "{} blocks were copied", world.resynced);
}

/// One block that cannot be read leaves no other unequal.
#[test]
fn a_block_that_cannot_be_read_holds_back_no_other() {
    let (mut world, id) = behind();
    let state = world.flow.pool().state();
    let copies = state.volume(id).unwrap().places().filter(|place| place.disk == DiskId(0));
    let place = copies.min_by_key(|place| place.block).unwrap();
    world.bad.insert((0, u64::from(place.end()) - 1));
    world.drain();
    assert_eq!(world.flow.resync().stale, 1, "all but that one are equal");
    assert!(world.flow.resync().is_stuck, "and that one is said to be stuck");
    world.bad.clear();
    world.flow.wake_resync();
    world.drain();
    assert!(world.flow.pool().is_redundant());
}

/// What would be lost with one more disk is made equal first, whatever the order of the volumes.
#[test]
fn blocks_with_one_whole_copy_are_made_equal_before_those_with_two() {
    let mut world = World::new(1, 3);
    for (name, copies) in [("three", 3), ("two", 2)] {
        let layout = Layout::Mirror(Copies::new(copies).unwrap());
        let disks = (0..u32::from(copies)).map(DiskId).collect();
        let (name, size, zone) = (name.to_owned(), Blocks(12), Zone::Any);
        let volume =
            NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 1, disks };
        world.change(Operation::Create(volume));
        world.drain();
    }
    let [three, two] =
        ["three", "two"].map(|name| world.flow.pool().state().named(name).unwrap().0);
    assert!(three < two, "the safer one comes first among the volumes");
    world.dead.insert(1);
    write(&mut world, three, 0, 12);
    write(&mut world, two, 0, 12);
    world.drain();
    world.dead.clear();
    world.flow.pause_resync(true);
    world.change(Operation::TakeBack { disk: DiskId(1) });
    world.drain();
    world.flow.pause_resync(false);
    world.listen();
    let lacking = |world: &World, id| {
        let pool = world.flow.pool();
        pool.shortfall(pool.state().volume(id).unwrap()).copies
    };
    assert_eq!((lacking(&world, three), lacking(&world, two)), (12, 12));
    while lacking(&world, two) > 0 {
        assert_eq!(lacking(&world, three), 12, "it has two whole copies");
        assert!(world.step(), "it goes on");
    }
    world.drain();
    assert!(world.flow.pool().is_redundant());
}
