//! Devices that do not rotate: their rate limits, throughput and writes, and no false ones.

use core::ops::ControlFlow;
use std::collections::VecDeque;

use drive_profile::findings::{Findings, Spindle, Stage};
use drive_profile::findings::{LimitedQuantity, RotationTest, RotationVerdict};
use sim::{BenchTarget, Lateness, SeededRng};
use spindle_profiler::flash::measure;
use spindle_profiler::test_rotation;
use spindle_profiler::{
    Bench, Budget, Completion, Facts, Outcome, Progress, Tag, Target, rotation,
};
use units::{Duration, Instant, Op, Operation, Sectors, Share};

/// Memory: every command takes the time of copying its bytes.
struct Memory {
    now: Instant,
    done: VecDeque<Completion>,
    free: Instant,
}

impl Memory {
    fn new() -> Self {
        Self { now: Instant::ZERO, done: VecDeque::new(), free: Instant::ZERO }
    }
}

impl Target for Memory {
    fn facts(&self) -> Facts {
        Facts {
            sectors: Sectors(1 << 20),
            block: Sectors(1),
            writable: true,
            flushes: true,
            forces: true,
            seeks: false,
            depth_max: 32,
        }
    }

    fn now(&mut self) -> Instant {
        self.now
    }

    fn wait_until(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        let took = Duration::from_nanos(4_000 + 60 * operation.extent.len.0);
        self.free = self.free.max(self.now) + took;
        let (submitted, completed) = (self.now, self.free);
        self.done.push_back(Completion { tag, submitted, completed, outcome: Outcome::Done });
        submitted
    }

    fn complete(&mut self) -> Completion {
        let done = self.done.pop_front().expect("something is outstanding");
        self.now = self.now.max(done.completed);
        done
    }
}

/// A disk with a rate limit: commands continue as there are tokens.
struct RateLimited<T> {
    inner: T,
    of: LimitedQuantity,
    per_second: u64,
    bucket: u64,
    /// When the bucket would be empty without further commands.
    empty_at: i128,
    waiting: VecDeque<(Tag, Operation, Instant, Instant)>,
    asked: Vec<(Tag, Instant)>,
    done: VecDeque<Completion>,
}

impl<T: Target> RateLimited<T> {
    fn new(inner: T, of: LimitedQuantity, per_second: u64, bucket: u64) -> Self {
        let full = i128::from(bucket) * 1_000_000_000 / i128::from(per_second);
        let (waiting, asked, done) = (VecDeque::new(), Vec::new(), VecDeque::new());
        Self { inner, of, per_second, bucket, empty_at: -full, waiting, asked, done }
    }

    /// When a command that arrives now gets its tokens.
    fn taken(&mut self, operation: Operation, now: Instant) -> Instant {
        let tokens = match self.of {
            LimitedQuantity::Commands => 1,
            LimitedQuantity::Bytes => operation.extent.len.bytes().0,
        };
        let nanos = |tokens: u64| i128::from(tokens) * 1_000_000_000 / i128::from(self.per_second);
        let now = i128::from(now.as_nanos());
        self.empty_at = self.empty_at.max(now - nanos(self.bucket)) + nanos(tokens);
        Instant::from_nanos(u64::try_from(self.empty_at.max(now)).expect("a time"))
    }

    /// Passes on commands with tokens by `at`, and collects completions.
    fn run(&mut self, at: Instant) {
        while let Some((tag, operation, _, _)) =
            self.waiting.front().filter(|first| first.3 <= at).copied()
        {
            let (_, _, _, go) = self.waiting.pop_front().expect("it is there");
            self.inner.wait_until(go);
            self.inner.submit(tag, operation);
        }
        self.inner.wait_until(at);
    }
}

impl<T: Target> Target for RateLimited<T> {
    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn now(&mut self) -> Instant {
        self.inner.now()
    }

