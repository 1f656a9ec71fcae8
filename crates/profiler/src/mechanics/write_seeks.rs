//! The seek curve before writes.

use crate::bench::StopReason;
use crate::estimate::bisection::{ADAPTIVE, BisectionEstimator, Estimate, Prior, SPREAD_LEAST};
use crate::estimate::curve_smoothing::{AGREES, Sample, level, smooth};
use crate::estimate::number::{duration, ns};
use crate::mechanics::overheads::ZeroDistance;
use crate::mechanics::prober::{ProbeKind, Prober};
use crate::mechanics::seeks::{AGREES_VARIED, Curve, PROBES, VARIES, of_points};

/// The number of distances at which seeks before writes are compared with seeks before reads.
const WRITES: usize = 36;

/// The curve before writes: the curve before reads, plus a difference that is measured at far fewer
/// distances. Zero-distance writes are measured beside it.
pub(crate) fn before_writes(
    prober: &mut Prober<'_, '_>,
    reads: &drive_profile::findings::Seeks,
    base: &ZeroDistance,
) -> Result<Option<drive_profile::findings::Seeks>, StopReason> {
    let mut base = base.again();
    base.measure(prober, PROBES)?;
    let quick = prober.bench.budget().quick;
    let known = &reads.points;
    let varies = known.iter().any(|point| ns(point.variation) > VARIES);
    let step = known.len().div_ceil(if quick { WRITES / 4 } else { WRITES }).max(1);
    let Some(standing) = base.estimate() else { return Ok(None) };
    let mut curve = Curve::new(ProbeKind::ForcedWrite, standing.time, quick);
    let mut apart: Vec<Sample> = Vec::new();
    let mut samples = 0;
    let last = known.len().saturating_sub(1);
    for (nth, read) in known.iter().enumerate() {
        // Distances are counted from the longest one, beyond which the curve is extrapolated: no
        // two there are close to each other.
        if !(last - nth).is_multiple_of(step) && nth != 0 {
            continue;
        }
        let seek = ns(read.time);
        let expected = seek + apart.last().map_or(standing.time, |last| last.time);
        let spread = ns(read.variation).max(SPREAD_LEAST);
        let mut estimator = BisectionEstimator::new(Prior::About(expected, 250_000.0), spread);
        let ended = curve.refine(prober, read.distance, &mut estimator, 2 * PROBES);
        let Estimate { time, error } = estimator.estimate();
        if estimator.count() > 2 {
            samples += u32::try_from(estimator.count()).unwrap_or(0);
            let error = if varies { ADAPTIVE * error } else { error };
            apart.push(Sample { distance: f64::from(read.distance), time: time - seek, error });
        }
        match ended.and_then(|()| curve.refresh_base(prober, &mut base)) {
            Err(StopReason::OutOfTime) if apart.len() > WRITES / 8 => break,
            ended => ended?,
        }
    }
    let agrees = if varies { AGREES_VARIED } else { AGREES };
    let apart = level(&apart, SPREAD_LEAST).unwrap_or_else(|| smooth(&apart, agrees));
    let base = base.estimate().unwrap_or(standing).time;
    let points: Vec<drive_profile::findings::SeekPoint> = known
        .iter()
        .map(|read| {
            let apart = at_distance(&apart, f64::from(read.distance)) - base;
            drive_profile::findings::SeekPoint { time: duration(ns(read.time) + apart), ..*read }
        })
        .collect();
    Ok((!points.is_empty()).then(|| of_points(points, prober.profile.cylinders, samples)))
}

/// The difference at a distance: linear between samples, constant beyond.
fn at_distance(samples: &[Sample], distance: f64) -> f64 {
    let above = samples.partition_point(|sample| sample.distance < distance);
    match (above.checked_sub(1).and_then(|below| samples.get(below)), samples.get(above)) {
        (None, None) => 0.0,
        (Some(one), None) | (None, Some(one)) => one.time,
        (Some(low), Some(high)) => {
            let along = (distance - low.distance) / (high.distance - low.distance);
            low.time + (high.time - low.time) * along
        }
    }
}
