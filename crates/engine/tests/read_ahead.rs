//! Read-ahead against a model of a disk: what the memory holds, how much, and for which volumes.

mod common;

use std::collections::{BTreeMap, VecDeque};

use common::abstract_disk::SeededRng;
use spindle_engine::limits::{READ_AHEAD_MEMORY_MIN, READ_AHEAD_REQUEST_MAX};
use spindle_engine::{
    Outcome, ReadAhead, ReadAheadAction, ReadAheadSettings, ReadAheadUsage, Request, RequestId,
    SegmentId, ServedBy, VolumeId,
};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

/// The number of a write; zero: never written.
type Version = u64;

const DISK: u64 = 40_000;
/// The disk of two volumes; they overlap.
const BOUNDS: [(u64, u64); 2] = [(0, 24_000), (16_000, 24_000)];

/// What is in the drive.
#[derive(Debug)]
enum InDrive {
    Client(Request),
    ReadAhead(SegmentId, Extent),
    /// A prefetch; its data is dropped without a segment.
    Prefetch(Option<SegmentId>, Extent),
}

/// The least memory, filled by requests of the read-ahead.
const BY_REQUESTS: ReadAheadSettings =
    ReadAheadSettings { memory: READ_AHEAD_MEMORY_MIN, requests: true, prefetches: false };

/// A client's read that is not answered: the last answered version of each sector when it was sent.
type Sent = (Request, Vec<Version>);