    fn wait_until(&mut self, at: Instant) {
        self.run(at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        let now = self.inner.now();
        self.run(now);
        let go = self.taken(operation, now);
        self.asked.push((tag, now));
        if go <= now && self.waiting.is_empty() {
            self.inner.submit(tag, operation);
        } else {
            self.waiting.push_back((tag, operation, now, go));
        }
        now
    }

    fn complete(&mut self) -> Completion {
        let inside = self.asked.len() - self.waiting.len() - self.done.len();
        if inside == 0 {
            let go = self.waiting.front().expect("something is outstanding").3;
            self.run(go);
        }
        let done = self.inner.complete();
        let place = self.asked.iter().position(|(tag, _)| *tag == done.tag);
        let (_, submitted) = self.asked.swap_remove(place.expect("it was asked for"));
        Completion { submitted, ..done }
    }
}

/// An overloaded host: a thread that ran for some milliseconds waits for tens of them, whatever
/// completes meanwhile. A thread that slept is mostly woken at once.
struct Starved<T> {
    inner: T,
    rng: SeededRng,
    busy: Duration,
    /// When the thread runs again.
    back: Instant,
}

impl<T: Target> Starved<T> {
    const SLICE: Duration = Duration::from_millis(3);
    const AWAY: Duration = Duration::from_millis(40);
    const COMMAND: Duration = Duration::from_micros(20);
    const LOOK: Duration = Duration::from_nanos(50);
    /// A thread that sleeps for this time has a new time slice.
    const SLEPT: Duration = Duration::from_micros(500);

    fn new(inner: T, seed: u64) -> Self {
        let (rng, busy) = (SeededRng::new(seed, 9), Duration::ZERO);
        Self { inner, rng, busy, back: Instant::ZERO }
    }

    fn work(&mut self, time: Duration) {
        let now = self.inner.now();
        self.inner.wait_until(now + time);
        self.busy += time;
        if self.busy >= Self::SLICE {
            self.leave(Self::AWAY);
        }
    }

    fn leave(&mut self, mean: Duration) {
        self.back = self.inner.now() + self.rng.exponential(mean);
        self.inner.wait_until(self.back);
        self.busy = Duration::ZERO;
    }

    /// The thread slept since then, if it waited at all.
    fn woken(&mut self, since: Instant) {
        if self.inner.now().since(since) > Self::SLEPT {
            self.busy = Duration::ZERO;
            // One wake-up in ten finds the processor busy.
            if self.rng.chance(Share::from_percent(10)) {
                self.leave(Self::SLICE);
            }
        }
    }
}

impl<T: Target> Target for Starved<T> {
    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn now(&mut self) -> Instant {
        self.work(Self::LOOK);
        self.inner.now()
    }

    fn wait_until(&mut self, at: Instant) {
        let since = self.inner.now();
        self.inner.wait_until(at);
        self.woken(since);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        self.work(Self::COMMAND);
        self.inner.submit(tag, operation)
    }

