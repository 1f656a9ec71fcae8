//! The promises to the bytes of a stream, one by one and against an adversary.

use super::*;
use crate::stream::Task;

const POSITIONING: i64 = 20_000_000;
const SECTOR: i64 = 5_000;

fn worst(operation: &Operation) -> DiskTime {
    let len = i64::try_from(operation.extent.len.0).expect("short");
    DiskTime::from_nanos(POSITIONING + SECTOR * len)
}

fn read(start: u64, len: u64) -> Operation {
    Operation::read(Extent::new(Lba(start), Sectors(len)))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A stream of blocks of `block` sectors, one in `period`, in commands of at most `max`.
fn blocks(block: u64, period: Duration, max: u64) -> ByteBlocks {
    let cost = (0..block)
        .step_by(usize::try_from(max).expect("small"))
        .map(|start| worst(&read(start, max.min(block - start))));
    let longest = worst(&read(0, max.min(block)));
    let task = Task::new(period, cost.sum(), longest).expect("a task");
    let range = Some(Extent::new(Lba(0), Sectors(1 << 40)));
    let stream = StreamContract { task, block: Sectors(block), range };
    let mut blocks = ByteBlocks::new((stream, Granularity::Chunks), Sectors(max), true);
    blocks.activate(Instant::ZERO);
    blocks
}

/// Serves the head at once, in `took`.
fn serve(
    blocks: &mut ByteBlocks,
    stats: &mut DeadlineStats,
    ended: u32,
    now: Instant,
) -> Operation {
    let head = blocks.head().expect("something is queued");
    let is_real = blocks.release().is_some_and(|release| release <= now);
    blocks.on_dispatch(&head, (ended, is_real), stats, now);
    blocks.invariants();
    blocks.on_completion(
        (DiskTime::from_millis(10), DiskTime::ZERO),
        worst,
        stats,
        now + Duration::from_millis(10),
    );
    blocks.invariants();
    head
}

#[test]
fn small_requests_are_gathered_and_a_block_ends_within_one() {
    let (mut stats, period) = (DeadlineStats::default(), Duration::from_millis(500));
    let mut blocks = blocks(100, period, 2_048);
    (0..30).for_each(|n| blocks.on_arrival(&read(8 * n, 8), &mut stats, at(n)));
    assert_eq!((blocks.release(), blocks.deadline()), (Some(at(0)), Some(at(500))));
    assert_eq!(serve(&mut blocks, &mut stats, 12, at(30)), read(0, 100));
    assert_eq!(blocks.release(), Some(at(500)), "the next block begins within a request");
    assert_eq!(serve(&mut blocks, &mut stats, 13, at(600)), read(100, 100));
    assert_eq!(serve(&mut blocks, &mut stats, 5, at(1_100)), read(200, 40));
    assert_eq!((stats.met, stats.missed, stats.bytes.met.0), (3, 0, 240));
    // What is left of the 13th request is answered at 610 ms. It was promised by 520 ms, in which
    // its 104 sectors arrive at the bandwidth, and two periods.
    assert_eq!(stats.bytes.closest.all(), Some(Duration::from_millis(520 + 1_000 - 610)));
    assert_eq!(stats.bytes.asked, Sectors(240));
}

#[test]
fn a_long_request_is_several_blocks_each_a_period_after_the_one_before() {
    let (mut stats, period) = (DeadlineStats::default(), Duration::from_millis(500));
    let mut blocks = blocks(100, period, 2_048);
    blocks.on_arrival(&read(0, 250), &mut stats, at(7));
    for (ended, start, len, release) in [(0, 0, 100, 7), (0, 100, 100, 507), (1, 200, 50, 1_007)] {
        assert_eq!(blocks.release(), Some(at(release)));
        assert_eq!(serve(&mut blocks, &mut stats, ended, at(release)), read(start, len));
    }
    assert_eq!((stats.met, stats.bytes.met.0, stats.bytes.beyond_rate.0), (3, 250, 0));
}

#[test]
fn what_the_slack_serves_before_its_release_takes_nothing_from_the_next_block() {
    let (mut stats, period) = (DeadlineStats::default(), Duration::from_millis(500));
    let mut blocks = blocks(100, period, 2_048);
    (0..3).for_each(|n| blocks.on_arrival(&read(100 * n, 100), &mut stats, at(0)));
    for now in [0, 100] {
        serve(&mut blocks, &mut stats, 1, at(now));
    }
    assert_eq!(blocks.release(), Some(at(500)), "not 1,000: the second was no block");
    assert_eq!(stats.met, 1);
}

#[test]
fn what_does_not_fit_the_contract_is_counted() {
    let (mut stats, period) = (DeadlineStats::default(), Duration::from_millis(100));
    let mut blocks = blocks(100, period, 2_048);
    for (start, len) in [(0, 30), (30, 30), (500, 30), (700, 100), (900, 100), (1 << 40, 8)] {
        blocks.on_arrival(&read(start, len), &mut stats, at(0));
    }
    assert_eq!(stats.bytes.out_of_order, Sectors(130), "whole blocks may be anywhere");
    assert_eq!(stats.bytes.outside, Sectors(8));
    assert_eq!(stats.bytes.beyond(), Sectors(130 + 100 + 8), "two blocks at once are borne");
    blocks.on_arrival(&read(2_000, 100), &mut stats, at(0));
    assert_eq!(stats.bytes.beyond_rate, Sectors(200), "two blocks at once are borne");
}

#[test]
fn a_client_that_waits_for_each_answer_is_not_delayed_and_is_counted() {
    let (mut stats, period) = (DeadlineStats::default(), Duration::from_millis(1_000));
    let mut blocks = blocks(1_000, period, 2_048);
    blocks.on_arrival(&read(0, 8), &mut stats, at(0));
    assert_eq!(blocks.waits_until(), at(16), "twice the time in which 8 sectors arrive");
    blocks.on_dispatch(&read(0, 8), (1, false), &mut stats, at(16));
    blocks.on_completion((DiskTime::from_millis(9), DiskTime::ZERO), worst, &mut stats, at(25));
    blocks.on_arrival(&read(8, 8), &mut stats, at(26));
    assert_eq!(blocks.waits_until(), at(26));
    blocks.on_arrival(&read(16, 8), &mut stats, at(27));
    assert_eq!(blocks.waits_until(), at(43), "it does not wait: it sends two at once");
    assert_eq!(stats.bytes.not_gathered, Sectors(8));
}

/// A client that keeps one request of 64 KiB outstanding and thinks for `think` after each answer:
/// how long each of `count` requests is held back, at 1.45 MB/s.
fn holds_of_a_thinking_client(think: Duration, count: usize) -> Vec<Duration> {
    let (mut turnaround, time) = (Turnaround::new(), Duration::from_millis(45));
    let mut now = at(1_000);
    let mut step = || {
        turnaround.on_arrival(Sectors(128), (0, time), now);
        let hold = turnaround.hold(1, time);
        now += hold;
        turnaround.on_dispatch((1, time), now);
        now += Duration::from_millis(10);
        turnaround.on_answer(1, now);
        now += think;
        hold
    };
    (0..count).map(|_| step()).collect()
}

#[test]
fn a_client_that_thinks_for_long_is_held_back_once_and_then_ever_more_rarely() {
    for think in [1, 6, 20, 50, 200].map(Duration::from_millis) {
        let holds = holds_of_a_thinking_client(think, 400);
        let held: Vec<usize> =
            (0..holds.len()).filter(|index| holds[*index] > Duration::ZERO).collect();
        assert!(held.len() <= 10, "{think}: held back at {held:?}");
        let longest = (think + Duration::from_millis(10)) * 2;
        let trials = held.iter().skip(1).map(|index| holds[*index]);
        assert!(trials.max() <= Some(longest), "{think}: for {holds:?}");
    }
}

#[test]
fn a_client_that_sends_at_its_own_pace_is_soon_held_back_again_after_a_pause() {
    let (mut turnaround, time) = (Turnaround::new(), Duration::from_millis(45));
    turnaround.on_arrival(Sectors(128), (0, time), at(0));
    turnaround.on_dispatch((1, time), at(90));
    turnaround.on_answer(1, at(100));
    assert!(turnaround.is_waiting(1), "nothing came for 90 ms");
    let (mut early, mut queued) = (0, 0);
    for n in 0..20 {
        let now = at(1_000 + 46 * n);
        turnaround.on_arrival(Sectors(128), (queued, time), now);
        queued += 1;
        if turnaround.is_waiting(queued) {
            early += 1;
            turnaround.on_dispatch((queued, time), now);
            turnaround.on_answer(queued, now + Duration::from_millis(10));
            queued = 0;
        }
    }
    assert!(early <= 4, "{early} were served early");
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A time up to `most`: often none of it or all.
    fn up_to(&mut self, most: Duration) -> Duration {
        match self.below(3) {
            0 => Duration::ZERO,
            1 => most,
            _ => Duration::from_nanos(self.below(most.as_nanos() + 1)),
        }
    }
}

/// A server that answers each block by its deadline, as late as it likes, and whose slack may serve
/// what is not released.
struct Server {
    random: Random,
    blocks: ByteBlocks,
    stats: DeadlineStats,
    now: Instant,
    running: Option<(Instant, DiskTime)>,
    /// When the released head goes to the drive.
    chosen: Option<Instant>,
    /// The sectors left of each queued request.
    requests: VecDeque<u64>,
    arrival: Instant,
    sent: u32,
    /// The sectors of the stream that were asked for, and where the last request ended.
    asked: u64,
    end: u64,
}

const REQUESTS: u32 = 150;

impl Server {
    fn new(mut random: Random) -> Self {
        let max = 1 + random.below(200);
        let block = 1 + random.below(600);
        let least = blocks(block, Duration::from_secs(90), max).stream.task.cost();
        let least = Duration::from_nanos(least.as_nanos().unsigned_abs());
        let period = least + Duration::from_millis(25 + random.below(300));
        Self {
            blocks: blocks(block, period, max),
            random,
            stats: DeadlineStats::default(),
            now: Instant::ZERO,
            running: None,
            chosen: None,
            requests: VecDeque::new(),
            arrival: Instant::ZERO,
            sent: 0,
            asked: 0,
            end: 0,
        }
    }

    /// Chooses when the released head goes: by its latest start.
    fn choose(&mut self) {
        let head = self.blocks.head().expect("it is released");
        let rest = self.blocks.remaining(worst(&head), DiskTime::ZERO);
        let rest = Duration::from_nanos(rest.as_nanos().unsigned_abs());
        let latest = self.blocks.deadline().expect("it is released").saturating_sub(rest);
        assert!(latest >= self.now, "a block has the time of its cost");
        self.chosen = Some(self.now + self.random.up_to(latest.since(self.now)));
    }

    /// Whether the slack serves the head, although it is not released, or not of the stream, or the
    /// client waits for it.
    fn serves_early(&mut self) -> bool {
        let command = self.blocks.head().unwrap_or(Operation::flush());
        let task = self.blocks.stream.task;
        let (cost, whole) = (worst(&command), task.cost());
        let time = Duration::from_nanos((cost + whole).as_nanos().unsigned_abs());
        let is_released = self.blocks.release().is_some_and(|release| release <= self.now);
        let next = self.blocks.next_release(self.now) + task.period();
        let due = self.blocks.deadline().filter(|_| is_released).unwrap_or(next);
        self.now + time <= due && self.random.below(3) == 0
    }

    fn dispatch(&mut self, is_real: bool) {
        self.chosen = None;
        let head = self.blocks.head();
        let command = head.unwrap_or(Operation::flush());
        let (mut len, mut ended) = (command.extent.len.0, 0);
        if head.is_none() {
            self.requests.pop_front();
            ended = 1;
        }
        while len > 0 {
            let first = self.requests.front_mut().expect("it is queued");
            let part = len.min(*first);
            (*first, len) = (*first - part, len - part);
            if *first == 0 {
                self.requests.pop_front();
                ended += 1;
            }
        }
        let cost = Duration::from_nanos(worst(&command).as_nanos().unsigned_abs());
        let took = self.random.up_to(cost).max(Duration::from_nanos(1));
        self.blocks.on_dispatch(&command, (ended, is_real), &mut self.stats, self.now);
        self.running = Some((self.now + took, took.into()));
    }

    /// A request of up to `sizes` sectors arrives; one in `order` leaves a gap.
    fn arrive(&mut self, sizes: u64, order: u64, rate: u64) {
        let is_outside = self.random.below(40) == 0;
        let len = 1 + self.random.below(sizes);
        if self.random.below(order) == 0 {
            self.end += 1_000;
        }
        let start = if is_outside { 1 << 40 } else { self.end };
        self.blocks.on_arrival(&read(start, len), &mut self.stats, self.now);
        self.requests.push_back(len);
        if !is_outside {
            (self.asked, self.end) = (self.asked + len, self.end + len);
        }
        self.sent += 1;
        let pause = time_of(&self.blocks.stream, len * rate / 2);
        self.arrival = self.now + self.random.up_to(pause);
    }

    fn run(mut self) -> (DeadlineStats, u64) {
        let (sizes, order) = (1 + self.random.below(700), 1 + self.random.below(20));
        let rate = 1 + self.random.below(4);
        while self.sent < REQUESTS || self.running.is_some() || !self.requests.is_empty() {
            let is_idle = self.running.is_none();
            let released = self.blocks.release().filter(|release| *release <= self.now);
            if is_idle && released.is_some() && self.chosen.is_none() {
                self.choose();
            }
            let early = is_idle && !self.requests.is_empty();
            let is_real = self.chosen.is_some_and(|at| at <= self.now);
            if is_idle && (is_real || early && self.serves_early()) {
                self.dispatch(is_real);
            }
            let change = self.blocks.release().filter(|release| *release > self.now);
            let waits = early && released.is_none();
            let retry = waits.then(|| self.now + Duration::from_millis(5));
            let arrives = (self.sent < REQUESTS).then_some(self.arrival);
            let ends = self.running.map(|(at, _)| at);
            let next = [arrives, ends, self.chosen, change, retry].into_iter().flatten().min();
            self.now = self.now.max(next.expect("something happens"));
            if let Some((end, took)) = self.running.take_if(|(end, _)| *end <= self.now) {
                let took = (took, DiskTime::ZERO);
                self.blocks.on_completion(took, worst, &mut self.stats, end);
                self.chosen = None;
            }
            if self.sent < REQUESTS && self.arrival <= self.now {
                self.arrive(sizes, order, rate);
            }
            self.blocks.invariants();
        }
        (self.stats, self.asked)
    }
}

#[test]
fn no_byte_is_late_if_no_block_is() {
    for seed in 0..1_000_u64 {
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (stats, asked) = Server::new(random).run();
        assert_eq!(stats.bytes.missed, Sectors::ZERO, "seed {seed}: {stats:?}");
        assert_eq!((stats.missed, stats.bytes.met.0), (0, asked), "seed {seed}");
    }
}
