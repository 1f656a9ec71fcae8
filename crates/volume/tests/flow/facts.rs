//! What a client, an operator and an accountant of a flow may rely on, one by one.

use spindle_volume::DiskId;
use spindle_volume::pool::flow::{
    COPIES_MAX, ChangeOutcome, ChargeTo, Fault, Flow, Output, PoolRequestId, SEGMENT_BLOCKS_MAX,
    Work,
};
use spindle_volume::pool::format::Geometry;
use spindle_volume::pool::{
    Blocks, Copies, Failure, Layout, NewVolume, Operation, Pool, PoolVolumeId, Refusal,
    VolumeBlock, Zone, find,
};
use units::{Extent, Lba, Op, Sectors};

use crate::common::media;
use crate::common::world::{BLOCKS, POOL, uid};
use crate::world::World;

fn plan(name: &str, size: u32, thin: bool, disks: &[u32]) -> NewVolume {
    let disks = disks.iter().map(|disk| DiskId(*disk)).collect();
    let (name, size, layout, zone) = (name.to_owned(), Blocks(size), Layout::Single, Zone::Any);
    NewVolume { name, size, layout, zone, thin, has_sums: true, seed: 1, disks }
}

fn create(world: &mut World, volume: NewVolume) -> PoolVolumeId {
    let name = volume.name.clone();
    done(world, Operation::Create(volume));
    world.flow.pool().state().named(&name).unwrap().0
}

fn done(world: &mut World, operation: Operation) {
    let id = world.change(operation);
    world.drain();
    assert_eq!(world.ends.last(), Some(&(id, ChangeOutcome::Done)));
}

/// A sector in the middle of `blocks` blocks from `first` on.
fn at(first: u64, blocks: u64) -> Extent {
    Extent::new(Lba(first * 2_048), Sectors((blocks - 1) * 2_048 + 1))
}

fn write(world: &mut World, volume: PoolVolumeId, first: u64, blocks: u64) -> PoolRequestId {
    world.submit(volume, units::Operation::write(at(first, blocks)), false)
}

fn trim(world: &mut World, volume: PoolVolumeId, block: u64) -> PoolRequestId {
    let extent = Extent::new(Lba(block * 2_048), Sectors(2_048));
    world.submit(volume, units::Operation { op: Op::Trim, extent, fua: false }, false)
}

fn answer(world: &World, id: PoolRequestId) -> Option<Result<(), Fault>> {
    world.answers.iter().find(|(other, _)| *other == id).map(|(_, end)| *end)
}

/// Whether a piece of a client's request is under way.
fn flies(world: &World, id: PoolRequestId) -> bool {
    world
        .running
        .iter()
        .any(|one| matches!(one.piece.work, Work::Request { request, .. } if request == id))
}

/// Everything ends but what `kept` names.
fn drain_but(world: &mut World, kept: impl Fn(&Work) -> bool) {
    while let Some(at) = world.running.iter().position(|one| !kept(&one.piece.work)) {
        world.step_one(at);
    }
}

fn is_read(work: &Work) -> bool {
    matches!(work, Work::Request { op: Op::Read, .. })
}

/// A block that is trimmed during a read is free after the read: a request that needs it waits, and
/// is not told that the pool is full.
#[test]
fn a_full_pool_is_full_only_when_nothing_is_about_to_be_free() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thin", 100, true, &[0]));
    write(&mut world, id, 0, 38);
    world.drain();
    assert_eq!(world.flow.pool().status().free, 0);
    let full = write(&mut world, id, 99, 1);
    assert_eq!(answer(&world, full), Some(Err(Fault::NoSpace)));
    let read = world.submit(id, units::Operation::read(at(3, 1)), false);
    trim(&mut world, id, 3);
    drain_but(&mut world, is_read);
    let held = write(&mut world, id, 99, 1);
    assert_eq!(answer(&world, held), None, "a read still has the block");
    world.drain();
    assert_eq!((answer(&world, read), answer(&world, held)), (Some(Ok(())), Some(Ok(()))));
}

