//! The number of tracks on a cylinder, as far as angles show it: a cylinder begins with another
//! skew.
//!
//! Where the two skews differ little, no single segment shows it. But all of a disk's cylinders
//! have equally many tracks, so that the segments are evaluated together.

use units::Share;

use crate::estimate::angle::wrap;
use crate::estimate::number::real;
use crate::layout::block::HEADS_MAX;
use crate::layout::cylinder_fit::{under, with_heads};
use crate::layout::head_order::FoundHeads;
use crate::layout::segment::Segment;
use crate::layout::skews::{phases_error, step_by_leads};
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::Figure;

/// The least reduction of the sum of squares by a number of heads, in squares of noise.
const GAIN_MIN: f64 = 40.0;
/// The reduction by chance in each segment: the best of many phases is taken.
const CHANCE: f64 = 6.0;
/// The standard deviation of the difference of two skews that are rounded to whole sectors, in
/// sectors.
const ROUNDED: f64 = 0.41;

/// The largest error of a skew, in sectors, at which the segment decides whether skews are whole
/// sectors.
const TRACK_ERROR_MAX: f64 = 0.25;
/// The largest deviation of a cylinder's total skew, which is known better, from whole sectors.
const CYLINDER_OFF_MAX: f64 = 0.12;
/// The least evidence against the next whole number of sectors, as a logarithm.
const NEXT_AGAINST: f64 = 6.0;

/// Finds the number of heads, if it is not `known`, and gives every segment its two skews.
pub(crate) fn infer_heads(
    segments: &mut [Segment],
    sigma: f64,
    known: Option<Figure<u32>>,
) -> Option<Figure<u32>> {
    let samples: usize = segments.iter().map(|segment| segment.phases.len()).sum();
    let (_, heads, layouts) = most_likely(segments, sigma, known)
        .filter(|(gain, _, _)| *gain > GAIN_MIN || known.is_some())?;
    for (segment, layout) in segments.iter_mut().zip(layouts) {
        let moved = layout.mean_step() - segment.layout.mean_step();
        debug_assert!(moved.abs() < 0.5, "the same tracks");
        segment.ending = segment.ending.turned_as(&layout, segment.to);
        segment.layout = layout;
    }
    for segment in &mut *segments {
        combine_steps(segment, sigma);
    }
    // Whole sectors follow from each segment's own measurement: `shrink` moves it towards the mean
    // of all, which may be nearer to another whole number.
    whole_sectors(segments);
    shrink(segments);
    let seen = Figure {
        value: heads,
        spread: 0,
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        confidence: Share::from_percent(97),
    };
    Some(known.unwrap_or(seen))
}

/// Whether phases indicate a number of heads, with certainty or not.
pub(crate) fn heads_indicated(segments: &[Segment], sigma: f64) -> bool {
    most_likely(segments, sigma, None).is_some_and(|(gain, _, _)| gain > 0.0)
}

/// The most likely number of heads, if it is not `known`, its evidence in squares of noise, and the
/// layouts with it.
fn most_likely(
    segments: &[Segment],
    sigma: f64,
    known: Option<Figure<u32>>,
) -> Option<(f64, u32, Vec<TrackLayout>)> {
    let mut best: Option<(f64, u32, Vec<TrackLayout>)> = None;
    for heads in known.map_or_else(|| candidates(segments), |known| vec![known.value]) {
        let fitted = all_with_heads(segments, heads, sigma);
        // Differences of skews by noise have both signs; real ones have the same.
        let sum = |of: fn(f64) -> f64| {
            fitted.iter().map(|(gain, l)| gain.max(0.0) * of(l.extra)).sum::<f64>()
        };
        let alike = sum(|extra| extra).abs() / sum(f64::abs).max(1e-9);
        let chance = CHANCE * real(segments.len() as u64);
        let gain = alike * (fitted.iter().map(|(gain, _)| gain.max(0.0)).sum::<f64>()) - chance;
        if best.as_ref().is_none_or(|(most, _, _)| gain > *most) {
            best = Some((gain, heads, fitted.into_iter().map(|(_, layout)| layout).collect()));
        }
    }
    best
}

/// Candidate numbers of heads: those of most samples so far, or all. Of many segments one shows
/// cylinders by chance, and the segments behind it use them.
fn candidates(segments: &[Segment]) -> Vec<u32> {
    let mut samples = vec![0; HEADS_MAX as usize + 1];
    for segment in segments.iter().filter(|segment| segment.layout.heads > 1) {
        samples[segment.layout.heads as usize] += segment.phases.len();
    }
    let most = samples.iter().copied().max().unwrap_or(0);
    let all: usize = segments.iter().map(|segment| segment.phases.len()).sum();
    if most * 2 <= all {
        return (2..=HEADS_MAX).collect();
    }
    (2..=HEADS_MAX).filter(|heads| samples[*heads as usize] * 2 >= most).collect()
}

/// [`with_heads`] of every segment. A zone begins with a cylinder, and cylinders continue where
/// only a few sectors are between two segments of one zone.
fn all_with_heads(segments: &[Segment], heads: u32, sigma: f64) -> Vec<(f64, TrackLayout)> {
    let mut fitted: Vec<(f64, TrackLayout)> = Vec::new();
    for (nth, segment) in segments.iter().enumerate() {
        let before = nth.checked_sub(1).map(|nth| (&segments[nth], fitted[nth].1));
        let goes_on =
            before.filter(|(before, _)| before.spt == segment.spt).map(|(before, layout)| {
                let (track, sector) = before.ending.track(segment.layout.anchor);
                let nearest = track + i64::from(sector > before.ending.spt / 2);
                under(nearest + i64::from(layout.first), heads)
            });
        fitted.push(with_heads(segment, (heads, goes_on), sigma));
    }
    fitted
}

