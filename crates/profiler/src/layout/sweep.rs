//! The whole disk, piece by piece: how far a layout goes on, and what comes next.
//!
//! A piece is addresses on one lattice. From where it is known, checks at growing distances refine it, until one fails; the
//! end lies between the last check that held and the first that did not, is halved down to a few tracks and then found to
//! the block between what the piece says and what the next one does. So it is the number of pieces that costs time, and
//! not the size of the disk.

use crate::bench::StopReason;
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, fraction, real};
use crate::layout::boundary::{against, logarithm};
use crate::layout::cylinders::with_heads;
use crate::layout::local_layout::{self, HEADS_MAX, Phases, find, fits, phases};
use crate::layout::probe::{Block, Probe};
use crate::layout::segment_boundaries::edges;
use crate::layout::segments::{
    absorb, follow_group, grouped, grouped_alike, join, recount, settle,
};
use crate::layout::skews::Place;
use crate::layout::track_layout::TrackLayout;
use crate::limits::SEGMENTS_MAX;
use drive_profile::findings::OutlierReason;

/// Blocks in a check.
pub(crate) const CHECK: u32 = 8;
/// Blocks that are added where those leave it in doubt.
const CHECK_AGAIN: u32 = 16;
/// A check holds if its blocks lie off by no more than this part of a turn.
pub(crate) const OFF_MAX: f64 = 0.12;
/// A piece's end is halved down to so many tracks.
const TRACKS_LEFT: u64 = 12;
/// By how much better cylinders have to fit than tracks alone, in squares of noise.
const HEADS_GAIN: f64 = 12.0;
/// A piece that has ended too early more often than this is bent: what follows is better off without it.
const JOINS_MAX: u32 = 2;
/// Tracks that are known ground.
const GROUND: u64 = 400;
/// The most tracks that one check of [`CHECK`] blocks spans.
const SPAN_MAX: u64 = 24;
/// By how much further each check lies than the one before.
const FURTHER: u64 = 2;
/// Reads by which it is seen whether a piece is one, without those that it was made of.
const ASTRAY: u32 = 24;
/// Evidence that it is not, as a logarithm.
const ASTRAY_EVIDENCE: f64 = 12.0;
/// How often a piece is cut at most.
const ASTRAY_MAX: u32 = 4;
/// The mean distance of a check's blocks from their mean, in standard deviations; four fifths are expected.
const SCATTER_MAX: f64 = 1.4;
/// The same, from where on more blocks are read.
const SCATTER_DOUBTFUL: f64 = 1.1;

/// Addresses in a row on one lattice.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The first block.
    pub(crate) from: Block,
    /// How sure that is.
    pub(crate) sure: f64,
    /// Whether it was known then where cylinders begin, on both sides.
    pub(crate) settled_by_cylinders: bool,
    /// The first block behind it, or behind what is known of it.
    pub(crate) to: Block,
    pub(crate) layout: TrackLayout,
    /// How many tracks of its cylinder lie before the anchor's, if the arm told it.
    pub(crate) first_seen: Option<u32>,
    /// Blocks on a track of the zone that it is part of.
    pub(crate) spt: u64,
    /// The same lattice near its end: what was slipped in between has moved it.
    pub(crate) ending: TrackLayout,
    /// What was measured in it.
    pub(crate) phases: Phases,
    /// The step of its lattice and what a new cylinder adds, if they are whole sectors.
    pub(crate) skews: Option<(f64, f64)>,
    /// The step as single places told it, and its error in turns as all that was measured has it.
    pub(crate) steps: Vec<Place>,
    pub(crate) step_error: f64,
    /// How many places did not tell.
    pub(crate) steps_lost: usize,
    /// When that was done, in ns since the probe began.
    pub(crate) time: f64,
}

impl Segment {
    /// By how much the mean phase of a check of `own` blocks at `at` may be off, as a standard deviation: that of its
    /// own blocks, and that of a line through all that was measured.
    fn error(&self, (at, own): (Block, usize), sigma: f64) -> f64 {
        let own = real(own.max(1) as u64);
        let count = real(self.phases.len().max(2) as u64);
        let mean = self.phases.iter().map(|(at, _)| real(*at)).sum::<f64>() / count;
        let square = |(at, _): &(Block, f64)| (real(*at) - mean) * (real(*at) - mean);
        let square = self.phases.iter().map(square).sum::<f64>().max(1.0);
        let lever = (real(at) - mean) * (real(at) - mean) / square;
        sigma * (1.0 / own + 1.0 / count + lever).sqrt()
    }
}

