//! What a user of volumes sees: layouts, thin volumes, snapshots, volumes that are laid elsewhere.

mod common;

use common::world::{World, device};
use spindle_volume::DiskId;
use spindle_volume::pool::{
    Action, Blocks, Failure, Layout, NewVolume, Operation, Percent, PoolOutput, PoolVolumeId,
    Refusal, VolumeBlock, Writability, Zone,
};
use units::{Extent, Lba, Sectors};

fn create(world: &mut World, volume: NewVolume) -> PoolVolumeId {
    let name = volume.name.clone();
    world.begin(Operation::Create(volume)).expect("there is room");
    world.settle();
    world.pool.state().named(&name).expect("it was created").0
}

fn plan(layout: Layout, zone: Zone, size: u32, disks: &[u32]) -> NewVolume {
    let disks = disks.iter().map(|disk| DiskId(*disk)).collect();
    let (name, size) = ("films".to_owned(), Blocks(size));
    NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 7, disks }
}

/// The disk and the block of every block of a volume.
fn places(world: &World, id: PoolVolumeId) -> Vec<(u32, u32)> {
    let volume = world.pool.state().volume(id).unwrap();
    let place = |block| volume.locate(VolumeBlock(block)).map(|place| (place.disk.0, place.block));
    (0..volume.size.0).filter_map(place).collect()
}

#[test]
fn a_stripe_goes_round_its_disks_and_costs_an_extent_a_disk() {
    let mut world = World::new(1, 3, 0);
    let id = create(&mut world, plan(Layout::Stripe, Zone::Any, 30, &[2, 0, 1]));
    let disks: Vec<u32> = places(&world, id).iter().map(|(disk, _)| *disk).collect();
    assert_eq!(disks, [2, 0, 1].repeat(10));
    let volume = world.pool.state().volume(id).unwrap();
    assert_eq!(volume.extents(), 3);
    // Four sectors over the edge of two blocks lie on two disks.
    let pieces: Vec<_> = volume.map(Extent::new(Lba(2_046), Sectors(4))).collect();
    let disks: Vec<_> = pieces.iter().map(|piece| piece.location.unwrap().disk.0).collect();
    assert_eq!(disks, [2, 0]);
    assert!(pieces.iter().all(|piece| piece.extent.len == Sectors(2)));
}

#[test]
fn a_single_volume_goes_on_on_the_next_disk_when_one_is_full() {
    let mut world = World::new(1, 2, 0);
    let id = create(&mut world, plan(Layout::Single, Zone::Any, 50, &[1, 0]));
    let disks: Vec<u32> = places(&world, id).iter().map(|(disk, _)| *disk).collect();
    assert_eq!(disks, [vec![1; 38], vec![0; 12]].concat());
}

#[test]
fn a_volume_in_parts_has_as_many_blocks_on_each_disk_as_they_say_or_is_refused() {
    let mut world = World::new(1, 3, 0);
    let volume = || plan(Layout::Single, Zone::Any, 30, &[2, 0]);
    let parts = |parts: &[u32]| parts.iter().copied().map(Blocks).collect::<Vec<_>>();
    let free = |world: &World| world.pool.free(DiskId(2));
    let before = free(&world);
    for (volume, wrong) in [
        (volume(), parts(&[30])),
        (volume(), parts(&[30, 0])),
        (volume(), parts(&[10, 19])),
        (NewVolume { thin: true, ..volume() }, parts(&[10, 20])),
        (NewVolume { layout: Layout::Stripe, ..volume() }, parts(&[15, 15])),
    ] {
        let told = format!("{volume:?}, {wrong:?}");
        let refused = world.begin(Operation::CreateInParts { volume, parts: wrong });
        assert_eq!(refused.err(), Some(Refusal::Parts), "{told}");
    }
    // A disk has space for 38 blocks: what is held for the first part is let go.
    let long = NewVolume { size: Blocks(49), ..volume() };
    let refused = world.begin(Operation::CreateInParts { volume: long, parts: parts(&[10, 39]) });
    assert!(matches!(refused, Err(Refusal::NoSpace { disk: DiskId(0), .. })), "{refused:?}");
    assert_eq!(free(&world), before);
    let create = Operation::CreateInParts { volume: volume(), parts: parts(&[10, 20]) };
    world.begin(create).expect("there is room");
    world.settle();
    let (id, _) = world.pool.state().named("films").expect("it was created");
    let disks: Vec<u32> = places(&world, id).iter().map(|(disk, _)| *disk).collect();
    assert_eq!(disks, [vec![2; 10], vec![0; 20]].concat());
}

