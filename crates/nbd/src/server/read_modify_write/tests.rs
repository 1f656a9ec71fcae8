//! Writes of several connections on a disk that completes requests in any order, checked against
//! the values that each byte may have.

use proptest::prelude::*;
use units::{Bytes, Extent, Lba, Op, Operation, Sectors};

use super::queue::*;
use crate::limits::SECTOR;
use crate::proto::byte_range::ByteRange;
use crate::proto::export::ExportId;
use crate::proto::request::{ClientRequestId, ConnectionId, Errno, ReadModifyWrite, Request};
use crate::server::loop_id::LoopId;

const SECTORS: usize = 6;
const BYTES: usize = SECTORS * SECTOR;
const EXPORT: ExportId = ExportId(3);
/// Event loops; each has the connection of its number.
const LOOPS: usize = 3;

/// One request of a client.
#[derive(Clone, Copy, Debug)]
enum RequestTag {
    Write { zeroes: bool, whole: bool },
    Read,
}

/// One step: a request arrives, the disk carries one out, or its reply arrives.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        connection: u64,
        asked: RequestTag,
        start: usize,
        len: usize,
    },
    Perform(prop::sample::Index),
    Fail(prop::sample::Index),
    Arrive(prop::sample::Index),
    /// The next loop learns that the export is tracked.
    Tell,
}

