//! A disk that fails may have lost what it had answered: what it answers from then on is not taken.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{ChargeTo, Fault, PoolRequestId, Work};
use spindle_volume::pool::{
    Blocks, Copies, Layout, NewVolume, Operation, PoolVolumeId, Refusal, Zone,
};
use units::{Extent, Lba, Op};

use crate::world::World;

/// A mirror with a copy on each of its disks, which was written to.
fn written(copies: u8) -> (World, PoolVolumeId) {
    written_on(copies, copies)
}

/// A mirror over this number of disks, which was written to.
fn written_on(members: u8, copies: u8) -> (World, PoolVolumeId) {
    let mut world = World::new(1, members.into());
    let layout = Layout::Mirror(Copies::new(copies).unwrap());
    let disks = (0..members).map(|disk| DiskId(disk.into())).collect();
    let (name, size, zone) = ("mirror".to_owned(), Blocks(8), Zone::Any);
    let volume =
        NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 1, disks };
    world.change(Operation::Create(volume));
    world.drain();
    let (id, _) = world.flow.pool().state().named("mirror").unwrap();
    world.submit(id, units::Operation::write(whole()), false);
    world.drain();
    (world, id)
}

fn whole() -> Extent {
    Extent::new(Lba(0), Blocks(8).sectors())
}

/// A disk loses the mirror's data, and is found to have failed.
fn lose(world: &mut World, id: PoolVolumeId, disk: u32) {
    erase(world, id, disk);
    assert!(world.flow.fail(DiskId(disk)), "the pool goes on without it");
    world.listen();
}

/// A disk loses the mirror's data.
fn erase(world: &mut World, id: PoolVolumeId, disk: u32) {
    let volume = world.flow.pool().state().volume(id).unwrap();
    let places: Vec<_> = volume.places().filter(|place| place.disk == DiskId(disk)).collect();
    let device = usize::try_from(disk).unwrap();
    for place in places {
        world.disks[device].erase(place.extent());
    }
}

fn flush(world: &mut World, id: PoolVolumeId) -> bool {
    let flush = world.submit(id, units::Operation::flush(), false);
    world.drain();
    is_answered(world, flush)
}

fn is_answered(world: &World, id: PoolRequestId) -> bool {
    world.answers.iter().any(|(other, end)| *other == id && end.is_ok())
}

/// The world compares what is read with what was written.
#[test]
fn a_read_that_a_disk_answers_after_it_has_failed_is_sent_to_another_copy() {
    for disk in 0..2 {
        let (mut world, id) = written(2);
        let read = world.submit(id, units::Operation::read(whole()), false);
        lose(&mut world, id, disk);
        world.drain();
        assert!(is_answered(&world, read));
    }
}

#[test]
fn a_flush_that_a_disk_answers_after_it_has_failed_waits_until_the_disk_is_out() {
    let (mut world, id) = written(2);
    let flush = world.submit(id, units::Operation::flush(), false);
    lose(&mut world, id, 0);
    let is_own = |work: &Work| matches!(work, Work::Request { op: Op::Flush, .. });
    while let Some(at) = world.running.iter().position(|one| is_own(&one.piece.work)) {
        world.step_one(at);
        let is_out = !world.flow.pool().state().is_in(DiskId(0));
        assert!(is_out || !is_answered(&world, flush), "the disk may pass for whole");
    }
    world.drain();
    assert!(is_answered(&world, flush));
}

/// A pool without mirrors does not go on without a disk.
#[test]
fn a_flush_of_a_volume_that_is_removed_meanwhile_does_not_fail_for_want_of_a_disk() {
    let (mut world, id) = written(2);
    let flush = world.submit(id, units::Operation::flush(), false);
    world.change(Operation::Remove { volume: id });
    let is_own = |work: &Work| matches!(work, Work::Request { op: Op::Flush, .. });
    while let Some(at) = world.running.iter().position(|one| !is_own(&one.piece.work)) {
        world.step_one(at);
    }
    assert!(world.changes.is_empty(), "the volume is gone");
    world.dead.insert(0);
    world.drain();
    assert_eq!(world.answers.last(), Some(&(flush, Err(Fault::Invalid))));
}

