//! A pool that was made without checksums gets areas for them: at any crash it is as it was, or has
//! them, with every client's data. `SPINDLE_CASES=1000` for as many pools.

mod common;

use std::collections::BTreeMap;

use common::disk::Disk;
use common::world::{BLOCKS, World, reopen, uid};
use common::{cases, media};
use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::format::{Geometry, Slot, VERSION, label_places};
use spindle_volume::pool::sums::{Ledger, PageOwner, SumsArea, blocks_with_area, find_sums};
use spindle_volume::pool::{
    Blocks, Copies, Damage, Layout, NewVolume, Operation, Pool, PoolOutput, Refusal, VolumeBlock,
    Zone, check, find,
};
use units::Sectors;

/// The blocks of each disk beside its area.
fn areas(world: &World) -> BTreeMap<DiskId, Blocks> {
    let blocks = Blocks(blocks_with_area(world.disks[0].size));
    world.pool.state().disks().map(|(id, _)| (id, blocks)).collect()
}

/// Moves what is in the way, and adds the areas.
fn add_sums(world: &mut World) -> Result<u32, Refusal> {
    let areas = areas(world);
    world.pool.reserve_areas(&areas)?;
    let mut moved = 0;
    for (volume, block, _) in world.pool.blocks_in_areas() {
        world.begin(Operation::Move { volume, block })?;
        world.settle();
        moved += 1;
    }
    assert_eq!(world.pool.blocks_in_areas(), [], "all were moved");
    world.begin(Operation::AddSums { areas })?;
    world.settle();
    Ok(moved)
}

/// Makes a volume that has the last blocks of every disk, or of the first one.
fn fill_last(world: &mut World, layout: Layout, thin: bool) {
    let disks: Vec<DiskId> = world.pool.state().disks().map(|(id, _)| id).collect();
    let count = u32::try_from(disks.len()).unwrap();
    let slow = BLOCKS - 1 - Geometry::new(8, 16).unwrap().fast_end(BLOCKS);
    let volume = |name: &str, layout, size: u32, thin| {
        let (name, size, disks) = (name.to_owned(), Blocks(size), disks.clone());
        let (zone, has_sums, seed) = (Zone::Slow, true, 1);
        Operation::Create(NewVolume { name, size, layout, zone, thin, has_sums, seed, disks })
    };
    let last = if layout == Layout::Single { 2 } else { 2 * count };
    let last = if layout.is_mirror() { last / 2 } else { last };
    let volumes = [
        volume("first", Layout::Stripe, (slow - 2) * count, false),
        volume("last", layout, last, thin),
    ];
    for volume in volumes {
        world.begin(volume).unwrap();
        world.settle();
    }
    let [first, last_id] = ["first", "last"].map(|name| world.pool.state().named(name).unwrap().0);
    for block in 0..last {
        world.write(last_id, block).unwrap();
    }
    world.begin(Operation::Remove { volume: first }).unwrap();
    world.settle();
}

/// Draws a pool, and its volumes.
fn drawn(seed: u64) -> World {
    let mut rng = SplitMix64::new(seed ^ 0x5D5D);
    let version = 1 + rng.below(VERSION);
    let members = 1 + rng.below(3) as usize;
    // The pool uses a device as a whole, with a rest of no whole block, or has blocks to spare.
    let rest = [0, 0, 1_000, 4_096][rng.below(4) as usize];
    let size = Sectors(Blocks(BLOCKS).sectors().0 + rest);
    println!("seed {seed}: version {version}, {members} disks, {rest} sectors more");
    let mut world = World::of((seed, members, 0), (version, BLOCKS), size);
    let copies = Layout::Mirror(Copies::new(2).unwrap());
    let layouts = [Layout::Single, Layout::Stripe, copies];
    let layout = layouts[rng.below(if members > 1 && version > 1 { 3 } else { 2 }) as usize];
    fill_last(&mut world, layout, rng.below(2) == 0);
    for _ in 0..8 {
        let operation = world.draw();
        let _ = world.begin(operation);
        world.settle();
        let volumes = world.pool.state().volumes();
        let writable = volumes.filter(|(_, volume)| volume.origin.is_none());
        let writable: Vec<_> = writable.map(|(id, volume)| (id, volume.size.0)).collect();
        for (id, size) in writable {
            let block = world.rng.below(size);
            let _ = world.write(id, block);
        }
    }
    world.flush();
    world
}

