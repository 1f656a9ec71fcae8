//! The seek curve.
//!
//! Each distance is measured by a few probes. Distances are dense where curves bend (short ones:
//! every cylinder, then a few per cent apart) and evenly spaced where they are straight. Coarse
//! strides come first, so that later points have a prior from their neighbours. Where the lines
//! from both sides do not meet on the line between two neighbours, a point between them is
//! measured. Points that are not known well enough because seek times vary get more probes while
//! there is time.

use std::collections::{BTreeMap, BTreeSet};

use crate::bench::StopReason;
use crate::estimate::bisection::{ADAPTIVE, BisectionEstimator, Estimate, Prior, SPREAD_LEAST};
use crate::estimate::curve_smoothing::{AGREES, Sample, smooth};
use crate::estimate::number::{duration, instant_ns, round_u32};
use crate::estimate::variation::variation;
use crate::mechanics::overheads::ZeroDistance;
use crate::mechanics::prober::{ProbeKind, Prober, SeekDistance};

/// Every distance up to this is measured.
const EACH: u32 = 24;
/// Longer distances grow by this part, inverted.
const RATIO: u32 = 24;
/// No two distances differ by more than this part of the stroke, inverted.
const PARTS: u32 = 400;
/// The same three in a quick profile.
const QUICK: (u32, u32, u32) = (4, 5, 24);
/// The required precision of a point: a part of the seek time, and at least a time in ns.
pub(crate) const WITHIN: (f64, f64) = (0.03, 50_000.0);
/// The required standard error of a point, as part of its precision.
const ERROR_PART: f64 = 0.14;
/// The probes of one point at a time.
pub(crate) const PROBES: usize = 14;
/// A point with a larger error, as part of its time and in ns, is not published.
const UNKNOWN: (f64, f64) = (0.1, 200_000.0);
/// The most repetitions of these probes, until the error is below the precision or the deviation of
/// single seeks.
const TIMES: usize = 3;
/// The required standard error of a point without its neighbours, as part of its precision, while
/// time allows: where the curve bends, neighbours bias a point without being noticed.
const ALONE_PART: f64 = 0.2;
/// The most deviation of a line between two points, as part of a point's precision.
const BEND: f64 = 0.3;
/// The most rounds of points between points.
const ROUNDS: u32 = 12;
/// The rounds in which the pilot distances are probed in turn for the deviation of single seeks:
/// the path latency varies over seconds, and is then the same for all of them.
const PILOT_ROUNDS: u32 = 12;
/// The probes of each pilot distance in a round, about its median.
const PILOT_TIMES: u32 = 2;
/// The most rounds of additional probes for single points: time ends them earlier.
const ROUNDS_ALONE: u32 = 200;
/// The number of these rounds after which residual delays are applied again.
const PLACED: u32 = 8;
/// The offsets of these probes from the median, in standard deviations.
const ASIDE: [f64; 5] = [-1.0, 2.5, 0.0, 1.0, -2.5];
/// The time between two measurements of zero-distance accesses, of a full and of a quick profile,
/// in ns, and their probes.
const BESIDE: [f64; 2] = [1.5e9, 1e9];
const BESIDE_PROBES: usize = 4;
/// The deviation beyond which seek times vary, rather than the phase, in ns.
pub(crate) const VARIES: f64 = 3.0 * SPREAD_LEAST;
/// The most deviation of a wider fit from a narrower one, in its errors, where seek times vary.
pub(crate) const AGREES_VARIED: f64 = 2.6;

/// A curve under measurement.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    kind: ProbeKind,
    points: BTreeMap<u32, BisectionEstimator>,
    /// Distances that were measured again.
    asked: BTreeSet<u32>,
    /// Distances and the standard deviations of single seeks there.
    pub(crate) spreads: Vec<(u32, f64)>,
    /// The time of a zero-distance access.
    base: f64,
    /// When that was last measured.
    base_measured_at: f64,
    quick: bool,
}

/// The distances that are measured in any case.
fn distances(cylinders: u32, (each, ratio, parts): (u32, u32, u32)) -> Vec<u32> {
    let last = cylinders - 1;
    let most = (last / parts).max(1);
    let mut list = Vec::new();
    let mut distance = 1;
    while distance < last {
        list.push(distance);
        distance += if distance < each { 1 } else { (distance / ratio).clamp(1, most) };
    }
    // Beyond the last point the curve extrapolates the last two: these must not be close to each
    // other.
    if list.len() > 1 && list.last().is_some_and(|before| last - before < most / 2) {
        list.pop();
    }
    if last > 0 {
        list.push(last);
    }
    list
}