/// A drive that executes its requests in any order, and clients that check what they read.
struct World {
    rng: SeededRng,
    ahead: ReadAhead,
    now: Instant,
    disk: Vec<Version>,
    answered: Vec<Version>,
    versions: Version,
    drive: VecDeque<InDrive>,
    buffers: BTreeMap<SegmentId, Vec<Version>>,
    reads: BTreeMap<u64, Sent>,
    next: u64,
    hits: u64,
    /// What is offered to each volume, and whether a prefetch is in the drive.
    offers: [Option<Extent>; 2],
    is_prefetching: bool,
    /// Whether a write is executed and not answered.
    is_writing: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            rng: SeededRng(seed),
            ahead: ReadAhead::new(ReadAheadSettings {
                requests: seed % 3 != 1,
                prefetches: !seed.is_multiple_of(3),
                ..BY_REQUESTS
            }),
            now: Instant::ZERO,
            disk: vec![0; usize::try_from(DISK).expect("small")],
            answered: vec![0; usize::try_from(DISK).expect("small")],
            versions: 0,
            drive: VecDeque::new(),
            buffers: BTreeMap::new(),
            reads: BTreeMap::new(),
            next: 0,
            hits: 0,
            offers: [None; 2],
            is_prefetching: false,
            is_writing: false,
        }
    }

    fn sectors(extent: Extent) -> core::ops::Range<usize> {
        let index = |lba: Lba| usize::try_from(lba.0).expect("small");
        index(extent.start)..index(extent.end())
    }

    /// A client's request.
    fn send(&mut self, volume: u32, op: Op, extent: Extent) {
        let id = RequestId(self.next);
        self.next += 1;
        let operation = Operation { op, extent, fua: false };
        let request = Request { id, volume: VolumeId(volume), operation };
        let (start, len) = BOUNDS[volume as usize];
        let bounds = Extent::new(Lba(start), Sectors(len));
        if op == Op::Read {
            let known = self.answered[Self::sectors(extent)].to_vec();
            self.reads.insert(id.0, (request, known));
        }
        match self.ahead.submit(&request, Some(bounds), self.now) {
            ServedBy::Disk => self.drive.push_back(InDrive::Client(request)),
            ServedBy::Pending => {}
            ServedBy::Memory => {
                self.check_memory(&request);
                self.hits += 1;
            }
        }
        self.poll();
    }

    /// The client of a read checks what the memory holds.
    fn check_memory(&mut self, request: &Request) {
        let mut seen = Vec::new();
        for part in self.ahead.parts(request.operation.extent) {
            let buffer = &self.buffers[&part.segment];
            let from = usize::try_from(part.offset.0).expect("small");
            seen.extend(&buffer[from..][..usize::try_from(part.extent.len.0).expect("small")]);
        }
        self.check(request, &seen);
    }

    fn check(&mut self, request: &Request, seen: &[Version]) {
        let (_, known) = self.reads.remove(&request.id.0).expect("a read is answered once");
        assert_eq!(seen.len(), known.len(), "all of the read is there");
        for (seen, known) in seen.iter().zip(known) {
            assert!(*seen >= known, "{request:?} saw write {seen}, {known} was answered before");
        }
    }

    fn poll(&mut self) {
        while let Some(action) = self.ahead.poll(self.now) {
            match action {
                ReadAheadAction::Read { segment, extent, .. } => {
                    assert!(extent.len <= READ_AHEAD_REQUEST_MAX, "a request is bounded");
                    let buffer = vec![u64::MAX; Self::sectors(extent).len()];
                    assert!(self.buffers.insert(segment, buffer).is_none(), "a buffer of its own");
                    self.drive.push_back(InDrive::ReadAhead(segment, extent));
                }
                ReadAheadAction::Answer(id) => {
                    let request = self.reads[&id.0].0;
                    self.check_memory(&request);
                    self.ahead.answered(&request, self.now);
                }
                ReadAheadAction::Submit(id) => {
                    self.drive.push_back(InDrive::Client(self.reads[&id.0].0));
                }
                ReadAheadAction::Offer { volume, extent } => {
                    assert_ne!(self.offers[volume.0 as usize], extent, "offers that change");
                    self.offers[volume.0 as usize] = extent;
                }
                ReadAheadAction::Drop(segment) => {
                    assert!(self.buffers.remove(&segment).is_some(), "a buffer is released once");
                }
            }
            self.ahead.invariants();
        }
        let held: usize = self.buffers.values().map(Vec::len).sum();
        assert_eq!(held as u64, self.ahead.used().0, "the memory is what the buffers hold");
        assert!(self.ahead.used() <= READ_AHEAD_MEMORY_MIN, "the memory is bounded");
        assert_eq!(self.ahead.segments(), self.buffers.len());
    }

    /// The drive executes one of its requests, in one command or in several of which each may be
    /// the first. Other clients send in between.
    fn complete_one(&mut self) {
        if self.drive.is_empty() {
            return;
        }
        let which = self.rng.between(0, self.drive.len() as u64 - 1);
        let in_drive = self.drive.remove(usize::try_from(which).expect("small")).expect("one");
        match in_drive {
            InDrive::Client(request) => self.execute(&request),
            InDrive::ReadAhead(segment, extent) => {
                let fails = self.rng.between(0, 19) == 0;
                let split = Sectors(self.rng.between(1, extent.len.0));
                let (first, second) = extent.split_at(split);
                let mut commands = vec![first, second];
                commands.retain(|extent| !extent.is_empty());
                if self.rng.between(0, 1) == 0 {
                    commands.reverse();
                }
                for command in commands.into_iter().filter(|_| !fails) {
                    let at = usize::try_from(command.start.0 - extent.start.0).expect("small");
                    let read = &self.disk[Self::sectors(command)];
                    let buffer = self.buffers.get_mut(&segment).expect("it is in flight");
                    buffer[at..at + read.len()].copy_from_slice(read);
                    self.ahead.progress(segment, command);
                    self.poll();
                    if self.rng.between(0, 3) == 0 {
                        self.random_write();
                    }
                }
                let outcome = if fails { Outcome::Failed } else { Outcome::Done };
                self.ahead.finished(segment, outcome, self.now);
            }
            InDrive::Prefetch(segment, extent) => self.execute_prefetch(segment, extent),
        }
        self.poll();
    }

    /// The drive begins to prefetch a part of what is offered to a volume.
    fn prefetch(&mut self, volume: u32) {
        let Some(offer) = self.offers[volume as usize].filter(|_| !self.is_prefetching) else {
            return;
        };
        let (start, len) = BOUNDS[volume as usize];
        assert!(Extent::new(Lba(start), Sectors(len)).contains(offer), "of the volume: {offer}");
        let len = self.rng.between(1, offer.len.0.min(100));
        let (extent, rest) = offer.split_at(Sectors(len));
        self.offers[volume as usize] = Some(rest).filter(|rest| !rest.is_empty());
        let segment = self.ahead.prefetch_started(VolumeId(volume), extent);
        if let Some(segment) = segment {
            let buffer = vec![u64::MAX; Self::sectors(extent).len()];
            assert!(self.buffers.insert(segment, buffer).is_none(), "a buffer of its own");
        }
        self.is_prefetching = true;
        self.drive.push_back(InDrive::Prefetch(segment, extent));
        self.poll();
    }

    fn execute_prefetch(&mut self, segment: Option<SegmentId>, extent: Extent) {
        let read = self.disk[Self::sectors(extent)].to_vec();
        if self.rng.between(0, 3) == 0 {
            self.random_write();
        }
        self.is_prefetching = false;
        let fails = self.rng.between(0, 19) == 0;
        let outcome = if fails { Outcome::Failed } else { Outcome::Done };
        let ended = segment.map(|_| self.ahead.prefetch_ended(outcome, self.now));
        assert_eq!(ended.unwrap_or_default(), segment, "the prefetch in progress");
        if let Some(buffer) = segment.and_then(|segment| self.buffers.get_mut(&segment)) {
            *buffer = read;
        }
    }

    fn execute(&mut self, request: &Request) {
        let Operation { op, extent, .. } = request.operation;
        if op == Op::Read {
            let seen = self.disk[Self::sectors(extent)].to_vec();
            self.check(request, &seen);
        } else {
            self.versions += 1;
            let version = self.versions;
            self.disk[Self::sectors(extent)].fill(version);
            // Other requests are executed before it is answered.
            self.is_writing = true;
            if self.rng.between(0, 1) == 0 {
                self.complete_one();
            }
            self.is_writing = false;
            self.answered[Self::sectors(extent)].fill(version);
        }
        self.ahead.answered(request, self.now);
    }

    /// A write where no other is outstanding.
    fn random_write(&mut self) {
        let writes =
            |entry: &InDrive| matches!(entry, InDrive::Client(r) if r.operation.op.writes());
        if self.is_writing || self.drive.iter().any(writes) {
            return;
        }
        let volume = u32::from(self.rng.between(0, 1) == 1);
        let (start, len) = BOUNDS[volume as usize];
        let at = self.rng.between(start, start + len - 400);
        let op = [Op::Write, Op::Trim, Op::WriteZeroes]
            [usize::try_from(self.rng.between(0, 2)).expect("small")];
        let extent = Extent::new(Lba(at), Sectors(self.rng.between(1, 400)));
        self.send(volume, op, extent);
    }
}

