//! "Virtualizing Disk Performance" (RTAS 2008), figure 2 and §4.3: what a worst case costs, and
//! wrong estimates.

use core::num::NonZeroU64;

use config::{Access, Plan, Requests};
use plot::{Line, Plot};
use units::{Duration, Sectors, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{mechanical, run, scenario, with_reserves, with_workloads};
use super::throughput::twenty_inside;
use super::vdisk::{PAIR, splits};

pub(super) const FIG2: Experiment = Experiment {
    id: "vdisk-fig2",
    title: "reservable against maximum rate, by the length of sequential runs",
    run: fig2,
};

pub(super) const FIG7: Experiment = Experiment {
    id: "vdisk-fig7",
    title: "shares with the random estimate at 20 ms, 5 ms and 300 µs",
    run: fig7,
};

pub(super) const FIG8: Experiment = Experiment {
    id: "vdisk-fig8",
    title: "shares and throughput with the sequential estimate at 300 µs and more",
    run: fig8,
};

const RUNS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// Requests of 4 KiB.
const BLOCK: Sectors = Sectors(8);

fn fig2(told: &mut dyn FnMut(f64)) -> Findings {
    let plan = with_workloads(&scenario("vdisk-pair.toml", PAIR), &[0]);
    let plan = with_reserves(&plan, &[Share::NONE, Share::NONE]);
    // What the drive's own figures bound, and what RTAS 2008 took for its worst case.
    let worst = mechanical(&plan.disks[0]).worst_case(BLOCK);
    let reservable = 1.0 / worst.as_secs_f64();
    let mut series = Series::new("runs", &["run", "reservable_iops", "maximum_iops"]);
    for (done, run_length) in (1_u32..).zip(RUNS) {
        let had = run(&with_run(&plan, run_length)).volumes[0].iops;
        #[expect(clippy::cast_precision_loss, reason = "a run is short")]
        series.rows.push(vec![run_length as f64, reservable, had]);
        told(f64::from(done) / 11.0);
    }
    let ends = [&series.rows[0], &series.rows[RUNS.len() - 1]];
    let [short, long] = ends.map(|row| row[2] / row[1]);
    let checks = vec![
        Check::at_least("runs of 1024: maximum ÷ reservable", long, 100.0, "ratio").beside(100.0),
        Check::at_least("runs of one: maximum ÷ reservable", short, 1.0, "ratio"),
    ];
    let log = |column: usize| {
        let points = series.points(0, column).into_iter();
        points.map(|(x, y)| (x.log2(), y.log10())).collect()
    };
    let line = |name: &str, column: usize, dashed: bool| Line {
        name: name.into(),
        points: log(column),
        dashed,
    };
    let plot = Plot {
        caption:
            "Maximum and reservable rate of 4 KiB reads, by the length of runs (deskstar-34gxp)"
                .into(),
        x: "length of runs, log₂ of 4 KiB blocks".into(),
        y: "rate, log₁₀ of I/Os per second".into(),
        lines: vec![line("maximum", 2, false), line("reservable", 1, true)],
        ..Plot::default()
    };
    Findings { checks, series: vec![series], plots: vec![("", plot)] }
}

/// The plan with runs of `requests` requests in its first workload.
fn with_run(plan: &Plan, run: u64) -> Plan {
    let mut plan = plan.clone();
    if let Requests::Synthetic(drawn) = &mut plan.workloads[0].requests {
        drawn.access = Access::Sequential { run: NonZeroU64::new(run) };
    }
    plan
}

/// The worst that either stream's share is off its reserve, in points.
fn worst_error(series: &Series) -> f64 {
    let off = |row: &Vec<f64>| (row[1] - row[0]).abs().max((row[2] - (1.0 - row[0])).abs());
    series.rows.iter().map(off).fold(0.0, f64::max) * 100.0
}

const RANDOM_ESTIMATES: [(&str, Duration); 3] = [
    ("20ms", Duration::from_millis(20)),
    ("5ms", Duration::from_millis(5)),
    ("300us", Duration::from_micros(300)),
];

fn fig7(told: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let estimated = RANDOM_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_random = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, told);
    let mut checks: Vec<Check> = series
        .iter()
        .map(|table| {
            let name = format!("random estimate {}: worst share error", table.name);
            let error = worst_error(table);
            if table.name == "300us" {
                Check::told(name, error, "points", as_one_estimate(error))
            } else {
                Check::at_most(name, error, 2.0, "points")
            }
        })
        .collect();
    let [first, .., last] = &series[..] else { unreachable!("three estimates") };
    let totals = |table: &Series| table.column(5).sum::<f64>();
    let name = "throughput of both streams over all splits, 300 µs ÷ 20 ms";
    let remark = "what the shares are worth when nothing tells the two kinds of requests apart";
    checks.push(Check::told(name, totals(last) / totals(first), "ratio", remark));
    let plots = vec![("", shares_plot(&series, "random"))];
    Findings { checks, series, plots }
}

