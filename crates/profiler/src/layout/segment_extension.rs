//! How far a segment extends: checks at growing distances, then bisection of its end.

use crate::bench::StopReason;
use crate::estimate::number::{floor, real};
use crate::layout::block::{Block, Phases};
use crate::layout::boundary::{against, logarithm};
use crate::layout::local_layout::{fits, phases};
use crate::layout::probe::Probe;
use crate::layout::segment::{CHECK, Segment, Verdict, verdict};

/// The blocks that are added to an undecided check.
const CHECK_AGAIN: u32 = 16;
/// The tracks to which a segment's end is bisected.
pub(crate) const TRACKS_LEFT: u64 = 12;
/// The most tracks of one check of [`CHECK`] blocks.
const SPAN_MAX: u64 = 24;
/// The ratio of the distances of consecutive checks.
const STEP_RATIO: u64 = 2;
/// The reads that verify a segment independently of those that it was fitted to.
const VERIFY_READS: u32 = 24;
/// The evidence that refutes it, as a logarithm.
const REFUTED_EVIDENCE: f64 = 12.0;
/// The most truncations of a segment.
const TRUNCATIONS_MAX: u32 = 4;

/// Whether the blocks of a span from `at` on agree with the segment. If so they are added to it.
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
            // Most of them may agree by chance: more blocks decide.
            Verdict::Doubtful if count == CHECK => {}
            Verdict::Holds | Verdict::Doubtful => break,
            Verdict::Fails => return Ok(false),
        }
    }
    let before = segment.phases.len();
    segment.phases.extend(phases);
    let layout = segment.layout.fitted(&segment.phases, 0.15);
    if !fits(&layout, &segment.phases, probe.sigma) {
        // The agreement was by chance, or at the cost of the blocks between.
        segment.phases.truncate(before);
        return Ok(false);
    }
    segment.layout = layout;
    Ok(true)
}

/// Extends the segment to its end. The first block behind it, unless the disk ends with it.
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
        // A failed check is repeated, because noise rarely fails it twice.
        if check(probe, segment, (at, span))? || check(probe, segment, (at, span))? {
            good = at + span;
            segment.to = good.min(end);
            step *= STEP_RATIO;
        } else {
            bad = Some((at + span).min(end));
        }
    }
    if let Some(bad) = &mut bad {
        bisect_end(probe, segment, good, bad)?;
    }
    for _ in 0..TRUNCATIONS_MAX {
        let Some((good, mut off)) = find_disagreement(probe, segment)? else { break };
        // The checks behind it agreed by chance.
        segment.phases.retain(|(at, _)| *at <= good);
        segment.layout = segment.layout.fitted(&segment.phases, 0.15);
        segment.to = good;
        bisect_end(probe, segment, good, &mut off)?;
        bad = Some(off);
    }
    Ok(bad)
}

/// The most tracks of a check: the number of tracks per read is constant, because drives cache
/// whole tracks.
fn span_max(probe: &Probe<'_, '_>) -> u64 {
    SPAN_MAX * u64::from(probe.effort())
}

/// Bisects between `good`, the end of the known segment, and `bad`, behind its end.
fn bisect_end(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
    mut good: Block,
    bad: &mut Block,
) -> Result<(), StopReason> {
    let spt = segment.layout.spt;
    while *bad - good > TRACKS_LEFT * spt {
        let span = ((*bad - good) / 4).min(span_max(probe) * spt);
        let at = good + (*bad - good - span) / 2;
        // Tracks with nearly equal skews may agree at one location, but not at another.
        let other = at - floor(probe.next_random() * real(at - good) / 2.0);
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

/// Reads blocks of the whole segment independently of its fit: the last block before they disagree,
/// and a block that disagrees. `None` if all agree.
fn find_disagreement(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
) -> Result<Option<(Block, Block)>, StopReason> {
    let (from, to) = (segment.layout.anchor, segment.to);
    if to < from + TRACKS_LEFT * segment.layout.spt {
        return Ok(None);
    }
    let samples = probe
        .samples(VERIFY_READS * probe.effort(), |part| from + floor(part * real(to - from)))?;
    let mut phases = phases(probe, &samples);
    phases.reverse();
    let sigma = probe.sigma * 1.3;
    // The evidence of a read at any phase, relative to one with noise alone.
    let anywhere = logarithm(1.0 / (sigma * 2.507));
    let (mut sum, mut begins) = (0.0_f64, 0);
    let mut most = (REFUTED_EVIDENCE, None);
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
    // The read before may agree by chance.
    let good = begins.checked_sub(2).map_or(from, |nth| phases[nth].0);
    Ok(Some((good, phases[begins].0)))
}