/// Sweeps the disk into `segments`, from the end of the last of them on.
///
/// # Errors
/// As [`crate::Bench::check`]; the pieces that were found until then stand.
pub(crate) fn sweep(
    probe: &mut Probe<'_, '_>,
    segments: &mut Vec<Segment>,
) -> Result<(), StopReason> {
    let mut from = segments.last().map_or(0, |segment| segment.to);
    let (mut lost, mut joins) = (0_u32, 0);
    while segments.len() < SEGMENTS_MAX && probe.now() < probe.until {
        let heads = known_heads(segments);
        let last = segments.last().map(|last| last.layout);
        let again = match &last {
            Some(last) => same_again(probe, from, last)?,
            None => None,
        };
        let found = match again {
            Some(found) => Some(found),
            None => local_layout::local(probe, from, (last.as_ref(), heads))?,
        };
        let Some((layout, phases)) = found else {
            // Nothing regular here: look further on, each time twice as far.
            let spt = last.map_or(4_096, |last| last.spt);
            from += (16 * spt) << lost.min(24);
            lost += 1;
            if from + 8 * spt >= probe.blocks {
                last_tracks(probe, segments);
                return Ok(());
            }
            continue;
        };
        lost = 0;
        let joined = joins < JOINS_MAX
            && segments.last_mut().is_some_and(|last| join(last, &phases, probe.sigma));
        joins = if joined { joins + 1 } else { 0 };
        if !joined {
            let from = layout.anchor;
            let ending = layout;
            segments.push(Segment {
                from,
                sure: 0.0,
                settled_by_cylinders: false,
                to: from,
                layout,
                first_seen: None,
                spt: layout.spt,
                ending,
                phases,
                skews: None,
                steps: Vec::new(),
                step_error: 1.0,
                steps_lost: 0,
                time: probe.now(),
            });
        }
        let nth = segments.len() - 1;
        if let Some(heads) = heads {
            shown(&mut segments[nth], heads, probe.sigma);
        }
        let bad = follow(probe, &mut segments[nth])?;
        if !joined {
            settle(probe, segments)?;
        }
        absorb(probe, segments)?;
        let Some(bad) = bad else { return Ok(()) };
        from = bad;
        if grouped_alike(probe, segments)? || grouped(segments, probe.sigma) {
            match follow_group(probe, segments)? {
                None => return Ok(()),
                Some(behind) => from = behind,
            }
            absorb(probe, segments)?;
        }
    }
    Ok(())
}

/// Follows a piece from where it is known to both its ends; what is behind it, if the disk does not end with it.
fn follow(probe: &mut Probe<'_, '_>, segment: &mut Segment) -> Result<Option<Block>, StopReason> {
    let mut bad = extend(probe, segment)?;
    if recount(probe, segment)? {
        bad = extend(probe, segment)?;
    }
    if bad.is_none() {
        segment.to = probe.blocks;
    }
    ground(probe, segment);
    edges(probe, segment)?;
    Ok(bad)
}

/// The last tracks of a disk are too few to show how they are laid out if something was slipped there: they go with what
/// is before them.
fn last_tracks(probe: &mut Probe<'_, '_>, segments: &mut [Segment]) {
    let Some(last) = segments.last_mut() else { return };
    let left = probe.blocks - last.to;
    if left < 2 * TRACKS_LEFT * last.layout.spt {
        let lba = probe.lba(last.to);
        probe.bench.outlier(lba, OutlierReason::Remapped);
        last.to = probe.blocks;
    }
}

/// Tracks on a cylinder, as most of what was found shows them.
fn known_heads(segments: &[Segment]) -> Option<u32> {
    let mut blocks = [0; HEADS_MAX as usize + 1];
    for segment in segments.iter().filter(|segment| segment.layout.heads > 1) {
        blocks[segment.layout.heads as usize] += segment.to - segment.from;
    }
    (2..=HEADS_MAX)
        .max_by_key(|heads| blocks[*heads as usize])
        .filter(|heads| blocks[*heads as usize] > 0)
}

/// Gives the piece cylinders of so many tracks, if what was measured of it shows them.
fn shown(segment: &mut Segment, heads: u32, sigma: f64) {
    if segment.layout.heads == heads || segment.layout.gaps.is_some() {
        return;
    }
    let (gain, layout) = with_heads(segment, (heads, None), sigma);
    if gain > HEADS_GAIN {
        segment.layout = layout;
    }
}

/// The last tracks of a piece are known ground.
fn ground(probe: &mut Probe<'_, '_>, segment: &Segment) {
    let spt = segment.layout.spt;
    let to = segment.to.saturating_sub(8 * spt);
    let from = to.saturating_sub(GROUND * spt).max(segment.layout.anchor);
    probe.ground = (to > from + 16 * spt).then_some((segment.layout, from, to)).or(probe.ground);
}

