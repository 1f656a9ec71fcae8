//! Figure 3 on a pool: mean latency of best effort against the load of the streams (RTAS 2000
//! §4.3, "rotation"), with volumes that the pool lays out.
//!
//! Streams are striped over the smallest first part of the disks that holds them, and CELLO's disks
//! are volumes that are striped over the slow part, as in RTAS 2000. Every twentieth minute of the
//! day is run, as in `fig3`.
//!
//! RTAS 2000 has LST worse than ΔL for "extreme real-time loads". That is checked at the highest
//! load that is admitted, if the streams take at least [`EXTREME`] of the disks' time there, as
//! measured: admission counts worst cases, and what the streams leave of them LST uses and ΔL,
//! which is made of worst cases, does not know of.

use config::DiskIndex;
use engine::PolicyName;
use plot::{Line, Plot};
use units::Instant;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::angles::DRAIN;
use super::layout::DISKS;
use super::point::{BestEffort, Measured};
use super::pool::Admitted;
use super::pool_load::Order;
use sim::Simulation;
use sim::loads::{Cello, MINUTES_A_DAY};

pub(crate) const POOL_FIG3: Experiment = Experiment {
    id: "clockwise-fig3-pool",
    title: "latency of best effort against the load of the streams, on a pool",
    run: fig3,
};

/// RTAS 2000's three policies, `delta-star` and `spindle`, in the order of the columns.
pub(super) const POLICIES: [(PolicyName, &str); 5] = [
    (PolicyName::Edf, "EDF"),
    (PolicyName::Lst, "LST"),
    (PolicyName::DeltaL, "ΔL"),
    (PolicyName::DeltaStar, "delta-star"),
    (PolicyName::Spindle, "spindle"),
];
pub(super) const EDF: usize = 0;
pub(super) const LST: usize = 1;
pub(super) const DELTA_L: usize = 2;
pub(super) const DELTA_STAR: usize = 3;
/// The step between the minutes of the day that are run.
const MINUTE_STEP: u32 = 20;
/// The step between the admitted loads that are run. The last one is run too.
const LOAD_STEP: usize = 8;
/// Loads up to this fraction of the highest admitted load are light or moderate.
const MODERATE: f64 = 0.6;
/// Loads from this fraction of the highest on are extreme, if streams take as large a part of the
/// disks' time.
const EXTREME: f64 = 0.9;
const NOT_EXTREME: &str = "the streams leave more than a tenth of the disks' time, so that the \
                           load is not extreme in fact: what admission keeps for worst cases is \
                           idle time for LST, and is not in ΔL";
const EARLY: &str = "a client of 256 KiB in order comes to a disk with four blocks of its MiB, of \
                     which three are early: they are best effort until their release (RTAS 2000 \
                     §3.2), and use up slack";
const CAPTION: &str =
    "Mean latency of best effort beside streams striped by a pool (three atlas-ii)";

/// A load, under each policy.
pub(super) struct Point {
    /// The total rate of the streams, in MB/s.
    pub(super) mb_per_s: f64,
    /// The part of the busiest disk's time that the streams ask for at most.
    utilization: f64,
    /// The part of the disks' time that the streams take under EDF.
    taken: f64,
    pub(super) measured: [Measured; 5],
}

impl Point {
    /// The ratio of two policies' mean latencies.
    pub(super) fn ratio(&self, of: usize, over: usize) -> f64 {
        self.measured[of].mean_ms / self.measured[over].mean_ms
    }
}

fn fig3(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let minutes =
        (Cello::busiest().start % MINUTE_STEP..MINUTES_A_DAY).step_by(MINUTE_STEP as usize);
    let best_effort = BestEffort::of_the_day(minutes);
    let loads = Admitted::striped(&POLICIES.map(|(policy, _)| policy));
    let points = points(&loads, &best_effort, on_progress);
    let highest = loads.last().expect("some load is admitted");
    let (star, _) = POLICIES[DELTA_STAR];
    let (in_order, _) = run(highest, &best_effort, (star, Order::Volume));
    let rotation = points.last().expect("some load is admitted").measured[DELTA_STAR];
    let what =
        "delta-star at the highest load, clients in the order of their volumes ÷ in rotation";
    let told = Check::unbounded(what, in_order.mean_ms / rotation.mean_ms, "times", EARLY);
    Findings {
        checks: checks(&points).into_iter().chain([told]).collect(),
        series: vec![table(&points)],
        plots: vec![("", plot(CAPTION, &points))],
    }
}

/// Runs every eighth of the loads and the last one beside best effort, under each policy.
pub(super) fn points(
    loads: &[Admitted],
    best_effort: &BestEffort,
    on_progress: &mut dyn FnMut(f64),
) -> Vec<Point> {
    let last = loads.len() - 1;
    let chosen: Vec<usize> = (1..last).step_by(LOAD_STEP).chain([last]).collect();
    let mut points = Vec::new();
    for (nth, done) in chosen.iter().zip(1_u32..) {
        let load = &loads[*nth];
        let runs = POLICIES.map(|(policy, _)| run(load, best_effort, (policy, Order::Rotation)));
        let (measured, taken) = (runs.map(|(measured, _)| measured), runs[EDF].1);
        let (mb_per_s, utilization) = (load.mb_per_s(), load.utilization(PolicyName::DeltaL));
        points.push(Point { mb_per_s, utilization, taken, measured });
        on_progress(f64::from(done) / f64::from(u32::try_from(chosen.len()).expect("few")));
    }
    points
}

