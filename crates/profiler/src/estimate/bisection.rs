//! The duration of a movement, from whether sectors were hit or missed.
//!
//! A read whose sector passes at t, t + P, t + 2P … after its submission completes at the first
//! passing for which the heads are ready. A completion at R states that the movement before it took
//! at most R, and more than R − P. Noise of a fraction of a revolution cannot blur these bounds.
//! The estimate is a posterior distribution over a grid of durations, the product of the
//! likelihoods of all bounds; the next probe is at its median. For a movement of constant duration
//! this is bisection, and for one that varies it finds the median and its error.

use units::Lba;

/// The least assumed standard deviation of movements, in ns: the uncertainty of the phase.
pub(crate) const SPREAD_LEAST: f64 = 25_000.0;
/// The factor by which probes near the median underestimate their error, compared with evenly
/// spread ones.
pub(crate) const ADAPTIVE: f64 = 1.4;
/// The number of durations in the grid.
const GRID: usize = 320;
/// The share of bounds that may be wrong: a retry, a recalibration.
const LAPSE_RATE: f64 = 0.01;
/// The number of durations on either side of the estimate over which the likelihood is integrated.
const TOLD_STEPS: i32 = 24;
/// The range of that integration, in standard deviations.
const TOLD_REACH: f64 = 5.0;
/// The share of the weight at an end of the grid at which the grid moves.
const EDGE: f64 = 0.05;
/// The width of the prior about a known estimate, in its errors.
const AGAIN: f64 = 10.0;

/// A bound whose likelihood is below this on the whole grid is outside of the grid.
const OUTSIDE: f64 = 0.02;
/// The number of such bounds after which the grid covers all bounds.
const OUTSIDE_MOST: u32 = 3;

/// The cumulative distribution of Student's t with four degrees of freedom: nearly normal, robust
/// against outliers, and computed from a square root and quotients alone.
pub(crate) fn student_cdf(x: f64) -> f64 {
    let square = x * x / 4.0;
    let root = (1.0 + square).sqrt();
    let ratio = square / (1.0 + square);
    0.5 + 0.375 * x / root * (1.0 - ratio / 3.0)
}

/// The scale of that distribution with the quartiles of a normal one.
pub(crate) const STUDENT_SCALE: f64 = 0.91;

/// The observed bounds of a movement: its duration is at most `reach`, and more than `reach` less a
/// rotation period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReachBound {
    /// The upper bound, in ns.
    pub(crate) reach: f64,
    /// The rotation period, in ns.
    pub(crate) period: f64,
    /// The predicted passing of the sector.
    pub(crate) sector: SectorDelay,
}

/// A logical block, and the assumed delay of its passing relative to the map, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SectorDelay {
    pub(crate) lba: Lba,
    pub(crate) delay: f64,
}

impl ReachBound {
    /// The likelihood of these bounds for a movement of mean `time` and standard deviation
    /// `spread`.
    pub(crate) fn likelihood(&self, time: f64, spread: f64) -> f64 {
        let spread = spread * STUDENT_SCALE;
        let enough = student_cdf((self.reach - time) / spread);
        let before = student_cdf((self.reach - self.period - time) / spread);
        LAPSE_RATE / 4.0 + (1.0 - LAPSE_RATE) * (enough - before).max(0.0)
    }
}

/// A posterior distribution over a grid of durations.
#[derive(Clone, Debug)]
pub(crate) struct BisectionEstimator {
    low: f64,
    step: f64,
    prior: Prior,
    weights: Vec<f64>,
    bounds: Vec<ReachBound>,
    spread: f64,
    /// The number of bounds outside of the grid.
    outside: u32,
}

/// The prior distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prior {
    /// Uniform up to a duration.
    Upto(f64),
    /// A Cauchy distribution about a duration, with a half-width.
    About(f64, f64),
}

/// An estimate and its standard error, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) time: f64,
    pub(crate) error: f64,
}

impl BisectionEstimator {
    /// An estimator of a movement with a standard deviation of `spread` ns.
    pub(crate) fn new(prior: Prior, spread: f64) -> Self {
        assert!(spread.is_finite() && spread > 0.0, "a movement varies by a positive time");
        let (low, high) = match prior {
            Prior::Upto(high) => (0.0, high),
            Prior::About(time, error) => (time - 6.0 * error, time + 6.0 * error),
        };
        let mut new = Self {
            low,
            step: 0.0,
            prior,
            weights: Vec::new(),
            bounds: Vec::new(),
            spread,
            outside: 0,
        };
        new.set_grid(low, high);
        new
    }

    /// The same bounds with another standard deviation of the movement.
    pub(crate) fn with_spread(&self, spread: f64) -> Self {
        self.with_bounds_of(Self::new(self.prior, spread))
    }

