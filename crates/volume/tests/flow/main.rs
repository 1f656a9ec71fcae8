//! Clients and operators at one pool: whatever they do side by side, in whatever order disks
//! answer, each reads what it wrote.

mod buffered;
mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod every_write;
mod facts;
mod lost;
mod marks;
mod mirrors;
mod model;
mod order;
mod power;
mod read_choice;
mod resyncs;
mod scrub;
mod world;

use common::cases;
use common::world::{BLOCKS, uid};
use spindle_volume::DiskId;
use spindle_volume::pool::flow::Fault;
use spindle_volume::pool::{Blocks, Layout, NewVolume, Operation, Percent, PoolVolumeId, Zone};
use units::{Extent, Lba, Op, Sectors};
use world::World;

/// A client's request, drawn.
pub(crate) fn ask(world: &mut World) {
    let volumes: Vec<(PoolVolumeId, u64)> =
        world.flow.pool().state().volumes().map(|(id, one)| (id, one.size.sectors().0)).collect();
    if volumes.is_empty() {
        return;
    }
    let (mut volume, mut size) = volumes[world.below(volumes.len())];
    if world.below(2) == 0 {
        (volume, size) = volumes[0];
    }
    let op =
        [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush]
            [world.below(8)];
    let start = (world.rng.draw() % size / 512 * 512).saturating_sub(world.rng.draw() % 2);
    let longest = if world.below(3) == 0 { 8_192 } else { 1_024 };
    let len = 1 + world.rng.draw() % longest;
    // Now and then one that passes the end.
    let len = if world.below(30) == 0 { len } else { len.min(size - start) };
    let extent = Extent::new(Lba(start), Sectors(len));
    let fua = op.writes() && world.below(4) == 0;
    let operation = match op {
        Op::Flush => units::Operation::flush(),
        _ => units::Operation { op, extent, fua },
    };
    let no_hole = world.below(3) == 0;
    world.submit(volume, operation, no_hole);
}

/// An operator's change, drawn.
pub(crate) fn draw(world: &mut World) -> Operation {
    let state = world.flow.pool().state();
    let volumes: Vec<PoolVolumeId> = state.volumes().map(|(id, _)| id).collect();
    let snapshots: Vec<PoolVolumeId> =
        state.volumes().filter(|(_, one)| one.origin.is_some()).map(|(id, _)| id).collect();
    let disks: Vec<DiskId> = state.disks().map(|(id, _)| id).collect();
    let empty: Vec<DiskId> =
        state.disks().filter(|(_, one)| one.draining).map(|(id, _)| id).collect();
    let member = |device: usize| state.disks().any(|(_, one)| one.uid == uid(device));
    let absent = (0..world.disks.len()).find(|device| !member(*device));
    let pick = |world: &mut World, from: &[PoolVolumeId]| match from.len() {
        0 => PoolVolumeId(1),
        len => from[world.below(len)],
    };
    let name = format!("v{}", world.number());
    let mut some = disks.clone();
    some.retain(|_| world.below(3) > 0);
    let half = Zone::Fastest(Percent::new(50).expect("a part"));
    let zone = [Zone::Fast, Zone::Slow, Zone::Any, half][world.below(4)];
    match world.below(28) {
        0..6 => {
            let layout = [Layout::Single, Layout::Stripe, Layout::Random][world.below(3)];
            let (thin, seed) = (world.below(3) > 0, world.rng.draw());
            let size = Blocks(1 + world.rng.below(12));
            Operation::Create(NewVolume {
                name,
                size,
                layout,
                zone,
                thin,
                has_sums: true,
                seed,
                disks: some,
            })
        }
        6..9 => {
            let (volume, size) = (pick(world, &volumes), Blocks(1 + world.rng.below(16)));
            Operation::Resize { volume, size }
        }
        9 => Operation::Remove { volume: pick(world, &volumes) },
        10 => Operation::Remove { volume: pick(world, &snapshots) },
        11..14 => Operation::Snapshot { volume: pick(world, &volumes), name },
        14..16 => Operation::RollBack { snapshot: pick(world, &snapshots) },
        16..20 => Operation::Relocate { volume: pick(world, &volumes), zone, disks: some },
        20..22 => Operation::AddDisk { uid: uid(absent.unwrap_or(0)), blocks: BLOCKS },
        24..28 => {
            let source = pick(world, &volumes);
            let size = world.flow.pool().state().volume(source).map_or(1, |one| one.size.0);
            let size = Blocks(size + world.rng.below(3));
            Operation::Clone { source, name, size }
        }
        22 if world.below(4) == 0 => Operation::KeepDisk { disk: disks[world.below(disks.len())] },
        22 => Operation::DrainDisk { disk: disks[world.below(disks.len())] },
        _ => {
            let from = if empty.is_empty() { &disks } else { &empty };
            Operation::RemoveDisk { disk: from[world.below(from.len())] }
        }
    }
}