#[test]
fn a_random_volume_lies_where_its_seed_says() {
    let lay = |seed| {
        let mut world = World::new(1, 3, 0);
        let volume = NewVolume { seed, ..plan(Layout::Random, Zone::Any, 40, &[0, 1, 2]) };
        let id = create(&mut world, volume);
        places(&world, id)
    };
    assert_eq!(lay(7), lay(7));
    assert_ne!(lay(7), lay(8));
    let on = |disk| lay(7).iter().filter(|(on, _)| *on == disk).count();
    assert!((0..3).all(|disk| on(disk) > 5), "each disk has its part");
}

#[test]
fn a_zone_is_kept_or_refused() {
    let mut world = World::new(1, 1, 0);
    let id = create(&mut world, plan(Layout::Single, Zone::Fast, 10, &[0]));
    let fast_end = world.pool.state().disk(DiskId(0)).unwrap().fast_end;
    assert!(places(&world, id).iter().all(|(_, block)| *block < fast_end));
    let refusal = world.begin(Operation::Resize { volume: id, size: Blocks(20) }).unwrap_err();
    assert_eq!(refusal, Refusal::NoSpace { disk: DiskId(0), zone: Zone::Fast, missing: 1 });
}

/// A stream is admitted by the worst case of its volume's part of the disks: whatever places a
/// block, it lies there.
#[test]
fn growth_copies_and_relocation_keep_to_a_first_part_of_the_disks_or_are_refused() {
    let part = |percent| Zone::Fastest(Percent::new(percent).expect("a part"));
    for layout in [Layout::Single, Layout::Random, Layout::Stripe] {
        let mut world = World::new(1, 2, 0);
        let blocks = world.pool.state().disk(DiskId(0)).unwrap().blocks;
        let id = create(&mut world, plan(layout, part(50), 6, &[0, 1]));
        let all_before = |world: &World, percent: u32| {
            let end = blocks * percent / 100;
            let there = places(world, id);
            assert!(there.iter().all(|(_, block)| *block < end), "{layout:?}: {there:?}");
            assert_eq!(world.pool.misplaced_blocks(id), 0, "{layout:?}");
        };
        all_before(&world, 50);
        world.begin(Operation::Resize { volume: id, size: Blocks(10) }).expect("there is room");
        world.settle();
        world.begin(Operation::Snapshot { volume: id, name: "monday".to_owned() }).unwrap();
        world.settle();
        (2..6).for_each(|block| world.write(id, block).expect("its copy has room"));
        all_before(&world, 50);
        let refusal =
            world.begin(Operation::Resize { volume: id, size: Blocks(2 * blocks) }).unwrap_err();
        assert!(matches!(refusal, Refusal::NoSpace { zone, .. } if zone == part(50)), "{refusal}");
        assert!(refusal.to_string().contains("the fastest 50% of disk"), "{refusal}");
        // What lies behind a smaller part is misplaced until it is moved.
        let mut place = |zone| {
            let disks = vec![DiskId(0), DiskId(1)];
            world.begin(Operation::Relocate { volume: id, zone, disks }).unwrap();
            world.settle();
            let misplaced = world.pool.misplaced_blocks(id);
            while let Some(block) = world.pool.misplaced(id, VolumeBlock(0)) {
                world.begin(Operation::Move { volume: id, block }).expect("there is room");
                world.settle();
            }
            world.verify();
            misplaced
        };
        assert_eq!(place(Zone::Slow), 10, "{layout:?}: all lay in the fast half");
        assert_eq!(place(part(50)), 10, "{layout:?}: none lies before the half's end");
        all_before(&world, 50);
    }
}