    /// The same bounds on a finer grid about the estimate.
    pub(crate) fn with_spread_near(&self, spread: f64) -> Self {
        let Estimate { time, error } = self.estimate();
        let mut near = Self::new(Prior::About(time, AGAIN * error.max(spread)), spread);
        near.prior = self.prior;
        self.with_bounds_of(near)
    }

    /// Adds the bounds of another estimator of the same movement, unless the two disagree.
    pub(crate) fn merge(&mut self, other: &Self) {
        let (own, others) = (self.estimate(), other.estimate());
        let apart = own.error.max(self.spread) + others.error.max(other.spread);
        if (own.time - others.time).abs() < apart {
            other.bounds.iter().for_each(|bound| self.learn(*bound));
        }
    }

    /// The same bounds with standard deviation `spread` and the delays of sectors as known now.
    pub(crate) fn with_delays(&self, spread: f64, delay: impl Fn(Lba) -> f64) -> Self {
        let mut moved = Self::new(self.prior, spread);
        for bound in &self.bounds {
            let now = delay(bound.sector.lba);
            let reach = bound.reach + now - bound.sector.delay;
            moved.learn(ReachBound {
                reach,
                sector: SectorDelay { delay: now, ..bound.sector },
                ..*bound
            });
        }
        moved
    }

    fn with_bounds_of(&self, mut new: Self) -> Self {
        self.bounds.iter().for_each(|bound| new.learn(*bound));
        new
    }

