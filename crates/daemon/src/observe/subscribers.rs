//! Subscribers to finished requests: the slow-request log and live traces.
//!
//! Publishing never waits. A request that a subscriber does not fetch in time is dropped and
//! counted, and so is a request beyond the subscriber's rate limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nbd::ExportId;
use units::{Duration, Instant};

use super::traced::Traced;

/// The largest number of subscribers: each adds about 100 ns to every request.
pub const SUBSCRIBERS_MAX: usize = 8;
/// The largest number of requests queued for one subscriber: 1.5 MiB.
pub const QUEUED_MAX: usize = 4_096;
/// The interval of [`Filter::per_second_max`].
const SECOND: Duration = Duration::from_secs(1);

/// The requests that a subscriber wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Those of this volume; `None`: of all volumes.
    pub volume: Option<ExportId>,
    /// Those that took at least this time.
    pub at_least: Duration,
    /// One in this many, at least one.
    pub every: u32,
    /// At most this many in a second.
    pub per_second_max: Option<u32>,
}

impl Filter {
    /// All requests.
    pub const ALL: Self =
        Self { volume: None, at_least: Duration::ZERO, every: 1, per_second_max: None };
}

/// Finished requests for a subscriber, and the number of those that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceBatch {
    /// In the order of their replies, for each disk.
    pub requests: Vec<Traced>,
    /// The requests that passed the filter and are missing: the queue was full, or the rate limit
    /// was reached.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Traced>,
    dropped: u64,
    /// The number of requests that passed the filter before sampling.
    seen: u64,
    /// The start of the current second, and the number of requests accepted in it.
    second: Instant,
    accepted: u32,
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
            (self.second, self.accepted) = (traced.at, 0);
        }
        let over_limit = filter.per_second_max.is_some_and(|max| self.accepted >= max);
        if over_limit || self.requests.len() >= QUEUED_MAX {
            self.dropped += 1;
            return;
        }
        self.accepted += 1;
        self.requests.push_back(*traced);
    }
}

#[derive(Debug)]
struct Subscription {
    filter: Filter,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Subscription {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock; after a panic the queue would still be whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    /// The time from which on a request is slow, if one is configured.
    slow: Option<Duration>,
    count: AtomicUsize,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
}

impl Subscribers {
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        Self { slow, ..Self::default() }
    }

    fn subscriptions(&self) -> MutexGuard<'_, Vec<Arc<Subscription>>> {
        // As for a queue.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests are to be traced.
    pub(crate) fn is_wanted(&self) -> bool {
        self.slow.is_some() || self.count.load(Ordering::Relaxed) > 0
    }

    /// The time from which on a request is slow, if one is configured.
    pub(crate) fn slow(&self) -> Option<Duration> {
        self.slow
    }

    /// Passes finished requests to all subscribers; leaves the vector empty.
    pub(super) fn publish(&self, finished: &mut Vec<Traced>) {
        if self.count.load(Ordering::Relaxed) > 0 {
            for subscription in self.subscriptions().iter() {
                let mut queue = subscription.queue();
                for traced in finished.iter() {
                    queue.offer(&subscription.filter, traced);
                }
                drop(queue);
                subscription.arrived.notify_one();
            }
        }
        finished.clear();
    }

    /// Adds a subscriber; `None` if there are [`SUBSCRIBERS_MAX`] already.
    pub(crate) fn subscribe(self: &Arc<Self>, filter: Filter) -> Option<Subscriber> {
        let mut subscriptions = self.subscriptions();
        if subscriptions.len() >= SUBSCRIBERS_MAX {
            return None;
        }
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        let subscription = Arc::new(Subscription { filter, queue, arrived });
        subscriptions.push(subscription.clone());
        self.count.store(subscriptions.len(), Ordering::Relaxed);
        Some(Subscriber { subscribers: self.clone(), subscription })
    }
}

