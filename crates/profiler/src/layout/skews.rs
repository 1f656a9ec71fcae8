//! Separates the two skews, once the number of tracks on a cylinder is known.
//!
//! A cylinder's total skew is known from thousands of tracks; the part of its last step is small
//! compared with noise. So sectors are requested that are hit in time or missed by a revolution,
//! which noise cannot blur, without a seek:
//!
//! ```text
//! track    first ─────────────▶ last      one head switch on one cylinder in both directions,
//!           last ─────────────▶ first     which take equal times: a difference of their minimum
//!                                         leads is an error of the map
//! ```
//!
//! Seek times vary by more than the skews differ; the time of a head switch is the electronics' and
//! is constant. Its deviation, and the path's, is measured as well. Where it exceeds that of mean
//! completions, the phases of the first and the last tracks of adjacent cylinders are compared
//! instead. Each location has a result of its own, so that slipped sectors between locations have
//! no effect.

use crate::bench::StopReason;
use crate::estimate::angle::{centre, wrap};
use crate::estimate::bisection::{BisectionEstimator, Estimate, Prior};
use crate::estimate::number::{floor, fraction, real, signed};
use crate::layout::cylinder_fit::{under, with_heads};
use crate::layout::head_order::{LEAD_MAX, probe_lead};
use crate::layout::probe::Probe;
use crate::layout::segment::{Segment, StepSample};
use crate::layout::track_layout::TrackLayout;

/// The locations of each zone between two decisions.
const ROUNDS: u32 = 4;
/// The cylinders of a location with mean completions, two reads each.
const CYLINDERS: i64 = 8;
/// The most head switches of each direction at a location, each on its own cylinder, so that
/// nothing there was read recently.
const SWITCHES: i64 = 15;
/// Candidate standard deviations of a minimum lead, in ns.
const SPREADS: [f64; 4] = [2_000.0, 8_000.0, 32_000.0, 128_000.0];
/// The sufficient error of a lead, as a part of its standard deviation.
const ENOUGH: f64 = 0.45;
/// The least number of head switches of a lead.
const SWITCHES_MIN: usize = 6;
/// The largest error of a lead after all head switches, in ns.
const ERROR_MAX: f64 = 60_000.0;
/// The shortest head switch, in ns: a shorter one shows that slipped sectors have moved the tracks.
const LEAST: f64 = 20_000.0;
/// The ratio of a lead's deviation to that of head switches that only slipped sectors between the
/// tracks explain.
const SLIPPED: f64 = 4.0;
/// The prior difference of leads between locations, in ns.
const LOCATIONS_DEVIATION: f64 = 60_000.0;
/// The sufficient error of the skews, as a part of the shorter one.
const SEPARATED: f64 = 0.002;
/// The least number of locations that show how much they differ.
const LOCATIONS_MIN: usize = 4;
/// The standard error of a median, relative to that of a mean.
const MEDIAN: f64 = 1.25;

/// The answers on whether two tracks are on one cylinder: all but one must agree.
const ANSWERS: usize = 5;
/// The attempts for these answers.
const ATTEMPTS: i64 = 12;
/// The least additional lead of the next cylinder beyond the next head, in ns, that distinguishes
/// the two.
const APART_MIN: f64 = 20_000.0;
/// The most mistakes of that distinction.
const WRONG_MAX: u32 = 2;
/// The evidence of phases, in squares of noise, that outweighs where cylinders begin by leads: a
/// few reads.
const AGAINST: f64 = 30.0;

/// The known properties of head switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadSwitchStats {
    /// The last minimum lead, in ns.
    least: Option<f64>,
    /// Its standard deviation at each location, in ns.
    spreads: Vec<f64>,
    /// The lead in ns that reaches other heads of the same cylinder, but no other cylinder, if
    /// leads distinguish them.
    same: Option<f64>,
}

impl HeadSwitchStats {
    /// The median standard deviation, in ns.
    fn spread(&self) -> f64 {
        let mut spreads = self.spreads.clone();
        spreads.sort_by(f64::total_cmp);
        spreads.get(spreads.len() / 2).copied().unwrap_or(SPREADS[0])
    }