#[test]
fn what_is_loaded_from_a_disk_after_it_has_failed_is_stored_nowhere() {
    let (mut world, id) = written(3);
    world.dead.insert(2);
    world.submit(id, units::Operation::write(whole()), false);
    world.drain();
    world.dead.clear();
    world.change(Operation::TakeBack { disk: DiskId(2) });
    let is_load = |world: &World| {
        let mut pieces = world.running.iter().map(|one| &one.piece);
        let load = pieces.find(|one| one.payer == ChargeTo::Rebuild)?;
        matches!(load.work, Work::Load { .. }).then_some(load.disk)
    };
    let source = loop {
        match is_load(&world) {
            Some(source) => break source,
            None => world.step_one(0),
        }
    };
    lose(&mut world, id, source.0);
    world.drain();
    assert!(world.flow.resync().done > 0, "copies were made equal");
    // The copies that are left, one after the other.
    for disk in (0..3).filter(|disk| *disk != source.0) {
        let read = world.submit(id, units::Operation::read(whole()), false);
        world.drain();
        assert!(is_answered(&world, read));
        if disk < 2 {
            assert!(world.flow.fail(DiskId(disk)));
            world.drain();
        }
    }
}

#[test]
fn a_write_that_no_copy_has_fails_the_next_flush_and_no_further_one() {
    for is_flushed in [false, true] {
        let (mut world, id) = written_on(3, 2);
        assert!(world.flow.fail(DiskId(0)), "the others have all of it");
        world.drain();
        // Of some blocks the second disk has the only copy.
        world.submit(id, units::Operation::write(whole()), false);
        world.drain();
        assert!(!is_flushed || flush(&mut world, id));
        assert!(world.flow.lose(DiskId(1), id), "the pool goes on without it");
        world.drain();
        assert_eq!(flush(&mut world, id), is_flushed, "flushed: {is_flushed}");
        assert!(flush(&mut world, id), "it was told once");
    }
}

#[test]
fn a_disk_that_stays_in_is_not_read_where_it_lost_what_it_had_answered() {
    let (mut world, id) = written(3);
    world.flow.pause_resync(true);
    let flushing = world.submit(id, units::Operation::flush(), false);
    assert!(world.flow.fail(DiskId(0)), "two stay");
    erase(&mut world, id, 1);
    assert!(!world.flow.lose(DiskId(1), id), "less than half would stay");
    for _ in 0..4 {
        world.submit(id, units::Operation::read(whole()), false);
    }
    world.drain();
    assert!(!is_answered(&world, flushing), "it may be told that all is there");
    assert!(!flush(&mut world, id) && flush(&mut world, id), "the next one is told too");
    world.flow.pause_resync(false);
    world.drain();
    assert!(world.flow.resync().done > 0, "what it lost is written again");
    assert!(world.flow.fail(DiskId(2)), "it has all of it now");
    let read = world.submit(id, units::Operation::read(whole()), false);
    world.drain();
    assert!(is_answered(&world, read));
}

#[test]
fn a_new_mirror_over_a_disk_that_is_out_is_refused_and_one_beside_it_is_made() {
    let (mut world, _) = written_on(3, 2);
    assert!(world.flow.fail(DiskId(1)), "the pool goes on without it");
    world.drain();
    let layout = Layout::Mirror(Copies::new(2).unwrap());
    let on = |name: &str, disks: [u32; 2], thin| {
        let disks = disks.map(DiskId).to_vec();
        let (name, size, zone) = (name.to_owned(), Blocks(8), Zone::Any);
        Operation::Create(NewVolume {
            name,
            size,
            layout,
            zone,
            thin,
            has_sums: true,
            seed: 1,
            disks,
        })
    };
    for thin in [false, true] {
        let refused = world.flow.check(&on("new", [0, 1], thin));
        assert_eq!(refused, Err(Refusal::Out(DiskId(1))));
    }
    world.change(on("new", [0, 2], false));
    world.drain();
    let state = world.flow.pool().state();
    let (_, made) = state.named("new").expect("its disks are in");
    assert!(!made.places().any(|place| state.is_stale(place)), "it has all of its copies");
}