/// A thin volume takes nothing until it is written, gives back what is trimmed, and a full pool
/// says so.
#[test]
fn a_thin_volume_takes_what_is_written_and_gives_back_what_is_trimmed() {
    let mut world = World::new(1, 1, 0);
    let id =
        create(&mut world, NewVolume { thin: true, ..plan(Layout::Single, Zone::Any, 100, &[0]) });
    let status = world.pool.status();
    assert_eq!((status.free, status.promised, status.alarm), (38, 100, false));
    for block in 0..38 {
        world.write(id, block).expect("there is room");
    }
    assert!(world.pool.status().alarm, "a full pool raises the alarm");
    let refusal = world.write(id, 99).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSpace { missing: 1, .. }), "{refusal}");
    let trim = Operation::Trim { volume: id, first: VolumeBlock(3), count: Blocks(2) };
    world.begin(trim).unwrap();
    world.settle();
    assert_eq!(world.pool.status().free, 2);
    world.write(id, 99).expect("there is room again");
    world.flush();
    world.verify();
}

#[test]
fn a_snapshot_keeps_what_was_and_costs_what_is_written_since() {
    let mut world = World::new(1, 2, 0);
    let id = create(&mut world, plan(Layout::Stripe, Zone::Any, 10, &[0, 1]));
    (0..10).for_each(|block| world.write(id, block).unwrap());
    let free = world.pool.status().free;
    world.begin(Operation::Snapshot { volume: id, name: "monday".to_owned() }).unwrap();
    world.settle();
    assert_eq!(world.pool.status().free, free, "a snapshot itself takes no block");
    for block in [2, 3, 2] {
        world.write(id, block).unwrap();
    }
    assert_eq!(world.pool.status().free, free - 2, "each block is copied once");
    world.verify();
    let (monday, _) = world.pool.state().named("monday").unwrap();
    world.begin(Operation::RollBack { snapshot: monday }).unwrap();
    world.settle();
    world.verify();
    assert_eq!(places(&world, id), places(&world, monday));
    world.begin(Operation::Remove { volume: monday }).unwrap();
    world.settle();
    assert_eq!(world.pool.status().free, free);
    world.verify();
}

/// The clone of a snapshot and the clone of a volume begin with the blocks of their sources and
/// outlive them, and no write to one is seen in another.
#[test]
fn a_clone_begins_with_its_sources_content_and_outlives_it() {
    let mut world = World::new(1, 2, 0);
    let id = create(&mut world, plan(Layout::Stripe, Zone::Any, 10, &[0, 1]));
    (0..10).for_each(|block| world.write(id, block).unwrap());
    let free = world.pool.status().free;
    world.begin(Operation::Snapshot { volume: id, name: "monday".to_owned() }).unwrap();
    world.settle();
    let (monday, _) = world.pool.state().named("monday").unwrap();
    world.write(id, 4).unwrap();
    for (source, name, size) in [(monday, "of-monday", 10), (id, "of-today", 12)] {
        let (name, size) = (name.to_owned(), Blocks(size));
        world.begin(Operation::Clone { source, name, size }).unwrap();
        world.settle();
    }
    assert_eq!(world.pool.status().free, free - 3, "one block was copied, two are new");
    let named = |world: &World, name| world.pool.state().named(name).unwrap().0;
    let (old, new) = (named(&world, "of-monday"), named(&world, "of-today"));
    assert_eq!(places(&world, old), places(&world, monday));
    world.write(old, 0).unwrap();
    world.write(new, 0).unwrap();
    world.write(new, 11).unwrap();
    world.write(id, 0).unwrap();
    assert_eq!(world.pool.status().free, free - 6, "three maps held the block, and one keeps it");
    world.verify();
    for gone in [monday, id] {
        world.begin(Operation::Remove { volume: gone }).unwrap();
        world.settle();
    }
    world.write(new, 1).unwrap();
    world.flush();
    world.verify();
    // A snapshot of a clone, and a move of all that share blocks.
    world.begin(Operation::Snapshot { volume: new, name: "again".to_owned() }).unwrap();
    world.settle();
    let disks = vec![DiskId(1), DiskId(0)];
    world.begin(Operation::Relocate { volume: new, zone: Zone::Slow, disks }).unwrap();
    world.settle();
    world.empty();
    for volume in [old, new, named(&world, "again")] {
        assert_eq!(world.pool.misplaced(volume, VolumeBlock(0)), None, "{volume:?} has moved");
    }
    world.verify();
    for gone in ["again", "of-today", "of-monday"] {
        let volume = named(&world, gone);
        world.begin(Operation::Remove { volume }).unwrap();
        world.settle();
    }
    assert_eq!(world.pool.status().free, free + 10, "all blocks are free again");
}