    /// Whether mean completions determine a step better than head switches do, with as many reads.
    fn is_blurred(&self, probe: &Probe<'_, '_>) -> bool {
        let way = MEDIAN * self.spread() * 4.0_f64.sqrt();
        let mean = probe.sigma * probe.period * 2.0;
        self.spreads.len() >= LOCATIONS_MIN && way > mean
    }
}

/// The longest segment of each zone, which determines the zone's skews.
pub(crate) fn longest(segments: &[Segment]) -> Vec<usize> {
    (0..segments.len())
        .filter(|nth| {
            let length = |segment: &Segment| segment.to - segment.from;
            let spt = segments[*nth].spt;
            let alike = |segment: &&Segment| segment.spt == spt;
            segments.iter().filter(alike).all(|other| length(other) <= length(&segments[*nth]))
        })
        .collect()
}

/// Whether the skews of a segment are known well enough.
pub(crate) fn is_separated(segment: &Segment) -> bool {
    let TrackLayout { step, extra, heads, .. } = segment.layout;
    let error = segment.step_error * f64::from(heads);
    error < SEPARATED * fraction(step).min(fraction(step + extra))
}

/// Measures the unknown skews of the longest segment of each zone in turn, while there is time.
pub(crate) fn measure(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
    (switch, end): (&mut HeadSwitchStats, f64),
) -> Result<(), StopReason> {
    let mut untold = longest(segments);
    untold.retain(|nth| !is_separated(&segments[*nth]));
    for _ in 0..ROUNDS {
        for nth in &untold {
            if probe.now() > end {
                return Ok(());
            }
            let segment = &mut segments[*nth];
            let blurred = switch.is_blurred(probe) || segment.steps_lost >= LOCATIONS_MIN;
            let location = if blurred {
                compare_phases(probe, segment)?
            } else {
                switch_heads(probe, segment, switch)?
            };
            match location {
                Some(location) => segment.steps.push(location),
                None => segment.steps_lost += 1,
            }
        }
    }
    Ok(())
}

/// Finds where cylinders begin in the longest segment of each zone, from the leads to other heads
/// and to the next cylinder.
pub(crate) fn align_cylinders(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
    switch: &mut HeadSwitchStats,
) -> Result<(), StopReason> {
    let Some(long) = segments.iter().max_by_key(|segment| segment.to - segment.from) else {
        return Ok(());
    };
    switch.same = same_cylinder_lead(probe, long)?;
    for nth in longest(segments) {
        let segment = &mut segments[nth];
        let Some(on) = on_cylinder(probe, segment, switch)? else { continue };
        let TrackLayout { heads, first, .. } = segment.layout;
        let seen = under(i64::from(first) - i64::from(on), heads);
        let with = |seen| {
            with_heads(&Segment { first_seen: seen, ..segment.clone() }, (heads, None), probe.sigma)
                .0
        };
        if seen == first || with(Some(first)) - with(Some(seen)) < AGAINST {
            segment.first_seen = Some(seen);
        }
    }
    Ok(())
}

/// A lead that reaches the other heads of a cylinder, but not the next cylinder, if there is one.
fn same_cylinder_lead(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
) -> Result<Option<f64>, StopReason> {
    let layout = &segment.layout;
    let heads = i64::from(layout.heads);
    // Of a track's two neighbours at least one is on its cylinder; the track a cylinder on is not.
    let distances = [heads, 1, -1];
    let upto = LEAD_MAX * probe.period;
    let mut leads = distances.map(|_| BisectionEstimator::new(Prior::Upto(upto), SPREADS[1]));
    let all = SWITCHES * 3;
    if layout.track(segment.to - 1).0 < heads * (all + 5) {
        return Ok(None);
    }
    let base = random_cylinder(probe, segment, all + 1) + heads;
    for nth in (0..all).rev() {
        let which = usize::try_from(nth % 3).expect("one of three");
        let from = base + heads * nth;
        let bound =
            probe_lead(probe, layout, (from, from + distances[which]), leads[which].median())?;
        if let Some(bound) = bound {
            leads[which].learn(bound);
        }
    }
    let [cylinder, next, previous] = leads.map(|lead| estimate_spread([&lead]).1[0].time);
    let (way, head) = if next < previous { (1, next) } else { (-1, previous) };
    if cylinder - head < APART_MIN {
        return Ok(None);
    }
    let lead = f64::midpoint(cylinder, head);
    // The lead must distinguish them each time: with varying seek times it does not.
    let base = random_cylinder(probe, segment, all + 1) + heads;
    let mut wrong = 0;
    for nth in (0..all).rev() {
        let from = base + heads * nth;
        let (to, same) = if nth % 2 == 0 { (from + heads, false) } else { (from + way, true) };
        let bound = probe_lead(probe, layout, (from, to), lead)?;
        wrong += u32::from(bound.is_none_or(|bound| (bound.reach <= lead) != same));
    }
    Ok((wrong <= WRONG_MAX).then_some(lead))
}

