//! How far a segment extends: checks at growing distances, then bisection of its end.

use crate::bench::StopReason;
use crate::estimate::number::{floor, real};
use crate::layout::block::{Block, Phases};
use crate::layout::boundary::{against, logarithm};
use crate::layout::local_layout::{fits, phases};
use crate::layout::probe::Probe;
use crate::layout::segment::{CHECK, Segment, Verdict, verdict};

/// Blocks that are added where those leave it in doubt.
const CHECK_AGAIN: u32 = 16;
/// A piece's end is halved down to so many tracks.
pub(crate) const TRACKS_LEFT: u64 = 12;
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
