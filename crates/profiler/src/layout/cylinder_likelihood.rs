//! Infers which tracks form a cylinder from the minimum rotational leads between tracks.
//!
//! ```text
//! minimum lead               ┌───────── two cylinders on
//!                 ┌──────────┘          within a cylinder: a head switch; beyond it: a seek
//!      ───────────┘
//!      track  1 2 3 4 5 6 7 …           each step is as wide as a cylinder has tracks
//! ```
//!
//! A *lead* is the time from a command until its sector ends its pass. The minimum lead is the
//! shortest for which the sector is hit in the same revolution. Each head layout (heads, tracks of
//! the first cylinder before the first track, head order) predicts which pairs of tracks have equal
//! minimum leads. Their values follow a smooth curve plus deviations of the arm's own curve. The
//! likelihood of the leads under each layout, integrated over all curves, makes layouts of few and
//! of many heads comparable: with one head every track is a new cylinder.

use drive_profile::HeadOrder;

use crate::estimate::bisection::Estimate;
use crate::estimate::number::{real, signed};
use crate::layout::block::HEADS_MAX;

/// Candidate standard deviations of a minimum lead, in ns.
pub(crate) const SPREADS: [f64; 9] = [2e3, 4e3, 8e3, 16e3, 32e3, 48e3, 64e3, 96e3, 144e3];

/// The minimum lead from one track to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    /// The first track, counted from the base track.
    pub(crate) from: i64,
    /// The number of tracks to the target.
    pub(crate) by: i64,
    /// The logarithm of the likelihood of the bounds for each of [`SPREADS`], and the estimate for
    /// it.
    pub(crate) by_spread: [(f64, Estimate); SPREADS.len()],
}

/// How tracks form cylinders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeadLayout {
    pub(crate) heads: u32,
    /// The tracks of its cylinder before the first track.
    pub(crate) before: u32,
    /// The order of heads, if it is observable.
    pub(crate) order: Option<HeadOrder>,
    /// The additional delay of a track that begins a cylinder, in ns, which the layout of the
    /// measurement lacks, and its standard error.
    pub(crate) extra: f64,
    pub(crate) extra_error: f64,
}

impl HeadLayout {
    /// The deviation of a track from the mean of all, in parts of the cylinder's additional delay:
    /// a sawtooth.
    fn tooth(&self, track: i64) -> f64 {
        let count = i64::from(self.heads);
        -signed((track + i64::from(self.before)).rem_euclid(count)) / signed(count)
    }
}

/// The least evidence against the next best number of heads, as twice a logarithm: one in three
/// thousand.
const MARGIN: f64 = 16.0;
/// The candidate head orders: not observable, and the two in use.
const ORDERS: [Option<HeadOrder>; 3] = [None, Some(HeadOrder::Up), Some(HeadOrder::UpOnEven)];
/// The same for the head order.
const ORDER_MARGIN: f64 = 12.0;
/// The prior standard deviation of the leads' level, in ns.
const LEVEL: f64 = 500_000.0;
/// The prior standard deviation of their rise over a cylinder, in ns.
const RISE: f64 = 100_000.0;
/// The prior standard deviation of the cylinder's additional delay where angles do not show it, in
/// ns.
const EXTRA: f64 = 100_000.0;
/// Candidate standard deviations of equal leads beyond their errors, in ns.
const NOISES: [f64; 5] = [0.0, 4_000.0, 10_000.0, 25_000.0, 60_000.0];
/// Candidate deviations of a curve from its smooth shape at each distance, in ns.
const BENDS: [f64; 5] = [0.0, 1_000.0, 4_000.0, 16_000.0, 64_000.0];

/// The angular deviations of the same tracks from a layout without cylinders, in ns.
#[derive(Clone, Debug)]
pub(crate) struct Angles {
    /// Tracks counted from the base track, and the deviation of one of their blocks.
    pub(crate) off: Vec<(i64, f64)>,
    /// The standard deviation of its noise.
    pub(crate) noise: f64,
}

/// The posterior of the cylinder's additional delay in ns, and the evidence of the angles against
/// the head layout.
#[derive(Clone, Copy, Debug)]
struct Extra {
    mean: f64,
    precision: f64,
    evidence: f64,
}

