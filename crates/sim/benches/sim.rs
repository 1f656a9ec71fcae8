//! Simulated requests a second on one core: `cargo bench -p spindle-sim --bench sim`.
//!
//! Through the whole simulation (workload, engine, drive, statistics, oracles), and through the
//! drive model alone. Beside each figure stand its target on an idle core and DiskSim's figure. A
//! missed target is named and fails nothing, as a shared machine may be slow. `-- --json` prints
//! one JSON object. As a test the benchmark only runs: figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_precision_loss, reason = "shown, never computed with")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use config::Plan;
use drive::{Choosing, Device, Discipline, FlashDevice, FlashModel, Model, Tag};
use spindle_sim::{SeededRng, Simulation};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

/// One sequential and one random stream on one disk, as in RTAS 2008, section 4.2.
const SCENARIO: &str = include_str!("two-streams.toml");

/// The target of many volumes, each with a random and a sequential stream.
const CROWD: u32 = 1_000;

/// The whole simulation.
const WORLD: Bar = Bar::Target(1_000.0);
/// The drive model alone. DiskSim's figures are its processor time for such a request in its own
/// runs; it is not run here.
const RANDOM: Bar = Bar::Beside { target: 300.0, disksim: 14_000.0 };
const SEQUENTIAL: Bar = Bar::Beside { target: 300.0, disksim: 4_000.0 };
const OF_16: Bar = Bar::Beside { target: 1_500.0, disksim: 27_000.0 };
/// No target: each choice prices every waiting command.
const OF_64: Bar = Bar::Watched { disksim: 65_000.0 };

const BLOCK: Sectors = Sectors(8);
const ROUNDS: usize = 9;

/// The size of one round: virtual seconds of a simulation, requests of a drive alone.
#[derive(Clone, Copy)]
struct Size {
    seconds: u64,
    requests: u64,
}

const FULL: Size = Size { seconds: 60, requests: 200_000 };
const TRIAL: Size = Size { seconds: 1, requests: 1_000 };

/// The result of one round.
struct Round {
    requests: u64,
    took: core::time::Duration,
}

/// The target of a row.
#[derive(Clone, Copy)]
enum Bar {
    /// No target.
    None,
    /// The most time of a request, in ns.
    Target(f64),
    /// The same, and DiskSim's time for such a request, in ns.
    Beside { target: f64, disksim: f64 },
    /// DiskSim's time alone, without a target.
    Watched { disksim: f64 },
}

/// One line of the output.
struct Row {
    name: &'static str,
    ns: f64,
    bar: Bar,
}

fn plan(text: &str) -> Plan {
    Plan::parse(text, "bench", Path::new(".")).expect("the scenario is valid")
}

fn pair(policy: &str) -> Plan {
    plan(&SCENARIO.replace("POLICY", policy))
}

fn crowd() -> Plan {
    let mut text = String::from("seed = 1\n[[disk]]\nname = \"d0\"\ndrive = \"deskstar-34gxp\"\n");
    for volume in 0..CROWD {
        let mut add = |part: &str| text.push_str(part);
        add(&format!("[[volume]]\nname = \"v{volume}\"\ndisk = \"d0\"\nsize = \"16MiB\"\n"));
        add("reserve = \"0.1%\"\n");
        for access in ["random", "sequential"] {
            add(&format!("[[workload]]\nvolume = \"v{volume}\"\nop = \"read\"\n"));
            add(&format!("access = \"{access}\"\nblock = \"4KiB\"\noutstanding = 2\n"));
        }
    }
    plan(&text)
}

fn simulation(plan: &Plan, size: Size) -> Round {
    let mut simulation = Simulation::new(plan);
    let began = std::time::Instant::now();
    simulation.run_until(Instant::ZERO + Duration::from_secs(size.seconds));
    let took = began.elapsed();
    Round { requests: simulation.report().oracles.answered, took }
}

fn lone(model: &Arc<Model>, size: Size, mut place: impl FnMut(u64) -> u64) -> Round {
    let mut device = Device::new(Arc::clone(model));
    let mut now = Instant::ZERO;
    let blocks = model.capacity().0 / BLOCK.0;
    let began = std::time::Instant::now();
    for request in 0..size.requests {
        let extent = Extent::new(Lba(place(blocks) * BLOCK.0), BLOCK);
        device.submit(now, Tag(request), Operation::read(extent));
        now = device.next_completion().expect("one is in service");
        device.complete(now).expect("the command completes");
    }
    Round { requests: size.requests, took: began.elapsed() }
}

/// Random reads of a flash drive at a queue depth.
fn flash(model: &Arc<FlashModel>, size: Size, depth: u64) -> Round {
    let mut device = FlashDevice::new(Arc::clone(model));
    let mut rng = SeededRng::new(1, 0);
    let blocks = model.capacity().0 / BLOCK.0;
    let mut read = || Operation::read(Extent::new(Lba(rng.below(blocks) * BLOCK.0), BLOCK));
    for tag in 0..depth {
        device.submit(Instant::ZERO, Tag(tag), read());
    }
    let mut done = 0;
    let began = std::time::Instant::now();
    while done < size.requests {
        let now = device.next_completion().expect("one is in service");
        while device.complete(now).is_some() {
            done += 1;
            device.submit(now, Tag(depth + done), read());
        }
    }
    Round { requests: done, took: began.elapsed() }
}

fn solid(name: &str) -> Arc<FlashModel> {
    let spec = drive_library::find(name).expect("in the library");
    Arc::clone(spec.check().expect("a drive").flash().expect("a flash drive"))
}