/// What to say of shares that were this far off with one estimate for both kinds of requests.
fn as_one_estimate(error: f64) -> &'static str {
    if error > 2.0 {
        "as in RTAS 2008: where one estimate stands for both kinds of requests, the shares go \
         astray"
    } else {
        "otherwise than in RTAS 2008 the shares hold though one estimate stands for both kinds \
         of requests: each command \
         is put right when it completes, before the next one is sent"
    }
}

const SEQUENTIAL_ESTIMATES: [(&str, Duration); 4] = [
    ("300us", Duration::from_micros(300)),
    ("1ms", Duration::from_millis(1)),
    ("5ms", Duration::from_millis(5)),
    ("20ms", Duration::from_millis(20)),
];

fn fig8(told: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let estimated = SEQUENTIAL_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_sequential = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, told);
    let mut checks: Vec<Check> = series
        .iter()
        .map(|table| {
            let name = format!("sequential estimate {}: worst share error", table.name);
            Check::at_most(name, worst_error(table), 2.0, "points")
        })
        .collect();
    // The splits at which both streams have work of their own.
    let sequential = |table: &Series| -> f64 {
        table.rows.iter().filter(|row| row[0] > 0.0 && row[0] < 1.0).map(|row| row[3]).sum()
    };
    let inside = [0, SEQUENTIAL_ESTIMATES.len() - 1].map(|place| {
        let (name, plan) = &estimated[place];
        splits(&twenty_inside(plan), &format!("{name}_twenty_inside"), &mut |_| {})
    });
    let ratio = |table: &Series, first: &Series| sequential(table) / sequential(first);
    let name = "sequential throughput over all splits, 20ms ÷ 300us, twenty inside the drive";
    checks.push(Check::at_most(name, ratio(&inside[1], &inside[0]), FALLS, "ratio"));
    let one = ratio(&series[series.len() - 1], &series[0]);
    let name = "sequential throughput over all splits, 20ms ÷ 300us, one inside the drive";
    checks.push(Check::told(name, one, "ratio", as_overestimated(one)));
    let plots =
        vec![("", shares_plot(&series, "sequential")), ("-throughput", throughput_plot(&series))];
    Findings { checks, series, plots }
}

/// The remark on a throughput, by its ratio to that without an overestimate.
fn as_overestimated(ratio: f64) -> &'static str {
    if ratio < FALLS {
        "it falls, as in RTAS 2008"
    } else {
        "it does not fall as in RTAS 2008, which has many requests inside: a turn ends by what \
         its commands took, and only \
         one that is under way is still taken to cost more than it will"
    }
}

/// A throughput below this part of another has fallen.
const FALLS: f64 = 0.98;

fn all_splits<const N: usize>(plans: &[(&str, Plan); N], told: &mut dyn FnMut(f64)) -> Vec<Series> {
    let mut series = Vec::new();
    for (place, (name, plan)) in (0_u32..).zip(plans) {
        let count = f64::from(u32::try_from(N).expect("a few"));
        series.push(splits(plan, name, &mut |part| told((f64::from(place) + part) / count)));
    }
    series
}

fn shares_plot(series: &[Series], which: &str) -> Plot {
    let line = |table: &Series, name: &str, column: usize| Line {
        name: format!("{name}, {}", table.name),
        points: table.points(0, column).into_iter().map(|(x, y)| (x * 100.0, y * 100.0)).collect(),
        dashed: false,
    };
    let had =
        series.iter().flat_map(|table| [line(table, "sequential", 1), line(table, "random", 2)]);
    Plot {
        caption: format!(
            "Achieved against reserved share, by the {which} estimate (deskstar-34gxp, 4 KiB reads)"
        ),
        x: "reserve of the sequential stream, % (the random one has the rest)".into(),
        y: "achieved share of the disk's time, %".into(),
        lines: had.collect(),
        ..Plot::default()
    }
}

fn throughput_plot(series: &[Series]) -> Plot {
    let line = |table: &Series| Line {
        name: format!("sequential, {}", table.name),
        points: table.points(0, 3).into_iter().map(|(x, y)| (x * 100.0, y)).collect(),
        dashed: false,
    };
    Plot {
        caption: "Throughput of the sequential stream, by the sequential estimate \
                  (deskstar-34gxp, 4 KiB reads)"
            .into(),
        x: "reserve of the sequential stream, % (the random one has the rest)".into(),
        y: "throughput, I/Os per second".into(),
        lines: series.iter().map(line).collect(),
        ..Plot::default()
    }
}
