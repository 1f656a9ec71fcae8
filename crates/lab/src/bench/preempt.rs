//! `spindle-lab bench preempt`: a latency-sensitive volume beside one with long reads, with
//! preemption and without.

use std::path::Path;

use anyhow::Context;
use config::{Arrival, Plan, Requests};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Daemon, Status};
use engine::Execution;
use nbd::Address;
use serde::Serialize;
use sim::SeededRng;
use stats::{ExecutionReport, LatencyMs, SCHEMA};
use units::{Duration, Sectors};

use super::live::pause;
use crate::args;
use loadgen::{Load, OpenLoad};

const PLAN: &str = include_str!("../../preempt.toml");
/// The indices of the two volumes, and of their workloads, in the plan.
const BIG: usize = 0;
const URGENT: usize = 1;
/// Requests per second of the urgent reader.
const RATES: [u64; 2] = [1, 10];
/// The length into which operating systems split long requests: the non-preemptible IO of FAST 2003
/// §4.
const SPLIT: Sectors = Sectors(256);
/// Excluded at the start of a run: the rotation tracker has no estimate yet.
const RAMP: Duration = Duration::from_secs(2);
const WAITING_RATIO_MAX: f64 = 0.2;
const RESPONSE_RATIO_MAX: f64 = 0.6;
const THROUGHPUT_RATIO_MIN: f64 = 0.95;
/// The highest rate at which the big reader's throughput is judged: the cost of preemption grows
/// with the rate.
const THROUGHPUT_RATE_MAX: u64 = 1;

/// One run.
#[derive(Debug, Serialize)]
struct Row {
    requests_per_s: u64,
    execution: &'static str,
    /// Requests of the urgent reader. The times are the urgent reader's too.
    requests: u64,
    /// The time from arrival at the disk to the first command.
    waiting_ms: LatencyMs,
    /// The time from submission to reply at the client.
    response_ms: LatencyMs,
    big_bytes_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    executed: Option<ExecutionReport>,
    lateness_us: LatenessUs,
}

