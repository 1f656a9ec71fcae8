//! Figure 3: mean latency of best effort against the load of the streams (RTAS 2000 §4.3).
//!
//! The highest load is run with the busiest twenty minutes of the day too: the disk time that LST
//! wastes shows under a high best-effort load.
//!
//! RTAS 2000 runs a whole day. Here every twentieth minute of the day is run, which includes a
//! twentieth of the busiest minutes.

use engine::PolicyName;
use plot::{Line, Plot};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::layout::{Allocation, Layout};
use super::point::{BestEffort, Load, Measured};
use super::settings::{SEED, profile};
use sim::loads::{Cello, MINUTES_A_DAY};

pub(crate) const FIG3: Experiment = Experiment {
    id: "clockwise-fig3",
    title: "latency of best effort against the load of the streams",
    run: fig3,
};

/// RTAS 2000's three policies and `delta-star`, in the order of the columns.
const POLICIES: [(PolicyName, &str); 4] = [
    (PolicyName::Edf, "EDF"),
    (PolicyName::Lst, "LST"),
    (PolicyName::DeltaL, "ΔL"),
    (PolicyName::DeltaStar, "delta-star"),
];
const EDF: usize = 0;
const LST: usize = 1;
const DELTA_L: usize = 2;
const DELTA_STAR: usize = 3;
const LAYOUTS: [(Layout, &str); 2] = [(Layout::Rotation, "rotation"), (Layout::Random, "random")];
/// The step between the minutes of the day that are run. The first of the busiest minutes is among
/// them.
const MINUTE_STEP: u32 = 20;
/// The step between the admitted loads that are run, from the second on. The last one is run too.
const LOAD_STEP: usize = 4;
/// Loads up to this fraction of the highest admitted load are light or moderate.
const MODERATE: f64 = 0.6;
/// Loads below this fraction are light.
const LIGHT: f64 = 0.3;
/// Latencies whose ratio differs from one by at most this are alike.
const ALIKE: f64 = 0.005;
/// Loads from this fraction on are extreme.
const EXTREME: f64 = 0.9;
/// Loads that differ by at most this, in MB/s, consist of the same streams.
const SAME: f64 = 1e-6;
const BELOW_THE_LAST: f64 = 0.999;

/// The results with one layout.
struct Curves {
    name: &'static str,
    /// For each load, in MB/s, the figures of each policy.
    points: Vec<(f64, [Measured; 4])>,
}

fn fig3(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let profile = profile();
    let first = Cello::busiest().start % MINUTE_STEP;
    let minutes = (first..MINUTES_A_DAY).step_by(MINUTE_STEP as usize);
    let best_effort = BestEffort::of_the_day(minutes);
    let (mut all, mut beside_the_busiest) = (Vec::new(), Vec::new());
    for ((layout, name), begun) in LAYOUTS.into_iter().zip(0_u32..) {
        let loads = Allocation::new(layout, &profile, SEED).loads();
        let last = loads.len() - 1;
        let chosen = |nth: &usize| nth % LOAD_STEP == 1 || *nth == last;
        let mut points = Vec::new();
        for nth in (0..loads.len()).filter(chosen) {
            let load = Load::new(loads[nth].clone(), &best_effort);
            points.push((load.mb_per_s, POLICIES.map(|(policy, _)| load.under(policy))));
            let [nth, last] =
                [nth, last].map(|loads| f64::from(u32::try_from(loads).expect("few")));
            on_progress(f64::from(begun) * 0.5 + nth / last * 0.5);
        }
        if layout == Layout::Rotation {
            let busiest = BestEffort::of_the_day(Cello::busiest());
            let load = Load::new(loads[last].clone(), &busiest);
            beside_the_busiest = POLICIES.map(|(policy, _)| load.under(policy)).to_vec();
        }
        all.push(Curves { name, points });
    }
    let busiest = busiest(&beside_the_busiest);
    let checks = all.iter().flat_map(Curves::checks).chain(busiest).chain(between(&all)).collect();
    let plots = vec![("-rotation", all[0].plot()), ("-random", all[1].plot())];
    Findings { checks, series: all.iter().map(Curves::table).collect(), plots }
}

/// Best effort beside the streams of a layout, under `spindle` and under `delta-star`.
pub(crate) struct Beside {
    pub(crate) layout: &'static str,
    /// The load of the streams.
    pub(crate) mb_per_s: f64,
    /// The mean latency of best effort.
    pub(crate) spindle_ms: f64,
    pub(crate) delta_star_ms: f64,
    /// The blocks that were late under `spindle`.
    pub(crate) late: f64,
}