impl Curve {
    /// A curve without points. `base` is the time of a zero-distance access, in ns.
    pub(crate) fn new(kind: ProbeKind, base: f64, quick: bool) -> Self {
        Self {
            kind,
            points: BTreeMap::new(),
            asked: BTreeSet::new(),
            spreads: Vec::new(),
            base,
            base_measured_at: 0.0,
            quick,
        }
    }

    /// Measures zero-distance accesses again, if the last time is long enough ago.
    pub(crate) fn refresh_base(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        let now = instant_ns(prober.bench.now());
        if now - self.base_measured_at < BESIDE[usize::from(self.quick)] {
            return Ok(());
        }
        base.probe_more(prober, BESIDE_PROBES)?;
        self.base_measured_at = instant_ns(prober.bench.now());
        Ok(())
    }

    /// Sets the time of a zero-distance access.
    pub(crate) const fn set_base(&mut self, base: f64) {
        self.base = base;
    }

    /// The number of seeks measured.
    pub(crate) fn samples(&self) -> u32 {
        u32::try_from(self.points.values().map(BisectionEstimator::count).sum::<usize>())
            .unwrap_or(u32::MAX)
    }

    /// Measures the curve until it is complete or the time is over. The results are kept either
    /// way. Zero-distance accesses are measured beside it.
    pub(crate) fn measure(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        let ended = self.measure_all(prober, base);
        if let Some(found) = base.estimate() {
            self.base = found.time;
        }
        ended
    }

    fn measure_all(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        let shape = if self.quick { QUICK } else { (EACH, RATIO, PARTS) };
        // Only two tracks are a full stroke apart, and both are soon cached.
        let stroke = prober.stroke();
        let list = distances(stroke - stroke / PARTS + 1, shape);
        if list.is_empty() {
            return Ok(());
        }
        self.pilot(prober, &list, base)?;
        let mut stride = list.len().next_power_of_two();
        while stride > 0 {
            for nth in (0..list.len()).step_by(stride).chain([list.len() - 1]) {
                self.point(prober, list[nth])?;
                self.refresh_base(prober, base)?;
            }
            stride /= 2;
        }
        self.apply_residuals(prober, base);
        if !self.quick {
            self.remeasure_outliers(prober, base)?;
        }
        for _ in 0..ROUNDS {
            let wanted = self.bends();
            if wanted.is_empty() {
                break;
            }
            for distance in wanted {
                self.point(prober, distance)?;
                self.refresh_base(prober, base)?;
            }
        }
        if self.quick {
            return Ok(());
        }
        self.apply_residuals(prober, base);
        self.remeasure_outliers(prober, base)?;
        self.apply_residuals(prober, base);
        self.refine_uncertain(prober, base)
    }

    /// Applies the current residual delays of sectors to all bounds.
    pub(crate) fn apply_residuals(&mut self, prober: &Prober<'_, '_>, base: &mut ZeroDistance) {
        let late = |lba| prober.residuals.delay(lba);
        let spreads: Vec<f64> = self.points.keys().map(|distance| self.spread(*distance)).collect();
        for (estimator, spread) in self.points.values_mut().zip(spreads) {
            *estimator = estimator.with_delays(spread, late);
        }
        base.apply_residuals(prober);
        if let Some(found) = base.estimate() {
            self.base = found.time;
        }
    }

    /// Probes the points with the largest errors of their own, while there is time.
    pub(crate) fn refine_alone(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        for nth in 0..ROUNDS_ALONE {
            if nth % PLACED == 0 {
                self.apply_residuals(prober, base);
            }
            let alone = |(distance, estimator): (&u32, &BisectionEstimator)| {
                let Estimate { time, error } = estimator.estimate();
                (ADAPTIVE * error / self.within(time), *distance)
            };
            let vague: Vec<(f64, u32)> =
                self.points.iter().map(alone).filter(|(doubt, _)| *doubt > ALONE_PART).collect();
            if vague.is_empty() {
                break;
            }
            self.refine_worst(prober, base, vague)?;
        }
        self.remeasure_outliers(prober, base)
    }

    /// Refines the worst quarter of the given points, in the order of distances.
    fn refine_worst(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
        mut vague: Vec<(f64, u32)>,
    ) -> Result<(), StopReason> {
        vague.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        vague.truncate((self.points.len() / 4).max(1));
        vague.sort_unstable_by_key(|(_, distance)| *distance);
        for (_, distance) in vague {
            let Some(mut estimator) = self.points.get(&distance).cloned() else { continue };
            let ended = self.refine(prober, distance, &mut estimator, PROBES / 2);
            self.points.insert(distance, estimator);
            ended?;
            self.refresh_base(prober, base)?;
        }
        Ok(())
    }

