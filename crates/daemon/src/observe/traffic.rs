//! The requests of a volume or a disk, counted as Linux counts those of a block device
//! (`Documentation/admin-guide/iostats.rst`), so that tools for the one can read the other.
//!
//! Invariants: every count but [`Traffic::open`] only grows; a disk's counts are the sums of its
//! volumes' counts, removed volumes included.

use core::ops::AddAssign;

use units::{Duration, Instant, Op, Operation, Sectors};

/// A sum of times. With a thousand concurrent requests it grows a thousand times as fast as the
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSum(u128);

impl TimeSum {
    /// In seconds.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `requests` times `time`.
    fn product(requests: u64, time: Duration) -> Self {
        Self(u128::from(requests) * u128::from(time.as_nanos()))
    }
}

impl AddAssign for TimeSum {
    fn add_assign(&mut self, more: Self) {
        self.0 += more.0;
    }
}

impl AddAssign<Duration> for TimeSum {
    fn add_assign(&mut self, more: Duration) {
        self.0 += u128::from(more.as_nanos());
    }
}

/// Requests of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Answered requests, failed ones included.
    pub requests: u64,
    /// Sectors of the requests that succeeded.
    pub sectors: Sectors,
    /// The sum of the times from arrival to reply.
    pub time: TimeSum,
}

/// A histogram of latencies with fixed bounds, so that histograms of different times, volumes and
/// machines can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    counts: [u64; Self::BOUNDS.len() + 1],
    sum: TimeSum,
}

impl Buckets {
    /// The upper bounds; one more bucket is unbounded. They range from a hit in a drive's buffer
    /// over one random access (10 ms) to seconds of queueing.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_micros(100),
        Duration::from_micros(500),
        Duration::from_micros(1_000),
        Duration::from_micros(2_500),
        Duration::from_micros(5_000),
        Duration::from_micros(10_000),
        Duration::from_micros(25_000),
        Duration::from_micros(50_000),
        Duration::from_micros(100_000),
        Duration::from_micros(250_000),
        Duration::from_micros(1_000_000),
        Duration::from_micros(10_000_000),
    ];

    fn record(&mut self, latency: Duration) {
        self.counts[Self::BOUNDS.partition_point(|bound| *bound < latency)] += 1;
        self.sum += latency;
    }

    /// The number of latencies up to each bound, and at last their total number.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the latencies.
    pub fn sum(&self) -> TimeSum {
        self.sum
    }
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) operation: Operation,
    /// The time from arrival to reply.
    pub(crate) latency: Duration,
    /// The time from arrival to the first command.
    pub(crate) waiting: Duration,
    /// The error of the engine's estimate, if it made one.
    pub(crate) estimate_error: Option<Duration>,
    pub(crate) failed: bool,
    /// Whether a client waits for it, rather than an operator or the pool.
    pub(crate) client: bool,
}

/// The requests of a volume or a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: Flow,
    /// Writes, writes of zeroes included, as in Linux.
    pub writes: Flow,
    /// Trims, the daemon's own erasures of newly allocated space included.
    pub discards: Flow,
    /// Flushes.
    pub flushes: Flow,
    /// Of all these, the requests that failed.
    pub failures: u64,
    /// Of all these, the requests that took at least the configured slow-request time.
    pub slow: u64,
    /// Requests in progress.
    pub open: u64,
    /// The time with a request in progress.
    pub busy: TimeSum,
    /// The same time, weighted by the number of requests in progress.
    pub weighted: TimeSum,
    /// Clients' requests whose disk time was estimated.
    pub estimated: u64,
    /// The sum of these estimates' errors.
    pub estimate_error: TimeSum,
    /// The times of clients' requests from arrival to reply.
    pub latency: Buckets,
    /// The instant up to which `busy` and `weighted` are counted.
    counted_to: Instant,
}