/// Combines the step by a segment's phases with its step by minimum leads.
fn combine_steps(segment: &mut Segment, sigma: f64) {
    let phases = phases_error(segment, sigma);
    segment.step_error = phases;
    let Some((step, error)) = step_by_leads(segment) else { return };
    let trust = phases * phases / (phases * phases + error * error);
    let step = segment.layout.step + trust * wrap(step - segment.layout.step);
    segment.step_error = error * trust.sqrt();
    (segment.layout, segment.ending) =
        (segment.layout.with_step(step), segment.ending.with_step(step));
}

/// Transfers the skews by minimum leads to other cylinders to the segments of which less is known.
///
/// The additional delay of a cylinder takes the same time in every zone, up to whole sectors.
pub(crate) fn apply_leads(segments: &mut [Segment], seen: &FoundHeads, period: f64) {
    let heads = f64::from(seen.head_layout.heads);
    let (extra, error) = (seen.head_layout.extra / period, seen.head_layout.extra_error / period);
    for segment in &mut *segments {
        let error = error.hypot(ROUNDED / real(segment.layout.spt)) / heads;
        if error < segment.step_error {
            let step = segment.layout.mean_step() - extra / heads;
            segment.step_error = error;
            (segment.layout, segment.ending) =
                (segment.layout.with_step(step), segment.ending.with_step(step));
        }
    }
    whole_sectors(segments);
}

/// Skews cover the times of the electronics and the arm, nearly the same in every zone: each
/// segment's difference is combined with the mean of all, by their errors.
fn shrink(segments: &mut [Segment]) {
    let variance =
        |segment: &Segment| (f64::from(segment.layout.heads) * segment.step_error).powi(2);
    let weights: f64 = segments.iter().map(|segment| 1.0 / variance(segment)).sum();
    let mean = segments.iter().map(|segment| segment.layout.extra / variance(segment)).sum::<f64>()
        / weights;
    // The variance of the segments beyond noise.
    let count = real(segments.len() as u64);
    let spread =
        segments.iter().map(|p| (p.layout.extra - mean).powi(2) / variance(p)).sum::<f64>();
    let typical = count / weights;
    let more = (count - 1.0).max(1.0);
    // Two standard deviations of that occur by chance.
    let excess = (spread / more - 1.0 - 2.0 * (2.0 / more).sqrt()).max(0.0);
    let between = (excess * typical).max(1e-7);
    for segment in segments {
        let own = variance(segment);
        let trust = between / (between + own);
        let extra = mean + trust * (segment.layout.extra - mean);
        // A cylinder's total skew is known better than either skew.
        let step = segment.layout.mean_step() - extra / f64::from(segment.layout.heads);
        (segment.layout, segment.ending) =
            (segment.layout.with_step(step), segment.ending.with_step(step));
    }
}

/// Skews are whole sectors on most drives. Where nearly all segments agree, each takes the whole
/// numbers next to its measurement.
fn whole_sectors(segments: &mut [Segment]) {
    // Earlier results, from less evidence, are discarded.
    for segment in &mut *segments {
        segment.skews = None;
    }
    let near = |number: f64| (number - (number + 0.5).floor()).abs();
    // A cylinder's total skew and a track's skew in sectors, and the error of the latter.
    let sectors = |segment: &Segment| {
        let (spt, heads) = (real(segment.layout.spt), f64::from(segment.layout.heads));
        (
            spt * segment.layout.mean_step() * heads,
            spt * segment.layout.step,
            spt * segment.step_error,
        )
    };
    let exact = |segment: &&Segment| {
        sectors(segment).2 < TRACK_ERROR_MAX && segment.spt == segment.layout.spt
    };
    let alike = |segment: &Segment| {
        let (cylinder, track, _) = sectors(segment);
        near(cylinder) < CYLINDER_OFF_MAX && near(track) < 0.25
    };
    // A segment with few samples may place its cylinders wrongly: segments count by their samples.
    let samples = |segment: &Segment| segment.phases.len();
    let known: usize = segments.iter().filter(exact).map(samples).sum();
    let whole: usize =
        segments.iter().filter(exact).filter(|segment| alike(segment)).map(samples).sum();
    if segments.iter().filter(exact).count() < 2 || whole * 10 < known * 7 {
        return;
    }
    for segment in segments {
        let (cylinder, track, error) = sectors(segment);
        let next = (1.0 - 2.0 * near(track)) / (2.0 * error * error);
        if near(cylinder) >= CYLINDER_OFF_MAX || next < NEXT_AGAINST {
            continue;
        }
        let (cylinder, track) = ((cylinder + 0.5).floor(), (track + 0.5).floor());
        let (spt, heads) = (real(segment.layout.spt), f64::from(segment.layout.heads));
        // The layout stays as it is, because slipped sectors stretch it.
        segment.skews = Some((track / spt, wrap((cylinder - heads * track) / spt)));
    }
}