const ROUNDS: u32 = 4_000;

/// Clients and an operator for a while, then rest.
fn run(seed: u64, failing: u32) -> World {
    println!("seed {seed}");
    at_work(World::new(seed, 1 + usize::try_from(seed % 3).unwrap()), failing)
}

fn at_work(mut world: World, failing: u32) -> World {
    for round in 0..ROUNDS {
        world.failing = if round > 200 { failing } else { 0 };
        match world.below(24) {
            0..5 if world.asked.len() < 12 => ask(&mut world),
            5 if world.changes.len() < 3 && world.below(3) == 0 => {
                let operation = draw(&mut world);
                let id = world.change(operation);
                if world.below(10) == 0 {
                    world.flow.cancel(id);
                    world.listen();
                }
            }
            6 if world.below(8) == 0 => {
                let paused = world.below(2) == 0;
                world.flow.pause_relocation(paused);
                world.listen();
            }
            7 if failing == 0 && world.below(8) == 0 => {
                world.crash();
            }
            8 if failing == 0 && world.below(100) == 0 => world.restart(),
            9 if world.below(8) == 0 => world.scrub(),
            _ => drop(world.step()),
        }
    }
    world.flow.pause_relocation(false);
    world.drain();
    if failing == 0 {
        world.restart();
        world.drain();
    }
    let answered = |end| world.answers.iter().filter(|(_, one)| *one == end).count();
    println!(
        "  {} answers: {} well, {} no space, {} disk, {} read only, {} invalid; {} moved",
        world.answers.len(),
        answered(Ok(())),
        answered(Err(Fault::NoSpace)),
        answered(Err(Fault::Disk)),
        answered(Err(Fault::ReadOnly)),
        answered(Err(Fault::Invalid)),
        world.moved,
    );
    let (changes, done, crashes) = (world.ends.len(), world.done.len(), world.crashes);
    println!("  {changes} changes, {done} done; {crashes} crashes");
    world
}

#[test]
fn whatever_is_done_side_by_side_everybody_reads_what_was_written() {
    for seed in 0..cases(30) {
        run(seed, 0);
    }
}

/// What was flushed or forced survives the power's loss, and a snapshot holds what was answered
/// before it, where the host buffers writes.
#[test]
fn with_write_buffers_everybody_reads_what_was_written_and_keeps_what_was_flushed() {
    let (mut buffered, mut crashes, mut moved, mut copied) = (0, 0, 0, 0);
    // In the last world a volume that has grown is about to be rolled back when the power goes.
    for seed in (0..cases(15)).chain([6_566]) {
        println!("seed {seed}");
        let world = World::new(seed, 1 + usize::try_from(seed % 3).unwrap());
        let world = at_work(world.with_buffers(), 0);
        buffered += world.buffered();
        crashes += world.crashes;
        moved += world.moved;
        let copies =
            |one: &&Operation| matches!(one, Operation::Snapshot { .. } | Operation::Clone { .. });
        copied += world.done.iter().filter(copies).count() as u64;
    }
    println!("{crashes} crashes, {moved} blocks moved, {copied} snapshots and clones");
    assert!(buffered > 100 * cases(15), "only {buffered} writes were answered from memory");
    assert!(crashes > 10 * cases(15), "the power went {crashes} times");
    assert!(moved > cases(15), "only {moved} blocks were moved meanwhile");
    assert!(copied > cases(15), "only {copied} snapshots and clones were made");
}

/// A disk that fails at random: answered writes are there, and every request is answered.
#[test]
fn with_failing_disks_every_request_is_answered() {
    for seed in 0..cases(30) {
        run(seed, 200);
    }
}
