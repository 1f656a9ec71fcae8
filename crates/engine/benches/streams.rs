//! The CPU time of a decision beside a thousand streams: `cargo bench -p spindle-engine --bench
//! streams`.
//!
//! Streams of periods from 1 to 5 s and blocks of 256 KiB use six tenths of the disk's time by
//! their worst cases; four volumes without streams keep sixteen requests outstanding each. A
//! command takes two thirds of its worst case. The figure is the time per command, with the time of
//! the simulated drive and of the clients; the median of the rounds counts. Each round measures
//! both policies.
//!
//! It fails if a decision under `spindle` takes more than [`DECISION_MAX_US`], or more than
//! [`RATIO_MAX`] times as long as one under `delta-star`. `-- --json` prints one JSON object. As a
//! test it only runs once: the figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]

use std::collections::BTreeSet;
use std::process::ExitCode;

use spindle_engine::stream::Task;
use spindle_engine::{
    Action, Command, CommandBound, Contract, Deadlines, Engine, Event, Outcome, PolicyName,
    Request, RequestId, Settings, StreamContract, VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Operation, Sectors};

/// The longest a decision may take, in µs.
const DECISION_MAX_US: f64 = 20.0;
/// The most that it may cost under `spindle`, in costs under `delta-star`.
const RATIO_MAX: f64 = 1.3;
const POLICIES: [PolicyName; 2] = [PolicyName::DeltaStar, PolicyName::Spindle];
const STREAMS: u32 = 1_000;
const LOADS: u32 = 4;
const OUTSTANDING: u32 = 16;
const BLOCK: Sectors = Sectors(512);
const COMMANDS: u32 = 20_000;
const ROUNDS: usize = 7;
const WORST: CommandBound =
    CommandBound { positioning: DiskTime::from_micros(500), sector: DiskTime::from_micros(2) };

/// The period of a stream.
fn period(stream: u32) -> Duration {
    let spread = Duration::from_millis(u64::from(stream.wrapping_mul(7_919) % 4_000));
    Duration::from_secs(1) + spread
}

fn worst(len: Sectors) -> DiskTime {
    let len = i64::try_from(len.0).expect("a block is short");
    DiskTime::from_nanos(WORST.positioning.as_nanos() + WORST.sector.as_nanos() * len)
}

struct Bench {
    engine: Engine,
    now: Instant,
    next_request: u64,
    rng: u64,
    serving: Option<(Command, Instant)>,
    arrivals: BTreeSet<(Instant, VolumeId)>,
}

impl Bench {
    fn new(policy: PolicyName) -> Self {
        let now = Instant::ZERO;
        let deadlines = Deadlines { worst: WORST, ..Deadlines::default() };
        let command_max = BLOCK;
        let settings = Settings { policy, deadlines, command_max, ..Settings::default() };
        let mut bench = Self {
            engine: Engine::new(settings, now),
            now,
            next_request: 0,
            rng: 1,
            serving: None,
            arrivals: BTreeSet::new(),
        };
        for stream in 0..STREAMS {
            let task = Task::whole(period(stream), worst(BLOCK)).expect("a task");
            let contract = Contract::stream(StreamContract { task, block: BLOCK, range: None });
            let volume = bench.engine.add_volume(contract, now).expect("it fits");
            let offset = Duration::from_micros(bench.random(1_000_000));
            bench.arrivals.insert((now + offset, volume));
        }
        for _ in 0..LOADS {
            let volume = bench.engine.add_volume(Contract::BEST_EFFORT, now).expect("it fits");
            (0..OUTSTANDING).for_each(|_| bench.submit(volume, Sectors(8)));
        }
        bench
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng % below
    }

    fn submit(&mut self, volume: VolumeId, len: Sectors) {
        let start = Lba(self.random(1 << 30));
        let operation = Operation::read(Extent::new(start, len));
        let request = Request { id: RequestId(self.next_request), volume, operation };
        self.next_request += 1;
        self.engine.handle(Event::Submit(request), self.now);
    }

    fn step(&mut self) {
        let arrival = self.arrivals.first().map(|(at, _)| *at);
        let done = self.serving.map(|(_, done)| done);
        let wakeup = self.engine.next_wakeup();
        let next = arrival.into_iter().chain(done).chain(wakeup).min().expect("there is work");
        self.now = next.max(self.now);
        while let Some(&(at, volume)) = self.arrivals.first()
            && at <= self.now
        {
            self.arrivals.pop_first();
            self.arrivals.insert((at + period(volume.0), volume));
            self.submit(volume, BLOCK);
        }
        if let Some((command, _)) = self.serving.take_if(|(_, done)| *done <= self.now) {
            let outcome = Outcome::Done;
            self.engine.handle(Event::Completed { command: command.id, outcome }, self.now);
        }
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => {
                    let worst = worst(command.operation.extent.len).as_nanos().unsigned_abs();
                    let done = self.now + Duration::from_nanos(worst / 3 * 2);
                    self.serving = Some((command, done));
                }
                Action::Reply(reply) if reply.volume.0 >= STREAMS => {
                    self.submit(reply.volume, Sectors(8));
                }
                Action::Reply(_) => {}
            }
        }
    }

    /// The time per command in µs.
    fn measure(&mut self, commands: u32) -> f64 {
        let (mut issued, mut last) = (0, None);
        let started = std::time::Instant::now();
        while issued < commands {
            self.step();
            let serving = self.serving.as_ref().map(|(command, _)| command.id);
            issued += u32::from(serving.is_some() && serving != last);
            last = serving.or(last);
        }
        started.elapsed().as_secs_f64() * 1e6 / f64::from(commands)
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn main() -> ExitCode {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    let (rounds, commands) = if is_bench { (ROUNDS, COMMANDS) } else { (1, 2_000) };
    let mut benches = POLICIES.map(Bench::new);
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (bench, costs) in benches.iter_mut().zip(&mut costs) {
            costs.push(bench.measure(commands));
        }
    }
    for bench in &benches {
        bench.engine.invariants();
        let late: u64 = (0..STREAMS)
            .filter_map(|stream| bench.engine.deadline_stats(VolumeId(stream)))
            .map(|stats| stats.missed)
            .sum();
        assert_eq!(late, 0, "no block is late");
    }
    let [star, spindle] = costs.map(median);
    let holds = spindle <= DECISION_MAX_US && spindle <= star * RATIO_MAX;
    if json {
        println!(
            "{{\"schema\":1,\"streams\":{STREAMS},\"delta_star_us\":{star:.3},\
             \"spindle_us\":{spindle:.3},\"decision_max_us\":{DECISION_MAX_US},\"holds\":{holds}}}"
        );
    } else {
        println!(
            "a decision beside {STREAMS} streams: {spindle:.2} µs under spindle, {star:.2} µs \
             under delta-star; at most {DECISION_MAX_US} µs and {RATIO_MAX} times"
        );
    }
    ExitCode::from(u8::from(is_bench && !holds))
}