/// The pool is as if it had been made with checksums.
fn check_upgraded(world: &World) {
    let (given, found) = reopen(&world.disks);
    let disks: Vec<_> = given.iter().map(|device| world.disks[*device].clone()).collect();
    assert!(found.missing.is_empty(), "{:?}", found.missing);
    let report = check(&media(&disks)).unwrap();
    assert!(report.is_whole(), "{:?}", report.findings);
    let state = &report.found.state;
    assert!(state.has_sums() && state.version == VERSION);
    for (id, disk) in state.disks() {
        let device = &disks[report.found.devices[&id]];
        assert!(disk.blocks <= blocks_with_area(device.size), "room for the area");
        let area = SumsArea::of(Blocks(disk.blocks));
        assert!(area.extent().end().0 <= device.size.0, "the area lies on the disk");
        let sums = find_sums(device, (state.pool, disk), [9; 16]);
        assert_eq!((sums.damage, sums.ledger.sequence), (Vec::new(), 0), "an area without past");
        // An older Spindle reads the version of a header first.
        for slot in Slot::BOTH {
            let header = device.read_now(state.geometry.header(slot));
            assert_eq!(header[8..12], VERSION.to_le_bytes(), "the version of slot {slot:?}");
        }
        let mut damaged = disks.clone();
        damaged[report.found.devices[&id]].damage(40, 1);
        let found = find(&media(&damaged));
        // What the pool does not use of a device hides where the second label is.
        if disk.blocks == blocks_with_area(device.size) {
            assert_eq!(found.unwrap().state, *state, "the second label is found alone");
        }
    }
}

/// A seed that once failed: a repair that was cut short completed the image that it replaced.
const FOUND: [u64; 1] = [102];

#[test]
fn a_crash_leaves_a_pool_without_checksums_or_with_them_and_every_block() {
    let (mut upgraded, mut moved, mut crashed) = (0, 0, 0);
    for seed in FOUND.into_iter().chain(0..cases(50)) {
        let mut world = drawn(seed);
        world.crashes = 8;
        let before = world.pool.state().clone();
        match add_sums(&mut world) {
            Ok(count) => {
                world.verify();
                check_upgraded(&world);
                assert_eq!(add_sums(&mut world), Err(Refusal::HasSums));
                upgraded += 1;
                moved += count;
            }
            Err(refusal) => {
                assert!(matches!(refusal, Refusal::NoSpace { .. }), "{refusal}");
                assert!(!world.pool.state().has_sums());
                assert_eq!(world.pool.state().version, before.version);
                world.verify();
            }
        }
        crashed += world.crashed;
        // It is a pool like any other.
        world.crashes = 1;
        for _ in 0..10 {
            let operation = world.draw();
            let _ = world.begin(operation);
            world.settle();
        }
        world.verify();
    }
    println!("{upgraded} pools, {moved} blocks moved, {crashed} crashes");
    assert!(upgraded > 20 && moved > 20 && crashed > 1_000);
}

/// A pool of one disk whose areas are committed, and its labels not written yet.
fn interrupted() -> World {
    let mut world = World::new(1, 1, 0);
    let areas = areas(&world);
    let sequence = world.pool.state().sequence;
    let mut pool = world.pool.clone();
    pool.begin(&Operation::AddSums { areas }).unwrap();
    while let Some(PoolOutput::Do(id, action)) = pool.poll() {
        if find(&media(&world.disks[..1])).unwrap().state.sequence > sequence {
            return world;
        }
        common::world::perform(&mut world.disks, &|_| 0, &action);
        pool.done(id, true);
    }
    panic!("it is committed before its labels");
}

