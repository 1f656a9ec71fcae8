//! A mechanical drive with its state: queue, buffers, mechanism.
//!
//! The caller passes the time. Background work (reading ahead, destaging the write buffer) is
//! computed when the next event needs it, always for the instants at which it would have happened,
//! so that the frequency of calls has no effect. The queue chooses the next command when the
//! previous one completes: the completion time of the command in service is fixed when its service
//! starts, and a later command cannot change it.
//!
//! ```text
//! submit ──▶ queue ────▶ serving ──▶ Done
//!                          │ buffer hit: overhead, bus
//!                          │ media:      overhead, [operation under way,] seek, rotation, transfer
//! between commands: the last read goes on into its segment; waiting writes go to the disk
//! ```
//!
//! Invariants: completion times do not decrease, and the parts of each add up to its response time.
//! A command's overhead overlaps with the media's work for the previous command, but not with its
//! overhead.
//!
//! A forced read is served from the media. Its sectors in the write buffer are not destaged first.

use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::Model;
use crate::completion::{Done, Parts, Tag};
use crate::firmware::{Firmware, MediaCache};
use crate::in_progress::InProgressCommand;
use crate::mechanism::{Access, Feed, Mechanism, Transfer};
use crate::media_cache::Log;
use crate::queue::{Choice, Command, Order, Queue, Scene};
use crate::read_buffer::{Found, ReadBuffer};
use crate::seek_jitter::SeekJitter;
use crate::write_buffer::WriteBuffer;

mod streaming;

/// One drive, with all its state.
#[derive(Clone, Debug)]
pub struct Device {
    model: Arc<Model>,
    queue: Queue,
    serving: Option<Done>,
    mechanism: Mechanism,
    reads: ReadBuffer,
    writes: WriteBuffer,
    log: Log,
    /// The latest instant that came in.
    clock: Instant,
    /// When the last command in service was or will be done.
    free: Instant,
    /// When the electronics are done with the overhead of the last command.
    electronics_free: Instant,
    after_write: bool,
    /// Where the last command ended, if it was a write.
    written: Option<Lba>,
    /// Whether a read waited when the command in service was begun: it goes before further
    /// destaging.
    read_waits: bool,
    /// When the next command is chosen, while the arm is held for a stream though commands wait.
    choice_at: Option<Instant>,
    /// Until when the arm is held for the stream of the last command.
    held_until: Instant,
}

impl Device {
    /// The idle drive with empty buffers, at time zero.
    pub fn new(model: Arc<Model>) -> Self {
        Self {
            queue: Queue::new(&model),
            serving: None,
            mechanism: Mechanism::new(
                model.rotation(),
                SeekJitter::new(model.spec().arm.variation, 0),
            ),
            reads: ReadBuffer::new(&model),
            writes: WriteBuffer::of(&model),
            log: Log::default(),
            clock: Instant::ZERO,
            free: Instant::ZERO,
            electronics_free: Instant::ZERO,
            after_write: false,
            written: None,
            read_waits: false,
            choice_at: None,
            held_until: Instant::ZERO,
            model,
        }
    }

