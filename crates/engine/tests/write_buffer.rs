//! The write buffer against a model of a disk that loses power: what is on the medium after each
//! step, what reads see, and how much memory is used.

mod common;

use std::collections::BTreeMap;

use common::abstract_disk::SeededRng;
use spindle_engine::limits::{DEFER_AFTER, DESTAGE_IDLE, WRITE_BUFFER};
use spindle_engine::{
    Buffering, Destage, Handling, Outcome, PieceId, Request, RequestId, VolumeId, WriteBuffer,
    WriteBufferAction, WriteBufferSettings,
};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

/// The number of a write in the order of all writes; zero: never written.
type Version = u64;

const VOLUMES: u32 = 3;
const VOLUME: u64 = 400;
const DISK: usize = 1_200;

/// What is in the engine.
#[derive(Debug)]
enum InEngine {
    Client(u64),
    Destage(Destage, Vec<Version>),
}

/// A client's request that is not answered.
#[derive(Debug)]
struct Open {
    request: Request,
    /// Of a write: its number.
    version: Version,
    /// For a read: the last answered write of each sector. For a flush: of each of its volume, what
    /// must be on the medium when it is answered.
    known: Vec<Version>,
    /// What a read copied from the buffer.
    copied: BTreeMap<u64, Version>,
}

/// A disk that executes what it has in any order, and clients that check it.
struct World {
    rng: SeededRng,
    buffer: WriteBuffer,
    settings: WriteBufferSettings,
    now: Instant,
    medium: Vec<Version>,
    /// What the drive has buffered, by sector.
    drive: BTreeMap<usize, Version>,
    /// The volume that alone uses the disk for a while.
    sole: Option<u32>,
    deferred: u64,
    /// The least that must be on the medium.
    floor: Vec<Version>,
    answered: Vec<Version>,
    versions: Version,
    engine: Vec<InEngine>,
    pieces: BTreeMap<PieceId, Vec<Version>>,
    open: BTreeMap<u64, Open>,
    next: u64,
    fails: bool,
}

fn sectors(extent: Extent) -> core::ops::Range<usize> {
    let index = |lba: Lba| usize::try_from(lba.0).expect("small");
    index(extent.start)..index(extent.end())
}

