//! Sweeps the whole disk, segment by segment.
//!
//! A segment is a range of addresses on one layout. Checks at growing distances refine it until one
//! fails. Its end, between the last check that held and the first that failed, is bisected to a few
//! tracks and then located to the block by the layouts on both sides. The time grows with the
//! number of segments, and not with the size of the disk.

use crate::bench::StopReason;
use crate::estimate::angle::centre;
use crate::estimate::number::{fraction, real};
use crate::layout::block::Block;
use crate::layout::block::{HEADS_MAX, Phases};
use crate::layout::cylinder_fit::with_heads;
use crate::layout::local_layout::{self, find, fits, phases};
use crate::layout::probe::Probe;
use crate::layout::segment::Segment;
use crate::layout::segment_boundaries::refine_ends;
use crate::layout::segment_extension::{TRACKS_LEFT, extend};
use crate::layout::segments::{
    absorb, apply_known_gaps, follow_group, join, locate_beginning, merge_groups, recount,
};
use crate::layout::track_layout::TrackLayout;
use crate::limits::SEGMENTS_MAX;
use drive_profile::findings::OutlierReason;

/// The least improvement by cylinders over tracks alone, in squares of noise.
const HEADS_GAIN: f64 = 12.0;
/// The most merges of a segment that ended too early: after more the segment is biased, and the
/// next one is better without it.
const JOINS_MAX: u32 = 2;
/// The tracks of known layout for short rotational waits.
const KNOWN_TRACKS: u64 = 400;

/// Sweeps the disk into `segments`, from the end of the last of them on.
///
/// # Errors
/// As [`crate::Bench::check`]. The segments found so far stay.
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
            Some(last) => continue_layout(probe, from, last)?,
            None => None,
        };
        let found = match again {
            Some(found) => Some(found),
            None => local_layout::local(probe, from, (last.as_ref(), heads))?,
        };
        let Some((layout, phases)) = found else {
            // No regular layout here: the next attempt is further on, each time twice as far.
            let spt = last.map_or(4_096, |last| last.spt);
            from += (16 * spt) << lost.min(24);
            lost += 1;
            if from + 8 * spt >= probe.blocks {
                absorb_last_tracks(probe, segments);
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
            add_cylinders(&mut segments[nth], heads, probe.sigma);
        }
        let bad = follow(probe, &mut segments[nth])?;
        if !joined {
            locate_beginning(probe, segments)?;
        }
        absorb(probe, segments)?;
        let Some(bad) = bad else { return Ok(()) };
        from = bad;
        if apply_known_gaps(probe, segments)? || merge_groups(segments, probe.sigma) {
            match follow_group(probe, segments)? {
                None => return Ok(()),
                Some(behind) => from = behind,
            }
            absorb(probe, segments)?;
        }
    }
    Ok(())
}

/// Extends a segment to both its ends. The first block behind it, unless the disk ends with it.
fn follow(probe: &mut Probe<'_, '_>, segment: &mut Segment) -> Result<Option<Block>, StopReason> {
    let mut bad = extend(probe, segment)?;
    if recount(probe, segment)? {
        bad = extend(probe, segment)?;
    }
    if bad.is_none() {
        segment.to = probe.blocks;
    }
    set_known_layout(probe, segment);
    refine_ends(probe, segment)?;
    Ok(bad)
}

/// The last tracks of a disk are too few to show their layout if sectors were slipped there: they
/// are added to the segment before them.
fn absorb_last_tracks(probe: &mut Probe<'_, '_>, segments: &mut [Segment]) {
    let Some(last) = segments.last_mut() else { return };
    let left = probe.blocks - last.to;
    if left < 2 * TRACKS_LEFT * last.layout.spt {
        let lba = probe.lba(last.to);
        probe.bench.outlier(lba, OutlierReason::Remapped);
        last.to = probe.blocks;
    }
}

/// Tracks on a cylinder in most of what was found.
fn known_heads(segments: &[Segment]) -> Option<u32> {
    let mut blocks = [0; HEADS_MAX as usize + 1];
    for segment in segments.iter().filter(|segment| segment.layout.heads > 1) {
        blocks[segment.layout.heads as usize] += segment.to - segment.from;
    }
    (2..=HEADS_MAX)
        .max_by_key(|heads| blocks[*heads as usize])
        .filter(|heads| blocks[*heads as usize] > 0)
}

/// Gives the segment cylinders of `heads` tracks, if its phases show them.
fn add_cylinders(segment: &mut Segment, heads: u32, sigma: f64) {
    if segment.layout.heads == heads || segment.layout.gaps.is_some() {
        return;
    }
    let (gain, layout) = with_heads(segment, (heads, None), sigma);
    if gain > HEADS_GAIN {
        segment.layout = layout;
    }
}

/// Uses the segment's last tracks for reads with short rotational waits.
fn set_known_layout(probe: &mut Probe<'_, '_>, segment: &Segment) {
    let spt = segment.layout.spt;
    let to = segment.to.saturating_sub(8 * spt);
    let from = to.saturating_sub(KNOWN_TRACKS * spt).max(segment.layout.anchor);
    probe.known_layout =
        (to > from + 16 * spt).then_some((segment.layout, from, to)).or(probe.known_layout);
}

/// The same layout from `from` on, if it continues with another track boundary, and its phases.
fn continue_layout(
    probe: &mut Probe<'_, '_>,
    from: Block,
    like: &TrackLayout,
) -> Result<Option<(TrackLayout, Phases)>, StopReason> {
    let spt = like.spt;
    let tracks = (2 * u64::from(like.heads)).clamp(16, 32);
    if from + (tracks + 3) * spt > probe.blocks {
        return Ok(None);
    }
    // Blocks a track apart are at one location of their tracks. All of them are read each time: a
    // block that is read twice in a row is cached.
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
    // Track boundaries: half a track of samples on each side of every location.
    let real_spt = real(spt);
    let middle = from + spt;
    let Some((first, _)) = local_layout::scan(probe, (middle, middle + spt * 6 / 5), real_spt, 0)?
    else {
        return Ok(None);
    };
    let Some(anchor) = find(probe, first, spt / 12, real_spt, 1)? else { return Ok(None) };
    let offset = (anchor.at - from) % spt;
    // Blocks before their track's boundary are on the track before it.
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
