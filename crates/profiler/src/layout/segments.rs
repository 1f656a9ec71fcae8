//! Pieces beside one another: which of them are one, and which are none.
//!
//! What is believed of a piece comes from a few dozen reads, and some beliefs are wrong. A wrong one does not reach far: it
//! ends within a few tracks, and the next piece, which goes on for long, explains what it had been made for.

use crate::bench::StopReason;
use crate::estimate::number::{floor, real, signed};
use crate::layout::block::Block;
use crate::layout::block::Phases;
use crate::layout::boundary::against;
use crate::layout::local_layout::{fits, phases};
use crate::layout::probe::Probe;
use crate::layout::segment::{Segment, Verdict, verdict};
use crate::layout::segment_boundaries::{begin, edges, first_track};
use crate::layout::segment_extension::{check, extend};
use crate::layout::track_layout::{Gaps, TrackLayout};

/// A gap has fewer whole tracks.
const GAP_TRACKS_MAX: u64 = 64;
/// Groups behind the first that are looked at before it is believed that gaps are as before.
const GROUPS_CHECKED: u64 = 2;
/// The blocks on fewer tracks show nothing more.
const COUNTED_MIN: i64 = 6;
/// A piece of more was counted rightly: it would not have gone on for so long.
const COUNTED_MAX: i64 = 256;
/// By so many blocks a count may be off.
const RECOUNTED: i64 = 2;
/// Reads by which is counted again.
const RECOUNT: u64 = 24;
/// By how much better another count has to fit, in squares of noise.
const RECOUNT_GAIN: f64 = 20.0;
/// A piece of more tracks was not made up of noise.
const SHORT_TRACKS: u64 = 96;
/// A piece that is to explain another is so many times as long.
const LONGER: u64 = 4;
/// Reads by which it is seen whether the pieces beside one explain it.
const EXPLAINED: u32 = 32;
/// What a read speaks on the mean against a rule that is right, at most; half is expected.
const AGAINST_FITS: f64 = 0.95;

/// Where the last piece begins, behind the one before it.
pub(crate) fn settle(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
) -> Result<(), StopReason> {
    match segments {
        [.., before, segment] => settle_behind(probe, before, segment),
        [segment] => {
            (segment.from, segment.sure) = (0, 1.0);
            Ok(())
        }
        [] => Ok(()),
    }
}

/// Where a piece begins behind another.
fn settle_behind(
    probe: &mut Probe<'_, '_>,
    before: &mut Segment,
    segment: &mut Segment,
) -> Result<(), StopReason> {
    let (start, sure, seen) = begin(probe, before, (&segment.layout, segment.to))?;
    // Where both lattices have a track begin there is no doubt left.
    let told = seen || both_begin(before, segment, start);
    let start = if told { start } else { first_track(probe, segment, start)? };
    before.to = start;
    (segment.from, segment.sure) = (start, sure);
    segment.settled_by_cylinders = before.layout.heads > 1 && segment.layout.heads > 1;
    Ok(())
}

/// Whether a track of either piece begins with a block.
fn both_begin(before: &Segment, segment: &Segment, at: Block) -> bool {
    before.ending.track(at).1 == 0 && segment.layout.track(at).1 == 0
}

/// Looks once more where pieces begin of which it was not known then where cylinders do: without that their tracks seem to
/// lie off by as much as the two skews differ, to and fro.
pub(crate) fn settle_again(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
    until: f64,
) -> Result<(), StopReason> {
    for nth in 1..segments.len() {
        let [.., before, segment] = &mut segments[..=nth] else { continue };
        let known = before.layout.heads > 1 && segment.layout.heads > 1;
        let doubtful = !segment.settled_by_cylinders && !both_begin(before, segment, segment.from);
        if known && doubtful && probe.now() < until {
            settle_behind(probe, before, segment)?;
        }
    }
    Ok(())
}

/// Takes away pieces before the last that are none: short ones whose reads are explained as well by the last piece and the
/// one before them.
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
        if !explained(probe, (before, &last.layout), (short.from, short.to))? {
            return Ok(());
        }
        segments.remove(segments.len() - 2);
        if let [.., before, last] = &mut segments[..] {
            before.to = last.from;
        }
        settle(probe, segments)?;
    }
    Ok(())
}