fn of_volume(volume: VolumeId) -> Extent {
    Extent::new(Lba(u64::from(volume.0) * VOLUME), Sectors(VOLUME))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = SeededRng(seed);
        let settings = WriteBufferSettings {
            memory: Sectors(rng.between(60, 400)),
            age: Duration::from_millis(200),
            depth: u32::try_from(rng.between(1, 4)).expect("small"),
            is_shared: false,
        };
        let mut buffer = WriteBuffer::new(settings);
        for volume in 0..VOLUMES {
            buffer.add_volume(VolumeId(volume), Sectors(rng.between(0, 160)));
        }
        Self {
            rng,
            buffer,
            settings,
            now: Instant::ZERO,
            medium: vec![0; DISK],
            drive: BTreeMap::new(),
            sole: None,
            deferred: 0,
            floor: vec![0; DISK],
            answered: vec![0; DISK],
            versions: 0,
            engine: Vec::new(),
            pieces: BTreeMap::new(),
            open: BTreeMap::new(),
            next: 0,
            fails: false,
        }
    }

    fn send(&mut self, volume: u32, operation: Operation) {
        let id = RequestId(self.next);
        self.next += 1;
        let request = Request { id, volume: VolumeId(volume), operation };
        let Operation { op, extent, .. } = operation;
        let known = match op {
            Op::Read => self.answered[sectors(extent)].to_vec(),
            Op::Flush => self.answered[sectors(of_volume(request.volume))].to_vec(),
            _ => Vec::new(),
        };
        self.versions += u64::from(op.writes());
        let version = self.versions;
        self.open.insert(id.0, Open { request, version, known, copied: BTreeMap::new() });
        match self.buffer.submit(&request, self.now) {
            Handling::Buffered(piece) => {
                self.keep(piece, id.0);
                self.answer(id.0, Outcome::Done);
            }
            Handling::Forced(piece) => self.keep(piece, id.0),
            Handling::Waits => {}
            Handling::Memory => {
                self.copy(id.0);
                self.check_read(id.0, &[]);
            }
            Handling::Overlaid => {
                self.copy(id.0);
                self.engine.push(InEngine::Client(id.0));
            }
            Handling::Disk => self.pass(id.0),
            Handling::Flushed(outcome) => self.answer(id.0, outcome),
        }
        self.poll();
    }

    /// A request goes to the disk.
    fn pass(&mut self, id: u64) {
        assert!(self.open.contains_key(&id), "it is open");
        self.engine.push(InEngine::Client(id));
    }

    fn keep(&mut self, piece: PieceId, id: u64) {
        let Open { request, version, .. } = &self.open[&id];
        let bytes = vec![*version; sectors(request.operation.extent).len()];
        assert!(self.pieces.insert(piece, bytes).is_none(), "a piece is kept once");
    }

    /// What the buffer holds of an extent, by sector.
    fn held(&self, volume: VolumeId, extent: Extent) -> BTreeMap<u64, Version> {
        let mut held = BTreeMap::new();
        for part in self.buffer.parts(volume, extent) {
            let from = usize::try_from(part.offset.0).expect("small");
            let bytes = &self.pieces[&part.piece][from..];
            let bytes = &bytes[..usize::try_from(part.extent.len.0).expect("small")];
            held.extend((part.extent.start.0..).zip(bytes.iter().copied()));
        }
        held
    }

    fn copy(&mut self, id: u64) {
        let Request { volume, operation, .. } = self.open[&id].request;
        let held = self.held(volume, operation.extent);
        self.open.get_mut(&id).expect("it is open").copied = held;
    }

    fn check_read(&mut self, id: u64, disk: &[Version]) {
        let Open { request, known, copied, .. } = self.open.remove(&id).expect("answered once");
        let extent = request.operation.extent;
        for (index, lba) in (extent.start.0..extent.end().0).enumerate() {
            let of_disk = disk.get(index).copied();
            let seen = copied.get(&lba).copied().or(of_disk).expect("all of the read is there");
            assert!(seen >= known[index], "{lba} read {seen}, {} was answered", known[index]);
        }
    }

    /// Answers a write, a trim, or a flush.
    fn answer(&mut self, id: u64, outcome: Outcome) {
        let Open { request, version, known, .. } = self.open.remove(&id).expect("answered once");
        let Operation { op, extent, fua } = request.operation;
        assert!(outcome == Outcome::Done || self.fails, "the disk does not fail");
        if op == Op::Flush {
            let volume = sectors(of_volume(request.volume));
            for (floor, known) in self.floor[volume].iter_mut().zip(known) {
                *floor = (*floor).max(known);
            }
        } else {
            for sector in sectors(extent) {
                self.answered[sector] = self.answered[sector].max(version);
                if fua && op == Op::Write {
                    self.floor[sector] = self.floor[sector].max(version);
                }
            }
        }
    }

    /// Nothing is asked of the disk for a while.
    fn rest(&mut self) {
        self.poll();
        self.now += DESTAGE_IDLE;
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.buffer.poll(self.engine.len(), self.now) {
            match action {
                WriteBufferAction::Accept { request, piece, forced } => {
                    self.keep(piece, request.0);
                    if !forced {
                        self.answer(request.0, Outcome::Done);
                    }
                }
                WriteBufferAction::Destage(destage) => {
                    let Operation { op, extent, fua } = destage.operation;
                    self.deferred += u64::from(op == Op::Write && !fua);
                    let held = self.held(destage.volume, extent);
                    let bytes: Vec<Version> = held.into_values().collect();
                    assert_eq!(bytes.len(), sectors(extent).len(), "all of it is held");
                    self.engine.push(InEngine::Destage(destage, bytes));
                }
                WriteBufferAction::Submit(request) => self.pass(request.0),
                WriteBufferAction::Again(request) => panic!("{request:?} shares no sectors"),
                WriteBufferAction::Answer { request, outcome } => self.answer(request.0, outcome),
                WriteBufferAction::Drop(piece) => {
                    assert!(self.pieces.remove(&piece).is_some(), "a piece is released once");
                }
            }
            self.check();
        }
        let held: usize = self.pieces.values().map(Vec::len).sum();
        assert_eq!(held as u64, self.buffer.used().0, "the memory is what the pieces hold");
    }

    /// What is true whenever the power fails.
    fn check(&self) {
        self.buffer.invariants();
        for (lba, (medium, floor)) in self.medium.iter().zip(&self.floor).enumerate() {
            assert!(medium >= floor, "{lba} has {medium}, {floor} was flushed");
        }
        assert!(self.buffer.used() <= self.settings.memory, "the memory is bounded");
    }

    /// The disk executes one of its requests.
    fn complete_one(&mut self) {
        if self.engine.is_empty() {
            return;
        }
        let which = self.rng.between(0, self.engine.len() as u64 - 1);
        match self.engine.swap_remove(usize::try_from(which).expect("small")) {
            InEngine::Destage(destage, bytes) => {
                let fails = self.fails && self.rng.between(0, 3) == 0;
                if !fails {
                    self.execute(destage.operation, &bytes);
                }
                let outcome = if fails { Outcome::Failed } else { Outcome::Done };
                self.buffer.destaged(&destage, outcome);
            }
            InEngine::Client(id) => {
                let Open { request, version, .. } = self.open[&id];
                let extent = request.operation.extent;
                if request.operation.op == Op::Read {
                    let of = |sector| self.drive.get(&sector).unwrap_or(&self.medium[sector]);
                    let seen: Vec<Version> = sectors(extent).map(|at| *of(at)).collect();
                    self.check_read(id, &seen);
                } else {
                    let forced = request.operation.with_fua();
                    self.execute(forced, &vec![version; sectors(extent).len()]);
                    self.answer(id, Outcome::Done);
                }
                self.buffer.ended(request.volume, request.id);
            }
        }
        self.check();
        self.poll();
    }

    /// The drive executes a write or a flush, and writes some of what it has buffered.
    fn execute(&mut self, operation: Operation, bytes: &[Version]) {
        for (sector, version) in sectors(operation.extent).zip(bytes) {
            if operation.fua {
                self.drive.remove(&sector);
                self.medium[sector] = *version;
            } else {
                self.drive.insert(sector, *version);
            }
        }
        let some = self.rng.between(0, 9);
        let is_flush = operation.op == Op::Flush;
        for (sector, version) in
            self.drive.extract_if(.., |sector, _| is_flush || *sector as u64 % 10 < some)
        {
            self.medium[sector] = version;
        }
    }

    /// One volume uses the disk, and has for longer than a moment; or all do again.
    fn change_sole(&mut self, volume: u32) {
        self.sole = if self.sole.is_none() { Some(volume) } else { None };
        if self.sole.is_some() {
            self.set_buffering(volume, Buffering::HostAndDrive);
            self.send(volume, Operation::flush());
            self.now += DEFER_AFTER;
        }
    }

    fn set_buffering(&mut self, volume: u32, buffering: Buffering) {
        self.buffer.set_buffering(VolumeId(volume), buffering);
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.rng.between(0, 4_000));
        let any = u32::try_from(self.rng.between(0, u64::from(VOLUMES) - 1)).expect("small");
        let volume = self.sole.unwrap_or(any);
        let start = u64::from(volume) * VOLUME;
        // Most requests are to a few sectors, so that they overlap.
        let range = [40, 40, VOLUME - 100][usize::try_from(self.rng.between(0, 2)).expect("small")];
        let longest = [8, 8, 30, 100][usize::try_from(self.rng.between(0, 3)).expect("small")];
        let at = Lba(start + self.rng.between(0, range));
        let extent = Extent::new(at, Sectors(self.rng.between(1, longest)));
        match self.rng.between(0, 21) {
            0..=3 => self.complete_one(),
            4..=5 => self.rest(),
            20 => {
                let all = [Buffering::Off, Buffering::Host, Buffering::HostAndDrive];
                let which = usize::try_from(self.rng.between(0, 2)).expect("small");
                self.set_buffering(volume, all[which]);
            }
            21 => self.change_sole(volume),
            6 => self.send(volume, Operation::flush()),
            7..=10 => self.send(volume, Operation::read(extent)),
            11 => {
                let op = [Op::Trim, Op::WriteZeroes];
                let op = op[usize::try_from(self.rng.between(0, 1)).expect("small")];
                self.send(volume, Operation { op, extent, fua: false });
            }
            12 => self.send(volume, Operation::write(extent).with_fua()),
            _ => self.send(volume, Operation::write(extent)),
        }
    }

    /// Flushes all volumes, and executes all that is left.
    fn finish(&mut self) {
        for volume in 0..VOLUMES {
            self.send(volume, Operation::flush());
        }
        while !self.engine.is_empty() {
            self.complete_one();
        }
        while !(0..VOLUMES).all(|volume| self.buffer.is_empty(VolumeId(volume))) {
            self.now += self.settings.age;
            self.poll();
            self.complete_one();
        }
    }
}