    /// The number of bounds.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len()
    }

    /// The assumed standard deviation of the movement.
    pub(crate) const fn spread(&self) -> f64 {
        self.spread
    }

    /// The bounds.
    pub(crate) fn bounds(&self) -> &[ReachBound] {
        &self.bounds
    }

    /// Sets the grid from `low` to `high`, and computes its weights.
    fn set_grid(&mut self, low: f64, high: f64) {
        let cells = crate::estimate::number::real(GRID as u64 - 1);
        self.low = low.max(0.0);
        self.step = (high - self.low).max(cells) / cells;
        self.weights = (0..GRID).map(|nth| self.weight(self.time(nth))).collect();
    }

    fn time(&self, nth: usize) -> f64 {
        self.low + crate::estimate::number::real(nth as u64) * self.step
    }

    /// The half-width of the prior.
    pub(crate) fn range(&self) -> f64 {
        match self.prior {
            Prior::Upto(high) => high,
            Prior::About(_, error) => 6.0 * error,
        }
    }

    fn weight(&self, time: f64) -> f64 {
        self.likelihood(time, self.spread)
    }

    /// The unnormalised posterior for a movement of mean `time` and standard deviation `spread`.
    pub(crate) fn likelihood(&self, time: f64, spread: f64) -> f64 {
        let prior = match self.prior {
            Prior::Upto(_) => 1.0,
            Prior::About(about, error) => {
                let off = (time - about) / error;
                1.0 / (1.0 + off * off)
            }
        };
        // The factor keeps the product of hundreds of likelihoods from underflow.
        self.bounds
            .iter()
            .fold(prior, |weight, bound| weight * 2.0 * bound.likelihood(time, spread))
    }

    /// The logarithm of the likelihood for standard deviation `spread`, integrated over all
    /// durations, and the estimate under it.
    pub(crate) fn marginal_likelihood(&self, spread: f64) -> (f64, Estimate) {
        let Estimate { time, error } = self.estimate();
        let step = TOLD_REACH * error.max(spread) / f64::from(TOLD_STEPS);
        let (mut sum, mut mean, mut square) = (f64::MIN_POSITIVE, 0.0, 0.0);
        for nth in -TOLD_STEPS..=TOLD_STEPS {
            let off = step * f64::from(nth);
            let weight = self.likelihood(time + off, spread);
            sum += weight;
            mean += weight * off;
            square += weight * off * off;
        }
        mean /= sum;
        let error = (square / sum - mean * mean).max(step * step / 12.0).sqrt();
        ((sum * step).ln(), Estimate { time: time + mean, error })
    }

    /// Adds a bound.
    pub(crate) fn learn(&mut self, bound: ReachBound) {
        assert!(bound.reach.is_finite() && bound.period > 0.0, "a bound of a rotating disk");
        self.bounds.push(bound);
        let (low, step, spread) = (self.low, self.step, self.spread);
        let mut best = 0.0_f64;
        for (nth, weight) in self.weights.iter_mut().enumerate() {
            let time = low + crate::estimate::number::real(nth as u64) * step;
            let likelihood = bound.likelihood(time, spread);
            best = best.max(likelihood);
            *weight *= 2.0 * likelihood;
        }
        self.outside += u32::from(best < OUTSIDE);
        if self.outside >= OUTSIDE_MOST {
            self.outside = 0;
            let far = self.bounds.iter().map(|bound| bound.reach).fold(0.0, f64::max);
            self.set_grid(0.0, far + 6.0 * spread);
        }
        self.recentre();
    }

    /// Moves the grid to the weight.
    fn recentre(&mut self) {
        for _ in 0..6 {
            let Estimate { time, error } = self.estimate();
            let high = self.time(GRID - 1);
            let sum: f64 = self.weights.iter().sum();
            let ends = GRID / 16;
            let at_low: f64 = self.weights[..ends].iter().sum();
            let at_high: f64 = self.weights[GRID - ends..].iter().sum();
            let width = high - self.low;
            if at_high > EDGE * sum && !matches!(self.prior, Prior::Upto(_)) {
                self.set_grid(self.low, high + width);
            } else if at_low > EDGE * sum && self.low > 0.0 {
                self.set_grid(self.low - width, high);
            } else if error * 40.0 < width && self.step > 500.0 {
                let half = (error * 10.0).max(self.spread / 2.0);
                if half * 2.0 > width * 0.8 {
                    return;
                }
                self.set_grid(time - half, time + half);
            } else {
                return;
            }
        }
    }

    /// The posterior mean and its standard error.
    pub(crate) fn estimate(&self) -> Estimate {
        let sum: f64 = self.weights.iter().sum();
        if sum <= 0.0 {
            return Estimate { time: self.time(GRID / 2), error: self.step * 100.0 };
        }
        let mut mean = 0.0;
        let mut square = 0.0;
        for (nth, weight) in self.weights.iter().enumerate() {
            let off = crate::estimate::number::real(nth as u64);
            mean += off * weight / sum;
            square += off * off * weight / sum;
        }
        let error = (square - mean * mean).max(0.0).sqrt().max(0.3) * self.step;
        assert!(mean.is_finite() && error > 0.0, "a posterior has a mean and an error");
        Estimate { time: self.low + mean * self.step, error }
    }

    /// The posterior median.
    pub(crate) fn median(&self) -> f64 {
        let half = self.weights.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        for (nth, weight) in self.weights.iter().enumerate() {
            if sum + weight >= half {
                return self.time(nth) + self.step * ((half - sum) / weight.max(1e-300) - 0.5);
            }
            sum += weight;
        }
        self.time(GRID / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 8e6;

    /// The bound that a probe at `gap` observes of a movement of `time`: the first passing that it
    /// reaches.
    fn bound(time: f64, gap: f64) -> ReachBound {
        let missed = ((time - gap) / PERIOD).ceil();
        ReachBound { reach: gap + missed * PERIOD, period: PERIOD, sector: SectorDelay::default() }
    }

    #[test]
    fn a_movement_that_always_takes_as_long_is_found_by_halving() {
        for true_time in [300_000.0, 1_234_567.0, 7_999_000.0, 21_000_000.0] {
            let mut estimator = BisectionEstimator::new(Prior::Upto(32e6), 20_000.0);
            for _ in 0..16 {
                let gap = estimator.median();
                estimator.learn(bound(true_time, gap));
            }
            let Estimate { time, error } = estimator.estimate();
            assert!((time - true_time).abs() < 20_000.0, "{time} for {true_time}, ± {error}");
        }
    }

    #[test]
    fn a_guess_that_was_far_off_is_given_up() {
        let mut estimator = BisectionEstimator::new(Prior::About(3e6, 50_000.0), 20_000.0);
        for _ in 0..16 {
            let gap = estimator.median();
            estimator.learn(bound(5e6, gap));
        }
        let Estimate { time, error } = estimator.estimate();
        assert!((time - 5e6).abs() < 30_000.0, "{time} ± {error}");
    }

    #[test]
    fn answers_that_all_lie_elsewhere_are_believed_in_the_end() {
        let mut estimator = BisectionEstimator::new(Prior::About(1e5, 50_000.0), 20_000.0);
        for gap in [4e5, 2e5, 1e5, 5e4, 3e4] {
            estimator.learn(ReachBound {
                reach: gap,
                period: PERIOD,
                sector: SectorDelay::default(),
            });
        }
        for _ in 0..30 {
            let gap = estimator.median();
            estimator.learn(bound(15e6, gap));
        }
        let Estimate { time, error } = estimator.estimate();
        assert!((time - 15e6).abs() < 30_000.0, "{time} ± {error}");
    }

    #[test]
    fn the_distribution_is_one() {
        assert!((student_cdf(0.0) - 0.5).abs() < 1e-12);
        assert!(student_cdf(-50.0) < 1e-5 && student_cdf(50.0) > 1.0 - 1e-5);
        assert!((student_cdf(0.740_697) - 0.75).abs() < 1e-4);
        assert!((student_cdf(1.0) + student_cdf(-1.0) - 1.0).abs() < 1e-12);
    }
}