/// A sample; `SPINDLE_CASES` asks for more.
fn cases(usual: u64) -> u64 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(usual, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

#[test]
fn a_read_from_memory_never_sees_less_than_the_last_answered_write() {
    let (mut hits, mut sum) = (0, ReadAheadUsage::default());
    for seed in 0..cases(150) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let mut positions = [0, 3_000, 16_000];
        for _ in 0..1_500 {
            world.now += Duration::from_micros(world.rng.between(0, 3_000));
            match world.rng.between(0, 17) {
                0 => world.random_write(),
                1..=6 => world.complete_one(),
                7 | 8 => {
                    let volume = u32::from(world.rng.between(0, 1) == 1);
                    world.prefetch(volume);
                }
                _ => {
                    let run = usize::try_from(world.rng.between(0, 2)).expect("small");
                    let volume = u32::from(run == 2);
                    let (start, len) = BOUNDS[volume as usize];
                    let read = [8, 24, 64][run];
                    if positions[run] + read > start + len || world.rng.between(0, 300) == 0 {
                        positions[run] = world.rng.between(start, start + len / 2);
                    }
                    let extent = Extent::new(Lba(positions[run]), Sectors(read));
                    positions[run] += read;
                    // A client with one request outstanding.
                    while world.reads.values().any(|(request, _)| request.volume.0 == volume) {
                        world.complete_one();
                    }
                    world.send(volume, Op::Read, extent);
                }
            }
        }
        while !world.drive.is_empty() {
            world.complete_one();
        }
        assert!(world.reads.is_empty(), "each read is answered: {:?}", world.reads);
        hits += world.hits;
        world.ahead.clear();
        world.poll();
        assert_eq!(world.ahead.used(), Sectors::ZERO, "nothing is left");
        let usage = world.ahead.total();
        assert!(usage.prefetched <= usage.sectors, "prefetched ones are read ahead: {usage:?}");
        assert!(usage.prefetched_used <= usage.prefetched, "at most all are used: {usage:?}");
        sum = sum + usage;
    }
    assert!(hits > 100 * cases(150), "the memory serves reads: {hits}");
    assert!(sum.prefetched_used.0 * 2 > sum.prefetched.0, "most of it is used: {sum:?}");
}

#[test]
fn random_reads_are_never_read_ahead() {
    let mut ahead = ReadAhead::new(BY_REQUESTS);
    let mut rng = SeededRng(7);
    let bounds = Extent::new(Lba(0), Sectors(1 << 24));
    let mut now = Instant::ZERO;
    for id in 0..200_000 {
        let extent = Extent::new(Lba(rng.between(0, (1 << 21) - 1) * 8), Sectors(8));
        let operation = Operation::read(extent);
        let request = Request { id: RequestId(id), volume: VolumeId(0), operation };
        assert_eq!(ahead.submit(&request, Some(bounds), now), ServedBy::Disk);
        assert_eq!(ahead.poll(now), None);
        now += Duration::from_millis(1);
        ahead.answered(&request, now);
        assert_eq!(ahead.poll(now), None);
    }
}