/// Preemptible relative to whole execution, at one rate.
#[derive(Debug, Serialize)]
struct Ratios {
    requests_per_s: u64,
    waiting_p99: f64,
    response_mean: f64,
    big_throughput: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Preempt {
    schema: u32,
    seconds: u64,
    volume_size: String,
    rows: Vec<Row>,
    ratios: Vec<Ratios>,
    holds: bool,
}

pub(crate) fn preempt(args: &args::Preempt, json: bool) -> anyhow::Result<ExitStatus> {
    let text = PLAN.replace("4GiB", &format!("{}B", args.size.0));
    let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for rate in RATES {
        let mut whole = plan.clone();
        whole.disks[0].execution = Execution::Whole { split: Some(SPLIT) };
        let length = Duration::from_secs(args.seconds);
        let whole = measure(&whole, "whole", rate, length)?;
        let preemptible = measure(&plan, "preemptible", rate, length)?;
        ratios.push(Ratios::of(&whole, &preemptible));
        rows.extend([whole, preemptible]);
    }
    let volume_size = plan.volumes[BIG].size.to_string();
    let holds = ratios.iter().all(|ratios| ratios.holds);
    let preempt =
        Preempt { schema: SCHEMA, seconds: args.seconds, volume_size, rows, ratios, holds };
    if json {
        println!("{}", serde_json::to_string(&preempt)?);
    } else {
        print(&preempt);
    }
    Ok(holds.into())
}

impl Ratios {
    fn of(whole: &Row, preemptible: &Row) -> Self {
        let waiting_p99 = preemptible.waiting_ms.p99 / whole.waiting_ms.p99;
        let response_mean = preemptible.response_ms.mean / whole.response_ms.mean;
        let big_throughput = preemptible.big_bytes_per_s / whole.big_bytes_per_s;
        let requests_per_s = whole.requests_per_s;
        let kept = requests_per_s > THROUGHPUT_RATE_MAX || big_throughput >= THROUGHPUT_RATIO_MIN;
        // A NaN ratio (0 ÷ 0) fails both comparisons.
        let is_fast = waiting_p99 <= WAITING_RATIO_MAX && response_mean <= RESPONSE_RATIO_MAX;
        Self { requests_per_s, waiting_p99, response_mean, big_throughput, holds: is_fast && kept }
    }
}

/// Serves the plan, runs both clients, and measures after a ramp.
fn measure(
    plan: &Plan,
    execution: &'static str,
    rate: u64,
    length: Duration,
) -> anyhow::Result<Row> {
    eprintln!("{execution}, {rate} requests per second");
    let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    let rng = |stream| SeededRng::new(plan.seed, stream);
    let name = |volume: usize| plan.volumes[volume].name.as_str();
    let big = Load::start(&address, name(BIG), &plan.workloads[BIG], rng(0))?;
    pause(RAMP);
    let mut workload = plan.workloads[URGENT].clone();
    let Requests::Synthetic(synthetic) = &mut workload.requests else {
        unreachable!("the plan's workloads are synthetic")
    };
    synthetic.arrival = Arrival::Open { interval: Duration::from_secs(1) / rate };
    let urgent = OpenLoad::start(&address, name(URGENT), &workload, rng(1))?;
    let first = daemon.status();
    pause(length);
    let last = daemon.status();
    let response = urgent.stop()?;
    big.stop()?;
    let end = daemon.stop().context("cannot stop the daemon")?;
    let elapsed = last.disks[0].at.since(first.disks[0].at);
    let report = |volume: usize, to: &Status| {
        to.volumes[volume].report_since(Some(&first.volumes[volume]), elapsed)
    };
    Ok(Row {
        requests_per_s: rate,
        execution,
        requests: response.count(),
        waiting_ms: report(URGENT, &end).waiting_ms,
        response_ms: response.millis(),
        big_bytes_per_s: report(BIG, &last).bytes_per_s,
        executed: end.disks[0].executed.map(ExecutionReport::from),
        lateness_us: LatenessUs::of(&end),
    })
}

fn print(preempt: &Preempt) {
    let head = [
        "execution",
        "rate",
        "requests",
        "waiting p50",
        "p99 ms",
        "response mean",
        "p99 ms",
        "big MB/s",
        "preempted",
        "timed",
        "missed",
        "late p50",
        "p99 µs",
    ];
    let row = |row: &Row| {
        let done = |of: fn(&ExecutionReport) -> u64| {
            row.executed.as_ref().map_or("-".to_owned(), |executed| of(executed).to_string())
        };
        vec![
            row.execution.to_owned(),
            format!("{}/s", row.requests_per_s),
            row.requests.to_string(),
            format!("{:.2}", row.waiting_ms.p50),
            format!("{:.2}", row.waiting_ms.p99),
            format!("{:.2}", row.response_ms.mean),
            format!("{:.2}", row.response_ms.p99),
            format!("{:.2}", row.big_bytes_per_s / 1e6),
            done(|executed| executed.preempted),
            done(|executed| executed.timed),
            done(|executed| executed.missed),
            format!("{:.0}", row.lateness_us.p50),
            format!("{:.0}", row.lateness_us.p99),
        ]
    };
    print!("{}", table::text(&head, &preempt.rows.iter().map(row).collect::<Vec<_>>()));
    for ratios in &preempt.ratios {
        let rate = ratios.requests_per_s;
        let kept = if rate > THROUGHPUT_RATE_MAX {
            String::new()
        } else {
            format!(" (at least {THROUGHPUT_RATIO_MIN})")
        };
        println!(
            "at {rate}/s, preemptible ÷ whole: waiting p99 {:.3} (at most {WAITING_RATIO_MAX}), \
             mean response {:.3} \
             (at most {RESPONSE_RATIO_MAX}), big reader's throughput {:.3}{kept}: {}",
            ratios.waiting_p99,
            ratios.response_mean,
            ratios.big_throughput,
            if ratios.holds { "holds" } else { "MISSED" },
        );
    }
}