impl Traffic {
    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.flows().iter().map(|flow| flow.requests).sum()
    }

    /// The sum of all requests' times from arrival to reply.
    pub fn time(&self) -> TimeSum {
        let mut sum = TimeSum::default();
        self.flows().iter().for_each(|flow| sum += flow.time);
        sum
    }

    /// The sum of the traffic on two disks. The busy time is that of the busier disk.
    #[must_use]
    pub(crate) fn combined(mut self, other: &Self) -> Self {
        let flows = [&mut self.reads, &mut self.writes, &mut self.discards, &mut self.flushes];
        for (mine, more) in flows.into_iter().zip(other.flows()) {
            mine.requests += more.requests;
            mine.sectors += more.sectors;
            mine.time += more.time;
        }
        self.failures += other.failures;
        self.slow += other.slow;
        self.open += other.open;
        self.busy = self.busy.max(other.busy);
        self.weighted += other.weighted;
        self.estimated += other.estimated;
        self.estimate_error += other.estimate_error;
        for (mine, more) in self.latency.counts.iter_mut().zip(other.latency.counts) {
            *mine += more;
        }
        self.latency.sum += other.latency.sum;
        self
    }

    fn flows(&self) -> [Flow; 4] {
        [self.reads, self.writes, self.discards, self.flushes]
    }

    /// The traffic counted up to `now`.
    #[must_use]
    pub(crate) fn at(mut self, now: Instant) -> Self {
        let passed = now.since(self.counted_to);
        if self.open > 0 {
            self.busy += passed;
            self.weighted += TimeSum::product(self.open, passed);
        }
        self.counted_to = now;
        self
    }

    pub(crate) fn record_arrival(&mut self, now: Instant) {
        *self = self.at(now);
        self.open += 1;
    }

    /// A request of the read-ahead is answered: no client waited for it, and it is no traffic.
    pub(crate) fn record_filled(&mut self, now: Instant) {
        *self = self.at(now);
        assert!(self.open > 0, "a request arrives before it is answered");
        self.open -= 1;
    }

    pub(crate) fn record_answer(&mut self, answered: &Answered, now: Instant) {
        *self = self.at(now);
        assert!(self.open > 0, "a request arrives before it is answered");
        self.open -= 1;
        let Answered { operation, latency, estimate_error, failed, client, .. } = *answered;
        let flow = match operation.op {
            Op::Read => &mut self.reads,
            Op::Write | Op::WriteZeroes => &mut self.writes,
            Op::Trim => &mut self.discards,
            Op::Flush => &mut self.flushes,
            Op::Seek => unreachable!("seeks are the engine's own commands"),
        };
        flow.requests += 1;
        flow.time += latency;
        if failed {
            self.failures += 1;
        } else {
            flow.sectors += operation.extent.len;
        }
        if client {
            self.latency.record(latency);
            if let Some(off) = estimate_error {
                self.estimated += 1;
                self.estimate_error += off;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Extent, Lba};

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn done(op: Op, millis: u64) -> Answered {
        let operation = Operation { op, extent: Extent::new(Lba(0), Sectors(8)), fua: false };
        let latency = Duration::from_millis(millis);
        Answered {
            operation,
            latency,
            waiting: latency,
            estimate_error: None,
            failed: false,
            client: true,
        }
    }

    #[test]
    fn busy_time_is_counted_once_and_weighted_by_the_number_of_requests() {
        let mut traffic = Traffic::default();
        traffic.record_arrival(at(10));
        traffic.record_arrival(at(20));
        traffic.record_answer(&done(Op::Read, 30), at(40));
        traffic.record_answer(&Answered { failed: true, ..done(Op::Write, 30) }, at(50));
        traffic.record_arrival(at(100));
        let now = traffic.at(at(101));
        let sum = |millis| TimeSum::product(1, Duration::from_millis(millis));
        assert_eq!((now.busy, now.weighted, now.time()), (sum(41), sum(61), sum(60)));
        assert_eq!((now.requests(), now.failures, now.open), (2, 1, 1));
        assert_eq!((now.reads.sectors, now.writes.sectors), (Sectors(8), Sectors(0)));
    }

    #[test]
    fn a_latency_is_in_every_bucket_whose_bound_it_does_not_exceed() {
        let mut buckets = Buckets::default();
        for micros in [100, 101, 25_000, 60_000_000] {
            buckets.record(Duration::from_micros(micros));
        }
        let cumulative: Vec<u64> = buckets.cumulative().collect();
        assert_eq!(cumulative, [1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!(buckets.count(), 4);
        assert_eq!(buckets.sum(), TimeSum::product(1, Duration::from_micros(60_025_201)));
    }
}
