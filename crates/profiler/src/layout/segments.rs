//! Pieces beside one another: which of them are one, and which are none.
//!
//! What is believed of a piece comes from a few dozen reads, and some beliefs are wrong. A wrong one does not reach far: it
//! ends within a few tracks, and the next piece, which goes on for long, explains what it had been made for.

use crate::bench::StopReason;
use crate::estimate::angle::{real, signed, whole};
use crate::layout::boundary::against;
use crate::layout::local_layout::{Phases, fits, phases};
use crate::layout::probe::{Block, Probe};
use crate::layout::segment_boundaries::{begin, edges, first_track};
use crate::layout::sweep::{Piece, Verdict, check, extend, verdict};
use crate::layout::track_layout::{Gaps, Lattice};

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
pub(crate) fn settle(probe: &mut Probe<'_, '_>, pieces: &mut [Piece]) -> Result<(), StopReason> {
    match pieces {
        [.., before, piece] => settle_behind(probe, before, piece),
        [piece] => {
            (piece.from, piece.sure) = (0, 1.0);
            Ok(())
        }
        [] => Ok(()),
    }
}

/// Where a piece begins behind another.
fn settle_behind(
    probe: &mut Probe<'_, '_>,
    before: &mut Piece,
    piece: &mut Piece,
) -> Result<(), StopReason> {
    let (start, sure, seen) = begin(probe, before, (&piece.lattice, piece.to))?;
    // Where both lattices have a track begin there is no doubt left.
    let told = seen || both_begin(before, piece, start);
    let start = if told { start } else { first_track(probe, piece, start)? };
    before.to = start;
    (piece.from, piece.sure) = (start, sure);
    piece.settled_by_cylinders = before.lattice.heads > 1 && piece.lattice.heads > 1;
    Ok(())
}

/// Whether a track of either piece begins with a block.
fn both_begin(before: &Piece, piece: &Piece, at: Block) -> bool {
    before.ending.track(at).1 == 0 && piece.lattice.track(at).1 == 0
}

/// Looks once more where pieces begin of which it was not known then where cylinders do: without that their tracks seem to
/// lie off by as much as the two skews differ, to and fro.
pub(crate) fn settle_again(
    probe: &mut Probe<'_, '_>,
    pieces: &mut [Piece],
    until: f64,
) -> Result<(), StopReason> {
    for nth in 1..pieces.len() {
        let [.., before, piece] = &mut pieces[..=nth] else { continue };
        let known = before.lattice.heads > 1 && piece.lattice.heads > 1;
        let doubtful = !piece.settled_by_cylinders && !both_begin(before, piece, piece.from);
        if known && doubtful && probe.now() < until {
            settle_behind(probe, before, piece)?;
        }
    }
    Ok(())
}

/// Takes away pieces before the last that are none: short ones whose reads are explained as well by the last piece and the
/// one before them.
pub(crate) fn absorb(probe: &mut Probe<'_, '_>, pieces: &mut Vec<Piece>) -> Result<(), StopReason> {
    while let [.., short, last] = &pieces[..] {
        let length = short.to - short.from;
        let made_up = length < SHORT_TRACKS * short.lattice.spt;
        if !made_up || (last.to - last.from) < LONGER * length {
            return Ok(());
        }
        let before = pieces.len().checked_sub(3).map(|nth| &pieces[nth].ending);
        if !explained(probe, (before, &last.lattice), (short.from, short.to))? {
            return Ok(());
        }
        pieces.remove(pieces.len() - 2);
        if let [.., before, last] = &mut pieces[..] {
            before.to = last.from;
        }
        settle(probe, pieces)?;
    }
    Ok(())
}