/// Counts the blocks on a track once more, where a piece ends soon: one too many or too few on each shows at the ends of
/// tracks alone, and the further from where the count began the more. Whether there was another count.
pub(crate) fn recount(
    probe: &mut Probe<'_, '_>,
    segment: &mut Segment,
) -> Result<bool, StopReason> {
    let layout = segment.layout;
    let (spt, tracks) = (layout.spt, layout.track(segment.to).0);
    if !(COUNTED_MIN..COUNTED_MAX).contains(&tracks) || layout.gaps.is_some() {
        return Ok(false);
    }
    let reach = (RECOUNTED.cast_unsigned() * tracks.cast_unsigned()).min(spt / 2);
    let mut blocks: Vec<Block> = (0..RECOUNT * u64::from(probe.effort()))
        .filter_map(|_| {
            let track =
                tracks / 2 + floor(probe.even() * real(tracks.cast_unsigned() / 2)).cast_signed();
            let beside = floor(probe.even() * real(2 * reach));
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
        // A block is passed as soon as before, on the mean.
        let step = layout.step + (1.0 + layout.mean_step()) * signed(more) / real(spt);
        let mut other = TrackLayout { spt: other, step, ..layout };
        for reach in [0.25, 0.25, 5.0 * probe.sigma] {
            other = other.fitted(&found, reach);
        }
        Some((other.misfit(&found, 5.0 * probe.sigma), other))
    };
    let (least, best) = (-RECOUNTED..=RECOUNTED)
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

/// Says of which zones pieces are. No zone comes again behind another, so what lies between two pieces of one zone is of it
/// too: where sectors were slipped all along, tracks look shorter than they are.
pub(crate) fn zoned(segments: &mut [Segment]) {
    for nth in 0..segments.len() {
        let spt = segments[nth].spt;
        let within = |segment: &Segment| {
            let tracks = (segment.to - segment.from) / segment.layout.spt;
            segment.spt.abs_diff(spt) <= RECOUNTED.unsigned_abs()
                && tracks < COUNTED_MAX.unsigned_abs()
        };
        let others =
            segments[nth + 1..].iter().take_while(|segment| segment.spt != spt && within(segment));
        let again = nth + 1 + others.count();
        if segments.get(again).is_some_and(|segment| segment.spt == spt) {
            segments[nth + 1..again].iter_mut().for_each(|segment| segment.spt = spt);
        }
    }
}

/// Whether reads between two places lie on one lattice up to somewhere, and on the other from there on.
fn explained(
    probe: &mut Probe<'_, '_>,
    (before, behind): (Option<&TrackLayout>, &TrackLayout),
    (from, to): (Block, Block),
) -> Result<bool, StopReason> {
    let samples =
        probe.samples(EXPLAINED * probe.effort(), |part| from + floor(part * real(to - from)))?;
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

/// Takes phases into a piece, if they lie where it says: its end had been seen too early.
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

/// Makes one piece of the last three, if what lies between them is the same at the same distance.
pub(crate) fn grouped(segments: &mut Vec<Segment>, sigma: f64) -> bool {
    let [.., a, b, c] = &segments[..] else { return false };
    let every = c.from - b.from;
    let alike = a.layout.spt == b.layout.spt && b.layout.spt == c.layout.spt;
    let plain = [a, b, c].iter().all(|segment| segment.layout.gaps.is_none());
    if !alike || !plain || b.from - a.from != every || every == 0 {
        return false;
    }
    let spt = a.layout.spt;
    // Where tracks begin tells what is missing but for whole tracks.
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
        // Whole tracks that are not missing turn the disk by a whole number of turns now and then.
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

/// Gives the last piece the gaps of one before it, if it has them too: as many tracks between gaps, and as much in each.
pub(crate) fn grouped_alike(
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

/// Follows the last piece, whose gaps have just been understood; what is behind its end, if the disk does not end with it.
pub(crate) fn follow_group(
    probe: &mut Probe<'_, '_>,
    segments: &mut Vec<Segment>,
) -> Result<Option<Block>, StopReason> {
    let mut nth = segments.len() - 1;
    // What lies before it was perhaps seen as another piece, with a gap in it that was not known of.
    while nth > 0 && segments[nth - 1].layout.spt == segments[nth].layout.spt {
        let before = segments[nth - 1].phases.clone();
        if !join(&mut segments[nth], &before, probe.sigma) {
            break;
        }
        let before = segments.remove(nth - 1);
        nth -= 1;
        (segments[nth].from, segments[nth].sure) = (before.from, before.sure);
    }
    // What had been seen of its beginning did not know of the gaps.
    settle(probe, segments)?;
    let segment = &mut segments[nth];
    let bad = extend(probe, segment)?;
    if bad.is_none() {
        segment.to = probe.blocks;
    }
    edges(probe, segment)?;
    Ok(bad)
}
