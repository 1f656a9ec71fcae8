//! The write buffers of one disk: for each volume a bounded one, volatile as a drive's is. Sans-IO,
//! without bytes.
//!
//! A drive's own buffer answers a write before the work is done. The work falls into the time of
//! the volume that comes next, and a flush of one volume waits for the writes of all. So the buffer
//! is here: it stands between the clients' requests and the engine of one disk, and sends what a
//! volume wrote to the disk as *destages*, forced writes of that volume, which the engine schedules
//! and charges as any other.
//!
//! ```text
//!  client's write ──▶ submit ──▶ Buffered: the driver keeps the bytes, and answers
//!                        └─────▶ Waits: no memory; poll says Accept later
//!  poll ──▶ Destage ──▶ the engine ──▶ destaged ──▶ poll says Answer to a flush, Drop, Accept
//! ```
//!
//! A destage is due when a flush or a forced write waits for it, when half of the volume's memory
//! is in use, or when the data is old; else it goes when the disk has had nothing to do for a
//! while. Data goes in the order of its sectors, from where the last destage ended and around, and
//! neighbours in one write.
//!
//! Volumes may have sectors in common over time: those of a pool, whose blocks are moved and freed.
//! A request waits until what other volumes have buffered of its sectors is on the medium.
//!
//! The writes of a volume without a buffer, or whose buffer is disabled, go to the disk as forced
//! ones, so that its flushes have nothing to wait for. Those of a volume all of whose flushes go to
//! the drive ([`WriteBuffer::pass_flushes`]) go there as they are while no other volume uses the
//! disk.
//!
//! Invariants:
//! - A flush is answered when all that its volume was answered before it is on the medium, and
//!   waits for no other volume. A forced write is answered when it is there itself. What a destage
//!   failed to write fails the flush, unless its driver acts on that
//!   ([`WriteBuffer::report_losses`]).
//! - Two writes of one sector reach the disk in their order: a part goes when none that overlaps
//!   it is in the engine.
//! - What is not flushed may be lost with the power, in any subset: a sector then holds one of the
//!   writes since the last flush, or the last one before that.
//! - A request that goes past the buffer (a long write, a trim, a write of zeroes) waits for what
//!   it overlaps, and is waited for: changes of a volume that share sectors reach the disk in the
//!   order in which they were sent. A read sees the newest data.
//! - A volume's memory is bounded by its part of the disk's, so a full buffer makes one client
//!   wait. Beside it a volume's destages hold copies of what they write: at most as much again.

use std::collections::VecDeque;

use units::{Extent, Instant, Op, Sectors};

use self::parts::{Part, Since};
use self::volume::{DriveFlush, Terms, Then, Urgency, Volume, WaitingWrite};
use crate::VolumeId;
use crate::limits::{DEFER_AFTER, DESTAGE_IDLE, WRITE_BUFFER_PARTS_MAX};
use crate::policy::indexed_heap::IndexedHeap;
use crate::request::{Outcome, Request, RequestId};

mod interface;
mod order;
mod parts;
mod queries;
mod volume;

pub use interface::{
    BufferedPart, Buffering, Destage, DestageId, Handling, PieceId, WriteBufferAction,
    WriteBufferSettings, WriteBufferUsage,
};

/// The bytes of one write.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its memory: that of the whole write until none of it is needed.
    len: Sectors,
    /// The sectors of it that parts hold.
    held: Sectors,
}

/// The write buffers of one disk.
#[derive(Debug)]
pub struct WriteBuffer {
    settings: WriteBufferSettings,
    used: Sectors,
    /// What was done for volumes that are removed.
    removed: WriteBufferUsage,
    volumes: Vec<Option<Volume>>,
    present: u64,
    pieces: Vec<Piece>,
    free: Vec<PieceId>,
    /// Volumes that may have a destage, an answer, or a write to accept.
    listed: VecDeque<VolumeId>,
    actions: VecDeque<WriteBufferAction>,
    /// The volumes that have data which may go to the disk, by the instant of the oldest.
    ages: IndexedHeap<Instant>,
    /// Since when the engine has had no request, and the instant of the last poll.
    idle_since: Option<Instant>,
    polled: Instant,
    /// Volumes whose first waiting write fits their own bound, and not the memory that others,
    /// whose bounds became smaller, have not given back yet.
    starved: Vec<VolumeId>,
    /// The volume of the last request, and when another one's was the last.
    user: Option<(VolumeId, Instant)>,
    /// The last request of a volume whose flushes do not all go to the drive.
    client_at: Option<Instant>,
    next: u64,
}

