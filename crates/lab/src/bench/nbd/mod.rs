//! `spindle-lab bench nbd`: the whole path of a request (sockets, router, engine and disk) compared
//! with other NBD servers.
//!
//! The disk is in memory and has no service time, so that the measurement covers the software path
//! alone. The other servers are nbdkit's memory plugin, and nbd-server and qemu-nbd on a file in
//! memory. Servers that are not installed are left out. In each round of a row all servers serve
//! the same load, one after the other; rounds rotate which of them is first.

mod load;
mod processor;
mod servers;

use console::{ExitStatus, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;

use super::{live, median};
use crate::args;
use load::Run;
pub(crate) use load::{Shape, Target, run_fio};
pub(crate) use processor::load_average;
use servers::{Server, ServerKind};

const CONNECTIONS: [u32; 2] = [1, 4];
/// The least accepted ratio of throughputs, and the largest accepted ratio of CPU times.
const RATIO_BOUND: f64 = 1.0;

/// One server's figures in one row: medians over the rounds.
#[derive(Debug, Serialize)]
struct Served {
    server: &'static str,
    requests_per_s: f64,
    bytes_per_s: f64,
    /// CPU time of all threads and processes of the server.
    processor_us_per_request: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    connections: u32,
    pattern: &'static str,
    block: u64,
    depth: u32,
    /// One entry per server. The first is Spindle with a disk in memory.
    served: Vec<Served>,
    #[serde(flatten)]
    against: Option<Against>,
}

/// Spindle with a disk in memory relative to the other servers.
#[derive(Debug, Serialize)]
struct Against {
    /// The other server with the highest throughput.
    best: &'static str,
    /// Spindle's throughput ÷ that of `best`: the median over rounds.
    throughput_ratio: f64,
    /// Spindle's CPU time per request ÷ the least of the other servers.
    processor_ratio: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Nbd {
    schema: u32,
    seconds: u64,
    rounds: u32,
    /// The load average over one minute, before and after.
    load_average: [f64; 2],
    missing: Vec<&'static str>,
    rows: Vec<Row>,
    holds: bool,
}

pub(crate) fn nbd(args: &args::NbdBench, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let shapes: Vec<Shape> =
        Shape::all(&CONNECTIONS).filter(|shape| shape.is_selected(&args.rows)).collect();
    if shapes.is_empty() {
        let known: Vec<_> = Shape::all(&CONNECTIONS).map(|shape| shape.name()).collect();
        let why = format!("no such row, expected a part of the name of one: {}", known.join(", "));
        return Err(bad_input(why));
    }
    let before = load_average()?;
    let (mut servers, missing) = servers::start(load::SIZE)?;
    for name in &missing {
        eprintln!("{name} is NOT INSTALLED and is left out of the comparison");
    }
    for server in &servers {
        load::fill(server)?;
    }
    let mut rows = Vec::new();
    for shape in &shapes {
        eprintln!("{}", shape.name());
        rows.push(row(&mut servers, shape, args)?);
    }
    let holds = rows.iter().all(|row| row.against.as_ref().is_none_or(|against| against.holds));
    let load_average = [before, load_average()?];
    let (seconds, rounds) = (args.seconds, args.rounds);
    let nbd = Nbd { schema: SCHEMA, seconds, rounds, load_average, missing, rows, holds };
    if json {
        println!("{}", serde_json::to_string(&nbd)?);
    } else {
        print(&nbd);
    }
    Ok(holds.into())
}

/// Runs all rounds of one row.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(servers: &mut [Server], shape: &Shape, args: &args::NbdBench) -> anyhow::Result<Row> {
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds as usize {
        for step in 0..servers.len() {
            let index = (round + step) % servers.len();
            runs[index].push(load::run(&servers[index], shape, args.seconds)?);
        }
    }
    let served = servers.iter().zip(&runs).map(|(server, runs)| {
        let requests_per_s = median(runs.iter().map(|run| run.requests_per_s));
        Served {
            server: server.name,
            requests_per_s,
            bytes_per_s: requests_per_s * shape.block.0 as f64,
            processor_us_per_request: median(runs.iter().map(Run::processor_us_per_request)),
        }
    });
    let served: Vec<_> = served.collect();
    let against = against(servers, &served, &runs);
    let Shape { connections, pattern, block, depth } = *shape;
    Ok(Row { name: shape.name(), connections, pattern, block: block.0, depth, served, against })
}

fn against(servers: &[Server], served: &[Served], runs: &[Vec<Run>]) -> Option<Against> {
    let ours = servers.iter().position(|server| server.kind == ServerKind::Spindle)?;
    let others = || (0..servers.len()).filter(|index| servers[*index].kind == ServerKind::Other);
    let rate = |index: &usize| served[*index].requests_per_s;
    let best = others().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let pairs = runs[ours].iter().zip(&runs[best]);
    let throughput_ratio = median(pairs.map(|(a, b)| a.requests_per_s / b.requests_per_s));
    let cost = |index: usize| served[index].processor_us_per_request;
    let least = others().map(cost).fold(f64::INFINITY, f64::min);
    let processor_ratio = cost(ours) / least;
    let holds = throughput_ratio >= RATIO_BOUND && processor_ratio <= RATIO_BOUND;
    Some(Against { best: served[best].server, throughput_ratio, processor_ratio, holds })
}

fn print(nbd: &Nbd) {
    let Some(first) = nbd.rows.first() else { return };
    let names: Vec<_> = first.served.iter().map(|served| served.server).collect();
    let mut head = vec!["requests per second"];
    head.extend(&names);
    head.extend(["÷ best", "CPU µs per request:"]);
    head.extend(&names);
    head.extend(["÷ least", ""]);
    let row = |row: &Row| {
        let rates = row.served.iter().map(|served| format!("{:.0}", served.requests_per_s));
        let costs =
            row.served.iter().map(|served| format!("{:.1}", served.processor_us_per_request));
        let ratio = |of: fn(&Against) -> f64| {
            row.against.as_ref().map_or("-".to_owned(), |against| format!("{:.2}", of(against)))
        };
        let mut cells = vec![row.name.clone()];
        cells.extend(rates);
        cells.extend([ratio(|against| against.throughput_ratio), String::new()]);
        cells.extend(costs);
        let words = |against: &Against| if against.holds { "holds" } else { "MISSED" };
        let holds = row.against.as_ref().map_or("", words);
        cells.extend([ratio(|against| against.processor_ratio), holds.to_owned()]);
        cells
    };
    print!("{}", table::text(&head, &nbd.rows.iter().map(row).collect::<Vec<_>>()));
    let [before, after] = nbd.load_average;
    println!(
        "medians of {} rounds of {} s; load average {before:.1} before, {after:.1} after",
        nbd.rounds, nbd.seconds
    );
    if !nbd.missing.is_empty() {
        println!("NOT INSTALLED and left out: {}", nbd.missing.join(", "));
    }
}