impl Angles {
    /// The posterior for a head layout: the tracks of a cylinder deviate like a sawtooth.
    fn extra(&self, head_layout: &HeadLayout) -> Extra {
        let prior = 1.0 / (EXTRA * EXTRA);
        let (mut n, mut sum, mut square, mut off, mut both) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (track, late) in &self.off {
            let tooth = head_layout.tooth(*track);
            n += 1.0;
            sum += tooth;
            square += tooth * tooth;
            off += late;
            both += tooth * late;
        }
        if head_layout.heads == 1 || n < 2.0 {
            return Extra { mean: 0.0, precision: prior, evidence: 0.0 };
        }
        let variance = self.noise * self.noise;
        let precision = prior + (square - sum * sum / n).max(0.0) / variance;
        let mean = (both - sum * off / n) / variance / precision;
        let evidence = (precision / prior).ln() - mean * mean * precision;
        Extra { mean, precision, evidence }
    }
}

/// The head layout that explains the leads, if the evidence against those with other numbers of
/// heads suffices.
pub(crate) fn explain(leads: &[Lead], angles: &Angles) -> Option<HeadLayout> {
    let mut all: Vec<[(f64, HeadLayout); 3]> = Vec::new();
    let level = level(leads);
    for heads in 1..=HEADS_MAX {
        all.push(ORDERS.map(|order| most_likely((leads, angles), (heads, order), level)));
    }
    let least = |orders: &[(f64, HeadLayout); 3]| orders[0].0.min(orders[1].0).min(orders[2].0);
    all.sort_by(|one, other| least(one).total_cmp(&least(other)));
    if least(&all[1]) - least(&all[0]) < MARGIN {
        return None;
    }
    let mut orders = all[0];
    orders.sort_by(|one, other| one.0.total_cmp(&other.0));
    let [(best, head_layout), (next, _), _] = orders;
    let by_spread = next - best > ORDER_MARGIN;
    Some(HeadLayout { order: head_layout.order.filter(|_| by_spread), ..head_layout })
}

/// The mean lead.
fn level(leads: &[Lead]) -> f64 {
    let middle = SPREADS.len() / 2;
    leads.iter().map(|lead| lead.by_spread[middle].1.time).sum::<f64>() / real(leads.len() as u64)
}

/// The most likely head layout with a number of heads and an order, and the evidence against it.
fn most_likely(
    (leads, angles): (&[Lead], &Angles),
    (heads, order): (u32, Option<HeadOrder>),
    level: f64,
) -> (f64, HeadLayout) {
    let head_layout = |before| HeadLayout { heads, before, order, extra: 0.0, extra_error: EXTRA };
    // The best of many candidates fits well by chance.
    let chance = 2.0 * f64::from(heads).ln();
    (0..heads)
        .flat_map(|before| {
            let (evidence, pairs) = pairs(leads, head_layout(before), level);
            let extra = angles.extra(&head_layout(before));
            NOISES.map(|noise| {
                let (more, head_layout) = weigh(&pairs, (head_layout(before), extra), noise);
                (evidence + extra.evidence + more + chance, head_layout)
            })
        })
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .expect("a cylinder has a track")
}

/// The prediction of a head layout for a pair of tracks, and its lead.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The cylinders between the tracks, and whether they share a head.
    away: i64,
    same: bool,
    /// The angular deviation of the target from the layout, in parts of the cylinder's additional
    /// delay.
    rotated: f64,
    lead: Estimate,
}

/// The predictions of a head layout for all pairs, and the evidence against their deviations: pairs
/// with a seek have one standard deviation, and pairs without one have another.
fn pairs(leads: &[Lead], head_layout: HeadLayout, level: f64) -> (f64, Vec<Pair>) {
    let count = i64::from(head_layout.heads);
    let address = |track: i64| {
        let track = track + i64::from(head_layout.before);
        let (cylinder, head) = (track.div_euclid(count), track.rem_euclid(count));
        let down = head_layout.order == Some(HeadOrder::UpOnEven) && cylinder % 2 != 0;
        (cylinder, if down { count - 1 - head } else { head })
    };
    let mut likely = [[0.0; SPREADS.len()]; 2];
    let mut pairs = Vec::with_capacity(leads.len());
    for lead in leads {
        let (begin, end) = (address(lead.from), address(lead.from + lead.by));
        let away = end.0 - begin.0;
        for (sum, by_spread) in likely[usize::from(away > 0)].iter_mut().zip(&lead.by_spread) {
            *sum += by_spread.0;
        }
        let same = head_layout.order.is_some() && begin.1 == end.1;
        // Leads are measured by the layout of the target, whatever the first track.
        let rotated = head_layout.tooth(lead.from + lead.by);
        pairs.push(Pair { away, same, rotated, lead: lead.by_spread[0].1 });
    }
    let best = likely.map(|sums| {
        let all = (0..).zip(sums);
        all.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are some")
    });
    for (pair, lead) in pairs.iter_mut().zip(leads) {
        let Estimate { time, error } = lead.by_spread[best[usize::from(pair.away > 0)].0].1;
        pair.lead = Estimate { time: time - level, error };
    }
    (-2.0 * (best[0].1 + best[1].1), pairs)
}

