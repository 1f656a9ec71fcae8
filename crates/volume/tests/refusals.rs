//! Disks that are no pool, or not all of it, and operations that cannot be: told with what and
//! where, and nothing is written.

mod common;

use checksum::crc64;
use common::disk::Disk;
use common::media;
use common::world::{BLOCKS, World, uid};
use spindle_volume::DiskId;
use spindle_volume::pool::format::{DecodeError, Geometry, Label, VERSION, label_places};
use spindle_volume::pool::{
    Blocks, Damage, Finding, Layout, NewVolume, OpenError, Operation, Pool, PoolUid, PoolVolumeId,
    Refusal, VolumeBlock, Zone, check, find,
};
use units::Sectors;

const OTHER: u8 = 200;

fn plan(name: &str, size: u32, layout: Layout, disks: &[u32]) -> NewVolume {
    let disks = disks.iter().map(|disk| DiskId(*disk)).collect();
    let (name, size) = (name.to_owned(), Blocks(size));
    NewVolume { name, size, layout, zone: Zone::Any, thin: false, has_sums: true, seed: 1, disks }
}

/// Two disks with one volume on each and a stripe over both, at rest.
fn pool() -> World {
    let mut world = World::new(1, 2, 0);
    for volume in [
        plan("left", 5, Layout::Single, &[0]),
        plan("right", 5, Layout::Single, &[1]),
        plan("both", 6, Layout::Stripe, &[0, 1]),
    ] {
        world.begin(Operation::Create(volume)).unwrap();
        world.settle();
    }
    world
}

fn members(world: &World) -> Vec<Disk> {
    world.disks[..2].to_vec()
}

#[test]
fn a_foreign_disk_is_named() {
    let mut disks = members(&pool());
    disks.push(Disk::new(Blocks(BLOCKS).sectors()));
    let error = find(&media(&disks)).unwrap_err();
    assert_eq!(error, OpenError::NotOurs { device: 2, why: DecodeError::Foreign });
    let tiny = Disk::new(Sectors(3));
    let error = find(&media(&[tiny])).unwrap_err();
    assert_eq!(error, OpenError::NotOurs { device: 0, why: DecodeError::Foreign });
    assert_eq!(find(&[]).unwrap_err(), OpenError::NoDisks);
}

#[test]
fn one_disk_twice_and_two_pools_disks_are_told() {
    let disks = members(&pool());
    let twice = [disks[0].clone(), disks[1].clone(), disks[0].clone()];
    let error = find(&media(&twice)).unwrap_err();
    assert_eq!(error, OpenError::Twice { device: 2, other: 0, disk: uid(0) });

    let mut other = disks[1].clone();
    let geometry = Geometry::new(8, 16).unwrap();
    let pool = PoolUid([OTHER; 16]);
    let label = Label { pool, disk: uid(1), number: DiskId(1), blocks: BLOCKS, geometry };
    for (place, copy) in label_places(BLOCKS).into_iter().zip([0, 1]) {
        other.write(place, &label.encode(copy));
    }
    let error = find(&media(&[disks[0].clone(), other])).unwrap_err();
    assert!(
        matches!(error, OpenError::Mixed { device: 1, pools: [_, two] } if two == pool),
        "{error}"
    );
}

#[test]
fn with_a_disk_missing_the_pool_says_which_and_is_only_read() {
    let disks = members(&pool());
    let found = find(&media(&disks[..1])).unwrap();
    assert_eq!(found.missing, [(DiskId(1), uid(1))]);
    let whole = |name| {
        let (_, volume) = found.state.named(name).unwrap();
        volume.places().all(|place| found.devices.contains_key(&place.disk))
    };
    assert_eq!([whole("left"), whole("right"), whole("both")], [true, false, false]);
    let mut pool = Pool::open(found);
    assert_eq!(pool.poll(), None, "nothing is written");
    let refusal = pool.begin(&Operation::Remove { volume: PoolVolumeId(1) }).unwrap_err();
    assert_eq!(refusal, Refusal::ReadOnly { missing: 1 });
}

