//! Figure 4 on a pool: the loads of figure 3 beside best effort of the busiest twenty minutes alone
//! (RTAS 2000 §4.4), with volumes that the pool lays out.
//!
//! RTAS 2000 runs them on a real Clockwise and simulated. The experiment is the simulated half; the
//! live one beside it is `spindle-lab bench clockwise --pool`.

use core::ops::Range;

use config::Plan;
use engine::PolicyName;
use sim::loads::Cello;
use units::Duration;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::angles::{ANGLES, RELATIVE_DIFFERENCE_MAX, simulate_from_angles};
use super::point::{BestEffort, evenly};
use super::pool::Admitted;
use super::pool_fig3::{
    DELTA_L, EDF, LST, POLICIES, Point, checks_of_policies, count, plot, points, table,
};
use super::pool_load::Order;

pub(crate) const POOL_FIG4: Experiment = Experiment {
    id: "clockwise-fig4-pool",
    title: "latency of best effort in the busiest minutes against the load of the streams, on a \
            pool",
    run: fig4,
};

/// Figure 4's load on the three disks of a pool.
#[derive(Clone, Debug)]
pub(crate) struct OnPool {
    load: Admitted,
    best_effort: BestEffort,
}

impl OnPool {
    /// RTAS 2000's three policies, `delta-star` and `spindle`.
    pub(crate) const POLICIES: [PolicyName; 5] =
        [POLICIES[0].0, POLICIES[1].0, POLICIES[2].0, POLICIES[3].0, POLICIES[4].0];

    /// `count` loads, evenly spread up to the highest that every policy admits, beside best effort
    /// of the first `length` of the busiest minutes of the day.
    pub(crate) fn loads(count: usize, length: Duration) -> Vec<Self> {
        let best_effort = BestEffort::of_the_busiest(length);
        let loads = Admitted::striped(&Self::POLICIES);
        let chosen = evenly(&loads, count);
        let load = |load: &Admitted| Self { load: load.clone(), best_effort: best_effort.clone() };
        chosen.map(load).collect()
    }

    /// The total rate of the streams, in MB/s of 1,024 · 1,024 bytes.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.load.mb_per_s()
    }

    /// The pool under a policy. All workloads are lists of timed requests.
    pub(crate) fn plan(&self, policy: PolicyName) -> Plan {
        self.load.plan_of_clients(&self.best_effort, (policy, Order::Rotation))
    }

    /// The places of the best-effort volumes among those of the pool. The streams are before them.
    pub(crate) fn best_effort(&self) -> Range<usize> {
        let streams = self.load.kinds.len();
        streams..streams + Cello::DISKS as usize
    }
}

const CAPTION: &str = "Mean latency of best effort in the busiest 20 minutes beside streams \
                       striped by a pool (three atlas-ii)";
/// The number of loads that are run from several angles of the disks on: that of the live runs.
const LOADS: usize = 3;
/// The length of RTAS 2000's runs.
const LENGTH: Duration = Duration::from_secs(1_200);
/// The length of the live runs, unless another is given.
const LIVE_LENGTH: Duration = Duration::from_secs(40);
const SHORT: &str = "the length of a live run unless another is given, in which a single burst \
                     weighs";

fn fig4(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let best_effort = BestEffort::of_the_day(Cello::busiest());
    let loads = Admitted::striped(&OnPool::POLICIES);
    let points = points(&loads, &best_effort, on_progress);
    let (angles, live) = (from_angles("angles", LENGTH), from_angles("angles-40s", LIVE_LENGTH));
    let mut checks = checks(&points);
    for (nth, (_, policy)) in POLICIES.iter().enumerate() {
        let what = format!("{policy}: from other angles of the disks, furthest from the first");
        let furthest = furthest(&angles, nth);
        checks.push(Check::at_most(what, furthest, RELATIVE_DIFFERENCE_MAX, "part"));
    }
    let what = "the same in 40 s, furthest of all policies";
    let most = (0..POLICIES.len()).map(|nth| furthest(&live, nth)).fold(0.0, f64::max);
    checks.push(Check::unbounded(what, most, "part", SHORT));
    Findings {
        checks,
        series: vec![table(&points), angles, live],
        plots: vec![("", plot(CAPTION, &points))],
    }
}

/// What RTAS 2000 says of its policies is "valid" for this load too (§4.4): LST is worse than ΔL
/// and, "to a lesser extent", than EDF for extreme loads (§4.3).
fn checks(points: &[Point]) -> Vec<Check> {
    let last = points.last().expect("some load is admitted");
    let answered = points.iter().flat_map(|point| point.measured.map(|one| one.requests));
    let least = count(answered.min().expect("five policies"));
    let all = f64::from(Cello::BUSIEST_REQUESTS);
    let what = "requests of best effort answered, least of all loads and policies";
    let mut checks = vec![Check::within(what, least, all, 0.0, "requests")];
    checks.extend(checks_of_policies(points));
    for other in [DELTA_L, EDF] {
        let what = format!("LST ÷ {} at the highest load: worse", POLICIES[other].1);
        checks.push(Check::at_least(what, last.ratio(LST, other), 1.0, "times"));
    }
    checks
}

/// For each load and policy the mean latencies from each angle on.
fn from_angles(name: &str, length: Duration) -> Series {
    let columns = ["load_mb_per_s", "policy"].map(str::to_owned).into_iter();
    let angles = (0..ANGLES).map(|angle| format!("angle_{angle}_ms"));
    let columns: Vec<String> = columns.chain(angles).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Series::new(name, &columns);
    for load in OnPool::loads(LOADS, length) {
        for (nth, policy) in (0_u32..).zip(OnPool::POLICIES) {
            let measured = simulate_from_angles(&load.plan(policy), &load.best_effort(), length);
            let row = [load.mb_per_s(), f64::from(nth)].into_iter();
            table.rows.push(row.chain(measured.map(|one| one.mean_ms)).collect());
        }
    }
    table
}

/// The largest relative difference of a policy's mean from that of the first angle.
fn furthest(angles: &Series, policy: usize) -> f64 {
    // The rows of a load are those of the policies, in their order.
    let rows = angles.rows.iter().skip(policy).step_by(POLICIES.len());
    let off = |row: &Vec<f64>| {
        let (first, others) = row[2..].split_first().expect("several angles");
        others.iter().map(|mean| (mean / first - 1.0).abs()).fold(0.0, f64::max)
    };
    rows.map(off).fold(0.0, f64::max)
}
