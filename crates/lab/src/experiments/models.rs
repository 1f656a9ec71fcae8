//! "Virtualizing Disk Performance" (RTAS 2008), figure 2 and §4.3: the cost of reserving by the
//! worst case, and the effect of wrong estimates.

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
/// The request size, 4 KiB.
const BLOCK: Sectors = Sectors(8);

fn fig2(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = with_workloads(&scenario("vdisk-pair.toml", PAIR), &[0]);
    let plan = with_reserves(&plan, &[Share::NONE, Share::NONE]);
    // The worst case from the drive's figures, as in RTAS 2008.
    let worst = mechanical(&plan.disks[0]).worst_case(BLOCK);
    let reservable = 1.0 / worst.as_secs_f64();
    let mut series = Series::new("runs", &["run", "reservable_iops", "maximum_iops"]);
    for (done, run_length) in (1_u32..).zip(RUNS) {
        let had = run(&with_run(&plan, run_length)).volumes[0].iops;
        #[expect(clippy::cast_precision_loss, reason = "a run is short")]
        series.rows.push(vec![run_length as f64, reservable, had]);
        on_progress(f64::from(done) / 11.0);
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

/// The plan with sequential runs of `run` requests in its first workload.
fn with_run(plan: &Plan, run: u64) -> Plan {
    let mut plan = plan.clone();
    if let Requests::Synthetic(synthetic) = &mut plan.workloads[0].requests {
        synthetic.access = Access::Sequential { run: NonZeroU64::new(run) };
    }
    plan
}

/// The largest deviation of either stream's share from its reserve, in points.
fn worst_error(series: &Series) -> f64 {
    let off = |row: &Vec<f64>| (row[1] - row[0]).abs().max((row[2] - (1.0 - row[0])).abs());
    series.rows.iter().map(off).fold(0.0, f64::max) * 100.0
}

const RANDOM_ESTIMATES: [(&str, Duration); 3] = [
    ("20ms", Duration::from_millis(20)),
    ("5ms", Duration::from_millis(5)),
    ("300us", Duration::from_micros(300)),
];

fn fig7(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let estimated = RANDOM_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_random = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, on_progress);
    let mut checks: Vec<Check> = series
        .iter()
        .map(|table| {
            let name = format!("random estimate {}: worst share error", table.name);
            let error = worst_error(table);
            if table.name == "300us" {
                Check::unbounded(name, error, "points", one_estimate_remark(error))
            } else {
                Check::at_most(name, error, 2.0, "points")
            }
        })
        .collect();
    let [first, .., last] = &series[..] else { unreachable!("three estimates") };
    let totals = |table: &Series| table.column(5).sum::<f64>();
    let name = "throughput of both streams over all splits, 300 µs ÷ 20 ms";
    let remark = "the effect of one estimate for both kinds of requests on throughput";
    checks.push(Check::unbounded(name, totals(last) / totals(first), "ratio", remark));
    let plots = vec![("", shares_plot(&series, "random"))];
    Findings { checks, series, plots }
}

/// The remark on this share error with one estimate for both kinds of requests.
fn one_estimate_remark(error: f64) -> &'static str {
    if error > 2.0 {
        "as in RTAS 2008: with one estimate for both kinds of requests, shares differ from reserves"
    } else {
        "unlike in RTAS 2008, shares hold with one estimate for both kinds of requests: the charge \
         of each command is corrected at completion, before the next command is dispatched"
    }
}

const SEQUENTIAL_ESTIMATES: [(&str, Duration); 4] = [
    ("300us", Duration::from_micros(300)),
    ("1ms", Duration::from_millis(1)),
    ("5ms", Duration::from_millis(5)),
    ("20ms", Duration::from_millis(20)),
];

fn fig8(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let estimated = SEQUENTIAL_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_sequential = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, on_progress);
    let mut checks: Vec<Check> = series
        .iter()
        .map(|table| {
            let name = format!("sequential estimate {}: worst share error", table.name);
            Check::at_most(name, worst_error(table), 2.0, "points")
        })
        .collect();
    // The splits at which both streams have a reserve.
    let sequential = |table: &Series| -> f64 {
        table.rows.iter().filter(|row| row[0] > 0.0 && row[0] < 1.0).map(|row| row[3]).sum()
    };
    let inside = [0, SEQUENTIAL_ESTIMATES.len() - 1].map(|index| {
        let (name, plan) = &estimated[index];
        splits(&twenty_inside(plan), &format!("{name}_twenty_inside"), &mut |_| {})
    });
    let ratio = |table: &Series, first: &Series| sequential(table) / sequential(first);
    let name = "sequential throughput over all splits, 20ms ÷ 300us, twenty inside the drive";
    checks.push(Check::at_most(name, ratio(&inside[1], &inside[0]), LOWER_RATIO, "ratio"));
    let one = ratio(&series[series.len() - 1], &series[0]);
    let name = "sequential throughput over all splits, 20ms ÷ 300us, one inside the drive";
    checks.push(Check::unbounded(name, one, "ratio", overestimate_remark(one)));
    let plots =
        vec![("", shares_plot(&series, "sequential")), ("-throughput", throughput_plot(&series))];
    Findings { checks, series, plots }
}

/// The remark on the ratio of a throughput with an overestimate to that without.
fn overestimate_remark(ratio: f64) -> &'static str {
    if ratio < LOWER_RATIO {
        "throughput falls, as in RTAS 2008"
    } else {
        "throughput does not fall as in RTAS 2008, which has many requests in the drive: a quantum \
         ends by the measured cost of its commands, and only the command in flight counts with its \
         overestimate"
    }
}

/// A throughput below this fraction of another counts as lower.
const LOWER_RATIO: f64 = 0.98;

fn all_splits<const N: usize>(
    plans: &[(&str, Plan); N],
    on_progress: &mut dyn FnMut(f64),
) -> Vec<Series> {
    let mut series = Vec::new();
    for (index, (name, plan)) in (0_u32..).zip(plans) {
        let count = f64::from(u32::try_from(N).expect("a few"));
        series.push(splits(plan, name, &mut |part| on_progress((f64::from(index) + part) / count)));
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