    /// Measures points again that are far from the line between their neighbours: a wrong early
    /// bound misleads the bisection, and some bends are real. The median of three measurements
    /// holds.
    fn remeasure_outliers(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        let known: Vec<(u32, Estimate)> =
            self.points.iter().map(|(distance, one)| (*distance, one.estimate())).collect();
        for three in known.windows(3) {
            let [(low, below), (distance, found), (high, above)] = *three else { continue };
            let along = f64::from(distance - low) / f64::from(high - low);
            let line = below.time + (above.time - below.time) * along;
            let doubt = 2.0 * (found.error + below.error.max(above.error));
            if (found.time - line).abs() < BEND * self.within(line) + doubt {
                continue;
            }
            if !self.asked.insert(distance) {
                continue;
            }
            let Some(first) = self.points.remove(&distance) else { continue };
            let mut tries = vec![first];
            while tries.len() < 3 {
                let ended = self.point(prober, distance);
                if ended.is_err() {
                    // The earlier measurement is kept.
                    self.points.insert(distance, tries.swap_remove(0));
                    return ended;
                }
                tries.extend(self.points.remove(&distance));
            }
            tries.sort_by(|one, other| one.estimate().time.total_cmp(&other.estimate().time));
            let mut middle = tries.swap_remove(1);
            for one in tries {
                middle.merge(&one);
            }
            self.points.insert(distance, middle);
            self.refresh_base(prober, base)?;
        }
        Ok(())
    }

    /// The required precision of a point at this time.
    fn within(&self, time: f64) -> f64 {
        (WITHIN.0 * (time - self.base)).max(WITHIN.1)
    }

    /// The standard deviation of single seeks over this distance.
    fn spread(&self, distance: u32) -> f64 {
        let above = self.spreads.partition_point(|known| known.0 < distance);
        let below = above.checked_sub(1).and_then(|below| self.spreads.get(below));
        match (below, self.spreads.get(above)) {
            (None, None) => 100_000.0,
            (Some((_, spread)), None) | (None, Some((_, spread))) => *spread,
            (Some(low), Some(high)) => {
                let root = |distance: u32| f64::from(distance).sqrt();
                let along = (root(distance) - root(low.0)) / (root(high.0) - root(low.0));
                low.1 + (high.1 - low.1) * along
            }
        }
    }

    /// The prior of a distance from its neighbours.
    fn prior(&self, distance: u32, period: f64) -> Prior {
        let below = self.points.range(..distance).next_back();
        let above = self.points.range(distance + 1..).next();
        let (Some((low, below)), Some((high, above))) = (below, above) else {
            return Prior::Upto(self.base + 5.0 * period);
        };
        let (below, above) = (below.estimate().time, above.estimate().time);
        let along = f64::from(distance - low) / f64::from(high - low);
        let error = (above - below).abs() * 0.12;
        let about = below + (above - below) * along;
        Prior::About(about, error.max(60_000.0).max(0.01 * about))
    }

    /// Probes a distance until it is known well enough, or the probes are used.
    fn point(&mut self, prober: &mut Prober<'_, '_>, distance: u32) -> Result<(), StopReason> {
        if self.points.contains_key(&distance) {
            return Ok(());
        }
        let prior = self.prior(distance, prober.rotation.period());
        let mut estimator = BisectionEstimator::new(prior, self.spread(distance));
        let most = if self.quick { PROBES / 2 } else { PROBES };
        let mut ended = Ok(());
        for _ in 0..if self.quick { 1 } else { TIMES } {
            ended = self.refine(prober, distance, &mut estimator, most);
            let Estimate { time, error } = estimator.estimate();
            // A wrong early bound misleads the bisection: more probes correct it.
            if ended.is_err() || error < self.within(time).max(self.spread(distance)) {
                break;
            }
        }
        if estimator.count() > 2 {
            self.points.insert(distance, estimator);
        }
        ended
    }

