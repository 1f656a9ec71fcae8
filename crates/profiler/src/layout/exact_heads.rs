//! Heads and head order for an arm with constant seek times: minimum leads are bisected until they
//! are exact.
//!
//! Tracks with equal minimum leads are on one cylinder, and the leads show the order of heads.
//! Where leads vary, bisection converges to any value and shows nothing: see
//! [`crate::layout::head_order`].

use drive_profile::HeadOrder;
use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::real;
use crate::layout::block::HEADS_MAX;
use crate::layout::head_order::{LEAD_MAX, probe_lead};
use crate::layout::probe::Probe;
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::Figure;

/// The precision of a lead, in ns.
const STEP: f64 = 500.0;
/// The most bisection steps of each lead; some attempts observe nothing.
const ROUNDS: u32 = 28;
/// The number of leads that are bisected twice.
const REPEAT_EVERY: usize = 9;
/// The least standard deviation of equal leads, in ns.
const EQUAL: f64 = 700.0;
/// The standard deviation in ns beyond which leads are not constant. Two bisections of one lead
/// differ by a step or two anyway.
const VARIES: f64 = 4_000.0;
/// The price of a class of leads, in squares of their error.
const PRICE: f64 = 6.0;
/// The least improvement of a head layout over none, in the same unit.
const GAIN_MIN: f64 = 40.0;

/// Heads, and their order if it is observable.
pub(crate) type Heads = (Figure<u32>, Option<HeadOrder>);

/// A track, and the bracket of its minimum lead.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    track: i64,
    low: f64,
    high: f64,
}

impl Bracket {
    /// The lead, if the bracket is small enough.
    fn lead(&self) -> Option<f64> {
        (self.high - self.low <= STEP).then(|| f64::midpoint(self.low, self.high))
    }
}

/// The standard deviation in ns of bisected leads: some are bisected again.
fn vary(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    at: (i64, f64),
    brackets: &[Bracket],
) -> Result<f64, StopReason> {
    let high = LEAD_MAX * probe.period;
    let some = brackets.len().div_ceil(REPEAT_EVERY);
    let few: Vec<Bracket> = brackets.iter().step_by(some).copied().collect();
    let mut repeated: Vec<Bracket> = few.iter().map(|b| Bracket { low: 0.0, high, ..*b }).collect();
    halve(probe, layout, at, &mut repeated)?;
    let apart = |(one, other): (&Bracket, &Bracket)| Some(one.lead()? - other.lead()?);
    let mut apart: Vec<f64> = few.iter().zip(&repeated).filter_map(apart).collect();
    apart.sort_by(f64::total_cmp);
    let Some(middle) = apart.get(apart.len() / 2).copied() else { return Ok(f64::INFINITY) };
    // A common drift is the clock's. Head switches may have a constant time where seeks vary: so
    // the second largest deviation counts, not the median, and one may be an outlier.
    let mut apart: Vec<f64> = apart.iter().map(|apart| (apart - middle).abs()).collect();
    apart.sort_by(f64::total_cmp);
    Ok(apart[apart.len().saturating_sub(2)] / 2.0_f64.sqrt())
}

/// Bisects all tracks in descending order, so that none was read ahead or read recently.
fn halve(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (base, until): (i64, f64),
    brackets: &mut [Bracket],
) -> Result<(), StopReason> {
    for _ in 0..ROUNDS {
        for bracket in brackets.iter_mut().rev().filter(|b| b.high - b.low > STEP) {
            if probe.now() > until {
                return Ok(());
            }
            let lead = f64::midpoint(bracket.low, bracket.high);
            match probe_lead(probe, layout, (base, base + bracket.track), lead)? {
                None => {}
                Some(bound) if bound.reach <= lead => bracket.high = lead,
                Some(_) => bracket.low = lead,
            }
        }
    }
    Ok(())
}

