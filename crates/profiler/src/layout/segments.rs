//! Merges, removes and groups adjacent segments.
//!
//! A segment is inferred from a few dozen reads, and some inferences are wrong. A wrong one does
//! not extend far: it ends within a few tracks, and the next, much longer segment explains its
//! reads.

use crate::bench::StopReason;
use crate::estimate::number::{floor, real, signed};
use crate::layout::block::Block;
use crate::layout::block::Phases;
use crate::layout::boundary::against;
use crate::layout::local_layout::{fits, phases};
use crate::layout::probe::Probe;
use crate::layout::segment::{Segment, Verdict, verdict};
use crate::layout::segment_boundaries::{begin, first_track, refine_ends};
use crate::layout::segment_extension::{check, extend};
use crate::layout::track_layout::{Gaps, TrackLayout};

/// The most whole tracks of a gap.
const GAP_TRACKS_MAX: u64 = 64;
/// The groups behind the first that are checked before gaps are accepted.
const GROUPS_CHECKED: u64 = 2;
/// The least tracks of a segment whose blocks per track are counted again.
const RECOUNT_TRACKS_MIN: i64 = 6;
/// The tracks of a segment beyond which the count was right: a wrong one would have ended it.
const RECOUNT_TRACKS_MAX: i64 = 256;
/// The most blocks by which a count may be wrong.
const COUNT_ERROR_MAX: i64 = 2;
/// The reads of a second count.
const RECOUNT_READS: u64 = 24;
/// The least improvement by another count, in squares of noise.
const RECOUNT_GAIN: f64 = 20.0;
/// The tracks beyond which a segment is not an artefact of noise.
const SHORT_TRACKS: u64 = 96;
/// The least ratio of the lengths of a segment and one that it explains.
const LONGER: u64 = 4;
/// The reads that decide whether adjacent segments explain one.
const EXPLAIN_READS: u32 = 32;
/// The largest mean evidence of a read against a correct rule; a half is expected.
const AGAINST_FITS: f64 = 0.95;

/// Locates the beginning of the last segment, behind the one before it.
pub(crate) fn locate_beginning(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
) -> Result<(), StopReason> {
    match segments {
        [.., before, segment] => locate_behind(probe, before, segment),
        [segment] => {
            (segment.from, segment.sure) = (0, 1.0);
            Ok(())
        }
        [] => Ok(()),
    }
}

/// Locates the beginning of a segment behind another.
fn locate_behind(
    probe: &mut Probe<'_, '_>,
    before: &mut Segment,
    segment: &mut Segment,
) -> Result<(), StopReason> {
    let (start, sure, seen) = begin(probe, before, (&segment.layout, segment.to))?;
    // Where both layouts begin a track the beginning is certain.
    let told = seen || both_begin(before, segment, start);
    let start = if told { start } else { first_track(probe, segment, start)? };
    before.to = start;
    (segment.from, segment.sure) = (start, sure);
    segment.settled_by_cylinders = before.layout.heads > 1 && segment.layout.heads > 1;
    Ok(())
}

/// Whether either segment's layout begins a track at a block.
fn both_begin(before: &Segment, segment: &Segment, at: Block) -> bool {
    before.ending.track(at).1 == 0 && segment.layout.track(at).1 == 0
}

/// Locates the beginnings of segments again whose cylinders were unknown then: without them the
/// tracks seem to deviate by the difference of the two skews, either way.
pub(crate) fn locate_again(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
    until: f64,
) -> Result<(), StopReason> {
    for nth in 1..segments.len() {
        let [.., before, segment] = &mut segments[..=nth] else { continue };
        let known = before.layout.heads > 1 && segment.layout.heads > 1;
        let doubtful = !segment.settled_by_cylinders && !both_begin(before, segment, segment.from);
        if known && doubtful && probe.now() < until {
            locate_behind(probe, before, segment)?;
        }
    }
    Ok(())
}

/// Removes artefacts before the last segment: short segments whose reads the last segment and the
/// one before them explain as well.
pub(crate) fn absorb(
    probe: &mut Probe<'_, '_>,
    segments: &mut Vec<Segment>,
) -> Result<(), StopReason> {
    while let [.., short, last] = &segments[..] {
        let length = short.to - short.from;
        let made_up = length < SHORT_TRACKS * short.layout.spt;
        if !made_up || (last.to - last.from) < LONGER * length {
            return Ok(());
        }
        let before = segments.len().checked_sub(3).map(|nth| &segments[nth].ending);
        if !is_explained(probe, (before, &last.layout), (short.from, short.to))? {
            return Ok(());
        }
        segments.remove(segments.len() - 2);
        if let [.., before, last] = &mut segments[..] {
            before.to = last.from;
        }
        locate_beginning(probe, segments)?;
    }
    Ok(())
}

