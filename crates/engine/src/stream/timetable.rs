//! Tasks that come and go at times that are known.

use units::{DiskTime, Duration, Instant};

use super::demand_bound::Candidate;
use super::handover::{BookedTask, fits_around, together, within};
use super::span::Span;
use super::{
    BlockingTask, CounterOffers, RequestedStream, Task, TaskId, TaskSet, Utilization, Violation,
};
use crate::limits::{BOOKED_TIMES_MAX, BOOKINGS_MAX};

/// Intervals of up to so many of the longest periods are looked at for the slack of a time that does not last.
const SLACK_PERIODS: u64 = 8;

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

impl Timetable {
    /// No bookings, on a disk where a preemption costs so much more: see [`TaskSet::new`].
    pub fn new(preemption: DiskTime) -> Self {
        Self { preemption: TaskSet::new(preemption).preemption(), bookings: Vec::new() }
    }

    /// The bookings, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Booking> {
        self.bookings.iter()
    }

    /// Adds a booking, whether it fits or not: admission is [`Timetable::check_with`] first.
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

    /// Takes out what ended so long before `now` that it says nothing about the slack any more: eight of the longest periods.
    pub fn remove_expired(&mut self, now: Instant) {
        let longest = self.bookings.iter().map(|booking| booking.task.period()).max();
        let reach = longest.unwrap_or_default() * SLACK_PERIODS;
        self.bookings.retain(|booking| booking.span.end + reach > now);
    }

    /// The tasks that are there at some moment of `span`.
    pub fn tasks_during(&self, span: Span) -> TaskSet {
        let there = self.bookings.iter().filter(|booking| booking.span.overlaps(&span));
        TaskSet::of(there.map(|booking| (booking.id, booking.task)), self.preemption)
    }

    /// The next moment after `now` at which a task comes or goes.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let spans = self.bookings.iter().map(|booking| booking.span);
        let changes = spans.flat_map(|span| [span.start, span.end]);
        changes.filter(|&at| at > now && at < Instant::FAR_FUTURE).min()
    }

    /// Whether `candidate` fits over the whole of `span`: wherever the tasks beside it stay the same, and wherever some
    /// leave and others come. Here every request pays for a preemption, whatever it may find.
    ///
    /// # Errors
    /// A stretch of time where it does not fit, and why.
    pub fn check_with(&self, candidate: Task, span: Span) -> Result<(), (Span, Violation)> {
        self.check_candidate(candidate, span, Candidate::Whole)
    }

    /// Whether all bookings fit, at all times.
    ///
    /// # Errors
    /// A stretch of time where they do not, and why.
    pub fn check(&self) -> Result<(), (Span, Violation)> {
        look(&self.present(None), Span::ALWAYS, Candidate::Whole)
    }

    /// What would fit over the whole of `span`: see [`CounterOffers::find`].
    pub fn counter_offers(
        &self,
        span: Span,
        asked: RequestedStream,
        task: impl FnMut(RequestedStream) -> Option<Task>,
    ) -> CounterOffers {
        let fits = |task, counts| self.check_candidate(task, span, counts).is_ok();
        CounterOffers::find_by(asked, task, fits)
    }

    fn check_candidate(
        &self,
        candidate: Task,
        span: Span,
        counts: Candidate,
    ) -> Result<(), (Span, Violation)> {
        assert!(!span.is_empty(), "a booking takes time");
        if self.bookings.len() >= BOOKINGS_MAX {
            return Err((span, Violation::Full));
        }
        look(&self.present(Some((candidate, span))), span, counts)
    }

    /// ΔL at `now`, with regard to who left a little while ago and who comes in a little while: see [`TaskSet::slack`]. So
    /// it is zero around a moment where tasks take over from others for which there would be no room beside them.
    ///
    /// It holds until [`Timetable::next_change`], as long as nobody books. Until some time after a change it may be less
    /// than it could be, if the disk is nearly full.
    pub fn slack(&self, now: Instant) -> DiskTime {
        let all = self.present(None);
        let Some(last) = all.last() else { return TaskSet::default().slack() };
        let until = self.next_change(now).unwrap_or(now);
        let reach = last.task.period() * SLACK_PERIODS;
        let near = Span { start: now.saturating_sub(reach), end: until + reach };
        let near_by = within(&all, near);
        let tasks = (0..).map(TaskId).zip(near_by.iter().map(|present| present.task));
        let set = TaskSet::of(tasks, DiskTime::ZERO);
        let stays = |span: Span| span.start <= now && span.end == Instant::FAR_FUTURE;
        if all.iter().all(|present| stays(present.span)) {
            return set.slack();
        }
        // An interval that is longer than `reach` has at least what the fullest time leaves of it on the mean.
        set.slack().min(busiest(&all).leaves(reach))
    }

    /// All bookings with their preemptions, and one more, sorted by period.
    fn present(&self, candidate: Option<(Task, Span)>) -> Vec<BookedTask> {
        let booked = self.bookings.iter().map(|booking| BookedTask {
            whose: BlockingTask::Task(booking.id),
            task: booking.task.with_more(self.preemption),
            span: booking.span,
        });
        let candidate = candidate.map(|(task, span)| BookedTask {
            whose: BlockingTask::Candidate,
            task: task.with_more(self.preemption),
            span,
        });
        let mut all: Vec<BookedTask> = booked.chain(candidate).collect();
        all.sort_by_key(|present| present.task);
        all
    }
}