impl WriteBuffer {
    /// Without volumes.
    ///
    /// # Panics
    /// On settings outside their bounds.
    pub fn new(settings: WriteBufferSettings) -> Self {
        settings.assert_valid();
        Self {
            settings,
            used: Sectors::ZERO,
            removed: WriteBufferUsage::default(),
            volumes: Vec::new(),
            present: 0,
            pieces: Vec::new(),
            free: Vec::new(),
            listed: VecDeque::new(),
            actions: VecDeque::new(),
            ages: IndexedHeap::new(),
            idle_since: None,
            polled: Instant::ZERO,
            starved: Vec::new(),
            user: None,
            client_at: None,
            next: 0,
        }
    }

    /// A volume is added. Its writes are buffered in memory of at most `bound`; if that is zero,
    /// they go to the disk.
    ///
    /// # Panics
    /// If it was added already.
    pub fn add_volume(&mut self, volume: VolumeId, bound: Sectors) {
        let index = volume.0 as usize;
        if index >= self.volumes.len() {
            self.volumes.resize_with(index + 1, || None);
        }
        assert!(self.volumes[index].is_none(), "volume {} is added once", volume.0);
        self.volumes[index] = Some(Volume::new(bound));
        self.present += u64::from(bound > Sectors::ZERO);
        self.divide();
    }