/// Metadata, flushed on every disk, come before the data that rely on them.
#[test]
fn a_first_write_is_issued_when_its_place_is_durable() {
    let mut world = World::new(1, 2);
    let id = create(&mut world, plan("thin", 10, true, &[0]));
    let sequence = world.flow.pool().state().sequence;
    let request = write(&mut world, id, 4, 1);
    let mut flushed = 0;
    while !flies(&world, request) {
        assert!(!world.running.is_empty(), "it comes to its data");
        flushed += usize::from(world.running[0].piece.work == Work::Flush);
        world.step_one(0);
    }
    assert_eq!(world.flow.pool().state().sequence, sequence + 1);
    assert!(flushed >= 3, "the erased block, and the record on both disks: {flushed}");
    assert_eq!(world.running.len(), 1, "nothing of the metadata is left to do");
    world.drain();
}

#[test]
fn each_pays_for_what_is_done_for_it() {
    let mut world = World::new(1, 2);
    let payers = |world: &World, right: &dyn Fn(&Work) -> bool| -> Vec<ChargeTo> {
        let pieces = world.running.iter().map(|one| &one.piece);
        pieces.filter(|piece| right(&piece.work)).map(|piece| piece.payer).collect()
    };
    let erase = |work: &Work| matches!(work, Work::Erase { .. });
    let load = |work: &Work| matches!(work, Work::Load { .. });
    world.change(Operation::Create(plan("thick", 4, false, &[0])));
    assert_eq!(payers(&world, &erase), [ChargeTo::Metadata], "it is not there yet");
    world.drain();
    let (id, _) = world.flow.pool().state().named("thick").unwrap();
    world.change(Operation::Resize { volume: id, size: Blocks(6) });
    assert_eq!(payers(&world, &erase), [ChargeTo::Volume(id)]);
    world.drain();
    done(&mut world, Operation::Snapshot { volume: id, name: "kept".to_owned() });
    write(&mut world, id, 2, 1);
    assert_eq!(payers(&world, &load), [ChargeTo::Volume(id)], "a copy before the first write");
    world.drain();
    world.change(Operation::Relocate { volume: id, zone: Zone::Any, disks: vec![DiskId(1)] });
    while payers(&world, &load).is_empty() {
        world.step_one(0);
    }
    assert_eq!(payers(&world, &load)[0], ChargeTo::Relocation);
    world.drain();
}

/// A volume grows while it is written: what it had before waits for nothing.
#[test]
fn writes_go_on_while_a_volume_grows() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thick", 4, false, &[0]));
    world.change(Operation::Resize { volume: id, size: Blocks(30) });
    assert!(!world.running.is_empty(), "the new part is erased");
    let request = write(&mut world, id, 3, 1);
    assert!(flies(&world, request));
    world.drain();
}

/// Truncated blocks are quiesced first; later requests for them fail, and the rest of the
/// volume never notices.
#[test]
fn a_shrink_waits_for_reads_in_flight_and_refuses_later_ones() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thick", 8, false, &[0]));
    let read = world.submit(id, units::Operation::read(at(6, 1)), false);
    let change = world.change(Operation::Resize { volume: id, size: Blocks(5) });
    let late = write(&mut world, id, 6, 1);
    let other = write(&mut world, id, 2, 1);
    assert!(flies(&world, read) && flies(&world, other) && !flies(&world, late));
    drain_but(&mut world, is_read);
    assert_eq!((world.ends.len(), answer(&world, late)), (1, None), "it waits for the read");
    world.drain();
    assert_eq!(world.ends.last(), Some(&(change, ChangeOutcome::Done)));
    assert_eq!(answer(&world, read), Some(Ok(())));
    assert_eq!(answer(&world, late), Some(Err(Fault::Invalid)));
}

/// A request for a block that others allocate and trim all the time gets it in its order.
#[test]
fn no_request_and_no_change_starves() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thin", 8, true, &[0]));
    write(&mut world, id, 1, 1);
    let wide = write(&mut world, id, 0, 3);
    let mut others = 0;
    while answer(&world, wide).is_none() {
        others += 1;
        assert!(others < 20, "it has its turn");
        trim(&mut world, id, 1);
        write(&mut world, id, 1, 1);
        for _ in 0..8 {
            world.step();
        }
    }
    world.drain();
    // The same for an operator beside clients that never pause.
    let change = world.change(Operation::AddDisk { uid: uid(1), blocks: BLOCKS });
    for round in 0.. {
        assert!(round < 200, "it has its turn");
        if world.ends.iter().any(|(id, _)| *id == change) {
            break;
        }
        trim(&mut world, id, round % 8);
        write(&mut world, id, round % 8, 1);
        for _ in 0..8 {
            world.step();
        }
    }
    world.drain();
}

