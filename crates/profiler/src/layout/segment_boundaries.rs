//! The ends of segments: the first block of the next one, and where tracks begin near both ends.
//!
//! The differences are small where two layouts are close to each other, or where sectors were
//! slipped. So the levels are refined next to the end that was found, and if that moves them, the
//! end is searched again.

use crate::bench::StopReason;
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, fraction, real};
use crate::layout::block::Block;
use crate::layout::boundary::{Boundary, Search, against, boundary, logarithm, weigh};
use crate::layout::local_layout::phases;
use crate::layout::probe::Probe;
use crate::layout::segment::{CHECK, OFF_MAX, Segment};
use crate::layout::track_layout::TrackLayout;

/// The tracks before a failed check in which a segment may end: near its end checks may hold by
/// chance.
const BACK: u64 = 48;
/// The most reads that locate track boundaries.
const REFINE_READS: u32 = 100;
/// The tracks at each end of a segment on which its end is measured.
const EDGE: u64 = 64;
/// The blocks that refine the levels on both sides of an end.
const LEVEL: u32 = 24;
/// The reads that are spread over the candidates of an end.
const SPREAD: u32 = 32;
/// The accepted probability of a wrong end or track boundary: a disk has a few dozen of them, and
/// none may be wrong.
const DOUBT: f64 = 1e-6;
/// The prior evidence against a segment that begins within a track, as a logarithm.
const INSIDE: f64 = 4.6;
/// The prior evidence against a slipped sector between an end and the observed track boundaries, as
/// a logarithm.
const SLIP: f64 = 2.5;
/// The tracks on either side of an end that are read to confirm it.
const CONFIRM_TRACKS: u64 = 2;
/// The most tracks of each of two layouts that are considered for an end.
const BEGINS_MAX: usize = 1_024;
/// The blocks on either side of an end that locate it exactly, if slipped sectors have moved it.
const NEAR: u64 = 8;
/// The least difference of the two sides for that, in standard deviations.
const NEAR_APART: f64 = 2.5;
/// The accepted probability of another end.
const NEAR_DOUBT: f64 = 1e-3;
/// The blocks of a track, inverted, of which one may have been slipped.
const SLACK: u64 = 14;
/// The most refinements of the levels.
const LEVELS: u32 = 3;
/// A level that moves by less than this, in standard deviations, is refined.
const LEVEL_EXACT: f64 = 0.5;
/// The tracks of the [`LEVEL`] blocks.
const LEVEL_TRACKS: u64 = 24;

/// The beginning of a segment that begins with a track, from its first tracks alone: slipped
/// sectors behind them have moved others.
pub(crate) fn first_track(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
    start: Block,
) -> Result<Block, StopReason> {
    let (track, sector) = segment.layout.track(start);
    if sector != 0 || track >= 0 {
        return Ok(start);
    }
    let near = TrackLayout {
        anchor: start,
        phase: segment.layout.at(start),
        first: u32::try_from(
            (track + i64::from(segment.layout.first)).rem_euclid(i64::from(segment.layout.heads)),
        )
        .expect("under the heads"),
        gaps: None,
        ..segment.layout
    };
    let (sharp, sure) = refine(probe, near, (0, 12), 4)?;
    if sure < 0.99 {
        return Ok(start);
    }
    if sharp.anchor != start {
        segment.layout = segment.layout.moved(sharp.anchor.cast_signed() - start.cast_signed());
    }
    Ok(sharp.anchor)
}

/// The beginning of a layout behind the segment before it, its probability, and whether the
/// adjacent blocks confirm it.
pub(crate) fn begin(
    probe: &mut Probe<'_, '_>,
    before: &Segment,
    (layout, to): (&TrackLayout, Block),
) -> Result<(Block, f64, bool), StopReason> {
    let back = BACK * before.ending.spt;
    let from = before.to.saturating_sub(back).max(before.from + 1);
    let (mut old, mut new) = (before.ending, *layout);
    let mut sides = (from, layout.anchor.max(before.to));
    let mut found = None;
    for _ in 0..LEVELS {
        let tracks = LEVEL_TRACKS * u64::from(probe.effort());
        let low = sides.0.saturating_sub(tracks * old.spt).max(before.from);
        let level = (old.phase, new.phase);
        old = refine_level(probe, old, (low, sides.0))?;
        let high = (sides.1 + tracks * new.spt).min(to);
        new = refine_level(probe, new, (sides.1, high))?;
        let moved = wrap(old.phase - level.0).abs().max(wrap(new.phase - level.1).abs());
        if found.is_some() && moved < LEVEL_EXACT * probe.sigma {
            break;
        }
        let at = between(probe, (&old, &new), (from, layout.anchor.max(before.to).max(from)))?;
        // Slipped sectors before it may have moved the adjacent tracks.
        sides = (at.at.saturating_sub(2 * old.spt), at.at + 2 * new.spt);
        found = Some(at);
    }
    let found = found.expect("looked for at least once");
    let sharp = locate_exactly(probe, (&old, &new), found.at)?;
    let Boundary { at, sure, .. } = sharp.unwrap_or(found);
    Ok((at, sure, sharp.is_some()))
}