/// Sums over leads that should be equal.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// The cylinders between the tracks, and whether they share a head.
    away: i64,
    same: bool,
    /// Sums of weights, and of weights with leads and with angular deviations.
    weight: f64,
    lead: f64,
    leads: f64,
    rotated: f64,
    rotated_squares: f64,
    both: f64,
}

/// The evidence against a head layout, as twice a logarithm up to a constant, for a standard
/// deviation of equal leads beyond their errors; and its cylinders' additional delay.
fn weigh(
    pairs: &[Pair],
    (head_layout, known): (HeadLayout, Extra),
    noise: f64,
) -> (f64, HeadLayout) {
    let (classes, errors) = classes(pairs, noise);
    // Within a class leads rise with the tracks by the delay that the layout lacks.
    let (mut within, mut rotated_squares, mut both) = (0.0, 0.0, 0.0);
    for class in &classes {
        within += (class.leads - class.lead * class.lead / class.weight).max(0.0);
        rotated_squares +=
            (class.rotated_squares - class.rotated * class.rotated / class.weight).max(0.0);
        both += class.both - class.lead * class.rotated / class.weight;
    }
    let (mut extra, precision) = (0.0, rotated_squares + known.precision);
    if head_layout.heads > 1 {
        let believed = known.precision * known.mean;
        extra = (believed - both) / precision;
        within += believed * known.mean - extra * extra * precision;
    }
    let means: Vec<Mean> = classes
        .iter()
        .map(|class| Mean {
            away: class.away,
            same: class.same,
            lead: (class.lead + extra * class.rotated) / class.weight,
            variance: 1.0 / class.weight,
        })
        .collect();
    let combined: f64 = means.iter().map(|mean| -mean.variance.ln()).sum();
    let shapes: [fn(f64) -> f64; 3] = [f64::sqrt, |away| (away - 1.0).sqrt(), |away| away];
    let curve = |means: &[Mean]| {
        let each = BENDS.iter().flat_map(|bend| shapes.map(|shape| (*bend, shape)));
        each.map(|(bend, shape)| curved(means, bend, shape)).fold(f64::INFINITY, f64::min)
    };
    let (same, other): (Vec<Mean>, Vec<Mean>) = means.iter().partition(|mean| mean.same);
    let evidence = errors + within + combined + curve(&other) + curve(&same);
    let evidence = evidence + falling(&other) + falling(&same) + longer(&same, &other);
    let extra_error = precision.sqrt().recip();
    (evidence, HeadLayout { extra, extra_error, ..head_layout })
}

/// The leads by classes of equal ones, and the logarithms of their variances.
fn classes(pairs: &[Pair], noise: f64) -> (Vec<Class>, f64) {
    let mut classes: Vec<Class> = Vec::new();
    let mut errors = 0.0;
    for Pair { away, same, rotated, lead } in pairs {
        let weight = 1.0 / (lead.error * lead.error + noise * noise);
        errors -= weight.ln();
        let nth = usize::try_from(2 * away + i64::from(*same)).expect("pairs go on");
        if nth >= classes.len() {
            classes.resize(nth + 1, Class::default());
        }
        let class = &mut classes[nth];
        (class.away, class.same) = (*away, *same);
        class.weight += weight;
        class.lead += weight * lead.time;
        class.leads += weight * lead.time * lead.time;
        class.rotated += weight * rotated;
        class.rotated_squares += weight * rotated * rotated;
        class.both += weight * rotated * lead.time;
    }
    classes.retain(|class| class.weight > 0.0);
    (classes, errors)
}

/// The evidence against leads that fall with the distance, unlike seek times.
fn falling(means: &[Mean]) -> f64 {
    let mut evidence = 0.0;
    let mut most: Option<&Mean> = None;
    for mean in means {
        match most {
            Some(most) if mean.lead < most.lead => evidence += apart(most, mean),
            _ => most = Some(mean),
        }
    }
    evidence
}

