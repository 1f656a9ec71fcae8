//! What a client asks for out of a volume's order is counted, of the volumes that are watched.

use spindle_volume::DiskId;
use spindle_volume::pool::{Blocks, Layout, NewVolume, Operation, PoolVolumeId, Zone};
use units::{Extent, Lba, Op, Sectors};

use crate::world::World;

fn created(world: &mut World, name: &str) -> PoolVolumeId {
    let (size, layout, zone) = (Blocks(8), Layout::Stripe, Zone::Any);
    let (name, disks) = (name.to_owned(), vec![DiskId(0), DiskId(1)]);
    let volume =
        NewVolume { name, size, layout, zone, thin: false, has_sums: true, seed: 1, disks };
    world.change(Operation::Create(volume.clone()));
    world.drain();
    world.flow.pool().state().named(&volume.name).expect("it was created").0
}

fn ask(world: &mut World, volume: PoolVolumeId, op: Op, (start, len): (u64, u64)) {
    let extent = Extent::new(Lba(start), Sectors(len));
    world.submit(volume, units::Operation { op, extent, fua: false }, false);
}

#[test]
fn a_request_that_does_not_begin_where_the_last_one_ended_is_out_of_order() {
    let mut world = World::new(1, 2);
    let (watched, other) = (created(&mut world, "watched"), created(&mut world, "other"));
    world.flow.watch_order(watched, true);
    // It may begin anywhere, and requests of other volumes, flushes and trims are no jumps.
    for (volume, op, extent) in [
        (watched, Op::Read, (4_000, 96)),
        (other, Op::Read, (0, 8)),
        (other, Op::Read, (9_000, 8)),
        (watched, Op::Write, (4_096, 2_048)),
        (watched, Op::Trim, (0, 64)),
        (watched, Op::Flush, (0, 0)),
        (watched, Op::Read, (6_144, 1)),
        // What cannot be is not asked for.
        (watched, Op::Read, (8 * 2_048, 1)),
    ] {
        ask(&mut world, volume, op, extent);
    }
    world.drain();
    assert_eq!(world.flow.out_of_order(watched), Sectors::ZERO);
    ask(&mut world, watched, Op::Read, (0, 100));
    ask(&mut world, watched, Op::Read, (100, 1_000));
    assert_eq!(world.flow.out_of_order(watched), Sectors(100), "then it is in order again");
    ask(&mut world, watched, Op::Read, (1_099, 7));
    assert_eq!(world.flow.out_of_order(watched), Sectors(107));
    assert_eq!(world.flow.out_of_order(other), Sectors::ZERO, "it is not watched");
    world.drain();
}

#[test]
fn a_count_is_kept_when_watching_ends_and_until_the_volume_is_removed() {
    let mut world = World::new(1, 2);
    let volume = created(&mut world, "v");
    world.flow.watch_order(volume, true);
    ask(&mut world, volume, Op::Read, (0, 8));
    ask(&mut world, volume, Op::Read, (80, 8));
    world.flow.watch_order(volume, false);
    ask(&mut world, volume, Op::Read, (800, 8));
    world.flow.watch_order(volume, true);
    world.flow.watch_order(volume, true);
    ask(&mut world, volume, Op::Read, (0, 8));
    assert_eq!(world.flow.out_of_order(volume), Sectors(8), "the first one may begin anywhere");
    world.drain();
    world.change(Operation::Remove { volume });
    world.drain();
    assert_eq!(world.flow.out_of_order(volume), Sectors::ZERO);
    world.flow.watch_order(volume, true);
    assert_eq!(world.flow.out_of_order(volume), Sectors::ZERO, "there is no such volume");
}