    pub(crate) fn refine(
        &self,
        prober: &mut Prober<'_, '_>,
        distance: u32,
        estimator: &mut BisectionEstimator,
        most: usize,
    ) -> Result<(), StopReason> {
        let enough = estimator.count() + most;
        // A probe without a bound is repeated, but not indefinitely.
        for _ in 0..2 * most {
            let Estimate { time, error } = estimator.estimate();
            let coarse = if self.quick { 2.0 } else { 1.0 };
            if estimator.count() >= enough
                || estimator.count() > 2 && error < coarse * ERROR_PART * self.within(time)
            {
                break;
            }
            if let Some(bound) =
                prober.probe(SeekDistance::Cylinders(distance), estimator.median(), self.kind)?
            {
                estimator.learn(bound);
            }
        }
        Ok(())
    }

    /// Estimates the standard deviation of single seeks at some distances.
    fn pilot(
        &mut self,
        prober: &mut Prober<'_, '_>,
        list: &[u32],
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        let last = list[list.len() - 1];
        // The distances are a geometric sequence: its ratio is the eighth root of the stroke, or
        // the square root.
        let factor = f64::from(last).sqrt().sqrt().sqrt();
        let factor = if self.quick { factor * factor * factor * factor } else { factor };
        let mut pilots = Vec::new();
        let mut next = 1.0;
        while next < 1.01 * f64::from(last) {
            let distance = round_u32(next).clamp(1, last);
            next *= factor.max(1.5);
            let prior = Prior::Upto(self.base + 5.0 * prober.rotation.period());
            let mut estimator = BisectionEstimator::new(prior, 60_000.0);
            self.refine(prober, distance, &mut estimator, PROBES)?;
            pilots.push((distance, estimator));
        }
        let rounds = if self.quick { PILOT_ROUNDS / 3 } else { PILOT_ROUNDS };
        for _ in 0..rounds {
            for (distance, estimator) in &mut pilots {
                self.probe_aside(prober, *distance, estimator)?;
                self.refresh_base(prober, base)?;
            }
        }
        let settled = |(distance, estimator): (u32, BisectionEstimator)| {
            let (spread, time) = (variation(&estimator), estimator.estimate().time);
            let mut settled =
                BisectionEstimator::new(Prior::About(time, 0.1 * time + 100_000.0), spread);
            estimator.bounds().iter().for_each(|bound| settled.learn(*bound));
            (distance, spread, settled)
        };
        let found: Vec<_> = pilots.into_iter().map(settled).collect();
        let spreads: Vec<f64> = found.iter().map(|(_, spread, _)| *spread).collect();
        for (nth, (distance, spread, estimator)) in found.into_iter().enumerate() {
            // A much larger deviation than its neighbours' comes from a wrong bound.
            let beside = [nth.checked_sub(1), Some(nth + 1)].into_iter().flatten();
            let beside = beside.filter_map(|nth| spreads.get(nth)).copied().fold(0.0, f64::max);
            let spread = if beside > 0.0 { spread.min(2.0 * beside) } else { spread };
            self.spreads.push((distance, spread));
            if spread < f64::midpoint(spreads[nth], spread) {
                continue;
            }
            self.points.insert(distance, estimator);
        }
        self.spreads.dedup_by_key(|known| known.0);
        Ok(())
    }

    /// Probes a distance at and beside its median.
    fn probe_aside(
        &self,
        prober: &mut Prober<'_, '_>,
        distance: u32,
        estimator: &mut BisectionEstimator,
    ) -> Result<(), StopReason> {
        for _ in 0..PILOT_TIMES {
            let spread = variation(estimator);
            for aside in ASIDE {
                let gap = (estimator.median() + aside * spread).max(self.base / 2.0);
                if let Some(bound) =
                    prober.probe(SeekDistance::Cylinders(distance), gap, self.kind)?
                {
                    estimator.learn(bound);
                }
            }
        }
        Ok(())
    }

    /// Whether most seek times vary, rather than some bounds being wrong.
    fn varies(&self) -> bool {
        let spreads = self.spreads.iter().map(|(_, spread)| *spread).collect();
        crate::estimate::number::median(spreads).is_some_and(|spread| spread > VARIES)
    }