/// What blocks say of whether they lie where a piece says.
pub(crate) enum Verdict {
    Holds,
    /// They may, and may as well not.
    Doubtful,
    Fails,
}

pub(crate) fn verdict(segment: &Segment, phases: &Phases, (at, sigma): (Block, f64)) -> Verdict {
    let mut off: Vec<f64> =
        phases.iter().map(|(at, phase)| segment.layout.off(*at, *phase)).collect();
    if off.len() < 4 {
        return Verdict::Fails;
    }
    let Some(found) = centre(&off, 5.0 * sigma) else { return Verdict::Fails };
    // One of eight may have been moved elsewhere, or was late.
    off.sort_by(|a, b| wrap(a - found.mean).abs().total_cmp(&wrap(b - found.mean).abs()));
    let alone = off.split_off(off.len() - off.len().div_ceil(8));
    let alone = alone.iter().any(|off| wrap(off - found.mean).abs() > 4.0 * sigma);
    let scatter =
        off.iter().map(|off| wrap(off - found.mean).abs()).sum::<f64>() / real(off.len() as u64);
    let error = segment.error((at, phases.len()), sigma);
    let may = (4.0 * error + 2.0 / real(segment.layout.spt)).min(OFF_MAX);
    let moved = wrap(found.mean).abs();
    if scatter > SCATTER_MAX * sigma || moved > may {
        return Verdict::Fails;
    }
    let doubtful = alone || scatter > SCATTER_DOUBTFUL * sigma;
    if doubtful { Verdict::Doubtful } else { Verdict::Holds }
}

/// Whether the blocks from `at` on, over so many, lie where the piece says; if so they are added to it.
pub(crate) fn check(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
    (at, span): (Block, u64),
) -> Result<bool, StopReason> {
    let mut phases = Phases::new();
    for count in [CHECK, CHECK_AGAIN] {
        let samples =
            probe.samples(count * probe.effort(), |part| at + floor(part * real(span)))?;
        phases.extend(samples.iter().map(|sample| (sample.at, probe.phase(sample))));
        match verdict(segment, &phases, (at, probe.sigma)) {
            // Most of it may lie right by chance: more blocks tell.
            Verdict::Doubtful if count == CHECK => {}
            Verdict::Holds | Verdict::Doubtful => break,
            Verdict::Fails => return Ok(false),
        }
    }
    let before = segment.phases.len();
    segment.phases.extend(phases);
    let layout = segment.layout.fitted(&segment.phases, 0.15);
    if !fits(&layout, &segment.phases, probe.sigma) {
        // It was by chance, or at the price of all that lies between.
        segment.phases.truncate(before);
        return Ok(false);
    }
    segment.layout = layout;
    Ok(true)
}

/// Follows the piece as far as it goes; what is behind its end, if the disk does not end with it.
pub(crate) fn extend(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
) -> Result<Option<Block>, StopReason> {
    let spt = segment.layout.spt;
    let known = segment.phases.iter().map(|(at, _)| *at).max().unwrap_or(segment.layout.anchor);
    let mut good = known.max(segment.layout.anchor);
    let mut step = ((good - segment.layout.anchor) / spt).max(16) * spt;
    let end = probe.blocks;
    let mut bad = None;
    while bad.is_none() && good + 2 * spt < end {
        let span = (step / 2).clamp(spt, span_max(probe) * spt);
        let at = (good + step).min(end.saturating_sub(span + 1)).max(good);
        // Twice: what noise made fail does not fail again.
        if check(probe, segment, (at, span))? || check(probe, segment, (at, span))? {
            good = at + span;
            segment.to = good.min(end);
            step *= FURTHER;
        } else {
            bad = Some((at + span).min(end));
        }
    }
    if let Some(bad) = &mut bad {
        halve(probe, segment, good, bad)?;
    }
    for _ in 0..ASTRAY_MAX {
        let Some((good, mut off)) = astray(probe, segment)? else { break };
        // Checks behind it held by chance.
        segment.phases.retain(|(at, _)| *at <= good);
        segment.layout = segment.layout.fitted(&segment.phases, 0.15);
        segment.to = good;
        halve(probe, segment, good, &mut off)?;
        bad = Some(off);
    }
    Ok(bad)
}

/// Tracks that a check spans at most: as many for each read however many there are, as the drive keeps whole tracks.
fn span_max(probe: &Probe<'_, '_>) -> u64 {
    SPAN_MAX * u64::from(probe.effort())
}

