//! Tasks that begin and end at known times.

use units::{DiskTime, Duration, Instant};

use super::demand_bound::Candidate;
use super::handover::{BookedTask, busiest, excess, fits_around, reach, together, within};
use super::span::Span;
use super::{
    BlockingTask, CounterOffers, Granularity, LatencyOffers, RequestedLatency, RequestedStream,
    Task, TaskId, TaskSet, Violation,
};
use crate::limits::{BOOKED_TIMES_MAX, BOOKINGS_MAX, STREAM_PERIOD_MAX};

/// Intervals of up to this number of the reach (without bursts, of the longest deadlines) are
/// examined for the slack of a time that does not last.
const SLACK_REACHES: u64 = 8;

/// A task and its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The caller's id.
    pub id: TaskId,
    /// Its demand.
    pub task: Task,
    /// Its span.
    pub span: Span,
}

/// The bookings of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timetable {
    preemption: DiskTime,
    bookings: Vec<Booking>,
}

impl Timetable {
    /// No bookings, on a disk where a preemption costs `preemption`: see [`TaskSet::new`].
    pub fn new(preemption: DiskTime) -> Self {
        Self { preemption: TaskSet::new(preemption).preemption(), bookings: Vec::new() }
    }

    /// The bookings, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Booking> {
        self.bookings.iter()
    }

    /// Adds a booking without a check: [`Timetable::check_with`] comes first.
    ///
    /// # Panics
    /// If the timetable is full, the span is empty, or the id is taken.
    pub fn insert(&mut self, booking: Booking) {
        assert!(self.bookings.len() < BOOKINGS_MAX, "a disk has {BOOKINGS_MAX} bookings at most");
        assert!(!booking.span.is_empty(), "a booking takes time");
        assert!(self.bookings.iter().all(|other| other.id != booking.id), "an id is unique");
        self.bookings.push(booking);
    }

    /// Removes and returns a booking.
    pub fn remove(&mut self, id: TaskId) -> Option<Booking> {
        let index = self.bookings.iter().position(|booking| booking.id == id)?;
        let booking = self.bookings.remove(index);
        debug_assert!(self.bookings.iter().all(|other| other.id != id), "an id is unique");
        Some(booking)
    }

    /// Removes the bookings that ended long enough before `now` to have no effect on the slack:
    /// eight of the longest deadlines, or more with bursts.
    pub fn remove_expired(&mut self, now: Instant) {
        let reach = slack_reach(&self.present(None, self.granularity()));
        self.bookings.retain(|booking| booking.span.end + reach > now);
    }

    /// The tasks that are present at some moment of `span`.
    pub fn tasks_during(&self, span: Span) -> TaskSet {
        let there = self.bookings.iter().filter(|booking| booking.span.overlaps(&span));
        let set = TaskSet::of(there.map(|booking| (booking.id, booking.task)), self.preemption);
        debug_assert!(set.len() <= self.bookings.len(), "each task has a booking");
        set
    }

    /// The next instant after `now` at which a task begins or ends.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let spans = self.bookings.iter().map(|booking| booking.span);
        let changes = spans.flat_map(|span| [span.start, span.end]);
        changes.filter(|&at| at > now && at < Instant::FAR_FUTURE).min()
    }

    /// Whether `candidate` fits over the whole of `span`: while the tasks beside it stay the same,
    /// and where some end and others begin. At [`Granularity::Chunks`] each request of a task with
    /// a shorter deadline than some preemptible task at any time pays for a preemption.
    ///
    /// # Errors
    /// The interval of time where it does not fit, and the violation.
    pub fn check_with(&self, candidate: Task, span: Span) -> Result<(), (Span, Violation)> {
        self.check_candidate(candidate, span, Candidate::Whole)
    }

    /// Whether all bookings fit, at all times.
    ///
    /// # Errors
    /// The interval of time where they do not fit, and the violation.
    pub fn check(&self) -> Result<(), (Span, Violation)> {
        self.check_as(None, Candidate::Whole)
    }

    /// The granularity at which all bookings fit: whole if they do, at all times, else in chunks.
    fn granularity(&self) -> Granularity {
        let has_whole = Task::may_be_whole(self.bookings.iter().map(|booking| booking.task));
        debug_assert!(self.bookings.len() <= BOOKINGS_MAX, "bookings are bounded");
        let all = || self.present(None, Granularity::Whole);
        if has_whole && check_all(&all(), Span::ALWAYS, Candidate::Whole).is_ok() {
            Granularity::Whole
        } else {
            Granularity::Chunks
        }
    }

    /// Whether all bookings, and the candidate over its span, fit at one granularity.
    fn check_as(
        &self,
        candidate: Option<(Task, Span)>,
        counts: Candidate,
    ) -> Result<(), (Span, Violation)> {
        let tasks = self.bookings.iter().map(|booking| booking.task);
        let tasks = tasks.chain(candidate.map(|(task, _)| task));
        let span = candidate.map_or(Span::ALWAYS, |(_, span)| span);
        debug_assert!(!span.is_empty(), "a check covers time");
        let at = |granularity| check_all(&self.present(candidate, granularity), span, counts);
        if Task::may_be_whole(tasks) && at(Granularity::Whole).is_ok() {
            return Ok(());
        }
        at(Granularity::Chunks)
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

    /// What would fit over the whole of `span`: see [`LatencyOffers::find`].
    pub fn latency_offers(
        &self,
        span: Span,
        asked: RequestedLatency,
        task: impl FnMut(RequestedLatency) -> Option<Task>,
    ) -> LatencyOffers {
        let fits = |task, counts| self.check_candidate(task, span, counts).is_ok();
        LatencyOffers::find_by(asked, task, fits)
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
        self.check_as(Some((candidate, span)), counts)
    }

    /// ΔL at `now`, with regard to tasks that ended shortly before and tasks that begin shortly
    /// after: see [`TaskSet::slack`]. It is zero around a handover to tasks that would not fit
    /// beside the ones that end.
    ///
    /// It holds until [`Timetable::next_change`] without new bookings. For some time after a change
    /// it may be a lower bound, if the disk is nearly full.
    pub fn slack(&self, now: Instant) -> DiskTime {
        let all = self.present(None, self.granularity());
        if all.is_empty() {
            return TaskSet::default().slack();
        }
        let until = self.next_change(now).unwrap_or(now);
        debug_assert!(until >= now, "the next change is not in the past");
        let reach = slack_reach(&all);
        let near = Span { start: now.saturating_sub(reach), end: until + reach };
        let nearby = within(&all, near);
        debug_assert!(nearby.len() <= all.len(), "each task counts once");
        let tasks = (0..).map(TaskId).zip(nearby.iter().map(|present| present.task));
        let set = TaskSet::of(tasks, DiskTime::ZERO);
        let stays = |span: Span| span.start <= now && span.end == Instant::FAR_FUTURE;
        if all.iter().all(|present| stays(present.span)) {
            return set.slack();
        }
        // An interval longer than `reach` has at least what the busiest time leaves of it on the
        // mean, less what bursts exceed the mean by.
        let left = busiest(&all).leaves(reach) - excess(&all);
        let slack = set.slack().min(left).max(DiskTime::ZERO);
        debug_assert!(slack >= DiskTime::ZERO, "slack is not negative: {slack}");
        slack
    }

    /// All bookings at `granularity` with their preemptions, and one more, sorted by deadline.
    fn present(
        &self,
        candidate: Option<(Task, Span)>,
        granularity: Granularity,
    ) -> Vec<BookedTask> {
        let count = self.bookings.len() + usize::from(candidate.is_some());
        let booked = self
            .bookings
            .iter()
            .map(|booking| (BlockingTask::Task(booking.id), booking.task, booking.span));
        let candidate = candidate.map(|(task, span)| (BlockingTask::Candidate, task, span));
        let booked = booked.chain(candidate).map(|(whose, task, span)| BookedTask {
            whose,
            task: task.at(granularity),
            span,
        });
        let mut all: Vec<BookedTask> = booked.collect();
        debug_assert_eq!(all.len(), count, "every booking is present, and the candidate");
        debug_assert!(all.iter().all(|present| !present.span.is_empty()), "a booking takes time");
        if granularity == Granularity::Chunks {
            let preempted = all.iter().filter(|present| present.task.is_preemptible());
            let preempted = preempted.map(|present| present.task.deadline()).max();
            let pays = |task: &Task| preempted.is_some_and(|longest| task.deadline() < longest);
            for present in all.iter_mut().filter(|present| pays(&present.task)) {
                present.task = present.task.with_more(self.preemption);
            }
        }
        all.sort_by_key(|present| present.task);
        all
    }
}

