//! The write buffer of one volume: what it holds, what waits for it, and what goes to the disk
//! next.

use std::collections::{BTreeSet, VecDeque};

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::interface::{Buffering, DestageId, Handling, WriteBufferUsage};
use super::order::{PastRequest, PastRequests};
use super::parts::{Part, Parts, Since, overlap};
use crate::limits::{DEPTH_MAX, DESTAGE_MAX, WRITE_BUFFER_MEMORY_MAX};
use crate::request::{Outcome, RequestId};

/// The long writes of a volume in the engine. What arrives while the disk writes one joins the
/// next, so that the buffer goes in as few as possible: each ends with a flush.
const LONG_DEPTH: usize = 1;

/// A write in the engine.
#[derive(Clone, Copy, Debug)]
struct InEngine {
    id: DestageId,
    extent: Extent,
    /// The oldest write of which it has a part.
    since: Since,
    is_forced: bool,
}

/// What happens to a request when what it waited for is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// A flush or a forced write is answered.
    Answer,
    /// A request that goes past the buffer is submitted to the disk.
    Submit,
    /// A request of another volume is handled again.
    Again,
}

/// A request that waits until writes are on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) request: RequestId,
    /// The number of the last write that it waits for.
    until: u64,
    /// The sectors that it waits for; `None` for all of the volume.
    extent: Option<Extent>,
    then: Then,
    outcome: Outcome,
}

impl Waiter {
    /// Whether it is a change that goes past the buffer.
    fn is_past(&self) -> bool {
        debug_assert!(self.extent.is_none_or(|own| !own.is_empty()), "it waits for a sector");
        self.then == Then::Submit && self.extent.is_some()
    }

    fn waits_for(&self, extent: Extent, since: Since) -> bool {
        since.number <= self.until && self.extent.is_none_or(|own| overlap(own, extent))
    }
}

/// A write that waits for memory, or for what was sent before it and goes past the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) request: RequestId,
    pub(super) extent: Extent,
    pub(super) forced: bool,
    pub(super) number: u64,
}

/// Why data is sent to the disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A request waits for it, the memory is half full, or the data is old.
    Due,
    /// Nothing else uses the disk.
    Idle,
}

/// Whether a volume's next flush goes to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DriveFlush {
    /// All that was written is on the medium.
    #[default]
    No,
    /// Sectors were trimmed since the last flush: a trim cannot be forced.
    Trimmed,
    /// All of them do.
    Always,
}

/// What a volume's writes to the disk depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) urgency: Urgency,
    /// Writes in the engine at the most.
    pub(super) depth: u32,
    /// The age at which data is due.
    pub(super) age: Duration,
    /// Whether no other volume uses the disk.
    pub(super) is_alone: bool,
    pub(super) now: Instant,
}

/// The write buffer of one volume.
#[derive(Debug, Default)]
pub(super) struct Volume {
    pub(super) parts: Parts,
    /// In the order of their numbers.
    pub(super) waiting: VecDeque<WaitingWrite>,
    pub(super) past: PastRequests,
    pub(super) usage: WriteBufferUsage,
    /// The bound that it was added with.
    pub(super) own: Sectors,
    pub(super) buffering: Buffering,
    pub(super) flushes: DriveFlush,
    /// Whether it is in the list of volumes to look at.
    pub(super) is_listed: bool,
    in_engine: Vec<InEngine>,
    waiters: VecDeque<Waiter>,
    /// The number of the last change that was sent: a write, a trim, or a write of zeroes.
    number: u64,
    /// The highest number of a write that was accepted.
    accepted: u64,
    /// Where the last write to the disk ended: the next one is the first from there on.
    cursor: Lba,
    /// The instant of the oldest part that may go to the disk, or an earlier one.
    oldest: Option<Instant>,
    /// Of the writes that the drive has buffered since the last flush of it, the oldest.
    in_drive: Option<Since>,
    /// The flush of the drive that is in the engine, and the oldest write that it is for.
    flushing: Option<(DestageId, Since)>,
    /// Whether data was lost that no flush has been told of.
    has_lost: bool,
    /// Whether the driver is to act on a loss: no later flush fails for it.
    pub(super) reports_losses: bool,
}

impl Volume {
    /// With a buffer of at most this size.
    pub(super) fn new(own: Sectors) -> Self {
        debug_assert!(own <= WRITE_BUFFER_MEMORY_MAX, "a bound is within that of a disk");
        Self { own, ..Self::default() }
    }