/// Counts the blocks on a track again if a segment ends soon: one block too many or too few shows
/// only at the ends of tracks, and the more the further they are from the start of the count.
/// Whether the count changed.
pub(crate) fn recount(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
) -> Result<bool, StopReason> {
    let layout = segment.layout;
    let (spt, tracks) = (layout.spt, layout.track(segment.to).0);
    if !(RECOUNT_TRACKS_MIN..RECOUNT_TRACKS_MAX).contains(&tracks) || layout.gaps.is_some() {
        return Ok(false);
    }
    let reach = (COUNT_ERROR_MAX.cast_unsigned() * tracks.cast_unsigned()).min(spt / 2);
    let mut blocks: Vec<Block> = (0..RECOUNT_READS * u64::from(probe.effort()))
        .filter_map(|_| {
            let track = tracks / 2
                + floor(probe.next_random() * real(tracks.cast_unsigned() / 2)).cast_signed();
            let beside = floor(probe.next_random() * real(2 * reach));
            Some((layout.begins(track.max(1))? + beside).saturating_sub(reach))
        })
        .collect();
    blocks.sort_unstable();
    blocks.reverse();
    let mut found = segment.phases.clone();
    let samples = probe.samples_of(blocks)?;
    found.extend(phases(probe, &samples));
    let counted = |more: i64| -> Option<(f64, TrackLayout)> {
        let other = spt.checked_add_signed(more)?;
        // The mean time in which a block passes stays the same.
        let step = layout.step + (1.0 + layout.mean_step()) * signed(more) / real(spt);
        let mut other = TrackLayout { spt: other, step, ..layout };
        for reach in [0.25, 0.25, 5.0 * probe.sigma] {
            other = other.fitted(&found, reach);
        }
        Some((other.misfit(&found, 5.0 * probe.sigma), other))
    };
    let (least, best) = (-COUNT_ERROR_MAX..=COUNT_ERROR_MAX)
        .filter_map(counted)
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .expect("the count as it is is one of them");
    let now = counted(0).map_or(f64::INFINITY, |(misfit, _)| misfit);
    let gain = (now - least) / (probe.sigma * probe.sigma);
    if best.spt == spt || gain < RECOUNT_GAIN {
        return Ok(false);
    }
    segment.phases = found;
    (segment.layout, segment.spt) = (best, best.spt);
    Ok(true)
}

/// Assigns segments to zones. No zone occurs twice, so the segments between two segments of one
/// zone belong to it: evenly slipped sectors make tracks look shorter.
pub(crate) fn assign_zones(segments: &mut [Segment]) {
    for nth in 0..segments.len() {
        let spt = segments[nth].spt;
        let within = |segment: &Segment| {
            let tracks = (segment.to - segment.from) / segment.layout.spt;
            segment.spt.abs_diff(spt) <= COUNT_ERROR_MAX.unsigned_abs()
                && tracks < RECOUNT_TRACKS_MAX.unsigned_abs()
        };
        let others =
            segments[nth + 1..].iter().take_while(|segment| segment.spt != spt && within(segment));
        let again = nth + 1 + others.count();
        if segments.get(again).is_some_and(|segment| segment.spt == spt) {
            segments[nth + 1..again].iter_mut().for_each(|segment| segment.spt = spt);
        }
    }
}

/// Whether the reads of a range are on one layout up to some block, and on the other from there on.
fn is_explained(
    probe: &mut Probe<'_, '_>,
    (before, behind): (Option<&TrackLayout>, &TrackLayout),
    (from, to): (Block, Block),
) -> Result<bool, StopReason> {
    let samples = probe
        .samples(EXPLAIN_READS * probe.effort(), |part| from + floor(part * real(to - from)))?;
    let mut found = phases(probe, &samples);
    found.reverse();
    let sigma = probe.sigma * 1.1;
    let speaks =
        |layout: &TrackLayout, (at, phase): &(Block, f64)| against(*phase, layout.at(*at), sigma);
    let mut sum: f64 = found.iter().map(|read| speaks(behind, read)).sum();
    let mut least = sum;
    if let Some(before) = before {
        for read in &found {
            sum += speaks(before, read) - speaks(behind, read);
            least = least.min(sum);
        }
    }
    Ok(found.len() > 8 && least < AGAINST_FITS * real(found.len() as u64))
}

/// Adds phases to a segment, if they agree with it: its end was found too early.
pub(crate) fn join(segment: &mut Segment, phases: &Phases, sigma: f64) -> bool {
    let Some((first, _)) = phases.iter().min_by_key(|(at, _)| *at) else { return false };
    if matches!(verdict(segment, phases, (*first, sigma)), Verdict::Fails) {
        return false;
    }
    let before = (segment.phases.len(), segment.layout);
    segment.phases.extend(phases);
    segment.layout = segment.layout.fitted(&segment.phases, 0.15);
    let holds = fits(&segment.layout, &segment.phases, sigma);
    if !holds {
        segment.phases.truncate(before.0);
        segment.layout = before.1;
    }
    holds
}

