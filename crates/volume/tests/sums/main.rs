//! No wrong byte is returned as right, and no right one is refused.

mod area;
#[path = "../common/mod.rs"]
mod common;
mod world;

use common::cases;
use spindle_volume::pool::sums::SUMS_OF_REGION;
use units::{Extent, Lba, Sectors};
use world::{Mishap, World, whole};

/// Places of 4 KiB that pieces meet at: the borders of regions, and their middle.
fn place(world: &mut World) -> u64 {
    let region = world.below(6) * SUMS_OF_REGION as u64;
    region.saturating_sub(8) + world.below(24)
}

/// A piece across the border of a region: what follows it is read, and opened, ahead of it.
fn in_order(first: u64) -> Extent {
    whole(first - first % SUMS_OF_REGION as u64 + SUMS_OF_REGION as u64 - 8, 12)
}

/// A piece, drawn. Those that do not align are of 512 bytes and more.
fn draw(world: &mut World) {
    let (first, count) = (place(world), 1 + world.below(12));
    let extent = whole(first, count);
    let shift = Sectors(world.below(8));
    let part = Extent::new(extent.start + shift, extent.split_at(shift).1.len);
    match world.below(12) {
        11 => {
            world.is_other = world.below(2) == 0;
            world.record(extent);
        }
        9 => world.read(in_order(first)),
        10 => world.write(in_order(first)),
        0..=3 => world.read(extent),
        4..=6 => world.write(extent),
        7 => world.write(part),
        _ if world.below(4) == 0 => world.erase(Extent::new(Lba(first * 8), Sectors(700_000))),
        _ => world.erase(part),
    }
}

fn run(world: &mut World, steps: u64) {
    for _ in 0..steps {
        if world.below(2) == 0 {
            draw(world);
        } else {
            world.complete_one();
        }
    }
}

#[test]
fn a_crash_at_any_instant_makes_no_good_data_refused() {
    for seed in 0..cases(8) {
        let mut world = World::new(seed, 1_700, 2 + usize::try_from(seed % 8).unwrap());
        for _ in 0..12 {
            let steps = world.below(160);
            run(&mut world, steps);
            world.crash();
            let places: Vec<u64> = world.expected.keys().copied().collect();
            for place in places {
                world.read(whole(place, 1));
            }
            world.settle();
            assert_eq!((world.refused, world.wrong), (0, 0), "seed {seed}");
        }
        assert!(world.reads > 0, "seed {seed}: something was read");
    }
}

/// The corruptions of one seed. `make soak` has 4,000 seeds: 10⁶ corruptions.
const CORRUPTIONS: u64 = 250;

/// A write that the disk loses, misdirects or corrupts, or whose data is damaged where it lies.
fn write_with_mishap(world: &mut World, at: u64) {
    let other = place(world);
    world.mishap = match world.below(4) {
        0 => Mishap::Lost,
        1 => Mishap::Misdirected(other),
        2 => Mishap::Corrupted,
        _ => Mishap::None,
    };
    world.write(whole(at, 1));
    world.settle();
    if world.mishap == Mishap::None {
        world.corrupt(at);
    }
    world.mishap = Mishap::None;
}

/// Lost, misdirected and corrupted writes, and damage to what lies on the disk, while clients read
/// and write, until [`CORRUPTIONS`] of them were read and refused. Several are made at one border
/// of regions before they are read: each that is read there afterwards is a corruption of its own,
/// and the pages of the regions are read, or stored and read, once for all of them.
fn inject(seed: u64) -> World {
    let mut world = World::new(seed, 1_700, 2 + usize::try_from(seed % 8).unwrap());
    let mut refused = 0;
    while refused < CORRUPTIONS {
        let first = place(&mut world);
        let places = first..first + 1 + world.below(64);
        places.clone().for_each(|at| write_with_mishap(&mut world, at));
        match world.below(4) {
            0 => run(&mut world, 8),
            1 => {
                world.close();
                world.open();
            }
            _ => {}
        }
        world.settle();
        for at in places {
            let was_refused = world.refused;
            let is_corrupt = world.whole.contains(&at) && world.data(at) != world.expected[&at];
            world.read(whole(at, 1));
            world.settle();
            let is_refused = world.refused > was_refused;
            assert_eq!(is_refused, is_corrupt, "seed {seed}: 4 KiB number {at} are refused");
            refused += u64::from(is_corrupt);
        }
        assert_eq!(world.wrong, 0, "seed {seed}: no wrong byte is returned");
    }
    world
}