/// The exact end of one layout and beginning of the next, by blocks next to the end that was found:
/// slipped sectors on either side have moved the tracks that located it, and next to it both
/// layouts are straight. `None` if these blocks do not decide it.
fn locate_exactly(
    probe: &mut Probe<'_, '_>,
    (old, new): (&TrackLayout, &TrackLayout),
    at: Block,
) -> Result<Option<Boundary>, StopReason> {
    let (from, to) = (at.saturating_sub(NEAR), at + NEAR);
    let plain = old.track(at).1 == 0 && new.track(at).1 == 0;
    if plain || to + 1 >= probe.blocks || old.spt.min(new.spt) < 8 * NEAR {
        return Ok(None);
    }
    let (left, right) = (old.at(from), new.at(to));
    let before = |at: Block| left + (real(at) - real(from)) / real(old.spt);
    let behind = |at: Block| right + (real(at) - real(to)) / real(new.spt);
    if wrap(before(at) - behind(at)).abs() < NEAR_APART * probe.sigma {
        return Ok(None);
    }
    let search = Search {
        from,
        to,
        width: 1,
        doubt: NEAR_DOUBT,
        begins: &[],
        slack: 0,
        spread: 0,
        reads_min: 12,
        reads: 60 * probe.effort(),
        sigma: probe.sigma * 1.2,
        unsure: (0.0, 0.0),
        confirm: 0,
    };
    let found = boundary(probe, &search, &before, &behind, &|_| 0.0)?;
    let inside = found.at > from + 1 && found.at < to;
    Ok((inside && 1.0 - found.sure <= NEAR_DOUBT).then_some(found))
}

/// The end of one layout and beginning of the next, between two blocks.
fn between(
    probe: &mut Probe<'_, '_>,
    (old, new): (&TrackLayout, &TrackLayout),
    (from, to): (Block, Block),
) -> Result<Boundary, StopReason> {
    let begins = begins(old, new, (from, to));
    let search = Search {
        from,
        to,
        width: 1,
        doubt: DOUBT,
        begins: &begins,
        slack: old.spt.min(new.spt) / SLACK,
        spread: SPREAD * probe.effort(),
        reads_min: 16,
        reads: 240 * probe.effort(),
        sigma: probe.sigma * 1.3,
        unsure: (level_error(probe, old), level_error(probe, new)),
        confirm: CONFIRM_TRACKS * old.spt.max(new.spt),
    };
    // Most layouts begin with a track, behind the end of a track; perhaps half of them end within
    // one. By chance, both layouts begin a track at one block in a track's length. Slipped sectors
    // between the end and the observed track boundaries move these: those of the old layout later,
    // those of the new one earlier.
    let slipped = |blocks: u64| SLIP * real(blocks);
    let (of_old, of_new) = (logarithm(real(old.spt)), logarithm(real(new.spt)) + INSIDE);
    let likely = |at: Block| {
        let (old_at, new_at) = (old.track(at).1, new.track(at).1);
        let left = if old_at == 0 { 0 } else { old.spt - old_at };
        -slipped(left).min(of_old) - slipped(new_at).min(of_new)
    };
    boundary(probe, &search, &|at| old.at(at), &|at| new.at(at), &likely)
}

/// The blocks between two others at which either layout begins a track, in order.
fn begins(old: &TrackLayout, new: &TrackLayout, (from, to): (Block, Block)) -> Vec<Block> {
    let of = |layout: &TrackLayout| -> Vec<Block> {
        let tracks = layout.track(from).0 + 1..=layout.track(to).0;
        tracks.take(BEGINS_MAX).filter_map(|track| layout.begins(track)).collect()
    };
    let mut begins = [of(old), of(new)].concat();
    begins.sort_unstable();
    begins
}

/// The layout with its level refined by blocks of a range: where two layouts are close to each
/// other, small differences locate the end.
fn refine_level(
    probe: &mut Probe<'_, '_>,
    layout: TrackLayout,
    (from, to): (Block, Block),
) -> Result<TrackLayout, StopReason> {
    if to < from + layout.spt || to > probe.blocks {
        return Ok(layout);
    }
    let count = LEVEL * probe.effort();
    let samples = probe.samples(count, |part| from + floor(part * real(to - from)))?;
    let off: Vec<f64> = samples.iter().map(|s| layout.off(s.at, probe.phase(s))).collect();
    let level = centre(&off, 4.0 * probe.sigma).filter(|level| level.count * 4 >= count * 3);
    let moved = level.map_or(0.0, |level| wrap(level.mean));
    // A larger deviation is another layout.
    let moved = if moved.abs() < OFF_MAX { moved } else { 0.0 };
    Ok(TrackLayout { phase: fraction(layout.phase + moved), ..layout })
}