/// Best effort of CELLO's busiest minutes beside the highest load that each layout admits.
pub(crate) fn beside_the_highest_loads() -> Vec<Beside> {
    let profile = profile();
    let busiest = BestEffort::of_the_day(Cello::busiest());
    let beside = |(layout, name): (Layout, &'static str)| {
        let load = Allocation::new(layout, &profile, SEED).loads().pop().expect("some fit");
        let load = Load::new(load, &busiest);
        let (spindle, delta_star) = (load.under_spindle(), load.under(PolicyName::DeltaStar));
        Beside {
            layout: name,
            mb_per_s: load.mb_per_s,
            spindle_ms: spindle.mean_ms,
            delta_star_ms: delta_star.mean_ms,
            late: count(spindle.misses),
        }
    };
    LAYOUTS.into_iter().map(beside).collect()
}

impl Curves {
    fn table(&self) -> Series {
        let columns = ["load_mb_per_s", "edf_ms", "lst_ms", "delta_l_ms", "delta_star_ms"];
        let late = ["edf_late", "lst_late", "delta_l_late", "delta_star_late"];
        let mut table = Series::new(self.name, &[&columns[..], &late].concat());
        for (load, measured) in &self.points {
            let means = measured.iter().map(|measured| measured.mean_ms);
            let late = measured.iter().map(|measured| count(measured.misses));
            table.rows.push(std::iter::once(*load).chain(means).chain(late).collect());
        }
        table
    }

    fn plot(&self) -> Plot {
        let line = |(which, (_, name)): (usize, (PolicyName, &str))| Line {
            name: name.into(),
            points: self.points.iter().map(|(load, m)| (*load, m[which].mean_ms)).collect(),
            dashed: false,
        };
        Plot {
            caption: format!(
                "Mean latency of best effort beside streams, {} (three atlas-ii, a day like \
                 CELLO's)",
                self.name
            ),
            x: "load of the streams, MB/s".into(),
            y: "mean latency of best effort, ms".into(),
            lines: POLICIES.into_iter().enumerate().map(line).collect(),
            y_log: true,
            ..Plot::default()
        }
    }

    /// The ratio of two policies' mean latencies, at the loads between these fractions of the
    /// highest.
    fn ratios(&self, of: usize, over: usize, from: f64, to: f64) -> impl Iterator<Item = f64> {
        let most = self.last().0;
        let within = move |load: f64| load >= from * most && load <= to * most;
        let points = self.points.iter().filter(move |(load, _)| within(*load));
        points.map(move |(_, measured)| measured[of].mean_ms / measured[over].mean_ms)
    }

    fn last(&self) -> &(f64, [Measured; 4]) {
        self.points.last().expect("some load is admitted")
    }