#[test]
fn no_lost_misdirected_or_corrupted_write_is_returned_as_right() {
    for seed in 0..cases(6) {
        let world = inject(seed);
        assert!(world.refused >= CORRUPTIONS, "seed {seed}: {} were refused", world.refused);
        assert!(world.told() >= world.refused, "seed {seed}: each is counted");
    }
}

#[test]
fn a_writer_in_order_waits_for_its_first_region_alone() {
    let mut world = World::new(1, 1_700, 64);
    let mut waited = 0;
    for first in (0..4 * SUMS_OF_REGION as u64).step_by(2_040) {
        world.write(whole(first, 2_040));
        waited += world.waiting_len();
        world.settle();
    }
    assert_eq!(waited, 1, "the other regions were opened before they were needed");
    assert!(world.sums.status().open > 4, "and some in front of it");
    world.close();
}

#[test]
fn what_is_closed_is_verified_after_a_crash_and_after_a_clean_end() {
    let mut world = World::new(1, 1_700, 4);
    for first in [0, 3 * SUMS_OF_REGION as u64] {
        world.write(whole(first, 4));
        world.close();
        world.open();
    }
    // This region is open at the crash, and the others are not.
    world.write(whole(SUMS_OF_REGION as u64, 4));
    world.settle();
    world.crash();
    for first in [0, 3 * SUMS_OF_REGION as u64] {
        world.corrupt(first + 1);
        let was_refused = world.refused;
        world.read(whole(first, 4));
        world.read(whole(first + 2, 2));
        world.settle();
        assert_eq!(world.refused, was_refused + 1, "one read has what was damaged");
    }
}

#[test]
fn what_is_recorded_is_verified_from_then_on_and_after_a_clean_end() {
    let mut world = World::new(1, 1_700, 4);
    world.write(whole(0, 4));
    // In part: the checksums of 4 KiB number 1 and 2 are not known any more.
    world.write(Extent::new(Lba(12), Sectors(8)));
    world.settle();
    for (is_other, unverified) in [(true, 2), (false, 4)] {
        world.is_other = is_other;
        world.record(whole(0, 4));
        world.settle();
        assert_eq!(world.sums.status().unverified, unverified, "they were not known until then");
    }
    world.read(whole(0, 4));
    world.close();
    world.open();
    world.read(whole(0, 4));
    world.settle();
    assert_eq!((world.sums.status().unverified, world.refused), (0, 0));
    for place in [1, 2] {
        world.corrupt(place);
        let was_refused = world.refused;
        world.read(whole(place, 1));
        world.settle();
        assert_eq!(world.refused, was_refused + 1, "4 KiB number {place}");
    }
    // What is wrong is not taken for right.
    world.record(whole(0, 4));
    world.read(whole(1, 1));
    world.settle();
    assert_eq!((world.refused, world.wrong), (4, 0));
}

#[test]
fn a_damaged_page_makes_no_good_data_refused_and_is_counted() {
    let mut world = World::new(1, 1_700, 4);
    world.write(whole(0, 4));
    world.close();
    world.damage_page(0);
    world.open();
    world.read(whole(0, 4));
    world.settle();
    assert_eq!(world.refused, 0);
    assert_eq!(world.sums.status().pages_damaged, 1);
    assert_eq!(world.sums.status().unverified, 4);
    // What is written from here on is verified again.
    world.write(whole(2, 1));
    world.close();
    world.open();
    world.corrupt(2);
    world.read(whole(0, 4));
    world.settle();
    assert_eq!(world.refused, 1);
}
