//! Figure 3: mean latency of best effort against the load of the streams (RTAS 2000 §4.3).

use engine::PolicyName;
use report::{Line, Plot};

use super::super::{Check, Experiment, Findings, Series};
use super::layout::{Ground, Layout};
use super::point::{Load, Measured, best_effort};
use super::{SEED, profile};

pub(in super::super) const FIG3: Experiment = Experiment {
    id: "clockwise-fig3",
    title: "latency of best effort against the load of the streams",
    run: fig3,
};

/// The paper's three and ours, in the order of the columns.
const POLICIES: [(PolicyName, &str); 4] = [
    (PolicyName::Edf, "EDF"),
    (PolicyName::Lst, "LST"),
    (PolicyName::DeltaL, "ΔL"),
    (PolicyName::DeltaStar, "delta-star"),
];
const LAYOUTS: [(Layout, &str); 2] = [(Layout::Rotation, "rotation"), (Layout::Random, "random")];
/// Of the minutes of the day every so many is run.
const MINUTES_APART: usize = 288;
/// Of the loads that are admitted every so many is run, the last always.
const LOADS_APART: usize = 4;

fn fig3(told: &mut dyn FnMut(f64)) -> Findings {
    let profile = profile();
    let requests = best_effort((144..crate::loads::MINUTES_A_DAY).step_by(MINUTES_APART));
    let mut series = Vec::new();
    for (layout, name) in LAYOUTS {
        let mut table = Series::new(
            name,
            &["load_mb_per_s", "edf_ms", "lst_ms", "delta_l_ms", "delta_star_ms"],
        );
        let loads = Ground::new(layout, &profile, SEED).loads();
        for ground in loads.into_iter().rev().step_by(LOADS_APART) {
            let load = Load::new(ground, &requests);
            let measured = POLICIES.map(|(policy, _)| load.under(policy));
            eprintln!("{} {measured:?}", load.mb_per_s);
            table.rows.push([&[load.mb_per_s][..], &measured.map(|m| m.mean_ms)].concat());
            told(0.5);
        }
        table.rows.reverse();
        series.push(table);
    }
    Findings { checks: vec![], series, plots: vec![] }
}
