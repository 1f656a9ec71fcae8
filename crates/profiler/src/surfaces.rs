//! Heads and the order of surfaces, where angles do not show them: by what it takes to reach a track.
//!
//! From one track others are reached just in time or a turn too late, which no noise hides. The least lead with which
//! a track is reached grows with its cylinder's distance, and has another floor if the head has to be changed. Which
//! tracks need equal leads says which of them are one cylinder, and in which order heads are used.

use engine::Heads;
use units::Share;

use crate::bench::Halt;
use crate::circle::{part, real, whole, wrap};
use crate::findings::Figure;
use crate::lattice::Lattice;
use crate::local::HEADS_MAX;
use crate::probe::Probe;

/// What passes between the source's end and the command that follows it, in ns: more than anybody notices late.
const GAP: f64 = 1.3e6;
/// How exactly leads are found, in ns.
const STEP: f64 = 1_000.0;
/// Leads that should be equal differ by so much, in ns.
const EQUAL: f64 = 1_500.0;
/// What a lead that stands alone costs, in squares of [`EQUAL`].
const PRICE: f64 = 8.0;
/// By how much a layout has to explain leads better than none, in the same.
const GAIN_MIN: f64 = 40.0;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surfaces {
    pub(crate) heads: Figure<u32>,
    /// The order of heads, if it shows.
    pub(crate) order: Option<Heads>,
    /// How many tracks of its cylinder lie before `track`.
    pub(crate) before: u32,
    pub(crate) track: i64,
}

/// Whether the head that has just read a block of one track reads a block of another that ends `lead` ns after the command.
/// None if that could not be seen.
fn reaches(
    probe: &mut Probe<'_, '_>,
    lattice: &Lattice,
    (from, to): (i64, i64),
    lead: f64,
) -> Result<Option<bool>, Halt> {
    let spt = real(lattice.spt);
    let Some(source) = lattice.begins(from) else { return Ok(None) };
    let Some(target) = lattice.begins(to) else { return Ok(None) };
    let source = source + whole((0.03 + 0.3 * probe.even()) * spt);
    let Some(sample) = probe.sample_again(source)? else { return Ok(None) };
    let late = wrap(probe.phase(&sample) - lattice.at(source)) * probe.period;
    let sent = sample.time - late + GAP;
    // The first block of the target's track that ends so much later; and the command later by what it ends later.
    let phase = part((sent + lead) / probe.period);
    let sector = part(phase - lattice.on((to, 0))) * spt;
    let block = sector.ceil();
    if block >= spt {
        return Ok(None);
    }
    let sent = sent + (block - sector) / spt * probe.period;
    if sent < probe.now() {
        return Ok(None);
    }
    probe.bench.wait_until(probe.instant(sent));
    let Some((took, sample)) = probe.read(target + whole(block))? else { return Ok(None) };
    if took < probe.hit {
        return Ok(None);
    }
    Ok(Some(sample.time - sent - lead < probe.period / 2.0))
}

/// The least lead with which a track is reached from another, near `guess`.
fn least(
    probe: &mut Probe<'_, '_>,
    lattice: &Lattice,
    tracks: (i64, i64),
    guess: Option<f64>,
) -> Result<Option<f64>, Halt> {
    let most = 1.9 * probe.period;
    let (mut low, mut high) = guess.map_or((0.0, most), |guess| (guess - 4.0 * STEP, guess + 4.0 * STEP));
    let (mut low_known, mut high_known) = (false, false);
    let mut tries = 0;
    let mut width = 8.0 * STEP;
    while tries < 60 {
        tries += 1;
        let lead = match (low_known, high_known) {
            (true, true) if high - low <= STEP => return Ok(Some((low + high) / 2.0)),
            (true, true) => (low + high) / 2.0,
            (false, _) if guess.is_some() => low,
            (true, false) if guess.is_some() => high,
            _ => (low + high) / 2.0,
        };
        let Some(reached) = reaches(probe, lattice, tracks, lead.max(0.0))? else { continue };
        if guess.is_none() {
            (low_known, high_known) = (true, true);
        }
        if reached {
            high = lead;
            high_known = true;
            if !low_known {
                low = (lead - width).max(0.0);
                width *= 4.0;
            }
        } else {
            low = lead;
            low_known = true;
            if !high_known && lead >= high {
                high = (lead + width).min(most);
                width *= 4.0;
            }
        }
    }
    Ok(None)
}