/// Merges the last three segments, if the gaps between them are equal and equally far apart.
pub(crate) fn merge_groups(segments: &mut Vec<Segment>, sigma: f64) -> bool {
    let [.., a, b, c] = &segments[..] else { return false };
    let every = c.from - b.from;
    let alike = a.layout.spt == b.layout.spt && b.layout.spt == c.layout.spt;
    let plain = [a, b, c].iter().all(|segment| segment.layout.gaps.is_none());
    if !alike || !plain || b.from - a.from != every || every == 0 {
        return false;
    }
    let spt = a.layout.spt;
    // The track boundaries show the gap up to whole tracks.
    let moved = (c.layout.anchor - b.layout.anchor) % spt;
    let part = (spt - moved) % spt;
    let mut phases = a.phases.clone();
    phases.extend(&b.phases);
    phases.extend(&c.phases);
    let inside = a.layout.anchor - a.from;
    let mut best: Option<(f64, TrackLayout)> = None;
    for tracks in 0..GAP_TRACKS_MAX {
        let skip = part + tracks * spt;
        let gaps = (skip > 0).then_some(Gaps { every, skip, inside });
        let mut layout = TrackLayout { gaps, ..a.layout };
        for _ in 0..2 {
            layout = layout.fitted(&phases, 0.15);
        }
        let misfit = layout.misfit(&phases, 5.0 * sigma);
        // Whole tracks may be added to the gap without changing the phases, when they turn the disk
        // by whole revolutions.
        if best.is_none_or(|(least, _)| misfit < 0.8 * least) {
            best = Some((misfit, layout));
        }
    }
    let Some((_, layout)) = best.filter(|(_, layout)| fits(layout, &phases, sigma)) else {
        return false;
    };
    let one = Segment { to: c.to, layout, spt, ending: layout, phases, ..a.clone() };
    segments.truncate(segments.len() - 3);
    segments.push(one);
    true
}

/// Gives the last segment the gaps of an earlier one, if it has as many tracks between gaps and
/// gaps of the same size.
pub(crate) fn apply_known_gaps(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
) -> Result<bool, StopReason> {
    let Some((last, before)) = segments.split_last_mut() else { return Ok(false) };
    let like = before.iter().rev().find_map(|p| p.layout.gaps.map(|gaps| (p.layout.spt, gaps)));
    let Some((like_spt, gaps)) = like.filter(|_| last.layout.gaps.is_none()) else {
        return Ok(false);
    };
    let all = gaps.every + gaps.skip;
    let spt = last.layout.spt;
    if !all.is_multiple_of(like_spt) || last.layout.anchor < last.from {
        return Ok(false);
    }
    let tracks = all / like_spt;
    let whole_tracks = gaps.skip.is_multiple_of(like_spt);
    let skips = [Some(gaps.skip), whole_tracks.then_some(gaps.skip / like_spt * spt)];
    for skip in skips.into_iter().flatten() {
        let Some(every) = (tracks * spt).checked_sub(skip).filter(|every| *every > 2 * spt) else {
            continue;
        };
        let inside = last.layout.anchor - last.from;
        let mut segment = last.clone();
        segment.layout.gaps = Some(Gaps { every, skip, inside });
        let mut held = true;
        for nth in 1..=GROUPS_CHECKED {
            let group = last.from + nth * every;
            held = held
                && group + every < probe.blocks
                && check(probe, &mut segment, (group + spt / 8, every - spt / 4))?;
        }
        if held {
            segment.to = last.from + (GROUPS_CHECKED + 1) * every;
            segment.ending = segment.layout;
            *last = segment;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Extends the last segment, whose gaps were just found. The first block behind its end, unless the
/// disk ends with it.
pub(crate) fn follow_group(
    probe: &mut Probe<'_, '_>,
    segments: &mut Vec<Segment>,
) -> Result<Option<Block>, StopReason> {
    let mut nth = segments.len() - 1;
    // The blocks before it may have become another segment, with an unknown gap in it.
    while nth > 0 && segments[nth - 1].layout.spt == segments[nth].layout.spt {
        let before = segments[nth - 1].phases.clone();
        if !join(&mut segments[nth], &before, probe.sigma) {
            break;
        }
        let before = segments.remove(nth - 1);
        nth -= 1;
        (segments[nth].from, segments[nth].sure) = (before.from, before.sure);
    }
    // The earlier beginning ignored the gaps.
    locate_beginning(probe, segments)?;
    let segment = &mut segments[nth];
    let bad = extend(probe, segment)?;
    if bad.is_none() {
        segment.to = probe.blocks;
    }
    refine_ends(probe, segment)?;
    Ok(bad)
}
