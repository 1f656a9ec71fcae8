//! A simulated drive as a target of the profiler, with the timing noise of a host.

use std::collections::VecDeque;

use drive::{AnyDevice, AnyModel};
use profiler::{Completion, Facts, Outcome, Tag, Target};
use units::{Duration, Instant, Op, Operation, Sectors, Share};

use rng::SeededRng;

/// The number of uniform draws whose sum is about normally distributed with a deviation of one.
const DRAWS: u64 = 12;
/// The range of one draw.
const DRAW: u64 = 1 << 24;
/// The random-number stream of the noise.
const STREAM: u64 = 0x6e6f_6973;
/// The random-number stream of the lateness.
const STREAM_LATE: u64 = 0x6c61_7465;

/// The latency with which a busy host notices completions: never early, mostly at once, sometimes
/// milliseconds late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// The upper bound of the latency that every completion has.
    pub always: Duration,
    /// The fraction of completions with additional latency.
    pub often: Share,
    /// The mean of the additional latency, which is distributed exponentially.
    pub mean: Duration,
    /// The fraction of completions at which the host sleeps.
    pub seldom: Share,
    /// The upper bound of that sleep.
    pub most: Duration,
    /// The upper bound of a level shift: the path between drive and host takes longer in each
    /// direction for some time.
    pub wanders: Duration,
    /// The mean duration of a level shift.
    pub dwells: Duration,
    /// The upper bound of the time from the host to the drive.
    pub inward: Duration,
}

impl Lateness {
    /// A drive emulated over NBD on two virtual cores with a load of 10 to 20, both sides at a
    /// real-time priority, as measured: every completion up to 0.06 ms late, 2.5 % of them by a
    /// mean of 0.3 ms more, 0.25 % by up to 4 ms; commands up to 0.06 ms in transit; level shifts
    /// of up to 0.06 ms for seconds. A cache hit takes 0.12 ms longer.
    pub const URGENT: Self = Self {
        always: Duration::from_micros(60),
        often: Share::from_ppb(25_000_000),
        mean: Duration::from_micros(300),
        seldom: Share::from_ppb(2_500_000),
        most: Duration::from_millis(4),
        wanders: Duration::from_micros(60),
        dwells: Duration::from_secs(3),
        inward: Duration::from_micros(60),
    };

    /// A host with more runnable threads than processors: 0.05 ms always, 5 % with a mean of 2 ms
    /// more, and 0.5 % up to 10 ms.
    pub const LOADED: Self = Self {
        always: Duration::from_micros(50),
        often: Share::from_percent(5),
        mean: Duration::from_millis(2),
        seldom: Share::from_ppb(5_000_000),
        most: Duration::from_millis(10),
        wanders: Duration::ZERO,
        dwells: Duration::ZERO,
        inward: Duration::ZERO,
    };
}

/// A simulated drive in virtual time, whose completions are observed with noise.
///
/// Each completion is noticed at its instant plus an about normally distributed error, but neither
/// before its submission nor before a completion that was noticed earlier. The drive's own time has
/// no noise, so errors do not accumulate.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    device: AnyDevice,
    facts: Facts,
    noise: Duration,
    rng: SeededRng,
    late: Option<(Lateness, SeededRng)>,
    /// Whether the path can be timed without the disk.
    answers: bool,
    /// The present level shift, and its end.
    level: (Duration, Instant),
    now: Instant,
    noticed: Instant,
    waiting: Vec<(Tag, Instant)>,
    done: VecDeque<Completion>,
}

