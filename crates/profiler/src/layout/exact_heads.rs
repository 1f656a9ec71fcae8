//! HeadOrder and the order of surfaces where the arm takes the same time each time: leads are halved until they are exact.
//!
//! Which tracks need equal leads says which of them are one cylinder, and in which order heads are used. Where leads vary,
//! what was halved is wherever the halving was led to, and nothing is told by it: see [`crate::layout::head_order`].

use drive_profile::HeadOrder;
use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::real;
use crate::layout::block::HEADS_MAX;
use crate::layout::head_order::{LEAD_MAX, reached};
use crate::layout::probe::Probe;
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::Figure;

/// How exactly leads are found, in ns.
const STEP: f64 = 500.0;
/// How often each track's lead is halved at most; some tries see nothing.
const ROUNDS: u32 = 28;
/// So many leads are looked for twice.
const ANEW: usize = 9;
/// Leads that should be equal differ by so much at least, in ns.
const EQUAL: f64 = 700.0;
/// Leads that vary by more, in ns, are not the same each time. Two that were halved differ by a step or two anyway.
const VARIES: f64 = 4_000.0;
/// What a lead that stands alone costs, in squares of their error.
const PRICE: f64 = 6.0;
/// By how much a layout has to explain leads better than none, in the same.
const GAIN_MIN: f64 = 40.0;

/// HeadOrder, and their order if it shows.
pub(crate) type Told = (Figure<u32>, Option<HeadOrder>);

/// A track, and the leads between which the least lies with which it is reached.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    track: i64,
    low: f64,
    high: f64,
}

impl Bracket {
    /// The lead, if it was found.
    fn lead(&self) -> Option<f64> {
        (self.high - self.low <= STEP).then(|| f64::midpoint(self.low, self.high))
    }
}

/// By how much leads that were found by halving vary, as a standard deviation in ns: some are looked for anew.
fn vary(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    at: (i64, f64),
    brackets: &[Bracket],
) -> Result<f64, StopReason> {
    let high = LEAD_MAX * probe.period;
    let some = brackets.len().div_ceil(ANEW);
    let few: Vec<Bracket> = brackets.iter().step_by(some).copied().collect();
    let mut anew: Vec<Bracket> = few.iter().map(|b| Bracket { low: 0.0, high, ..*b }).collect();
    halve(probe, layout, at, &mut anew)?;
    let apart = |(one, other): (&Bracket, &Bracket)| Some(one.lead()? - other.lead()?);
    let mut apart: Vec<f64> = few.iter().zip(&anew).filter_map(apart).collect();
    apart.sort_by(f64::total_cmp);
    let Some(middle) = apart.get(apart.len() / 2).copied() else { return Ok(f64::INFINITY) };
    // What all drift by together is the clock's. HeadOrder may be changed in the same time each time where the arm varies: so it
    // is not what most do, but one may be astray.
    let mut apart: Vec<f64> = apart.iter().map(|apart| (apart - middle).abs()).collect();
    apart.sort_by(f64::total_cmp);
    Ok(apart[apart.len().saturating_sub(2)] / 2.0_f64.sqrt())
}

/// Halves the brackets of all tracks in turn, the last first, so that no track was read ahead of or not long ago.
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
            match reached(probe, layout, (base, base + bracket.track), lead)? {
                None => {}
                Some(bound) if bound.reach <= lead => bracket.high = lead,
                Some(_) => bracket.low = lead,
            }
        }
    }
    Ok(())
}

/// HeadOrder and their order, from leads to the tracks behind one in the middle of a piece of so many tracks; none if they do not
/// show, or vary.
///
/// # Errors
/// As [`crate::Bench::check`].
pub(crate) fn heads(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (tracks, until): (i64, f64),
) -> Result<Option<Told>, StopReason> {
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
        // Three cylinders and more have been seen.
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

/// The number of heads and their order that explain the leads best, which are known to so many ns.
fn explain(leads: &[(i64, f64)], error: f64) -> Option<(u32, Option<HeadOrder>)> {
    let last = leads.last()?.0;
    let none = classes(leads, error, |_| (0, false));
    // The best of each order.
    let mut best = [(f64::INFINITY, 0); 2];
    // Two boundaries between cylinders have to be seen. With one head every track is a class of its own.
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

/// What is left of the leads when those of one class are taken to be equal, and the price of the classes.
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
