//! How long nobody could interrupt the disk: the durations that waiting is made of (FAST 2003 §3 and §4.1).

use engine::{Command, Execution, RequestId};
use units::{Duration, Instant};

/// The width of a step of the distribution.
const STEP: Duration = Duration::from_micros(100);
/// Steps of the distribution; what takes longer is counted in the last.
const STEPS: usize = 4_000;

/// What a disk was busy with that nobody could interrupt, and what it idled though there was work.
///
/// The unit is a command, or, where a request's commands follow each other with no decision between them, the whole
/// request.
#[derive(Clone, Debug)]
pub struct Uninterrupted {
    steps: Vec<u64>,
    count: u64,
    sum: Duration,
    /// Σ T², in ns².
    squares: u128,
    longest: Duration,
    idle: Duration,
    whole_requests: bool,
    /// The request under way, and since when.
    under_way: Option<(RequestId, Instant)>,
    /// When the disk last had nothing to do although requests were there.
    idle_since: Option<Instant>,
}

impl Uninterrupted {
    pub(crate) fn new(execution: Execution) -> Self {
        let whole_requests = matches!(execution, Execution::Whole { split: Some(_) });
        Self {
            steps: vec![0; STEPS],
            count: 0,
            sum: Duration::ZERO,
            squares: 0,
            longest: Duration::ZERO,
            idle: Duration::ZERO,
            whole_requests,
            under_way: None,
            idle_since: None,
        }
    }

    pub(crate) fn issued(&mut self, command: &Command, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.idle += now.since(since);
        }
        if self.whole_requests
            && self.under_way.is_none_or(|(request, _)| request != command.request)
        {
            self.under_way = Some((command.request, now));
        }
    }

    /// `last`: whether the request has no more commands.
    pub(crate) fn completed(
        &mut self,
        command: &Command,
        issued: Instant,
        last: bool,
        now: Instant,
    ) {
        if !self.whole_requests {
            self.count(now.since(issued));
        } else if last
            && let Some((request, since)) = self.under_way
            && request == command.request
        {
            self.under_way = None;
            self.count(now.since(since));
        }
    }

    /// The disk has nothing to do; `work` tells whether requests are there.
    pub(crate) fn rests(&mut self, work: bool, now: Instant) {
        match (work, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, Some(since)) => {
                self.idle += now.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }

    fn count(&mut self, time: Duration) {
        let step = usize::try_from(time.as_nanos() / STEP.as_nanos()).unwrap_or(STEPS);
        self.steps[step.min(STEPS - 1)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
        self.sum += time;
        self.squares += u128::from(time.as_nanos()) * u128::from(time.as_nanos());
    }

    /// The mean wait of a request that arrives at any time with equal probability: equation 2 of FAST 2003.
    pub fn expected_wait(&self) -> Duration {
        let time = u128::from(self.sum.as_nanos()) + u128::from(self.idle.as_nanos());
        let wait = self.squares.checked_div(2 * time).unwrap_or(0);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The part of [`Self::expected_wait`] that is owed to what takes `from` or longer, a whole number of tenths of a
    /// millisecond; to the width of a step of the distribution.
    pub fn wait_for(&self, from: Duration) -> Duration {
        let first = usize::try_from(from.as_nanos() / STEP.as_nanos()).unwrap_or(STEPS);
        let mut squares = 0_u128;
        for (step, count) in (0_u128..).zip(&self.steps).skip(first) {
            let middle = step * u128::from(STEP.as_nanos()) + u128::from(STEP.as_nanos() / 2);
            squares += middle * middle * u128::from(*count);
        }
        let time = u128::from(self.sum.as_nanos()) + u128::from(self.idle.as_nanos());
        let wait = squares.checked_div(2 * time).unwrap_or(0);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The longest of them: the longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The longest that anybody waited for a request that nobody may preempt, the one under way included; nothing where
    /// every command is followed by a decision.
    pub(crate) fn longest_bound(&self, now: Instant) -> Duration {
        let under_way = self.under_way.map_or(Duration::ZERO, |(_, since)| now.since(since));
        if self.whole_requests { self.longest.max(under_way) } else { Duration::ZERO }
    }

    /// How many there were.
    pub fn number(&self) -> u64 {
        self.count
    }

    /// How long the disk idled though requests were there.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Which part of them took from `from` to under `to`, both whole tenths of a millisecond.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn part(&self, from: Duration, to: Duration) -> f64 {
        let step = |at: Duration| usize::try_from(at.as_nanos() / STEP.as_nanos()).unwrap_or(STEPS);
        let inside: u64 = self.steps[step(from).min(STEPS)..step(to).min(STEPS)].iter().sum();
        inside as f64 / self.count.max(1) as f64
    }

    /// The distribution: the middle of each step in ms, and the part of them that took so long.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let middle = STEP.as_millis_f64() / 2.0;
        let all = self.count.max(1) as f64;
        (0_u32..).zip(&self.steps).map(move |(step, count)| {
            (f64::from(step) * STEP.as_millis_f64() + middle, *count as f64 / all)
        })
    }
}
