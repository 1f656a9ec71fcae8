//! The two skews told apart, once it is known how many tracks make a cylinder.
//!
//! What a cylinder turns by is known from thousands of tracks; how much of it falls on the last of its steps is little beside
//! noise. So sectors are asked for that are caught just in time or lost for a turn, which no noise hides:
//!
//! ```text
//! cylinder      c                c + 16
//! track      first ─────────────▶ last      as many cylinders and one change of heads on both ways: whatever
//!             last ─────────────▶ first     the least lead of one is more than that of the other is the map's fault
//! ```
//!
//! Where an arm varies, so do leads, and the mean of many completions tells more.

use crate::bench::Halt;
use crate::circle::{part, real, signed, whole};
use crate::dynamics::threshold::{Prior, Threshold};
use crate::lattice::Lattice;
use crate::probe::Probe;
use crate::surfaces::reached;
use crate::sweep::Piece;

/// How often each zone is asked in between.
const ROUNDS: u32 = 24;
/// Cylinders each time, two reads each.
const CYLINDERS: i64 = 8;
/// Cylinders between where a way begins and where it ends.
const AWAY: i64 = 16;
/// Ways of each of the two kinds at a place at most, each from a cylinder of its own: nothing there was read lately.
const WAYS: i64 = 15;
/// By how much the least lead of a way varies if nothing makes it, in ns.
const SPREAD: f64 = 2_000.0;
/// A lead is known well enough, in ns.
const ENOUGH: f64 = 900.0;
/// One that is not known so well after all ways is not known, in ns.
const VAGUE: f64 = 6_000.0;
/// By how much leads of two places differ, in ns.
const PLACES_APART: f64 = 60_000.0;
/// The skews are known well enough: their error is this part of the shorter one.
const TOLD: f64 = 0.002;
/// From so many places on it is known by how much leads vary.
const PLACES_MIN: usize = 4;

/// The longest piece of each zone, which gives the zone its skews.
pub(crate) fn longest(pieces: &[Piece]) -> Vec<usize> {
    (0..pieces.len())
        .filter(|nth| {
            let length = |piece: &Piece| piece.to - piece.from;
            let spt = pieces[*nth].spt;
            let alike = |piece: &&Piece| piece.spt == spt;
            pieces.iter().filter(alike).all(|other| length(other) <= length(&pieces[*nth]))
        })
        .collect()
}

/// Whether the skews of a piece are known well enough.
pub(crate) fn is_told(piece: &Piece) -> bool {
    let Lattice { step, extra, heads, .. } = piece.lattice;
    let error = piece.step_error * f64::from(heads);
    piece.skews.is_some() || error < TOLD * part(step).min(part(step + extra))
}

/// Asks in the longest piece of each zone whose skews are not known yet, in turn, for what tells most. What there was no
/// time for is left out. `way` is the least lead that was seen last.
pub(crate) fn tell(
    probe: &mut Probe<'_, '_>,
    pieces: &mut [Piece],
    (way, end): (&mut Option<f64>, f64),
) -> Result<(), Halt> {
    let mut untold = longest(pieces);
    untold.retain(|nth| !is_told(&pieces[*nth]));
    let mut blurred = Vec::new();
    for nth in untold {
        if probe.now() > end {
            return Ok(());
        }
        let piece = &mut pieces[nth];
        let vague = |(_, error): (f64, f64)| error > phases_error(piece, probe.sigma);
        if piece.steps.len() >= PLACES_MIN && crossed(piece, probe.period).is_none_or(vague)
            || piece.steps_lost >= PLACES_MIN
        {
            blurred.push(nth);
            continue;
        }
        match cross(probe, piece, way)? {
            Some(step) => piece.steps.push(step),
            None => piece.steps_lost += 1,
        }
    }
    for _ in 0..ROUNDS {
        for nth in &blurred {
            if probe.now() > end {
                return Ok(());
            }
            read_both(probe, &mut pieces[*nth])?;
        }
    }
    Ok(())
}

