//! The throughput of a mirror on two disks beside that of one disk, with the default settings.
//!
//! Every figure is the worst over the seeds. *One* is a volume of the same size on one of the
//! pool's disks, with the same requests.

use config::Plan;
use sim::Simulation;
use units::{Duration, Instant};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{length, scenario};

pub(super) const MIRROR: Experiment = Experiment {
    id: "mirror",
    title: "the throughput of a mirror on two disks beside one disk: reads and writes, random and \
            sequential",
    run: mirror,
};

const WARM_UP: Duration = Duration::from_secs(2);
const COLUMNS: [&str; 4] = ["seed", "one_per_s", "mirror_per_s", "ratio"];

/// Runs of a load: their number, each with another seed, and their seconds after the warm-up.
#[derive(Clone, Copy)]
struct Runs(u32, u64);

const AT_RANDOM: Runs = Runs(3, 30);
/// There is little chance in them, and many requests.
const IN_ORDER: Runs = Runs(1, 10);

/// A load, and the least rate of a mirror that is wanted of it, relative to one disk.
struct Load {
    name: &'static str,
    requests: &'static str,
    outstanding: u32,
    disk: &'static str,
    ratio: f64,
    runs: Runs,
}

const UNBUFFERED: &str = "write_buffer = \"off\"";
const RANDOM_READS: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"";
const READS: &str = "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"";
const SMALL_READS: &str = "op = \"read\"\naccess = \"sequential\"\nblock = \"64KiB\"";
const RANDOM_WRITES: &str = "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"";
const WRITES: &str = "op = \"write\"\naccess = \"sequential\"\nblock = \"1MiB\"";

const fn load(
    name: &'static str,
    (requests, outstanding): (&'static str, u32),
    disk: &'static str,
    (ratio, runs): (f64, Runs),
) -> Load {
    Load { name, requests, outstanding, disk, ratio, runs }
}

const LOADS: [Load; 11] = [
    load("random reads, 1", (RANDOM_READS, 1), "", (1.0, AT_RANDOM)),
    load("random reads, 4", (RANDOM_READS, 4), "", (1.0, AT_RANDOM)),
    load("random reads, 32", (RANDOM_READS, 32), "", (1.8, AT_RANDOM)),
    load("1 MiB reads in order, 1", (READS, 1), "", (1.0, IN_ORDER)),
    load("1 MiB reads in order, 4", (READS, 4), "", (1.0, IN_ORDER)),
    load("1 MiB reads in order, 16", (READS, 16), "", (1.0, IN_ORDER)),
    load("64 KiB reads in order, 32", (SMALL_READS, 32), "", (1.0, IN_ORDER)),
    load("random writes, 32", (RANDOM_WRITES, 32), "", (0.9, AT_RANDOM)),
    load("random writes, 32, unbuffered", (RANDOM_WRITES, 32), UNBUFFERED, (0.9, AT_RANDOM)),
    load("1 MiB writes in order, 4", (WRITES, 4), "", (0.9, IN_ORDER)),
    load("1 MiB writes in order, 4, unbuffered", (WRITES, 4), UNBUFFERED, (0.9, IN_ORDER)),
];

fn plan(load: &Load, layout: &str, seed: u32) -> Plan {
    let Load { requests, outstanding, disk, runs: Runs(_, seconds), .. } = load;
    let disks = ["d0", "d1"]
        .map(|name| format!("[[disk]]\nname = \"{name}\"\ndrive = \"hgst-7k8\"\n{disk}\n"))
        .concat();
    let text = format!(
        "seed = {seed}\n{disks}[pool]\ndisks = [\"d0\", \"d1\"]\n\
         [[pool.volume]]\nname = \"v\"\nsize = \"7000GiB\"\n{layout}\n[[workload]]\n\
         volume = \"v\"\n{requests}\noutstanding = {outstanding}\n"
    );
    let mut plan = scenario("mirror.toml", &text);
    plan.duration = Some(WARM_UP + Duration::from_secs(*seconds));
    plan
}

/// Requests answered a second after the warm-up.
fn rate(plan: &Plan) -> f64 {
    let mut simulation = Simulation::new(plan);
    let mut answered = |until: Duration| {
        simulation.run_until(Instant::ZERO + until);
        simulation.report().volumes[0].requests
    };
    let (before, after) = (answered(WARM_UP), answered(length(plan)));
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    let requests = (after - before) as f64;
    requests / (length(plan) - WARM_UP).as_secs_f64()
}

fn mirror(told: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    let mut done = 0_u32;
    for load in &LOADS {
        let mut series = Series::new(load.name.replace([' ', ','], "-"), &COLUMNS);
        for seed in 1..=load.runs.0 {
            let one = rate(&plan(load, "disks = [\"d0\"]", seed));
            let both = rate(&plan(load, "layout = \"mirror\"", seed));
            series.rows.push(vec![seed.into(), one, both, both / one]);
        }
        let least = series.column(3).fold(f64::INFINITY, f64::min);
        let name = format!("{}: least rate ÷ that of one disk", load.name);
        findings.checks.push(Check::at_least(name, least, load.ratio, "ratio"));
        findings.series.push(series);
        done += 1;
        #[expect(clippy::cast_precision_loss, reason = "a dozen")]
        told(f64::from(done) / LOADS.len() as f64);
    }
    findings
}
