//! The standard deviation of movements over one distance.

use crate::estimate::bisection::{BisectionEstimator, SPREAD_LEAST};
use crate::estimate::number::real;

/// The largest standard deviation considered, in ns.
const SPREAD_MOST: f64 = 4_000_000.0;

/// The most likely standard deviation of the movements, for any duration.
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

/// The likelihood of a standard deviation, up to a factor.
///
/// The likelihood is integrated over all durations of the prior. Near the median alone, which
/// bisection approaches whatever the deviation is, every deviation is as likely.
fn evidence(estimator: &BisectionEstimator, spread: f64) -> f64 {
    let time = estimator.estimate().time;
    let half = estimator.range();
    let nodes = |nth: u64| {
        // Dense nodes in the middle, sparse nodes at the ends.
        let along = real(nth) / 40.0 - 1.0;
        let middle = time + half * along * along * along;
        (estimator.likelihood(middle, spread), along * along + 1e-4)
    };
    (0..81).map(nodes).map(|(likelihood, width)| likelihood * width).sum()
}
