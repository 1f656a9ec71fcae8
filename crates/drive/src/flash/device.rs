//! A flash drive with its state. Everything inside is an event at its own instant, computed when
//! the caller asks for that instant or a later one: the frequency of calls has no effect.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::dies::{Dies, Outcome};
use super::event_queue::{Event, EventKind, EventQueue};
use super::model::FlashModel;
use super::pieces::{Owner, Slot, Stripe};
use super::read_buffer::{Lookup, ReadBuffer, Stream, Streams};
use super::spec::Amplification;
use super::write_buffer::{UnitId, WriteBuffer};
use crate::completion::{Done, Parts, Tag};

/// The most pieces of one read in progress at once: a longer read continues as its first pieces
/// leave.
const PIECES_MAX: u32 = 64;
/// The space that a change of the mapping takes in the write buffer.
const RECORD: Sectors = Sectors(8);
/// With more pending events than this, the caller waits for the next one. With fewer, each event
/// gives a lower bound on the next completion, which saves needless wake-ups.
const ASKED_MAX: usize = 48;

#[derive(Clone, Copy, Debug)]
struct Command {
    tag: Tag,
    operation: Operation,
    submitted: Instant,
    /// The first sector for which nothing is in progress.
    cursor: Lba,
    /// Pieces in progress.
    pieces: u32,
    /// Sectors that have not been given to the link.
    left: Sectors,
    /// The run that it continues.
    stream: Option<Stream>,
    /// The service time of the last piece alone.
    alone: Duration,
}

/// A piece of a write on its way from the host into the buffer.
#[derive(Clone, Copy, Debug)]
struct Piece {
    slot: Slot,
    /// The sectors that may be read from it; empty for a record of the mapping.
    extent: Extent,
    len: Sectors,
    amplification: Amplification,
    is_last: bool,
}

/// A command that is answered when something is durable.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    slot: Slot,
    until: Until,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    /// This number of pieces is in the buffer, which is durable.
    Stored(u64),
    /// The units before this one are programmed.
    Programmed(UnitId),
}

/// One flash drive, with all its state.
#[derive(Clone, Debug)]
pub struct FlashDevice {
    model: Arc<FlashModel>,
    events: EventQueue,
    dies: Dies,
    commands: Vec<Command>,
    vacant: Vec<Slot>,
    /// Writes, trims and flushes in the order in which they came, as far as they are not wholly
    /// under way.
    stores: VecDeque<Slot>,
    /// On the link.
    arriving: VecDeque<Piece>,
    /// Pieces that have been given room, and that have arrived.
    reserved: u64,
    stored: u64,
    waiters: Vec<Waiter>,
    /// Forced writes that are not answered, where they are answered later than others.
    forced: u32,
    writes: WriteBuffer,
    ahead: ReadBuffer,
    readers: Streams,
    writers: Streams,
    /// When the link is free, to the host and from it; one and the same unless it is duplex.
    to_host_free: Instant,
    from_host_free: Instant,
    done: VecDeque<Done>,
    clock: Instant,
}

impl FlashDevice {
    /// The idle drive with empty buffers, at time zero.
    pub fn new(model: Arc<FlashModel>) -> Self {
        let depth = model.queue_depth_max() as usize;
        let memory = model.spec().memory;
        Self {
            events: EventQueue::new(2 * (depth + model.dies() as usize)),
            dies: Dies::new(&model),
            commands: Vec::with_capacity(depth),
            vacant: Vec::with_capacity(depth),
            stores: VecDeque::with_capacity(depth),
            arriving: VecDeque::with_capacity(depth),
            reserved: 0,
            stored: 0,
            waiters: Vec::with_capacity(depth),
            forced: 0,
            writes: WriteBuffer::new(memory.write_buffer, model.stripe()),
            ahead: ReadBuffer::new(memory.read_buffer, model.stripe()),
            readers: Streams::new(),
            writers: Streams::new(),
            to_host_free: Instant::ZERO,
            from_host_free: Instant::ZERO,
            done: VecDeque::with_capacity(depth),
            clock: Instant::ZERO,
            model,
        }
    }

