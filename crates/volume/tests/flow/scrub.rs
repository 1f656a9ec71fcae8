//! Scrubs: what is read, what is found, what is mended, and what is told.

use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::flow::{
    ChangeOutcome, Digest, Fault, Flow, Output, Piece, RecordSums, SCRUB_RECORD_BLOCKS,
    ScrubFinding, ScrubVerdict, Verified, Work,
};
use spindle_volume::pool::format::Geometry;
use spindle_volume::pool::{
    BlockExtent, Blocks, Copies, Layout, NewVolume, Operation, Pool, PoolVolumeId, Refusal,
    ScrubPhase, UnixTime, VolumeBlock, Zone,
};
use units::{Extent, Lba, Op, Sectors};

use crate::common::cases;
use crate::common::world::{BLOCKS, POOL, uid};
use crate::world::{Contents, PROBE, World, device};

/// The digest of a block's contents, by their distance from its beginning.
pub(crate) fn digest(contents: &Contents) -> Digest {
    let mut sum = 0_u64;
    for (at, bytes) in contents.iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)) {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        for word in core::iter::once(*at).chain(words) {
            sum = SplitMix64::new(sum ^ word).draw();
        }
    }
    Digest(sum)
}

impl World {
    /// A piece has ended.
    pub(crate) fn report(&mut self, piece: &Piece, end: Result<(), Fault>) {
        if !matches!(piece.work, Work::Verify { .. }) {
            return self.flow.done(piece.id, end);
        }
        if let Work::Verify { records, .. } = piece.work
            && records != RecordSums::Never
        {
            self.recordings.push((piece.disk, records));
        }
        let digest = self.digests.remove(&piece.id);
        self.verified += u64::from(end.is_ok());
        let verified = |()| {
            let digest = digest.expect("it was read");
            Verified { digest, lacks_sums: self.lacks_sums }
        };
        self.flow.verified(piece.id, end.map(verified));
    }

    /// An operator starts, stops or pauses a scrub.
    pub(crate) fn scrub(&mut self) {
        let is_paused = self.below(4) == 0;
        self.flow.pause_scrub(is_paused);
        let change = match self.flow.scrub().record.phase {
            ScrubPhase::Running if self.below(4) > 0 => None,
            ScrubPhase::Running => Some(self.flow.stop_scrub()),
            _ => Some(self.flow.start_scrub(UnixTime(self.time))),
        };
        // Its record is of no volume.
        let operation = Operation::SetAlarm { percent: 1 };
        self.changes.extend(change.map(|id| (id, operation)));
        self.listen();
    }

    /// Starts a scrub, unless one is running, and waits for its end.
    fn finish_scrub(&mut self) {
        self.flow.pause_scrub(false);
        self.drain();
        if self.flow.scrub().record.phase == ScrubPhase::Stopped {
            self.start_scrub();
        }
        assert!(self.flow.scrub().record.phase != ScrubPhase::Running, "it ends");
    }

    fn start_scrub(&mut self) {
        let id = self.flow.start_scrub(UnixTime(7));
        self.changes.insert(id, Operation::SetAlarm { percent: 1 });
        self.drain();
    }

    /// A scrub of a quiet pool whose disks are well reads every block once, and finds nothing.
    pub(crate) fn scrub_all(&mut self) {
        self.finish_scrub();
        self.start_scrub();
        let progress = self.flow.scrub();
        let record = progress.record;
        assert_eq!(record.phase, ScrubPhase::Done, "{record:?}");
        assert_eq!(record.read, progress.allotted, "each copy of each block was read once");
        let found = record.mended + record.unmended + record.lost + record.differing;
        assert_eq!(found, 0, "{record:?}");
    }

    fn findings(&self) -> Vec<ScrubFinding> {
        self.flow.scrub_findings(0).0
    }
}

/// A volume of this layout over all disks, each probe of which was written.
fn written(members: usize, layout: Layout, blocks: u32) -> (World, PoolVolumeId) {
    let mut world = World::new(1, members);
    let disks = world.flow.pool().state().disks().map(|(id, _)| id).collect();
    let (name, size, zone) = ("volume".to_owned(), Blocks(blocks), Zone::Any);
    let volume = NewVolume { name, size, layout, zone, thin: true, has_sums: true, seed: 1, disks };
    world.change(Operation::Create(volume));
    world.drain();
    let (id, _) = world.flow.pool().state().named("volume").unwrap();
    write(&mut world, id, Extent::new(Lba(0), Blocks(blocks).sectors()));
    world.drain();
    assert!(world.answers.iter().all(|(_, end)| end.is_ok()), "it fits the disks");
    (world, id)
}

fn mirror(copies: u8) -> Layout {
    Layout::Mirror(Copies::new(copies).unwrap())
}