/// Heads and their order, from leads to the tracks behind one in the middle of a segment of
/// `tracks` tracks. `None` if they are not observable, or vary.
///
/// # Errors
/// As [`crate::Bench::check`].
pub(crate) fn heads(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (tracks, until): (i64, f64),
) -> Result<Option<Heads>, StopReason> {
    let base = tracks / 2;
    let mut brackets: Vec<Bracket> = Vec::new();
    let mut found = None;
    for count in [24, 72, 3 * i64::from(HEADS_MAX)] {
        let known = brackets.len() as u64;
        let high = LEAD_MAX * probe.period;
        let more = known.cast_signed() + 1..=count.min(tracks - base - 2);
        let mut more: Vec<Bracket> = more.map(|track| Bracket { track, low: 0.0, high }).collect();
        halve(probe, layout, (base, until), &mut more)?;
        let vary = vary(probe, layout, (base, until), &more)?;
        if vary > VARIES {
            return Ok(None);
        }
        brackets.extend(more);
        let leads: Vec<(i64, f64)> =
            brackets.iter().filter_map(|b| Some((b.track, b.lead()?))).collect();
        found = explain(&leads, vary.max(EQUAL)).map(|found| (found, leads.len()));
        // At least three cylinders were observed.
        if found.is_some_and(|((heads, _), _)| i64::from(heads) * 3 <= count) {
            break;
        }
        if probe.now() > until {
            break;
        }
    }
    let Some(((heads, order), samples)) = found else { return Ok(None) };
    let sure = if heads as usize * 3 <= samples { 95 } else { 75 };
    let samples = u32::try_from(samples).unwrap_or(u32::MAX);
    let heads = Figure { value: heads, spread: 0, samples, confidence: Share::from_percent(sure) };
    Ok(Some((heads, order)))
}

/// The number of heads and their order that explain the leads best, which have an error of `error`
/// ns.
fn explain(leads: &[(i64, f64)], error: f64) -> Option<(u32, Option<HeadOrder>)> {
    let last = leads.last()?.0;
    let none = classes(leads, error, |_| (0, false));
    // The best result of each order.
    let mut best = [(f64::INFINITY, 0); 2];
    // Two boundaries between cylinders must be observed. With one head every track is a class.
    for heads in (1..=HEADS_MAX).take_while(|heads| i64::from(*heads) * 2 <= last) {
        let count = i64::from(heads);
        for before in 0..count {
            for (serpentine, best) in [false, true].into_iter().zip(&mut best) {
                let misfit = classes(leads, error, |track| {
                    let (cylinder, head) = ((track + before) / count, (track + before) % count);
                    let down = serpentine && cylinder % 2 == 1;
                    let head = if down { count - 1 - head } else { head };
                    (cylinder, head == before)
                });
                if misfit < best.0 {
                    *best = (misfit, heads);
                }
            }
        }
    }
    let [up, turned] = best;
    let (misfit, heads) = if up.0 <= turned.0 { up } else { turned };
    if none - misfit < GAIN_MIN {
        return None;
    }
    let told = (up.0 - turned.0).abs() > GAIN_MIN / 2.0;
    let order = if up.0 < turned.0 { HeadOrder::Up } else { HeadOrder::UpOnEven };
    Some((heads, told.then_some(order)))
}

/// The residual of the leads with equal leads in each class, and the price of the classes.
fn classes(leads: &[(i64, f64)], error: f64, class: impl Fn(i64) -> (i64, bool)) -> f64 {
    let mut sums: Vec<((i64, bool), f64, f64, f64)> = Vec::new();
    for (track, lead) in leads {
        let class = class(*track);
        match sums.iter_mut().find(|sum| sum.0 == class) {
            Some(sum) => {
                sum.1 += 1.0;
                sum.2 += lead;
                sum.3 += lead * lead;
            }
            None => sums.push((class, 1.0, *lead, lead * lead)),
        }
    }
    let squares: f64 =
        sums.iter().map(|(_, count, sum, square)| (square - sum * sum / count).max(0.0)).sum();
    squares / (error * error) + PRICE * real(sums.len() as u64)
}