/// The number of tracks on the cylinder of the track that a segment takes for its cylinder's first.
/// `None` if leads do not show it.
fn on_cylinder(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
    switch: &HeadSwitchStats,
) -> Result<Option<u32>, StopReason> {
    let Some(lead) = switch.same else { return Ok(None) };
    let layout = &segment.layout;
    let heads = i64::from(layout.heads);
    if layout.track(segment.to - 1).0 < heads * (ATTEMPTS + 3) {
        return Ok(None);
    }
    let (mut same, mut other) = (1, heads + 1);
    while other - same > 1 {
        let tracks = i64::midpoint(same, other);
        let base = random_cylinder(probe, segment, ATTEMPTS);
        let mut hits = Vec::new();
        for nth in (0..ATTEMPTS).rev() {
            let first = base + heads * nth;
            if hits.len() < ANSWERS {
                let bound = probe_lead(probe, layout, (first, first + tracks - 1), lead)?;
                hits.extend(bound.map(|bound| bound.reach <= lead));
            }
        }
        let all = hits.len();
        let hits = hits.into_iter().filter(|hits| *hits).count();
        if all < ANSWERS || hits.abs_diff(all - hits) + 2 < all {
            return Ok(None);
        }
        if 2 * hits > all {
            same = tracks;
        } else {
            other = tracks;
        }
    }
    Ok(u32::try_from(same).ok())
}

/// A pseudo-random first track of a cylinder, with `cylinders` cylinders of the segment behind it.
fn random_cylinder(probe: &mut Probe<'_, '_>, segment: &Segment, cylinders: i64) -> i64 {
    let layout = segment.layout;
    let heads = i64::from(layout.heads);
    let tracks = layout.track(segment.to - 1).0 - heads * (cylinders + 2);
    let base = floor(probe.next_random() * real(tracks.max(1).cast_unsigned())).cast_signed();
    base - (base + i64::from(layout.first)).rem_euclid(heads) + heads
}

/// The step by the phases of the first and the last tracks of adjacent cylinders. `None` if they do
/// not determine it.
fn compare_phases(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
) -> Result<Option<StepSample>, StopReason> {
    let layout = &segment.layout;
    let heads = i64::from(layout.heads);
    let base = random_cylinder(probe, segment, CYLINDERS);
    let mut off = [Vec::new(), Vec::new()];
    for cylinder in (0..CYLINDERS).rev() {
        for (off, within) in off.iter_mut().zip([heads - 1, 0]) {
            let track = base + heads * cylinder + within;
            let inside = floor((0.1 + 0.8 * probe.next_random()) * real(layout.spt));
            let Some(at) = layout.begins(track).map(|begin| begin + inside) else { continue };
            if at >= segment.to {
                continue;
            }
            let sample = probe.sample(at)?;
            off.extend(sample.map(|sample| layout.off(at, probe.phase(&sample))));
        }
    }
    let [last, first] = off.map(|off| centre(&off, 5.0 * probe.sigma));
    let (Some(last), Some(first)) = (last, first) else { return Ok(None) };
    let steps = signed(heads - 1);
    let count = 1.0 / f64::from(last.count) + 1.0 / f64::from(first.count);
    let error = probe.sigma * count.sqrt() / steps;
    Ok(Some(StepSample { step: layout.step + wrap(last.mean - first.mean) / steps, error }))
}

