//! Non-preemptible intervals of a disk: the durations that make up the waiting time of a request
//! (semi-preemptible IO, FAST 2003, §3 and §4.1).

use engine::{Command, Execution, RequestId};
use units::{Duration, Instant};

/// The width of a bin of the distribution.
const BIN_WIDTH: Duration = Duration::from_micros(100);
/// The number of bins; a longer interval is counted in the last.
const BINS: usize = 4_000;

/// The intervals in which a disk could not be preempted, and its idle time while requests waited.
///
/// An interval is a command; or the whole request, where its commands follow each other without a
/// scheduling decision between them.
#[derive(Clone, Debug)]
pub struct NonPreemptible {
    bins: Vec<u64>,
    count: u64,
    sum: Duration,
    /// Σ T², in ns².
    squares: u128,
    longest: Duration,
    idle: Duration,
    whole_requests: bool,
    /// The request in service, and when it began.
    in_service: Option<(RequestId, Instant)>,
    /// When the disk last went idle although requests were queued.
    idle_since: Option<Instant>,
}

impl NonPreemptible {
    pub(crate) fn new(execution: Execution) -> Self {
        let whole_requests = matches!(execution, Execution::Whole { split: Some(_) });
        Self {
            bins: vec![0; BINS],
            count: 0,
            sum: Duration::ZERO,
            squares: 0,
            longest: Duration::ZERO,
            idle: Duration::ZERO,
            whole_requests,
            in_service: None,
            idle_since: None,
        }
    }

    pub(crate) fn issued(&mut self, command: &Command, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.idle += now.since(since);
        }
        if self.whole_requests
            && self.in_service.is_none_or(|(request, _)| request != command.request)
        {
            self.in_service = Some((command.request, now));
        }
    }

    /// Records a completion. `last` states whether the request has no further command.
    pub(crate) fn completed(
        &mut self,
        command: &Command,
        issued: Instant,
        last: bool,
        now: Instant,
    ) {
        if !self.whole_requests {
            self.record(now.since(issued));
        } else if last
            && let Some((request, since)) = self.in_service
            && request == command.request
        {
            self.in_service = None;
            self.record(now.since(since));
        }
    }

    /// Records that the disk is idle. `backlogged` states whether requests are queued.
    pub(crate) fn on_idle(&mut self, backlogged: bool, now: Instant) {
        match (backlogged, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, Some(since)) => {
                self.idle += now.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }

    fn record(&mut self, time: Duration) {
        let bin = usize::try_from(time.as_nanos() / BIN_WIDTH.as_nanos()).unwrap_or(BINS);
        self.bins[bin.min(BINS - 1)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
        self.sum += time;
        self.squares += u128::from(time.as_nanos()) * u128::from(time.as_nanos());
    }

    /// The mean wait of a request that arrives at any instant with equal probability: equation 2 of
    /// FAST 2003.
    pub fn expected_wait(&self) -> Duration {
        let time = u128::from(self.sum.as_nanos()) + u128::from(self.idle.as_nanos());
        let wait = self.squares.checked_div(2 * time).unwrap_or(0);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The part of [`Self::expected_wait`] that is caused by intervals of `from` or longer, in
    /// whole tenths of a millisecond, to the width of one bin.
    pub fn wait_for(&self, from: Duration) -> Duration {
        let first = usize::try_from(from.as_nanos() / BIN_WIDTH.as_nanos()).unwrap_or(BINS);
        let mut squares = 0_u128;
        for (bin, count) in (0_u128..).zip(&self.bins).skip(first) {
            let middle =
                bin * u128::from(BIN_WIDTH.as_nanos()) + u128::from(BIN_WIDTH.as_nanos() / 2);
            squares += middle * middle * u128::from(*count);
        }
        let time = u128::from(self.sum.as_nanos()) + u128::from(self.idle.as_nanos());
        let wait = squares.checked_div(2 * time).unwrap_or(0);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The longest interval, which is the longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The longest interval of a request without scheduling decisions, the one in service included;
    /// zero where every command is followed by a decision.
    pub(crate) fn longest_bound(&self, now: Instant) -> Duration {
        let in_service = self.in_service.map_or(Duration::ZERO, |(_, since)| now.since(since));
        if self.whole_requests { self.longest.max(in_service) } else { Duration::ZERO }
    }

    /// The number of intervals.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The idle time while requests were queued.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// The fraction of the intervals from `from` to less than `to`, both in whole tenths of a
    /// millisecond.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn fraction(&self, from: Duration, to: Duration) -> f64 {
        let bin =
            |at: Duration| usize::try_from(at.as_nanos() / BIN_WIDTH.as_nanos()).unwrap_or(BINS);
        let inside: u64 = self.bins[bin(from).min(BINS)..bin(to).min(BINS)].iter().sum();
        inside as f64 / self.count.max(1) as f64
    }

    /// The distribution: the middle of each bin in ms, and the fraction of the intervals in it.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let middle = BIN_WIDTH.as_millis_f64() / 2.0;
        let all = self.count.max(1) as f64;
        (0_u32..).zip(&self.bins).map(move |(bin, count)| {
            (f64::from(bin) * BIN_WIDTH.as_millis_f64() + middle, *count as f64 / all)
        })
    }
}