#[test]
fn labels_from_before_the_areas_are_told_and_written_again_when_the_pool_opens() {
    let mut world = interrupted();
    let report = check(&media(&world.disks[..1])).unwrap();
    assert!(report.found.state.has_sums());
    let told = report.findings.iter().filter(|one| one.what == Damage::LabelOutdated);
    assert_eq!(told.count(), 1, "{:?}", report.findings);
    let id = report.found.state.disks().next().unwrap().0;
    assert!(report.found.unlabelled.contains(&id));
    world.pool = Pool::open(report.found);
    world.settle();
    world.disks.truncate(1);
    check_upgraded(&world);
}

#[test]
fn an_upgrade_names_the_blocks_that_are_in_its_way() {
    let mut world = World::new(1, 2, 0);
    let areas = areas(&world);
    let all: Vec<DiskId> = world.pool.state().disks().map(|(id, _)| id).collect();
    let free = world.pool.free(all[0]).1;
    let (layout, zone) = (Layout::Single, Zone::Any);
    let volume = |name: &str, size: u32, disks: &[DiskId]| {
        let (name, size, disks) = (name.to_owned(), Blocks(size), disks.to_vec());
        let (thin, has_sums, seed) = (false, true, 1);
        Operation::Create(NewVolume { name, size, layout, zone, thin, has_sums, seed, disks })
    };
    world.begin(volume("films", free.0, &all[..1])).unwrap();
    world.settle();
    let operation = Operation::AddSums { areas: areas.clone() };
    let used = Refusal::AreaInUse { disk: all[0], blocks: 1 };
    assert_eq!(world.begin(operation.clone()), Err(used));
    let refused = add_sums(&mut world).unwrap_err();
    assert!(matches!(refused, Refusal::NoSpace { disk: DiskId(0), missing: 1, .. }), "{refused}");
    // With room on the disk, or placed on another too, it is moved.
    let id = world.pool.state().named("films").unwrap().0;
    world.begin(Operation::Relocate { volume: id, zone, disks: all.clone() }).unwrap();
    world.settle();
    assert_eq!(add_sums(&mut world), Ok(1));
    world.disks.truncate(2);
    check_upgraded(&world);
}

#[test]
fn areas_of_several_blocks_are_vacated_of_stripes_mirrors_and_what_snapshots_share() {
    const LARGE: u32 = 5_200;
    let mut world = World::of((1, 2, 0), (VERSION, LARGE), Blocks(LARGE).sectors());
    let area = LARGE - blocks_with_area(world.disks[0].size);
    assert_eq!(area, 6);
    let all: Vec<DiskId> = world.pool.state().disks().map(|(id, _)| id).collect();
    let slow = LARGE - 1 - Geometry::new(8, 16).unwrap().fast_end(LARGE);
    let create = |name: &str, layout, size: u32| {
        let (name, size, disks) = (name.to_owned(), Blocks(size), all.clone());
        let (zone, thin, has_sums, seed) = (Zone::Any, false, true, 1);
        Operation::Create(NewVolume { name, size, layout, zone, thin, has_sums, seed, disks })
    };
    let mirror = Layout::Mirror(Copies::new(2).unwrap());
    let id = |world: &World, name: &str| world.pool.state().named(name).unwrap().0;
    // The last blocks of each disk: two of a stripe, one of the mirror, four of the stripe.
    world.begin(create("first", Layout::Stripe, 2 * (slow - 7))).unwrap();
    world.settle();
    for (name, layout, size) in
        [("a", Layout::Stripe, 4), ("m", mirror, 1), ("b", Layout::Stripe, 8)]
    {
        world.begin(create(name, layout, size)).unwrap();
        world.settle();
        let volume = id(&world, name);
        for block in 0..size {
            world.write(volume, block).unwrap();
        }
    }
    world.flush();
    let b = id(&world, "b");
    for name in ["kept", "too"] {
        world.begin(Operation::Snapshot { volume: b, name: name.to_owned() }).unwrap();
        world.settle();
    }
    // Its snapshots keep the block that it had.
    world.write(b, 7).unwrap();
    world.flush();
    world.crashes = 4;
    assert_eq!(add_sums(&mut world), Ok(2 * 5 + 2), "each place once, of each disk's last six");
    world.verify();
    world.disks.truncate(2);
    check_upgraded(&world);
    let kept = ["b", "kept", "too"].map(|name| world.pool.state().named(name).unwrap().1.clone());
    let shared = |block| kept.each_ref().map(|one| one.locate(VolumeBlock(block)));
    assert!(shared(0).iter().all(|place| *place == shared(0)[0]), "shared as before");
    assert!(shared(7)[1] == shared(7)[2] && shared(7)[0] != shared(7)[1]);
}

