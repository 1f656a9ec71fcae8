//! The engine's CPU time per request, with 10 to 10,000 volumes: `cargo bench -p spindle-engine
//! --bench engine`.
//!
//! A request is submitted, dispatched and completed under the policies `utilization` and `spindle`.
//! Every volume always has requests queued: half of the volumes read sequentially, the others at
//! random; the reserves add up to the whole, and every fifth volume has a limit. The figures
//! include the time of the simulated drive. Each round measures all sizes and both policies, so
//! that noise of the machine affects all of them. A ratio is the median of the ratios of single
//! rounds, in which one was measured right after the other.
//!
//! A figure is the time divided by the requests that were answered, not by the commands: `spindle`
//! merges neighbours, and one command then answers several requests. So it is measured with
//! requests that are too long to be merged ([`LONG`]), of which each is a command under both
//! policies, and with short ones ([`SHORT`]).
//!
//! A decision of the chooser is measured beside it: one volume with [`CANDIDATES`] random requests
//! queued, in the order of arrival and by predicted positioning times, in turns. The difference is
//! what a decision and the look-up of the request's place cost.
//!
//! It fails if the time under `utilization` grows faster than the logarithm of the number of
//! volumes, if `spindle` takes more than [`RATIO_MAX`] times as long, or if a decision takes more
//! than [`DECISION_MAX`] ns. `-- --json` prints one JSON object. `-- --one KIND VOLUMES COMMANDS`
//! runs a number of commands of one of [`KINDS`] and measures nothing: for a tool that counts
//! instructions, whose figures do not depend on the machine's load. As a test it only runs once:
//! the figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_precision_loss, reason = "shown, never computed with")]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use drive_profile::example_profile;
use spindle_engine::{
    Action, ChooserName, Command, Contract, Engine, Event, Outcome, PolicyName, Request, RequestId,
    Settings, VolumeId, limits::MERGED_MAX,
};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors, Share};

const VOLUMES: [u32; 4] = [10, 100, 1_000, 10_000];
/// Requests of which none is merged with another, and requests that are merged with neighbours.
const LONG: Sectors = MERGED_MAX;
const SHORT: Sectors = Sectors(8);
const _: () = assert!(SHORT.0 * OUTSTANDING as u64 <= MERGED_MAX.0);
/// What is measured. The length of a request makes no difference under the first policy.
const KINDS: [(PolicyName, Sectors); 3] =
    [(PolicyName::Utilization, LONG), (PolicyName::Spindle, LONG), (PolicyName::Spindle, SHORT)];
/// The most that a request may cost as one of the other kinds, in costs as one of the first.
const RATIO_MAX: f64 = 1.3;
/// Requests queued for a decision of the chooser, and the most that one may cost, in ns.
const CANDIDATES: u32 = 128;
const DECISION_MAX: f64 = 3_000.0;
/// The blocks of the example's disk.
const DEEP_BLOCKS: u64 = 24_000;
const OUTSTANDING: u32 = 2;
const VOLUME_BLOCKS: u64 = 1 << 16;

/// Commands in a round and rounds, of which the median counts.
const COMMANDS: u32 = 100_000;
const ROUNDS: usize = 15;

const SERVICE_SEQUENTIAL: Duration = Duration::from_micros(150);
const SERVICE_RANDOM: Duration = Duration::from_millis(8);

