//! "Virtualizing Disk Performance" (RTAS 2008), §4.2 to §4.4: the older driver, which reserves a
//! request rate by the worst case.
//!
//! Up to 20 requests are in the low-level driver, as in RTAS 2008. In RTAS 2008 Linux's elevator
//! ordered them. Here the drive's queue orders them by shortest seek, with Linux's age limit of
//! half a second, and does twice as many random requests a second as RTAS 2008's drive, whose 68
//! are about its rate with one request inside. A reservable rate of 68 would thus decide nothing
//! here. It is measured as in RTAS 2008 (§4.2), with a stream of random requests.

use std::sync::Arc;

use config::{Arrival, DepthSource, Plan, Requests};
use drive::{AnyModel, Choosing, Discipline};
use engine::PolicyName;
use plot::{Line, Plot};
use units::{Duration, Rate, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{progress, run, scenario, with_reserves, with_workloads};
use super::vdisk::{PAIR, SAMPLE, splits};

pub(super) const FIG5: Experiment = Experiment {
    id: "vdisk-fig5",
    title: "achieved against reserved rate under the throughput policy, at eleven splits",
    run: fig5,
};

pub(super) const FIG6: Experiment = Experiment {
    id: "vdisk-fig6",
    title: "throughput of both schedulers, at eleven splits",
    run: fig6,
};

pub(super) const FIG9: Experiment = Experiment {
    id: "vdisk-fig9",
    title: "the throughput policy with the reservable rate overestimated by 10 % and 50 %",
    run: fig9,
};

pub(super) const FIG10: Experiment = Experiment {
    id: "vdisk-fig10",
    title: "progress of a 70 % sequential and a 30 % random stream under the throughput policy",
    run: fig10,
};

/// The number of requests that RTAS 2008 keeps in the low-level driver.
const DEPTH: u32 = 20;
/// The age limit of reads in Linux's deadline elevator.
const AGE_LIMIT: Duration = Duration::from_millis(500);
/// Requests outstanding per stream ("as fast as possible" in §4.2): enough to fill the low-level
/// driver and to leave requests queued.
const OUTSTANDING: u32 = 64;
/// The overestimated reservable rates, in percent of the measured rate.
const OVERESTIMATES: [u32; 2] = [110, 150];

fn interval(per_second: u32) -> Duration {
    Duration::from_secs(1) / u64::from(per_second)
}

/// The plan with up to twenty requests in the drive, whose queue orders them.
pub(super) fn twenty_inside(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let disk = &mut plan.disks[0];
    let mut spec = super::sample::mechanical(disk).spec().clone();
    spec.queue_depth_max = DEPTH;
    spec.discipline = Discipline::ShortestSeek(Choosing {
        age_limit: AGE_LIMIT,
        stream_hold: Duration::ZERO,
        decision_latency: Duration::ZERO,
    });
    disk.drive.model =
        AnyModel::Mechanical(Arc::new(spec.check().expect("only the queue changed")));
    // The experiment says it: no policy chooses another.
    (disk.depth, disk.depth_source) = (DEPTH, DepthSource::Config);
    for workload in &mut plan.workloads {
        if let Requests::Synthetic(synthetic) = &mut workload.requests {
            synthetic.arrival = Arrival::closed(OUTSTANDING);
        }
    }
    plan
}

/// The plan under the throughput policy, with `per_second` requests per second to reserve.
fn by_rate(plan: &Plan, per_second: u32) -> Plan {
    let mut plan = twenty_inside(plan);
    let disk = &mut plan.disks[0];
    disk.set_policy(PolicyName::Throughput);
    disk.nominal = Rate { interval: interval(per_second) };
    plan
}

/// The largest shortfall of a stream against its reserved rate, in requests per second.
fn worst_shortfall(series: &Series, per_second: u32, column: usize) -> f64 {
    let rate = f64::from(per_second);
    let reserved = |row: &[f64]| if column == SEQUENTIAL { row[0] } else { 1.0 - row[0] };
    let missing = series.rows.iter().map(|row| reserved(row) * rate - row[column]);
    missing.fold(f64::NEG_INFINITY, f64::max)
}

/// Columns of [`SPLIT`].
const SEQUENTIAL: usize = 3;
const RANDOM: usize = 4;
const TOTAL: usize = 5;

fn fig5(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let pair = scenario("vdisk-pair.toml", PAIR);
    let reservable = measured_rate(&pair);
    let series = splits(&by_rate(&pair, reservable), "splits", on_progress);
    let rate = f64::from(reservable);
    let from = |reserve: f64| series.rows.iter().filter(move |row| row[0] > reserve - 1e-9);
    let least = from(0.1).map(|row| row[SEQUENTIAL]).fold(f64::INFINITY, f64::min);
    let at = |reserve: f64| from(reserve).next().expect("a split");
    // If the reserve alone decided, the rate would rise in proportion to the reserve.
    let [low, high] = [0.3, 1.0].map(|reserve| at(reserve)[SEQUENTIAL]);
    let (rises, reserved) = ((high - low) / low, (1.0 - 0.3) / 0.3);
    let decided = at(0.1)[RANDOM] / at(1.0)[RANDOM];
    let missing = |stream: &str, column| {
        let name = format!("{stream}: most missing from its reserve");
        let part = worst_shortfall(&series, reservable, column) / rate;
        Check::at_most(name, part * 100.0, 1.0, "% of the reservable rate")
    };
    let checks = vec![
        missing("sequential", SEQUENTIAL),
        missing("random", RANDOM),
        Check::at_least(
            "sequential: least rate from a reserve of 10 % on",
            least,
            rate,
            "I/Os per s",
        ),
        Check::at_most(
            "sequential: rise of its rate ÷ rise of its reserve, from 30 % to 100 %",
            rises / reserved,
            0.5,
            "ratio",
        ),
        Check::at_least(
            "random: its rate with a reserve of 90 % ÷ with none: the reserve decides",
            decided,
            1.05,
            "ratio",
        ),
    ];
    let plots = vec![("", rates_plot(&[&series], reservable, &reservable.to_string()))];
    Findings { checks, series: vec![series], plots }
}

/// The streams' rates against their reserved parts of `per_second` requests per second.
fn rates_plot(all: &[&Series], per_second: u32, which: &str) -> Plot {
    let mut lines = Vec::new();
    for series in all {
        for (name, column) in [("sequential", SEQUENTIAL), ("random", RANDOM)] {
            let name = if all.len() > 1 { format!("{name}, {}", series.name) } else { name.into() };
            lines.push(Line { name, points: percent(series, column), dashed: false });
        }
    }
    let rate = f64::from(per_second);
    for (name, from, to) in [("sequential, reserved", 0.0, rate), ("random, reserved", rate, 0.0)] {
        let points = vec![(0.0, from), (100.0, to)];
        lines.push(Line { name: name.into(), points, dashed: true });
    }
    Plot {
        caption: format!(
            "Throughput against the reserved part of {which} I/Os a second \
                          (deskstar-34gxp, 4 KiB reads)"
        ),
        x: "reserve of the sequential stream, % of the reservable rate (the random one has the \
            rest)"
            .into(),
        y: "throughput, I/Os per second".into(),
        lines,
        ..Plot::default()
    }
}

fn percent(series: &Series, column: usize) -> Vec<(f64, f64)> {
    series.points(0, column).into_iter().map(|(x, y)| (x * 100.0, y)).collect()
}

fn fig6(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let time = splits(&plan, "utilization", &mut |part| on_progress(part / 2.0));
    let rate = splits(&by_rate(&plan, measured_rate(&plan)), "throughput", &mut |part| {
        on_progress(0.5 + part / 2.0);
    });
    let pairs = || time.rows.iter().zip(&rate.rows).filter(|(row, _)| row[0] > 0.3 - 1e-9);
    let ahead = |column: usize| {
        pairs().map(|(time, rate)| time[column] / rate[column]).fold(f64::INFINITY, f64::min)
    };
    let checks = vec![
        Check::at_least(
            "both streams: least of utilization ÷ throughput from a sequential reserve of 30 % on",
            ahead(TOTAL),
            1.0,
            "ratio",
        ),
        Check::at_least("sequential stream: the same", ahead(SEQUENTIAL), 1.0, "ratio"),
    ];
    let line = |series: &Series, name: &str, column: usize, dashed: bool| Line {
        name: format!("{name}, {}", series.name),
        points: percent(series, column),
        dashed,
    };
    let names = [("sequential", SEQUENTIAL), ("random", RANDOM)];
    let solid = names.iter().map(|(name, column)| line(&time, name, *column, false));
    let dashed = names.iter().map(|(name, column)| line(&rate, name, *column, true));
    let plot = Plot {
        caption:
            "Throughput of the two streams under both schedulers (deskstar-34gxp, 4 KiB reads)"
                .into(),
        x: "reserve of the sequential stream, % (the random one has the rest)".into(),
        y: "throughput, I/Os per second".into(),
        lines: solid.chain(dashed).collect(),
        ..Plot::default()
    };
    Findings { checks, series: vec![time, rate], plots: vec![("", plot)] }
}

/// The rate of random requests alone on the disk, in requests per second: the measurement by which
/// RTAS 2008 finds its reservable rate.
fn measured_rate(plan: &Plan) -> u32 {
    let alone = with_workloads(&twenty_inside(plan), &[1]);
    let alone = with_reserves(&alone, &[Share::NONE, Share::NONE]);
    let volume = &run(&alone).volumes[1];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a disk")]
    let rate = volume.iops as u32;
    rate
}

fn fig9(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let measured = measured_rate(&plan);
    on_progress(1.0 / 23.0);
    // As in RTAS 2008, the overestimates are relative to the measured rate.
    let name = "random requests alone, twenty inside the drive";
    let remark = "RTAS 2008 measured 68, about what this drive does with one request inside \
                  (vdisk-fig2); its queue chooses among twenty here, and it is this rate that is \
                  overestimated";
    let alone = Check::unbounded(name, measured.into(), "I/Os per s", remark);
    let mut checks = vec![alone.beside(68.0)];
    let (mut series, mut plots) = (Vec::new(), Vec::new());
    for (place, (percent, plot)) in (0_u32..).zip(OVERESTIMATES.into_iter().zip(["-10", "-50"])) {
        let offset = 1.0 + f64::from(place) * 11.0;
        let (over, per_second) = (percent - 100, measured * percent / 100);
        let name = format!("{over}_percent_over");
        let table = splits(&by_rate(&plan, per_second), &name, &mut |part| {
            on_progress((offset + part * 11.0) / 23.0);
        });
        let missing = worst_shortfall(&table, per_second, RANDOM);
        let name = format!("{over} % over: most missing from the random stream's reserve");
        checks.push(Check::at_least(name, missing, 1.0, "I/Os per s"));
        let all = table.rows[0][RANDOM] / f64::from(per_second);
        let name = format!("{over} % over: what the random stream had of a reserve of 100 %");
        checks.push(Check::at_most(name, all * 100.0, 99.0, "%"));
        let which = format!("{per_second} (over by {over} %)");
        plots.push((plot, rates_plot(&[&table], per_second, &which)));
        series.push(table);
    }
    Findings { checks, series, plots }
}

fn fig10(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let pair = scenario("vdisk-pair.toml", PAIR);
    let reservable = measured_rate(&pair);
    let plan = by_rate(&pair, reservable);
    let plan = with_reserves(&plan, &[Share::from_percent(70), Share::from_percent(30)]);
    let series = progress(&plan, SAMPLE, on_progress);
    let behind = 1 + 2 * plan.volumes.len();
    let (mut checks, mut lines) = (Vec::new(), Vec::new());
    let rows = &series.rows;
    let end = &rows[rows.len() - 1];
    let after = rows.iter().find(|row| row[0] >= 1.0).expect("the run is longer than a second");
    let mut parts = Vec::new();
    for (place, volume) in plan.volumes.iter().enumerate() {
        let rate = volume.contract.reserve.as_f64() * f64::from(reservable);
        let had = (end[behind + place] - after[behind + place]) / (end[0] - after[0]);
        parts.push((had, rate));
        let name = format!("{}: its rate ÷ what it reserved", volume.name);
        checks.push(Check::at_least(name, had / rate, 1.0, "ratio"));
        let points = series.points(0, behind + place);
        lines.push(Line { name: format!("{}, had", volume.name), points, dashed: false });
        let promised = vec![(0.0, 0.0), (end[0], rate * end[0])];
        let name = format!("{}, reserved", volume.name);
        lines.push(Line { name, points: promised, dashed: true });
    }
    // If slack were divided in proportion to the reserves, both ratios would be equal.
    let [(first, first_rate), (second, second_rate)] = parts[..] else {
        unreachable!("two streams")
    };
    let difference = (first / first_rate - second / second_rate).abs();
    let name = "the two streams: what they had ÷ reserved, apart";
    checks.push(Check::at_least(name, difference, 0.1, "ratio"));
    let plot = Plot {
        caption: format!(
            "Requests done for two streams that reserved 70 % and 30 % of {reservable} I/Os a \
             second (deskstar-34gxp)"
        ),
        x: "time, s".into(),
        y: "requests done".into(),
        lines,
        ..Plot::default()
    };
    Findings { checks, series: vec![series], plots: vec![("", plot)] }
}
