//! Bytes of several connections, on a disk that does what it is asked in any order, held against what each byte may hold.

use proptest::prelude::*;
use units::{Bytes, Lba};

use super::*;
use crate::request::ConnectionId;

const SECTORS: usize = 6;
const BYTES: usize = SECTORS * SECTOR;
const EXPORT: ExportId = ExportId(3);
/// Each with a connection of its number.
const LOOPS: usize = 3;

/// One request of a client.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Write { zeroes: bool, whole: bool },
    Read,
}

/// One step: a request comes, or something that the disk has is done, or an answer of it arrives.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        connection: u64,
        asked: Asked,
        start: usize,
        len: usize,
    },
    Perform(prop::sample::Index),
    Fail(prop::sample::Index),
    Arrive(prop::sample::Index),
    /// The next loop is told that the export is watched.
    Tell,
}

fn step() -> impl Strategy<Value = Step> {
    let asked = prop_oneof![
        6 => any::<(bool, bool)>().prop_map(|(zeroes, whole)| Asked::Write { zeroes, whole }),
        2 => Just(Asked::Read),
    ];
    let index = any::<prop::sample::Index>;
    let lengths = prop_oneof![1..40_usize, 1..3 * SECTOR];
    prop_oneof![
        4 => (0..LOOPS as u64, asked, 0..BYTES, lengths)
            .prop_map(|(connection, asked, start, len)| Step::Ask { connection, asked, start, len }),
        5 => index().prop_map(Step::Perform),
        1 => index().prop_map(Step::Fail),
        5 => index().prop_map(Step::Arrive),
        1 => Just(Step::Tell),
    ]
}

/// A write, from when it was sent until it was answered.
struct Written {
    bytes: core::ops::Range<usize>,
    value: u8,
    from: usize,
    /// Answered, and whether well: one that failed may have been done in part.
    until: Option<(usize, bool)>,
}

/// Many connections' requests, a splicer, a disk, and what is known of each byte.
struct World {
    splicer: Splicer,
    /// Which loops know that the export is watched.
    knows: [bool; LOOPS],
    /// How many have been told, if it is.
    told: Option<usize>,
    sequences: u64,
    /// What clients wait for: whole requests and splices that change something.
    in_flight: Vec<(ClientRequestId, Extent)>,
    at_disk: Vec<Request>,
    ended: Vec<(ClientRequestId, Result<Vec<u8>, Errno>)>,
    disk: Vec<u8>,
    written: Vec<(ClientRequestId, Written)>,
    read: Vec<(ClientRequestId, core::ops::Range<usize>, usize)>,
    now: usize,
    answered: usize,
}

impl World {
    fn new() -> Self {
        Self {
            splicer: Splicer::new(LOOPS),
            knows: [false; LOOPS],
            told: None,
            sequences: 0,
            in_flight: Vec::new(),
            at_disk: Vec::new(),
            ended: Vec::new(),
            disk: vec![0; BYTES],
            written: Vec::new(),
            read: Vec::new(),
            now: 0,
            answered: 0,
        }
    }

    fn ask(&mut self, connection: u64, asked: Asked, start: usize, len: usize) {
        self.sequences += 1;
        let id = ClientRequestId {
            connection: ConnectionId(connection),
            sequence: self.sequences << 16,
        };
        let end = (start + len).min(BYTES);
        let (zeroes, whole) = match asked {
            Asked::Write { zeroes, whole } => (zeroes, whole),
            Asked::Read => (false, true),
        };
        let bytes =
            if whole { start / SECTOR * SECTOR..end.next_multiple_of(SECTOR) } else { start..end };
        let span = Span { start: Bytes(bytes.start as u64), len: Bytes(bytes.len() as u64) };
        if matches!(asked, Asked::Read) {
            self.read.push((id, bytes, self.now));
            let (operation, no_hole) = (Operation::read(span.outer()), false);
            self.submit(Request { id, export: EXPORT, operation, no_hole, data: Vec::new() });
            return;
        }
        let value =
            if zeroes { 0 } else { u8::try_from(self.sequences % 255 + 1).expect("a byte") };
        let data = (!zeroes).then(|| vec![value; bytes.len()]);
        let from = self.now;
        self.written.push((id, Written { bytes, value, from, until: None }));
        if !span.is_whole() && !self.knows[loop_of(id)] {
            if self.splicer.watch(EXPORT) {
                self.told = Some(0);
            }
            self.know(loop_of(id));
        }
        self.in_flight.push((id, span.outer()));
        if span.is_whole() {
            let op = if zeroes { Op::WriteZeroes } else { Op::Write };
            let operation = Operation { op, extent: span.outer(), fua: false };
            let data = data.unwrap_or_default();
            self.submit(Request { id, export: EXPORT, operation, no_hole: false, data });
        } else {
            let splice = Splice { id, export: EXPORT, span, data, fua: false, no_hole: false };
            self.splicer.begin(splice, &mut self.at_disk);
        }
    }