/// The drive with a shortest-positioning queue.
fn choosing(model: &Model) -> Arc<Model> {
    let mut spec = model.spec().clone();
    spec.queue_depth_max = 64;
    spec.discipline = Discipline::ShortestPositioning(Choosing {
        age_limit: Duration::from_secs(2),
        stream_hold: Duration::ZERO,
        decision_latency: Duration::ZERO,
    });
    Arc::new(spec.check().expect("the spec was valid before"))
}

/// Random reads at a queue depth.
fn queued(model: &Arc<Model>, size: Size, depth: u64) -> Round {
    let mut device = Device::new(Arc::clone(model));
    let mut rng = SeededRng::new(1, 0);
    let blocks = model.capacity().0 / BLOCK.0;
    let mut operation = || Operation::read(Extent::new(Lba(rng.below(blocks) * BLOCK.0), BLOCK));
    (0..depth).for_each(|tag| device.submit(Instant::ZERO, Tag(tag), operation()));
    let began = std::time::Instant::now();
    for request in 0..size.requests {
        let now = device.next_completion().expect("one is in service");
        device.complete(now).expect("the command completes");
        device.submit(now, Tag(depth + request), operation());
    }
    Round { requests: size.requests, took: began.elapsed() }
}

fn row(name: &'static str, bar: Bar, rounds: usize, mut run: impl FnMut() -> Round) -> Row {
    // The minimum: other load on the machine only adds.
    let ns = (0..rounds)
        .map(|_| run())
        .map(|round| round.took.as_nanos() as f64 / round.requests as f64)
        .fold(f64::INFINITY, f64::min);
    Row { name, ns, bar }
}

fn measure(rounds: usize, size: Size) -> Vec<Row> {
    let (utilization, fcfs, crowd) = (pair("utilization"), pair("fcfs"), crowd());
    let model = utilization.disks[0].drive.model.mechanical().expect("a drive with an arm");
    let (sata, nvme) = (solid("samsung-870evo-1t"), solid("intel-p4500-2t"));
    let on_flash = SCENARIO.replace("deskstar-34gxp", "samsung-870evo-1t");
    let on_flash = plan(&on_flash.replace("POLICY", "utilization"));
    // About 400 times as many requests a second as on the mechanical drive.
    let short = Size { seconds: size.seconds.div_ceil(20), ..size };
    let mut rng = SeededRng::new(1, 0);
    let choosing = choosing(model);
    let large = Arc::new(
        drive_library::find_mechanical("nearline-20t")
            .expect("in the library")
            .check()
            .expect("a drive"),
    );
    let mut next = 0;
    vec![
        row("two volumes, utilization", WORLD, rounds, || simulation(&utilization, size)),
        row("two volumes, fcfs", WORLD, rounds, || simulation(&fcfs, size)),
        row("1,000 volumes, utilization", Bar::None, rounds, || simulation(&crowd, size)),
        row("drive alone, random 4 KiB", RANDOM, rounds, || {
            lone(model, size, |blocks| rng.below(blocks))
        }),
        row("the same on nearline-20t", RANDOM, rounds, || {
            lone(&large, size, |blocks| rng.below(blocks))
        }),
        row("shortest positioning of 16", OF_16, rounds, || queued(&choosing, size, 16)),
        row("shortest positioning of 64", OF_64, rounds, || queued(&choosing, size, 64)),
        row("drive alone, sequential 4 KiB", SEQUENTIAL, rounds, || {
            lone(model, size, |blocks| {
                next = (next + 1) % blocks;
                next
            })
        }),
        row("SATA flash alone, depth 1", Bar::None, rounds, || flash(&sata, size, 1)),
        row("SATA flash alone, depth 32", Bar::None, rounds, || flash(&sata, size, 32)),
        row("NVMe flash alone, depth 128", Bar::None, rounds, || flash(&nvme, size, 128)),
        row("two volumes on SATA flash", Bar::None, rounds, || simulation(&on_flash, short)),
    ]
}

impl Bar {
    fn target(self) -> Option<f64> {
        match self {
            Self::Target(target) | Self::Beside { target, .. } => Some(target),
            Self::None | Self::Watched { .. } => None,
        }
    }

    fn disksim(self) -> Option<f64> {
        match self {
            Self::Beside { disksim, .. } | Self::Watched { disksim } => Some(disksim),
            Self::None | Self::Target(_) => None,
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "what                           ns a request  million a second  at most             \
         DiskSim ns\n",
    );
    for Row { name, ns, bar } in rows {
        let judged = bar.target().map_or(String::new(), |target| {
            let word = if *ns <= target { "met" } else { "missed" };
            format!("{target:.0} {word}")
        });
        let disksim = bar
            .disksim()
            .map_or(String::new(), |other| format!("{other:.0} ({:.0} times)", other / ns));
        let line = format!("{name:<29}  {ns:>12.0}  {:>16.2}  {judged:<18}  {disksim}", 1e3 / ns);
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
    }
    text
}

fn json(rows: &[Row]) -> String {
    let row = |Row { name, ns, bar }: &Row| {
        serde_json::json!({
            "name": name,
            "ns_per_request": ns,
            "requests_per_s": (1e9 / ns).round(),
            "target_ns": bar.target(),
            "disksim_ns": bar.disksim(),
        })
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    serde_json::json!({ "schema": 1, "bench": "sim", "rows": rows }).to_string()
}

fn main() {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if !asked("--bench") {
        measure(1, TRIAL);
        return;
    }
    let rows = measure(ROUNDS, FULL);
    if asked("--json") {
        println!("{}", json(&rows));
    } else {
        print!("{}", table(&rows));
    }
}
