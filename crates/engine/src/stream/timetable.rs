//! Tasks that come and go at times that are known.

use units::{DiskTime, Instant};

use super::{Task, TaskId, TaskSet, Violation};
use crate::limits::{BOOKED_TIMES_MAX, BOOKINGS_MAX};

/// From `start` to before `end`. Every request of the task is released in it, and due in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When the first request may be released.
    pub start: Instant,
    /// When the last request is due: [`Instant::FAR_FUTURE`] for a task that stays.
    pub end: Instant,
}

/// A task and when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The caller's name for it.
    pub id: TaskId,
    /// What it asks for.
    pub task: Task,
    /// When.
    pub span: Span,
}

/// The bookings of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timetable {
    preemption: DiskTime,
    bookings: Vec<Booking>,
}

impl Span {
    /// All of time.
    pub const ALWAYS: Self = Self { start: Instant::ZERO, end: Instant::FAR_FUTURE };

    /// Whether there is a moment in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether there is no moment in it.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

impl Timetable {
    /// No bookings, on a disk where a preemption costs so much more: see [`TaskSet::new`].
    pub fn new(preemption: DiskTime) -> Self {
        Self { preemption: TaskSet::new(preemption).preemption(), bookings: Vec::new() }
    }

    /// The bookings, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Booking> {
        self.bookings.iter()
    }

    /// Adds a booking, whether it fits or not: admission is [`Timetable::verdict`] first.
    ///
    /// # Panics
    /// If there is no room, no time in the span, or the name is there already.
    pub fn insert(&mut self, booking: Booking) {
        assert!(self.bookings.len() < BOOKINGS_MAX, "a disk has {BOOKINGS_MAX} bookings at most");
        assert!(!booking.span.is_empty(), "a booking takes time");
        assert!(self.bookings.iter().all(|other| other.id != booking.id), "a name is its own");
        self.bookings.push(booking);
    }

    /// Takes a booking out, and gives it back if it was in.
    pub fn remove(&mut self, id: TaskId) -> Option<Booking> {
        let place = self.bookings.iter().position(|booking| booking.id == id)?;
        Some(self.bookings.remove(place))
    }

    /// Takes out what ended at or before `now`.
    pub fn forget_before(&mut self, now: Instant) {
        self.bookings.retain(|booking| booking.span.end > now);
    }

    /// The tasks that are there at some moment of `span`.
    ///
    /// For the slack of a moment, ask for a span from then to the end of the longest best-effort command: what begins
    /// while that runs counts too.
    pub fn during(&self, span: Span) -> TaskSet {
        let mut set = TaskSet::new(self.preemption);
        for booking in self.bookings.iter().filter(|booking| booking.span.overlaps(&span)) {
            set.insert(booking.id, booking.task);
        }
        set
    }

    /// The next moment after `now` at which a task comes or goes.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let spans = self.bookings.iter().map(|booking| booking.span);
        let changes = spans.flat_map(|span| [span.start, span.end]);
        changes.filter(|&at| at > now && at < Instant::FAR_FUTURE).min()
    }

    /// Whether `candidate` fits over the whole of `span`.
    ///
    /// # Errors
    /// The first stretch of time where it does not, and why.
    pub fn verdict(&self, candidate: Task, span: Span) -> Result<(), (Span, Violation)> {
        assert!(!span.is_empty(), "a booking takes time");
        if self.bookings.len() >= BOOKINGS_MAX {
            return Err((span, Violation::Full));
        }
        for stretch in self.stretches(span) {
            self.during(stretch).verdict(candidate).map_err(|violation| (stretch, violation))?;
        }
        Ok(())
    }

    /// `span`, cut up where a task comes or goes.
    fn stretches(&self, span: Span) -> Vec<Span> {
        let inside =
            self.bookings.iter().flat_map(|booking| [booking.span.start, booking.span.end]);
        let mut cuts: Vec<Instant> = inside
            .filter(|&at| at > span.start && at < span.end)
            .chain([span.start, span.end])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let each = (cuts.len() - 1).div_ceil(BOOKED_TIMES_MAX);
        let last = cuts.len() - 1;
        (0..last)
            .step_by(each)
            .map(|first| Span { start: cuts[first], end: cuts[last.min(first + each)] })
            .collect()
    }
}

/// Books a stream's part on every disk that it touches, or on none: first all verdicts, then all bookings.
///
/// # Errors
/// The place of the first part that does not fit, the stretch of time, and why. Nothing was changed.
pub fn all_or_none(
    parts: &mut [(&mut Timetable, Booking)],
) -> Result<(), (usize, Span, Violation)> {
    for (place, (timetable, booking)) in parts.iter().enumerate() {
        let verdict = timetable.verdict(booking.task, booking.span);
        verdict.map_err(|(stretch, violation)| (place, stretch, violation))?;
    }
    for (timetable, booking) in parts {
        timetable.insert(*booking);
    }
    Ok(())
}