/// An engine, its clients and a drive that takes one command.
struct Bench {
    engine: Engine,
    now: Instant,
    block: Sectors,
    next_request: u64,
    answered: u64,
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
        let mut bench = Self::with(engine, SHORT, Vec::new());
        (0..CANDIDATES).for_each(|_| bench.submit(VolumeId(0)));
        bench
    }

    fn with(engine: Engine, block: Sectors, next_block: Vec<u64>) -> Self {
        let (now, serving) = (Instant::ZERO, None);
        Self { engine, now, block, next_request: 0, answered: 0, next_block, rng: 1, serving }
    }

    fn new(volumes: u32, (policy, block): (PolicyName, Sectors)) -> Self {
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
        let mut bench = Self::with(engine, block, vec![0; volumes as usize]);
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
        let start = Lba((u64::from(volume.0) * VOLUME_BLOCKS + block) * self.block.0);
        let operation = Operation::read(Extent::new(start, self.block));
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
                Action::Reply(reply) => {
                    self.answered += 1;
                    self.submit(reply.volume);
                }
            }
        }
    }

    fn run(&mut self, commands: u32) {
        for _ in 0..commands {
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
    fn measure(&mut self, commands: u32) -> f64 {
        let (began, before) = (std::time::Instant::now(), self.answered);
        self.run(commands);
        let answered = self.answered - before;
        assert!(answered > 0, "a command answers requests");
        began.elapsed().as_nanos() as f64 / answered as f64
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// The commands that spend what every bucket holds at the start.
fn warm_up(volumes: u32) -> u32 {
    volumes * 4
}

/// The costs of all rounds, by kind and size.
type Costs = [[Vec<f64>; VOLUMES.len()]; KINDS.len()];

fn measure(rounds: usize, commands: u32) -> Costs {
    let mut benches = KINDS.map(|kind| VOLUMES.map(|volumes| Bench::new(volumes, kind)));
    for (bench, volumes) in benches.iter_mut().flat_map(|benches| benches.iter_mut().zip(VOLUMES)) {
        bench.run(warm_up(volumes).max(commands / 4));
    }
    let mut costs: Costs = KINDS.map(|_| VOLUMES.map(|_| Vec::new()));
    for _ in 0..rounds {
        for size in 0..VOLUMES.len() {
            for (benches, costs) in benches.iter_mut().zip(&mut costs) {
                costs[size].push(benches[size].measure(commands));
            }
        }
    }
    costs
}

/// The median cost in ns of a request in the order of arrival, and by predicted positioning times.
fn measure_decision(rounds: usize, commands: u32) -> [f64; 2] {
    let mut benches = [ChooserName::Arrival, ChooserName::Predicted].map(Bench::deep);
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (bench, costs) in benches.iter_mut().zip(&mut costs) {
            costs.push(bench.measure(commands));
        }
    }
    costs.map(median)
}

fn logarithms(volumes: u32) -> f64 {
    f64::from(volumes).log2() / f64::from(VOLUMES[0]).log2()
}

/// The costs of one number of volumes.
struct Row {
    volumes: u32,
    cost: f64,
    /// In costs with the least number of volumes.
    growth: f64,
    /// Under `spindle`, alone and merged with neighbours, and in costs under `utilization`.
    spindle: f64,
    ratio: f64,
    merged: f64,
    merged_ratio: f64,
}

fn rows(costs: &Costs) -> Vec<Row> {
    let row = |(index, volumes): (usize, u32)| {
        let [first, spindle, merged] = costs.each_ref().map(|costs| &costs[index]);
        let ratio = |costs: &Vec<f64>| {
            let pairs = costs.iter().zip(first);
            median(pairs.map(|(cost, first)| cost / first).collect())
        };
        let (ratio, merged_ratio) = (ratio(spindle), ratio(merged));
        let [cost, spindle, merged] = [first, spindle, merged].map(|costs| median(costs.clone()));
        let growth = cost / median(costs[0][0].clone());
        Row { volumes, cost, growth, spindle, ratio, merged, merged_ratio }
    };
    VOLUMES.into_iter().enumerate().map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "volumes  ns a request  cost(n)/cost(10)  log n/log 10  spindle: ns a request  ratio  \
         merged  ratio\n",
    );
    for Row { volumes, cost, growth, spindle, ratio, merged, merged_ratio } in rows {
        let bound = logarithms(*volumes);
        writeln!(
            text,
            "{volumes:>7}  {cost:>12.0}  {growth:>16.2}  {bound:>12.2}  {spindle:>21.0}  \
             {ratio:>5.2}  {merged:>6.0}  {merged_ratio:>5.2}"
        )
        .expect("a string takes all");
    }
    text
}

fn json(rows: &[Row], decision: f64, holds: bool) -> String {
    let row = |Row { volumes, cost, growth, spindle, ratio, merged, merged_ratio }: &Row| {
        let bound = logarithms(*volumes);
        format!(
            "{{\"volumes\":{volumes},\"ns_per_request\":{cost:.1},\"ratio\":{growth:.3},\
             \"log_ratio\":{bound:.3},\"spindle_ns_per_request\":{spindle:.1},\
             \"spindle_ratio\":{ratio:.3},\"merged_ns_per_request\":{merged:.1},\
             \"merged_ratio\":{merged_ratio:.3}}}"
        )
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!(
        r#"{{"schema":2,"bench":"engine","rows":[{}],"decision_ns":{decision:.0},{}}}"#,
        rows.join(","),
        format_args!(r#""holds":{holds}"#),
    )
}

/// Runs commands of one kind, and measures nothing.
fn run_one(numbers: &[u32]) -> ExitCode {
    let [kind, volumes, commands] = *numbers else {
        eprintln!("--one wants the index of a kind, the number of volumes and that of commands");
        return ExitCode::FAILURE;
    };
    let Some(kind) = KINDS.get(kind as usize) else {
        eprintln!("there are {} kinds, from 0 on", KINDS.len());
        return ExitCode::FAILURE;
    };
    let mut bench = Bench::new(volumes, *kind);
    bench.run(warm_up(volumes) + commands);
    println!("{} requests answered", bench.answered);
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if asked("--one") {
        let numbers: Vec<u32> = std::env::args().filter_map(|number| number.parse().ok()).collect();
        return run_one(&numbers);
    }
    if !asked("--bench") {
        measure(1, 1_000);
        measure_decision(1, 1_000);
        return ExitCode::SUCCESS;
    }
    let rows = rows(&measure(ROUNDS, COMMANDS));
    let [arrival, predicted] = measure_decision(ROUNDS, COMMANDS / 4);
    let decision = predicted - arrival;
    let scales = rows[rows.len() - 1].growth <= logarithms(VOLUMES[VOLUMES.len() - 1]);
    let is_quick = decision <= DECISION_MAX;
    let is_cheap = rows.iter().all(|row| row.ratio.max(row.merged_ratio) <= RATIO_MAX);
    if asked("--json") {
        println!("{}", json(&rows, decision, scales && is_cheap && is_quick));
    } else {
        print!("{}", table(&rows));
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