    /// Addresses on the drive.
    pub fn capacity(&self) -> Sectors {
        self.model.capacity()
    }

    /// The drive's model.
    pub fn model(&self) -> &Arc<FlashModel> {
        &self.model
    }

    /// Commands that were submitted and not yet taken out by [`FlashDevice::complete`].
    pub fn outstanding(&self) -> u32 {
        let count = self.commands.len() - self.vacant.len() + self.done.len();
        u32::try_from(count).expect("no more than the queue's depth")
    }

    /// Whether there is room for one more command.
    pub fn can_accept(&self) -> bool {
        self.outstanding() < self.model.queue_depth_max()
    }

    /// Takes in a command.
    ///
    /// # Panics
    /// If the queue is full, the extent is not on the drive, a command other than a flush has no
    /// sectors, or time runs backwards: all of these were to be refused at the edge.
    pub fn submit(&mut self, now: Instant, tag: Tag, operation: Operation) {
        self.advance(now);
        assert!(self.can_accept(), "the drive's queue has room");
        assert!(operation.op != Op::Seek, "there is no arm to move");
        let Operation { op, extent, .. } = operation;
        if op != Op::Flush {
            let drive = Extent::new(Lba(0), self.capacity());
            assert!(drive.contains(extent), "{extent} is on the drive");
            assert!(!extent.is_empty(), "a {op} has sectors");
        }
        let command = Command {
            tag,
            operation,
            submitted: now,
            cursor: extent.start,
            pieces: 0,
            left: extent.len,
            stream: match op {
                Op::Read => self.readers.follow(extent),
                Op::Write => self.writers.follow(extent),
                Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => None,
            },
            alone: Duration::ZERO,
        };
        let slot = self.enter(command);
        if op == Op::Read {
            self.read_on(slot, now);
            if let Some(stream) = command.stream {
                self.read_ahead(extent, stream, now);
            }
        } else {
            self.forced += u32::from(self.is_late(&operation));
            self.stores.push_back(slot);
            self.store_on(now);
        }
    }

    /// Whether it is a write that is answered when it is programmed, and not when it is in the
    /// buffer.
    fn is_late(&self, operation: &Operation) -> bool {
        operation.op.writes() && operation.fua && !self.model.spec().power_loss_protection
    }

    /// When to ask [`FlashDevice::complete`] again. Something may be done then, and nothing is
    /// before. None if there is no command.
    pub fn next_completion(&self) -> Option<Instant> {
        if let Some(done) = self.done.front() {
            return Some(done.at);
        }
        if self.outstanding() == 0 {
            return None;
        }
        let events = self.events.iter();
        if events.len() > ASKED_MAX {
            return self.events.next_at();
        }
        // Only reads wait for a die, unless a write waits for space or for durability.
        let stores_wait = !self.stores.is_empty() || !self.waiters.is_empty();
        let work_least = if stores_wait { Duration::ZERO } else { self.model.sensed_least };
        events.map(|event| event.at + event.least.unwrap_or(work_least)).min()
    }