/// Receives finished requests until it is dropped.
#[derive(Debug)]
pub struct Subscriber {
    subscribers: Arc<Subscribers>,
    subscription: Arc<Subscription>,
}

impl Subscriber {
    /// The finished requests since the last call, awaited for `at_most` this time.
    pub fn next(&self, at_most: Duration) -> TraceBatch {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        // Dropped requests are reported with others, or after the time-out: they wake no thread.
        let is_quiet = |queue: &mut Queue| queue.requests.is_empty();
        let waited = self.subscription.arrived.wait_timeout_while(
            self.subscription.queue(),
            at_most,
            is_quiet,
        );
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let requests = queue.requests.drain(..).collect();
        TraceBatch { requests, dropped: core::mem::take(&mut queue.dropped) }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut subscriptions = self.subscribers.subscriptions();
        subscriptions.retain(|subscription| !Arc::ptr_eq(subscription, &self.subscription));
        self.subscribers.count.store(subscriptions.len(), Ordering::Relaxed);
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

    fn publish(subscribers: &Subscribers, traced: impl IntoIterator<Item = Traced>) {
        subscribers.publish(&mut traced.into_iter().collect());
    }

    #[test]
    fn a_filter_passes_the_requests_that_match() {
        let subscribers = Arc::new(Subscribers::default());
        assert!(!subscribers.is_wanted());
        let filter = Filter {
            volume: Some(ExportId(1)),
            at_least: Duration::from_millis(10),
            every: 3,
            per_second_max: None,
        };
        let subscriber = subscribers.subscribe(filter).expect("there is room");
        assert!(subscribers.is_wanted());
        publish(&subscribers, (0..100).map(|n| traced(u32::try_from(n % 2).expect("0 or 1"), n)));
        let batch = subscriber.next(Duration::ZERO);
        let at: Vec<u64> = batch.requests.iter().map(|t| t.at.as_nanos() / 1_000_000).collect();
        assert_eq!(at, (11..100).step_by(6).collect::<Vec<u64>>());
        assert_eq!(batch.dropped, 0, "a request that the filter rejects is not missing");
        drop(subscriber);
        assert!(!subscribers.is_wanted());
    }

    #[test]
    fn requests_that_are_not_fetched_are_dropped_and_counted() {
        let subscribers = Arc::new(Subscribers::default());
        let subscriber = subscribers.subscribe(Filter::ALL).expect("there is room");
        publish(&subscribers, (0..QUEUED_MAX as u64 + 7).map(|n| traced(0, n)));
        let batch = subscriber.next(Duration::ZERO);
        assert_eq!((batch.requests.len(), batch.dropped), (QUEUED_MAX, 7));
        assert_eq!(
            subscriber.next(Duration::ZERO),
            TraceBatch::default(),
            "each request is delivered once"
        );
    }

    #[test]
    fn requests_beyond_the_rate_limit_are_counted() {
        let subscribers = Arc::new(Subscribers::default());
        let filter = Filter { per_second_max: Some(5), ..Filter::ALL };
        let subscriber = subscribers.subscribe(filter).expect("there is room");
        publish(&subscribers, (0..2_500).step_by(100).map(|n| traced(0, n)));
        let batch = subscriber.next(Duration::ZERO);
        let at: Vec<u64> = batch.requests.iter().map(|t| t.at.as_nanos() / 100_000_000).collect();
        assert_eq!(at, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]);
        assert_eq!(batch.dropped, 10);
    }

    #[test]
    fn the_number_of_subscribers_is_bounded() {
        let subscribers = Arc::new(Subscribers::default());
        let all: Vec<Subscriber> =
            (0..SUBSCRIBERS_MAX).filter_map(|_| subscribers.subscribe(Filter::ALL)).collect();
        assert_eq!(
            (all.len(), subscribers.subscribe(Filter::ALL).is_none()),
            (SUBSCRIBERS_MAX, true)
        );
        drop(all);
        assert!(subscribers.subscribe(Filter::ALL).is_some());
    }
}