/// Heads, from leads to the tracks behind one in the middle of a piece of so many tracks; none if they do not show.
pub(crate) fn surfaces(
    probe: &mut Probe<'_, '_>,
    lattice: &Lattice,
    tracks: i64,
    until: f64,
) -> Result<Option<Surfaces>, Halt> {
    let base = tracks / 2;
    let mut leads: Vec<(i64, f64)> = Vec::new();
    let mut guess = None;
    let mut best = None;
    let mut next_look = 12;
    for track in 1..=3 * i64::from(HEADS_MAX) {
        if probe.now() > until || base + track + 1 >= tracks {
            break;
        }
        let Some(lead) = least(probe, lattice, (base, base + track), guess)? else { continue };
        leads.push((track, lead));
        guess = Some(lead);
        if track >= next_look {
            next_look = track * 3 / 2;
            best = explain(&leads);
            // Three cylinders or more have been seen.
            if best.is_some_and(|(_, heads, _, _)| i64::from(heads) * 3 <= track) {
                break;
            }
        }
    }
    let found = best.or_else(|| explain(&leads));
    let Some((_, heads, before, order)) = found else { return Ok(None) };
    let samples = u32::try_from(leads.len()).unwrap_or(u32::MAX);
    let sure = if i64::from(heads) * 3 <= i64::from(samples) { 95 } else { 75 };
    let heads = Figure { value: heads, spread: 0, samples, confidence: Share::from_percent(sure) };
    Ok(Some(Surfaces { heads, order, before, track: base }))
}

/// The number of heads, tracks of the first cylinder before the source, and order of heads that explain the leads best.
fn explain(leads: &[(i64, f64)]) -> Option<(f64, u32, u32, Option<Heads>)> {
    let last = leads.last()?.0;
    let all = classes(leads, |_| (0, false));
    let mut best: Option<(f64, u32, u32, bool)> = None;
    let mut other = f64::INFINITY;
    for heads in 2..=HEADS_MAX {
        // Two boundaries between cylinders have to be seen.
        if i64::from(heads) * 2 > last {
            break;
        }
        for before in 0..heads {
            for serpentine in [false, true] {
                let count = i64::from(heads);
                let class = |track: i64| {
                    let nth = track + i64::from(before);
                    let (cylinder, head) = (nth / count, nth % count);
                    let down = serpentine && cylinder % 2 == 1;
                    let head = if down { count - 1 - head } else { head };
                    (cylinder, head == i64::from(before))
                };
                let misfit = classes(leads, class);
                if best.is_none_or(|(least, ..)| misfit < least) {
                    if let Some((least, _, _, way)) = best.filter(|best| best.3 != serpentine) {
                        other = other.min(least);
                        let _ = way;
                    }
                    best = Some((misfit, heads, before, serpentine));
                } else if best.is_some_and(|(_, h, b, way)| h == heads && b == before && way != serpentine) {
                    other = misfit;
                }
            }
        }
    }
    let (misfit, heads, before, serpentine) = best.filter(|(misfit, ..)| all - misfit > GAIN_MIN)?;
    let told = other - misfit > GAIN_MIN / 2.0;
    let order = match (told, serpentine) {
        (false, _) => None,
        (true, false) => Some(Heads::Up),
        (true, true) => Some(Heads::UpOnEven),
    };
    Some((misfit, heads, before, order))
}

/// What is left of the leads when those of one class are taken to be equal, and the price of the classes.
fn classes(leads: &[(i64, f64)], class: impl Fn(i64) -> (i64, bool)) -> f64 {
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
    squares / (EQUAL * EQUAL) + PRICE * real(sums.len() as u64)
}
