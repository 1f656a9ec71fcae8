//! The layout of tracks around one location, without prior knowledge.
//!
//! 1. Pairs of blocks at doubling distances give the angle of a block, approximately: [`spacing`].
//! 2. Blocks spread over a little more than a track show one boundary between tracks: [`scan`].
//! 3. That boundary is found to a few blocks, then the next, then those that are 2, 4, 8, … tracks
//!    on. The tracks between are counted, so that the number of blocks on each becomes a whole
//!    number: [`count`].
//! 4. Blocks on many consecutive tracks show the skew of each, and which of them begin a cylinder:
//!    [`levels`].

use crate::bench::StopReason;
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, fraction, real, round};
use crate::layout::block::{Block, HEADS_MAX, Phases, Sample};
use crate::layout::boundary::{Boundary, Search, boundary};
use crate::layout::probe::Probe;
use crate::layout::track_layout::TrackLayout;

/// The shortest distance of a pair: tracks have at least three times as many blocks.
const PAIR_MIN: u64 = 8;
/// The longest track considered, in blocks.
const SPT_MAX: f64 = 40_000.0;
/// Blocks between pairs on drives that cache blocks before a read as well: more than one read
/// caches.
const EVICTION_DISTANCE: f64 = 4_096.0;
/// Pairs at each distance.
const PAIRS: u32 = 16;
/// Blocks in the scan for the first boundary.
const SCAN: u32 = 48;
/// A jump of this many standard deviations is no chance, even as the largest of hundreds.
const CLEAR: f64 = 8.0;
/// Reads on each side of a boundary at a time.
const SIDES: u32 = 6;
/// The most repetitions of these reads under noise.
const SIDES_AGAIN: u32 = 4;
/// Locations at which a layout is searched.
const ATTEMPTS: u32 = 3;
/// The largest mean square of phases about a layout, relative to noise.
const MISFIT_MAX: f64 = 1.8;

/// The phases of samples.
pub(crate) fn phases(probe: &Probe<'_, '_>, samples: &[Sample]) -> Phases {
    samples.iter().map(|sample| (sample.at, probe.phase(sample))).collect()
}