/// Counts the blocks on a track once more, where a piece ends soon: one too many or too few on each shows at the ends of
/// tracks alone, and the further from where the count began the more. Whether there was another count.
pub(crate) fn recount(probe: &mut Probe<'_, '_>, piece: &mut Piece) -> Result<bool, StopReason> {
    let lattice = piece.lattice;
    let (spt, tracks) = (lattice.spt, lattice.track(piece.to).0);
    if !(COUNTED_MIN..COUNTED_MAX).contains(&tracks) || lattice.gaps.is_some() {
        return Ok(false);
    }
    let reach = (RECOUNTED.cast_unsigned() * tracks.cast_unsigned()).min(spt / 2);
    let mut blocks: Vec<Block> = (0..RECOUNT * u64::from(probe.effort()))
        .filter_map(|_| {
            let track =
                tracks / 2 + whole(probe.even() * real(tracks.cast_unsigned() / 2)).cast_signed();
            let beside = whole(probe.even() * real(2 * reach));
            Some((lattice.begins(track.max(1))? + beside).saturating_sub(reach))
        })
        .collect();
    blocks.sort_unstable();
    blocks.reverse();
    let mut found = piece.phases.clone();
    let samples = probe.samples_of(blocks)?;
    found.extend(phases(probe, &samples));
    let counted = |more: i64| -> Option<(f64, Lattice)> {
        let other = spt.checked_add_signed(more)?;
        // A block is passed as soon as before, on the mean.
        let step = lattice.step + (1.0 + lattice.mean_step()) * signed(more) / real(spt);
        let mut other = Lattice { spt: other, step, ..lattice };
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
    piece.phases = found;
    (piece.lattice, piece.spt) = (best, best.spt);
    Ok(true)
}

/// Says of which zones pieces are. No zone comes again behind another, so what lies between two pieces of one zone is of it
/// too: where sectors were slipped all along, tracks look shorter than they are.
pub(crate) fn zoned(pieces: &mut [Piece]) {
    for nth in 0..pieces.len() {
        let spt = pieces[nth].spt;
        let within = |piece: &Piece| {
            let tracks = (piece.to - piece.from) / piece.lattice.spt;
            piece.spt.abs_diff(spt) <= RECOUNTED.unsigned_abs()
                && tracks < COUNTED_MAX.unsigned_abs()
        };
        let others = pieces[nth + 1..].iter().take_while(|piece| piece.spt != spt && within(piece));
        let again = nth + 1 + others.count();
        if pieces.get(again).is_some_and(|piece| piece.spt == spt) {
            pieces[nth + 1..again].iter_mut().for_each(|piece| piece.spt = spt);
        }
    }
}

/// Whether reads between two places lie on one lattice up to somewhere, and on the other from there on.
fn explained(
    probe: &mut Probe<'_, '_>,
    (before, behind): (Option<&Lattice>, &Lattice),
    (from, to): (Block, Block),
) -> Result<bool, StopReason> {
    let samples =
        probe.samples(EXPLAINED * probe.effort(), |part| from + whole(part * real(to - from)))?;
    let mut found = phases(probe, &samples);
    found.reverse();
    let sigma = probe.sigma * 1.1;
    let speaks =
        |lattice: &Lattice, (at, phase): &(Block, f64)| against(*phase, lattice.at(*at), sigma);
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
pub(crate) fn join(piece: &mut Piece, phases: &Phases, sigma: f64) -> bool {
    let Some((first, _)) = phases.iter().min_by_key(|(at, _)| *at) else { return false };
    if matches!(verdict(piece, phases, (*first, sigma)), Verdict::Fails) {
        return false;
    }
    let before = (piece.phases.len(), piece.lattice);
    piece.phases.extend(phases);
    piece.lattice = piece.lattice.fitted(&piece.phases, 0.15);
    let holds = fits(&piece.lattice, &piece.phases, sigma);
    if !holds {
        piece.phases.truncate(before.0);
        piece.lattice = before.1;
    }
    holds
}

/// Makes one piece of the last three, if what lies between them is the same at the same distance.
pub(crate) fn grouped(pieces: &mut Vec<Piece>, sigma: f64) -> bool {
    let [.., a, b, c] = &pieces[..] else { return false };
    let every = c.from - b.from;
    let alike = a.lattice.spt == b.lattice.spt && b.lattice.spt == c.lattice.spt;
    let plain = [a, b, c].iter().all(|piece| piece.lattice.gaps.is_none());
    if !alike || !plain || b.from - a.from != every || every == 0 {
        return false;
    }
    let spt = a.lattice.spt;
    // Where tracks begin tells what is missing but for whole tracks.
    let moved = (c.lattice.anchor - b.lattice.anchor) % spt;
    let part = (spt - moved) % spt;
    let mut phases = a.phases.clone();
    phases.extend(&b.phases);
    phases.extend(&c.phases);
    let inside = a.lattice.anchor - a.from;
    let mut best: Option<(f64, Lattice)> = None;
    for tracks in 0..GAP_TRACKS_MAX {
        let skip = part + tracks * spt;
        let gaps = (skip > 0).then_some(Gaps { every, skip, inside });
        let mut lattice = Lattice { gaps, ..a.lattice };
        for _ in 0..2 {
            lattice = lattice.fitted(&phases, 0.15);
        }
        let misfit = lattice.misfit(&phases, 5.0 * sigma);
        // Whole tracks that are not missing turn the disk by a whole number of turns now and then.
        if best.is_none_or(|(least, _)| misfit < 0.8 * least) {
            best = Some((misfit, lattice));
        }
    }
    let Some((_, lattice)) = best.filter(|(_, lattice)| fits(lattice, &phases, sigma)) else {
        return false;
    };
    let one = Piece { to: c.to, lattice, spt, ending: lattice, phases, ..a.clone() };
    pieces.truncate(pieces.len() - 3);
    pieces.push(one);
    true
}

/// Gives the last piece the gaps of one before it, if it has them too: as many tracks between gaps, and as much in each.
pub(crate) fn grouped_alike(
    probe: &mut Probe<'_, '_>,
    pieces: &mut [Piece],
) -> Result<bool, StopReason> {
    let Some((last, before)) = pieces.split_last_mut() else { return Ok(false) };
    let like = before.iter().rev().find_map(|p| p.lattice.gaps.map(|gaps| (p.lattice.spt, gaps)));
    let Some((like_spt, gaps)) = like.filter(|_| last.lattice.gaps.is_none()) else {
        return Ok(false);
    };
    let all = gaps.every + gaps.skip;
    let spt = last.lattice.spt;
    if !all.is_multiple_of(like_spt) || last.lattice.anchor < last.from {
        return Ok(false);
    }
    let tracks = all / like_spt;
    let whole_tracks = gaps.skip.is_multiple_of(like_spt);
    let skips = [Some(gaps.skip), whole_tracks.then_some(gaps.skip / like_spt * spt)];
    for skip in skips.into_iter().flatten() {
        let Some(every) = (tracks * spt).checked_sub(skip).filter(|every| *every > 2 * spt) else {
            continue;
        };
        let inside = last.lattice.anchor - last.from;
        let mut piece = last.clone();
        piece.lattice.gaps = Some(Gaps { every, skip, inside });
        let mut held = true;
        for nth in 1..=GROUPS_CHECKED {
            let group = last.from + nth * every;
            held = held
                && group + every < probe.blocks
                && check(probe, &mut piece, (group + spt / 8, every - spt / 4))?;
        }
        if held {
            piece.to = last.from + (GROUPS_CHECKED + 1) * every;
            piece.ending = piece.lattice;
            *last = piece;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Follows the last piece, whose gaps have just been understood; what is behind its end, if the disk does not end with it.
pub(crate) fn follow_group(
    probe: &mut Probe<'_, '_>,
    pieces: &mut Vec<Piece>,
) -> Result<Option<Block>, StopReason> {
    let mut nth = pieces.len() - 1;
    // What lies before it was perhaps seen as another piece, with a gap in it that was not known of.
    while nth > 0 && pieces[nth - 1].lattice.spt == pieces[nth].lattice.spt {
        let before = pieces[nth - 1].phases.clone();
        if !join(&mut pieces[nth], &before, probe.sigma) {
            break;
        }
        let before = pieces.remove(nth - 1);
        nth -= 1;
        (pieces[nth].from, pieces[nth].sure) = (before.from, before.sure);
    }
    // What had been seen of its beginning did not know of the gaps.
    settle(probe, pieces)?;
    let piece = &mut pieces[nth];
    let bad = extend(probe, piece)?;
    if bad.is_none() {
        piece.to = probe.blocks;
    }
    edges(probe, piece)?;
    Ok(bad)
}