/// Runs the load and best effort under a policy. The second number is the part of the disks' time
/// that the streams take while they run.
fn run(
    load: &Admitted,
    best_effort: &BestEffort,
    (policy, order): (PolicyName, Order),
) -> (Measured, f64) {
    let plan = load.plan_of_clients(best_effort, (policy, order));
    let (length, streams) = (best_effort.length, load.kinds.len());
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + length + DRAIN);
    assert_eq!(simulation.failed(), 0, "no disk fails");
    let report = simulation.report();
    let measured = Measured::of(&report.volumes, streams..report.volumes.len());
    let shares = report.volumes[..streams].iter().map(|volume| volume.disk_time_share);
    let share = shares.sum::<f64>() / count(DISKS as u64);
    (measured, share * (length + DRAIN).as_secs_f64() / length.as_secs_f64())
}

impl Admitted {
    /// The part of the busiest disk's time that its tasks ask for at most.
    fn utilization(&self, policy: PolicyName) -> f64 {
        let plan = self.plan(policy).expect("it is admitted");
        let of = |disk| {
            let left = plan.admission_headroom(DiskIndex(disk), Instant::ZERO);
            left.expect("the policy has deadlines").utilization_ppb
        };
        count((0..DISKS).map(of).max().expect("three")) / 1e9
    }
}

pub(super) fn table(points: &[Point]) -> Series {
    let columns = [
        "load_mb_per_s",
        "utilization",
        "taken",
        "edf_ms",
        "lst_ms",
        "delta_l_ms",
        "delta_star_ms",
        "spindle_ms",
    ];
    let late = ["edf_late", "lst_late", "delta_l_late", "delta_star_late", "spindle_late"];
    let mut table = Series::new("stripe", &[&columns[..], &late].concat());
    for point in points {
        let means = point.measured.iter().map(|one| one.mean_ms);
        let late = point.measured.iter().map(|one| count(one.misses));
        let load = [point.mb_per_s, point.utilization, point.taken];
        table.rows.push(load.into_iter().chain(means).chain(late).collect());
    }
    table
}

pub(super) fn plot(caption: &str, points: &[Point]) -> Plot {
    let line = |(which, (_, name)): (usize, (PolicyName, &str))| Line {
        name: name.into(),
        points: points.iter().map(|one| (one.mb_per_s, one.measured[which].mean_ms)).collect(),
        dashed: false,
    };
    Plot {
        caption: caption.into(),
        x: "load of the streams, MB/s".into(),
        y: "mean latency of best effort, ms".into(),
        lines: POLICIES.into_iter().enumerate().map(line).collect(),
        y_log: true,
        ..Plot::default()
    }
}

/// What holds beside best effort of any minutes.
pub(super) fn checks_of_policies(points: &[Point]) -> Vec<Check> {
    let last = points.last().expect("some load is admitted");
    let ratios = |of: usize, over: usize, to: f64| {
        let within = points.iter().filter(move |one| one.mb_per_s <= to * last.mb_per_s);
        within.map(move |one| one.ratio(of, over))
    };
    let answered = |point: &Point| {
        let all = point.measured.map(|one| one.requests);
        all.iter().all(|one| *one == all[0] && *one > 0)
    };
    assert!(points.iter().all(answered), "every request completes under every policy");
    let mut checks = Vec::new();
    for (policy, (_, name)) in POLICIES.iter().enumerate() {
        let late = points.iter().map(|point| point.measured[policy].misses).sum();
        let what = format!("{name}: blocks of streams late, all loads");
        checks.push(Check::at_most(what, count(late), 0.0, "blocks"));
    }
    let least = |other| ratios(EDF, other, EXTREME).fold(f64::INFINITY, f64::min);
    let what = "EDF ÷ the better of LST and ΔL, least below the extreme";
    checks.push(Check::at_least(what, least(LST).min(least(DELTA_L)), 1.0, "ratio"));
    let most = ratios(LST, DELTA_L, MODERATE).fold(0.0, f64::max);
    let what = "LST ÷ ΔL, most at light and moderate load";
    checks.push(Check::at_most(what, most, 1.005, "ratio"));
    let what = "ΔL ÷ EDF at the highest load";
    checks.push(Check::at_most(what, last.ratio(DELTA_L, EDF), 1.0, "ratio"));
    for other in [LST, DELTA_L] {
        let most = ratios(DELTA_STAR, other, 1.0).fold(0.0, f64::max);
        let what = format!("delta-star ÷ {}, most of all loads", POLICIES[other].1);
        checks.push(Check::at_most(what, most, 1.0, "ratio"));
    }
    checks
}

fn checks(points: &[Point]) -> Vec<Check> {
    let last = points.last().expect("some load is admitted");
    let mut checks = checks_of_policies(points);
    let (taken, ratio) = (last.taken * 100.0, last.ratio(LST, DELTA_L));
    let what = format!("LST ÷ ΔL at the highest load: streams take {taken:.0} % of the time");
    checks.push(if last.taken >= EXTREME {
        Check::at_least(what, ratio, 1.0, "times")
    } else {
        Check::unbounded(what, ratio, "times", NOT_EXTREME)
    });
    let what = "EDF ÷ delta-star at the highest load";
    checks.push(Check::at_least(what, last.ratio(EDF, DELTA_STAR), 10.0, "times"));
    checks
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
pub(super) fn count(number: u64) -> f64 {
    number as f64
}