/// The layout of tracks from `from` on. `like` is a probable layout, `heads` its tracks on a
/// cylinder. `None` if it is not observable there.
///
/// # Errors
/// As [`crate::Bench::check`].
pub(crate) fn local(
    probe: &mut Probe<'_, '_>,
    from: Block,
    (like, heads): (Option<&TrackLayout>, Option<u32>),
) -> Result<Option<(TrackLayout, Phases)>, StopReason> {
    for attempt in 0..ATTEMPTS {
        let from = from + u64::from(attempt) * like.map_or(4_096, |like| 5 * like.spt);
        let found = attempt_at(probe, from, (like, heads))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn attempt_at(
    probe: &mut Probe<'_, '_>,
    from: Block,
    (like, heads): (Option<&TrackLayout>, Option<u32>),
) -> Result<Option<(TrackLayout, Phases)>, StopReason> {
    let prior = like.map(|like| real(like.spt));
    let Some(spt) = spacing(probe, from, prior)? else { return Ok(None) };
    let Some((first, spt)) = scan(probe, (from, from + floor(1.25 * spt)), spt, 12)? else {
        return Ok(None);
    };
    let low = first.saturating_sub(floor(0.6 * spt));
    let Some((first, spt)) = scan(probe, (low, low + floor(1.2 * spt)), spt, 5)? else {
        return Ok(None);
    };
    let Some((anchor, spt)) = count(probe, first, spt)? else { return Ok(None) };
    levels(probe, anchor, spt, heads)
}

/// Blocks on a track around a location, to a few hundredths.
pub(crate) fn roughly(
    probe: &mut Probe<'_, '_>,
    at: Block,
    like: Option<f64>,
) -> Result<Option<f64>, StopReason> {
    let Some(spt) = spacing(probe, at, like)? else { return Ok(None) };
    let found = scan(probe, (at, at + floor(1.25 * spt)), spt, 12)?;
    Ok(found.map(|(_, spt)| spt))
}

/// Blocks on a track, approximately: at least half of the pairs do not straddle a boundary.
pub(crate) fn spacing(
    probe: &mut Probe<'_, '_>,
    from: Block,
    prior: Option<f64>,
) -> Result<Option<f64>, StopReason> {
    let mut apart = prior.map_or(PAIR_MIN, |spt| floor(spt * 0.3).max(2));
    let mut expected = prior.map(|spt| real(apart) / spt);
    let mut place = (from, prior.map_or(16_384.0, |spt| 24.0 * spt), PAIRS * probe.effort());
    let kept = |rotated: &Vec<f64>, pairs: u32| rotated.len() < pairs as usize / 2;
    while real(apart) < SPT_MAX / 2.0 {
        let mut rotated = pairs(probe, place, apart)?;
        if kept(&rotated, place.2) {
            // The drive caches blocks before a read as well. This many reads evict them.
            let count = place.2.max(probe.eviction_reads + 4);
            place = (from, place.1.max(EVICTION_DISTANCE * f64::from(count)), count);
            rotated = pairs(probe, place, apart)?;
        }
        let reach = 4.0 * probe.sigma;
        if let Some(expected) = expected {
            rotated.retain(|rotated| wrap(rotated - expected).abs() < 0.25);
        }
        let Some(found) = centre(&rotated, reach).filter(|found| found.count >= 4) else {
            return Ok(None);
        };
        // The first pair spans less than half a revolution.
        let angle =
            expected.map_or(wrap(found.mean), |expected| expected + wrap(found.mean - expected));
        if angle > 0.25 {
            probe.track = real(apart) / angle;
            return Ok(Some(probe.track));
        }
        apart *= 2;
        expected = Some(2.0 * angle);
    }
    Ok(None)
}

/// The angles between blocks of a distance, for pairs over a region. The later blocks of all pairs
/// are read first, so that no earlier one is read ahead.
fn pairs(
    probe: &mut Probe<'_, '_>,
    (from, region, count): (Block, f64, u32),
    apart: u64,
) -> Result<Vec<f64>, StopReason> {
    let region = region.min(real(probe.blocks) / 4.0);
    let mut pairs: Vec<Block> = (0..count)
        .map(|nth| from + floor((f64::from(nth) + probe.next_random()) / f64::from(count) * region))
        .collect();
    pairs.retain(|at| at + apart < probe.blocks);
    let mut ends = Vec::new();
    for at in pairs.iter().rev() {
        ends.push(probe.sample(at + apart)?);
    }
    let mut rotated = Vec::new();
    for (at, end) in pairs.iter().rev().zip(ends) {
        if let (Some(begin), Some(end)) = (probe.sample(*at)?, end) {
            rotated.push(wrap(probe.phase(&end) - probe.phase(&begin)));
        }
    }
    Ok(rotated)
}

/// A boundary between tracks within a range, and blocks on a track, both to a few hundredths of a
/// track. The blocks on a track are `spt`, within `stretches` fortieths.
pub(crate) fn scan(
    probe: &mut Probe<'_, '_>,
    (from, to): (Block, Block),
    spt: f64,
    stretches: i32,
) -> Result<Option<(Block, f64)>, StopReason> {
    let mut read = Phases::new();
    let mut found = None;
    for _ in 0..probe.effort() {
        let samples = probe.samples(SCAN, |part| from + floor(part * real(to - from)))?;
        read.extend(phases(probe, &samples));
        found = jump(&read, (from, to), (spt, stretches), probe.sigma);
        // An obvious boundary needs no more reads, however noisy they are.
        if found.is_some_and(|found| found.clear) {
            break;
        }
    }
    Ok(found.map(|found| (found.at, found.spt)))
}

/// Where phases jump from one line to another.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Block,
    /// Blocks on a track, by the slope of the lines.
    spt: f64,
    /// Whether the jump is far beyond noise.
    clear: bool,
}

/// The jump within a range that explains the phases best.
fn jump(
    phases: &Phases,
    (from, to): (Block, Block),
    (spt, stretches): (f64, i32),
    sigma: f64,
) -> Option<Jump> {
    let length = real(to - from);
    let mut best: Option<(f64, Jump)> = None;
    for stretch in -stretches..=stretches {
        let spt = spt * (1.0 + 0.025 * f64::from(stretch));
        let straight =
            |(at, phase): &(Block, f64)| (real(at - from), phase - real(at - from) / spt);
        let straight: Vec<(f64, f64)> = phases.iter().map(straight).collect();
        for nth in 4..=48 {
            let split = length * f64::from(nth) / 52.0;
            let side = |behind: bool| {
                let on = straight.iter().filter(|(at, _)| (*at >= split) == behind);
                let on: Vec<f64> = on.map(|(_, level)| *level).collect();
                if on.len() < 4 {
                    return None;
                }
                let count = real(on.len() as u64);
                centre(&on, 4.0 * sigma).map(|centre| (centre.mean, centre.scatter * count, count))
            };
            let (Some(before), Some(behind)) = (side(false), side(true)) else { continue };
            let misfit = before.1 + behind.1;
            let jump = wrap(behind.0 - before.0).abs();
            if jump > 1.5 * sigma && best.is_none_or(|best| misfit < best.0) {
                let error = sigma * (1.0 / before.2 + 1.0 / behind.2).sqrt();
                let clear = jump > CLEAR * error && misfit < sigma * (before.2 + behind.2);
                best = Some((misfit, Jump { at: from + floor(split), spt, clear }));
            }
        }
    }
    best.map(|(_, jump)| jump)
}

/// The track boundary near `guess`, within `half` blocks or a few times as many. `None` if no
/// boundary is observable.
pub(crate) fn find(
    probe: &mut Probe<'_, '_>,
    guess: Block,
    half: u64,
    spt: f64,
    width: u64,
) -> Result<Option<Boundary>, StopReason> {
    let mut half = half.max(2);
    while real(half) < 0.45 * spt {
        let Some(found) = find_within(probe, guess, half, spt, width)? else { return Ok(None) };
        let inside = found.at.abs_diff(guess) + found.width / 2 + half / 16 < half;
        if inside || real(half) > 0.3 * spt {
            return Ok(Some(found));
        }
        // A result at the edge of the range is beyond it.
        half = floor(real(half * 3).min(0.31 * spt)).max(half + 2);
    }
    Ok(None)
}

fn find_within(
    probe: &mut Probe<'_, '_>,
    guess: Block,
    half: u64,
    spt: f64,
    width: u64,
) -> Result<Option<Boundary>, StopReason> {
    let room = (0.4 * spt).min(spt - 2.0 * real(half)).max(spt * 0.1);
    let low = guess.saturating_sub(half + floor(room));
    let straight = |at: Block| real(at) / spt;
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let (mut level, mut jump) = (0.0, 0.0);
    for _ in 0..SIDES_AGAIN * probe.effort() {
        let more = probe.samples(SIDES, |part| guess + half + floor(part * room))?;
        behind.extend(more.iter().map(|s| fraction(probe.phase(s) - straight(s.at))));
        let more = probe.samples(SIDES, |part| low + floor(part * room))?;
        before.extend(more.iter().map(|s| fraction(probe.phase(s) - straight(s.at))));
        let reach = 4.0 * probe.sigma;
        let (Some(left), Some(right)) = (centre(&before, reach), centre(&behind, reach)) else {
            return Ok(None);
        };
        level = left.mean;
        jump = wrap(right.mean - left.mean);
        let error = probe.sigma * (2.0 / real(before.len().min(behind.len()) as u64)).sqrt();
        if jump.abs() > 6.0 * error {
            break;
        }
    }
    let seen = 3.0 * probe.sigma * (2.0 / real(before.len() as u64)).sqrt();
    if jump.abs() < seen {
        return Ok(None);
    }
    let search = Search {
        from: guess.saturating_sub(half),
        to: guess + half,
        width,
        doubt: 1.0,
        begins: &[],
        slack: 0,
        spread: 0,
        reads_min: 6,
        reads: 90 * probe.effort(),
        sigma: probe.sigma * 1.1,
        unsure: (0.0, 0.0),
        confirm: 0,
    };
    let left = |at: Block| level + straight(at);
    let right = |at: Block| level + jump + straight(at);
    boundary(probe, &search, &left, &right, &|_| 0.0).map(Some)
}

/// A track boundary, and the exact number of blocks on a track.
fn count(
    probe: &mut Probe<'_, '_>,
    first: Block,
    spt: f64,
) -> Result<Option<(Block, u64)>, StopReason> {
    let wide = floor(spt * 0.12).max(4);
    let coarse = floor(spt / 100.0).max(1);
    let Some(anchor) = find(probe, first, wide, spt, coarse)? else { return Ok(None) };
    let mut spt = spt;
    let mut error = spt * 0.04;
    let mut tracks = 1_u32;
    while tracks <= 4_096 {
        let guess = anchor.at + round(spt * f64::from(tracks));
        let half = floor(error * f64::from(tracks)).max(anchor.width).max(3) + 2;
        if real(half) > 0.45 * spt {
            return Ok(None);
        }
        if guess + half >= probe.blocks {
            break;
        }
        let Some(found) = find(probe, guess, half, spt, coarse)? else { return Ok(None) };
        spt = real(found.at - anchor.at) / f64::from(tracks);
        let sharp = found.width.max(anchor.width) == 1;
        let off = if sharp { 0.3 } else { real(found.width + anchor.width) / 1.5 };
        error = off / f64::from(tracks);
        let off = (spt - real(round(spt))).abs();
        if error < 0.12 && off < 0.2 {
            return Ok(Some((anchor.at, round(spt))));
        }
        tracks *= if error * 6.0 < spt * 0.02 { 4 } else { 2 };
    }
    Ok(None)
}

/// The skew of each track, and which tracks begin a cylinder: over more and more tracks, as far as
/// their layout is uniform.
pub(crate) fn levels(
    probe: &mut Probe<'_, '_>,
    anchor: Block,
    spt: u64,
    heads: Option<u32>,
) -> Result<Option<(TrackLayout, Phases)>, StopReason> {
    let all = heads.map_or(2 * HEADS_MAX, |heads| (3 * heads).max(16));
    let (mut phases, mut best, mut tracks) = (Phases::new(), None, 0);
    while tracks < all {
        let behind = (2 * tracks).clamp(16, all.max(16));
        for _ in 0..2 * probe.effort() {
            // Up to the ends of tracks: one block too many or too few on each shows only there.
            let inside = |part: f64| 0.02 + 0.96 * part;
            let mut blocks: Vec<Block> = (tracks..behind)
                .map(|track| {
                    anchor + u64::from(track) * spt + floor(inside(probe.next_random()) * real(spt))
                })
                .collect();
            blocks.retain(|at| *at < probe.blocks);
            blocks.reverse();
            let samples = probe.samples_of(blocks)?;
            phases.extend(self::phases(probe, &samples));
        }
        tracks = behind;
        let found = best_of(&phases, (anchor, spt), heads, (tracks, probe.sigma));
        let Some(found) = found.filter(|found| fits(found, &phases, probe.sigma)) else { break };
        best = Some((found, phases.clone()));
    }
    Ok(best)
}

/// Whether the deviations of phases from a layout are noise alone.
pub(crate) fn fits(layout: &TrackLayout, phases: &Phases, sigma: f64) -> bool {
    layout.misfit(phases, 5.0 * sigma) < MISFIT_MAX * sigma * sigma * real(phases.len() as u64)
}

/// The layout that fits these phases best.
fn best_of(
    phases: &Phases,
    (anchor, spt): (Block, u64),
    heads: Option<u32>,
    (tracks, sigma): (u32, f64),
) -> Option<TrackLayout> {
    let plain = TrackLayout {
        spt,
        anchor,
        phase: 0.0,
        step: 0.0,
        extra: 0.0,
        heads: 1,
        first: 0,
        gaps: None,
    };
    let reach = 5.0 * sigma;
    // The phase of each track, and its skew from the track before it.
    let mut rotated: Vec<(i64, Vec<f64>)> = Vec::new();
    for (at, phase) in phases {
        let (track, off) = (plain.track(*at).0, plain.off(*at, *phase));
        match rotated.iter_mut().find(|(other, _)| *other == track) {
            Some((_, offs)) => offs.push(off),
            None => rotated.push((track, vec![off])),
        }
    }
    rotated.sort_by_key(|(track, _)| *track);
    let level = |offs: &Vec<f64>| centre(offs, reach).map(|centre| centre.mean);
    let levels: Vec<(i64, f64)> =
        rotated.iter().filter_map(|(track, offs)| Some((*track, level(offs)?))).collect();
    let steps: Vec<(i64, f64)> = levels
        .windows(2)
        .filter(|pair| pair[1].0 == pair[0].0 + 1)
        .map(|pair| (pair[1].0, wrap(pair[1].1 - pair[0].1)))
        .collect();
    let all: Vec<f64> = steps.iter().map(|(_, step)| *step).collect();
    let common = centre(&all, reach)?;
    let start = levels.first()?.1;
    let mut best: Option<(f64, TrackLayout)> = None;
    let offer = |best: &mut Option<(f64, TrackLayout)>, layout: TrackLayout, price: f64| {
        let layout = unrolled(&layout, phases, sigma);
        let misfit = layout.misfit(phases, reach) / (sigma * sigma) + price;
        if best.is_none_or(|(least, _)| misfit < least) {
            *best = Some((misfit, layout));
        }
    };
    let mean = |of: &[f64]| centre(of, reach).map(|centre| centre.mean);
    offer(&mut best, TrackLayout { phase: start, step: common.mean, ..plain }, 0.0);
    // Phases that plain tracks explain need no cylinders; faint ones show over many more tracks.
    let plain_fits = best.is_some_and(|(misfit, _)| misfit < 1.3 * real(phases.len() as u64));
    if plain_fits && heads.is_none() {
        return best.map(|(_, layout)| layout);
    }
    let price = if heads.is_some() { 12.0 } else { 30.0 };
    let range = heads.map_or(2..=HEADS_MAX.min(tracks), |heads| heads..=heads);
    for heads in range {
        for first in 0..heads {
            let begins = |track: i64| (track + i64::from(first)).rem_euclid(i64::from(heads)) == 0;
            let class = |new: bool| -> Vec<f64> {
                steps.iter().filter(|(track, _)| begins(*track) == new).map(|(_, s)| *s).collect()
            };
            let (Some(step), Some(new)) = (mean(&class(false)), mean(&class(true))) else {
                continue;
            };
            let extra = wrap(new - step);
            offer(
                &mut best,
                TrackLayout { phase: start, step, extra, heads, first, ..plain },
                price,
            );
        }
    }
    best.map(|(_, layout)| layout)
}

/// Fits a layout to more and more tracks, so that no whole revolutions are lost on the way.
fn unrolled(layout: &TrackLayout, phases: &Phases, sigma: f64) -> TrackLayout {
    let mut layout = *layout;
    let most = phases.iter().map(|(at, _)| layout.track(*at).0).max().unwrap_or(0);
    let mut tracks = 8;
    loop {
        let near: Phases =
            phases.iter().filter(|(at, _)| layout.track(*at).0 < tracks).copied().collect();
        let reach = if tracks == 8 { 0.25 } else { (8.0 * sigma).min(0.2) };
        layout = layout.fitted(&near, reach);
        if tracks > most {
            return layout;
        }
        tracks *= 2;
    }
}