#[test]
fn nothing_is_allocated_where_areas_are_to_lie() {
    let mut world = World::new(1, 1, 0);
    let areas = areas(&world);
    world.pool.reserve_areas(&areas).unwrap();
    let id = DiskId(0);
    let first = Geometry::new(8, 16).unwrap().first_block();
    let (name, layout, zone) = ("all".to_owned(), Layout::Random, Zone::Any);
    let size = Blocks(areas[&id].0 - 1 - first);
    let (thin, has_sums, seed, disks) = (false, true, 1, vec![id]);
    let all = NewVolume { name, size, layout, zone, thin, has_sums, seed, disks };
    let larger = NewVolume { size: Blocks(size.0 + 1), ..all.clone() };
    assert!(matches!(world.begin(Operation::Create(larger)), Err(Refusal::NoSpace { .. })));
    world.begin(Operation::Create(all)).unwrap();
    world.settle();
    assert_eq!(world.pool.blocks_in_areas(), []);
    world.begin(Operation::AddSums { areas }).unwrap();
    world.settle();
    assert_eq!(world.pool.free(id).1, Blocks(0));
    world.pool.invariants();
}

/// A pool of one disk with the ledger of another area where its own goes.
fn with_ledger(rest: u64) -> World {
    let size = Sectors(Blocks(BLOCKS).sectors().0 + rest);
    let mut world = World::of((1, 1, 0), (VERSION, BLOCKS), size);
    let area = SumsArea::of(Blocks(BLOCKS.min(blocks_with_area(size))));
    let owner = PageOwner { pool: world.pool.state().pool, disk: uid(0), area: [5; 16] };
    for (slot, bytes) in (0..).zip(Ledger::new(owner, area).first()) {
        if area.ledger(slot).start != label_places(BLOCKS)[1].start {
            world.disks[0].write(area.ledger(slot), &bytes);
        }
    }
    world.disks[0].flush();
    world
}

/// The identity of a disk's area, as it counts when its pool is opened; none without an area.
fn area_of(disk: &Disk) -> Option<[u8; 16]> {
    let found = find(&media(std::slice::from_ref(disk))).expect("a crash leaves a pool");
    let (id, member) = found.state.disks().next().expect("it has a disk");
    let counts = member.has_sums && !found.unlabelled.contains(&id);
    counts.then(|| find_sums(disk, (found.state.pool, member), [9; 16]).ledger.owner.area)
}

#[test]
fn what_was_where_the_ledger_goes_counts_for_nothing() {
    let mut seen = 0;
    for rest in [0, 1_000, 4_096] {
        let mut world = with_ledger(rest);
        let areas = areas(&world);
        world.pool.begin(&Operation::AddSums { areas }).unwrap();
        let mut steps = Vec::new();
        loop {
            while let Some(output) = world.pool.poll() {
                match output {
                    PoolOutput::Do(id, action) => steps.push((id, action)),
                    PoolOutput::Finished(id, end) => {
                        assert_eq!(end, Ok(()));
                        world.pool.release(id);
                    }
                }
            }
            for _ in 0..20 {
                let area = area_of(&world.disks[0].crashed(&mut world.rng));
                assert!(area.is_none_or(|area| area == [9; 16]), "a new one");
                seen += u32::from(area.is_some());
            }
            if steps.is_empty() {
                break;
            }
            let next = world.rng.below(u32::try_from(steps.len()).unwrap());
            let (id, action) = steps.swap_remove(next as usize);
            common::world::perform(&mut world.disks, &|_| 0, &action);
            world.pool.done(id, true);
        }
        world.disks.truncate(1);
        check_upgraded(&world);
    }
    assert!(seen > 60, "areas that count were seen");
}
