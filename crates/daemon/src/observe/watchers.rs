//! Who wants to be told of finished requests: a slow-request log, or somebody who looks on.
//!
//! Whoever tells never waits: what a watcher does not fetch in time is dropped and counted, and so is what is more than it
//! asked to be told of in a second.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nbd::ExportId;
use units::{Duration, Instant};

use super::Traced;

/// Watchers at a time: each makes every request cost some 100 ns more.
pub const WATCHERS_MAX: usize = 8;
/// Requests that wait for one watcher to fetch them: 1.5 MiB.
pub const WAITING_MAX: usize = 4_096;
/// The time over which [`Filter::most`] counts.
const SECOND: Duration = Duration::from_secs(1);

/// Which requests somebody wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Those of this volume; `None`: of all.
    pub volume: Option<ExportId>,
    /// Those that took no less.
    pub at_least: Duration,
    /// One in so many, at least one.
    pub every: u32,
    /// At most so many in a second.
    pub most: Option<u32>,
}

impl Filter {
    /// All of them.
    pub const ALL: Self = Self { volume: None, at_least: Duration::ZERO, every: 1, most: None };
}

/// Finished requests, as far as they were kept, and how many were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// In the order in which they were answered, as far as one disk is concerned.
    pub requests: Vec<Traced>,
    /// Requests that were to be told of and are not: there was no room, or there were too many in a second.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Traced>,
    dropped: u64,
    /// Requests that passed the filter, sampling aside.
    seen: u64,
    /// When the present second began, and how many were let in in it.
    second: Instant,
    let_in: u32,
}

impl Queue {
    fn offer(&mut self, filter: &Filter, traced: &Traced) {
        let wanted = filter.volume.is_none_or(|volume| volume == traced.export);
        if !wanted || traced.breakdown.total() < filter.at_least {
            return;
        }
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(filter.every.max(1).into()) {
            return;
        }
        if traced.at.saturating_since(self.second) >= SECOND {
            (self.second, self.let_in) = (traced.at, 0);
        }
        let too_many = filter.most.is_some_and(|most| self.let_in >= most);
        if too_many || self.requests.len() >= WAITING_MAX {
            self.dropped += 1;
            return;
        }
        self.let_in += 1;
        self.requests.push_back(*traced);
    }
}

#[derive(Debug)]
struct Place {
    filter: Filter,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Place {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nobody panics while holding the lock; should it happen, the queue is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everybody who is told.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// What is counted as slow, if anything.
    slow: Option<Duration>,
    count: AtomicUsize,
    places: Mutex<Vec<Arc<Place>>>,
}

impl Watchers {
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        Self { slow, ..Self::default() }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        // As above.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody wants to know where time goes.
    pub(crate) fn wanted(&self) -> bool {
        self.slow.is_some() || self.count.load(Ordering::Relaxed) > 0
    }

    /// From how long on a request is slow.
    pub(crate) fn slow(&self) -> Option<Duration> {
        self.slow
    }

    /// Tells everybody; leaves none.
    pub(super) fn tell(&self, finished: &mut Vec<Traced>) {
        if self.count.load(Ordering::Relaxed) > 0 {
            for place in self.places().iter() {
                let mut queue = place.queue();
                for traced in finished.iter() {
                    queue.offer(&place.filter, traced);
                }
                drop(queue);
                place.arrived.notify_one();
            }
        }
        finished.clear();
    }

    /// Somebody wants to be told from now on; `None` where too many are.
    pub(crate) fn watch(self: &Arc<Self>, filter: Filter) -> Option<Watcher> {
        let mut places = self.places();
        if places.len() >= WATCHERS_MAX {
            return None;
        }
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        let place = Arc::new(Place { filter, queue, arrived });
        places.push(place.clone());
        self.count.store(places.len(), Ordering::Relaxed);
        Some(Watcher { watchers: self.clone(), place })
    }
}

/// Somebody who is told of finished requests, until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    watchers: Arc<Watchers>,
    place: Arc<Place>,
}

impl Watcher {
    /// What there is to be told, waited for at most so long.
    pub fn next(&self, at_most: Duration) -> Told {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        // What was dropped is told with what was not, or when nothing has come: it wakes nobody by itself.
        let quiet = |queue: &mut Queue| queue.requests.is_empty();
        let waited = self.place.arrived.wait_timeout_while(self.place.queue(), at_most, quiet);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let requests = queue.requests.drain(..).collect();
        Told { requests, dropped: core::mem::take(&mut queue.dropped) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut places = self.watchers.places();
        places.retain(|place| !Arc::ptr_eq(place, &self.place));
        self.watchers.count.store(places.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(volume: u32, millis: u64) -> Traced {
        let mut traced =
            Traced::example(ExportId(volume), Instant::ZERO + Duration::from_millis(millis));
        traced.breakdown.seek = Duration::from_millis(millis);
        traced
    }

    fn tell(watchers: &Watchers, traced: impl IntoIterator<Item = Traced>) {
        watchers.tell(&mut traced.into_iter().collect());
    }

    #[test]
    fn a_filter_lets_through_what_was_asked_for() {
        let watchers = Arc::new(Watchers::default());
        assert!(!watchers.wanted());
        let filter = Filter {
            volume: Some(ExportId(1)),
            at_least: Duration::from_millis(10),
            every: 3,
            most: None,
        };
        let watcher = watchers.watch(filter).expect("there is room");
        assert!(watchers.wanted());
        tell(&watchers, (0..100).map(|n| traced(u32::try_from(n % 2).expect("0 or 1"), n)));
        let told = watcher.next(Duration::ZERO);
        let at: Vec<u64> = told.requests.iter().map(|t| t.at.as_nanos() / 1_000_000).collect();
        assert_eq!(at, (11..100).step_by(6).collect::<Vec<u64>>());
        assert_eq!(told.dropped, 0, "what was not asked for is not missing");
        drop(watcher);
        assert!(!watchers.wanted());
    }

    #[test]
    fn what_nobody_fetches_is_dropped_and_counted() {
        let watchers = Arc::new(Watchers::default());
        let watcher = watchers.watch(Filter::ALL).expect("there is room");
        tell(&watchers, (0..WAITING_MAX as u64 + 7).map(|n| traced(0, n)));
        let told = watcher.next(Duration::ZERO);
        assert_eq!((told.requests.len(), told.dropped), (WAITING_MAX, 7));
        assert_eq!(watcher.next(Duration::ZERO), Told::default(), "it is told once");
    }

    #[test]
    fn of_more_than_there_may_be_in_a_second_the_rest_is_counted() {
        let watchers = Arc::new(Watchers::default());
        let filter = Filter { most: Some(5), ..Filter::ALL };
        let watcher = watchers.watch(filter).expect("there is room");
        tell(&watchers, (0..2_500).step_by(100).map(|n| traced(0, n)));
        let told = watcher.next(Duration::ZERO);
        let at: Vec<u64> = told.requests.iter().map(|t| t.at.as_nanos() / 100_000_000).collect();
        assert_eq!(at, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]);
        assert_eq!(told.dropped, 10);
    }

    #[test]
    fn there_are_so_many_watchers_and_no_more() {
        let watchers = Arc::new(Watchers::default());
        let all: Vec<Watcher> =
            (0..WATCHERS_MAX).filter_map(|_| watchers.watch(Filter::ALL)).collect();
        assert_eq!((all.len(), watchers.watch(Filter::ALL).is_none()), (WATCHERS_MAX, true));
        drop(all);
        assert!(watchers.watch(Filter::ALL).is_some());
    }
}