/// A sample; `SPINDLE_CASES` asks for more.
fn cases(usual: u64) -> u64 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(usual, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

#[test]
fn whenever_the_power_fails_what_was_flushed_or_forced_is_on_the_medium() {
    let mut deferred = 0;
    for seed in 0..cases(300) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        (0..400).for_each(|_| world.step());
        world.finish();
        assert!(world.open.is_empty(), "each request is answered: {:?}", world.open);
        assert_eq!(world.medium, world.answered, "all that was written is on the medium");
        assert!(world.pieces.is_empty() && world.buffer.used() == Sectors::ZERO, "nothing is left");
        (0..VOLUMES).for_each(|volume| world.buffer.remove_volume(VolumeId(volume)));
        deferred += world.deferred;
    }
    assert!(deferred * 10 > cases(300), "only {deferred} writes were left to the drive's buffer");
}

/// The buffers of two volumes, each with one write in the engine at a time, and the number of the
/// last request.
struct Client(WriteBuffer, u64);

impl Client {
    fn new() -> Self {
        let settings = WriteBufferSettings { depth: 1, ..WriteBufferSettings::default() };
        let mut buffer = WriteBuffer::new(settings);
        (0..2).for_each(|volume| buffer.add_volume(VolumeId(volume), WRITE_BUFFER));
        Self(buffer, 0)
    }