fn step() -> impl Strategy<Value = Step> {
    let asked = prop_oneof![
        6 => any::<(bool, bool)>().prop_map(|(zeroes, whole)| RequestTag::Write { zeroes, whole }),
        2 => Just(RequestTag::Read),
    ];
    let index = any::<prop::sample::Index>;
    let lengths = prop_oneof![1..40_usize, 1..3 * SECTOR];
    prop_oneof![
        4 => (0..LOOPS as u64, asked, 0..BYTES, lengths)
            .prop_map(|(connection, asked, start, len)| {
                Step::Ask { connection, asked, start, len }
            }),
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
    /// Whether it has been answered, and with success: a failed write may have been carried out in
    /// part.
    until: Option<(usize, bool)>,
}

/// The requests of many connections, the queue, a disk, and the values that each byte may have.
struct World {
    read_modify_writes: ReadModifyWriteQueue,
    /// Which loops know that the export is tracked.
    knows: [bool; LOOPS],
    /// The number of loops that have reported, once the export is tracked.
    reported: Option<usize>,
    sequences: u64,
    /// The writing requests that clients wait for.
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
            read_modify_writes: ReadModifyWriteQueue::new(LOOPS),
            knows: [false; LOOPS],
            reported: None,
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

    fn ask(&mut self, connection: u64, asked: RequestTag, start: usize, len: usize) {
        self.sequences += 1;
        let id = ClientRequestId {
            connection: ConnectionId(connection),
            sequence: self.sequences << 16,
        };
        let end = (start + len).min(BYTES);
        let (zeroes, whole) = match asked {
            RequestTag::Write { zeroes, whole } => (zeroes, whole),
            RequestTag::Read => (false, true),
        };
        let bytes =
            if whole { start / SECTOR * SECTOR..end.next_multiple_of(SECTOR) } else { start..end };
        let span = ByteRange { start: Bytes(bytes.start as u64), len: Bytes(bytes.len() as u64) };
        if matches!(asked, RequestTag::Read) {
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
            if self.read_modify_writes.track(EXPORT) {
                self.reported = Some(0);
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
            let op = if zeroes { Op::WriteZeroes } else { Op::Write };
            let (fua, no_hole) = (false, false);
            let write = ReadModifyWrite { id, export: EXPORT, span, op, data, fua, no_hole };
            self.read_modify_writes.begin(write, &mut self.at_disk);
        }
    }

    fn submit(&mut self, request: Request) {
        if self.knows[loop_of(request.id)] {
            self.at_disk.extend(self.read_modify_writes.submit_or_queue(request));
        } else {
            self.at_disk.push(request);
        }
    }

    fn know(&mut self, which: usize) {
        if !core::mem::replace(&mut self.knows[which], true) {
            let its = self.in_flight.iter().filter(|(id, _)| loop_of(*id) == which);
            let loop_id = LoopId::all(LOOPS).nth(which).expect("one of them");
            self.read_modify_writes.report((loop_id, EXPORT), its.copied(), &mut self.at_disk);
        }
    }

    fn reply_block_status(&mut self) {
        if let Some(reported) = self.reported.filter(|reported| *reported < LOOPS) {
            self.know(reported);
            self.reported = Some(reported + 1);
        }
    }

    fn perform(&mut self, at: usize, well: bool) {
        let request = self.at_disk.swap_remove(at);
        let Operation { op, extent, .. } = request.operation;
        let start = usize::try_from(extent.start.0).expect("small") * SECTOR;
        let loop_id = &mut self.disk[start..start + extent.len.bytes_usize()];
        let result = match op {
            _ if !well => Err(Errno::Io),
            Op::Read => Ok(loop_id.to_vec()),
            Op::Write => {
                loop_id.copy_from_slice(&request.data);
                Ok(request.data)
            }
            _ => {
                loop_id.fill(0);
                Ok(Vec::new())
            }
        };
        self.ended.push((request.id, result));
    }

    fn arrive(&mut self, at: usize) {
        let (id, result) = self.ended.swap_remove(at);
        if ReadModifyWriteQueue::is_part(id) {
            if let Some(reply) =
                self.read_modify_writes.on_part_completed(id, result, &mut self.at_disk)
            {
                self.answered(reply.id, &reply.result);
            }
            return;
        }
        if self.knows[loop_of(id)] {
            self.read_modify_writes.on_completion(EXPORT, id, &mut self.at_disk);
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
            for (loop_id, held) in bytes.zip(data) {
                self.check(loop_id, *held, since);
            }
        }
    }

    /// Checks one byte of a read that was sent at `since`: its value is of a write, or initial,
    /// that no other write followed and completed by then.
    fn check(&self, loop_id: usize, held: u8, since: usize) {
        let here: Vec<_> = self
            .written
            .iter()
            .map(|(_, one)| one)
            .filter(|one| one.bytes.contains(&loop_id))
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
        assert!(untouched || here.iter().any(|one| may(&one)), "byte {loop_id} holds {held}");
    }

    fn finish(&mut self) {
        (0..LOOPS).for_each(|_| self.reply_block_status());
        while !self.at_disk.is_empty() || !self.ended.is_empty() {
            self.now += 1;
            if self.at_disk.is_empty() {
                self.arrive(0);
            } else {
                self.perform(0, true);
            }
        }
        assert!(is_idle(&self.read_modify_writes), "no write waits without end");
        assert_eq!(self.answered, usize::try_from(self.sequences).expect("few"), "all answered");
        for loop_id in 0..BYTES {
            self.check(loop_id, self.disk[loop_id], self.now + 1);
        }
    }
}

fn loop_of(id: ClientRequestId) -> usize {
    usize::try_from(id.connection.0).expect("few")
}

fn is_idle(read_modify_writes: &ReadModifyWriteQueue) -> bool {
    read_modify_writes
        .tracked
        .values()
        .all(|tracked| tracked.jobs.is_empty() && tracked.forwarded.is_empty())
}

/// A queue for one loop, which tracks the export already.
fn watching() -> ReadModifyWriteQueue {
    let mut read_modify_writes = ReadModifyWriteQueue::new(1);
    assert!(read_modify_writes.track(EXPORT), "all loops are to be reported");
    assert!(!read_modify_writes.track(EXPORT), "once");
    read_modify_writes.report((LoopId::FIRST, EXPORT), core::iter::empty(), &mut Vec::new());
    read_modify_writes
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..Default::default()
    })]

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
                Step::Tell => world.reply_block_status(),
                Step::Perform(_) | Step::Fail(_) | Step::Arrive(_) => {}
            }
        }
        world.finish();
    }
}

fn write(sequence: u64, start: u64, len: u64) -> ReadModifyWrite {
    let id = ClientRequestId { connection: ConnectionId(1), sequence };
    let (start, len) = (Bytes(start), Bytes(len));
    let data = Some(vec![7; usize::try_from(len.0).expect("few")]);
    let span = ByteRange { start, len };
    let op = Op::Write;
    ReadModifyWrite { id, export: EXPORT, span, op, data, fua: true, no_hole: false }
}