    fn checks(&self) -> Vec<Check> {
        let name = |what: &str| format!("{}: {what}", self.name);
        let most = |ratios: &mut dyn Iterator<Item = f64>| ratios.fold(0.0, f64::max);
        let least = |ratios: &mut dyn Iterator<Item = f64>| ratios.fold(f64::INFINITY, f64::min);
        let late = |policy: usize| {
            count(self.points.iter().map(|(_, measured)| measured[policy].misses).sum())
        };
        let mut checks = Vec::new();
        // EDF and LST guarantee nothing; RTAS 2000 saw no late block beside requests of this size.
        for (policy, (_, policy_name)) in POLICIES.iter().enumerate() {
            let what = format!("{policy_name}: blocks of streams late, all loads");
            checks.push(Check::at_most(name(&what), late(policy), 0.0, "blocks"));
        }
        let answered = |(_, measured): &(f64, [Measured; 4])| {
            let all = measured.map(|one| one.requests);
            all.iter().all(|one| *one == all[0] && *one > 0)
        };
        assert!(self.points.iter().all(answered), "every request completes under every policy");
        let below = [LST, DELTA_L].map(|other| least(&mut self.ratios(EDF, other, 0.0, EXTREME)));
        let what = "EDF ÷ the better of LST and ΔL, least below the extreme";
        checks.push(Check::at_least(name(what), below[0].min(below[1]), 1.0, "ratio"));
        let light = most(&mut self.ratios(LST, DELTA_L, 0.0, MODERATE));
        let what = "LST ÷ ΔL, most at light and moderate load";
        checks.push(Check::at_most(name(what), light, 1.0 + ALIKE, "ratio"));
        // RTAS 2000 has LST slightly better at moderate loads, and says of no load whether it is
        // one. Where ΔL is never spent the two are alike: here up to three quarters of the highest
        // load.
        let slightly = |to| least(&mut self.ratios(LST, DELTA_L, LIGHT, to));
        let what = "LST ÷ ΔL, least below the highest load: better";
        checks.push(Check::at_most(name(what), slightly(BELOW_THE_LAST), 1.0 - ALIKE, "ratio"));
        let what = "LST ÷ ΔL, least below the extreme: by a little";
        checks.push(Check::at_least(name(what), slightly(EXTREME), 0.7, "ratio"));
        let (_, end) = self.last();
        let over = |one: usize, other: usize| end[one].mean_ms / end[other].mean_ms;
        if self.name == "rotation" {
            let what = "LST ÷ ΔL at the highest load";
            checks.push(Check::at_least(name(what), over(LST, DELTA_L), 1.0, "times"));
            let what = "EDF ÷ LST at the highest load";
            // LST is worse than EDF there "to a lesser extent" (RTAS 2000 §5).
            checks.push(Check::at_most(name(what), over(EDF, LST), 1.0, "times"));
            let what = "EDF ÷ delta-star at the highest load";
            checks.push(Check::at_least(name(what), over(EDF, DELTA_STAR), 10.0, "times"));
        } else {
            let ratios = || self.ratios(LST, DELTA_L, 0.0, BELOW_THE_LAST);
            let furthest = least(&mut ratios());
            let what = "LST ÷ ΔL, furthest apart below the highest load: almost identical";
            checks.push(Check::within(name(what), furthest, 1.0, 0.3, "ratio"));
            let what = "LST ÷ ΔL at the highest load: almost identical";
            let check = Check::within(name(what), over(LST, DELTA_L), 1.0, 0.3, "ratio");
            checks.push(check);
        }
        for other in [LST, DELTA_L] {
            let what = format!("delta-star ÷ {}, most of all loads", POLICIES[other].1);
            let ratio = most(&mut self.ratios(DELTA_STAR, other, 0.0, 1.0));
            checks.push(Check::at_most(name(&what), ratio, 1.0, "ratio"));
        }
        checks
    }
}

/// The highest load in rotation beside the busiest twenty minutes, when best effort does not fit
/// into small gaps.
fn busiest(measured: &[Measured]) -> Vec<Check> {
    let over = |one: usize, other: usize| measured[one].mean_ms / measured[other].mean_ms;
    let name = |what: &str| format!("rotation, highest load, the busiest 20 minutes: {what}");
    let late: u64 = [DELTA_L, DELTA_STAR].map(|policy| measured[policy].misses).iter().sum();
    vec![
        Check::at_most(name("ΔL, delta-star: blocks late"), count(late), 0.0, "blocks"),
        Check::at_least(name("LST ÷ ΔL: far best"), over(LST, DELTA_L), 2.0, "times"),
        Check::at_least(name("LST ÷ EDF: worse"), over(LST, EDF), 1.0, "times"),
        Check::at_least(name("ΔL ÷ delta-star"), over(DELTA_L, DELTA_STAR), 1.0, "times"),
    ]
}

/// RTAS 2000's statements that compare the two layouts.
fn between(all: &[Curves]) -> Vec<Check> {
    let [rotation, random] = all else { unreachable!("two layouts") };
    let lost = random.last().0 / rotation.last().0;
    let both = rotation.points.iter().filter_map(|(load, ours)| {
        let same = random.points.iter().find(|(other, _)| (other - load).abs() < SAME)?;
        Some((*ours, same.1))
    });
    let least = |policy: usize| {
        let ratios = both.clone().map(|(rot, ran)| ran[policy].mean_ms / rot[policy].mean_ms);
        ratios.fold(f64::INFINITY, f64::min)
    };
    let mut checks = vec![Check::at_most("random ÷ rotation, highest load", lost, 1.0, "ratio")];
    for (policy, (_, name)) in POLICIES.iter().enumerate() {
        let what = format!("{name}: latency, random ÷ rotation, least of all loads");
        checks.push(Check::at_least(what, least(policy), 1.0, "ratio"));
    }
    checks
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn count(number: u64) -> f64 {
    number as f64
}