#[test]
fn a_newer_version_is_left_alone() {
    let mut disks = members(&pool());
    let place = label_places(BLOCKS)[0];
    let mut unit = disks[1].read_now(place);
    unit[8] = u8::try_from(VERSION + 1).unwrap();
    let checksum = crc64(&unit[..4_088]);
    unit[4_088..].copy_from_slice(&checksum.to_le_bytes());
    disks[1].write(place, &unit);
    let error = find(&media(&disks)).unwrap_err();
    assert_eq!(
        error,
        OpenError::NotOurs { device: 1, why: DecodeError::Newer { version: VERSION + 1 } }
    );
}

/// A partition table or a file system over the disk's beginning leaves the label at its end.
#[test]
fn a_disk_whose_beginning_was_overwritten_is_still_known() {
    let mut disks = members(&pool());
    disks[0].write(label_places(BLOCKS)[0], &vec![0xEE; 4_096]);
    let found = find(&media(&disks)).unwrap();
    assert_eq!((found.devices.len(), found.findings.len()), (2, 1));
    disks[0].write(label_places(BLOCKS)[1], &vec![0xEE; 4_096]);
    let error = find(&media(&disks)).unwrap_err();
    assert_eq!(error, OpenError::NotOurs { device: 0, why: DecodeError::Foreign });
}

/// So it does on a device that is larger than the pool's part of it: the other disks say where that
/// part ends.
#[test]
fn on_a_larger_device_the_second_label_is_where_the_other_disks_say() {
    let world = pool();
    let overwritten = |at: usize| {
        let mut disks = members(&world);
        disks[at].size = Blocks(BLOCKS + 5).sectors();
        disks[at].write(label_places(BLOCKS)[0], &vec![0xEE; 4_096]);
        disks
    };
    for at in 0..2 {
        let disks = overwritten(at);
        let report = check(&media(&disks)).unwrap();
        let found = &report.found;
        assert_eq!((found.devices.len(), found.missing.len()), (2, 0), "disk {at}");
        assert_eq!(found.devices[&DiskId(u32::try_from(at).unwrap())], at);
        let why = DecodeError::Foreign;
        let damage = Finding { device: at, what: Damage::Label { copy: 0, why } };
        assert_eq!(report.findings, [damage], "disk {at}");
    }
    // No other disk has a label, or it is one of another pool: there is no part that is known.
    let mut disks = overwritten(0);
    let alone = find(&media(&disks[..1])).unwrap_err();
    assert_eq!(alone, OpenError::NotOurs { device: 0, why: DecodeError::Foreign });
    let geometry = Geometry::new(8, 16).unwrap();
    let pool = PoolUid([OTHER; 16]);
    let label = Label { pool, disk: uid(0), number: DiskId(0), blocks: BLOCKS, geometry };
    disks[0].write(label_places(BLOCKS)[1], &label.encode(1));
    let other = find(&media(&disks)).unwrap_err();
    assert_eq!(other, OpenError::NotOurs { device: 0, why: DecodeError::Foreign });
}

#[test]
fn a_disk_that_is_half_initialised_or_too_short_is_told() {
    let mut disks = members(&pool());
    let end = label_places(BLOCKS)[1];
    let mut short = disks[0].clone();
    short.size = Blocks(BLOCKS - 1).sectors();
    let error = find(&media(&[short])).unwrap_err();
    assert_eq!(error, OpenError::Shrunk { device: 0, blocks: BLOCKS - 1, needed: BLOCKS });
    let geometry = Geometry::new(8, 16).unwrap();
    let label = Label {
        pool: PoolUid([OTHER; 16]),
        disk: uid(0),
        number: DiskId(0),
        blocks: BLOCKS,
        geometry,
    };
    disks[0].write(end, &label.encode(1));
    assert_eq!(find(&media(&disks)).unwrap_err(), OpenError::TwoLabels { device: 0 });
}

/// A disk that was taken out while the pool was away from it keeps its label, and is not of the
/// pool.
#[test]
fn a_disk_that_was_taken_out_is_a_stray() {
    let mut world = pool();
    let kept = world.disks[1].clone();
    world.begin(Operation::DrainDisk { disk: DiskId(1) }).unwrap();
    world.settle();
    let refusal = world.begin(Operation::RemoveDisk { disk: DiskId(1) }).unwrap_err();
    assert!(matches!(refusal, Refusal::InUse { blocks: 8 }), "{refusal}");
    world.empty();
    world.begin(Operation::RemoveDisk { disk: DiskId(1) }).unwrap();
    world.settle();
    world.verify();
    let found = find(&media(&[world.disks[0].clone(), kept])).unwrap();
    assert_eq!((found.strays, found.missing), (vec![1], vec![]));
    assert_eq!(found.state, *world.pool.state());
}

