//! By how much movements over one distance vary.

use crate::estimate::bisection::{BisectionEstimator, SPREAD_LEAST};
use crate::estimate::number::real;

/// The most that is looked for, in ns.
const SPREAD_MOST: f64 = 4_000_000.0;

/// The standard deviation of movements that explains what was seen best, wherever their middle is.
pub(crate) fn variation(estimator: &BisectionEstimator) -> f64 {
    let (mut best, mut spread) = ((0.0, SPREAD_LEAST), SPREAD_LEAST);
    while spread < SPREAD_MOST {
        let evidence = evidence(estimator, spread);
        if evidence > best.0 {
            best = (evidence, spread);
        }
        spread *= 1.2;
    }
    best.1
}

/// How likely what was seen is if movements vary by `spread`, up to a factor.
///
/// Over all middles that were thought possible before anything was seen: halving comes near the middle whatever
/// movements vary by, and who looks near it only finds every spread as likely.
fn evidence(estimator: &BisectionEstimator, spread: f64) -> f64 {
    let time = estimator.estimate().time;
    let half = estimator.range();
    let nodes = |nth: u64| {
        // Close to each other in the middle, far from each other at the ends.
        let along = real(nth) / 40.0 - 1.0;
        let middle = time + half * along * along * along;
        (estimator.likelihood(middle, spread), along * along + 1e-4)
    };
    (0..81).map(nodes).map(|(likelihood, width)| likelihood * width).sum()
}