    fn send(&mut self, volume: u32, operation: Operation) -> Handling {
        self.1 += 1;
        let request = Request { id: RequestId(self.1), volume: VolumeId(volume), operation };
        self.0.submit(&request, Instant::ZERO)
    }

    fn write(&mut self, volume: u32) {
        let extent = Extent::new(Lba(u64::from(volume) * VOLUME), Sectors(8));
        let handling = self.send(volume, Operation::write(extent));
        assert!(matches!(handling, Handling::Buffered(_)), "{handling:?}");
    }

    fn destage(&mut self) -> Destage {
        loop {
            match self.0.poll(1, Instant::ZERO) {
                Some(WriteBufferAction::Destage(destage)) => return destage,
                Some(WriteBufferAction::Drop(_)) => {}
                action => panic!("a write to the disk, not {action:?}"),
            }
        }
    }

    fn answered(&mut self) -> Outcome {
        loop {
            match self.0.poll(1, Instant::ZERO) {
                Some(WriteBufferAction::Answer { outcome, .. }) => return outcome,
                Some(WriteBufferAction::Drop(_)) => {}
                action => panic!("an answer, not {action:?}"),
            }
        }
    }
}

#[test]
fn a_flush_waits_for_its_own_volume_alone() {
    let mut client = Client::new();
    client.write(0);
    assert_eq!(client.send(1, Operation::flush()), Handling::Flushed(Outcome::Done));
    assert_eq!(client.0.poll(1, Instant::ZERO), None, "nothing is due");
    assert_eq!(client.send(0, Operation::flush()), Handling::Waits);
    let destage = client.destage();
    client.0.destaged(&destage, Outcome::Done);
    assert_eq!(client.answered(), Outcome::Done);
}