/// Reads on the first and the last tracks of cylinders, where the difference of the two skews shows most.
fn read_both(probe: &mut Probe<'_, '_>, piece: &mut Piece) -> Result<(), Halt> {
    let lattice = piece.lattice;
    let heads = i64::from(lattice.heads);
    let base = drawn(probe, piece, CYLINDERS);
    for cylinder in (0..CYLINDERS).rev() {
        for track in [base + heads * (cylinder + 1) - 1, base + heads * cylinder] {
            let inside = whole((0.1 + 0.8 * probe.even()) * real(lattice.spt));
            let Some(at) = lattice.begins(track).map(|begin| begin + inside) else { continue };
            if at >= piece.to {
                continue;
            }
            let sample = probe.sample(at)?;
            piece.phases.extend(sample.map(|s| (s.at, probe.phase(&s))));
        }
    }
    Ok(())
}

/// The first track of a cylinder, drawn from those with so many cylinders of the piece behind them.
fn drawn(probe: &mut Probe<'_, '_>, piece: &Piece, cylinders: i64) -> i64 {
    let lattice = piece.lattice;
    let heads = i64::from(lattice.heads);
    let tracks = lattice.track(piece.to - 1).0 - heads * (cylinders + 2);
    let base = whole(probe.even() * real(tracks.max(1).cast_unsigned())).cast_signed();
    base - (base + i64::from(lattice.first)).rem_euclid(heads) + heads
}

/// By how much a track begins later than the one before it, as one place tells; nothing if it does not.
fn cross(
    probe: &mut Probe<'_, '_>,
    piece: &Piece,
    way: &mut Option<f64>,
) -> Result<Option<f64>, Halt> {
    let lattice = &piece.lattice;
    let heads = i64::from(lattice.heads);
    if lattice.track(piece.to - 1).0 < heads * (AWAY + WAYS + 3) {
        return Ok(None);
    }
    let base = drawn(probe, piece, AWAY + WAYS);
    let prior = match *way {
        None => Prior::Upto(1.9 * probe.period),
        Some(way) => Prior::About(way, PLACES_APART),
    };
    let mut leads = [Threshold::new(prior, SPREAD), Threshold::new(prior, SPREAD)];
    // The last first, so that nothing was read ahead of.
    for nth in (0..WAYS).rev() {
        let first = base + heads * nth;
        let last = first + heads - 1;
        let away = heads * AWAY;
        for (lead, track) in leads.iter_mut().zip([(first, last + away), (last, first + away)]) {
            if lead.count() < 4 || lead.estimate().error > ENOUGH {
                let fact = reached(probe, lattice, track, lead.median())?;
                fact.into_iter().for_each(|fact| lead.learn(fact));
            }
        }
    }
    let [to_last, to_first] = leads.map(|lead| lead.estimate());
    if to_last.error.max(to_first.error) > VAGUE {
        return Ok(None);
    }
    *way = Some(f64::midpoint(to_last.time, to_first.time));
    let off = (to_last.time - to_first.time) / probe.period;
    Ok(Some(lattice.step - off / signed(heads - 1)))
}

/// By how much a track begins later than the one before it as all places of a piece tell, and its error, in turns. Nothing
/// if they are too few.
pub(crate) fn crossed(piece: &Piece, period: f64) -> Option<(f64, f64)> {
    if piece.steps.len() < PLACES_MIN {
        return None;
    }
    let mut steps = piece.steps.clone();
    steps.sort_by(f64::total_cmp);
    let count = real(steps.len() as u64);
    let middle = f64::midpoint(steps[(steps.len() - 1) / 2], steps[steps.len() / 2]);
    // Something slipped between the two tracks moves what one place tells: so it is the middle one, and their distances as
    // they are.
    let apart = steps.iter().map(|step| (step - middle).abs()).sum::<f64>() / count;
    let least = SPREAD / period / f64::from(piece.lattice.heads - 1).max(1.0);
    Some((middle, 1.57 * apart.max(least) / count.sqrt()))
}

/// The error of a track's skew as phases alone tell it, in turns: that of the height of a saw tooth of so many steps.
pub(crate) fn phases_error(piece: &Piece, sigma: f64) -> f64 {
    let heads = f64::from(piece.lattice.heads);
    let steps = heads * heads / (heads * heads - 1.0).max(1.0);
    sigma * (12.0 * steps / real(piece.phases.len().max(1) as u64)).sqrt() / heads
}