    fn submit(&mut self, request: Request) {
        if self.knows[loop_of(request.id)] {
            self.at_disk.extend(self.splicer.pass(request));
        } else {
            self.at_disk.push(request);
        }
    }

    fn know(&mut self, which: usize) {
        if !core::mem::replace(&mut self.knows[which], true) {
            let its = self.in_flight.iter().filter(|(id, _)| loop_of(*id) == which);
            let place = Place::all(LOOPS).nth(which).expect("one of them");
            self.splicer.told((place, EXPORT), its.copied(), &mut self.at_disk);
        }
    }

    fn tell(&mut self) {
        if let Some(told) = self.told.filter(|told| *told < LOOPS) {
            self.know(told);
            self.told = Some(told + 1);
        }
    }

    fn perform(&mut self, at: usize, well: bool) {
        let request = self.at_disk.swap_remove(at);
        let Operation { op, extent, .. } = request.operation;
        let start = usize::try_from(extent.start.0).expect("small") * SECTOR;
        let place = &mut self.disk[start..start + extent.len.bytes_usize()];
        let result = match op {
            _ if !well => Err(Errno::Io),
            Op::Read => Ok(place.to_vec()),
            Op::Write => {
                place.copy_from_slice(&request.data);
                Ok(request.data)
            }
            _ => {
                place.fill(0);
                Ok(Vec::new())
            }
        };
        self.ended.push((request.id, result));
    }

    fn arrive(&mut self, at: usize) {
        let (id, result) = self.ended.swap_remove(at);
        if Splicer::is_part(id) {
            if let Some(reply) = self.splicer.part_ended(id, result, &mut self.at_disk) {
                self.answered(reply.id, &reply.result);
            }
            return;
        }
        if self.knows[loop_of(id)] {
            self.splicer.settled(EXPORT, id, &mut self.at_disk);
        }
        self.answered(id, &result);
    }

    fn answered(&mut self, id: ClientRequestId, result: &Result<Vec<u8>, Errno>) {
        self.answered += 1;
        self.in_flight.retain(|(one, _)| *one != id);
        if let Some((_, written)) = self.written.iter_mut().find(|(one, _)| *one == id) {
            assert!(written.until.is_none(), "a request is answered once");
            written.until = Some((self.now, result.is_ok()));
            return;
        }
        let at = self.read.iter().position(|(one, ..)| *one == id).expect("it was asked, once");
        let (_, bytes, since) = self.read.swap_remove(at);
        if let Ok(data) = result {
            for (place, held) in bytes.zip(data) {
                self.check(place, *held, since);
            }
        }
    }

    /// A byte that was read, by a read that was sent at `since`: of some write, or of none, behind which no other one had been
    /// begun and ended by then.
    fn check(&self, place: usize, held: u8, since: usize) {
        let here: Vec<_> = self
            .written
            .iter()
            .map(|(_, one)| one)
            .filter(|one| one.bytes.contains(&place))
            .collect();
        let replaced = |end: Option<usize>| {
            here.iter().any(|later| {
                let well = later.until.is_some_and(|(at, well)| well && at < since);
                well && end.is_some_and(|end| end < later.from)
            })
        };
        let may = |one: &&&Written| one.value == held && !replaced(one.until.map(|(at, _)| at));
        let untouched = held == 0
            && !here.iter().any(|one| one.until.is_some_and(|(at, well)| well && at < since));
        assert!(untouched || here.iter().any(|one| may(&one)), "byte {place} holds {held}");
    }

    fn finish(&mut self) {
        (0..LOOPS).for_each(|_| self.tell());
        while !self.at_disk.is_empty() || !self.ended.is_empty() {
            self.now += 1;
            if self.at_disk.is_empty() {
                self.arrive(0);
            } else {
                self.perform(0, true);
            }
        }
        assert!(is_idle(&self.splicer), "nobody waits for ever");
        assert_eq!(self.answered, usize::try_from(self.sequences).expect("few"), "all answered");
        for place in 0..BYTES {
            self.check(place, self.disk[place], self.now + 1);
        }
    }
}

fn loop_of(id: ClientRequestId) -> usize {
    usize::try_from(id.connection.0).expect("few")
}

fn is_idle(splicer: &Splicer) -> bool {
    splicer.watched.values().all(|watched| watched.jobs.is_empty() && watched.passed.is_empty())
}