    fn complete(&mut self) -> Completion {
        let since = self.inner.now();
        let done = self.inner.complete();
        self.woken(since);
        Completion { completed: done.completed.max(self.back), ..done }
    }
}

fn drive(name: &str) -> BenchTarget {
    let model = drive_library::find(name).expect("in it").check().expect("a drive");
    BenchTarget::new(model, Duration::from_micros(2), 1)
}

/// All findings, in the time of a quick profile.
fn findings(target: &mut dyn Target) -> (RotationTest, Findings) {
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(target, Budget::QUICK, Findings::default(), &mut watcher);
    let turns = test_rotation(&mut bench).expect("in time");
    measure(&mut bench).expect("in time");
    assert!(bench.spent() < Duration::from_secs(60), "{}", bench.spent());
    (turns, bench.findings.clone())
}

fn within(found: u64, truth: u64, percent: u64) -> bool {
    found.abs_diff(truth) * 100 <= truth * percent
}

#[test]
fn memory_does_not_rotate_and_has_no_rate_limit() {
    let (turns, found) = findings(&mut Memory::new());
    assert!(turns.verdict == RotationVerdict::TooFast, "{turns}");
    assert_eq!(found.flash.limits, [], "{:?}", found.notes);
    let one = found.flash.rates.iter().find(|rate| rate.depth == 1).expect("it was measured");
    assert_eq!(one.latency.value, Duration::from_nanos(4_480));
    assert!(found.flash.write_buffer.is_none());
    assert!(found.is_done(Stage::Rates) && found.is_done(Stage::RateLimit));
}

#[test]
fn library_flash_does_not_rotate_and_has_no_rate_limit() {
    for (name, reads) in [("samsung-870evo-1t", 13_000), ("intel-p4500-2t", 0)] {
        let (turns, found) = findings(&mut drive(name));
        assert!(turns.verdict == RotationVerdict::TooFast, "{name}: {turns}");
        assert_eq!(found.flash.limits, [], "{name}: {:?}", found.notes);
        let alone = found.flash.rates.iter().find(|rate| rate.depth == 1 && rate.op == Op::Read);
        let per_second = 1_000_000_000 / alone.expect("measured").interval.value.as_nanos();
        assert!(reads == 0 || within(per_second, reads, 5), "{name}: {per_second} reads a second");
        let beside = found.flash.reads_during_writes.expect("it was measured");
        assert!(beside.mean.value > beside.alone.value, "{name}: {beside:?}");
        assert_eq!(found.flash.flushes.len(), 4, "{name}");
    }
}

#[test]
fn mechanical_drives_may_rotate() {
    for name in drive_library::names().filter(|name| drive_library::find_mechanical(name).is_some())
    {
        let mut target = drive(name).read_only();
        let mut watcher = |_: &Progress| ControlFlow::Continue(());
        let mut bench = Bench::new(&mut target, Budget::QUICK, Findings::default(), &mut watcher);
        let turns = test_rotation(&mut bench).expect("in time");
        assert_eq!(turns.verdict, RotationVerdict::MayRotate, "{name}: {turns}");
        measure(&mut bench).expect("in time");
        assert_eq!(bench.findings.flash.limits, [], "{name}: {:?}", bench.findings.notes);
    }
}

#[test]
fn a_limit_of_commands_is_found_with_its_rate_and_burst() {
    for (rate, bucket) in [(100, 1), (500, 300), (3_000, 20_000), (16_000, 1), (20_000, 1)] {
        let mut target =
            RateLimited::new(drive("intel-p4500-2t"), LimitedQuantity::Commands, rate, bucket);
        let (turns, found) = findings(&mut target);
        assert!(turns.verdict == RotationVerdict::TooFast, "{rate}: {turns}");
        let [limit] = found.flash.limits[..] else { panic!("{rate}: {:?}", found.flash.limits) };
        assert_eq!(limit.of, LimitedQuantity::Commands, "{rate}");
        assert!(within(limit.per_second.value, rate, 3), "{rate}: {limit:?}");
        assert!(bucket == 1 || within(limit.burst.value, bucket, 10), "{bucket}: {limit:?}");
        assert!(found.notes.iter().any(|note| note.contains("rate limited at")));
    }
}

#[test]
fn a_limit_of_bytes_is_found_with_its_rate_and_burst() {
    for (rate, bucket) in [(10_000_000, 1 << 20), (125_000_000, 500_000_000)] {
        let mut target =
            RateLimited::new(drive("intel-p4500-2t"), LimitedQuantity::Bytes, rate, bucket);
        let (_, found) = findings(&mut target);
        let [limit] = found.flash.limits[..] else { panic!("{rate}: {:?}", found.flash.limits) };
        assert_eq!(limit.of, LimitedQuantity::Bytes, "{rate}");
        assert!(within(limit.per_second.value, rate, 3), "{rate}: {limit:?}");
        // A burst of four commands is not observable.
        assert!(bucket == 1 << 20 || within(limit.burst.value, bucket, 10), "{bucket}: {limit:?}");
    }
}

/// Completions are observed late, never early: more than half of them by milliseconds.
#[test]
fn rotation_is_detected_although_most_completions_are_observed_late() {
    let late = Lateness {
        often: Share::from_percent(60),
        mean: Duration::from_millis(6),
        ..Lateness::LOADED
    };
    let verdict = |name: &str, seed: u64| {
        let mut target = drive(name).read_only().with_lateness(late, seed);
        let mut watcher = |_: &Progress| ControlFlow::Continue(());
        let mut bench = Bench::new(&mut target, Budget::QUICK, Findings::default(), &mut watcher);
        test_rotation(&mut bench).expect("in time")
    };
    for seed in 1..=4 {
        for name in drive_library::names() {
            let turns = verdict(name, seed);
            let arm = drive_library::find_mechanical(name).is_some();
            let expected = if arm { RotationVerdict::MayRotate } else { RotationVerdict::TooFast };
            assert_eq!(turns.verdict, expected, "{name}, seed {seed}: {turns}");
        }
    }
}

/// A limiter that checks its queue at each tick of a 250 Hz clock.
struct Ticking<T>(T);

impl<T: Target> Target for Ticking<T> {
    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn now(&mut self) -> Instant {
        self.0.now()
    }

