//! The engine's CPU time per request, with 10 to 10,000 volumes: `cargo bench -p spindle-engine
//! --bench engine`.
//!
//! A request is submitted, dispatched and completed under the policies `utilization` and `spindle`.
//! Every volume always has requests queued: half of the volumes read sequentially, the others at
//! random; the reserves add up to the whole, and every fifth volume has a limit. The figures
//! include the time of the simulated drive. Each round measures all sizes and both policies, so
//! that noise of the machine affects all of them.
//!
//! A decision of the chooser is measured beside it: one volume with [`CANDIDATES`] random requests
//! queued, in the order of arrival and by predicted positioning times, in turns. The difference is
//! what a decision and the look-up of the request's place cost.
//!
//! It fails if the time under `utilization` grows faster than the logarithm of the number of
//! volumes, if `spindle` takes more than [`RATIO_MAX`] times as long, or if a decision takes more
//! than [`DECISION_MAX`] ns. `-- --json` prints one JSON object. As a test it only runs once: the
//! figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_precision_loss, reason = "shown, never computed with")]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use drive_profile::example_profile;
use spindle_engine::{
    Action, ChooserName, Command, Contract, Engine, Event, Outcome, PolicyName, Request, RequestId,
    Settings, VolumeId,
};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors, Share};

const VOLUMES: [u32; 4] = [10, 100, 1_000, 10_000];
const POLICIES: [PolicyName; 2] = [PolicyName::Utilization, PolicyName::Spindle];
/// The most that a request may cost under the second policy, in costs under the first.
const RATIO_MAX: f64 = 1.3;
/// Requests queued for a decision of the chooser, and the most that one may cost, in ns.
const CANDIDATES: u32 = 128;
const DECISION_MAX: f64 = 3_000.0;
/// The blocks of the example's disk.
const DEEP_BLOCKS: u64 = 24_000;
const OUTSTANDING: u32 = 2;
const BLOCK: Sectors = Sectors(8);
const VOLUME_BLOCKS: u64 = 1 << 16;

/// Requests in a round and rounds, of which the median counts.
const REQUESTS: u32 = 100_000;
const ROUNDS: usize = 15;

const SERVICE_SEQUENTIAL: Duration = Duration::from_micros(150);
const SERVICE_RANDOM: Duration = Duration::from_millis(8);

/// An engine, its clients and a drive that takes one command.
struct Bench {
    engine: Engine,
    now: Instant,
    next_request: u64,
    next_block: Vec<u64>,
    rng: u64,
    serving: Option<Command>,
}

impl Bench {
    /// One volume with [`CANDIDATES`] random requests outstanding.
    fn deep(chooser: ChooserName) -> Self {
        let now = Instant::ZERO;
        let settings = Settings { policy: PolicyName::Spindle, chooser, ..Settings::default() };
        let mut engine = Engine::new(settings, now).with_profile(Arc::new(example_profile()));
        engine.add_volume(Contract::BEST_EFFORT, now).expect("it fits");
        let (serving, next_block) = (None, Vec::new());
        let mut bench = Self { engine, now, next_request: 0, next_block, rng: 1, serving };
        (0..CANDIDATES).for_each(|_| bench.submit(VolumeId(0)));
        bench
    }

    fn new(volumes: u32, policy: PolicyName) -> Self {
        let now = Instant::ZERO;
        let mut engine = Engine::new(Settings { policy, ..Settings::default() }, now);
        let reserve = Share::from_ppb(Share::ALL.ppb() / volumes);
        for volume in 0..volumes {
            let limit =
                if volume % 5 == 2 { Share::from_ppb(reserve.ppb() * 2) } else { Share::ALL };
            engine
                .add_volume(Contract { limit, ..Contract::reserve(reserve) }, now)
                .expect("they add up to the whole");
        }
        let next_block = vec![0; volumes as usize];
        let mut bench = Self { engine, now, next_request: 0, next_block, rng: 1, serving: None };
        for volume in (0..OUTSTANDING).flat_map(|_| 0..volumes) {
            bench.submit(VolumeId(volume));
        }
        bench
    }

