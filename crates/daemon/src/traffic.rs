//! What has been asked of a volume or a disk, counted as Linux counts what is asked of a block device
//! (`Documentation/admin-guide/iostats.rst`), so that the tools that know the one know the other.
//!
//! Invariants: every count but [`Traffic::open`] only grows; what is counted of a disk is what is counted of its volumes,
//! those included that have left.

use core::ops::AddAssign;

use units::{Duration, Instant, Op, Operation, Sectors};

/// A sum of times: of a thousand requests at once it grows a thousand times as fast as the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSum(u128);

impl TimeSum {
    /// In seconds.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// So many requests, each for as long.
    fn of(requests: u64, time: Duration) -> Self {
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

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Answered, well or not.
    pub requests: u64,
    /// Sectors of those that were answered well.
    pub sectors: Sectors,
    /// From each one's arrival to its answer.
    pub time: TimeSum,
}

/// Latencies by fixed bounds: what can be added up over time, volumes and machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    counts: [u64; Self::BOUNDS.len() + 1],
    sum: TimeSum,
}

impl Buckets {
    /// A request is in the first that it does not exceed, and past the last in one without a bound: from a drive's buffer
    /// over one random access (10 ms) to a second behind a batch.
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

    /// How many did not exceed each of the bounds, and at last how many there were.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them, added up.
    pub fn sum(&self) -> TimeSum {
        self.sum
    }
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) operation: Operation,
    /// From its arrival.
    pub(crate) latency: Duration,
    /// From its arrival to its first command.
    pub(crate) waiting: Duration,
    /// How far off the engine's estimate was, if it made one.
    pub(crate) estimate_error: Option<Duration>,
    pub(crate) failed: bool,
    /// Whether a client asked for it, rather than an operator.
    pub(crate) client: bool,
}

/// What has been asked of a volume or a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: Flow,
    /// Writes; writes of zeroes are some, as in Linux.
    pub writes: Flow,
    /// Trims, the daemon's own erasures of space that it gives out included.
    pub discards: Flow,
    /// Flushes.
    pub flushes: Flow,
    /// Of all of these, those that failed.
    pub failures: u64,
    /// Of all of these, those that took as long as is called slow.
    pub slow: u64,
    /// Requests that are not answered yet.
    pub open: u64,
    /// Time in which there was one.
    pub busy: TimeSum,
    /// The same, counted once for every one that there was.
    pub weighted: TimeSum,
    /// Clients' requests whose disk time was estimated.
    pub estimated: u64,
    /// How far off these estimates were, added up.
    pub estimate_error: TimeSum,
    /// Of clients' requests, from arrival to answer.
    pub latency: Buckets,
    /// Up to when `busy` and `weighted` are counted.
    counted: Instant,
}

impl Traffic {
    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.flows().iter().map(|flow| flow.requests).sum()
    }

    /// From each request's arrival to its answer, added up.
    pub fn time(&self) -> TimeSum {
        let mut sum = TimeSum::default();
        self.flows().iter().for_each(|flow| sum += flow.time);
        sum
    }

    /// With what was asked of another disk. Time with a request is that of the disk that had more of it.
    #[must_use]
    pub(crate) fn beside(mut self, other: &Self) -> Self {
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

    /// Counted up to `now`.
    #[must_use]
    pub(crate) fn at(mut self, now: Instant) -> Self {
        let passed = now.since(self.counted);
        if self.open > 0 {
            self.busy += passed;
            self.weighted += TimeSum::of(self.open, passed);
        }
        self.counted = now;
        self
    }

    pub(crate) fn asked(&mut self, now: Instant) {
        *self = self.at(now);
        self.open += 1;
    }

    pub(crate) fn answered(&mut self, answered: &Answered, now: Instant) {
        *self = self.at(now);
        self.open -= 1;
        let Answered { operation, latency, estimate_error, failed, client, .. } = *answered;
        let flow = match operation.op {
            Op::Read => &mut self.reads,
            Op::Write | Op::WriteZeroes => &mut self.writes,
            Op::Trim => &mut self.discards,
            Op::Flush => &mut self.flushes,
            Op::Seek => unreachable!("only a scheduler asks for a seek"),
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
    fn time_with_requests_counts_once_and_weighted_by_how_many_there_were() {
        let mut traffic = Traffic::default();
        traffic.asked(at(10));
        traffic.asked(at(20));
        traffic.answered(&done(Op::Read, 30), at(40));
        traffic.answered(&Answered { failed: true, ..done(Op::Write, 30) }, at(50));
        traffic.asked(at(100));
        let now = traffic.at(at(101));
        let sum = |millis| TimeSum::of(1, Duration::from_millis(millis));
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
        assert_eq!(buckets.sum(), TimeSum::of(1, Duration::from_micros(60_025_201)));
    }
}