    fn wait_until(&mut self, at: Instant) {
        self.0.wait_until(at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        self.0.submit(tag, operation)
    }

    fn complete(&mut self) -> Completion {
        let done = self.0.complete();
        let tick = Duration::from_millis(4).as_nanos();
        let at = Instant::from_nanos(done.completed.as_nanos().next_multiple_of(tick));
        self.0.wait_until(at);
        Completion { completed: at, ..done }
    }
}

/// Reads that complete at the ticks of a clock have a period, but one phase at all addresses,
/// unlike a rotating disk.
#[test]
fn the_ticks_of_a_clock_are_no_spindle() {
    for seed in 1..=4 {
        let host = Starved::new(Ticking(drive("samsung-870evo-1t").read_only()), seed);
        for target in [&mut Ticking(Memory::new()) as &mut dyn Target, &mut { host }] {
            let mut watcher = |_: &Progress| ControlFlow::Continue(());
            let mut bench = Bench::new(target, Budget::QUICK, Findings::default(), &mut watcher);
            assert_eq!(rotation(&mut bench), Ok(Spindle::NotRotating), "seed {seed}");
            let notes = &bench.findings.notes;
            assert!(notes.iter().any(|note| note.contains("not rotating")), "{notes:?}");
        }
    }
}

/// A single command is slow as well on such a device: only the throughput of each length shows the
/// limit.
#[test]
fn limits_that_apply_at_the_ticks_of_a_clock_are_found() {
    for (of, rate) in [(LimitedQuantity::Commands, 500), (LimitedQuantity::Bytes, 10 << 20)] {
        let (_, found) = findings(&mut Ticking(RateLimited::new(Memory::new(), of, rate, 1)));
        let [limit] = found.flash.limits[..] else { panic!("{of:?}: {:?}", found.flash.limits) };
        assert_eq!(limit.of, of, "{limit:?}");
        assert!(within(limit.per_second.value, rate, 10), "{of:?}: {limit:?}");
    }
}

#[test]
fn memory_on_a_starved_host_neither_rotates_nor_has_a_rate_limit() {
    for seed in 1..=8 {
        let (turns, found) = findings(&mut Starved::new(Memory::new(), seed));
        assert_eq!(turns.verdict, RotationVerdict::TooFast, "seed {seed}: {turns}");
        assert_eq!(found.flash.limits, [], "seed {seed}: {:?}", found.notes);
    }
}

#[test]
fn a_starved_host_finds_rate_limits_as_they_are() {
    let limits = [
        (LimitedQuantity::Commands, 100, 1),
        (LimitedQuantity::Commands, 500, 1_000),
        (LimitedQuantity::Bytes, 10 << 20, 20 << 20),
        (LimitedQuantity::Bytes, 10 << 20, 1 << 20),
    ];
    for (of, rate, bucket) in limits {
        for seed in 1..=4 {
            let mut target = Starved::new(RateLimited::new(Memory::new(), of, rate, bucket), seed);
            let (turns, found) = findings(&mut target);
            assert_eq!(
                turns.verdict,
                RotationVerdict::TooFast,
                "seed {seed}, {rate} {of:?}: {turns}"
            );
            let [limit] = found.flash.limits[..] else {
                panic!("seed {seed}, {rate} {of:?}: {:?}", found.flash.limits)
            };
            assert_eq!(limit.of, of, "seed {seed}, {rate} {of:?}: {limit:?}");
            assert!(within(limit.per_second.value, rate, 10), "seed {seed}, {of:?}: {limit:?}");
        }
    }
}