/// Whether all of these fit at all times of `span`, and around them.
fn look(all: &[BookedTask], span: Span, counts: Candidate) -> Result<(), (Span, Violation)> {
    let longest = all.last().map_or(Duration::ZERO, |present| present.task.period());
    let near = Span { start: span.start.saturating_sub(longest), end: span.end + longest };
    let all = within(all, near);
    let cuts = cuts(&all, span);
    if cuts.len() > BOOKED_TIMES_MAX {
        return together(&all, counts).map_err(|violation| (span, violation));
    }
    for (start, end) in cuts.iter().copied().zip(cuts.iter().copied().skip(1)) {
        let stretch = Span { start, end };
        together(&within(&all, stretch), counts).map_err(|violation| (stretch, violation))?;
    }
    let mut ends: Vec<Instant> = all.iter().map(|present| present.span.end).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut work = 0;
    for end in ends.into_iter().filter(|&end| end < Instant::FAR_FUTURE) {
        let around = Span { start: end.saturating_sub(longest), end: end + longest };
        fits_around(&all, end, counts, &mut work).map_err(|violation| (around, violation))?;
    }
    Ok(())
}

/// The moments of `span` at which a task comes or goes, with its ends.
fn cuts(all: &[BookedTask], span: Span) -> Vec<Instant> {
    let changes = all.iter().flat_map(|present| [present.span.start, present.span.end]);
    let inside = changes.filter(|&at| at > span.start && at < span.end);
    let mut cuts: Vec<Instant> = inside.chain([span.start, span.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// The most that is asked for at any one time.
fn busiest(all: &[BookedTask]) -> Utilization {
    let mut changes: Vec<(Instant, bool, u128)> = Vec::new();
    for BookedTask { task, span, .. } in all {
        let share = Utilization::of(task).0;
        // Who goes makes room for who comes at the same time: `false` is sorted first.
        changes.extend([(span.end, false, share), (span.start, true, share)]);
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, comes, share) in changes {
        now = if comes { now + share } else { now - share };
        most = most.max(now);
    }
    Utilization(most)
}

/// Books a stream's part on every disk that it touches, or on none: first all verdicts, then all bookings.
///
/// # Errors
/// The place of the first part that does not fit, the stretch of time, and why. Nothing was changed.
pub fn book_all(parts: &mut [(&mut Timetable, Booking)]) -> Result<(), (usize, Span, Violation)> {
    for (place, (timetable, booking)) in parts.iter().enumerate() {
        let verdict = timetable.check_with(booking.task, booking.span);
        verdict.map_err(|(stretch, violation)| (place, stretch, violation))?;
    }
    for (timetable, booking) in parts {
        timetable.insert(*booking);
    }
    Ok(())
}
