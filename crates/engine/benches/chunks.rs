//! The engine's processor time for a MiB that is read in short commands, by their length: figure 7
//! of FAST 2003, `cargo bench -p spindle-engine --bench chunks`.
//!
//! A client reads sequentially, two requests of 1 MiB outstanding, in preemptible execution: there
//! is a decision between any two commands. A figure is the time of all calls of the engine for a
//! request, without a device or a kernel: the least of the rounds, so that noise of the machine
//! adds to none. It is shown as a share of one processor at the rates of two drives, too.
//!
//! FAST 2003 finds that the time falls rapidly up to commands of 50 kB and little beyond, and that
//! chunks of 50 kB cost no significant processor time. It fails if they take more than
//! [`SHARE_MAX`] of a processor at the rate of the faster drive. As a test it only runs once: the
//! figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]

use std::process::ExitCode;
use std::sync::Arc;

use drive_profile::example_profile;
use spindle_engine::{
    Action, Command, Contract, Engine, Event, Execution, Outcome, PolicyName, Preemptible, Request,
    RequestId, Settings, VolumeId,
};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

/// Lengths of commands; 100 sectors are 50 KiB, FAST 2003's 50 kB.
const CHUNKS: [Sectors; 9] = [
    Sectors(8),
    Sectors(16),
    Sectors(32),
    Sectors(64),
    Sectors(100),
    Sectors(128),
    Sectors(256),
    Sectors(512),
    Sectors(2_048),
];
const SMALLEST_OPTIMAL: Sectors = Sectors(100);
const REQUEST: Sectors = Sectors(2_048);
const OUTSTANDING: u64 = 2;
/// The outermost rates of FAST 2003's drive and of one of today, in MB/s.
const RATES: [f64; 2] = [41.7, 255.0];
/// The most of a processor that the engine may take at the faster rate with FAST 2003's chunk.
const SHARE_MAX: f64 = 0.02;
const REQUESTS: u32 = 2_000;
const ROUNDS: usize = 15;
/// Requests before the reader begins again: all of them lie on the profile's drive.
const SPAN: u64 = 64;

/// An engine, a sequential reader and a drive that takes one command.
struct Bench {
    engine: Engine,
    now: Instant,
    next: u64,
    answered: u32,
    serving: Option<Command>,
}

impl Bench {
    fn new(chunk: Sectors) -> Self {
        let how = Preemptible { chunk: Some(chunk), jit: None, ..Preemptible::default() };
        let (policy, execution) = (PolicyName::Spindle, Execution::Preemptible(how));
        let settings = Settings { policy, execution, ..Settings::default() };
        let now = Instant::ZERO;
        let mut engine = Engine::new(settings, now).with_profile(Arc::new(example_profile()));
        engine.add_volume(Contract::BEST_EFFORT, now).expect("it fits");
        let mut bench = Self { engine, now, next: 0, answered: 0, serving: None };
        (0..OUTSTANDING).for_each(|_| bench.submit());
        bench
    }

    fn submit(&mut self) {
        let extent = Extent::new(Lba(self.next % SPAN * REQUEST.0), REQUEST);
        let (id, volume) = (RequestId(self.next), VolumeId(0));
        self.next += 1;
        let request = Request { id, volume, operation: Operation::read(extent) };
        self.engine.handle(Event::Submit(request), self.now);
    }

    /// Serves a number of requests. Returns the number of commands.
    fn run(&mut self, requests: u32) -> u64 {
        let (end, mut commands) = (self.answered + requests, 0);
        while self.answered < end {
            while let Some(action) = self.engine.poll(self.now) {
                match action {
                    Action::Issue(command) => self.serving = Some(command),
                    Action::Reply(_) => {
                        self.answered += 1;
                        self.submit();
                    }
                }
            }
            let Some(command) = self.serving.take() else {
                self.now = self.engine.next_wakeup().expect("it waits for an instant");
                continue;
            };
            commands += 1;
            self.now += Duration::from_micros(command.operation.extent.len.0);
            let completed = Event::Completed { command: command.id, outcome: Outcome::Done };
            self.engine.handle(completed, self.now);
        }
        commands
    }
}

/// For each length of a command, the least nanoseconds a request, and the commands a request.
fn measure(rounds: usize, requests: u32) -> Vec<(Sectors, f64, f64)> {
    let mut benches = CHUNKS.map(|chunk| (Bench::new(chunk), f64::INFINITY, 0.0));
    for _ in 0..rounds {
        for (bench, least, each) in &mut benches {
            let began = std::time::Instant::now();
            let commands = u32::try_from(bench.run(requests)).expect("a round is short");
            *least = least.min(began.elapsed().as_secs_f64() * 1e9 / f64::from(requests));
            *each = f64::from(commands) / f64::from(requests);
        }
    }
    CHUNKS.into_iter().zip(benches).map(|(chunk, (_, least, each))| (chunk, least, each)).collect()
}

/// The share of a processor at a rate in MB/s.
fn share(ns_per_mib: f64, rate: f64) -> f64 {
    ns_per_mib * 1e-9 * rate * 1e6 / f64::from(1 << 20)
}

fn main() -> ExitCode {
    if !std::env::args().any(|argument| argument == "--bench") {
        let rows = measure(1, 20);
        assert!(rows.iter().all(|row| row.2 >= 1.0), "a request is a command at least");
        return ExitCode::SUCCESS;
    }
    println!(
        "chunk KiB  commands a MiB  ns a MiB  % of a processor at {} and {} MB/s",
        RATES[0], RATES[1]
    );
    let mut holds = true;
    for (chunk, ns, commands) in measure(ROUNDS, REQUESTS) {
        let [slow, fast] = RATES.map(|rate| share(ns, rate));
        let kib = chunk.bytes().0 / 1_024;
        println!("{kib:>9}  {commands:>14.1}  {ns:>8.0}  {:.3} {:.3}", slow * 1e2, fast * 1e2);
        holds &= chunk != SMALLEST_OPTIMAL || fast <= SHARE_MAX;
    }
    if !holds {
        eprintln!("chunks of {SMALLEST_OPTIMAL} cost more than {SHARE_MAX} of a processor");
    }
    ExitCode::from(u8::from(!holds))
}