    fn submit(&mut self, volume: VolumeId) {
        let index = volume.0 as usize;
        let volume_blocks = if self.next_block.is_empty() { DEEP_BLOCKS } else { VOLUME_BLOCKS };
        let block = if volume.0.is_multiple_of(2) && !self.next_block.is_empty() {
            (self.next_block[index] + 1) % VOLUME_BLOCKS
        } else {
            self.rng = self
                .rng
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.rng >> 32) % volume_blocks
        };
        if let Some(next) = self.next_block.get_mut(index) {
            *next = block;
        }
        let start = Lba((u64::from(volume.0) * VOLUME_BLOCKS + block) * BLOCK.0);
        let operation = Operation::read(Extent::new(start, BLOCK));
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.engine.handle(Event::Submit(Request { id, volume, operation }), self.now);
    }

    /// Carries out the engine's actions until there are none. The client of an answered request
    /// sends the next one.
    fn drain(&mut self) {
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => self.serving = Some(command),
                Action::Reply(reply) => self.submit(reply.volume),
            }
        }
    }

    fn run(&mut self, requests: u32) {
        for _ in 0..requests {
            self.drain();
            while self.serving.is_none() {
                self.now = self.engine.next_wakeup().expect("a volume waits for its limit");
                self.drain();
            }
            let command = self.serving.take().expect("the drive is busy");
            let sequential = command.volume.0.is_multiple_of(2);
            self.now += if sequential { SERVICE_SEQUENTIAL } else { SERVICE_RANDOM };
            let completed = Event::Completed { command: command.id, outcome: Outcome::Done };
            self.engine.handle(completed, self.now);
        }
    }

    /// Nanoseconds a request.
    fn measure(&mut self, requests: u32) -> f64 {
        let began = std::time::Instant::now();
        self.run(requests);
        began.elapsed().as_nanos() as f64 / f64::from(requests)
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// The medians of all sizes under each policy.
fn measure(rounds: usize, requests: u32) -> [Vec<f64>; 2] {
    let mut benches = POLICIES.map(|policy| VOLUMES.map(|volumes| Bench::new(volumes, policy)));
    for (bench, volumes) in benches.iter_mut().flat_map(|benches| benches.iter_mut().zip(VOLUMES)) {
        // What every bucket holds at the start is spent first.
        bench.run((volumes * 4).max(requests / 4));
    }
    let mut costs = POLICIES.map(|_| VOLUMES.map(|_| Vec::new()));
    for _ in 0..rounds {
        for size in 0..VOLUMES.len() {
            for (benches, costs) in benches.iter_mut().zip(&mut costs) {
                costs[size].push(benches[size].measure(requests));
            }
        }
    }
    costs.map(|costs| costs.map(median).into())
}

/// The median cost in ns of a request in the order of arrival, and by predicted positioning times.
fn measure_decision(rounds: usize, requests: u32) -> [f64; 2] {
    let mut benches = [ChooserName::Arrival, ChooserName::Predicted].map(Bench::deep);
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (bench, costs) in benches.iter_mut().zip(&mut costs) {
            costs.push(bench.measure(requests));
        }
    }
    costs.map(median)
}

fn logarithms(volumes: u32) -> f64 {
    f64::from(volumes).log2() / f64::from(VOLUMES[0]).log2()
}

fn table([costs, others]: &[Vec<f64>; 2]) -> String {
    let mut text = String::from(
        "volumes  ns a request  cost(n)/cost(10)  log n/log 10  spindle: ns a request  ratio\n",
    );
    for ((volumes, cost), other) in VOLUMES.into_iter().zip(costs).zip(others) {
        let (ratio, bound) = (cost / costs[0], logarithms(volumes));
        let factor = other / cost;
        writeln!(
            text,
            "{volumes:>7}  {cost:>12.0}  {ratio:>16.2}  {bound:>12.2}  {other:>21.0}  {factor:>5.2}"
        )
        .expect("a string takes all");
    }
    text
}

fn json([costs, others]: &[Vec<f64>; 2], decision: f64, holds: bool) -> String {
    let row = |((volumes, cost), other): ((u32, &f64), &f64)| {
        let (ratio, bound) = (cost / costs[0], logarithms(volumes));
        let factor = other / cost;
        format!(
            "{{\"volumes\":{volumes},\"ns_per_request\":{cost:.1},\"ratio\":{ratio:.3},\
             \"log_ratio\":{bound:.3},\"spindle_ns_per_request\":{other:.1},\
             \"spindle_ratio\":{factor:.3}}}"
        )
    };
    let rows: Vec<_> = VOLUMES.into_iter().zip(costs).zip(others).map(row).collect();
    format!(
        r#"{{"schema":1,"bench":"engine","rows":[{}],"decision_ns":{decision:.0},{}}}"#,
        rows.join(","),
        format_args!(r#""holds":{holds}"#),
    )
}

fn main() -> ExitCode {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if !asked("--bench") {
        measure(1, 1_000);
        measure_decision(1, 1_000);
        return ExitCode::SUCCESS;
    }
    let costs = measure(ROUNDS, REQUESTS);
    let [arrival, predicted] = measure_decision(ROUNDS, REQUESTS / 4);
    let decision = predicted - arrival;
    let [first, second] = &costs;
    let bound = logarithms(VOLUMES[VOLUMES.len() - 1]);
    let scales = first[first.len() - 1] / first[0] <= bound;
    let is_quick = decision <= DECISION_MAX;
    let is_cheap = first.iter().zip(second).all(|(cost, other)| other / cost <= RATIO_MAX);
    if asked("--json") {
        println!("{}", json(&costs, decision, scales && is_cheap && is_quick));
    } else {
        print!("{}", table(&costs));
        println!(
            "{CANDIDATES} candidates: {arrival:.0} ns a request by arrival, {predicted:.0} ns \
             predicted: {decision:.0} ns a decision"
        );
    }
    if !is_quick {
        eprintln!("a decision among {CANDIDATES} costs more than {DECISION_MAX} ns");
    }
    if !scales {
        eprintln!("the cost grows faster than the logarithm of the number of volumes");
    }
    if !is_cheap {
        eprintln!("a request costs more than {RATIO_MAX} times as much under spindle");
    }
    ExitCode::from(u8::from(!(scales && is_cheap && is_quick)))
}