    /// Takes out a command that is done at `now`, if there is one: the first that was.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn complete(&mut self, now: Instant) -> Option<Done> {
        self.advance(now);
        self.done.pop_front()
    }

    /// Lets everything happen that happens until `now`.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn advance(&mut self, now: Instant) {
        assert!(now >= self.clock, "time runs backwards: {now} after {}", self.clock);
        while let Some(event) = self.events.take(now) {
            self.clock = event.at;
            self.happen(event);
        }
        self.clock = now;
    }

    /// Sectors that are in the write buffer, or on the link to it.
    pub fn buffered(&self) -> Sectors {
        self.writes.used()
    }

    /// Whether nothing is left to do. An open unit waits for more to be written, or for a flush.
    pub fn is_quiescent(&self) -> bool {
        self.outstanding() == 0 && self.events.next_at().is_none()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If it does not.
    pub fn invariants(&self) {
        self.writes.invariants();
        assert!(self.outstanding() <= self.model.queue_depth_max(), "no more than the queue holds");
        assert_eq!(self.reserved - self.stored, self.arriving.len() as u64, "pieces on the link");
    }

    fn enter(&mut self, command: Command) -> Slot {
        if let Some(slot) = self.vacant.pop() {
            self.commands[slot.0 as usize] = command;
            return slot;
        }
        self.commands.push(command);
        Slot(u32::try_from(self.commands.len() - 1).expect("no more than the queue's depth"))
    }

    fn happen(&mut self, event: Event) {
        let now = event.at;
        match event.kind {
            EventKind::Array(die, generation) => {
                match self.dies.array(&self.model, &mut self.events, (now, die, generation)) {
                    Outcome::Programmed(unit) => {
                        self.writes.retire(unit);
                        self.settle(now);
                        self.store_on(now);
                    }
                    Outcome::Nothing => {}
                }
            }
            EventKind::Left(die) => {
                let op = self.dies.left(&self.model, &mut self.events, (now, die));
                match op.owner {
                    Owner::Command(slot) => {
                        let sensed = self.model.spec().nand.read + self.model.channel.of(op.len);
                        self.send(slot, op.len, sensed, now);
                        self.commands[slot.0 as usize].pieces -= 1;
                        self.read_on(slot, now);
                    }
                    Owner::Ahead(stripe) => self.arrive_ahead(stripe, now),
                }
            }
            EventKind::Arrived => self.arrived(now),
            EventKind::Answered(slot) => self.answered(slot, now),
        }
    }

    /// Puts as many pieces of a read under way as may be.
    fn read_on(&mut self, slot: Slot, now: Instant) {
        loop {
            let command = &mut self.commands[slot.0 as usize];
            let end = command.operation.extent.end();
            if command.cursor >= end || command.pieces >= PIECES_MAX {
                return;
            }
            let stripe = Stripe::of(command.cursor, self.model.stripe());
            let until = end.min(Lba((stripe.0 + 1) * self.model.stripe().0));
            let piece = Extent::new(command.cursor, Sectors(until.0 - command.cursor.0));
            command.cursor = until;
            let (forced, stream) = (command.operation.fua, command.stream);
            let look = if forced { Lookup::Taken } else { self.ahead.look(stripe, stream) };
            if look == Lookup::Here || !forced && self.writes.holds(piece) {
                self.send(slot, piece.len, Duration::ZERO, now);
                continue;
            }
            self.commands[slot.0 as usize].pieces += 1;
            let op = self.dies.ops.enter(Owner::Command(slot), piece.len);
            match (look, stream) {
                (Lookup::Coming, _) => self.dies.ops.append(self.ahead.waiting(stripe), op),
                (Lookup::Free, Some(stream)) => {
                    self.fetch(stripe, stream, now);
                    self.dies.ops.append(self.ahead.waiting(stripe), op);
                }
                _ => {
                    let die = self.dies.die_of(stripe);
                    self.dies.read(&self.model, &mut self.events, (now, die, op));
                }
            }
        }
    }

    /// Reads a whole stripe into the read buffer.
    fn fetch(&mut self, stripe: Stripe, stream: Stream, now: Instant) {
        self.ahead.expect(stripe, stream);
        let op = self.dies.ops.enter(Owner::Ahead(stripe), self.model.stripe());
        let die = self.dies.die_of(stripe);
        self.dies.read(&self.model, &mut self.events, (now, die, op));
    }

    fn read_ahead(&mut self, extent: Extent, stream: Stream, now: Instant) {
        let len = self.model.stripe();
        let end = (extent.end() + self.model.spec().memory.read_ahead).min(Lba(self.capacity().0));
        let first = Stripe::of(extent.end(), len).0;
        // No further than that what was read ahead before is still there when it is asked for.
        let held = Stripe::of(extent.start, len).0 + self.ahead.stream_max();
        for stripe in first..end.0.div_ceil(len.0).min(held) {
            if self.ahead.look(Stripe(stripe), Some(stream)) == Lookup::Free {
                self.fetch(Stripe(stripe), stream, now);
            }
        }
    }

    fn arrive_ahead(&mut self, stripe: Stripe, now: Instant) {
        let mut next = self.ahead.arrive(stripe);
        while let Some(id) = next {
            let (op, behind) = self.dies.ops.leave(id);
            next = behind;
            let Owner::Command(slot) = op.owner else { unreachable!("a command waits") };
            let sensed = self.model.spec().nand.read + self.model.channel.of(self.model.stripe());
            let submitted = self.commands[slot.0 as usize].submitted;
            self.send(slot, op.len, sensed.min(now.since(submitted)), now);
            self.commands[slot.0 as usize].pieces -= 1;
            self.read_on(slot, now);
        }
    }

    /// Gives a piece of a read to the link.
    fn send(&mut self, slot: Slot, len: Sectors, sensed: Duration, now: Instant) {
        let host = self.model.spec().host;
        let command = &mut self.commands[slot.0 as usize];
        let is_first = command.left == command.operation.extent.len;
        let takes =
            self.model.to_host.of(len) + if is_first { host.read_command } else { Duration::ZERO };
        let ends = self.to_host_free.max(now) + takes;
        self.to_host_free = ends;
        if !host.duplex {
            self.from_host_free = ends;
        }
        command.left = Sectors(command.left.0 - len.0);
        if command.left == Sectors::ZERO {
            command.alone = sensed + takes;
            let at = ends + host.read_latency;
            self.events.enter(at, EventKind::Answered(slot), Some(Duration::ZERO));
        }
    }

    /// Puts as much as may be of what is to be stored under way, in the order in which it came.
    fn store_on(&mut self, now: Instant) {
        while let Some(slot) = self.stores.front().copied() {
            let Operation { op, extent, .. } = self.commands[slot.0 as usize].operation;
            let under_way = match op {
                Op::Flush => {
                    self.waiters.push(Waiter { slot, until: Until::Stored(self.reserved) });
                    true
                }
                _ if self.is_behind_late(extent) => false,
                Op::Write => self.write_on(slot, now),
                Op::Trim | Op::WriteZeroes | Op::Seek => {
                    let len = RECORD.min(self.model.stripe());
                    let (record, amplification) =
                        (Extent::new(extent.start, Sectors::ZERO), Amplification::NONE);
                    let piece = Piece { slot, extent: record, len, amplification, is_last: true };
                    self.carry(piece, now)
                }
                Op::Read => unreachable!("a read stores nothing"),
            };
            if !under_way {
                return;
            }
            self.stores.pop_front();
            if op == Op::Flush {
                self.settle(now);
            } else {
                self.forget_ahead(extent);
            }
        }
    }

    /// Whether a forced write of the same sectors is not durable: what comes later must not be
    /// answered first.
    fn is_behind_late(&self, extent: Extent) -> bool {
        let overlaps = |slot: Slot| {
            let other = self.commands[slot.0 as usize].operation;
            let shared = extent.start < other.extent.end() && other.extent.start < extent.end();
            shared && self.is_late(&other)
        };
        self.forced > 0
            && (self.waiters.iter().any(|waiter| overlaps(waiter.slot))
                || self.arriving.iter().any(|piece| overlaps(piece.slot)))
    }

    /// Sends for the pieces of a write for which there is room, and says whether that was all.
    fn write_on(&mut self, slot: Slot, now: Instant) -> bool {
        loop {
            let command = &self.commands[slot.0 as usize];
            let left = Sectors(command.operation.extent.end().0 - command.cursor.0);
            let len = left.min(self.model.stripe());
            let amplification = if command.stream.is_some() {
                Amplification::NONE
            } else {
                self.model.spec().nand.write_amplification
            };
            let extent = Extent::new(command.cursor, len);
            let is_last = len == left;
            if !self.carry(Piece { slot, extent, len, amplification, is_last }, now) {
                return false;
            }
            self.commands[slot.0 as usize].cursor = extent.end();
            if is_last {
                return true;
            }
        }
    }

    /// Gives a piece room and the link, if there is room.
    fn carry(&mut self, piece: Piece, now: Instant) -> bool {
        if !self.writes.reserve(piece.len) {
            return false;
        }
        let host = self.model.spec().host;
        let command = &mut self.commands[piece.slot.0 as usize];
        let is_first = command.cursor == command.operation.extent.start;
        let takes = self.model.from_host.of(piece.extent.len)
            + if is_first { host.write_command } else { Duration::ZERO };
        command.alone = takes;
        let ends = self.from_host_free.max(now) + takes;
        self.from_host_free = ends;
        if !host.duplex {
            self.to_host_free = ends;
        }
        self.reserved += 1;
        self.arriving.push_back(piece);
        self.events.enter(ends, EventKind::Arrived, Some(self.model.stored_least));
        true
    }

    fn forget_ahead(&mut self, extent: Extent) {
        let len = self.model.stripe();
        let end = Stripe(extent.end().0.div_ceil(len.0));
        self.ahead.forget(Stripe::of(extent.start, len), end);
    }

    fn arrived(&mut self, now: Instant) {
        let Piece { slot, extent, len, amplification, is_last } =
            self.arriving.pop_front().expect("it was on the link");
        self.stored += 1;
        if let Some(closed) = self.writes.put(extent, len, amplification) {
            self.dies.program(&self.model, &mut self.events, (now, closed));
        }
        if is_last {
            if self.is_late(&self.commands[slot.0 as usize].operation) {
                let until = Until::Programmed(self.close(now));
                self.waiters.push(Waiter { slot, until });
            } else {
                let at = now + self.latency(&self.commands[slot.0 as usize]);
                self.events.enter(at, EventKind::Answered(slot), Some(Duration::ZERO));
            }
        }
        self.settle(now);
        self.store_on(now);
    }

    /// Closes the open unit, and gives the first that is not closed.
    fn close(&mut self, now: Instant) -> UnitId {
        if let Some(closed) = self.writes.close() {
            self.dies.program(&self.model, &mut self.events, (now, closed));
        }
        self.writes.closed_end()
    }

    /// Answers those whose data is durable.
    fn settle(&mut self, now: Instant) {
        let mut place = 0;
        while place < self.waiters.len() {
            let Waiter { slot, until } = self.waiters[place];
            let durable = match until {
                Until::Stored(pieces) if self.stored < pieces => false,
                Until::Stored(_) if self.model.spec().power_loss_protection => true,
                Until::Stored(_) => {
                    let end = self.close(now);
                    self.waiters[place].until = Until::Programmed(end);
                    self.writes.is_durable(end)
                }
                Until::Programmed(end) => self.writes.is_durable(end),
            };
            if !durable {
                place += 1;
                continue;
            }
            self.waiters.remove(place);
            let after = self.latency(&self.commands[slot.0 as usize]);
            self.events.enter(now + after, EventKind::Answered(slot), Some(Duration::ZERO));
        }
    }

    /// The latency of a command that overlaps with other commands, once its data is in place.
    fn latency(&self, command: &Command) -> Duration {
        let host = &self.model.spec().host;
        match command.operation.op {
            Op::Read => host.read_latency,
            Op::Write if command.stream.is_none() => host.write_latency + host.write_random,
            Op::Write | Op::Trim | Op::WriteZeroes | Op::Seek => host.write_latency,
            Op::Flush => host.flush,
        }
    }

    fn answered(&mut self, slot: Slot, at: Instant) {
        let command = self.commands[slot.0 as usize];
        let Command { tag, operation, submitted, alone, .. } = command;
        let overhead = self.latency(&command);
        let queue = at.since(submitted).saturating_sub(overhead).saturating_sub(alone);
        let parts = Parts { queue, overhead, transfer: alone, ..Parts::default() };
        debug_assert_eq!(parts.sum(), at.since(submitted), "the parts add up");
        self.forced -= u32::from(self.is_late(&operation));
        self.vacant.push(slot);
        self.done.push_back(Done { tag, at, parts });
    }
}