#[test]
fn blocks_move_by_themselves_unless_that_is_paused() {
    let mut world = World::new(1, 2);
    let id = create(&mut world, plan("thick", 36, false, &[0]));
    write(&mut world, id, 0, 36);
    world.drain();
    world.flow.pause_relocation(true);
    let disks = vec![DiskId(1)];
    done(&mut world, Operation::Relocate { volume: id, zone: Zone::Any, disks });
    let progress = world.flow.relocations();
    assert_eq!((progress.len(), progress[0].misplaced, progress[0].moved), (1, 36, 0));
    world.flow.pause_relocation(false);
    world.listen();
    while world.flow.relocations()[0].moved < 5 {
        world.step();
    }
    // A restart resumes the remaining moves.
    world.flow.pause_relocation(true);
    world.drain();
    world.restart();
    let left = world.flow.relocations()[0].misplaced;
    assert!((1..=31).contains(&left), "{left} are left");
    world.drain();
    assert_eq!(world.flow.relocations(), []);
    let volume = world.flow.pool().state().volume(id).unwrap();
    assert!(volume.places().all(|place| place.disk == DiskId(1)));
}

/// Starts to move a volume of 20 blocks to another disk, until the first is moved.
fn moving(world: &mut World) -> PoolVolumeId {
    let id = create(world, plan("thick", 20, false, &[0]));
    world.change(Operation::Relocate { volume: id, zone: Zone::Any, disks: vec![DiskId(1)] });
    let is_first = |work: &Work| match work {
        Work::Load { copy, .. } | Work::Store { copy, .. } => copy.0 == 0,
        _ => false,
    };
    let is_commit = |work: &Work| matches!(work, Work::Metadata { .. } | Work::Flush);
    let next = |world: &World| {
        world.running.iter().position(|one| is_first(&one.piece.work) || is_commit(&one.piece.work))
    };
    while let Some(at) = next(world) {
        world.step_one(at);
    }
    id
}

/// Each commit takes the disks' time, and no request waits for one.
#[test]
fn moved_blocks_are_committed_together() {
    let mut world = World::new(1, 2);
    moving(&mut world);
    let sequence = world.flow.pool().state().sequence;
    while !world.running.is_empty() {
        world.step_one(0);
    }
    assert_eq!(world.flow.relocations(), []);
    let commits = world.flow.pool().state().sequence - sequence;
    assert!((1..=3).contains(&commits), "{commits} commits of 20 blocks");
}

#[test]
fn a_write_to_a_moved_block_waits_for_no_other_block() {
    let mut world = World::new(1, 2);
    let id = moving(&mut world);
    let commits = |world: &World| {
        world.running.iter().any(|one| matches!(one.piece.work, Work::Metadata { .. }))
    };
    assert!(!commits(&world), "it waits for other blocks");
    let request = write(&mut world, id, 0, 1);
    assert!(commits(&world), "it does no longer");
    while !flies(&world, request) {
        world.step_one(world.running.len() - 1);
    }
    assert_eq!(world.flow.relocations()[0].moved, 1);
    world.drain();
    assert_eq!(answer(&world, request), Some(Ok(())));
}

#[test]
fn moving_says_why_it_is_stuck_and_goes_on_when_there_is_room() {
    let mut world = World::new(1, 2);
    let id = create(&mut world, plan("thick", 20, false, &[0]));
    let full = create(&mut world, plan("full", 30, false, &[1]));
    done(&mut world, Operation::Relocate { volume: id, zone: Zone::Any, disks: vec![DiskId(1)] });
    let progress = world.flow.relocations();
    assert_eq!((progress[0].moved, progress[0].misplaced), (8, 12));
    let stuck = matches!(progress[0].stuck, Some(ChangeOutcome::Refused(Refusal::NoSpace { .. })));
    assert!(stuck, "{progress:?}");
    done(&mut world, Operation::Remove { volume: full });
    assert_eq!(world.flow.relocations(), []);
}

/// A disk fails, and the pool goes on without it.
fn pull(world: &mut World, disk: u32) {
    world.dead.insert(usize::try_from(disk).unwrap());
    assert!(world.flow.fail(DiskId(disk)), "the pool goes on");
    world.drain();
    assert!(!world.flow.pool().state().is_in(DiskId(disk)));
}

fn come_back(world: &mut World, disk: u32) {
    world.dead.clear();
    done(world, Operation::TakeBack { disk: DiskId(disk) });
}