/// What a move has for itself is one block; and a move that is called off leaves the block where it
/// was.
#[test]
fn a_move_holds_up_one_block_and_can_be_called_off() {
    let mut world = World::new(1, 2, 0);
    let id = create(&mut world, plan(Layout::Single, Zone::Any, 8, &[0]));
    world.write(id, 5).unwrap();
    world
        .begin(Operation::Relocate { volume: id, zone: Zone::Any, disks: vec![DiskId(1)] })
        .unwrap();
    world.settle();
    assert_eq!(world.pool.misplaced(id, VolumeBlock(5)), Some(VolumeBlock(5)));
    let free = world.pool.status().free;
    let ticket = world.pool.begin(&Operation::Move { volume: id, block: VolumeBlock(5) }).unwrap();
    let sector = |block: u64| Extent::new(Lba(block * 2_048), Sectors(1));
    assert_eq!(world.pool.writable(id, sector(5)), Writability::Wait);
    assert_eq!(world.pool.writable(id, sector(4)), Writability::Now);
    let Some(PoolOutput::Do(step, Action::Copy { .. })) = world.pool.poll() else {
        panic!("it copies")
    };
    world.pool.cancel(ticket);
    assert_eq!(world.pool.poll(), None, "its end is told when its copy has ended");
    world.pool.done(step, true);
    assert_eq!(world.pool.poll(), Some(PoolOutput::Finished(ticket, Err(Failure::Cancelled))));
    world.pool.release(ticket);
    world.pool.invariants();
    assert_eq!(world.pool.status().free, free);
    world.empty();
    assert_eq!(world.pool.misplaced(id, VolumeBlock(0)), None);
    assert!(places(&world, id).iter().all(|(disk, _)| *disk == 1));
    let volume = world.pool.state().volume(id).unwrap();
    assert_eq!(volume.extents(), 1, "blocks that were moved one by one lie in one piece again");
    world.flush();
    world.verify();
}

/// A freed block is not reused until the reads of it have ended.
#[test]
fn what_is_given_back_is_held_until_it_is_released() {
    let mut world = World::new(1, 1, 0);
    let id = create(&mut world, plan(Layout::Single, Zone::Any, 38, &[0]));
    let ticket = world.pool.begin(&Operation::Remove { volume: id }).unwrap();
    loop {
        match world.pool.poll().expect("it ends") {
            PoolOutput::Do(step, action) => {
                common::world::perform(&mut world.disks, &|_| 0, &action);
                world.pool.done(step, true);
            }
            PoolOutput::Finished(_, end) => break assert_eq!(end, Ok(())),
        }
    }
    assert_eq!(world.pool.status().free, 0);
    world.pool.release(ticket);
    assert_eq!(world.pool.status().free, 38);
}

/// After a failed commit the contents of a disk are unknown: no operation begins.
#[test]
fn a_disk_that_fails_under_the_metadata_stops_the_pool() {
    let mut world = World::new(1, 2, 0);
    let id = create(&mut world, plan(Layout::Single, Zone::Any, 3, &[0]));
    let ticket = world.pool.begin(&Operation::Resize { volume: id, size: Blocks(1) }).unwrap();
    let mut ends = Vec::new();
    while let Some(output) = world.pool.poll() {
        match output {
            PoolOutput::Do(step, action) => {
                let well = !matches!(action, Action::Flush { disk, .. } if disk.0 == 1);
                let state = world.pool.state().clone();
                common::world::perform(&mut world.disks, &|disk| device(&state, disk), &action);
                world.pool.done(step, well);
            }
            PoolOutput::Finished(ticket, end) => ends.push((ticket, end)),
        }
    }
    assert_eq!(ends, [(ticket, Err(Failure::Unknown))]);
    assert!(world.pool.is_poisoned());
    let refusal = world.pool.begin(&Operation::Remove { volume: id }).unwrap_err();
    assert_eq!(refusal, Refusal::Poisoned);
}
