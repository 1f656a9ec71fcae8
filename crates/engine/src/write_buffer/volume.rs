//! The write buffer of one volume: what it holds, what waits for it, and what goes to the disk
//! next.

use std::collections::VecDeque;

use units::{Duration, Extent, Instant, Lba, Sectors};

use super::interface::{DestageId, Handling, WriteBufferUsage};
use super::parts::{Part, Parts, Since, overlap};
use crate::limits::{DEPTH_MAX, DESTAGE_MAX, WRITE_BUFFER_MEMORY_MAX};
use crate::request::{Outcome, RequestId};

/// A write in the engine.
#[derive(Clone, Copy, Debug)]
struct InEngine {
    id: DestageId,
    extent: Extent,
    /// The oldest write of which it has a part.
    since: Since,
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
    /// The last write that it waits for.
    until: u64,
    /// The sectors that it waits for; `None` for all of the volume.
    extent: Option<Extent>,
    then: Then,
    outcome: Outcome,
}

impl Waiter {
    fn waits_for(&self, extent: Extent, since: Since) -> bool {
        since.number <= self.until && self.extent.is_none_or(|own| overlap(own, extent))
    }
}

/// A write that waits for memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) request: RequestId,
    pub(super) extent: Extent,
    pub(super) forced: bool,
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

/// The write buffer of one volume.
#[derive(Debug, Default)]
pub(super) struct Volume {
    pub(super) parts: Parts,
    pub(super) waiting: VecDeque<WaitingWrite>,
    pub(super) usage: WriteBufferUsage,
    /// The bound that it was added with.
    pub(super) own: Sectors,
    /// Whether further writes are buffered.
    pub(super) is_enabled: bool,
    pub(super) flushes: DriveFlush,
    /// Whether it is in the list of volumes to look at.
    pub(super) is_listed: bool,
    in_engine: Vec<InEngine>,
    waiters: VecDeque<Waiter>,
    /// The number of the last write accepted.
    number: u64,
    /// Where the last write to the disk ended: the next one is the first from there on.
    cursor: Lba,
    /// The instant of the oldest part that may go to the disk, or an earlier one.
    oldest: Option<Instant>,
    /// Whether data was lost that no flush has been told of.
    has_lost: bool,
}

impl Volume {
    /// With a buffer of at most this size.
    pub(super) fn new(own: Sectors) -> Self {
        debug_assert!(own <= WRITE_BUFFER_MEMORY_MAX, "a bound is within that of a disk");
        Self { own, is_enabled: true, ..Self::default() }
    }

    /// The destages in the engine.
    pub(super) fn in_engine(&self) -> usize {
        debug_assert!(self.in_engine.len() <= DEPTH_MAX as usize, "the depth is bounded");
        self.in_engine.len()
    }

    /// Whether nothing is buffered, in the engine, or waiting.
    pub(super) fn is_empty(&self) -> bool {
        let is_clean = self.parts.is_empty() && self.in_engine.is_empty();
        is_clean && self.waiting.is_empty() && self.waiters.is_empty()
    }

    /// Whether something overlaps `extent` that is not on the medium.
    pub(super) fn is_dirty(&self, extent: Extent) -> bool {
        let in_engine = self.in_engine.iter().any(|write| overlap(write.extent, extent));
        in_engine || self.parts.overlapping(extent).next().is_some()
    }

    /// The instant of the oldest write that may go to the disk.
    pub(super) fn oldest(&self, depth: u32) -> Option<Instant> {
        debug_assert!(self.in_engine.len() <= depth as usize, "the depth is kept");
        self.oldest.filter(|_| self.in_engine.len() < depth as usize)
    }

    /// Looks for the oldest part again.
    pub(super) fn find_oldest(&mut self) {
        let may_go = self.parts.from(0).filter(|part| self.may_go(part));
        self.oldest = may_go.map(|part| part.since.at).min();
        debug_assert!(self.oldest.is_none() || !self.parts.is_empty(), "the oldest is a part's");
    }

    /// Whether a part may go to the disk: none that overlaps it is on its way.
    fn may_go(&self, part: &Part) -> bool {
        let is_in_engine = |write: &InEngine| overlap(write.extent, part.extent);
        part.destage.is_none() && !self.in_engine.iter().any(is_in_engine)
    }

