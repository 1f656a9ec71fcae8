//! "Virtualizing Disk Performance" (RTAS 2008), §4: the utilization scheduler.

use config::Plan;
use plot::{Line, Plot};
use units::{Duration, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{length, progress, run, scenario, with_reserves, with_workloads};

pub(super) const FIG1: Experiment = Experiment {
    id: "vdisk-fig1",
    title: "progress of a 70 % sequential and a 30 % random stream",
    run: fig1,
};

pub(super) const FIG4: Experiment = Experiment {
    id: "vdisk-fig4",
    title: "achieved against reserved share, at eleven splits",
    run: fig4,
};

pub(super) const FIG11: Experiment =
    Experiment { id: "vdisk-fig11", title: "three streams that come and go", run: fig11 };

pub(super) const PAIR: &str = include_str!("../../experiments/vdisk-pair.toml");
const FIG11_SCENARIO: &str = include_str!("../../experiments/vdisk-fig11.toml");
/// The sampling interval of RTAS 2008.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);

fn fig1(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let series = progress(&plan, SAMPLE, on_progress);
    let mut checks = Vec::new();
    let mut lines = Vec::new();
    for (column, volume) in (1..).zip(&plan.volumes) {
        let reserve = volume.contract.reserve.as_f64();
        // The reference line starts at the stream's position after the first second and has the
        // slope of its reserve.
        let settled: Vec<_> =
            series.points(0, column).into_iter().filter(|(time, _)| *time >= 1.0).collect();
        let (first, last) = (settled[0], settled[settled.len() - 1]);
        let slope = (last.1 - first.1) / (last.0 - first.0);
        let distance =
            |(time, had): &(f64, f64)| (had - first.1 - reserve * (time - first.0)).abs();
        let worst = settled.iter().map(distance).fold(0.0, f64::max);
        let name = &volume.name;
        let error = (slope - reserve).abs() * 100.0;
        checks.push(Check::at_most(format!("{name}: slope off its reserve"), error, 0.5, "points"));
        let straight = format!("{name}: furthest from the straight line");
        checks.push(Check::at_most(straight, worst * 1e3, 250.0, "ms"));
        lines.push(Line {
            name: format!("{name}, had"),
            points: series.points(0, column),
            dashed: false,
        });
        let end = length(&plan).as_secs_f64();
        let promised = vec![(0.0, 0.0), (end, reserve * end)];
        lines.push(Line { name: format!("{name}, reserved"), points: promised, dashed: true });
    }
    let plot = Plot {
        caption: "Progress of two streams that reserved 70 % and 30 % of a deskstar-34gxp".into(),
        x: "time, s".into(),
        y: "disk time had, s".into(),
        lines,
        ..Plot::default()
    };
    Findings { checks, series: vec![series], plots: vec![("", plot)] }
}

pub(super) const SPLIT: [&str; 6] = [
    "sequential_reserve",
    "sequential_share",
    "random_share",
    "sequential_iops",
    "random_iops",
    "total_iops",
];

/// The two streams at eleven splits of what the disk's policy reserves: disk time or a rate.
pub(super) fn splits(plan: &Plan, name: &str, on_progress: &mut dyn FnMut(f64)) -> Series {
    let mut series = Series::new(name, &SPLIT);
    for step in 0..=10_u32 {
        let sequential = Share::from_percent(step * 10);
        let random = Share::from_percent(100 - step * 10);
        let report = run(&with_reserves(plan, &[sequential, random]));
        let (s, r) = (&report.volumes[0], &report.volumes[1]);
        series.rows.push(vec![
            sequential.as_f64(),
            s.disk_time_share,
            r.disk_time_share,
            s.iops,
            r.iops,
            s.iops + r.iops,
        ]);
        on_progress(f64::from(step + 1) / 11.0);
    }
    series
}

fn fig4(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-pair.toml", PAIR);
    let series = splits(&plan, "splits", &mut |part| on_progress(part * 11.0 / 13.0));
    let alone = |which: usize| {
        let plan = with_reserves(&with_workloads(&plan, &[which]), &[Share::NONE, Share::NONE]);
        run(&plan).volumes[which].iops
    };
    let alone = (alone(0), alone(1));
    on_progress(1.0);
    let checks = fig4_checks(&series, alone);
    let plots = fig4_plots(&series);
    Findings { checks, series: vec![series], plots }
}

fn fig4_checks(series: &Series, (sequential_alone, random_alone): (f64, f64)) -> Vec<Check> {
    let worst = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let error = |row: &Vec<f64>, had: usize, reserve: f64| (row[had] - reserve).abs() * 100.0;
    let sequential = worst(&mut series.rows.iter().map(|row| error(row, 1, row[0])));
    let random = worst(&mut series.rows.iter().map(|row| error(row, 2, 1.0 - row[0])));
    let totals: Vec<f64> = series.column(5).collect();
    let rise = least(&mut totals.windows(2).map(|pair| pair[1] - pair[0]));
    let part = |row: &Vec<f64>, iops: usize, share: f64, alone: f64| row[iops] / (share * alone);
    let between = || series.rows.iter().filter(|row| row[0] > 0.0 && row[0] < 1.0);
    let kept = least(&mut between().map(|row| part(row, 3, row[0], sequential_alone)));
    let kept_random = least(&mut between().map(|row| part(row, 4, 1.0 - row[0], random_alone)));
    vec![
        Check::at_most("sequential: worst share error of eleven splits", sequential, 0.5, "points"),
        Check::at_most("random: worst share error of eleven splits", random, 0.5, "points"),
        Check::at_least(
            "least rise of total throughput from split to split",
            rise,
            0.0,
            "I/Os per s",
        ),
        Check::at_least("sequential: least of throughput ÷ (reserve × alone)", kept, 0.9, "ratio"),
        Check::at_least(
            "random: least of throughput ÷ (reserve × alone)",
            kept_random,
            0.9,
            "ratio",
        ),
    ]
}

fn fig4_plots(series: &Series) -> Vec<(&'static str, Plot)> {
    let line = |name: &str, column: usize, scale: f64| Line {
        name: name.into(),
        points: series.points(0, column).into_iter().map(|(x, y)| (x * 100.0, y * scale)).collect(),
        dashed: false,
    };
    let ideal = |name: &str, from: f64, to: f64| Line {
        name: name.into(),
        points: vec![(0.0, from), (100.0, to)],
        dashed: true,
    };
    let shares = Plot {
        caption: "Achieved share of disk time against the reserve (deskstar-34gxp, 4 KiB reads)"
            .into(),
        x: "reserve of the sequential stream, % (the random one has the rest)".into(),
        y: "achieved share of the disk's time, %".into(),
        lines: vec![
            line("sequential, had", 1, 100.0),
            line("random, had", 2, 100.0),
            ideal("sequential, reserved", 0.0, 100.0),
            ideal("random, reserved", 100.0, 0.0),
        ],
        ..Plot::default()
    };
    let throughput = Plot {
        caption: "Throughput of the two streams against the reserve (deskstar-34gxp, 4 KiB reads)"
            .into(),
        x: "reserve of the sequential stream, % (the random one has the rest)".into(),
        y: "throughput, I/Os per second".into(),
        lines: vec![line("sequential", 3, 1.0), line("random", 4, 1.0), line("both", 5, 1.0)],
        ..Plot::default()
    };
    vec![("-shares", shares), ("-throughput", throughput)]
}

/// The interval in which each stream of figure 11 is active, in the scenario's order, in seconds.
const ACTIVE: [(f64, f64); 3] = [(0.0, 60.0), (10.0, 30.0), (20.0, 50.0)];
/// The time excluded after a change: two periods (RTAS 2008 §2.1), in seconds.
const SETTLED: f64 = 2.0;

fn fig11(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let plan = scenario("vdisk-fig11.toml", FIG11_SCENARIO);
    let series = progress(&plan, SAMPLE, on_progress);
    let had = |stream: usize, time: f64| {
        let row = series.rows.iter().find(|row| row[0] >= time).expect("the run covers this time");
        row[stream + 1]
    };
    let rate =
        |stream: usize, from: f64, to: f64| (had(stream, to) - had(stream, from)) / (to - from);
    let mut changes: Vec<f64> = ACTIVE.iter().flat_map(|(from, to)| [*from, *to]).collect();
    changes.sort_by(f64::total_cmp);
    changes.dedup();
    let (mut checks, mut most_above) = (Vec::new(), 0.0_f64);
    for (stream, (volume, (from, to))) in plan.volumes.iter().zip(ACTIVE).enumerate() {
        let reserve = volume.contract.reserve.as_f64();
        let phases = changes.windows(2).filter(|phase| phase[0] >= from && phase[1] <= to);
        // A bucket's level stays within one period's disk time (§2.1), so that up to that much may
        // be missing at any instant.
        let short = |phase: &[f64]| {
            let from = phase[0] + SETTLED;
            reserve * (phase[1] - from) - (had(stream, phase[1]) - had(stream, from))
        };
        let worst = phases.map(short).fold(f64::NEG_INFINITY, f64::max);
        let name = &volume.name;
        let missing =
            format!("{name}: most missing from its reserve, from 2 s after any change on");
        checks.push(Check::at_most(missing, worst * 1e3, reserve * 1e3, "ms"));
        // Disk time in the first seconds above the later rate. A bucket holds at most a second's
        // worth of the reserve (§4.4).
        let next = changes.iter().copied().find(|change| *change > from).expect("it ends");
        let steady = rate(stream, from + SETTLED, next);
        let burst = had(stream, from + SETTLED) - had(stream, from) - steady * SETTLED;
        most_above = most_above.max(burst / reserve);
    }
    let name = "most that a stream had above its later rate in its first 2 s, ÷ a second's reserve";
    checks.push(Check::at_most(name, most_above, 1.0, "ratio").beside(1.0));
    let lines = (0..3).zip(&plan.volumes).map(|(stream, volume)| Line {
        name: format!("{}, reserve {}", volume.name, volume.contract.reserve),
        points: rates(&series, stream + 1),
        dashed: false,
    });
    let plot = Plot {
        caption: "Three streams that come and go (deskstar-34gxp, 4 KiB reads, share over 1 s)"
            .into(),
        x: "time, s".into(),
        y: "share of the disk's time, %".into(),
        lines: lines.collect(),
        ..Plot::default()
    };
    Findings { checks, series: vec![series], plots: vec![("", plot)] }
}

/// A stream's share in the second before each sample, in percent.
fn rates(series: &Series, column: usize) -> Vec<(f64, f64)> {
    let points = series.points(0, column);
    let second = |pair: &[(f64, f64)]| {
        let (from, to) = (pair[0], pair[2]);
        (to.0, (to.1 - from.1) / (to.0 - from.0) * 100.0)
    };
    points.windows(3).map(second).collect()
}
