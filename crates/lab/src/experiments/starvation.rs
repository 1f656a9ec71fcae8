//! Starvation of a random reader beside a sequential stream by a drive's command queue. Real drives
//! show it, so the model of a queue must show it too.
//!
//! The stream keeps as many requests outstanding as the drive's queue holds. The random reader has
//! one. At depth 1 the drive has no choice. From depth 2 on, the stream's next command is always
//! cheaper than a seek.

use std::sync::Arc;

use config::{Arrival, Plan, Requests};
use drive::{Discipline, Spec};
use plot::{Line, Plot};
use units::Bytes;

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
/// The stream's request sizes, and their names in file names.
const BLOCKS: [(Bytes, &str); 2] = [(Bytes(128 << 10), "128KiB"), (Bytes(1 << 20), "1MiB")];
/// The number of runs, for the progress report.
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

fn ncq_starvation(on_progress: &mut dyn FnMut(f64)) -> Findings {
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
            on_progress(f64::from(done) / POINTS);
        }
        checks.extend(starvation_checks(name, &table));
        series.push(table);
    }
    let plots = vec![("", starvation_plot(&series))];
    Findings { checks, series, plots }
}

/// The plan with `depth` commands in the drive, and as many requests of the stream outstanding.
fn with_stream(plan: &Plan, block: Bytes, depth: u32) -> Plan {
    let mut plan = plan.clone();
    plan.disks[0].depth = depth;
    if let Requests::Synthetic(stream) = &mut plan.workloads[0].requests {
        stream.block = block;
        stream.arrival = Arrival::closed(depth);
    }
    plan
}

/// The plan with a first-come-first-served queue in the drive: the control.
fn in_order(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let model = plan.disks[0].drive.model.mechanical().expect("a drive with an arm");
    let spec = Spec { discipline: Discipline::Fifo, ..model.spec().clone() };
    let model = Arc::new(spec.check().expect("only the discipline changed"));
    plan.disks[0].drive.model = model.into();
    plan
}

/// Compares with a measured drive, on which random reads beside a stream starved for 1 to 4 s from
/// depth 2 on.
///
/// The age limit ends the wait. It is an estimate in the drive's file, so the length of the wait is
/// an input of the model. That reads starve at every depth from 2 on, equally long, and not at
/// depth
/// 1, is a result.
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