fn mirror(name: &str, disks: &[u32]) -> NewVolume {
    let layout = Layout::Mirror(Copies::new(2).unwrap());
    NewVolume { layout, ..plan(name, 4, false, disks) }
}

/// What is on a disk that is out, and has no copy, waits for the disk: it is read by no attempt.
#[test]
fn moving_off_a_disk_that_is_out_says_so_and_goes_on_when_it_is_back() {
    let mut world = World::new(1, 3);
    create(&mut world, mirror("mirror", &[1, 2]));
    let id = create(&mut world, plan("single", 6, false, &[0]));
    let written = write(&mut world, id, 0, 6);
    world.drain();
    pull(&mut world, 0);
    done(&mut world, Operation::Relocate { volume: id, zone: Zone::Any, disks: vec![DiskId(1)] });
    let progress = world.flow.relocations();
    let stuck = Some(ChangeOutcome::Refused(Refusal::Out(DiskId(0))));
    assert_eq!((progress[0].misplaced, &progress[0].stuck), (6, &stuck));
    come_back(&mut world, 0);
    assert_eq!(world.flow.relocations(), []);
    let read = world.submit(id, units::Operation::read(at(0, 6)), false);
    world.drain();
    assert_eq!([written, read].map(|one| answer(&world, one)), [Some(Ok(())); 2]);
}

/// Some blocks cannot be read, and others have nowhere to go: neither makes the others tried for
/// ever.
#[test]
fn moves_that_fail_do_not_restart_those_that_are_refused_without_end() {
    let mut world = World::new(1, 3);
    create(&mut world, mirror("mirror", &[0, 1]));
    let stripe = NewVolume { layout: Layout::Stripe, ..plan("stripe", 12, false, &[0, 1]) };
    let id = create(&mut world, stripe);
    let volume = world.flow.pool().state().volume(id).unwrap();
    let places = volume.places().filter(|place| place.disk == DiskId(0));
    let bad = places.flat_map(|place| place.block..place.end()).map(|block| (0, block.into()));
    world.bad = bad.collect();
    world.flow.pause_relocation(true);
    let disks = vec![DiskId(1), DiskId(2)];
    done(&mut world, Operation::Relocate { volume: id, zone: Zone::Any, disks });
    pull(&mut world, 2);
    world.flow.pause_relocation(false);
    world.drain();
    let progress = world.flow.relocations();
    assert_eq!(progress[0].misplaced, 12);
    assert!(progress[0].stuck.is_some(), "{progress:?}");
    world.bad.clear();
    come_back(&mut world, 2);
    assert_eq!(world.flow.relocations(), []);
}

/// A block whose only copy cannot be read is not said to be equal, nor examined for ever; when the
/// other disk is back, and it can be read, it is.
#[test]
fn an_only_copy_that_cannot_be_read_is_not_said_to_be_equal() {
    let mut world = World::new(1, 2);
    let id = create(&mut world, mirror("mirror", &[0, 1]));
    pull(&mut world, 1);
    let written = write(&mut world, id, 0, 4);
    world.drain();
    let state = world.flow.pool().state();
    let copies = state.volume(id).unwrap().places().filter(|place| place.disk == DiskId(0));
    world.bad = copies.map(|place| (0, place.block.into())).collect();
    let read = world.submit(id, units::Operation::read(at(0, 1)), false);
    world.drain();
    assert_eq!(
        (answer(&world, written), answer(&world, read)),
        (Some(Ok(())), Some(Err(Fault::Disk)))
    );
    assert!(world.flow.resync().is_stuck, "{:?}", world.flow.resync());
    world.bad.clear();
    come_back(&mut world, 1);
    assert!(world.flow.pool().is_redundant() && !world.flow.resync().is_stuck);
}

/// The disk that is to stay fails while the last other one leaves: no disk would be left, so the
/// pool stops, and has one of its states when it is opened again.
#[test]
fn the_last_disk_that_stays_is_not_taken_out() {
    let mut world = World::new(1, 3);
    create(&mut world, mirror("mirror", &[0, 1]));
    pull(&mut world, 0);
    let change = world.change(Operation::RemoveDisk { disk: DiskId(2) });
    assert!(!world.running.is_empty(), "it is being committed");
    world.dead.insert(1);
    world.drain();
    assert_eq!(world.ends.last(), Some(&(change, ChangeOutcome::Failed(Failure::Unknown))));
    assert!(world.flow.pool().is_poisoned());
    world.dead.remove(&1);
    world.restart();
    world.drain();
    assert!(world.flow.pool().is_live(DiskId(1)));
}