/// One loop, which watches the export already.
fn watching() -> Splicer {
    let mut splicer = Splicer::new(1);
    assert!(splicer.watch(EXPORT), "all loops are to be told");
    assert!(!splicer.watch(EXPORT), "once");
    splicer.told((Place::FIRST, EXPORT), core::iter::empty(), &mut Vec::new());
    splicer
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_byte_that_was_acknowledged_is_lost_to_a_neighbour_in_its_sector(
        steps in prop::collection::vec(step(), 0..160),
    ) {
        let mut world = World::new();
        for step in steps {
            world.now += 1;
            match step {
                Step::Ask { connection, asked, start, len } => {
                    world.ask(connection, asked, start, len);
                }
                Step::Perform(at) if !world.at_disk.is_empty() => {
                    world.perform(at.index(world.at_disk.len()), true);
                }
                Step::Fail(at) if !world.at_disk.is_empty() => {
                    world.perform(at.index(world.at_disk.len()), false);
                }
                Step::Arrive(at) if !world.ended.is_empty() => {
                    world.arrive(at.index(world.ended.len()));
                }
                Step::Tell => world.tell(),
                Step::Perform(_) | Step::Fail(_) | Step::Arrive(_) => {}
            }
        }
        world.finish();
    }
}

fn splice(sequence: u64, start: u64, len: u64) -> Splice {
    let id = ClientRequestId { connection: ConnectionId(1), sequence };
    let (start, len) = (Bytes(start), Bytes(len));
    let data = Some(vec![7; usize::try_from(len.0).expect("few")]);
    let span = Span { start, len };
    Splice { id, export: EXPORT, span, data, fua: true, no_hole: false }
}

#[test]
fn a_byte_costs_a_read_and_a_forced_write_of_its_sector() {
    let (mut splicer, mut out) = (watching(), Vec::new());
    splicer.begin(splice(1, 513, 1), &mut out);
    let read = out.pop().expect("a read");
    assert_eq!(read.operation, Operation::read(Extent::new(Lba(1), Sectors(1))));
    assert_eq!(splicer.part_ended(read.id, Ok(vec![3; SECTOR]), &mut out), None);
    let write = out.pop().expect("a write");
    let extent = Extent::new(Lba(1), Sectors(1));
    assert_eq!(write.operation, Operation { op: Op::Write, extent, fua: true });
    assert_eq!((write.data[0], write.data[1], write.data[2]), (3, 7, 3));
    let reply = splicer.part_ended(write.id, Ok(write.data), &mut out).expect("an answer");
    assert_eq!(reply.id.sequence, 1);
    assert!(reply.result.is_ok() && is_idle(&splicer) && out.is_empty());
}

#[test]
fn of_an_export_that_is_gone_nothing_is_read_or_written_any_more() {
    let (mut splicer, mut out) = (watching(), Vec::new());
    splicer.begin(splice(1, 1, 1), &mut out);
    splicer.begin(splice(2, 2, 1), &mut out);
    let refused = splicer.withdraw(EXPORT);
    assert_eq!(refused.iter().map(|reply| reply.id.sequence).collect::<Vec<_>>(), [2]);
    let read = out.pop().expect("the first one's");
    assert!(out.is_empty());
    let reply = splicer.part_ended(read.id, Ok(vec![0; SECTOR]), &mut out).expect("an answer");
    assert_eq!((reply.id.sequence, reply.result), (1, Err(Errno::Shutdown)));
    assert!(out.is_empty() && splicer.watched.is_empty());
}

#[test]
fn nothing_begins_before_every_loop_has_said_what_it_has_under_way() {
    let (mut splicer, mut out) = (Splicer::new(3), Vec::new());
    splicer.watch(EXPORT);
    let mut places = Place::all(3);
    let mut next = || places.next().expect("one of three");
    splicer.told((next(), EXPORT), core::iter::empty(), &mut out);
    splicer.begin(splice(1, 1, 1), &mut out);
    let other = ClientRequestId { connection: ConnectionId(2), sequence: 9 };
    let extent = Extent::new(Lba(0), Sectors(8));
    splicer.told((next(), EXPORT), core::iter::once((other, extent)), &mut out);
    assert!(out.is_empty(), "the third may have anything under way");
    splicer.ended(next(), &mut out);
    assert!(out.is_empty(), "the second has a write to that sector");
    splicer.settled(EXPORT, other, &mut out);
    let read = out.pop().expect("its turn");
    assert_eq!(read.operation, Operation::read(Extent::new(Lba(0), Sectors(1))));
}