/// The longest interval that is examined for the slack; of longer ones the mean load is.
fn slack_reach(all: &[BookedTask]) -> Duration {
    let longest = STREAM_PERIOD_MAX * SLACK_REACHES;
    let reach = reach(all).min(longest) * SLACK_REACHES;
    debug_assert!(reach <= longest * SLACK_REACHES, "an interval is bounded");
    reach
}

/// Whether all of these fit at all times of `span`, and around them.
fn check_all(all: &[BookedTask], span: Span, counts: Candidate) -> Result<(), (Span, Violation)> {
    debug_assert!(!span.is_empty(), "a check covers time");
    debug_assert!(all.is_sorted_by_key(|present| present.task.deadline()), "by deadline");
    let reach = reach(all);
    let near = Span { start: span.start.saturating_sub(reach), end: span.end + reach };
    let all = within(all, near);
    let cuts = cuts(&all, span);
    debug_assert!(cuts.len() >= 2, "a span has two ends");
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
        let around = Span { start: end.saturating_sub(reach), end: end + reach };
        fits_around(&all, end, reach, counts, &mut work)
            .map_err(|violation| (around, violation))?;
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
    debug_assert_eq!(cuts.first(), Some(&span.start), "the first cut is the beginning");
    debug_assert_eq!(cuts.last(), Some(&span.end), "the last cut is the end");
    cuts
}

/// Books a stream's part on every disk that it uses, or on none: first all checks, then all
/// bookings.
///
/// # Errors
/// The index of the first part that does not fit, the interval of time, and the violation. Nothing
/// was changed.
pub fn book_all(parts: &mut [(&mut Timetable, Booking)]) -> Result<(), (usize, Span, Violation)> {
    for (index, (timetable, booking)) in parts.iter().enumerate() {
        let verdict = timetable.check_with(booking.task, booking.span);
        verdict.map_err(|(stretch, violation)| (index, stretch, violation))?;
    }
    for (timetable, booking) in parts {
        timetable.insert(*booking);
    }
    Ok(())
}
