//! `spindle-lab bench nbd`: the whole path of a request, sockets, router, engine and disk, beside
//! other servers.
//!
//! The disk is of memory and takes no time, so that what is measured is everything else. The other
//! servers are nbdkit's memory plugin, nbd-server and qemu-nbd on a file in memory, as many of them
//! as are installed. In each round of a row all serve the same load one after the other, each time
//! beginning with another one.

mod load;
mod processor;
mod servers;

use console::{ExitStatus, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;

use super::{live, median};
use crate::args;
use load::Run;
pub(crate) use load::{Asked, Shape, ask};
pub(crate) use processor::load_average;
use servers::{Server, Whose};

const CONNECTIONS: [u32; 2] = [1, 4];
/// What is wanted of the ratios of throughput, and of processor time the other way round.
const RATIO_MIN: f64 = 1.0;

/// What one server did in one row: medians of its rounds.
#[derive(Debug, Serialize)]
struct Served {
    server: &'static str,
    requests_per_s: f64,
    bytes_per_s: f64,
    /// Of all its processes and threads.
    processor_us_per_request: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    connections: u32,
    pattern: &'static str,
    block: u64,
    depth: u32,
    /// The first is ours, over memory.
    served: Vec<Served>,
    #[serde(flatten)]
    against: Option<Against>,
}

/// Ours over memory against the others.
#[derive(Debug, Serialize)]
struct Against {
    /// The other with the highest throughput.
    best: &'static str,
    /// Ours ÷ the best's: the median over rounds.
    throughput_ratio: f64,
    /// Ours a request ÷ the least of the others.
    processor_ratio: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Nbd {
    schema: u32,
    seconds: u64,
    rounds: u32,
    /// Processes that ran or wanted to, on the mean of a minute: before and after.
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
        eprintln!("{name} is NOT INSTALLED: it is not compared with");
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

/// Every round of one row.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(servers: &mut [Server], shape: &Shape, args: &args::NbdBench) -> anyhow::Result<Row> {
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds as usize {
        for turn in 0..servers.len() {
            let place = (round + turn) % servers.len();
            runs[place].push(load::run(&servers[place], shape, args.seconds)?);
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
    let place = |whose| servers.iter().position(|server| server.whose == whose);
    let ours = place(Whose::Ours)?;
    let others = || (0..servers.len()).filter(|place| servers[*place].whose == Whose::Theirs);
    let rate = |place: &usize| served[*place].requests_per_s;
    let best = others().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let pairs = runs[ours].iter().zip(&runs[best]);
    let throughput_ratio = median(pairs.map(|(a, b)| a.requests_per_s / b.requests_per_s));
    let cost = |place: usize| served[place].processor_us_per_request;
    let least = others().map(cost).fold(f64::INFINITY, f64::min);
    let processor_ratio = cost(ours) / least;
    let holds = throughput_ratio >= RATIO_MIN && processor_ratio <= RATIO_MIN;
    Some(Against { best: served[best].server, throughput_ratio, processor_ratio, holds })
}

fn print(nbd: &Nbd) {
    let Some(first) = nbd.rows.first() else { return };
    let names: Vec<_> = first.served.iter().map(|served| served.server).collect();
    let mut head = vec!["requests a second"];
    head.extend(&names);
    head.extend(["÷ best", "µs a request:"]);
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
        println!("NOT INSTALLED, and not compared with: {}", nbd.missing.join(", "));
    }
}
