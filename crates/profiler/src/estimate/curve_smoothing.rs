//! Smooths the points of a curve, each with the neighbours that agree with it.
//!
//! A line is fitted around each point to more and more neighbours. The widest fit whose value at
//! the point is within the errors of all narrower ones is kept (Lepski's rule). Many points share
//! their probes where a curve is straight or movements vary, and few where it bends or each point
//! is known well.

use crate::estimate::number::real;

/// One point and its standard error, in cylinders and ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) distance: f64,
    pub(crate) time: f64,
    pub(crate) error: f64,
}

/// The number of neighbours on either side.
const WIDTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The most deviation of a wider fit from a narrower one, in errors of the narrower.
pub(crate) const AGREES: f64 = 2.0;

/// A point is uncertain if its error is this multiple of its neighbours' errors.
const UNCERTAIN: f64 = 3.0;
/// The number of neighbours on either side that replace an uncertain point.
const REPLACED_BY: usize = 3;

/// The smoothed points.
pub(crate) fn smooth(samples: &[Sample], agrees: f64) -> Vec<Sample> {
    let all: Vec<Sample> = (0..samples.len()).map(|nth| around(samples, nth, agrees)).collect();
    (0..all.len()).map(|nth| replace_uncertain(&all, nth).unwrap_or(all[nth])).collect()
}

/// All points at their mean, if they are consistent with a constant. `least` ns is the least
/// assumed error of a point, because the errors lack the map's. The settle time before writes is
/// mostly the same for all distances.
pub(crate) fn level(samples: &[Sample], least: f64) -> Option<Vec<Sample>> {
    let weight = |sample: &Sample| sample.error.max(least).powi(-2);
    let all: f64 = samples.iter().map(weight).sum();
    let mean = samples.iter().map(|sample| weight(sample) * sample.time).sum::<f64>() / all;
    let squares: f64 =
        samples.iter().map(|sample| weight(sample) * (sample.time - mean).powi(2)).sum();
    let free = real(samples.len() as u64) - 1.0;
    let agrees = free > 1.0 && is_by_chance(squares, free);
    let at_mean = |sample: &Sample| Sample { time: mean, error: all.powf(-0.5), ..*sample };
    agrees.then(|| samples.iter().map(at_mean).collect())
}

/// The value of its neighbours for a point that disagrees with them and is far less certain than
/// each: of hundreds of points some are off by chance, and no curve has a bend at one distance
/// alone.
fn replace_uncertain(all: &[Sample], nth: usize) -> Option<Sample> {
    let low = nth.checked_sub(REPLACED_BY)?;
    let high = all.get(nth + 1..=nth + REPLACED_BY)?;
    let beside: Vec<Sample> = all[low..nth].iter().chain(high).copied().collect();
    let known = beside.iter().all(|one| UNCERTAIN * one.error < all[nth].error);
    let line = fit(&beside, all[nth].distance).filter(|_| known)?;
    let apart = beside.iter().map(|one| one.error).fold(0.0, f64::max);
    Some(Sample { error: line.error.max(apart), ..line })
}

fn around(samples: &[Sample], nth: usize, agrees: f64) -> Sample {
    let mut best = samples[nth];
    let mut narrower = vec![best];
    for width in WIDTHS {
        let (low, high) = (nth.saturating_sub(width), (nth + width).min(samples.len() - 1));
        let Some(line) = fit(&samples[low..=high], best.distance) else { break };
        let fits = |known: &Sample| (line.time - known.time).abs() <= agrees * known.error;
        if !narrower.iter().all(fits) {
            break;
        }
        // One in twenty sets of three points is not straight by chance, and then the seven around
        // it are. Where the curve bends, wider sets are not straight either.
        if !is_straight(&samples[low..=high]) {
            continue;
        }
        best = line;
        narrower.push(line);
    }
    best
}

/// The fitted line at `x`.
fn fit(samples: &[Sample], x: f64) -> Option<Sample> {
    let (intercept, slope, weight, spread) = line(samples, x)?;
    let _ = slope;
    let mean = weight.1 / weight.0;
    Some(Sample {
        distance: x,
        time: intercept,
        error: (1.0 / weight.0 + mean * mean / spread).sqrt(),
    })
}

/// The fitted line: its height at `x` and slope, the sums of weights and of weighted distances from
/// `x`, and their spread.
///
/// The abscissa is the square root of the distance: the time of short seeks, in which the arm only
/// accelerates and brakes, is proportional to it.
fn line(samples: &[Sample], x: f64) -> Option<(f64, f64, (f64, f64), f64)> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for sample in samples {
        let (weight, along) =
            (1.0 / (sample.error * sample.error), sample.distance.sqrt() - x.sqrt());
        w += weight;
        wx += weight * along;
        wy += weight * sample.time;
        wxx += weight * along * along;
        wxy += weight * along * sample.time;
    }
    let spread = wxx - wx * wx / w;
    if samples.len() < 3 || spread <= 0.0 {
        return None;
    }
    let slope = (wxy - wx * wy / w) / spread;
    Some(((wy - slope * wx) / w, slope, (w, wx), spread))
}

/// Whether the samples are on a line, within their errors.
fn is_straight(samples: &[Sample]) -> bool {
    let Some((height, slope, ..)) = line(samples, 0.0) else { return false };
    let squares: f64 = samples
        .iter()
        .map(|sample| (sample.time - height - slope * sample.distance.sqrt()) / sample.error)
        .map(|off| off * off)
        .sum();
    let free = real(samples.len() as u64) - 2.0;
    is_by_chance(squares, free)
}

/// Whether a sum of squares with `free` degrees of freedom is within two standard deviations of its
/// expectation.
fn is_by_chance(squares: f64, free: f64) -> bool {
    squares <= free + 2.0 * (2.0 * free).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(nth: u64) -> f64 {
        let draw = |step: f64| crate::estimate::number::fraction(real(nth + 1) * step);
        draw(0.618_033_988_749_895) + draw(0.754_877_666_246_693) - 1.0
    }

    #[test]
    fn what_is_the_same_everywhere_is_known_best_and_a_slope_is_none() {
        let samples = |slope: f64| -> Vec<Sample> {
            let one = |nth| {
                let time = 200.0 + slope * real(nth) + 50.0 * noise(nth);
                Sample { distance: real(nth), time, error: 20.0 }
            };
            (0..40).map(one).collect()
        };
        let found = level(&samples(0.0), 5.0).expect("nothing speaks against it");
        assert!((found[0].time - 200.0).abs() < 10.0 && found[0].error < 4.0, "{:?}", found[0]);
        assert_eq!(level(&samples(3.0), 5.0), None);
    }

    #[test]
    fn a_noisy_line_is_known_better_and_a_step_stays_one() {
        let curve = |x: f64| if x < 50.0 { x } else { x + 1_000.0 };
        let samples: Vec<Sample> = (0..100)
            .map(|nth| {
                let x = real(nth);
                Sample { distance: x, time: curve(x) + 50.0 * noise(nth), error: 20.0 }
            })
            .collect();
        let smoothed = smooth(&samples, AGREES);
        let worst = smoothed
            .iter()
            .map(|sample| (sample.time - curve(sample.distance)).abs())
            .fold(0.0, f64::max);
        assert!(worst < 45.0, "{worst}");
        assert!(smoothed[25].error < 8.0, "{}", smoothed[25].error);
    }
}
