//! What is wanted of the worth grid: by reserve and think time, on each drive, over all seeds.
//!
//! A policy that is to keep them is in [`HELD_BY`]; under every other policy they are told beside
//! the figures.

use core::fmt;
use core::ops::RangeInclusive;

use engine::PolicyName;

/// The policies under which the targets are bounds.
const HELD_BY: [PolicyName; 1] = [PolicyName::Spindle];

/// What a target is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// The worth of the volume whose client pauses.
    WorthA,
    /// The worth of the volume whose client does not.
    WorthB,
    /// The 99th percentile of the first volume's latencies.
    P99A,
    /// The sum of each volume's rate ÷ its rate alone without pauses.
    Efficiency,
}

/// What is wanted at one reserve, in a range of think times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    reserve_percent: f64,
    think_ms: RangeInclusive<f64>,
    pub(super) figure: Figure,
    /// The least worth and efficiency, the largest latency in milliseconds.
    pub(super) bound: f64,
}

/// The bounds of one reserve in a range of think times.
struct Band {
    reserve_percent: f64,
    think_ms: (f64, f64),
    worth_a: f64,
    worth_b: f64,
    p99_a_ms: f64,
    efficiency: f64,
}

const fn band(
    reserve_percent: f64,
    think_ms: (f64, f64),
    [worth_a, worth_b, p99_a_ms, efficiency]: [f64; 4],
) -> Band {
    Band { reserve_percent, think_ms, worth_a, worth_b, p99_a_ms, efficiency }
}

const BANDS: [Band; 15] = [
    band(10.0, (0.0, 10.0), [0.80, 0.90, 280.0, 0.90]),
    band(10.0, (20.0, 50.0), [1.00, 0.90, 280.0, 0.90]),
    band(20.0, (0.0, 2.0), [0.80, 0.88, 210.0, 0.83]),
    band(20.0, (5.0, 10.0), [0.72, 0.88, 210.0, 0.83]),
    band(20.0, (20.0, 50.0), [0.95, 0.88, 210.0, 0.83]),
    band(50.0, (0.0, 1.0), [0.85, 0.92, 130.0, 0.88]),
    band(50.0, (2.0, 2.0), [0.80, 0.92, 130.0, 0.84]),
    band(50.0, (5.0, 5.0), [0.78, 0.85, 150.0, 0.75]),
    band(50.0, (10.0, 10.0), [0.80, 0.85, 130.0, 0.70]),
    band(50.0, (20.0, 20.0), [0.90, 0.85, 45.0, 0.73]),
    band(50.0, (50.0, 50.0), [0.90, 0.85, 45.0, 0.73]),
    band(70.0, (0.0, 2.0), [0.85, 0.90, 95.0, 0.64]),
    band(70.0, (5.0, 5.0), [0.80, 0.82, 95.0, 0.64]),
    band(70.0, (10.0, 10.0), [0.74, 0.90, 45.0, 0.64]),
    band(70.0, (20.0, 50.0), [0.80, 0.90, 45.0, 0.64]),
];

/// Whether the targets are bounds under this policy.
pub(super) fn is_held(policy: PolicyName) -> bool {
    HELD_BY.contains(&policy)
}

/// All of them, by reserve and think time.
pub(super) fn targets() -> impl Iterator<Item = Target> {
    BANDS.iter().flat_map(|band| {
        let bounds = [
            (Figure::WorthA, band.worth_a),
            (Figure::WorthB, band.worth_b),
            (Figure::P99A, band.p99_a_ms),
            (Figure::Efficiency, band.efficiency),
        ];
        bounds.map(|(figure, bound)| Target {
            reserve_percent: band.reserve_percent,
            think_ms: band.think_ms.0..=band.think_ms.1,
            figure,
            bound,
        })
    })
}

impl Target {
    /// Whether it is about this setting.
    pub(super) fn concerns(&self, reserve_percent: f64, think_ms: f64) -> bool {
        (self.reserve_percent - reserve_percent).abs() < 1e-6 && self.think_ms.contains(&think_ms)
    }

    /// Whether the figure is to be at least the bound, rather than at most.
    pub(super) fn is_least(&self) -> bool {
        self.figure != Figure::P99A
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.figure == Figure::P99A { "ms" } else { "ratio" }
    }
}

/// `50 %, think 0 to 1 ms: least worth of the client that pauses`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.think_ms.start(), self.think_ms.end());
        write!(f, "{} %, think {from}", self.reserve_percent)?;
        if from < to {
            write!(f, " to {to}")?;
        }
        f.write_str(match self.figure {
            Figure::WorthA => " ms: least worth to the client that pauses",
            Figure::WorthB => " ms: least worth to its neighbour",
            Figure::P99A => " ms: p99 of the client that pauses",
            Figure::Efficiency => " ms: least efficiency",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_the_grid_has_one_target_of_each_kind() {
        for reserve in [10.0, 20.0, 50.0, 70.0] {
            for think in [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0] {
                let count = targets().filter(|target| target.concerns(reserve, think)).count();
                assert_eq!(count, 4, "{reserve} % at {think} ms");
            }
        }
    }
}