#[test]
fn a_byte_costs_a_read_and_a_forced_write_of_its_sector() {
    let (mut read_modify_writes, mut out) = (watching(), Vec::new());
    read_modify_writes.begin(write(1, 513, 1), &mut out);
    let read = out.pop().expect("a read");
    assert_eq!(read.operation, Operation::read(Extent::new(Lba(1), Sectors(1))));
    assert_eq!(read_modify_writes.on_part_completed(read.id, Ok(vec![3; SECTOR]), &mut out), None);
    let write = out.pop().expect("a write");
    let extent = Extent::new(Lba(1), Sectors(1));
    assert_eq!(write.operation, Operation { op: Op::Write, extent, fua: true });
    assert_eq!((write.data[0], write.data[1], write.data[2]), (3, 7, 3));
    let reply = read_modify_writes
        .on_part_completed(write.id, Ok(write.data), &mut out)
        .expect("an answer");
    assert_eq!(reply.id.sequence, 1);
    assert!(reply.result.is_ok() && is_idle(&read_modify_writes) && out.is_empty());
}

#[test]
fn a_trim_zeroes_parts_of_sectors_and_trims_those_between() {
    let (mut read_modify_writes, mut out) = (watching(), Vec::new());
    let data = None;
    let trim = ReadModifyWrite { op: Op::Trim, data, ..write(1, 500, 1_100) };
    read_modify_writes.begin(trim, &mut out);
    let reads = core::mem::take(&mut out);
    assert_eq!(reads.len(), 2, "the first sector and the last");
    for read in reads {
        read_modify_writes.on_part_completed(read.id, Ok(vec![3; SECTOR]), &mut out);
    }
    let changed = |op: Op| out.iter().filter(move |request| request.operation.op == op);
    let extents: Vec<_> = changed(Op::Trim).map(|request| request.operation.extent).collect();
    assert_eq!(extents, [Extent::new(Lba(1), Sectors(2))]);
    let written: Vec<_> = changed(Op::Write).collect();
    let sector = |first: u8, count: usize, then: u8| {
        [vec![first; count], vec![then; SECTOR - count]].concat()
    };
    let (first, last) = (sector(3, 500, 0), sector(0, 64, 3));
    assert_eq!(
        written.iter().map(|request| request.data.clone()).collect::<Vec<_>>(),
        [first, last]
    );
    assert!(out.iter().all(|request| request.operation.fua), "as the trim was");
}

#[test]
fn of_an_export_that_is_gone_nothing_is_read_or_written_any_more() {
    let (mut read_modify_writes, mut out) = (watching(), Vec::new());
    read_modify_writes.begin(write(1, 1, 1), &mut out);
    read_modify_writes.begin(write(2, 2, 1), &mut out);
    let refused = read_modify_writes.withdraw(EXPORT);
    assert_eq!(refused.iter().map(|reply| reply.id.sequence).collect::<Vec<_>>(), [2]);
    let read = out.pop().expect("the first one's");
    assert!(out.is_empty());
    let reply = read_modify_writes
        .on_part_completed(read.id, Ok(vec![0; SECTOR]), &mut out)
        .expect("an answer");
    assert_eq!((reply.id.sequence, reply.result), (1, Err(Errno::Shutdown)));
    assert!(out.is_empty() && read_modify_writes.tracked.is_empty());
}

#[test]
fn nothing_begins_before_every_loop_has_said_what_it_has_under_way() {
    let (mut read_modify_writes, mut out) = (ReadModifyWriteQueue::new(3), Vec::new());
    read_modify_writes.track(EXPORT);
    let mut loop_ids = LoopId::all(3);
    let mut next = || loop_ids.next().expect("one of three");
    read_modify_writes.report((next(), EXPORT), core::iter::empty(), &mut out);
    read_modify_writes.begin(write(1, 1, 1), &mut out);
    let other = ClientRequestId { connection: ConnectionId(2), sequence: 9 };
    let extent = Extent::new(Lba(0), Sectors(8));
    read_modify_writes.report((next(), EXPORT), core::iter::once((other, extent)), &mut out);
    assert!(out.is_empty(), "the third may have anything under way");
    read_modify_writes.ended(next(), &mut out);
    assert!(out.is_empty(), "the second has a write to that sector");
    read_modify_writes.on_completion(EXPORT, other, &mut out);
    let read = out.pop().expect("its turn");
    assert_eq!(read.operation, Operation::read(Extent::new(Lba(0), Sectors(1))));
}
