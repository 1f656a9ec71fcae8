//! A copy on a disk that is out is durably stale before a write is answered that misses it, and few
//! writes wait for that.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{Fault, PoolRequestId, Work};
use spindle_volume::pool::limits::{MARKED_AHEAD_BLOCKS, REGION_BLOCKS};
use spindle_volume::pool::{
    Blocks, Copies, Layout, NewVolume, Operation, PoolVolumeId, VolumeBlock, Zone,
};
use units::{Extent, Lba};

use crate::world::World;

/// The blocks of a mirror of eight regions.
const MIRROR: u32 = 8 * REGION_BLOCKS;

/// A mirror that clients write to, with nothing that is not flushed.
fn flushed(members: usize, copies: u8) -> (World, PoolVolumeId) {
    let mut world = World::of(1, members, 2 * MIRROR);
    let layout = Layout::Mirror(Copies::new(copies).unwrap());
    let disks = (0..u32::try_from(members).unwrap()).map(DiskId).collect();
    let (name, size, zone) = ("mirror".to_owned(), Blocks(MIRROR), Zone::Any);
    let volume =
        NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 1, disks };
    world.change(Operation::Create(volume));
    world.drain();
    let (id, _) = world.flow.pool().state().named("mirror").unwrap();
    write(&mut world, id, 0);
    world.drain();
    world.submit(id, units::Operation::flush(), false);
    world.drain();
    (world, id)
}

fn write(world: &mut World, volume: PoolVolumeId, block: u32) -> PoolRequestId {
    let extent = Extent::new(Lba(Blocks(block).sectors().0), Blocks(1).sectors());
    world.submit(volume, units::Operation::write(extent), false)
}

fn answer(world: &World, id: PoolRequestId) -> Option<Result<(), Fault>> {
    world.answers.iter().find(|(other, _)| *other == id).map(|(_, end)| *end)
}

/// A record is being written: what is to be committed waits for it, and nothing else does.
fn begin_record(world: &mut World) {
    let (name, size, layout, zone) = ("thin".to_owned(), Blocks(1), Layout::Single, Zone::Any);
    let disks = vec![DiskId(0)];
    let volume = NewVolume { name, size, layout, zone, thin: true, has_sums: true, seed: 1, disks };
    world.change(Operation::Create(volume));
    let is_record = |work: &Work| matches!(work, Work::Metadata { .. });
    assert!(world.running.iter().any(|one| is_record(&one.piece.work)), "it is being written");
}

fn is_flying(world: &World, id: PoolRequestId) -> bool {
    let mut works = world.running.iter().map(|one| &one.piece.work);
    works.any(|work| matches!(work, Work::Request { request, .. } if *request == id))
}

/// The commits until nothing is to do, and that those writes are answered.
fn commits(world: &mut World, writes: &[PoolRequestId]) -> u64 {
    let before = world.flow.pool().state().sequence;
    world.drain();
    assert!(writes.iter().all(|id| answer(world, *id) == Some(Ok(()))), "they are answered");
    world.flow.pool().state().sequence - before
}

/// Regions that do not follow each other.
fn far_apart() -> impl Iterator<Item = u32> {
    (0..MIRROR).step_by(usize::try_from(2 * REGION_BLOCKS).unwrap()).map(|block| block + 3)
}

/// Taking a disk out advances the sequence by two.
#[test]
fn writes_that_wait_when_a_disk_is_lost_wait_for_the_commit_that_takes_it_out_and_no_other() {
    for disk in 0..2 {
        let (mut world, id) = flushed(2, 2);
        begin_record(&mut world);
        assert!(world.flow.fail(DiskId(disk)), "the pool goes on without it");
        let writes: Vec<_> = far_apart().map(|block| write(&mut world, id, block)).collect();
        assert!(writes.iter().all(|id| !is_flying(&world, *id)), "they wait");
        assert_eq!(commits(&mut world, &writes), 1 + 2, "the record, and the disk");
        assert_eq!(world.flow.resync().stale_out, u64::from(MIRROR / 2), "every other region");
    }
}

#[test]
fn writes_that_wait_for_marks_at_the_same_time_wait_for_one_commit() {
    let (mut world, id) = flushed(2, 2);
    assert!(world.flow.fail(DiskId(1)), "the pool goes on without it");
    world.drain();
    begin_record(&mut world);
    let writes: Vec<_> = far_apart().map(|block| write(&mut world, id, block)).collect();
    assert_eq!(commits(&mut world, &writes), 2, "the record, and one for all marks");
}

/// What is behind the last write is marked with the commit that takes the disk out.
#[test]
fn a_client_that_writes_in_order_waits_for_no_mark_after_a_disk_is_lost() {
    let (mut world, id) = flushed(2, 2);
    for block in 0..MIRROR {
        if block == REGION_BLOCKS / 2 {
            assert!(world.flow.fail(DiskId(1)), "the pool goes on without it");
            world.drain();
        }
        let request = write(&mut world, id, block);
        assert!(is_flying(&world, request), "block {block} waits");
        world.drain();
        let stale = world.flow.resync().stale_out;
        let most = u64::from(block + 1 + MARKED_AHEAD_BLOCKS + 2 * REGION_BLOCKS);
        assert!(stale <= most, "block {block}: {stale} blocks are stale");
    }
    assert!(world.flow.pool().state().sequence < 20, "few commits mark all of it");
}

/// A flush would take the time of what clients have in the disks' caches.
#[test]
fn no_flush_is_in_what_writes_wait_for_after_a_disk_is_lost() {
    let (mut world, id) = flushed(3, 3);
    assert!(world.flow.fail(DiskId(1)), "the pool goes on without it");
    for block in far_apart() {
        let request = write(&mut world, id, block);
        while answer(&world, request).is_none() {
            let is_flush = |work: &Work| *work == Work::Flush;
            assert!(!world.running.iter().any(|one| is_flush(&one.piece.work)), "block {block}");
            world.step_one(0);
        }
    }
}

/// The limit of what is made equal without need.
#[test]
fn writes_here_and_there_mark_their_own_regions_alone() {
    let (mut world, id) = flushed(2, 2);
    assert!(world.flow.fail(DiskId(1)), "the pool goes on without it");
    world.drain();
    for (nth, block) in (1..).zip(far_apart()) {
        write(&mut world, id, block);
        world.drain();
        assert_eq!(world.flow.resync().stale_out, nth * u64::from(REGION_BLOCKS));
    }
}

/// A copy that was equal stays readable: its disk may come back, and the other one not.
#[test]
fn what_was_to_be_marked_is_not_if_the_only_other_copy_is_lost_meanwhile() {
    let (mut world, id) = flushed(3, 2);
    let disks = [DiskId(0), DiskId(1)];
    let volume = world.flow.pool().state().volume(id).unwrap();
    let is_there = |block: &u32| {
        let mut copies = volume.copies(VolumeBlock(*block));
        copies.all(|place| disks.contains(&place.disk))
    };
    let block = (REGION_BLOCKS..MIRROR).find(is_there).unwrap();
    assert!(world.flow.fail(DiskId(0)), "the others have all of it");
    world.drain();
    begin_record(&mut world);
    let request = write(&mut world, id, block);
    assert!(world.flow.fail(DiskId(1)), "one disk is left");
    world.drain();
    assert_eq!(answer(&world, request), Some(Err(Fault::Disk)));
    let state = world.flow.pool().state();
    let mut copies = state.volume(id).unwrap().copies(VolumeBlock(block));
    assert!(copies.all(|place| !state.is_stale(place)), "it is readable when a disk is back");
}