/// The step by head switches at one location. `None` if they do not determine it.
fn switch_heads(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
    switch: &mut HeadSwitchStats,
) -> Result<Option<StepSample>, StopReason> {
    let layout = &segment.layout;
    let heads = i64::from(layout.heads);
    if layout.track(segment.to - 1).0 < heads * (2 * SWITCHES + 3) {
        return Ok(None);
    }
    let base = random_cylinder(probe, segment, 2 * SWITCHES);
    let prior = match switch.least {
        None => Prior::Upto(LEAD_MAX * probe.period),
        Some(least) => Prior::About(least, LOCATIONS_DEVIATION),
    };
    let spread = switch.spread();
    let mut leads =
        [BisectionEstimator::new(prior, spread), BisectionEstimator::new(prior, spread)];
    // The order is descending, so that nothing is read ahead.
    for nth in (0..2 * SWITCHES).rev() {
        let first = base + heads * nth;
        let last = first + heads - 1;
        let (lead, way) = if nth % 2 == 1 {
            (&mut leads[0], (first, last))
        } else {
            (&mut leads[1], (last, first))
        };
        if lead.count() < SWITCHES_MIN || lead.estimate().error > ENOUGH * spread {
            let bound = probe_lead(probe, layout, way, lead.median())?;
            if let Some(bound) = bound {
                lead.learn(bound);
            }
        }
    }
    let (spread, [to_last, to_first]) = estimate_spread([&leads[0], &leads[1]]);
    let few = leads.iter().any(|lead| lead.count() < SWITCHES_MIN);
    if few || to_last.error.max(to_first.error) > ERROR_MAX {
        return Ok(None);
    }
    switch.spreads.push(spread);
    let slipped = spread > SLIPPED * switch.spread().max(SPREADS[0]);
    let edge = to_last.time.min(to_first.time) < LEAST;
    if slipped || edge {
        return Ok(None);
    }
    switch.least = Some(f64::midpoint(to_last.time, to_first.time));
    let steps = signed(heads - 1) * probe.period;
    Ok(Some(StepSample {
        step: layout.step - (to_last.time - to_first.time) / steps,
        error: (to_last.error.powi(2) + to_first.error.powi(2)).sqrt() / steps,
    }))
}

/// The most likely standard deviation of leads, and the leads for it.
fn estimate_spread<const N: usize>(leads: [&BisectionEstimator; N]) -> (f64, [Estimate; N]) {
    let of = |spread: f64| {
        let refined = leads.map(|lead| lead.with_spread_near(spread));
        let found = refined.each_ref().map(BisectionEstimator::estimate);
        let likely =
            refined.iter().zip(&found).map(|(lead, found)| lead.likelihood(found.time, spread));
        (likely.product::<f64>(), spread, found)
    };
    let most = SPREADS.map(of).into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let (_, spread, found) = most.expect("there are spreads");
    (spread, found)
}

/// The step by all locations of a segment, and its error, in revolutions. `None` if there are too
/// few.
pub(crate) fn step_by_leads(segment: &Segment) -> Option<(f64, f64)> {
    if segment.steps.len() < LOCATIONS_MIN {
        return None;
    }
    let mut locations = segment.steps.clone();
    locations.sort_by(|one, other| one.step.total_cmp(&other.step));
    let count = real(locations.len() as u64);
    let middle = f64::midpoint(
        locations[(locations.len() - 1) / 2].step,
        locations[locations.len() / 2].step,
    );
    // A slipped sector between the two tracks changes one location's result, however precise it is:
    // so the median is used, and the locations' own distances from it, whose mean is four fifths of
    // the standard deviation.
    let apart =
        locations.iter().map(|location| (location.step - middle).abs()).sum::<f64>() / count;
    let own = locations.iter().map(|location| location.error).sum::<f64>() / count;
    Some((middle, MEDIAN * (MEDIAN * apart).max(own) / count.sqrt()))
}

/// The error of a track's skew by phases alone, in revolutions: that of the height of a sawtooth of
/// as many steps as heads, with the observed deviations.
pub(crate) fn phases_error(segment: &Segment, sigma: f64) -> f64 {
    let heads = f64::from(segment.layout.heads);
    let steps = heads * heads / (heads * heads - 1.0).max(1.0);
    let count = real(segment.phases.len().max(1) as u64);
    let square = segment.layout.misfit(&segment.phases, 5.0 * sigma) / count;
    square.max(sigma * sigma).sqrt() * (12.0 * steps / count).sqrt() / heads
}