#[test]
fn an_operation_that_cannot_be_says_why_and_changes_nothing() {
    let mut world = pool();
    let both = PoolVolumeId(3);
    world.begin(Operation::Snapshot { volume: both, name: "monday".to_owned() }).unwrap();
    world.settle();
    let monday = PoolVolumeId(4);
    let block = VolumeBlock(0);
    let create = |name: &str, size, disks: &[u32]| {
        Operation::Create(plan(name, size, Layout::Single, disks))
    };
    let clone_of = |source, name: &str, size| {
        let (name, size) = (name.to_owned(), Blocks(size));
        Operation::Clone { source, name, size }
    };
    let cases = [
        (create("left", 1, &[0]), Refusal::NameTaken),
        (create("", 1, &[0]), Refusal::Name),
        (create("a\nb", 1, &[0]), Refusal::Name),
        (create("new", 0, &[0]), Refusal::Size),
        (create("new", 1, &[]), Refusal::Disks),
        (create("new", 1, &[0, 0]), Refusal::Disks),
        (create("new", 1, &[9]), Refusal::NoSuchDisk(DiskId(9))),
        (
            create("new", 31, &[0]),
            Refusal::NoSpace { disk: DiskId(0), zone: Zone::Any, missing: 1 },
        ),
        (Operation::Remove { volume: PoolVolumeId(9) }, Refusal::NoSuchVolume(PoolVolumeId(9))),
        (Operation::Remove { volume: both }, Refusal::HasSnapshots),
        (Operation::Resize { volume: monday, size: Blocks(1) }, Refusal::IsSnapshot),
        (Operation::Resize { volume: both, size: Blocks(0) }, Refusal::Size),
        (Operation::RollBack { snapshot: both }, Refusal::NotSnapshot),
        (clone_of(both, "two", 1), Refusal::SmallerThanSource { blocks: Blocks(6) }),
        (clone_of(both, "monday", 10), Refusal::NameTaken),
        (clone_of(PoolVolumeId(99), "two", 10), Refusal::NoSuchVolume(PoolVolumeId(99))),
        (Operation::Snapshot { volume: monday, name: "two".to_owned() }, Refusal::IsSnapshot),
        (Operation::Trim { volume: both, first: block, count: Blocks(1) }, Refusal::NotThin),
        (Operation::Allocate { volume: both, first: block, count: Blocks(7) }, Refusal::Size),
        (
            Operation::Allocate { volume: monday, first: block, count: Blocks(1) },
            Refusal::IsSnapshot,
        ),
        (Operation::AddDisk { uid: uid(0), blocks: BLOCKS }, Refusal::Known),
        (Operation::AddDisk { uid: uid(2), blocks: 2 }, Refusal::TooSmall { blocks: 3 }),
        (Operation::RemoveDisk { disk: DiskId(0) }, Refusal::InUse { blocks: 8 }),
        (Operation::SetAlarm { percent: 101 }, Refusal::Size),
    ];
    let before = world.pool.status();
    for (operation, refusal) in cases {
        let checked = world.pool.check(&operation);
        assert_eq!(checked.as_ref(), Err(&refusal), "{operation:?}");
        assert_eq!(world.begin(operation.clone()), Err(refusal), "{operation:?}");
    }
    // What could be is neither begun nor held: the largest volume twice.
    for _ in 0..2 {
        assert_eq!(world.pool.check(&create("new", 30, &[0])), Ok(()));
    }
    assert!(world.pool.is_idle());
    assert_eq!(world.pool.status(), before);
}

/// A pool whose slots are full of extents refuses more of them, and goes on with what it has.
#[test]
fn metadata_that_are_full_refuse_and_lose_nothing() {
    let mut world = World::new(5, 1, 0);
    let mut refused = 0;
    for n in 0..60 {
        let volume = NewVolume { thin: true, ..plan(&format!("v{n}"), 1, Layout::Single, &[0]) };
        match world.begin(Operation::Create(volume)) {
            Ok(_) => world.settle(),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::MetadataFull);
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "32 KiB hold no 60 volumes");
    world.verify();
}