    /// Distances at which the line between two neighbours may be wrong by more than the precision.
    fn bends(&self) -> Vec<u32> {
        let known: Vec<(f64, f64, f64)> = self
            .points
            .iter()
            .map(|(distance, estimator)| {
                let Estimate { time, error } = estimator.estimate();
                (f64::from(*distance), time, error)
            })
            .collect();
        let line = |a: (f64, f64, f64), b: (f64, f64, f64), x: f64| {
            a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)
        };
        let mut wanted = Vec::new();
        for nth in 1..known.len().saturating_sub(2) {
            let [before, low, high, behind] =
                [known[nth - 1], known[nth], known[nth + 1], known[nth + 2]];
            if high.0 - low.0 < 1.5 {
                continue;
            }
            let middle = f64::midpoint(low.0, high.0);
            let slope = |a: (f64, f64, f64), b: (f64, f64, f64)| (b.1 - a.1) / (b.0 - a.0);
            let (left, right) = (slope(before, low), slope(high, behind));
            // A single bend is where the lines from both sides meet.
            let meet = (high.1 - low.1 + left * low.0 - right * high.0) / (left - right);
            let inside = meet > low.0 && meet < high.0;
            let x = if inside { meet } else { middle };
            let straight = line(low, high, x);
            let off = (line(before, low, x) - straight).abs();
            let off = if inside { off } else { off.max((line(high, behind, x) - straight).abs()) };
            let doubt =
                (low.2 + high.2 + before.2.max(behind.2)) * if self.varies() { 2.0 } else { 1.0 };
            if off > BEND * self.within(straight) + doubt {
                let between = round_u32(x).clamp(round_u32(low.0) + 1, round_u32(high.0) - 1);
                wanted.push(between);
            }
        }
        wanted
    }

    /// Probes the least certain points until all are known well enough.
    fn refine_uncertain(
        &mut self,
        prober: &mut Prober<'_, '_>,
        base: &mut ZeroDistance,
    ) -> Result<(), StopReason> {
        for _ in 0..400 {
            let smoothed = self.smoothed();
            let vague: Vec<(f64, u32)> = smoothed
                .iter()
                .map(|sample| (sample.error / self.within(sample.time), round_u32(sample.distance)))
                .filter(|(doubt, _)| *doubt > ERROR_PART)
                .collect();
            if vague.is_empty() {
                break;
            }
            self.refine_worst(prober, base, vague)?;
        }
        Ok(())
    }

    /// The smoothed points, in ns, with all overheads.
    pub(crate) fn smoothed(&self) -> Vec<Sample> {
        let varies = self.varies();
        let samples: Vec<Sample> = self
            .points
            .iter()
            .map(|(distance, estimator)| {
                let Estimate { time, error } = estimator.estimate();
                let error = if varies { ADAPTIVE * error } else { error };
                Sample { distance: f64::from(*distance), time, error }
            })
            .collect();
        smooth(&samples, if varies { AGREES_VARIED } else { AGREES })
    }

    /// The curve, if any point was measured.
    pub(crate) fn seeks(&self, cylinders: u32) -> Option<drive_profile::findings::Seeks> {
        let is_known = |sample: &&Sample| {
            sample.error < (UNKNOWN.0 * (sample.time - self.base)).max(UNKNOWN.1)
        };
        let points: Vec<drive_profile::findings::SeekPoint> = self
            .smoothed()
            .iter()
            .filter(is_known)
            .map(|sample| drive_profile::findings::SeekPoint {
                distance: round_u32(sample.distance),
                time: duration(sample.time - self.base),
                error: duration(sample.error),
                variation: duration(self.spread(round_u32(sample.distance))),
            })
            .collect();
        (!points.is_empty()).then(|| of_points(points, cylinders, self.samples()))
    }
}

/// The curve through given points.
pub(crate) fn of_points(
    points: Vec<drive_profile::findings::SeekPoint>,
    cylinders: u32,
    samples: u32,
) -> drive_profile::findings::Seeks {
    let curve = drive_profile::SeekTable {
        points: points.iter().map(|point| (point.distance, point.time)).collect(),
    };
    let all = f64::from(cylinders);
    let sum: f64 = (1..cylinders)
        .map(|distance| {
            (all - f64::from(distance)) * crate::estimate::number::ns(curve.time(distance))
        })
        .sum();
    drive_profile::findings::Seeks {
        least: curve.time(1),
        mean: duration(2.0 * sum / (all * all)),
        full_stroke: curve.time(cylinders.saturating_sub(1)),
        points,
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_distances_are_all_there_and_long_ones_close_enough() {
        let list = distances(10_022, (EACH, RATIO, PARTS));
        assert_eq!(list[..24], (1..=24).collect::<Vec<u32>>());
        assert_eq!(list.last(), Some(&10_021));
        assert!(list.windows(2).all(|pair| pair[1] - pair[0] <= 33 && pair[1] > pair[0]));
        assert!(list.len() < 500, "{}", list.len());
        assert_eq!(distances(2, (EACH, RATIO, PARTS)), [1]);
        assert!(distances(1, (EACH, RATIO, PARTS)).is_empty());
    }
}
