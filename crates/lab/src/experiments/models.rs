//! "Virtualizing Disk Performance" (RTAS 2008), figure 2 and §4.3: the cost of reserving by the
//! worst case, and the effect of wrong estimates.

use core::num::NonZeroU64;

use config::{Access, Plan, Requests, VolumeIndex};
use plot::{Line, Plot};
use units::{Duration, Extent, Lba, Share};

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
/// The nominal, that is worst-case, rate of RTAS 2008's drive (§4.1), in requests per second.
const NOMINAL: f64 = 60.0;

fn fig2(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = with_workloads(&scenario("vdisk-pair.toml", PAIR), &[0]);
    let plan = on_the_whole_disk(&with_reserves(&plan, &[Share::NONE, Share::NONE]));
    let mut series = Series::new("runs", &["run", "reservable_iops", "maximum_iops"]);
    for (done, run_length) in (1_u32..).zip(RUNS) {
        let had = run(&with_run(&plan, run_length)).volumes[0].iops;
        #[expect(clippy::cast_precision_loss, reason = "a run is short")]
        series.rows.push(vec![run_length as f64, NOMINAL, had]);
        on_progress(f64::from(done) / 11.0);
    }
    let had: Vec<f64> = series.column(2).collect();
    let rise = had.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min);
    let long = had[RUNS.len() - 1] / NOMINAL;
    let checks = vec![
        Check::at_least("runs of 1024: maximum ÷ reservable", long, 100.0, "ratio").beside(100.0),
        Check::at_least(
            "maximum: least rise from a run to one of twice the length",
            rise,
            1.0,
            "ratio",
        ),
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

/// The plan with volumes that are aliases of the whole disk: RTAS 2008's virtual disks export the
/// device below them.
fn on_the_whole_disk(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let whole = Extent::new(Lba(0), mechanical(&plan.disks[0]).capacity());
    for (index, volume) in plan.volumes.iter_mut().enumerate() {
        (volume.extent, volume.size) = (whole, whole.len.bytes());
        volume.same_as = (index > 0).then_some(VolumeIndex(0));
    }
    plan
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

/// RTAS 2008's low-level driver holds up to twenty requests, where an estimate decides how many of
/// a stream are there; with one request inside, each charge is corrected before the next decision.
fn fig7(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = twenty_inside(&scenario("vdisk-pair.toml", PAIR));
    let estimated = RANDOM_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_random = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, on_progress);
    let error = |table: &Series| {
        let name = format!("random estimate {}: worst share error", table.name);
        Check::at_most(name, worst_error(table), SHARE_ERROR_MAX, "points")
    };
    let checks = series.iter().map(error).collect();
    let plots = vec![("", shares_plot(&series, "random"))];
    Findings { checks, series, plots }
}

const SEQUENTIAL_ESTIMATES: [(&str, Duration); 4] = [
    ("300us", Duration::from_micros(300)),
    ("1ms", Duration::from_millis(1)),
    ("5ms", Duration::from_millis(5)),
    ("20ms", Duration::from_millis(20)),
];

fn fig8(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = twenty_inside(&scenario("vdisk-pair.toml", PAIR));
    let estimated = SEQUENTIAL_ESTIMATES.map(|(name, estimate)| {
        let mut plan = plan.clone();
        plan.disks[0].estimate_sequential = estimate;
        (name, plan)
    });
    let series = all_splits(&estimated, on_progress);
    let error = |table: &Series| {
        let name = format!("sequential estimate {}: worst share error", table.name);
        Check::at_most(name, worst_error(table), SHARE_ERROR_MAX, "points")
    };
    let mut checks: Vec<Check> = series.iter().map(error).collect();
    // The splits at which both streams have a reserve.
    let sequential = |table: &Series| -> f64 {
        table.rows.iter().filter(|row| row[0] > 0.0 && row[0] < 1.0).map(|row| row[3]).sum()
    };
    let ratio = sequential(&series[series.len() - 1]) / sequential(&series[0]);
    let name = "sequential throughput over all splits, 20ms ÷ 300us";
    checks.push(Check::at_most(name, ratio, LOWER_RATIO, "ratio"));
    let plots =
        vec![("", shares_plot(&series, "sequential")), ("-throughput", throughput_plot(&series))];
    Findings { checks, series, plots }
}

/// The largest accepted deviation of a share from its reserve, in points.
const SHARE_ERROR_MAX: f64 = 2.0;
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
