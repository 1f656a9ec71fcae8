//! What was kept of each volume's contract in the last hour, minute by minute. It is kept whether
//! or not a client reads it, so that a page that is opened now shows the last hour.
//!
//! Invariants: a volume without a promise has no history; a history has no gaps, ends with the
//! minute of the last sample, and has at most [`PROMISE_MINUTES_MAX`] minutes.

use std::collections::{BTreeMap, VecDeque};

use daemon::VolumeStatus;
use engine::{ClosestCalls, DeadlineStats, LatencyStats};
use nbd::ExportId;
use units::{Duration, Instant};

use crate::limits::PROMISE_MINUTES_MAX;

/// What a sample has of one volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled<'a> {
    export: ExportId,
    name: &'a str,
    /// Whether it has a contract that can be kept or broken.
    is_promised: bool,
    worth: Option<f64>,
    stream: DeadlineStats,
    bounded: LatencyStats,
}

/// What was kept in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Minute {
    /// The least estimated worth of the reserve.
    pub(crate) worth: Option<f64>,
    /// Deadlines met.
    pub(crate) met: u64,
    /// Deadlines missed.
    pub(crate) missed: u64,
    /// The closest call.
    pub(crate) closest: Option<Duration>,
}

/// The minutes of one volume.
#[derive(Debug, Default)]
struct VolumeHistory {
    name: String,
    /// The deadlines met and missed up to the last sample.
    counted: (u64, u64),
    /// The number of the first minute, counted from the daemon's start.
    first: u64,
    minutes: VecDeque<Minute>,
}

/// The last minutes of one volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptMinutes {
    pub(crate) volume: String,
    /// The number of the first one, counted from the daemon's start.
    pub(crate) first: u64,
    pub(crate) minutes: Vec<Minute>,
}

/// The histories of all volumes.
#[derive(Debug, Default)]
pub(crate) struct PromiseHistory {
    volumes: BTreeMap<ExportId, VolumeHistory>,
    /// The minute of the last sample.
    last: Option<u64>,
}

/// The minute that `now` is in, counted from the daemon's start.
pub(crate) const fn minute_at(now: Instant) -> u64 {
    ClosestCalls::window_at(now)
}

const _: () = assert!(ClosestCalls::WINDOW.as_nanos() == 60_000_000_000);

/// The least of two values of which either may be absent.
fn least(one: Option<f64>, two: Option<f64>) -> Option<f64> {
    one.into_iter().chain(two).reduce(f64::min)
}

impl<'a> From<&'a VolumeStatus> for Sampled<'a> {
    fn from(status: &'a VolumeStatus) -> Self {
        Self {
            export: status.export,
            name: &status.name,
            is_promised: status.contract.has_deadlines() || status.worth.is_some(),
            worth: status.worth,
            stream: status.kept,
            bounded: status.bounded.unwrap_or_default(),
        }
    }
}

impl Sampled<'_> {
    /// The deadlines met and missed so far.
    fn deadlines(&self) -> (u64, u64) {
        let Self { stream, bounded, .. } = self;
        (stream.met + bounded.answered - bounded.late, stream.missed + bounded.late)
    }

    /// The closest call in a minute.
    fn closest_in(&self, minute: u64) -> Option<Duration> {
        let stream = self.stream.bytes.closest.in_window(minute);
        stream.into_iter().chain(self.bounded.closest.in_window(minute)).min()
    }
}

impl VolumeHistory {
    /// Begins the minutes up to `minute`; drops what is older than an hour.
    fn advance(&mut self, minute: u64) {
        let next = self.first + self.minutes.len() as u64;
        let begins = next.max((minute + 1).saturating_sub(PROMISE_MINUTES_MAX as u64));
        if self.minutes.is_empty() {
            self.first = minute;
        }
        for _ in begins.max(self.first)..=minute {
            if self.minutes.len() == PROMISE_MINUTES_MAX {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Minute::default());
        }
        self.first = minute + 1 - self.minutes.len() as u64;
    }

    fn add(&mut self, sampled: &Sampled<'_>, (from, minute): (u64, u64)) {
        self.advance(minute);
        let (before, now) = (self.counted, sampled.deadlines());
        // The counts of a new contract begin at zero.
        let since = |before: u64, now: u64| now.checked_sub(before).unwrap_or(now);
        self.counted = now;
        // What has happened since the last sample belongs to that sample's minute.
        if let Some(started) = self.at(from.max(self.first)) {
            started.met += since(before.0, now.0);
            started.missed += since(before.1, now.1);
            started.closest = started.closest.into_iter().chain(sampled.closest_in(from)).min();
        }
        if let Some(current) = self.at(minute) {
            current.worth = least(current.worth, sampled.worth);
            current.closest = current.closest.into_iter().chain(sampled.closest_in(minute)).min();
        }
    }

    fn at(&mut self, minute: u64) -> Option<&mut Minute> {
        let index = usize::try_from(minute.checked_sub(self.first)?).ok()?;
        self.minutes.get_mut(index)
    }

    fn invariants(&self, minute: u64) {
        assert!(self.minutes.len() <= PROMISE_MINUTES_MAX, "a history is bounded");
        assert_eq!(self.first + self.minutes.len() as u64, minute + 1, "it ends now");
    }
}

