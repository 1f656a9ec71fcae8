//! The worth of a reserve to a client that pauses: a grid of reserves and think times.
//!
//! Volume A has one random 4 KiB read outstanding and exponential think times, volume B has the
//! rest of the disk and 16 random reads outstanding. The worth W of each is its rate divided by the
//! measured rate of the same client alone on the drive slowed to its reserve.

use config::{Arrival, ConfigError, Plan, Requests, ThinkTime, VolumeIndex};
use engine::PolicyName;
use plot::{Line, Plot};
use sim::worth::{Measured, alone_in_order, measure, worth};
use units::{Duration, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Options, Series};
use super::worth_targets::{Figure, is_held, targets};

pub(super) const WORTH_GRID: Experiment = Experiment {
    id: "worth-grid",
    title: "the worth of a reserve to a client that pauses, by reserve and think time, on two \
            drives",
    run: |told| grid(Options::default(), told),
};

/// The scenario's own policy.
const POLICY: PolicyName = PolicyName::Spindle;
const SCENARIO: &str = include_str!("../../experiments/worth-grid.toml");
/// A drive of the library.
#[derive(Clone, Copy)]
struct Drive {
    name: &'static str,
    /// The size of each of the two volumes.
    half: &'static str,
    /// The reserves of A, with the end of the name of the figure of each.
    figures: [(u32, &'static str); 4],
}

const DRIVES: [Drive; 2] = [
    Drive {
        name: "hgst-7k8",
        half: "3700GiB",
        figures: [
            (10, "-hgst-7k8-10"),
            (20, "-hgst-7k8-20"),
            (50, "-hgst-7k8-50"),
            (70, "-hgst-7k8-70"),
        ],
    },
    Drive {
        name: "nearline-20t",
        half: "9300GiB",
        figures: [
            (10, "-nearline-20t-10"),
            (20, "-nearline-20t-20"),
            (50, "-nearline-20t-50"),
            (70, "-nearline-20t-70"),
        ],
    },
];
const A: VolumeIndex = VolumeIndex(0);
const B: VolumeIndex = VolumeIndex(1);
const COLUMNS: [&str; 10] = [
    "reserve_percent",
    "think_ms",
    "seed",
    "worth_a",
    "worth_b",
    "p99_a_ms",
    "reference_p99_a_ms",
    "efficiency",
    "iops_a",
    "iops_b",
];
const RESERVE: usize = 0;
const THINK: usize = 1;
const WORTH_A: usize = 3;
const WORTH_B: usize = 4;
const P99_A: usize = 5;
const EFFICIENCY: usize = 7;
/// Where figures have the think time of zero, which a logarithmic axis has not.
const ZERO_SHOWN_MS: f64 = 0.05;

/// The settings that are run.
struct Grid {
    reserves: &'static [u32],
    /// Mean think times of A, in microseconds.
    thinks: &'static [u64],
    seeds: core::ops::RangeInclusive<u32>,
    duration: Duration,
}

const WARM_UP: Duration = Duration::from_secs(5);
const FULL: Grid = Grid {
    reserves: &[10, 20, 50, 70],
    thinks: &[0, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000],
    seeds: 1..=5,
    duration: Duration::from_secs(60),
};
/// The part of the grid for tests of every change.
const SAMPLE: Grid = Grid {
    reserves: &[50],
    thinks: &[0, 1_000, 5_000, 20_000],
    seeds: 1..=1,
    duration: Duration::from_secs(20),
};

/// The grid under the policy of the options, or under the scenario's.
pub(super) fn grid(options: Options, told: &mut dyn FnMut(f64)) -> Findings {
    let grid = if options.sample { SAMPLE } else { FULL };
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    let points = DRIVES.len() * grid.reserves.len() * grid.seeds.clone().count();
    let mut done = 0_u32;
    for drive in DRIVES {
        let mut series = Series::new(drive.name, &COLUMNS);
        let policy = options.policy.unwrap_or(POLICY);
        for reserve in grid.reserves {
            let mut plan = on(drive, *reserve, policy).expect("the policy was checked");
            plan.duration = Some(grid.duration);
            for seed in grid.seeds.clone() {
                plan.seed = seed.into();
                series.rows.extend(points_of(&plan, *reserve, grid.thinks));
                done += 1;
                #[expect(clippy::cast_precision_loss, reason = "some tens")]
                told(f64::from(done) / points as f64);
            }
        }
        findings.checks.extend(checks(&series, policy));
        let shown =
            drive.figures.into_iter().filter(|(reserve, _)| grid.reserves.contains(reserve));
        findings.plots.extend(shown.map(|(reserve, name)| (name, plot(&series, reserve, policy))));
        findings.series.push(series);
    }
    findings
}

/// Whether the scenario can be run under a policy.
///
/// # Errors
/// What the policy refuses.
pub(crate) fn check_policy(policy: PolicyName) -> Result<(), ConfigError> {
    DRIVES.into_iter().try_for_each(|drive| {
        FULL.reserves.iter().try_for_each(|reserve| on(drive, *reserve, policy).map(drop))
    })
}

/// The scenario on a drive, with the reserve of A in per cent and the rest for B.
fn on(drive: Drive, reserve: u32, policy: PolicyName) -> Result<Plan, ConfigError> {
    let mut parts = SCENARIO.split("50%");
    let mut part = || parts.next().expect("the scenario has two reserves");
    let text = format!("{}{reserve}%{}{}%{}", part(), part(), 100 - reserve, part())
        .replace("hgst-7k8", drive.name)
        .replace("3700GiB", drive.half)
        .replace(POLICY.as_str(), policy.as_str());
    Plan::parse(&text, "worth-grid.toml", std::path::Path::new("."))
}

/// A row for each think time.
fn points_of(plan: &Plan, reserve: u32, thinks: &[u64]) -> Vec<Vec<f64>> {
    let shares = [reserve, 100 - reserve].map(Share::from_percent);
    let of = |plan: &Plan, volume: VolumeIndex, share| {
        measure(&alone_in_order(plan, volume, share), WARM_UP)[volume.0]
    };
    let whole = [A, B].map(|volume| of(plan, volume, Share::ALL));
    let reference_b = of(plan, B, shares[B.0]);
    #[expect(clippy::cast_precision_loss, reason = "one of five")]
    let seed = plan.seed as f64;
    let row = |micros: &u64| {
        let plan = with_think(plan, Duration::from_micros(*micros));
        let shared = measure(&plan, WARM_UP);
        let reference_a = of(&plan, A, shares[A.0]);
        let value = |shared: &Measured, reference| {
            worth(shared, reference).expect("a drive serves a client alone").value
        };
        let [a, b] = [shared[A.0], shared[B.0]];
        #[expect(clippy::cast_precision_loss, reason = "at most 50 ms")]
        let think_ms = *micros as f64 / 1e3;
        vec![
            reserve.into(),
            think_ms,
            seed,
            value(&a, &reference_a),
            value(&b, &reference_b),
            a.latency_ms.p99,
            reference_a.latency_ms.p99,
            a.rate / whole[A.0].rate + b.rate / whole[B.0].rate,
            a.rate,
            b.rate,
        ]
    };
    thinks.iter().map(row).collect()
}

/// The plan with this mean think time of A.
fn with_think(plan: &Plan, mean: Duration) -> Plan {
    let mut plan = plan.clone();
    let Requests::Synthetic(drawn) = &mut plan.workloads[A.0].requests else {
        unreachable!("the scenario's workloads are generated")
    };
    let think = match mean {
        Duration::ZERO => ThinkTime::NONE,
        mean => ThinkTime::Exponential { mean },
    };
    drawn.arrival = Arrival::Closed { outstanding: 1, think };
    plan
}

/// The worst of each figure over the seeds, beside what is wanted of it: a bound where the policy
/// holds to it.
fn checks(series: &Series, policy: PolicyName) -> Vec<Check> {
    let mut checks = Vec::new();
    for target in targets() {
        let rows = series.rows.iter().filter(|row| target.concerns(row[RESERVE], row[THINK]));
        let found = rows.map(|row| match target.figure {
            Figure::WorthA => row[WORTH_A],
            Figure::WorthB => row[WORTH_B],
            Figure::P99A => row[P99_A],
            Figure::Efficiency => row[EFFICIENCY],
        });
        let worst = if target.is_least() { found.reduce(f64::min) } else { found.reduce(f64::max) };
        let Some(worst) = worst else { continue };
        let name = format!("{}: {target}", series.name);
        let unit = target.unit();
        let check = match (is_held(policy), target.is_least()) {
            (true, true) => Check::at_least(name, worst, target.bound, unit),
            (true, false) => Check::at_most(name, worst, target.bound, unit),
            (false, true) => Check::wanted(name, worst, ("wanted at least", target.bound), unit),
            (false, false) => Check::wanted(name, worst, ("wanted at most", target.bound), unit),
        };
        checks.push(check);
    }
    checks
}

/// W of both volumes against A's think time, at one reserve, with what is wanted of A.
fn plot(series: &Series, reserve: u32, policy: PolicyName) -> Plot {
    let rows = || series.rows.iter().filter(|row| same(row[RESERVE], reserve.into()));
    let mut thinks: Vec<f64> = rows().map(|row| row[THINK]).collect();
    thinks.sort_by(f64::total_cmp);
    thinks.dedup();
    let shown = |think: f64| if same(think, 0.0) { ZERO_SHOWN_MS } else { think };
    let mean = |column: usize, think: f64| {
        let (sum, count) = rows()
            .filter(|row| same(row[THINK], think))
            .fold((0.0, 0.0), |(sum, count), row| (sum + row[column], count + 1.0));
        sum / count
    };
    let line = |name: &str, column: usize| Line {
        name: name.to_owned(),
        points: thinks.iter().map(|think| (shown(*think), mean(column, *think))).collect(),
        dashed: false,
    };
    let wanted = |name: &str, figure: Figure| {
        let bound = |think: f64| {
            let of = |target: &super::worth_targets::Target| {
                target.figure == figure && target.concerns(reserve.into(), think)
            };
            Some((shown(think), targets().find(of)?.bound))
        };
        let points = thinks.iter().filter_map(|think| bound(*think)).collect();
        Line { name: name.to_owned(), points, dashed: true }
    };
    Plot {
        caption: format!(
            "Worth of {reserve} % to one random read at a time, of the rest to 16 ({}, {policy})",
            series.name
        ),
        x: format!("mean think time, ms (0 is drawn at {ZERO_SHOWN_MS})"),
        y: "rate ÷ rate alone on the drive slowed to the reserve".into(),
        lines: vec![
            line("one read that pauses", WORTH_A),
            line("16 reads", WORTH_B),
            wanted("wanted of the first", Figure::WorthA),
            wanted("wanted of the second", Figure::WorthB),
        ],
        x_log: true,
        ..Plot::default()
    }
}

/// Whether two settings, which are whole thousandths, are the same.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_a_row_for_each_setting_and_a_reserve_keeps_its_worth_without_pauses() {
        let options = Options { policy: Some(PolicyName::Utilization), sample: true };
        let findings = grid(options, &mut |_| ());
        assert_eq!(findings.series.len(), DRIVES.len());
        for series in &findings.series {
            assert_eq!(series.rows.len(), SAMPLE.thinks.len(), "{}", series.name);
            for row in &series.rows {
                assert!(row.iter().all(|cell| cell.is_finite() && *cell >= 0.0), "{row:?}");
                assert!(row[EFFICIENCY] <= 1.05, "more than a disk: {row:?}");
            }
            let without = &series.rows[0];
            assert!(without[WORTH_A] > 0.9 && without[WORTH_B] > 0.9, "{without:?}");
        }
        assert_eq!(findings.plots.len(), DRIVES.len());
        assert!(!findings.checks.is_empty());
    }
}