/// Halves what lies between `good`, up to where the piece goes, and `bad`, where it has ended.
fn halve(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
    mut good: Block,
    bad: &mut Block,
) -> Result<(), StopReason> {
    let spt = segment.layout.spt;
    while *bad - good > TRACKS_LEFT * spt {
        let span = ((*bad - good) / 4).min(span_max(probe) * spt);
        let at = good + (*bad - good - span) / 2;
        // Tracks that are turned nearly alike may lie right at one place; they do not at another.
        let other = at - floor(probe.even() * real(at - good) / 2.0);
        let held = check(probe, segment, (at, span))? || check(probe, segment, (at, span))?;
        if held && (check(probe, segment, (other, span))? || check(probe, segment, (other, span))?)
        {
            good = at + span;
            segment.to = good;
        } else {
            *bad = at + span;
        }
    }
    Ok(())
}

/// Reads all over a piece that were not made to fit it: the last place before they do not fit, and a place where
/// they do not. None if they do all over.
fn astray(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
) -> Result<Option<(Block, Block)>, StopReason> {
    let (from, to) = (segment.layout.anchor, segment.to);
    if to < from + TRACKS_LEFT * segment.layout.spt {
        return Ok(None);
    }
    let samples =
        probe.samples(ASTRAY * probe.effort(), |part| from + floor(part * real(to - from)))?;
    let mut phases = phases(probe, &samples);
    phases.reverse();
    let sigma = probe.sigma * 1.3;
    // What a read that may lie anywhere on the turn has for it, beside one that lies as noise has it.
    let anywhere = logarithm(1.0 / (sigma * 2.507));
    let (mut sum, mut begins) = (0.0_f64, 0);
    let mut most = (ASTRAY_EVIDENCE, None);
    for (nth, (at, phase)) in phases.iter().enumerate() {
        if sum <= 0.0 {
            (sum, begins) = (0.0, nth);
        }
        sum += against(*phase, segment.layout.at(*at), sigma) - anywhere;
        if sum > most.0 {
            most = (sum, Some(begins));
        }
    }
    let Some(begins) = most.1 else { return Ok(None) };
    // The read before may lie right by chance.
    let good = begins.checked_sub(2).map_or(from, |nth| phases[nth].0);
    Ok(Some((good, phases[begins].0)))
}

/// The same lattice anew from `from` on, if it goes on as it was but for where it begins; and what was measured of it.
fn same_again(
    probe: &mut Probe<'_, '_>,
    from: Block,
    like: &TrackLayout,
) -> Result<Option<(TrackLayout, Phases)>, StopReason> {
    let spt = like.spt;
    let tracks = (2 * u64::from(like.heads)).clamp(16, 32);
    if from + (tracks + 3) * spt > probe.blocks {
        return Ok(None);
    }
    // Blocks a track apart lie at one place of their tracks, whichever that is.
    // Each time all of them: what is read twice in a row is read out of the drive's memory.
    let all = (0..u64::from(probe.effort()))
        .flat_map(|nth| (0..tracks).rev().map(move |track| from + track * spt + nth));
    let samples = probe.samples_of(all.collect())?;
    let found = phases(probe, &samples);
    let mut best: Option<(f64, TrackLayout)> = None;
    for first in 0..like.heads {
        let free = TrackLayout { anchor: from, first, phase: 0.0, gaps: None, ..*like };
        let off: Vec<f64> = found.iter().map(|(at, phase)| free.off(*at, *phase)).collect();
        let Some(level) = centre(&off, 5.0 * probe.sigma) else { continue };
        let layout = TrackLayout { phase: level.mean, ..free };
        let misfit = layout.misfit(&found, 0.25);
        if best.is_none_or(|(least, _)| misfit < least) {
            best = Some((misfit, layout));
        }
    }
    let Some((_, rough)) = best.filter(|(_, layout)| fits(layout, &found, probe.sigma)) else {
        return Ok(None);
    };
    // Where tracks begin: half a track of samples on each side of everywhere.
    let real_spt = real(spt);
    let middle = from + spt;
    let Some((first, _)) = local_layout::scan(probe, (middle, middle + spt * 6 / 5), real_spt, 0)?
    else {
        return Ok(None);
    };
    let Some(anchor) = find(probe, first, spt / 12, real_spt, 1)? else { return Ok(None) };
    let offset = (anchor.at - from) % spt;
    // Blocks before their track's boundary lie on the track before it.
    let anchor = from + offset;
    let sector = real((spt - offset) % spt) / real_spt;
    let turned = if offset == 0 { 0.0 } else { 1.0 };
    let heads = rough.heads;
    let first = if offset == 0 { rough.first } else { (rough.first + 1) % heads };
    let wrapped = if heads > 1 && offset != 0 && first == 0 { rough.extra } else { 0.0 };
    let phase = fraction(rough.phase - sector + turned * rough.step + wrapped);
    let layout = TrackLayout { anchor, phase, first, ..rough };
    let layout = layout.fitted_level(&found, 0.2);
    Ok(fits(&layout, &found, probe.sigma).then_some((layout, found)))
}