impl PromiseHistory {
    /// Adds a sample at `now`. Histories of removed volumes are dropped.
    pub(crate) fn add<'a>(&mut self, volumes: impl Iterator<Item = Sampled<'a>>, now: Instant) {
        let minute = minute_at(now);
        let from = self.last.replace(minute).unwrap_or(minute);
        let mut old = core::mem::take(&mut self.volumes);
        for sampled in volumes {
            let known = old.remove(&sampled.export);
            if !sampled.is_promised && known.is_none() {
                continue;
            }
            let mut minutes = known.unwrap_or_default();
            sampled.name.clone_into(&mut minutes.name);
            minutes.add(&sampled, (from, minute));
            minutes.invariants(minute);
            self.volumes.insert(sampled.export, minutes);
        }
    }

    /// What was kept from a minute on, in the order of the volumes' creation.
    pub(crate) fn since(&self, minute: u64) -> Vec<KeptMinutes> {
        let of = |volume: &VolumeHistory| {
            let first = volume.first.max(minute);
            let skipped = usize::try_from(first - volume.first).unwrap_or(usize::MAX);
            let minutes = volume.minutes.iter().skip(skipped).copied().collect();
            KeptMinutes { volume: volume.name.clone(), first, minutes }
        };
        self.volumes.values().map(of).collect()
    }

    /// The minute of the last sample.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + MS(seconds * 1_000)
    }

    fn sampled(export: u32) -> Sampled<'static> {
        Sampled {
            export: ExportId(export),
            name: "a",
            is_promised: true,
            worth: None,
            stream: DeadlineStats::default(),
            bounded: LatencyStats::default(),
        }
    }

    /// The minutes of the only volume.
    fn minutes(history: &PromiseHistory) -> (u64, Vec<Minute>) {
        let volume = history.volumes.values().next().expect("a volume");
        (volume.first, volume.minutes.iter().copied().collect())
    }

    #[test]
    fn an_answer_belongs_to_its_minute_though_it_is_sampled_in_the_next() {
        let (mut history, mut volume) = (PromiseHistory::default(), sampled(0));
        volume.worth = Some(1.5);
        history.add([volume].into_iter(), at(0));
        volume.bounded.count_answer(at(60), at(55));
        volume.bounded.count_answer(at(58), at(59));
        volume.worth = Some(0.9);
        history.add([volume].into_iter(), at(61));
        volume.bounded.count_answer(at(65), at(63));
        history.add([volume].into_iter(), at(71));
        let first = Minute { worth: Some(1.5), met: 1, missed: 1, closest: Some(Duration::ZERO) };
        let second = Minute { worth: Some(0.9), met: 1, missed: 0, closest: Some(MS(2_000)) };
        assert_eq!(minutes(&history), (0, vec![first, second]));
        let since = history.since(1);
        assert_eq!(
            since,
            [KeptMinutes { volume: "a".to_owned(), first: 1, minutes: vec![second] }]
        );
    }

    #[test]
    fn an_hour_is_remembered_and_a_pause_leaves_empty_minutes() {
        let (mut history, mut volume) = (PromiseHistory::default(), sampled(0));
        for minute in [0, 1, 2, 58] {
            volume.stream.met += 1;
            history.add([volume].into_iter(), at(minute * 60 + 30));
        }
        let (first, kept) = minutes(&history);
        assert_eq!((first, kept.len()), (0, 59));
        assert_eq!(kept.iter().map(|minute| minute.met).sum::<u64>(), 4);
        history.add([volume].into_iter(), at(61 * 60));
        let (first, kept) = minutes(&history);
        assert_eq!((first, kept.len()), (2, PROMISE_MINUTES_MAX));
        assert_eq!(kept.iter().map(|minute| minute.met).sum::<u64>(), 1, "two are too old");
        history.add([volume].into_iter(), at(1_000 * 60));
        let (first, kept) = minutes(&history);
        assert_eq!((first, kept.len()), (941, PROMISE_MINUTES_MAX));
        assert!(kept.iter().all(|minute| *minute == Minute::default()));
    }

    #[test]
    fn volumes_without_a_promise_and_removed_ones_have_no_history() {
        let mut history = PromiseHistory::default();
        let best_effort = Sampled { is_promised: false, ..sampled(1) };
        history.add([sampled(0), best_effort].into_iter(), at(5));
        assert_eq!(history.since(0).len(), 1);
        let lost = Sampled { is_promised: false, ..sampled(0) };
        history.add([lost, best_effort].into_iter(), at(15));
        assert_eq!(history.since(0).len(), 1, "the hour before is still there");
        history.add([best_effort].into_iter(), at(25));
        assert_eq!(history.since(0), []);
    }

    #[test]
    fn the_counts_of_a_new_contract_begin_at_zero() {
        let (mut history, mut volume) = (PromiseHistory::default(), sampled(0));
        volume.stream.met = 7;
        history.add([volume].into_iter(), at(1));
        volume.stream.met = 2;
        history.add([volume].into_iter(), at(11));
        assert_eq!(minutes(&history).1[0].met, 9);
    }
}