fn write(world: &mut World, id: PoolVolumeId, extent: Extent) {
    world.submit(id, units::Operation::write(extent), false);
}

/// The copies of a block.
fn copies(world: &World, id: PoolVolumeId, block: u32) -> Vec<BlockExtent> {
    world.flow.pool().state().volume(id).unwrap().copies(VolumeBlock(block)).collect()
}

/// A copy silently holds something else.
fn corrupt(world: &mut World, place: BlockExtent, probe: u64) {
    let device = device(world.flow.pool().state(), place.disk).unwrap();
    let at = Lba(place.extent().start.0 + probe * PROBE);
    world.disks[device].erase(Extent::new(at, Sectors(1)));
}

/// A copy cannot be read until it is written.
fn spoil(world: &mut World, place: BlockExtent) {
    let device = device(world.flow.pool().state(), place.disk).unwrap();
    world.bad.insert((device, place.block.into()));
}

fn finding(id: PoolVolumeId, block: u32, disk: DiskId, verdict: ScrubVerdict) -> ScrubFinding {
    ScrubFinding { volume: id, block: VolumeBlock(block), disk, verdict }
}

#[test]
fn a_scrub_of_a_pool_that_is_well_reads_each_copy_once_and_finds_nothing() {
    for (members, layout) in [
        (1, Layout::Single),
        (3, Layout::Stripe),
        (2, Layout::Random),
        (2, mirror(2)),
        (3, mirror(2)),
        (4, mirror(3)),
    ] {
        let (mut world, id) = written(members, layout, 11);
        world.change(Operation::Snapshot { volume: id, name: "before".to_owned() });
        world.drain();
        write(&mut world, id, Extent::new(Lba(4_096), Sectors(3)));
        world.drain();
        world.scrub_all();
        // The snapshot shares all blocks but one, with all of its copies.
        assert_eq!(world.flow.scrub().record.read, 12 * layout.copies() as u64);
        assert_eq!(world.flow.scrub().record.began, UnixTime(7));
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_written_from_another_and_read_back() {
    for number in [2, 3] {
        let (mut world, id) = written(number, mirror(u8::try_from(number).unwrap()), 20);
        let place = copies(&world, id, 13)[1];
        spoil(&mut world, place);
        world.start_scrub();
        let record = world.flow.scrub().record;
        assert_eq!((record.phase, record.mended), (ScrubPhase::Done, 1), "{record:?}");
        let mended = finding(id, 13, place.disk, ScrubVerdict::Mended);
        assert_eq!(world.findings(), [mended]);
        assert!(world.bad.is_empty(), "it was written");
        world.scrub_all();
    }
}

#[test]
fn a_block_that_no_copy_has_is_told_as_lost() {
    for (members, layout) in [(1, Layout::Single), (2, Layout::Stripe), (2, mirror(2))] {
        let (mut world, id) = written(members, layout, 20);
        let places = copies(&world, id, 5);
        for place in &places {
            spoil(&mut world, *place);
        }
        world.start_scrub();
        let record = world.flow.scrub().record;
        assert_eq!((record.phase, record.lost), (ScrubPhase::Done, 1), "{record:?}");
        assert_eq!(world.findings(), [finding(id, 5, places[0].disk, ScrubVerdict::Lost)]);
    }
}

/// Without checksums nothing says which copy is right: none is changed.
#[test]
fn copies_that_differ_are_told_and_left() {
    for copy in 0..3 {
        let (mut world, id) = written(3, mirror(3), 20);
        let place = copies(&world, id, 7)[copy];
        corrupt(&mut world, place, 2);
        let before = world.disks.clone();
        world.start_scrub();
        let record = world.flow.scrub().record;
        assert_eq!((record.phase, record.differing), (ScrubPhase::Done, 1), "{record:?}");
        let found = world.findings();
        // Where the first copy is wrong, it is the others that differ from it.
        let told = if copy == 0 { copies(&world, id, 7)[1].disk } else { place.disk };
        assert_eq!(found, [finding(id, 7, told, ScrubVerdict::Differs)]);
        for place in copies(&world, id, 7) {
            let device = device(world.flow.pool().state(), place.disk).unwrap();
            let read = |disks: &[crate::common::disk::Disk]| disks[device].read_now(place.extent());
            assert!(read(&world.disks) == read(&before), "no copy was written");
        }
    }
}

/// Each scrub is stopped, killed or paused somewhere, and goes on from about there.
#[test]
fn a_scrub_goes_on_after_a_stop_and_after_a_clean_end_of_the_daemon() {
    for steps in (1..120).step_by(7) {
        for is_stopped in [true, false] {
            let (mut world, _) = written(3, mirror(2), 36);
            let id = world.flow.start_scrub(UnixTime(7));
            world.changes.insert(id, Operation::SetAlarm { percent: 1 });
            world.listen();
            for _ in 0..steps {
                world.step();
            }
            if is_stopped {
                let id = world.flow.stop_scrub();
                world.changes.insert(id, Operation::SetAlarm { percent: 1 });
            } else {
                world.flow.pause_scrub(true);
            }
            world.drain();
            let before = world.flow.scrub().record;
            world.restart();
            let after = world.flow.scrub().record;
            assert_eq!(after.began, before.began);
            assert!(after.read <= before.read, "what is not stored is read again");
            assert!(is_stopped || after.read == before.read, "a clean end stores it");
            if is_stopped && after.phase == ScrubPhase::Stopped {
                world.drain();
                assert_eq!(world.flow.scrub().record, after, "a stopped one stays stopped");
                world.start_scrub();
            }
            world.drain();
            let record = world.flow.scrub().record;
            let all = world.flow.scrub().allotted;
            assert_eq!((record.phase, record.read), (ScrubPhase::Done, all), "{record:?}");
        }
    }
}

/// A crash loses little of a long scrub.
#[test]
fn a_scrub_stores_its_position_every_so_many_blocks() {
    let blocks = u32::try_from(3 * SCRUB_RECORD_BLOCKS).unwrap();
    let pool = Pool::create(POOL, Geometry::new(8, 16).unwrap(), &[(uid(0), blocks + 9)]).unwrap();
    let mut flow = Flow::new(pool);
    let run = |flow: &mut Flow| {
        let mut least = u64::MAX;
        while let Some(output) = flow.poll() {
            let Output::Issue(piece) = output else { continue };
            match piece.work {
                Work::Verify { .. } => flow.verified(piece.id, Ok(Verified::default())),
                _ => flow.done(piece.id, Ok(())),
            }
            let (now, stored) = (flow.scrub().record.read, flow.pool().state().scrub.read);
            let is_running = flow.pool().state().scrub.phase == ScrubPhase::Running;
            assert!(!is_running || now <= stored + SCRUB_RECORD_BLOCKS + 8, "{now} of {stored}");
            least = least.min(stored.wrapping_sub(1));
        }
        least
    };
    run(&mut flow);
    let disks = vec![DiskId(0)];
    let (name, zone, size) = ("v".to_owned(), Zone::Any, Blocks(blocks));
    let volume = NewVolume {
        name,
        size,
        layout: Layout::Single,
        zone,
        thin: false,
        has_sums: true,
        seed: 1,
        disks,
    };
    flow.change(Operation::Create(volume));
    run(&mut flow);
    flow.start_scrub(UnixTime(7));
    assert!(run(&mut flow) + 1 >= SCRUB_RECORD_BLOCKS, "it was stored on the way");
    assert_eq!(flow.pool().state().scrub.read, u64::from(blocks));
}

/// A client that writes to one block all the time: copies of it are compared in the end.
#[test]
fn a_block_that_is_always_written_to_is_compared_and_its_writes_are_answered() {
    let (mut world, id) = written(2, mirror(2), 4);
    let place = copies(&world, id, 1)[1];
    corrupt(&mut world, place, 3);
    let change = world.flow.start_scrub(UnixTime(7));
    world.changes.insert(change, Operation::SetAlarm { percent: 1 });
    let mut writes = 0;
    while world.flow.scrub().record.phase != ScrubPhase::Done {
        if world.asked.is_empty() {
            // It writes beside what is wrong.
            write(&mut world, id, Extent::new(Lba(2_048), Sectors(512)));
            writes += 1;
        }
        world.step();
        assert!(writes < 2_000, "it ends");
    }
    world.drain();
    assert!(world.answers.iter().all(|(_, end)| end.is_ok()), "each write was answered");
    assert_eq!(world.flow.scrub().record.differing, 1, "{:?}", world.flow.scrub());
}

#[test]
fn a_scrub_is_refused_where_it_cannot_be_stored_or_is_running() {
    let ended = |world: &World| world.ends.last().map(|(_, end)| end.clone());
    let refused = |refusal| Some(ChangeOutcome::Refused(refusal));
    let (mut world, _) = written(2, mirror(2), 8);
    let start = |world: &mut World| {
        let id = world.flow.start_scrub(UnixTime(7));
        world.changes.insert(id, Operation::SetAlarm { percent: 1 });
        world.listen();
    };
    let id = world.flow.stop_scrub();
    world.changes.insert(id, Operation::SetAlarm { percent: 1 });
    world.listen();
    assert_eq!(ended(&world), refused(Refusal::NotScrubbing));
    start(&mut world);
    while world.flow.scrub().record.phase != ScrubPhase::Running {
        world.step();
    }
    start(&mut world);
    assert_eq!(ended(&world), refused(Refusal::Scrubbing));
    world.drain();
    // A pool of an older version has no place for it.
    let uids = [(uid(0), BLOCKS), (uid(1), BLOCKS)];
    let geometry = Geometry::new(8, 16).unwrap();
    for version in [1, 2] {
        let pool = Pool::create_in(POOL, geometry, &uids, version).unwrap();
        let mut world = World::new(1, 2);
        world.flow = Flow::new(pool);
        world.drain();
        start(&mut world);
        assert_eq!(ended(&world), refused(Refusal::OldFormat));
        world.change(Operation::Upgrade);
        world.drain();
        world.scrub_all();
        world.restart();
        assert_eq!(world.flow.scrub().record.phase, ScrubPhase::Done, "it is stored");
    }
}

/// Copies that are corrupted silently or cannot be read, of any number of blocks, while clients
/// write to others: each is found, and nothing else.
#[test]
fn everything_that_is_wrong_is_found_and_nothing_else() {
    let mut injected = 0;
    for seed in 0..cases(60) {
        let number = 2 + usize::try_from(seed % 2).unwrap();
        let (mut world, id) = written(3, mirror(u8::try_from(number).unwrap()), 24);
        world.rng = SplitMix64::new(seed);
        let (mut wrong, mut unreadable) = (0, 0);
        for block in (0..24).filter(|block| block % 2 == 0) {
            let places = copies(&world, id, block);
            let place = places[world.below(places.len())];
            match world.below(4) {
                0 => {
                    let probe = world.rng.draw() % (2_048 / PROBE);
                    corrupt(&mut world, place, probe);
                    wrong += 1;
                }
                1 => {
                    spoil(&mut world, place);
                    unreadable += 1;
                }
                _ => {}
            }
        }
        let change = world.flow.start_scrub(UnixTime(7));
        world.changes.insert(change, Operation::SetAlarm { percent: 1 });
        world.listen();
        while world.flow.scrub().record.phase != ScrubPhase::Done {
            if world.asked.len() < 4 {
                let block = u64::from(world.rng.below(12)) * 2 + 1;
                let op = [Op::Write, Op::WriteZeroes, Op::Read][world.below(3)];
                let extent = Extent::new(Lba(block * 2_048), Sectors(2_048));
                let operation = units::Operation { op, extent, fua: false };
                world.submit(id, operation, true);
            }
            world.step();
        }
        world.drain();
        let record = world.flow.scrub().record;
        assert_eq!((record.differing, record.mended), (wrong, unreadable), "seed {seed}");
        assert_eq!((record.lost, record.unmended), (0, 0), "seed {seed}");
        injected += wrong + unreadable;
    }
    println!("{injected} faults injected, and found");
    assert!(injected > 4 * cases(60), "faults were injected");
}

/// Only what was compared is recorded: the digest says which content that is.
#[test]
fn copies_without_known_checksums_are_read_once_more_to_record_them_if_they_are_equal() {
    for (members, layout) in [(1, Layout::Single), (2, mirror(2)), (3, mirror(3))] {
        let (mut world, id) = written(members, layout, 4);
        world.lacks_sums = true;
        let compared = layout.is_mirror();
        let (others, place) = (4 - u32::from(compared), copies(&world, id, 1)[0]);
        if compared {
            corrupt(&mut world, place, 3);
        }
        world.start_scrub();
        let record = world.flow.scrub().record;
        let all = 4 * layout.copies() as u64;
        assert_eq!((record.phase, record.read), (ScrubPhase::Done, all), "each counts once");
        assert_eq!(record.differing, u64::from(compared), "{record:?}");
        assert_eq!(world.recordings.len(), others as usize * layout.copies());
        for disk in (0..).take(layout.copies()).map(DiskId) {
            let on = world.recordings.iter().filter(|(one, _)| *one == disk);
            assert_eq!(on.count(), others as usize, "each block, but the one that differs");
        }
        let is_compared = |one: &(DiskId, RecordSums)| matches!(one.1, RecordSums::IfEqual(_));
        assert_eq!(world.recordings.iter().any(is_compared), compared);
        assert_eq!(world.recordings.iter().all(is_compared), compared);
    }
}

#[test]
fn nothing_is_recorded_of_a_volume_without_checksums_or_where_all_are_known() {
    let (mut world, _) = written(2, mirror(2), 4);
    world.scrub_all();
    assert!(world.recordings.is_empty(), "all are known");
    let disks = world.flow.pool().state().disks().map(|(id, _)| id).collect();
    let (name, size, zone) = ("plain".to_owned(), Blocks(4), Zone::Any);
    let layout = mirror(2);
    let plain =
        NewVolume { name, size, layout, zone, thin: false, has_sums: false, seed: 1, disks };
    world.change(Operation::Create(plain));
    world.drain();
    world.lacks_sums = true;
    world.scrub_all();
    assert_eq!(world.recordings.len(), 8, "those of the volume with checksums alone");
}