/// The evidence against pairs that take longer with the same head.
fn longer(same: &[Mean], other: &[Mean]) -> f64 {
    let beside = |mean: &Mean| {
        let other = other.iter().find(|other| other.away == mean.away && other.lead < mean.lead);
        other.map_or(0.0, |other| apart(mean, other))
    };
    same.iter().map(beside).sum()
}

/// The squared difference of two means, in variances.
fn apart(one: &Mean, other: &Mean) -> f64 {
    (one.lead - other.lead).powi(2) / (one.variance + other.variance)
}

/// The mean lead of a class.
#[derive(Clone, Copy, Debug)]
struct Mean {
    away: i64,
    same: bool,
    lead: f64,
    variance: f64,
}

/// The evidence against leads that follow a curve of this shape, as twice a logarithm. The curve
/// has any level and slope, and deviates by `bend` at each distance. Pairs within a cylinder have a
/// lead of their own.
fn curved(means: &[Mean], bend: f64, shape: fn(f64) -> f64) -> f64 {
    let mut evidence = 0.0;
    // Sums of weights by powers of the shape, and with leads, including the priors.
    let (mut weights, mut rises, mut squares) = (1.0 / (LEVEL * LEVEL), 0.0, 1.0 / (RISE * RISE));
    let mut leads = (0.0, 0.0);
    let (priors, mut any) = (weights * squares, false);
    for mean in means {
        if mean.away == 0 {
            // A layout with one head has no such pair, and is not more likely for that.
            evidence += mean.variance.ln();
            continue;
        }
        any = true;
        let (variance, rise) = (mean.variance + bend * bend, shape(signed(mean.away)));
        evidence += variance.ln() + mean.lead * mean.lead / variance;
        weights += 1.0 / variance;
        rises += rise / variance;
        squares += rise * rise / variance;
        leads.0 += mean.lead / variance;
        leads.1 += rise * mean.lead / variance;
    }
    if !any {
        return evidence;
    }
    let determinant = weights * squares - rises * rises;
    let (level, slope) = leads;
    let explained = squares * level * level - 2.0 * rises * level * slope + weights * slope * slope;
    evidence + (determinant / priors).ln() - explained / determinant
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ANGLES: Angles = Angles { off: Vec::new(), noise: 1.0 };

    /// Leads of a disk with `heads` heads, `before` tracks of the first cylinder before the first
    /// one, whose cylinders begin `extra` ns later than the layout states. Each has an error of
    /// `error` ns, and a deviation of a third of that either way.
    fn leads((heads, before): (i64, i64), extra: f64, error: f64) -> Vec<Lead> {
        let mut leads = Vec::new();
        for nth in 0..36 {
            let (from, by) = (nth * 31 % 577, nth % 6 + 1);
            let end = from + by + before;
            let away = end.div_euclid(heads) - (from + before).div_euclid(heads);
            let arm = if away == 0 { 600e3 } else { 650e3 + 60e3 * signed(away).sqrt() };
            let rotated = extra * signed(end.rem_euclid(heads)) / signed(heads);
            let off = error * signed(nth % 3 - 1) / 3.0;
            let estimate = Estimate { time: arm + rotated + off, error };
            leads.push(Lead { from, by, by_spread: [(0.0, estimate); SPREADS.len()] });
        }
        leads
    }

    #[test]
    fn steps_of_leads_show_the_number_of_heads_and_where_cylinders_begin() {
        for (heads, before) in [(2, 1), (5, 3), (9, 0), (18, 11)] {
            let found =
                explain(&leads((heads, before), 40e3, 6e3), &NO_ANGLES).expect("a head_layout");
            assert_eq!((i64::from(found.heads), i64::from(found.before)), (heads, before));
            let off = (found.extra - 40e3).abs();
            assert!(off < 4.0 * found.extra_error, "{found:?}");
        }
    }

    #[test]
    fn where_every_track_is_a_step_there_is_one_head() {
        let found = explain(&leads((1, 0), 0.0, 4e3), &NO_ANGLES).expect("a head_layout");
        assert_eq!(found.heads, 1);
    }

    #[test]
    fn leads_that_are_known_roughly_say_nothing_of_heads() {
        assert_eq!(explain(&leads((5, 3), 0.0, 150e3), &NO_ANGLES), None);
        assert_eq!(explain(&leads((1, 0), 0.0, 150e3), &NO_ANGLES), None);
    }
}
