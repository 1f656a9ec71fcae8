//! A simulated drive under the profiler, seen as a host would: late or early by some noise.

use std::collections::VecDeque;

use drive::{AnyDevice, AnyModel};
use profiler::{Completion, Facts, Outcome, Tag, Target};
use units::{Duration, Instant, Op, Operation, Sectors, Share};

use crate::dice::Dice;

/// How many uniform draws are added up to one that is about normal; their sum deviates by one.
const DRAWS: u64 = 12;
/// What a draw is out of.
const DRAW: u64 = 1 << 24;
/// The stream of dice that noise is drawn from.
const STREAM: u64 = 0x6e6f_6973;
/// The stream of dice that lateness is drawn from.
const STREAM_LATE: u64 = 0x6c61_7465;

/// How late a busy host notices completions: never early, mostly at once, now and then by milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Every completion is up to so late.
    pub always: Duration,
    /// How many are late beyond that.
    pub often: Share,
    /// By how much these are, on the mean; independent waits are distributed exponentially.
    pub mean: Duration,
    /// How many find the host asleep.
    pub seldom: Share,
    /// For how long at most.
    pub most: Duration,
    /// The path between drive and host takes up to so much longer either way, for a while each time, as its other work has
    /// it.
    pub wanders: Duration,
    /// For how long it does, on the mean.
    pub dwells: Duration,
    /// A command takes up to so long to get to the drive.
    pub inward: Duration,
}

impl Lateness {
    /// What a drive emulated over NBD showed on two virtual cores with a load of ten to twenty, both sides at a real-time
    /// priority: up to 0.06 ms late always, every fortieth by 0.3 ms more on the mean, one of four hundred by up to 4 ms;
    /// commands up to 0.06 ms on their way; and either way up to 0.06 ms longer for seconds. A hit takes 0.12 ms more by it.
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

    /// A host with more to run than processors: 0.05 ms always, every twentieth 2 ms more on the mean, and one of two
    /// hundred up to 10 ms.
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
/// Each completion is noticed at its instant plus a draw of about the normal distribution, but neither before its
/// submission nor before a completion that was noticed earlier. The drive's own time has no noise, so it does not add up.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    device: AnyDevice,
    facts: Facts,
    noise: Duration,
    dice: Dice,
    late: Option<(Lateness, Dice)>,
    /// Whether something that is no disk answers at the end of the path.
    answers: bool,
    /// How much longer the path takes, and until when.
    level: (Duration, Instant),
    now: Instant,
    noticed: Instant,
    waiting: Vec<(Tag, Instant)>,
    done: VecDeque<Completion>,
}

impl BenchTarget {
    /// A drive at rest, noticed with a standard deviation of `noise` out of dice with this seed. Writes are allowed.
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
            dice: Dice::new(seed, STREAM),
            late: None,
            answers: false,
            level: (Duration::ZERO, Instant::ZERO),
            now: Instant::ZERO,
            noticed: Instant::ZERO,
            waiting: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// The same, for reading only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.facts.writable = false;
        self
    }

    /// The same, without a command that moves the arm alone: as through a network or a file.
    #[must_use]
    pub fn without_seeks(mut self) -> Self {
        self.facts.seeks = false;
        self
    }

    /// The same, noticed by a host that has other things to do, out of dice with this seed.
    #[must_use]
    pub fn with_lateness(mut self, lateness: Lateness, seed: u64) -> Self {
        self.late = Some((lateness, Dice::new(seed, STREAM_LATE)));
        self
    }

    /// The same, at the end of a path that can be timed on its own: as behind a server that says how sectors are allocated.
    #[must_use]
    pub fn with_path(mut self) -> Self {
        self.answers = true;
        self
    }

    /// The drive.
    pub const fn device(&self) -> &AnyDevice {
        &self.device
    }

    /// Takes out of the drive all that is done by `until`.
    fn collect(&mut self, until: Instant) {
        while let Some(at) = self.device.next_completion().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let Some(done) = self.device.complete(at) else { continue };
            let place = self.waiting.iter().position(|(tag, _)| tag.0 == done.tag.0);
            let (tag, submitted) = self.waiting.swap_remove(place.expect("it was submitted"));
            let noticed = self.notice(done.at) + self.late(done.at);
            let completed = noticed.max(submitted).max(self.noticed);
            self.noticed = completed;
            let outcome = Outcome::Done;
            self.done.push_back(Completion { tag, submitted, completed, outcome });
        }
    }

    /// How much longer than at best the path takes either way at this instant.
    fn level(&mut self, at: Instant) -> Duration {
        let Some((lateness, dice)) = &mut self.late else { return Duration::ZERO };
        if lateness.wanders > Duration::ZERO && at >= self.level.1 {
            self.level = (upto(dice, lateness.wanders), at + dice.exponential(lateness.dwells));
        }
        self.level.0
    }

    /// How long a command takes to get to the drive.
    fn inward(&mut self) -> Duration {
        let level = self.level(self.now);
        let Some((lateness, dice)) = &mut self.late else { return Duration::ZERO };
        level + upto(dice, lateness.inward)
    }

    /// How much later than noise alone has it the host notices a completion.
    fn late(&mut self, at: Instant) -> Duration {
        let level = self.level(at);
        let Some((lateness, dice)) = &mut self.late else { return Duration::ZERO };
        let mut late = level + upto(dice, lateness.always);
        if dice.chance(lateness.often) {
            late += dice.exponential(lateness.mean);
        }
        if dice.chance(lateness.seldom) {
            late += upto(dice, lateness.most);
        }
        late
    }

    /// When what happened at `at` is noticed.
    fn notice(&mut self, at: Instant) -> Instant {
        let sum: u64 = (0..DRAWS).map(|_| self.dice.below(DRAW)).sum();
        let (sum, mean) = (u128::from(sum), u128::from(DRAWS * DRAW / 2));
        let of = |part: u128| {
            let nanos = part * u128::from(self.noise.as_nanos()) / u128::from(DRAW);
            Duration::from_nanos(u64::try_from(nanos).expect("six times the noise"))
        };
        if sum >= mean { at + of(sum - mean) } else { at.saturating_sub(of(mean - sum)) }
    }
}

/// Anything up to so long.
fn upto(dice: &mut Dice, most: Duration) -> Duration {
    Duration::from_nanos(dice.below(most.as_nanos().saturating_add(1)))
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
            let at = self.device.next_completion().expect("something is outstanding");
            self.collect(at);
        }
        let completion = self.done.pop_front().expect("one is done");
        // Who notices late goes on late.
        self.wait_until(completion.completed);
        completion
    }

    fn path(&mut self) -> Option<Duration> {
        if !self.answers {
            return None;
        }
        let asked = self.now;
        let arrived = asked + self.inward();
        let noticed = self.notice(arrived) + self.late(arrived);
        self.wait_until(noticed.max(arrived));
        Some(self.now.since(asked))
    }
}
