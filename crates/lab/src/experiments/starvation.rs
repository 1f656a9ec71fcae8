//! What a drive's own queue does to a random reader beside a sequential stream: users meet it, and
//! the model of a queue has to show it.
//!
//! The stream keeps as many requests under way as the drive takes; the random reader has one. With
//! one command at a time the drive has no choice. From two on, the stream's next command is always
//! cheaper than a seek.

use std::sync::Arc;

use config::{Arrival, Plan, Requests};
use drive::{Discipline, Spec};
use plot::{Line, Plot};
use units::{Bytes, Duration};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{run, scenario};

pub(super) const NCQ_STARVATION: Experiment = Experiment {
    id: "drive-ncq-starvation",
    title: "a random reader beside a sequential stream, at four depths of the drive's queue",
    run: ncq_starvation,
};

const SCENARIO: &str = include_str!("../../experiments/drive-ncq-starvation.toml");
const DEPTHS: [u32; 4] = [1, 2, 4, 32];
/// The stream's requests, with the name that files call them by.
const BLOCKS: [(Bytes, &str); 2] = [(Bytes(128 << 10), "128KiB"), (Bytes(1 << 20), "1MiB")];
/// Of how many runs there is progress to tell.
const POINTS: f64 = 8.0;
const COLUMNS: [&str; 7] = [
    "depth",
    "longest_ms",
    "p99_ms",
    "mean_ms",
    "random_iops",
    "stream_mb_per_s",
    "longest_in_order_ms",
];

fn ncq_starvation(told: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("drive-ncq-starvation.toml", SCENARIO);
    let mut checks = Vec::new();
    let mut series = Vec::new();
    let mut done = 0_u32;
    for (block, name) in BLOCKS {
        let mut table = Series::new(name, &COLUMNS);
        for depth in DEPTHS {
            let set = with_stream(&plan, block, depth);
            let (waits, ordered) = (run(&set), run(&in_order(&set)));
            let (stream, random) = (&waits.volumes[0], &waits.volumes[1]);
            let latency = random.latency_ms;
            table.rows.push(vec![
                depth.into(),
                latency.max,
                latency.p99,
                latency.mean,
                random.iops,
                stream.bytes_per_s / 1e6,
                ordered.volumes[1].latency_ms.max,
            ]);
            done += 1;
            told(f64::from(done) / POINTS);
        }
        checks.extend(starvation_checks(name, &table));
        series.push(table);
    }
    let plots = vec![("", starvation_plot(&series))];
    Findings { checks, series, plots }
}

/// The plan with `depth` commands in the drive, and enough requests of the stream to fill it.
fn with_stream(plan: &Plan, block: Bytes, depth: u32) -> Plan {
    let mut plan = plan.clone();
    plan.disks[0].depth = depth;
    if let Requests::Synthetic(stream) = &mut plan.workloads[0].requests {
        stream.block = block;
        stream.arrival = Arrival::Closed { outstanding: depth, think: Duration::ZERO };
    }
    plan
}

/// The same drive with a queue that keeps the order in which commands came: the control.
fn in_order(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let model = plan.disks[0].drive.model.mechanical().expect("a drive with an arm");
    let spec = Spec { discipline: Discipline::Fifo, ..model.spec().clone() };
    let model = Arc::new(spec.check().expect("it was a drive before"));
    plan.disks[0].drive.model = model.into();
    plan
}

/// A drive that was measured let random reads starve for 1 to 4 s beside a stream, from depth 2 on.
///
/// What ends the wait is the age limit, which the drive's file calls an estimate: how long they
/// starve is put in, that they starve from depth 2 on, at any depth alike, and nowhere else, comes
/// out.
fn starvation_checks(block: &str, table: &Series) -> Vec<Check> {
    let longest: Vec<f64> = table.column(1).collect();
    let queued = &longest[1..];
    let least = queued.iter().copied().fold(f64::INFINITY, f64::min);
    let most = queued.iter().copied().fold(0.0, f64::max);
    let in_order = table.column(6).fold(0.0, f64::max);
    let name = |what: &str| format!("{block} stream: {what}");
    vec![
        Check::at_most(name("longest wait of a random read at depth 1"), longest[0], 100.0, "ms"),
        Check::at_least(
            name("longest wait at depth 2 ÷ at depth 1"),
            longest[1] / longest[0],
            10.0,
            "ratio",
        ),
        Check::at_least(name("least of the longest waits from depth 2 on"), least, 1_000.0, "ms"),
        Check::at_most(name("longest wait at any depth"), most, 4_000.0, "ms"),
        Check::at_most(name("longest ÷ least of them from depth 2 on"), most / least, 1.1, "ratio"),
        Check::at_most(name("longest wait if the drive keeps the order"), in_order, 500.0, "ms"),
    ]
}

fn starvation_plot(series: &[Series]) -> Plot {
    let line = |table: &Series, what: &str, column: usize, dashed: bool| Line {
        name: format!("{what}, {} stream", table.name),
        points: table.points(0, column).into_iter().map(|(x, y)| (x, y / 1e3)).collect(),
        dashed,
    };
    let solid = series.iter().map(|table| line(table, "longest", 1, false));
    let control = series.iter().map(|table| line(table, "in order", 6, true));
    Plot {
        caption: "Longest wait of a random 4 KiB read beside a sequential stream (hgst-7k8, \
                  first come first served)"
            .into(),
        x: "commands inside the drive".into(),
        y: "longest wait, s".into(),
        lines: solid.chain(control).collect(),
        ..Plot::default()
    }
}