/// A disk is emptied and goes, with its volumes in use; then nothing is asked of it any more.
#[test]
fn a_disk_is_emptied_and_goes_while_clients_flush() {
    let mut world = World::new(3, 2);
    let id = create(&mut world, plan("thick", 10, false, &[0]));
    write(&mut world, id, 0, 10);
    done(&mut world, Operation::DrainDisk { disk: DiskId(0) });
    assert_eq!(world.flow.relocations(), []);
    let flush = world.submit(id, units::Operation::flush(), false);
    let change = world.change(Operation::RemoveDisk { disk: DiskId(0) });
    drain_but(&mut world, |work| matches!(work, Work::Request { .. }));
    world.drain();
    assert_eq!(answer(&world, flush), Some(Ok(())));
    assert_eq!(world.ends.last(), Some(&(change, ChangeOutcome::Done)));
    write(&mut world, id, 0, 10);
    world.submit(id, units::Operation::flush(), false);
    assert!(world.running.iter().all(|one| one.piece.disk == DiskId(1)));
    world.drain();
}

#[test]
fn a_change_can_be_called_off_before_it_is_committed() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thick", 4, false, &[0]));
    let free = world.flow.pool().status().free;
    let grow = world.change(Operation::Resize { volume: id, size: Blocks(30) });
    let shrink = world.change(Operation::Resize { volume: id, size: Blocks(1) });
    for change in [grow, shrink] {
        world.flow.cancel(change);
        world.listen();
    }
    world.drain();
    let cancelled = ChangeOutcome::Failed(Failure::Cancelled);
    assert!(world.ends[1..].iter().all(|(_, end)| *end == cancelled), "{:?}", world.ends);
    assert_eq!(world.flow.pool().status().free, free);
}

/// With a disk missing what is whole can be read; nothing is written.
#[test]
fn a_pool_with_a_disk_missing_is_read_as_far_as_it_is_there() {
    let mut world = World::new(1, 2);
    let here = create(&mut world, plan("here", 3, false, &[0]));
    let gone = create(&mut world, plan("gone", 3, false, &[1]));
    write(&mut world, here, 1, 1);
    world.drain();
    world.flow = Flow::new(Pool::open(find(&media(&world.disks[..1])).unwrap()));
    world.listen();
    let read = world.submit(here, units::Operation::read(at(0, 3)), false);
    let lost = world.submit(gone, units::Operation::read(at(0, 1)), false);
    let written = write(&mut world, here, 1, 1);
    let flush = world.submit(here, units::Operation::flush(), false);
    let change = world.change(Operation::Remove { volume: gone });
    world.drain();
    assert_eq!(answer(&world, read), Some(Ok(())));
    assert_eq!(answer(&world, lost), Some(Err(Fault::Disk)));
    assert_eq!(answer(&world, written), Some(Err(Fault::ReadOnly)));
    assert_eq!(answer(&world, flush), Some(Ok(())), "nothing was written");
    let refused = ChangeOutcome::Refused(Refusal::ReadOnly { missing: 1 });
    assert_eq!(world.ends.last(), Some(&(change, refused)));
}

