//! Copies of a block are on disks of different failure domains, however a mirror is placed.

mod common;

use std::collections::BTreeSet;

use common::world::{World, uid};
use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::{
    Blocks, Copies, Domains, Layout, NewVolume, Operation, PoolVolumeId, Refusal, VolumeBlock, Zone,
};

/// A pool whose disk n is in domain `domains[n]`.
fn pool(seed: u64, domains: &[u32]) -> World {
    let mut world = World::new(seed, domains.len(), 0);
    world.pool.set_domains(numbered(domains));
    world
}

fn numbered(domains: &[u32]) -> Domains {
    Domains::new(domains.iter().enumerate().map(|(disk, domain)| (uid(disk), *domain)))
}

fn mirror(copies: u8, disks: &[u32]) -> Operation {
    Operation::Create(NewVolume {
        name: "films".to_owned(),
        size: Blocks(12),
        layout: Layout::Mirror(Copies::new(copies).expect("two or three")),
        zone: Zone::Any,
        thin: false,
        has_sums: true,
        seed: 7,
        disks: disks.iter().map(|disk| DiskId(*disk)).collect(),
    })
}

fn films(world: &World) -> PoolVolumeId {
    world.pool.state().named("films").expect("it was created").0
}

/// Whether no two copies of a block are in one domain.
fn is_apart(world: &World, domains: &[u32]) -> bool {
    let id = films(world);
    let volume = world.pool.state().volume(id).expect("it is there");
    let apart = (0..volume.size.0).all(|block| {
        let places: Vec<u32> = volume.copies(VolumeBlock(block)).map(|one| one.disk.0).collect();
        let of: BTreeSet<u32> = places.iter().map(|disk| domains[*disk as usize]).collect();
        of.len() == places.len()
    });
    assert_eq!(apart, !world.pool.shares_domain(id), "the pool says what is true");
    apart
}

/// Moves every block to where it belongs.
fn moved(world: &mut World, id: PoolVolumeId) {
    while let Some(block) = world.pool.misplaced(id, VolumeBlock(0)) {
        world.begin(Operation::Move { volume: id, block }).expect("there is room");
        world.settle();
    }
}

#[test]
fn a_mirror_over_two_shelves_has_a_copy_on_each() {
    let domains = [0, 0, 1, 1];
    let mut world = pool(1, &domains);
    world.begin(mirror(2, &[0, 1, 2, 3])).expect("an order keeps them apart");
    world.settle();
    assert!(is_apart(&world, &domains));
    let mut world = pool(1, &domains);
    assert_eq!(world.begin(mirror(3, &[0, 1, 2, 3])).unwrap_err(), Refusal::SharedDomain);
    assert_eq!(world.begin(mirror(2, &[0, 1])).unwrap_err(), Refusal::SharedDomain);
    assert_eq!(world.begin(mirror(2, &[0, 1, 2])).unwrap_err(), Refusal::SharedDomain);
}

#[test]
fn an_order_that_keeps_copies_apart_is_left_as_it_is_given() {
    let mut world = pool(1, &[0, 0, 1, 1]);
    world.begin(mirror(2, &[2, 1, 3, 0])).expect("it keeps them apart");
    world.settle();
    let id = films(&world);
    let disks = world.pool.state().volume(id).unwrap().disks.clone();
    assert_eq!(disks, [2, 1, 3, 0].map(DiskId));
}

#[test]
fn a_disk_that_leaves_is_followed_by_one_of_a_domain_that_keeps_copies_apart() {
    let domains = [0, 1, 0, 0, 1];
    let mut world = pool(1, &domains);
    world.begin(mirror(2, &[0, 1])).expect("they are apart");
    world.settle();
    world.begin(Operation::DrainDisk { disk: DiskId(1) }).expect("disk 4 can follow it");
    world.settle();
    let id = films(&world);
    moved(&mut world, id);
    assert_eq!(world.pool.state().volume(id).unwrap().disks, [0, 4].map(DiskId));
    assert!(is_apart(&world, &domains));
    let refusal = world.begin(Operation::DrainDisk { disk: DiskId(4) }).unwrap_err();
    assert_eq!(refusal, Refusal::SharedDomain, "disks 2 and 3 are in the domain of the other");
}

#[test]
fn domains_that_are_given_later_are_told_and_not_held_against_what_mends_them() {
    let mut world = World::new(1, 4, 0);
    world.begin(mirror(2, &[0, 1])).expect("there are no domains");
    world.settle();
    let domains = [0, 0, 1, 1];
    world.pool.set_domains(numbered(&domains));
    assert!(!is_apart(&world, &domains));
    let id = films(&world);
    let disks = [0, 2].map(DiskId).to_vec();
    world.begin(Operation::Relocate { volume: id, zone: Zone::Any, disks }).expect("it mends");
    world.settle();
    moved(&mut world, id);
    assert!(is_apart(&world, &domains));
}

#[test]
fn any_sequence_of_placements_keeps_copies_apart_or_is_refused() {
    let mut ends = [0, 0];
    for seed in 0..common::cases(60) {
        let mut rng = SplitMix64::new(seed);
        let domains: Vec<u32> = (0..6).map(|_| rng.below(4)).collect();
        let mut world = pool(seed, &domains);
        let copies = 2 + u8::try_from(rng.below(2)).expect("few");
        let mut disks: Vec<u32> = (0..6).collect();
        let width = u32::from(copies) + rng.below(2);
        let draw = |rng: &mut SplitMix64, disks: &mut Vec<u32>| {
            for at in (1..disks.len()).rev() {
                disks.swap(at, rng.below(u32::try_from(at + 1).expect("few")) as usize);
            }
            disks[..width as usize].to_vec()
        };
        let first = draw(&mut rng, &mut disks);
        if let Err(refusal) = world.begin(mirror(copies, &first)) {
            assert_eq!(refusal, Refusal::SharedDomain, "seed {seed}");
            ends[0] += 1;
            continue;
        }
        world.settle();
        let id = films(&world);
        for _ in 0..6 {
            assert!(is_apart(&world, &domains), "seed {seed}: {domains:?}");
            let disks = draw(&mut rng, &mut disks).into_iter().map(DiskId).collect();
            match world.begin(Operation::Relocate { volume: id, zone: Zone::Any, disks }) {
                Ok(_) => {
                    world.settle();
                    moved(&mut world, id);
                    ends[1] += 1;
                }
                Err(refusal) => assert_eq!(refusal, Refusal::SharedDomain, "seed {seed}"),
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 10), "both occur: {ends:?}");
}