#[test]
fn what_the_disk_could_not_write_fails_one_flush() {
    for sent_before in [true, false] {
        let mut client = Client::new();
        client.write(0);
        let flush = Operation::flush();
        let first = sent_before.then(|| client.send(0, flush));
        let destage = if sent_before {
            client.destage()
        } else {
            assert_eq!(client.0.poll(0, Instant::ZERO), None, "the disk may be needed soon");
            let action = client.0.poll(0, Instant::ZERO + DESTAGE_IDLE);
            let Some(WriteBufferAction::Destage(destage)) = action else { panic!("{action:?}") };
            destage
        };
        client.0.destaged(&destage, Outcome::Failed);
        if first.is_some() {
            assert_eq!(client.answered(), Outcome::Failed);
        } else {
            assert_eq!(client.send(0, flush), Handling::Flushed(Outcome::Failed));
        }
        assert_eq!(client.send(0, flush), Handling::Flushed(Outcome::Done), "it was told once");
        assert_eq!(client.0.usage(VolumeId(0)).lost, Sectors(8));
    }
}

#[test]
fn what_the_disk_could_not_write_of_one_copy_of_several_fails_no_later_flush() {
    let mut client = Client::new();
    client.0.report_losses(VolumeId(0));
    assert!(client.0.reports_losses(VolumeId(0)) && !client.0.reports_losses(VolumeId(1)));
    let flush = Operation::flush();
    for volume in [0, 1] {
        client.write(volume);
        assert_eq!(client.send(volume, flush), Handling::Waits);
        let destage = client.destage();
        client.0.destaged(&destage, Outcome::Failed);
        assert_eq!(client.answered(), Outcome::Failed, "one that waits for it fails");
        let forced = Operation::write(Extent::new(Lba(u64::from(volume) * VOLUME), Sectors(8)));
        assert!(matches!(client.send(volume, forced.with_fua()), Handling::Forced(_)));
        let destage = client.destage();
        client.0.destaged(&destage, Outcome::Failed);
        assert_eq!(client.answered(), Outcome::Failed, "and so does a forced write");
    }
    assert_eq!(client.send(0, flush), Handling::Flushed(Outcome::Done), "the driver was told");
    assert_eq!(client.send(1, flush), Handling::Flushed(Outcome::Failed), "no other was");
}

/// What a flush of the drive makes durable need not be forced, while nothing else uses the disk.
#[test]
fn a_write_past_the_buffer_is_forced_unless_its_volume_flushes_the_drive_and_no_other_uses_it() {
    let [client, internal, limited] = [0, 1, 2].map(VolumeId);
    let mut buffer = WriteBuffer::new(WriteBufferSettings::default());
    for volume in [client, internal, limited] {
        buffer.add_volume(volume, Sectors::ZERO);
        buffer.set_buffering(volume, Buffering::HostAndDrive);
    }
    buffer.set_buffering(limited, Buffering::Host);
    buffer.pass_flushes(internal);
    buffer.pass_flushes(limited);
    let extent = Extent::new(Lba(0), Sectors(8));
    let request = |volume, operation| Request { id: RequestId(0), volume, operation };
    let write = |volume| request(volume, Operation::write(extent));
    let start = Instant::ZERO;
    assert!(buffer.forces(&write(client), start), "its flush is answered without the drive");
    assert!(!buffer.forces(&write(internal), start), "a flush of the drive follows");
    assert!(buffer.forces(&write(limited), start), "the drive would write it without a charge");
    assert!(!buffer.forces(&request(internal, Operation::flush()), start), "only writes are");
    buffer.submit(&request(client, Operation::read(extent)), start);
    assert!(buffer.forces(&write(internal), start), "another volume uses the disk");
    let later = start + DEFER_AFTER;
    assert!(!buffer.forces(&write(internal), later), "it did");
    buffer.submit(&request(internal, Operation::read(extent)), later);
    assert!(!buffer.forces(&write(internal), later), "it may use it itself");
    buffer.set_buffering(client, Buffering::Off);
    assert!(buffer.forces(&write(internal), later), "another volume has deadlines");
}