impl BenchTarget {
    /// An idle drive whose completions are noticed with a standard deviation of `noise`, seeded.
    /// Writes are allowed.
    pub fn new(model: AnyModel, noise: Duration, seed: u64) -> Self {
        let facts = Facts {
            sectors: model.capacity(),
            block: Sectors(1),
            writable: true,
            flushes: true,
            forces: true,
            seeks: model.mechanical().is_some_and(|model| model.spec().arm.seek_command),
            depth_max: model.queue_depth_max(),
        };
        Self {
            device: AnyDevice::new(model).with_seed(seed),
            facts,
            noise,
            rng: SeededRng::new(seed, STREAM),
            late: None,
            answers: false,
            level: (Duration::ZERO, Instant::ZERO),
            now: Instant::ZERO,
            noticed: Instant::ZERO,
            waiting: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// The same target, read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.facts.writable = false;
        self
    }

    /// The same target without a seek command, as through a network or a file.
    #[must_use]
    pub fn without_seeks(mut self) -> Self {
        self.facts.seeks = false;
        self
    }

    /// The same target on a busy host, seeded.
    #[must_use]
    pub fn with_lateness(mut self, lateness: Lateness, seed: u64) -> Self {
        self.late = Some((lateness, SeededRng::new(seed, STREAM_LATE)));
        self
    }

    /// The same target behind a path that can be timed on its own, as a server that answers block
    /// status.
    #[must_use]
    pub fn with_path(mut self) -> Self {
        self.answers = true;
        self
    }

    /// The simulated drive.
    pub const fn device(&self) -> &AnyDevice {
        &self.device
    }

    /// Collects the commands that complete by `until`.
    fn collect(&mut self, until: Instant) {
        while let Some(at) = self.device.next_completion().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let Some(done) = self.device.complete(at) else { continue };
            let index = self.waiting.iter().position(|(tag, _)| tag.0 == done.tag.0);
            let (tag, submitted) =
                self.waiting.swap_remove(index.expect("the command was submitted"));
            let noticed = self.notice(done.at) + self.late(done.at);
            let completed = noticed.max(submitted).max(self.noticed);
            self.noticed = completed;
            let outcome = Outcome::Done;
            self.done.push_back(Completion { tag, submitted, completed, outcome });
        }
    }

    /// The present level shift of the path.
    fn level(&mut self, at: Instant) -> Duration {
        let Some((lateness, rng)) = &mut self.late else { return Duration::ZERO };
        if lateness.wanders > Duration::ZERO && at >= self.level.1 {
            self.level = (up_to(rng, lateness.wanders), at + rng.exponential(lateness.dwells));
        }
        self.level.0
    }

    /// The time of a command from the host to the drive.
    fn inward(&mut self) -> Duration {
        let level = self.level(self.now);
        let Some((lateness, rng)) = &mut self.late else { return Duration::ZERO };
        level + up_to(rng, lateness.inward)
    }

    /// The latency of noticing a completion, beyond the noise.
    fn late(&mut self, at: Instant) -> Duration {
        let level = self.level(at);
        let Some((lateness, rng)) = &mut self.late else { return Duration::ZERO };
        let mut late = level + up_to(rng, lateness.always);
        if rng.chance(lateness.often) {
            late += rng.exponential(lateness.mean);
        }
        if rng.chance(lateness.seldom) {
            late += up_to(rng, lateness.most);
        }
        late
    }

    /// The instant at which an event at `at` is noticed, with noise.
    fn notice(&mut self, at: Instant) -> Instant {
        let sum: u64 = (0..DRAWS).map(|_| self.rng.below(DRAW)).sum();
        let (sum, mean) = (u128::from(sum), u128::from(DRAWS * DRAW / 2));
        let of = |part: u128| {
            let nanos = part * u128::from(self.noise.as_nanos()) / u128::from(DRAW);
            Duration::from_nanos(u64::try_from(nanos).expect("six times the noise"))
        };
        if sum >= mean { at + of(sum - mean) } else { at.saturating_sub(of(mean - sum)) }
    }
}

/// A uniform duration up to a maximum.
fn up_to(rng: &mut SeededRng, most: Duration) -> Duration {
    Duration::from_nanos(rng.below(most.as_nanos().saturating_add(1)))
}

impl Target for BenchTarget {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn now(&mut self) -> Instant {
        self.now
    }

    fn wait_until(&mut self, at: Instant) {
        self.collect(at);
        self.now = self.now.max(at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        let refused = operation.op.writes() && !self.facts.writable
            || operation.op == Op::Seek && !self.facts.seeks;
        assert!(!refused, "{} is allowed", operation.op);
        let submitted = self.now;
        let inward = self.inward();
        self.now += inward;
        self.collect(self.now);
        self.device.submit(self.now, drive::Tag(tag.0), operation);
        self.waiting.push((tag, submitted));
        submitted
    }

    fn complete(&mut self) -> Completion {
        while self.done.is_empty() {
            let at = self.device.next_completion().expect("a command is outstanding");
            self.collect(at);
        }
        let completion = self.done.pop_front().expect("a command completed");
        // A host that notices late continues late.
        self.wait_until(completion.completed);
        completion
    }

    fn path(&mut self) -> Option<Duration> {
        if !self.answers {
            return None;
        }
        let sent = self.now;
        let arrived = sent + self.inward();
        let noticed = self.notice(arrived) + self.late(arrived);
        self.wait_until(noticed.max(arrived));
        Some(self.now.since(sent))
    }
}