/// The standard error in revolutions of a level from [`LEVEL`] blocks, with one slipped sector
/// among them.
fn level_error(probe: &Probe<'_, '_>, layout: &TrackLayout) -> f64 {
    let read = probe.sigma / f64::from(LEVEL * probe.effort()).sqrt();
    let slipped = 1.0 / real(layout.spt);
    (read * read + slipped * slipped).sqrt()
}

/// Locates track boundaries exactly, near both ends of the segment.
pub(crate) fn refine_ends(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
) -> Result<(), StopReason> {
    let (spt, anchor) = (segment.layout.spt, segment.layout.anchor);
    let tracks = segment.layout.track(segment.to.max(anchor)).0.cast_unsigned().max(12);
    let reach = (spt / 50).clamp(6, 200).min(spt / 4);
    segment.layout = refine_within(probe, segment.layout, (0, tracks.min(EDGE)), reach)?;
    if tracks <= 2 * EDGE {
        segment.ending = segment.layout;
        return Ok(());
    }
    let near = (tracks - EDGE, tracks - 2);
    let high = segment.to - spt;
    let low = high.saturating_sub(EDGE * spt).max(anchor);
    let samples =
        probe.samples(CHECK * probe.effort(), |part| low + floor(part * real(high - low)))?;
    let found = phases(probe, &samples);
    let ending = segment.layout.fitted_level(&found, 5.0 * probe.sigma);
    let (ending, _) = refine(probe, ending, near, spt / 4)?;
    segment.ending = ending.fitted_level(&found, 5.0 * probe.sigma);
    Ok(())
}

/// Locates track boundaries exactly, within `reach` blocks or a few times as many: an anchor near
/// another end may be that end, and a result at the edge of the range is beyond it.
fn refine_within(
    probe: &mut Probe<'_, '_>,
    layout: TrackLayout,
    tracks: (u64, u64),
    mut reach: u64,
) -> Result<TrackLayout, StopReason> {
    loop {
        let (sharp, _) = refine(probe, layout, tracks, reach)?;
        let moved = sharp.anchor.abs_diff(layout.anchor);
        if moved + 1 < reach || 3 * reach > layout.spt / 4 {
            return Ok(sharp);
        }
        reach *= 3;
    }
}

/// Locates track boundaries exactly, within `reach` blocks: each read is at another boundary.
fn refine(
    probe: &mut Probe<'_, '_>,
    layout: TrackLayout,
    (low, high): (u64, u64),
    reach: u64,
) -> Result<(TrackLayout, f64), StopReason> {
    let zero = reach;
    let mut evidence = vec![0.0; usize::try_from(2 * reach + 1).expect("a part of a track")];
    let mut best = weigh(0, &evidence);
    let sigma = probe.sigma * 1.2;
    let (mut reads, mut tries) = (0, 0);
    let most = REFINE_READS * probe.effort();
    while reads < most && tries < 4 * most && (1.0 - best.sure > DOUBT || reads < 12) {
        tries += 1;
        let nth = low + 1 + floor(probe.next_random() * real((high - low).max(2) - 1));
        let nth = nth.cast_signed();
        let Some(track) = layout.begins(nth) else { continue };
        let spread = (probe.next_random() - 0.5) * 2.0 * real(best.width / 4 + 2);
        let place = floor(real(best.at) + 0.5 + spread);
        let at = (track + place).saturating_sub(zero);
        if at + layout.spt >= probe.blocks {
            continue;
        }
        // Another track replaces a cached one.
        let kept = tries - reads > most;
        let sample = if kept { probe.sample_again(at)? } else { probe.sample(at)? };
        let Some(sample) = sample else { continue };
        reads += 1;
        let phase = probe.phase(&sample);
        let inside = (real(at) - real(track)) / real(layout.spt);
        let (behind, before) = (layout.on((nth, 0)) + inside, layout.on((nth - 1, 0)) + inside);
        let (if_before, if_behind) = (against(phase, before, sigma), against(phase, behind, sigma));
        for (offset, evidence) in (0..).zip(&mut evidence) {
            *evidence -= if place < offset { if_before } else { if_behind };
        }
        best = weigh(0, &evidence);
    }
    Ok((layout.moved(best.at.cast_signed() - zero.cast_signed()), best.sure))
}