    /// Whether all that was written is on the medium.
    fn is_clean(&self) -> bool {
        let is_flushed = self.in_drive.is_none() && self.flushing.is_none();
        is_flushed && self.parts.is_empty() && self.in_engine.is_empty()
    }

    /// Whether nothing is buffered, in the engine, or waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.is_clean() && self.waiting.is_empty() && self.waiters.is_empty()
    }

    /// Whether something overlaps `extent` that the drive does not have.
    pub(super) fn is_dirty(&self, extent: Extent) -> bool {
        let in_engine = self.in_engine.iter().any(|write| overlap(write.extent, extent));
        in_engine || self.parts.overlapping(extent).next().is_some()
    }

    /// The instant of the oldest write that may go to the disk, or be flushed there.
    pub(super) fn oldest(&self, depth: u32) -> Option<Instant> {
        debug_assert!(self.in_engine.len() <= depth as usize, "the depth is kept");
        let may_go = self.oldest.filter(|_| self.may_submit(depth));
        let may_be_flushed = self.in_drive.filter(|_| self.flushing.is_none());
        may_go.into_iter().chain(may_be_flushed.map(|since| since.at)).min()
    }

    /// Looks for the oldest part again.
    fn find_oldest(&mut self) {
        let may_go = self.parts.from(0).filter(|part| self.may_go(part));
        self.oldest = may_go.map(|part| part.since.at).min();
        debug_assert!(self.oldest.is_none() || !self.parts.is_empty(), "the oldest is a part's");
    }

    /// Whether a part may go to the disk: none that overlaps it is on its way.
    fn may_go(&self, part: &Part) -> bool {
        let is_in_engine = |write: &InEngine| overlap(write.extent, part.extent);
        part.destage.is_none() && !self.in_engine.iter().any(is_in_engine)
    }

    /// The number of a change that is sent: a new one, unless it had to wait for another volume.
    pub(super) fn number_of(&mut self, request: RequestId) -> u64 {
        if let Some(again) = self.past.take_again(request) {
            return again.number;
        }
        self.number += 1;
        debug_assert!(self.accepted < self.number, "what is accepted was sent");
        self.number
    }

    /// Whether a write has to wait for one before it that goes past the buffer, or for memory as
    /// those before it do.
    pub(super) fn is_behind(&self, number: u64, extent: Extent) -> bool {
        debug_assert!(self.waiting.iter().is_sorted_by_key(|write| write.number), "in order");
        !self.waiting.is_empty() || self.past.is_before(number, extent)
    }

    /// A write waits until it is accepted.
    pub(super) fn wait_to_be_accepted(&mut self, write: WaitingWrite) {
        debug_assert!(write.number <= self.number, "it was sent");
        self.usage.waits += 1;
        let position = self.waiting.partition_point(|other| other.number < write.number);
        self.waiting.insert(position, write);
    }

    /// The next write to accept, if it waits for memory alone.
    pub(super) fn next_waiting(&self) -> Option<WaitingWrite> {
        let next = *self.waiting.front()?;
        debug_assert!(self.waiting.iter().all(|other| other.number >= next.number), "the first");
        (!self.past.is_before(next.number, next.extent)).then_some(next)
    }

    /// A request goes past the buffer: whether it has to wait for those before it.
    pub(super) fn waits_to_pass(&mut self, request: RequestId, operation: Operation) -> bool {
        let number = self.number_of(request);
        let Operation { op, extent, .. } = operation;
        debug_assert!(op.writes(), "only changes have an order");
        if extent.is_empty() {
            return false;
        }
        let waits = self.is_waiting_before(number, extent)
            || self.past.is_before(number, extent)
            || self.is_dirty(extent);
        self.past.add(PastRequest { request, op, extent, number, is_sent: !waits });
        if waits {
            let then = Then::Submit;
            let (extent, outcome) = (Some(extent), Outcome::Done);
            let waiter = Waiter { request, until: number, extent, then, outcome };
            self.waiters.push_back(waiter);
        }
        waits
    }

    /// Whether a write that was sent before `number` waits to be accepted and shares sectors.
    fn is_waiting_before(&self, number: u64, extent: Extent) -> bool {
        debug_assert!(!extent.is_empty(), "a change has sectors");
        let mut before = self.waiting.iter().take_while(|write| write.number < number);
        before.any(|write| overlap(write.extent, extent))
    }

    /// A change waits for what another volume has buffered of its sectors, and is sent again.
    /// Those of this volume after it wait for it.
    pub(super) fn wait_elsewhere(&mut self, request: RequestId, operation: Operation) {
        let number = self.number_of(request);
        let Operation { op, extent, .. } = operation;
        debug_assert!(!extent.is_empty(), "it waits for a sector");
        self.past.add(PastRequest { request, op, extent, number, is_sent: false });
    }

    /// A change that went past the buffer, if it was one, has ended. A trim cannot be forced, so
    /// that the next flush goes to the disk.
    pub(super) fn past_ended(&mut self, request: RequestId) -> bool {
        let Some(ended) = self.past.end(request) else { return false };
        debug_assert!(ended.number <= self.number, "it was sent");
        if ended.op == Op::Trim && self.flushes == DriveFlush::No {
            self.flushes = DriveFlush::Trimmed;
        }
        true
    }

    /// Counts a write that is accepted at `now`, over parts of which the oldest is `replaced`.
    pub(super) fn accepted(&mut self, number: u64, replaced: Option<Since>, now: Instant) -> Since {
        self.accepted = self.accepted.max(number);
        let own = Since { number, at: now };
        debug_assert!(replaced.is_none_or(|replaced| replaced < own), "writes are in order");
        let since = replaced.unwrap_or(own);
        self.oldest = Some(self.oldest.map_or(since.at, |oldest| oldest.min(since.at)));
        since
    }

    /// A flush. It goes to the disk, once all that was written is there, only for what was
    /// trimmed.
    pub(super) fn flush(&mut self, request: RequestId) -> Handling {
        let lost = core::mem::take(&mut self.has_lost);
        let outcome = if lost { Outcome::Failed } else { Outcome::Done };
        let passes = !lost && self.flushes != DriveFlush::No;
        let then = if passes { Then::Submit } else { Then::Answer };
        if passes && self.flushes == DriveFlush::Trimmed {
            self.flushes = DriveFlush::No;
        }
        if !self.is_clean() {
            let until = self.accepted;
            self.waiters.push_back(Waiter { request, until, extent: None, then, outcome });
            return Handling::Waits;
        }
        match then {
            Then::Submit => Handling::Disk,
            Then::Answer | Then::Again => Handling::Flushed(outcome),
        }
    }

    /// `request` waits until all of `extent` that was accepted by now is on the medium.
    pub(super) fn wait_for(&mut self, request: RequestId, extent: Extent, then: Then) {
        debug_assert!(!extent.is_empty(), "it waits for a sector");
        let (until, extent, outcome) = (self.accepted, Some(extent), Outcome::Done);
        self.waiters.push_back(Waiter { request, until, extent, then, outcome });
    }

    /// The next request whose wait is over, with its outcome.
    pub(super) fn next_answer(&mut self) -> Option<(RequestId, Then, Outcome)> {
        let is_over = |waiter: &Waiter| !self.is_waited_for(waiter);
        let position = self.waiters.iter().position(is_over)?;
        let waiter = self.waiters.remove(position)?;
        if waiter.is_past() {
            self.past.send(waiter.request);
        }
        let Waiter { request, extent, then, outcome, .. } = waiter;
        // A flush that has failed is answered.
        let is_over = extent.is_none() && outcome == Outcome::Failed;
        Some((request, if is_over { Then::Answer } else { then }, outcome))
    }

    /// Whether something that `waiter` waits for is not on the medium. Only a flush waits for what
    /// the drive has buffered: a later forced write of the same sectors is not lost with it.
    fn is_waited_for(&self, waiter: &Waiter) -> bool {
        debug_assert!(waiter.until <= self.number, "it waits for what was sent");
        let mut in_drive = self.in_drive.into_iter().chain(self.flushing.map(|(_, since)| since));
        waiter.extent.is_none() && in_drive.any(|since| since.number <= waiter.until)
            || self.is_waited_for_here(waiter)
    }

    /// Whether something that `waiter` waits for is not in the drive. Looks first where the next
    /// write to the disk begins: a flush finds a part there at once as long as there are many.
    fn is_waited_for_here(&self, waiter: &Waiter) -> bool {
        let waits = |part: &Part| waiter.waits_for(part.extent, part.since);
        if self.in_engine.iter().any(|write| waiter.waits_for(write.extent, write.since)) {
            return true;
        }
        if let Some(extent) = waiter.extent {
            let is_behind = waiter.is_past()
                && (self.past.is_before(waiter.until, extent)
                    || self.is_waiting_before(waiter.until, extent));
            return is_behind || self.parts.overlapping(extent).any(waits);
        }
        let cursor = self.parts.position(self.cursor);
        self.parts.from(cursor).any(waits) || self.parts.from(0).take(cursor).any(waits)
    }

    /// What goes to the disk next as `id`, if anything should.
    pub(super) fn destage(&mut self, id: DestageId, terms: &Terms) -> Option<Operation> {
        if let Some(since) = self.in_drive.filter(|since| self.is_flush_due(*since, terms)) {
            debug_assert!(self.flushing.is_none(), "one flush at a time");
            self.in_drive = None;
            self.flushing = Some((id, since));
            return Some(Operation::flush());
        }
        let extent = self.next_extent(id, terms)?;
        let write = Operation::write(extent);
        let Some(InEngine { is_forced: false, .. }) = self.in_engine.last() else {
            return Some(write.with_fua());
        };
        Some(write)
    }

    /// Whether what the drive has buffered, `since` the oldest, is to be flushed: a flush waits for
    /// that alone, another volume uses the disk, or it is old.
    fn is_flush_due(&self, since: Since, terms: &Terms) -> bool {
        let Terms { age, now, .. } = *terms;
        let is_last = |waiter: &Waiter| {
            waiter.extent.is_none()
                && since.number <= waiter.until
                && !self.is_waited_for_here(waiter)
        };
        let is_due = !self.may_defer(terms) || since.at + age <= now;
        self.flushing.is_none() && (is_due || self.waiters.iter().any(is_last))
    }

    /// Whether long writes may be left to the drive's buffer.
    fn may_defer(&self, terms: &Terms) -> bool {
        debug_assert!(self.number > 0 || self.parts.is_empty(), "writes are counted");
        terms.is_alone && self.buffering == Buffering::HostAndDrive
    }

    /// The extent that goes to the disk next, if any should: it is marked as being in `id`.
    fn next_extent(&mut self, id: DestageId, terms: &Terms) -> Option<Extent> {
        let Terms { urgency, depth, age, now, .. } = *terms;
        let is_any_old = self.oldest.is_some_and(|oldest| oldest + age <= now);
        let is_wanted = urgency == Urgency::Idle || self.is_full() || is_any_old;
        if !self.may_submit(depth) || !is_wanted && self.waiters.is_empty() {
            return None;
        }
        let Some(position) = self.candidate(urgency, age, now) else {
            self.find_oldest();
            return None;
        };
        let extent = self.run_at(position);
        self.parts.split(extent.start);
        self.parts.split(extent.end());
        let first = self.parts.position(extent.start);
        let mut since = self.parts.at(first).since;
        for position in first..self.parts.len() {
            let part = self.parts.at_mut(position);
            if part.extent.start >= extent.end() {
                break;
            }
            assert!(part.destage.is_none(), "a part is in one write to the disk");
            part.destage = Some(id);
            since = since.min(part.since);
        }
        let is_long = self.is_long(extent);
        let by_flush = self.waiters.iter().all(|waiter| waiter.extent.is_none());
        let is_forced = !(is_long && by_flush && self.may_defer(terms));
        self.in_engine.push(InEngine { id, extent, since, is_forced });
        self.cursor = extent.end();
        self.usage.destages += 1;
        self.usage.destaged += extent.len;
        Some(extent)
    }

    /// Whether the engine may have one more write. Of long ones it has one.
    fn may_submit(&self, depth: u32) -> bool {
        let long = self.in_engine.iter().filter(|write| self.is_long(write.extent)).count();
        debug_assert!(long <= self.in_engine.len(), "a part of all");
        self.in_engine.len() < depth as usize && long < LONG_DEPTH
    }

    /// Whether a write takes so long that its order among others is of no account.
    fn is_long(&self, extent: Extent) -> bool {
        debug_assert!(!extent.is_empty(), "a write has sectors");
        extent.len.0 * 4 >= self.longest().0
    }

    /// The longest write to the disk.
    fn longest(&self) -> Sectors {
        debug_assert!(self.usage.bound <= self.own, "a bound is at most the volume's own");
        Sectors(DESTAGE_MAX.0.min(self.usage.bound.0.max(1)))
    }

    /// Whether the memory is needed. What is on its way to the disk counts as free, so that the
    /// engine has only as many writes as the memory needs, and a run that still grows stays until
    /// it is long.
    fn is_full(&self) -> bool {
        let WriteBufferUsage { used, bound, .. } = self.usage;
        debug_assert!(used > Sectors::ZERO || self.parts.is_empty(), "parts take memory");
        let leaving = self.in_engine.iter().map(|write| write.extent.len.0).sum::<u64>();
        let is_wanted = used.0.saturating_sub(leaving) * 2 >= bound.0
            || !self.waiting.is_empty() && leaving * 2 < bound.0
            || self.buffering == Buffering::Off;
        is_wanted && used > Sectors::ZERO
    }

    /// The position of the first part from the cursor on that may go to the disk, and should.
    fn candidate(&self, urgency: Urgency, age: Duration, now: Instant) -> Option<usize> {
        let takes_any = urgency == Urgency::Idle || self.is_full();
        let is_due = |part: &Part| {
            let is_old = part.since.at + age <= now;
            let wanted =
                || self.waiters.iter().any(|waiter| waiter.waits_for(part.extent, part.since));
            takes_any || is_old || wanted()
        };
        let goes = |part: &Part| part.destage.is_none() && is_due(part) && self.may_go(part);
        let cursor = self.parts.position(self.cursor);
        let ahead = self.parts.from(cursor).position(goes).map(|at| cursor + at);
        ahead.or_else(|| self.parts.from(0).position(goes))
    }

    /// The extent around a part, with the neighbours that follow each other without a gap, of at
    /// most the length of one write to the disk.
    fn run_at(&self, position: usize) -> Extent {
        let most = self.longest();
        let first = self.parts.at(position).extent;
        let (mut start, mut end) = (first.start, first.end());
        for part in self.parts.from(position + 1) {
            if part.extent.start != end || start.distance(end) >= most || !self.may_go(part) {
                break;
            }
            end = part.extent.end();
        }
        for position in (0..position).rev() {
            let part = self.parts.at(position);
            if part.extent.end() != start || start.distance(end) >= most || !self.may_go(part) {
                break;
            }
            start = part.extent.start;
        }
        let len = start.distance(end).min(most);
        // It has a part of the first one, so that what is due gets on.
        let start = if start + len > first.start { start } else { first.start };
        Extent::new(start, start.distance(end).min(most))
    }

    /// A write to the disk has ended, or a flush of it: the extent that it wrote.
    pub(super) fn destaged(&mut self, id: DestageId, outcome: Outcome) -> Option<Extent> {
        if let Some((_, since)) = self.flushing.take_if(|(flush, _)| *flush == id) {
            if outcome == Outcome::Failed {
                self.lose(|waiter| waiter.extent.is_none() && since.number <= waiter.until);
            }
            return None;
        }
        let position = self.in_engine.iter().position(|write| write.id == id);
        let write = self.in_engine.swap_remove(position.expect("the write is in the engine"));
        // Newer data of these sectors waited for it.
        let newer = self.parts.overlapping(write.extent).filter(|part| part.destage.is_none());
        self.oldest = newer.map(|part| part.since.at).chain(self.oldest).min();
        if outcome == Outcome::Failed {
            self.usage.lost += write.extent.len;
            self.lose(|waiter| waiter.waits_for(write.extent, write.since));
        } else if !write.is_forced {
            let oldest = self.in_drive.map_or(write.since, |since| since.min(write.since));
            self.in_drive = Some(oldest);
        }
        Some(write.extent)
    }

    /// Data was lost: the requests that wait for it fail, and if none of them is a flush, the next
    /// flush does, unless the driver acts on it.
    fn lose(&mut self, waits: impl Fn(&Waiter) -> bool) {
        let mut is_told = false;
        for waiter in self.waiters.iter_mut().filter(|waiter| waits(waiter)) {
            waiter.outcome = Outcome::Failed;
            is_told |= waiter.extent.is_none();
        }
        self.has_lost |= !is_told && !self.reports_losses;
    }

    /// Checks the invariants.
    pub(super) fn invariants(&self) {
        self.parts.invariants();
        let ids: BTreeSet<DestageId> = self.in_engine.iter().map(|write| write.id).collect();
        for destage in self.parts.from(0).filter_map(|part| part.destage) {
            assert!(ids.contains(&destage), "what is in the engine is known");
        }
        assert!(self.in_engine.len() <= DEPTH_MAX as usize, "the depth is bounded");
        let mut extents: Vec<Extent> = self.in_engine.iter().map(|write| write.extent).collect();
        extents.sort_unstable_by_key(|extent| extent.start);
        let mut neighbours = extents.windows(2);
        let is_apart = neighbours.all(|pair| pair[0].end() <= pair[1].start);
        assert!(is_apart, "writes that overlap have an order");
    }
}

impl Volume {
    /// How a read of this extent is handled.
    pub(super) fn read(&self, extent: Extent) -> Handling {
        let held: u64 = self.parts.within(extent).map(|part| part.extent.len.0).sum();
        debug_assert!(held <= extent.len.0, "parts do not overlap");
        match held {
            0 => Handling::Disk,
            held if held == extent.len.0 => Handling::Memory,
            _ => Handling::Overlaid,
        }
    }
}