/// Reads in order, `outstanding` at a time; whether anything was read ahead.
fn is_read_ahead(outstanding: usize, pause: Duration, size: Sectors) -> bool {
    let mut ahead = ReadAhead::new(BY_REQUESTS);
    let bounds = Extent::new(Lba(0), Sectors(1 << 24));
    let (mut now, mut open) = (Instant::ZERO, VecDeque::new());
    for id in 0..100 {
        let operation = Operation::read(Extent::new(Lba(id * size.0), size));
        let request = Request { id: RequestId(id), volume: VolumeId(0), operation };
        assert_ne!(
            ahead.submit(&request, Some(bounds), now),
            ServedBy::Memory,
            "nothing was transferred"
        );
        if ahead.poll(now).is_some() {
            return true;
        }
        open.push_back(request);
        if open.len() == outstanding {
            now += Duration::from_millis(5);
            let answered = open.pop_front().expect("it was sent");
            ahead.answered(&answered, now);
            now += pause;
        }
    }
    false
}

#[test]
fn a_client_that_always_has_requests_outstanding_is_left_to_the_drive() {
    let (pause, size) = (Duration::from_millis(1), Sectors(8));
    assert!(is_read_ahead(1, pause, size));
    assert!(!is_read_ahead(4, pause, size));
}

/// A client that reads in order, 1 MiB each, and a drive that executes what it is given in turn.
struct InOrder {
    ahead: ReadAhead,
    now: Instant,
    next: u64,
    drive: VecDeque<InDrive>,
    open: BTreeMap<RequestId, Request>,
    sectors_ahead: u64,
}

impl InOrder {
    fn send(&mut self) {
        let size = Sectors(2_048);
        let operation = Operation::read(Extent::new(Lba(self.next * size.0), size));
        let request = Request { id: RequestId(self.next), volume: VolumeId(0), operation };
        self.next += 1;
        let bounds = Extent::new(Lba(0), Sectors(1 << 24));
        match self.ahead.submit(&request, Some(bounds), self.now) {
            ServedBy::Memory => return self.poll(),
            ServedBy::Pending => {}
            ServedBy::Disk => self.drive.push_back(InDrive::Client(request)),
        }
        self.open.insert(request.id, request);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.ahead.poll(self.now) {
            match action {
                ReadAheadAction::Read { segment, extent, .. } => {
                    self.sectors_ahead += extent.len.0;
                    self.drive.push_back(InDrive::ReadAhead(segment, extent));
                }
                ReadAheadAction::Answer(id) => {
                    self.open.remove(&id).expect("it was sent");
                }
                ReadAheadAction::Submit(id) => {
                    self.drive.push_back(InDrive::Client(self.open[&id]));
                }
                ReadAheadAction::Drop(_) | ReadAheadAction::Offer { .. } => {}
            }
        }
    }

    /// Sends `reads` reads, at most `outstanding` of them at a time, with a pause before each.
    /// Returns the sectors that were read ahead.
    fn read(&mut self, reads: u64, outstanding: usize) -> u64 {
        let (end, before) = (self.next + reads, self.sectors_ahead);
        while self.next < end {
            self.now += Duration::from_millis(1);
            self.send();
            while self.open.len() >= outstanding {
                self.execute();
            }
        }
        self.sectors_ahead - before
    }

    fn execute(&mut self) {
        self.now += Duration::from_millis(5);
        match self.drive.pop_front().expect("what is open is in the drive") {
            InDrive::Client(request) => {
                self.open.remove(&request.id).expect("it was sent");
                self.ahead.answered(&request, self.now);
            }
            InDrive::ReadAhead(segment, extent) => {
                self.ahead.progress(segment, extent);
                self.ahead.finished(segment, Outcome::Done, self.now);
            }
            InDrive::Prefetch(..) => unreachable!("nothing is prefetched"),
        }
        self.poll();
    }
}