    /// Says where further writes of a volume are buffered.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn set_buffering(&mut self, volume: VolumeId, buffering: Buffering) {
        self.volume(volume).buffering = buffering;
        self.list(volume);
        debug_assert!(self.volume(volume).is_listed, "it is looked at");
    }

    /// A volume is removed; it was flushed and has no requests.
    ///
    /// # Panics
    /// If it has data.
    pub fn remove_volume(&mut self, volume: VolumeId) {
        let gone = self.volumes.get_mut(volume.0 as usize).and_then(Option::take);
        let gone = gone.expect("the volume was added");
        assert!(gone.is_empty(), "a volume is flushed before it goes");
        assert!(gone.past.is_empty(), "its requests have ended");
        self.present -= u64::from(gone.own > Sectors::ZERO);
        self.removed = self.removed + WriteBufferUsage { bound: Sectors::ZERO, ..gone.usage };
        self.ages.remove(volume);
        self.divide();
    }

    /// Divides the memory among the volumes.
    fn divide(&mut self) {
        let part = Sectors(self.settings.memory.0 / self.present.max(1));
        debug_assert!(part.0 * self.present <= self.settings.memory.0, "parts of the memory");
        for volume in self.volumes.iter_mut().flatten() {
            volume.usage.bound = part.min(volume.own);
        }
    }

    /// When [`Self::poll`] is to be called at the latest, if nothing happens before.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let (oldest, _) = self.ages.first()?;
        let idle = self.idle_since.map(|since| since + DESTAGE_IDLE);
        let old = oldest + self.settings.age;
        Some(idle.filter(|idle| *idle > self.polled).map_or(old, |idle| idle.min(old)))
    }

    /// Notes a client's request of a volume, and says how it is handled.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn submit(&mut self, request: &Request, now: Instant) -> Handling {
        let Request { id, volume, operation } = *request;
        self.note_user(volume, now);
        if self.volume(volume).flushes != DriveFlush::Always {
            self.client_at = Some(now);
        }
        if let Some(other) = self.dirty_elsewhere(volume, operation.extent) {
            self.volume(other).wait_for(id, operation.extent, Then::Again);
            if operation.op.writes() {
                self.volume(volume).wait_elsewhere(id, operation);
            }
            return self.waits(other);
        }
        let there = self.volume(volume);
        match operation.op {
            Op::Write => self.write(request, now),
            Op::Read => there.read(operation.extent),
            Op::Flush => match there.flush(id) {
                Handling::Waits => self.waits(volume),
                handled => handled,
            },
            Op::Trim | Op::WriteZeroes => self.past(request),
            Op::Seek => Handling::Disk,
        }
    }

    /// A volume uses the disk. If the one before has data in the drive's buffer, that is flushed.
    fn note_user(&mut self, volume: VolumeId, now: Instant) {
        let before = self.user.map(|(user, _)| user);
        if before == Some(volume) {
            return;
        }
        self.user = Some((volume, now));
        debug_assert!(now >= self.polled, "time goes on");
        if let Some(before) = before.filter(|user| self.volumes[user.0 as usize].is_some()) {
            self.list(before);
        }
    }

    /// Whether no other volume than this one has used the disk for a while.
    fn is_alone(&self, volume: VolumeId, now: Instant) -> bool {
        debug_assert!(self.user.is_none_or(|(_, since)| since <= now), "requests are of the past");
        self.user.is_some_and(|(user, since)| user == volume && since + DEFER_AFTER <= now)
    }

    /// Another volume that has buffered some of these sectors.
    fn dirty_elsewhere(&self, volume: VolumeId, extent: Extent) -> Option<VolumeId> {
        if !self.settings.is_shared || extent.is_empty() {
            return None;
        }
        let all = (0..).map(VolumeId).zip(&self.volumes);
        let others = all.filter(|(other, _)| *other != volume);
        let mut dirty = others.filter_map(|(other, there)| Some((other, there.as_ref()?)));
        let found = dirty.find(|(_, there)| there.is_dirty(extent));
        debug_assert!(found.is_none_or(|(_, there)| !there.is_empty()), "it has data");
        found.map(|(other, _)| other)
    }

    /// From now on all flushes of a volume go to the disk.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn pass_flushes(&mut self, volume: VolumeId) {
        let there = self.volume(volume);
        debug_assert!(there.is_empty(), "it is set at the start");
        there.flushes = DriveFlush::Always;
    }

    /// From now on the driver acts on a destage of this volume that fails, before it hands on
    /// anything that has ended since: a later flush does not fail for it. So it is with one copy
    /// of several, where the others have what is lost.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn report_losses(&mut self, volume: VolumeId) {
        let there = self.volume(volume);
        debug_assert!(there.is_empty(), "it is set at the start");
        there.reports_losses = true;
    }

    fn write(&mut self, request: &Request, now: Instant) -> Handling {
        let Request { id, volume, operation } = *request;
        let extent = operation.extent;
        let there = self.volume(volume);
        if there.buffering == Buffering::Off || extent.len > there.usage.bound || extent.is_empty()
        {
            return self.past(request);
        }
        let number = there.number_of(id);
        let write = WaitingWrite { request: id, extent, forced: operation.fua, number };
        if there.is_behind(number, extent) || !self.fits(volume, extent.len) {
            self.volume(volume).wait_to_be_accepted(write);
            return self.waits(volume);
        }
        let piece = self.accept(volume, &write, now);
        if operation.fua { Handling::Forced(piece) } else { Handling::Buffered(piece) }
    }

    /// A request that goes past the buffer.
    fn past(&mut self, request: &Request) -> Handling {
        let Request { id, volume, operation } = *request;
        debug_assert_ne!(operation.op, Op::Read, "reads see the buffer");
        if self.volume(volume).waits_to_pass(id, operation) {
            return self.waits(volume);
        }
        Handling::Disk
    }

    /// A client's request that went to the disk has ended, whatever its outcome. What shares
    /// sectors with a change that went past the buffer goes on.
    ///
    /// # Panics
    /// If the volume was not added.
    pub fn ended(&mut self, volume: VolumeId, request: RequestId) {
        if self.volume(volume).past_ended(request) {
            self.list(volume);
        }
    }

    fn waits(&mut self, volume: VolumeId) -> Handling {
        self.list(volume);
        Handling::Waits
    }

    /// Whether a write of this length may be accepted.
    fn fits(&mut self, volume: VolumeId, len: Sectors) -> bool {
        let there = self.volumes[volume.0 as usize].as_ref().expect("the volume was added");
        // A write adds itself, and divides at most one part in two.
        let has_parts = there.parts.len() + 2 <= WRITE_BUFFER_PARTS_MAX;
        let WriteBufferUsage { used, bound, .. } = there.usage;
        // The bound may have become smaller than a write that waits.
        let has_memory = used == Sectors::ZERO || used + len <= bound;
        if !has_memory || !has_parts {
            return false;
        }
        let fits = self.used + len <= self.settings.memory;
        if !fits && !self.starved.contains(&volume) {
            self.starved.push(volume);
        }
        fits
    }

    fn accept(&mut self, volume: VolumeId, write: &WaitingWrite, now: Instant) -> PieceId {
        let WaitingWrite { request, extent, forced, number } = *write;
        let piece = self.new_piece(extent.len);
        let there = self.volumes[volume.0 as usize].as_mut().expect("the volume was added");
        let mut replaced: Option<Since> = None;
        let Self { pieces, used, actions, .. } = self;
        let usage = &mut there.usage;
        let all = |_: &Part| true;
        there.parts.remove(extent, all, |part| {
            if part.destage.is_none() {
                usage.overwritten += part.extent.len;
                let since = replaced.map_or(part.since, |oldest| oldest.min(part.since));
                replaced = Some(since);
            }
            release(&part, pieces, (used, &mut usage.used), actions);
        });
        let since = there.accepted(number, replaced, now);
        let offset = Sectors::ZERO;
        there.parts.insert(Part { extent, piece, offset, since, destage: None });
        there.usage.used += extent.len;
        there.usage.writes += 1;
        if forced {
            there.wait_for(request, extent, Then::Answer);
        }
        self.used += extent.len;
        debug_assert!(since.at <= now, "a part is of the past");
        self.list(volume);
        piece
    }

    fn new_piece(&mut self, len: Sectors) -> PieceId {
        let piece = Piece { len, held: len };
        if let Some(id) = self.free.pop() {
            self.pieces[id.0 as usize] = piece;
            return id;
        }
        self.pieces.push(piece);
        PieceId(u32::try_from(self.pieces.len() - 1).expect("pieces are bounded by the memory"))
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        let there = self.volumes.get_mut(volume.0 as usize).and_then(Option::as_mut);
        there.expect("the volume was added")
    }

    /// Puts a volume on the list of those to look at.
    fn list(&mut self, volume: VolumeId) {
        let there = self.volume(volume);
        if !core::mem::replace(&mut there.is_listed, true) {
            self.listed.push_back(volume);
        }
    }

    /// The next action; the engine has this many requests, destages among them.
    pub fn poll(&mut self, requests: usize, now: Instant) -> Option<WriteBufferAction> {
        debug_assert!(now >= self.polled, "time goes on");
        self.polled = now;
        // Destages count: a client that writes on and on is not to have each write sent at once,
        // as a run goes in few long ones.
        let is_idle = requests == 0;
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));
        while let Some((oldest, volume)) = self.ages.first()
            && oldest + self.settings.age <= now
        {
            // What is old is on its way, or goes when the volume is looked at next.
            self.ages.remove(volume);
            self.list(volume);
        }
        loop {
            if let Some(action) = self.next_action() {
                return Some(action);
            }
            let Some(volume) = self.listed.front().copied() else { break };
            self.look_at(volume, now);
            if self.actions.is_empty() {
                self.listed.pop_front();
                self.unlist(volume);
            }
        }
        let rested = self.idle_since.is_some_and(|since| since + DESTAGE_IDLE <= now);
        while let Some((oldest, volume)) = self.ages.first().filter(|_| rested) {
            if self.destage(volume, Urgency::Idle, now).is_some() {
                return self.next_action();
            }
            self.note_age(volume);
            if self.ages.first() == Some((oldest, volume)) {
                break;
            }
        }
        None
    }

    fn next_action(&mut self) -> Option<WriteBufferAction> {
        let action = self.actions.pop_front()?;
        if let WriteBufferAction::Drop(piece) = action {
            debug_assert_eq!(self.pieces[piece.0 as usize].held, Sectors::ZERO, "it is not held");
            // Its number is another's only after the driver has released the bytes.
            self.free.push(piece);
        }
        Some(action)
    }

    /// A volume has nothing to do for now.
    fn unlist(&mut self, volume: VolumeId) {
        if let Some(there) = self.volumes[volume.0 as usize].as_mut() {
            there.is_listed = false;
            self.note_age(volume);
        }
    }

    /// Enters a volume into the order of those that have data which may go to the disk.
    fn note_age(&mut self, volume: VolumeId) {
        let there = self.volumes[volume.0 as usize].as_ref().expect("the volume was added");
        debug_assert!(!there.is_listed, "a listed volume is looked at first");
        match there.oldest(self.settings.depth) {
            Some(oldest) => self.ages.set(volume, oldest),
            None => self.ages.remove(volume),
        }
    }

    /// Finds the next action of a volume, if it has one.
    fn look_at(&mut self, volume: VolumeId, now: Instant) {
        debug_assert!(self.actions.is_empty(), "one volume's actions at a time");
        let Some(there) = self.volumes[volume.0 as usize].as_mut() else { return };
        if let Some((request, then, outcome)) = there.next_answer() {
            self.actions.push_back(match then {
                Then::Answer => WriteBufferAction::Answer { request, outcome },
                Then::Submit => WriteBufferAction::Submit(request),
                Then::Again => WriteBufferAction::Again(request),
            });
            return;
        }
        let next = there.next_waiting();
        if let Some(write) = next
            && self.fits(volume, write.extent.len)
        {
            self.volume(volume).waiting.pop_front();
            let piece = self.accept(volume, &write, now);
            let WaitingWrite { request, forced, .. } = write;
            self.actions.push_back(WriteBufferAction::Accept { request, piece, forced });
            return;
        }
        self.destage(volume, Urgency::Due, now);
    }

    fn destage(&mut self, volume: VolumeId, urgency: Urgency, now: Instant) -> Option<()> {
        let id = DestageId(self.next);
        let WriteBufferSettings { depth, age, .. } = self.settings;
        let terms = Terms { urgency, depth, age, is_alone: self.is_alone(volume, now), now };
        let operation = self.volume(volume).destage(id, &terms)?;
        self.next += 1;
        debug_assert_ne!(operation.op, Op::Read, "a destage writes, or flushes");
        self.actions.push_back(WriteBufferAction::Destage(Destage { id, volume, operation }));
        Some(())
    }

    /// A destage has ended.
    ///
    /// # Panics
    /// If it is not in the engine.
    pub fn destaged(&mut self, destage: &Destage, outcome: Outcome) {
        let Destage { id, volume, .. } = *destage;
        let there = self.volumes[volume.0 as usize].as_mut().expect("the volume was added");
        let written = there.destaged(id, outcome);
        let Self { pieces, used, actions, .. } = self;
        let usage = &mut there.usage;
        let own = |part: &Part| part.destage == Some(id);
        if let Some(extent) = written {
            there.parts.remove(extent, own, |part| {
                release(&part, pieces, (used, &mut usage.used), actions);
            });
        }
        self.list(volume);
        while let Some(starved) = self.starved.pop() {
            if self.volumes[starved.0 as usize].is_some() {
                self.list(starved);
            }
        }
    }

    /// Checks the invariants; for tests and simulations.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn invariants(&self) {
        assert!(self.used <= self.settings.memory, "the memory is bounded");
        let volumes = || self.volumes.iter().flatten();
        volumes().for_each(Volume::invariants);
        let held = volumes().flat_map(|there| there.parts.from(0)).map(|part| part.extent.len.0);
        let pieces = self.pieces.iter().map(|piece| piece.held.0);
        assert_eq!(held.sum::<u64>(), pieces.sum::<u64>(), "a piece is held by its parts");
        let used = self.pieces.iter().filter(|piece| piece.held.0 > 0).map(|piece| piece.len.0);
        assert_eq!(used.sum::<u64>(), self.used.0, "memory is that of the pieces");
        let used = volumes().map(|there| there.usage.used.0).sum::<u64>();
        assert_eq!(used, self.used.0, "the memory is the volumes'");
    }
}

/// A part is not held any more; its piece goes with the last one.
fn release(
    part: &Part,
    pieces: &mut [Piece],
    (used, own): (&mut Sectors, &mut Sectors),
    actions: &mut VecDeque<WriteBufferAction>,
) {
    let piece = &mut pieces[part.piece.0 as usize];
    assert!(piece.held >= part.extent.len, "a part is held once");
    piece.held = piece.held - part.extent.len;
    if piece.held == Sectors::ZERO {
        *used = *used - piece.len;
        *own = *own - piece.len;
        actions.push_back(WriteBufferAction::Drop(part.piece));
    }
}