#[test]
fn a_full_buffer_makes_its_own_client_wait_and_no_other() {
    let mut client = Client::new();
    let bound = client.0.usage(VolumeId(0)).bound;
    let whole = Extent::new(Lba(0), bound);
    assert!(matches!(client.send(0, Operation::write(whole)), Handling::Buffered(_)));
    let more = Extent::new(Lba(bound.0), Sectors(8));
    assert_eq!(client.send(0, Operation::write(more)), Handling::Waits);
    client.write(1);
}

#[test]
fn changes_that_share_sectors_reach_the_disk_in_the_order_in_which_they_were_sent() {
    let mut client = Client::new();
    let bound = client.0.usage(VolumeId(0)).bound;
    let part = |at| Extent::new(Lba(at), Sectors(8));
    client.send(0, Operation::write(Extent::new(Lba(0), bound)));
    // It waits for memory; zeroes wait for it, another write for those, and no other sectors do.
    assert_eq!(client.send(0, Operation::write(part(bound.0))), Handling::Waits);
    let zeroes = Operation { op: Op::WriteZeroes, extent: part(bound.0 + 4), fua: false };
    assert_eq!(client.send(0, zeroes), Handling::Waits);
    assert_eq!(client.send(0, Operation::write(part(bound.0 + 8))), Handling::Waits);
    let apart = Operation { extent: part(bound.0 + 100), ..zeroes };
    assert_eq!(client.send(0, apart), Handling::Disk);
    let (mut accepted, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        match client.0.poll(1, Instant::ZERO) {
            Some(WriteBufferAction::Destage(destage)) => {
                client.0.destaged(&destage, Outcome::Done);
            }
            Some(WriteBufferAction::Accept { request, .. }) => {
                accepted.push(request.0);
                assert_eq!(sent.len() + 1, accepted.len(), "the zeroes go in between");
            }
            Some(WriteBufferAction::Submit(request)) => {
                sent.push(request.0);
                assert_eq!(client.0.poll(1, Instant::ZERO), None, "the write waits for its end");
                client.0.ended(VolumeId(0), request);
            }
            _ => {}
        }
    }
    assert_eq!((accepted, sent), (vec![2, 4], vec![3]));
}

#[test]
fn data_of_an_age_goes_to_the_disk_and_neighbours_in_one_write() {
    let mut client = Client::new();
    let age = WriteBufferSettings::default().age;
    for at in [8, 0, 16, 100] {
        client.send(0, Operation::write(Extent::new(Lba(at), Sectors(8))));
    }
    assert_eq!(client.0.poll(1, Instant::ZERO), None, "nothing is due");
    assert_eq!(client.0.next_wakeup(), Some(Instant::ZERO + age));
    let action = client.0.poll(1, Instant::ZERO + age);
    let Some(WriteBufferAction::Destage(destage)) = action else { panic!("{action:?}") };
    assert_eq!(destage.operation.extent, Extent::new(Lba(0), Sectors(24)));
}

#[test]
fn a_request_waits_for_what_another_volume_has_buffered_of_its_sectors() {
    let settings = WriteBufferSettings { is_shared: true, ..WriteBufferSettings::default() };
    let mut client = Client(WriteBuffer::new(settings), 0);
    (0..2).for_each(|volume| client.0.add_volume(VolumeId(volume), WRITE_BUFFER));
    client.write(0);
    let extent = Extent::new(Lba(4), Sectors(1));
    for operation in [Operation::read(extent), Operation::write(extent)] {
        assert_eq!(client.send(1, operation), Handling::Waits);
    }
    let destage = client.destage();
    client.0.destaged(&destage, Outcome::Done);
    let mut again = 0;
    while let Some(action) = client.0.poll(1, Instant::ZERO) {
        again += u32::from(matches!(action, WriteBufferAction::Again(_)));
    }
    assert_eq!(again, 2, "each is handled again");
    assert_eq!(client.send(1, Operation::read(extent)), Handling::Disk);
}