#[test]
fn a_client_that_has_requests_outstanding_from_some_read_on_is_left_to_the_drive() {
    let mut client = InOrder {
        ahead: ReadAhead::new(BY_REQUESTS),
        now: Instant::ZERO,
        next: 0,
        drive: VecDeque::new(),
        open: BTreeMap::new(),
        sectors_ahead: 0,
    };
    assert!(client.read(20, 1) > 0, "it pauses, and is alone");
    client.read(200, 4);
    assert_eq!(client.read(1_000, 4), 0);
    assert!(client.read(20, 1) > 0, "it is alone again");
}

#[test]
fn a_read_ahead_ends_with_its_volume() {
    let mut ahead = ReadAhead::new(BY_REQUESTS);
    let bounds = Extent::new(Lba(100), Sectors(100));
    let mut read = Vec::new();
    for id in 0..12 {
        let now = Instant::ZERO + Duration::from_millis(id);
        let operation = Operation::read(Extent::new(Lba(100 + 8 * id), Sectors(8)));
        let request = Request { id: RequestId(id), volume: VolumeId(3), operation };
        let served = ahead.submit(&request, Some(bounds), now);
        while let Some(action) = ahead.poll(now) {
            if let ReadAheadAction::Read { extent, .. } = action {
                read.push(extent);
            }
        }
        if served == ServedBy::Disk {
            ahead.answered(&request, now);
        }
    }
    assert!(!read.is_empty());
    assert!(read.iter().all(|extent| bounds.contains(*extent)), "{read:?}");
}

#[test]
fn a_volume_whose_reads_have_deadlines_is_not_read_ahead() {
    let mut ahead = ReadAhead::new(BY_REQUESTS);
    ahead.set_enabled(VolumeId(0), false);
    let bounds = Extent::new(Lba(0), Sectors(1 << 20));
    for id in 0..50 {
        let now = Instant::ZERO + Duration::from_millis(id);
        let operation = Operation::read(Extent::new(Lba(8 * id), Sectors(8)));
        let request = Request { id: RequestId(id), volume: VolumeId(0), operation };
        assert_eq!(ahead.submit(&request, Some(bounds), now), ServedBy::Disk);
        assert_eq!(ahead.poll(now), None);
        ahead.answered(&request, now);
    }
}

/// A client whose reads do not fit what was prefetched: it is prefetched less than a read, and the
/// rest is one request.
#[test]
fn a_read_of_which_a_part_is_prefetched_waits_for_the_rest_alone() {
    let settings = ReadAheadSettings { requests: false, prefetches: true, ..BY_REQUESTS };
    let mut ahead = ReadAhead::new(settings);
    let (bounds, volume) = (Extent::new(Lba(0), Sectors(1 << 20)), VolumeId(0));
    let now = |id: u64| Instant::ZERO + Duration::from_millis(id);
    let request = |id: u64| {
        let operation = Operation::read(Extent::new(Lba(128 * id), Sectors(128)));
        Request { id: RequestId(id), volume, operation }
    };
    let mut offer = None;
    for id in 0..4 {
        assert_eq!(ahead.submit(&request(id), Some(bounds), now(id)), ServedBy::Disk);
        ahead.answered(&request(id), now(id));
        while let Some(action) = ahead.poll(now(id)) {
            let ReadAheadAction::Offer { extent, .. } = action else { panic!("{action:?}") };
            offer = extent;
        }
    }
    let (prefetched, _) = offer.expect("four reads in order").split_at(Sectors(200));
    assert_eq!(prefetched.start, Lba(512), "behind the client's position");
    let segment = ahead.prefetch_started(volume, prefetched).expect("it was offered");
    assert_eq!(ahead.prefetch_ended(Outcome::Done, now(4)), Some(segment));
    assert_eq!(ahead.submit(&request(4), Some(bounds), now(4)), ServedBy::Memory);
    assert_eq!(ahead.submit(&request(5), Some(bounds), now(5)), ServedBy::Pending);
    let Some(ReadAheadAction::Read { segment, extent, .. }) = ahead.poll(now(5)) else {
        panic!("the rest is requested")
    };
    assert_eq!(extent, Extent::new(Lba(712), Sectors(56)), "the sectors that are not in memory");
    ahead.progress(segment, extent);
    ahead.finished(segment, Outcome::Done, now(6));
    assert_eq!(ahead.poll(now(6)), Some(ReadAheadAction::Answer(RequestId(5))));
    let parts: Vec<u64> =
        ahead.parts(request(5).operation.extent).map(|p| p.extent.len.0).collect();
    assert_eq!(parts, [72, 56], "from both");
    let usage = ahead.usage(volume);
    assert_eq!((usage.prefetched, usage.prefetched_used), (Sectors(200), Sectors(200)));
}