    /// The same drive with its seek jitter seeded with `seed` instead of zero.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.mechanism.set_seek_jitter(SeekJitter::new(self.model.spec().arm.variation, seed));
        self
    }

    /// Addresses on the disk.
    pub fn capacity(&self) -> Sectors {
        self.model.capacity()
    }

    /// The drive's model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Commands that were submitted and not yet taken out by [`Device::complete`].
    pub fn outstanding(&self) -> u32 {
        let count = self.queue.len() + usize::from(self.serving.is_some());
        u32::try_from(count).expect("no more than the queue's depth")
    }

    /// Whether there is room for one more command.
    pub fn can_accept(&self) -> bool {
        self.outstanding() < self.model.queue_depth_max()
    }

    /// Submits a command that the drive may reorder freely.
    ///
    /// # Panics
    /// As [`Device::submit_tagged`].
    pub fn submit(&mut self, now: Instant, tag: Tag, operation: Operation) {
        self.submit_tagged(now, tag, operation, Order::Simple);
    }

    /// Submits a command with a task attribute. A flush with [`Order::Simple`] is taken as
    /// [`Order::Ordered`].
    ///
    /// # Panics
    /// If the queue is full, the extent is not on the disk, a command other than a flush has no
    /// sectors, or time runs backwards: the caller checks these.
    pub fn submit_tagged(&mut self, now: Instant, tag: Tag, operation: Operation, order: Order) {
        self.tick(now);
        assert!(self.can_accept(), "the drive's queue has room");
        if operation.op != Op::Flush {
            let disk = Extent::new(Lba(0), self.capacity());
            assert!(disk.contains(operation.extent), "{} is on the disk", operation.extent);
            assert!(!operation.extent.is_empty(), "a {} has sectors", operation.op);
        }
        self.queue.push(Command::new(&self.model, now, (tag, operation, order)));
        if self.serving.is_none() {
            self.choose_from(now.max(self.free), self.queue.len());
        }
    }

    /// The next instant at which [`Device::complete`] has an effect: the command in service
    /// completes, or the drive chooses the next command. `None` without commands.
    pub fn next_completion(&self) -> Option<Instant> {
        self.serving.map(|done| done.at).or(self.choice_at)
    }

    /// The completion of the command in service, which is fixed when its service starts.
    pub(crate) fn in_service(&self) -> Option<Done> {
        self.serving
    }

    /// Takes out the command that is done at `now`, if there is one.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn complete(&mut self, now: Instant) -> Option<Done> {
        self.tick(now);
        let done = self.serving.take_if(|done| done.at <= now)?;
        self.serve_next();
        Some(done)
    }

    /// Advances background work until `now`, so that [`Device::dirty`] and [`Device::is_quiescent`]
    /// refer to that instant. Nothing else needs it.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn advance(&mut self, now: Instant) {
        self.tick(now);
        if self.serving.is_none() {
            self.background(now);
        }
        self.writes.invariants();
    }

    /// Sectors in the write buffer that are not yet on the disk.
    pub fn dirty(&self) -> Sectors {
        self.writes.dirty(self.clock)
    }

    /// Whether the drive is idle: no command, nothing to destage, nothing to read ahead.
    pub fn is_quiescent(&self) -> bool {
        self.outstanding() == 0 && self.dirty() == Sectors::ZERO && !self.reads.is_reading()
    }

    fn tick(&mut self, now: Instant) {
        assert!(now >= self.clock, "time runs backwards: {now} after {}", self.clock);
        self.clock = now;
        if let Some(at) = self.choice_at.filter(|at| *at <= now) {
            self.choose_from(at, self.queue.known(at));
        }
    }

    fn serve_next(&mut self) {
        let Some(oldest) = self.queue.oldest() else { return };
        let at = oldest.max(self.free);
        // Only commands that arrived before `at` count, so that the time of this call has no
        // effect.
        self.choose_from(at, self.queue.known(at).max(1));
    }

    /// Chooses at `at` among the first `known` of the waiting; or later, if that is what the queue
    /// chooses.
    fn choose_from(&mut self, mut at: Instant, mut known: usize) {
        self.choice_at = None;
        loop {
            self.background(at);
            match self.queue.choose(&self.scene(at, known)) {
                Choice::Serve(place) => return self.start(place, at),
                Choice::Hold(until) => match self.queue.arrival(known).filter(|at| *at < until) {
                    Some(arrival) => (at, known) = (arrival, known + 1),
                    None if until <= self.clock => at = until,
                    None => {
                        self.choice_at = Some(until);
                        return;
                    }
                },
            }
        }
    }

    fn scene(&self, at: Instant, known: usize) -> Scene<'_> {
        Scene {
            model: &self.model,
            mechanism: &self.mechanism,
            reads: &self.reads,
            writes: &self.writes,
            at,
            electronics_free: self.electronics_free,
            after_write: self.after_write,
            held_until: self.held_until,
            known,
        }
    }

    fn start(&mut self, place: usize, start: Instant) {
        let command = self.queue.take(place);
        let waits = |c: &Command| c.operation.op == Op::Read && c.submitted < start;
        self.read_waits = self.queue.iter().any(waits);
        let (at, parts) = self.serve(&command, start);
        debug_assert_eq!(parts.sum(), at.since(command.submitted), "the parts add up");
        self.free = at;
        self.read_waits = false;
        self.after_write = command.operation.op.writes();
        self.written = self.after_write.then_some(command.operation.extent.end());
        self.serving = Some(Done { tag: command.tag, at, parts });
    }

    fn serve(&mut self, command: &Command, start: Instant) -> (Instant, Parts) {
        let Operation { op, extent, fua } = command.operation;
        match op {
            Op::Read => self.read(command, start, fua),
            Op::Write | Op::WriteZeroes => self.write(command, start),
            Op::Flush => self.flush(command, start),
            Op::Seek => self.seek(command, start),
            Op::Trim => {
                // Where a mapping is all that changes, nothing moves; what was read ahead reads as
                // before.
                let overhead = self.model.overheads(self.after_write).control;
                let in_progress = self.begin(command, extent, start, overhead);
                (in_progress.ready, in_progress.parts)
            }
        }
    }

    /// The electronics' part of a command. It runs beside the media's work for the commands before
    /// it, but not beside their overhead.
    fn begin(
        &mut self,
        command: &Command,
        extent: Extent,
        start: Instant,
        overhead: Duration,
    ) -> InProgressCommand {
        let decoded = command.submitted.max(self.electronics_free) + overhead;
        self.electronics_free = decoded;
        let ready = decoded.max(start);
        let queue = start.since(command.submitted);
        let parts = Parts { queue, overhead: ready.since(start), ..Parts::default() };
        InProgressCommand { extent, ready, parts }
    }

    fn read(&mut self, command: &Command, start: Instant, fua: bool) -> (Instant, Parts) {
        let extent = command.operation.extent;
        let overheads = *self.model.overheads(self.after_write);
        let dirty = self.writes.holds(extent, start);
        let found = if fua { Found::Miss } else { self.reads.find(&self.model, extent) };
        let firmware = *self.model.firmware();
        let (bus, one) = (self.model.bus(extent.len), self.model.bus(Sectors(1)));
        let hit = matches!(found, Found::All | Found::Arriving);
        let start = if hit || dirty && !fua { start } else { self.destage_first(start) };
        let bus = firmware.bus.prepare + bus;
        let end = firmware.bus.read_done;
        let done = match found {
            _ if dirty && !fua => {
                let in_progress = self.begin(command, extent, start, overheads.read_hit);
                in_progress.transferred(in_progress.ready + bus + end)
            }
            Found::All => {
                let in_progress = self.begin(command, extent, start, overheads.read_hit);
                self.reads.hit(&self.model, &mut self.mechanism, extent, start);
                in_progress.transferred(in_progress.ready + bus + end)
            }
            Found::Arriving => {
                let in_progress = self.begin(command, extent, start, overheads.read_hit);
                self.reads.arrive(&self.model, &mut self.mechanism, extent, start);
                let last = self.mechanism.free() + one;
                in_progress.transferred(last.max(in_progress.ready + bus) + end)
            }
            Found::Head(segment, end) => {
                // What is there goes on the bus at once, where the firmware knows of hits.
                let hit =
                    if firmware.strict_hits { overheads.read_hit } else { overheads.read_miss };
                let in_progress = self.begin(command, extent, start, hit);
                let arm = in_progress.ready + overheads.read_miss.saturating_sub(hit);
                self.read_media(&in_progress, (start, arm), end, Some(segment))
            }
            Found::Miss => {
                let in_progress = self.begin(command, extent, start, overheads.read_miss);
                self.read_media(&in_progress, (start, in_progress.ready), extent.start, None)
            }
        };
        self.reads.served(done.0, done.0 + self.model.period());
        if let Some(choosing) = self.model.discipline().choosing()
            && hit
            && self.reads.is_reading()
        {
            self.held_until = done.0 + choosing.stream_hold;
        }
        done
    }

    /// Reads what is not in the buffer, from `from` on.
    fn read_media(
        &mut self,
        in_progress: &InProgressCommand,
        (seen, arm): (Instant, Instant),
        from: Lba,
        head: Option<usize>,
    ) -> (Instant, Parts) {
        let InProgressCommand { extent, ready, .. } = *in_progress;
        let Firmware { bus, zero_latency_read: zero_latency, .. } = *self.model.firmware();
        // The last read goes on until this one needs the arm, or, where hits are strict, until it
        // is seen.
        let stop = if self.model.firmware().strict_hits { seen } else { arm };
        self.reads.advance(&self.model, &mut self.mechanism, stop);
        let missing = Extent::new(from, Sectors(extent.end().0 - from.0));
        let share = u128::from(missing.len.0) * u128::from(bus.read_share.ppb()) / 1_000_000_000;
        let mark = u64::try_from(share).unwrap_or(1).max(1);
        let order = Transfer { at: arm, mark, zero_latency, ..Transfer::default() };
        let access = self.mechanism.access(&self.model, missing, &order);
        self.reads.fill(&self.model, extent, head, access.passed);
        // The bus is released while the arm moves, and requested again when enough of the data is
        // there, which is prepared meanwhile. Data from the buffer is transferred at once.
        let one = self.model.bus(Sectors(1));
        let on = if head.is_some() {
            ready + bus.prepare
        } else {
            let release = if self.after_write {
                bus.read_disconnect_after_write
            } else {
                bus.read_disconnect
            };
            (ready + release).max(access.marked) + bus.reselect.max(bus.prepare)
        };
        // It follows the media, one sector behind it, and carries no more than it can.
        let carried = on.max(access.marked) + self.model.bus(missing.len);
        let all = on + self.model.bus(extent.len);
        in_progress.accessed(&access, (access.end + one).max(carried).max(all) + bus.read_done)
    }

    fn write(&mut self, command: &Command, start: Instant) -> (Instant, Parts) {
        let Operation { op, extent, fua } = command.operation;
        let overheads = *self.model.overheads(self.after_write);
        // Zeroes are made in the drive: only the command crosses the bus.
        let carried = if op == Op::Write { extent.len } else { Sectors::ZERO };
        self.reads.advance(&self.model, &mut self.mechanism, start);
        self.reads.invalidate(&self.model, extent);
        if fua || extent.len > self.writes.write_max() {
            let elsewhere = self.after_write && self.written != Some(extent.start);
            let extra = self.model.firmware().bus.extra_disconnect.filter(|_| elsewhere);
            let overhead = extra.map_or(overheads.write_media, |extra| extra.command);
            let start = self.destage_first(start);
            let in_progress = self.begin(command, extent, start, overhead);
            let done = self.write_media(&in_progress, carried, elsewhere);
            self.reads.written(&self.model, extent);
            return done;
        }
        let in_progress = self.begin(command, extent, start, overheads.write_cached);
        self.background(in_progress.ready);
        if let Some((from, at)) = self.continue_run(extent, in_progress.ready, carried) {
            let mut parts = in_progress.parts;
            parts.queue += from.since(in_progress.ready);
            parts.transfer = at.since(from);
            return (at, parts);
        }
        let room = self.make_room(extent, in_progress.ready);
        let bus = self.model.firmware().bus;
        let data = room + bus.prepare;
        let at = data + self.model.bus_write(carried) + bus.write_done;
        let idle = !self.writes.is_waiting() && self.writes.under_way(room).is_none();
        if idle && self.model.firmware().begins_writes_at_once() {
            self.write_at_once(extent, (room, data), carried);
        } else {
            self.background(at);
            self.writes.insert(extent, at);
        }
        self.reads.written(&self.model, extent);
        let mut parts = in_progress.parts;
        parts.queue += room.since(in_progress.ready);
        parts.transfer = at.since(room);
        (at, parts)
    }

    /// Begins to write `extent` at `from`, while its data comes over the bus from `data` on.
    fn write_at_once(
        &mut self,
        extent: Extent,
        (from, data): (Instant, Instant),
        carried: Sectors,
    ) {
        self.reads.stop();
        let sector = self.model.bus_write(Sectors(carried.0.min(1)));
        let feed = Feed { gate: data + sector, first: data + sector, sector };
        let firmware = self.model.firmware();
        let settled = from + self.model.write_move_min();
        let zero_latency = firmware.zero_latency_write && settled >= data + sector * carried.0;
        let order = Transfer { write: true, at: from, settled, feed, mark: 0, zero_latency };
        let access = self.mechanism.access(&self.model, extent, &order);
        self.writes.begun(extent, access.end);
    }

    /// Writes onto the disk, `carried` sectors of it over the bus meanwhile.
    fn write_media(
        &mut self,
        in_progress: &InProgressCommand,
        carried: Sectors,
        elsewhere: bool,
    ) -> (Instant, Parts) {
        let ready = in_progress.ready;
        self.background(ready);
        self.reads.stop();
        let extent = self.writes.take_with(in_progress.extent);
        let firmware = *self.model.firmware();
        let bus = firmware.bus;
        // A write that follows one elsewhere gives the bus up before its data, too.
        let extra = bus.extra_disconnect.filter(|_| elsewhere);
        let (arm, on, release, reselect) = match extra {
            None => (ready, ready, bus.write_disconnect, bus.reselect),
            Some(extra) => {
                let on = ready + extra.disconnect + extra.pause + bus.reselect;
                (ready + extra.seek_delay, on, extra.second_disconnect, extra.second_reselect)
            }
        };
        let data = on + bus.prepare;
        let sector = self.model.bus_write(Sectors(carried.0.min(1)));
        let feed = Feed {
            gate: data + sector * bus.write_ahead.of(carried).0,
            first: data + sector,
            sector,
        };
        let settled = arm + self.model.write_move_min();
        let zero_latency = firmware.zero_latency_write && settled >= data + sector * carried.0;
        let order = Transfer { write: true, at: arm, settled, feed, mark: 0, zero_latency };
        let access = self.mechanism.access(&self.model, extent, &order);
        let carried = data + self.model.bus_write(carried) + release;
        in_progress.accessed(&access, access.end.max(carried) + reselect + bus.write_done)
    }

    /// Moves the arm and leaves it there. Reading ahead ends, as for any other movement.
    fn seek(&mut self, command: &Command, start: Instant) -> (Instant, Parts) {
        let extent = command.operation.extent;
        let overhead = self.model.overheads(self.after_write).control;
        let in_progress = self.begin(command, extent, start, overhead);
        self.background(in_progress.ready);
        self.reads.advance(&self.model, &mut self.mechanism, in_progress.ready);
        self.reads.stop();
        let (begin, settled) = self.mechanism.seek(&self.model, extent.start, in_progress.ready);
        let mut parts = in_progress.parts;
        parts.queue += begin.since(in_progress.ready);
        parts.seek = settled.since(begin);
        (settled, parts)
    }

    fn flush(&mut self, command: &Command, start: Instant) -> (Instant, Parts) {
        let overhead = self.model.overheads(self.after_write).control;
        let in_progress = self.begin(command, command.operation.extent, start, overhead);
        self.background(in_progress.ready);
        let mut at = in_progress.ready;
        let mut parts = in_progress.parts;
        if let Some((_, end)) = self.writes.under_way(at) {
            parts.queue += end.since(at);
            at = end;
        }
        while let Some(access) = self.destage(at) {
            parts.queue += access.begin.since(at);
            parts.seek += access.seek();
            parts.rotation += access.rotation();
            parts.transfer += access.transfer();
            at = access.end;
        }
        if let Some(cache) = &self.model.firmware().media_cache {
            let took = self.log.close(cache);
            if took > Duration::ZERO {
                let closed = self.mechanism.stay(self.model.rotation(), at, took);
                parts.queue += closed.begin.since(at);
                parts.transfer += closed.transfer();
                at = closed.end;
            }
        }
        (at, parts)
    }

    /// Writes buffered runs to the disk until `extent` has room, and says when it has.
    fn make_room(&mut self, extent: Extent, from: Instant) -> Instant {
        let mut at = from;
        while !self.writes.fits(extent, at) {
            if let Some((_, end)) = self.writes.under_way(at) {
                at = end;
            } else {
                self.destage(at).expect("a full buffer has something to write");
            }
        }
        at
    }

    /// The drive's own work, up to what would begin at `until`.
    fn background(&mut self, until: Instant) {
        while self.writes.is_waiting() && !self.read_waits {
            let mut at = self.mechanism.free().max(self.writes.since());
            if let Some(hold) = self.reads.hold() {
                at = at.max(hold);
            }
            if at >= until {
                break;
            }
            self.destage(at);
        }
        self.reads.advance(&self.model, &mut self.mechanism, until);
    }

    /// Writes the next run, or the head of it, to the disk from `at` on, or from when the mechanism
    /// is free.
    fn destage(&mut self, at: Instant) -> Option<Access> {
        if !self.writes.is_waiting() {
            return None;
        }
        self.reads.advance(&self.model, &mut self.mechanism, at);
        self.reads.stop();
        let extent = self.writes.take_next(self.mechanism.next_lba())?;
        let cache = self.model.firmware().media_cache;
        let access = match cache {
            Some(cache) if self.is_logged(&cache, extent, at) => {
                self.log.append(&cache);
                self.mechanism.stay(self.model.rotation(), at, cache.append)
            }
            _ => {
                let order = Transfer { write: true, at, ..Transfer::default() };
                self.mechanism.access(&self.model, extent, &order)
            }
        };
        self.writes.begun(extent, access.end);
        Some(access)
    }

    /// Whether a run that goes to the disk at `at` goes into the log there.
    fn is_logged(&mut self, cache: &MediaCache, extent: Extent, at: Instant) -> bool {
        extent.len <= cache.run_max
            && extent.start != self.mechanism.next_lba()
            && self.log.has_room(cache, self.mechanism.free(), at)
    }
}