    /// Counts a write that is accepted at `now`, over parts of which the oldest is `replaced`.
    pub(super) fn accepted(&mut self, replaced: Option<Since>, now: Instant) -> Since {
        self.number += 1;
        let own = Since { number: self.number, at: now };
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
        if !self.parts.is_empty() || !self.in_engine.is_empty() {
            self.wait((request, then), None, outcome);
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
        self.wait((request, then), Some(extent), Outcome::Done);
    }

    fn wait(&mut self, of: (RequestId, Then), extent: Option<Extent>, outcome: Outcome) {
        let (request, then) = of;
        let until = self.number;
        self.waiters.push_back(Waiter { request, until, extent, then, outcome });
    }

    /// The next request whose wait is over, with its outcome.
    pub(super) fn next_answer(&mut self) -> Option<(RequestId, Then, Outcome)> {
        let is_over = |waiter: &Waiter| !self.is_waited_for(waiter);
        let position = self.waiters.iter().position(is_over)?;
        let Waiter { request, extent, then, outcome, .. } = self.waiters.remove(position)?;
        // A flush that has failed is answered.
        let is_over = extent.is_none() && outcome == Outcome::Failed;
        Some((request, if is_over { Then::Answer } else { then }, outcome))
    }

    /// Whether something that `waiter` waits for is not on the medium. Looks first where the next
    /// write to the disk begins: a flush finds a part there at once as long as there are many.
    fn is_waited_for(&self, waiter: &Waiter) -> bool {
        let waits = |part: &Part| waiter.waits_for(part.extent, part.since);
        if self.in_engine.iter().any(|write| waiter.waits_for(write.extent, write.since)) {
            return true;
        }
        if let Some(extent) = waiter.extent {
            return self.parts.overlapping(extent).any(waits);
        }
        let cursor = self.parts.position(self.cursor);
        self.parts.from(cursor).any(waits) || self.parts.from(0).take(cursor).any(waits)
    }

    /// The extent that goes to the disk next, if any should: it is marked as being in `id`.
    pub(super) fn destage(
        &mut self,
        (id, urgency): (DestageId, Urgency),
        (depth, age): (u32, Duration),
        now: Instant,
    ) -> Option<Extent> {
        let is_any_old = self.oldest.is_some_and(|oldest| oldest + age <= now);
        let is_wanted = urgency == Urgency::Idle || self.is_full() || is_any_old;
        if self.in_engine.len() >= depth as usize || !is_wanted && self.waiters.is_empty() {
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
        self.in_engine.push(InEngine { id, extent, since });
        self.find_oldest();
        self.cursor = extent.end();
        self.usage.destages += 1;
        self.usage.destaged += extent.len;
        Some(extent)
    }

    /// Whether the memory is needed.
    fn is_full(&self) -> bool {
        let WriteBufferUsage { used, bound, .. } = self.usage;
        debug_assert!(used > Sectors::ZERO || self.parts.is_empty(), "parts take memory");
        let is_wanted = used.0 * 2 >= bound.0 || !self.waiting.is_empty() || !self.is_enabled;
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
        let goes = |part: &Part| self.may_go(part) && is_due(part);
        let cursor = self.parts.position(self.cursor);
        let ahead = self.parts.from(cursor).position(goes).map(|at| cursor + at);
        ahead.or_else(|| self.parts.from(0).position(goes))
    }

    /// The extent around a part, with the neighbours that follow each other without a gap, of at
    /// most the length of one write to the disk.
    fn run_at(&self, position: usize) -> Extent {
        let most = Sectors(DESTAGE_MAX.0.min((self.usage.bound.0 / 4).max(1)));
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

    /// A write to the disk has ended: the extent that it wrote.
    pub(super) fn destaged(&mut self, id: DestageId, outcome: Outcome) -> Extent {
        let position = self.in_engine.iter().position(|write| write.id == id);
        let write = self.in_engine.swap_remove(position.expect("the write is in the engine"));
        if outcome == Outcome::Failed {
            self.usage.lost += write.extent.len;
            let mut is_told = false;
            let told = |waiter: &&mut Waiter| waiter.waits_for(write.extent, write.since);
            for waiter in self.waiters.iter_mut().filter(told) {
                waiter.outcome = Outcome::Failed;
                is_told |= waiter.extent.is_none();
            }
            self.has_lost |= !is_told;
        }
        write.extent
    }

    /// Checks the invariants.
    pub(super) fn invariants(&self) {
        self.parts.invariants();
        for part in self.parts.from(0) {
            let of = |write: &InEngine| Some(write.id) == part.destage;
            let is_in = self.in_engine.iter().any(of);
            assert_eq!(is_in, part.destage.is_some(), "what is in the engine is known");
        }
        for (index, write) in self.in_engine.iter().enumerate() {
            let others = &self.in_engine[index + 1..];
            let overlaps = others.iter().any(|other| overlap(other.extent, write.extent));
            assert!(!overlaps, "writes that overlap have an order");
        }
    }
}