/// A disk that failed under the metadata: what needs none of them goes on, the rest is told.
#[test]
fn a_poisoned_pool_serves_what_has_its_place() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thin", 8, true, &[0]));
    write(&mut world, id, 1, 1);
    world.drain();
    let first = write(&mut world, id, 2, 1);
    let other = write(&mut world, id, 3, 1);
    while let Some(at) =
        world.running.iter().position(|one| !matches!(one.piece.work, Work::Metadata { .. }))
    {
        world.step_one(at);
    }
    world.failing = 1;
    world.step_one(0);
    world.failing = 0;
    world.drain();
    assert!(world.flow.pool().is_poisoned());
    assert_eq!(
        (answer(&world, first), answer(&world, other)),
        (Some(Err(Fault::Disk)), Some(Err(Fault::Disk)))
    );
    let placed = write(&mut world, id, 1, 1);
    let read = world.submit(id, units::Operation::read(at(0, 8)), false);
    let hole = write(&mut world, id, 5, 1);
    let change = world.change(Operation::Remove { volume: id });
    world.drain();
    assert_eq!((answer(&world, placed), answer(&world, read)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(answer(&world, hole), Some(Err(Fault::Disk)));
    assert_eq!(world.ends.last(), Some(&(change, ChangeOutcome::Refused(Refusal::Poisoned))));
}

/// Of a trim whose commit failed it is not known whether it holds: what is written to its blocks
/// now could be gone when the pool is opened again.
#[test]
fn what_a_failed_commit_may_have_freed_is_written_no_more() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thin", 8, true, &[0]));
    write(&mut world, id, 1, 2);
    world.drain();
    let trimmed = trim(&mut world, id, 1);
    drain_but(&mut world, |work| matches!(work, Work::Metadata { .. }));
    // It waits for the blocks that are locked.
    let waiting = write(&mut world, id, 1, 1);
    world.failing = 1;
    world.step_one(0);
    world.failing = 0;
    world.drain();
    assert!(world.flow.pool().is_poisoned());
    let later = write(&mut world, id, 1, 1);
    let beside = write(&mut world, id, 2, 1);
    world.drain();
    let fails = Some(Err(Fault::Disk));
    assert_eq!([trimmed, waiting, later].map(|one| answer(&world, one)), [fails; 3]);
    assert_eq!(answer(&world, beside), Some(Ok(())), "it has its place");
}

#[test]
fn a_client_is_told_which_sectors_lie_somewhere() {
    let mut world = World::new(1, 1);
    let id = create(&mut world, plan("thin", 8, true, &[0]));
    write(&mut world, id, 2, 2);
    world.drain();
    let extent = Extent::new(Lba(100), Sectors(5 * 2_048));
    let told: Vec<(u64, u64, bool)> = world
        .flow
        .allocation(id, extent)
        .map(|(extent, there)| (extent.start.0, extent.len.0, there))
        .collect();
    assert_eq!(told, [(100, 3_996, false), (4_096, 4_096, true), (8_192, 2_148, false)]);
}

/// To make a terabyte zeroes is no list of a million pieces, and copies of a thousand blocks are
/// few at a time.
#[test]
fn a_long_request_is_a_few_pieces_at_a_time() {
    let disks: Vec<_> = (0..3).map(|device| (uid(device), 1 << 20)).collect();
    let mut flow = Flow::new(Pool::create(POOL, Geometry::suited(1 << 20), &disks).unwrap());
    let settle = |flow: &mut Flow| {
        let (mut pieces, mut most, mut loads, mut sectors) = (Vec::new(), 0, 0, 0);
        loop {
            while let Some(output) = flow.poll() {
                match output {
                    Output::Issue(piece) => pieces.push(piece),
                    Output::Answer(_, end) => assert_eq!(end, Ok(())),
                    Output::Ended(_, end) => assert_eq!(end, ChangeOutcome::Done),
                }
            }
            let is_copy = |work: &Work| matches!(work, Work::Load { .. } | Work::Store { .. });
            most = most.max(pieces.len());
            loads = loads.max(pieces.iter().filter(|piece| is_copy(&piece.work)).count());
            let Some(piece) = pieces.pop() else { return (most, loads, sectors) };
            if let Work::Request { extent, .. } = &piece.work {
                sectors += extent.len.0;
            }
            flow.done(piece.id, Ok(()));
        }
    };
    settle(&mut flow);
    let size = Blocks(1 << 20);
    let volume = NewVolume { size, layout: Layout::Stripe, ..plan("long", 1, false, &[0, 1, 2]) };
    flow.change(Operation::Create(volume));
    settle(&mut flow);
    let (id, _) = flow.pool().state().named("long").unwrap();
    let extent = Extent::new(Lba(0), Blocks(5_000).sectors());
    let zeroes = units::Operation { op: Op::WriteZeroes, extent, fua: false };
    flow.submit(PoolRequestId(1), id, zeroes, false);
    let (most, _, sectors) = settle(&mut flow);
    assert_eq!((most, sectors), (SEGMENT_BLOCKS_MAX.0 as usize, extent.len.0));
    flow.change(Operation::Snapshot { volume: id, name: "kept".to_owned() });
    settle(&mut flow);
    flow.submit(PoolRequestId(2), id, zeroes, true);
    let (_, loads, sectors) = settle(&mut flow);
    assert_eq!((loads, sectors), (COPIES_MAX, extent.len.0));
    let volume = flow.pool().state().volume(id).unwrap();
    assert!(volume.locate(VolumeBlock(4_999)).is_some());
}
