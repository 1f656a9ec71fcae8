//! The whole disk, piece by piece: how far a layout goes on, and what comes next.
//!
//! A piece is addresses on one lattice. From where it is known, checks at growing distances refine it, until one fails; the
//! end lies between the last check that held and the first that did not, is halved down to a few tracks and then found to
//! the block between what the piece says and what the next one does. So it is the number of pieces that costs time, and
//! not the size of the disk.

use crate::bench::Halt;
use crate::boundary::{Search, against, boundary, weigh};
use crate::circle::{centre, part, real, whole, wrap};
use crate::lattice::{Gaps, Lattice};
use crate::limits::PIECES_MAX;
use crate::local::{self, Phases, find, fits, phases};
use crate::probe::{Block, Probe};

/// Blocks in a check.
const CHECK: u32 = 8;
/// A check holds if its blocks lie off by no more than this part of a turn.
const OFF_MAX: f64 = 0.12;
/// A piece's end is halved down to so many tracks.
const TRACKS_LEFT: u64 = 12;
/// A piece's end may lie so many tracks before where checks say: near it they may hold by chance.
const BACK: u64 = 48;
/// A gap has fewer whole tracks.
const GAP_TRACKS_MAX: u64 = 64;
/// Reads to find exactly where tracks begin.
const SHARPEN: u32 = 100;
/// A beginning that is so sure is not looked for again.
const BEGINS_SURE: f64 = 0.95;
/// Tracks that are known ground.
const GROUND: u64 = 400;
/// Tracks at each end of a piece that its ends are measured on.
const EDGE: u64 = 64;
/// The most tracks that one check spans.
const SPAN_MAX: u64 = 24;
/// By how much further each check lies than the one before.
const FURTHER: u64 = 2;
/// The mean distance of a check's blocks from their mean, in standard deviations; four fifths are expected.
const SCATTER_MAX: f64 = 1.4;

/// Addresses in a row on one lattice.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The first block.
    pub(crate) from: Block,
    /// How sure that is.
    pub(crate) sure: f64,
    /// The first block behind it, or behind what is known of it.
    pub(crate) to: Block,
    pub(crate) lattice: Lattice,
    /// The same near its end: what was slipped in between has moved it.
    pub(crate) ending: Lattice,
    /// What was measured in it.
    pub(crate) phases: Phases,
    /// The step of its lattice and what a new cylinder adds, if they are whole sectors.
    pub(crate) skews: Option<(f64, f64)>,
    /// When that was done, in ns since the probe began.
    pub(crate) time: f64,
}

impl Piece {
    /// By how much the mean phase of a check at `at` may be off, as a standard deviation: that of its own blocks, and that of
    /// a line through all that was measured.
    fn error(&self, at: Block, sigma: f64) -> f64 {
        let count = real(self.phases.len().max(2) as u64);
        let mean = self.phases.iter().map(|(at, _)| real(*at)).sum::<f64>() / count;
        let square = |(at, _): &(Block, f64)| (real(*at) - mean) * (real(*at) - mean);
        let square = self.phases.iter().map(square).sum::<f64>().max(1.0);
        let lever = (real(at) - mean) * (real(at) - mean) / square;
        sigma * (1.0 / f64::from(CHECK) + 1.0 / count + lever).sqrt()
    }
}

/// Sweeps the disk into `pieces`, from the end of the last of them on.
///
/// # Errors
/// As [`crate::Bench::check`]; the pieces that were found until then stand.
pub(crate) fn sweep(probe: &mut Probe<'_, '_>, pieces: &mut Vec<Piece>) -> Result<(), Halt> {
    let mut from = pieces.last().map_or(0, |piece| piece.to);
    let mut lost = 0_u32;
    while pieces.len() < PIECES_MAX && probe.now() < probe.until {
        let last = pieces.last().map(|last| last.lattice);
        let again = match &last {
            Some(last) => same_again(probe, from, last)?,
            None => None,
        };
        let found = match again {
            Some(found) => Some(found),
            None => local::local(probe, from, last.as_ref())?,
        };
        let Some((lattice, phases)) = found else {
            // Nothing regular here: look further on, each time twice as far.
            let spt = last.map_or(4_096, |last| last.spt);
            from += (16 * spt) << lost.min(24);
            lost += 1;
            if from + 8 * spt >= probe.blocks {
                return Ok(());
            }
            continue;
        };
        lost = 0;
        let joined = pieces.last_mut().is_some_and(|last| join(last, &phases, probe.sigma));
        if !joined {
            let from = lattice.anchor;
            let ending = lattice;
            pieces.push(Piece {
                from,
                sure: 0.0,
                to: from,
                lattice,
                ending,
                phases,
                skews: None,
                time: probe.now(),
            });
        }
        let nth = pieces.len() - 1;
        let bad = extend(probe, &mut pieces[nth])?;
        if bad.is_none() {
            pieces[nth].to = probe.blocks;
        }
        ground(probe, &pieces[nth]);
        edges(probe, &mut pieces[nth])?;
        if !joined && nth > 0 {
            let (start, sure) = begin(probe, &pieces[nth - 1], &pieces[nth].lattice)?;
            // Where both lattices have a track begin there is no doubt left.
            let both = pieces[nth - 1].ending.track(start).1 == 0;
            let start = if both { start } else { first_track(probe, &mut pieces[nth], start)? };
            pieces[nth - 1].to = start;
            (pieces[nth].from, pieces[nth].sure) = (start, sure);
        } else if !joined {
            (pieces[nth].from, pieces[nth].sure) = (0, 1.0);
        }
        let Some(bad) = bad else { return Ok(()) };
        from = bad;
        if grouped(pieces, probe.sigma) {
            match follow_group(probe, pieces)? {
                None => return Ok(()),
                Some(behind) => from = behind,
            }
        }
    }
    Ok(())
}

/// Follows the last piece, whose gaps have just been understood; what is behind its end, if the disk does not end with it.
fn follow_group(probe: &mut Probe<'_, '_>, pieces: &mut Vec<Piece>) -> Result<Option<Block>, Halt> {
    let mut nth = pieces.len() - 1;
    // What lies before it was perhaps seen as another piece, with a gap in it that was not known of.
    while nth > 0 && pieces[nth - 1].lattice.spt == pieces[nth].lattice.spt {
        let before = pieces[nth - 1].phases.clone();
        if !join(&mut pieces[nth], &before, probe.sigma) {
            break;
        }
        pieces[nth].sure = 0.0;
        pieces.remove(nth - 1);
        nth -= 1;
    }
    if nth > 0 && pieces[nth].sure < BEGINS_SURE {
        // What had been seen of its beginning did not know of the gaps.
        let (start, sure) = begin(probe, &pieces[nth - 1], &pieces[nth].lattice)?;
        pieces[nth - 1].to = start;
        (pieces[nth].from, pieces[nth].sure) = (start, sure);
    }
    let piece = &mut pieces[nth];
    let bad = extend(probe, piece)?;
    if bad.is_none() {
        piece.to = probe.blocks;
    }
    edges(probe, piece)?;
    Ok(bad)
}

/// The last tracks of a piece are known ground.
fn ground(probe: &mut Probe<'_, '_>, piece: &Piece) {
    let spt = piece.lattice.spt;
    let to = piece.to.saturating_sub(8 * spt);
    let from = to.saturating_sub(GROUND * spt).max(piece.lattice.anchor);
    probe.ground = (to > from + 16 * spt).then_some((piece.lattice, from, to)).or(probe.ground);
}

/// Makes one piece of the last three, if what lies between them is the same at the same distance.
fn grouped(pieces: &mut Vec<Piece>, sigma: f64) -> bool {
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
    let (from, sure, to, time) = (a.from, a.sure, c.to, c.time);
    pieces.truncate(pieces.len() - 3);
    pieces.push(Piece { from, sure, to, lattice, ending: lattice, phases, skews: None, time });
    true
}

/// Where a piece begins that begins with a track, from its first tracks alone: slips behind them have moved others.
fn first_track(probe: &mut Probe<'_, '_>, piece: &mut Piece, start: Block) -> Result<Block, Halt> {
    let (track, sector) = piece.lattice.track(start);
    if sector != 0 || track >= 0 {
        return Ok(start);
    }
    let near = Lattice {
        anchor: start,
        phase: piece.lattice.at(start),
        first: u32::try_from(
            (track + i64::from(piece.lattice.first)).rem_euclid(i64::from(piece.lattice.heads)),
        )
        .expect("under the heads"),
        gaps: None,
        ..piece.lattice
    };
    let (sharp, sure) = sharpen(probe, near, (0, 12), 4)?;
    if sure < 0.99 {
        return Ok(start);
    }
    if sharp.anchor != start {
        piece.lattice = piece.lattice.moved(sharp.anchor.cast_signed() - start.cast_signed());
    }
    Ok(sharp.anchor)
}

/// Takes phases into a piece, if they lie where it says: its end had been seen too early.
fn join(piece: &mut Piece, phases: &Phases, sigma: f64) -> bool {
    let off: Vec<f64> = phases.iter().map(|(at, phase)| piece.lattice.off(*at, *phase)).collect();
    let Some(found) = centre(&off, 5.0 * sigma) else { return false };
    let all = found.count as usize * 10 >= phases.len() * 9;
    if !all || wrap(found.mean).abs() > OFF_MAX / 2.0 {
        return false;
    }
    piece.phases.extend(phases);
    piece.lattice = piece.lattice.fitted(&piece.phases, 0.15);
    true
}

/// Where the lattice begins, behind the piece before it, and how sure that is.
fn begin(
    probe: &mut Probe<'_, '_>,
    before: &Piece,
    lattice: &Lattice,
) -> Result<(Block, f64), Halt> {
    let old = before.ending;
    let back = BACK * old.spt;
    let from = before.to.saturating_sub(back).max(before.from + 1);
    let search = Search {
        from,
        to: lattice.anchor.max(before.to).max(from),
        width: 1,
        reads_min: 16,
        reads: 240 * probe.effort(),
        sigma: probe.sigma * 1.3,
    };
    // Most layouts begin with a track, and behind the end of one.
    let likely = |at: Block| match (old.track(at).1, lattice.track(at).1) {
        (0, 0) => 0.0,
        (_, 0) => -7.0,
        (0, _) => -12.0,
        _ => -14.0,
    };
    let rules = (|at| old.at(at), |at| lattice.at(at));
    let found = boundary(probe, &search, &rules.0, &rules.1, &likely)?;
    Ok((found.at, found.sure))
}

/// Finds exactly where tracks begin, near both ends of the piece.
fn edges(probe: &mut Probe<'_, '_>, piece: &mut Piece) -> Result<(), Halt> {
    let (spt, anchor) = (piece.lattice.spt, piece.lattice.anchor);
    let tracks = piece.lattice.track(piece.to.max(anchor)).0.cast_unsigned().max(12);
    let reach = (spt / 50).clamp(6, 200).min(spt / 4);
    (piece.lattice, _) = sharpen(probe, piece.lattice, (0, tracks.min(EDGE)), reach)?;
    if tracks <= 2 * EDGE {
        piece.ending = piece.lattice;
        return Ok(());
    }
    let near = (tracks - EDGE, tracks - 2);
    let high = piece.to - spt;
    let low = high.saturating_sub(EDGE * spt).max(anchor);
    let samples =
        probe.samples(CHECK * probe.effort(), |part| low + whole(part * real(high - low)))?;
    let found = phases(probe, &samples);
    let ending = piece.lattice.fitted_level(&found, 5.0 * probe.sigma);
    let (ending, _) = sharpen(probe, ending, near, spt / 4)?;
    piece.ending = ending.fitted_level(&found, 5.0 * probe.sigma);
    Ok(())
}

/// Finds exactly where tracks begin, give or take `reach`, from boundaries between tracks: each read is at another.
fn sharpen(
    probe: &mut Probe<'_, '_>,
    lattice: Lattice,
    (low, high): (u64, u64),
    reach: u64,
) -> Result<(Lattice, f64), Halt> {
    let zero = reach;
    let mut evidence = vec![0.0; usize::try_from(2 * reach + 1).expect("a part of a track")];
    let mut best = weigh(0, &evidence);
    let sigma = probe.sigma * 1.2;
    let (mut reads, mut tries) = (0, 0);
    let most = SHARPEN * probe.effort();
    while reads < most && tries < 4 * most && (best.sure < 0.999 || reads < 12) {
        tries += 1;
        let nth = low + 1 + whole(probe.even() * real((high - low).max(2) - 1));
        let nth = nth.cast_signed();
        let Some(track) = lattice.begins(nth) else { continue };
        let spread = (probe.even() - 0.5) * 2.0 * real(best.width / 4 + 2);
        let place = whole(real(best.at) + 0.5 + spread);
        let at = (track + place).saturating_sub(zero);
        if at + lattice.spt >= probe.blocks {
            continue;
        }
        // Another track does as well as one that the drive has kept.
        let kept = tries - reads > most;
        let sample = if kept { probe.sample_again(at)? } else { probe.sample(at)? };
        let Some(sample) = sample else { continue };
        reads += 1;
        let phase = probe.phase(&sample);
        let inside = (real(at) - real(track)) / real(lattice.spt);
        let (behind, before) = (lattice.on((nth, 0)) + inside, lattice.on((nth - 1, 0)) + inside);
        let (if_before, if_behind) = (against(phase, before, sigma), against(phase, behind, sigma));
        for (offset, evidence) in (0..).zip(&mut evidence) {
            *evidence -= if place < offset { if_before } else { if_behind };
        }
        best = weigh(0, &evidence);
    }
    Ok((lattice.moved(best.at.cast_signed() - zero.cast_signed()), best.sure))
}

/// Whether the blocks from `at` on, over so many, lie where the piece says; if so they are added to it.
fn check(
    probe: &mut Probe<'_, '_>,
    piece: &mut Piece,
    (at, span): (Block, u64),
) -> Result<bool, Halt> {
    let samples = probe.samples(CHECK * probe.effort(), |part| at + whole(part * real(span)))?;
    let phases = phases(probe, &samples);
    let mut off: Vec<f64> =
        phases.iter().map(|(at, phase)| piece.lattice.off(*at, *phase)).collect();
    if off.len() < 4 {
        return Ok(false);
    }
    let Some(found) = centre(&off, 5.0 * probe.sigma) else { return Ok(false) };
    // One of them may have been moved elsewhere, or was late.
    off.sort_by(|a, b| wrap(a - found.mean).abs().total_cmp(&wrap(b - found.mean).abs()));
    off.pop();
    let scatter =
        off.iter().map(|off| wrap(off - found.mean).abs()).sum::<f64>() / real(off.len() as u64);
    let may = (4.0 * piece.error(at, probe.sigma) + 2.0 / real(piece.lattice.spt)).min(OFF_MAX);
    if scatter > SCATTER_MAX * probe.sigma || wrap(found.mean).abs() > may {
        return Ok(false);
    }
    let before = piece.phases.len();
    piece.phases.extend(phases);
    let lattice = piece.lattice.fitted(&piece.phases, 0.15);
    if !fits(&lattice, &piece.phases, probe.sigma) {
        // It was by chance, or at the price of all that lies between.
        piece.phases.truncate(before);
        return Ok(false);
    }
    piece.lattice = lattice;
    Ok(true)
}

/// Follows the piece as far as it goes; what is behind its end, if the disk does not end with it.
fn extend(probe: &mut Probe<'_, '_>, piece: &mut Piece) -> Result<Option<Block>, Halt> {
    let spt = piece.lattice.spt;
    let known = piece.phases.iter().map(|(at, _)| *at).max().unwrap_or(piece.lattice.anchor);
    let mut good = known.max(piece.lattice.anchor);
    let mut step = ((good - piece.lattice.anchor) / spt).max(16) * spt;
    let end = probe.blocks;
    let mut bad = None;
    while bad.is_none() && good + 2 * spt < end {
        let span = (step / 2).clamp(spt, SPAN_MAX * spt);
        let at = (good + step).min(end.saturating_sub(span + 1)).max(good);
        // Twice: what noise made fail does not fail again.
        if check(probe, piece, (at, span))? || check(probe, piece, (at, span))? {
            good = at + span;
            piece.to = good.min(end);
            step *= FURTHER;
        } else {
            bad = Some((at + span).min(end));
        }
    }
    let Some(mut bad) = bad else { return Ok(None) };
    while bad - good > TRACKS_LEFT * spt {
        let span = ((bad - good) / 4).min(SPAN_MAX * spt);
        let at = good + (bad - good - span) / 2;
        if check(probe, piece, (at, span))? {
            good = at + span;
            piece.to = good;
        } else {
            bad = at + span;
        }
    }
    Ok(Some(bad))
}

/// The same lattice anew from `from` on, if it goes on as it was but for where it begins; and what was measured of it.
fn same_again(
    probe: &mut Probe<'_, '_>,
    from: Block,
    like: &Lattice,
) -> Result<Option<(Lattice, Phases)>, Halt> {
    let spt = like.spt;
    let tracks = (2 * u64::from(like.heads)).clamp(16, 32);
    if from + (tracks + 3) * spt > probe.blocks {
        return Ok(None);
    }
    // Blocks a track apart lie at one place of their tracks, whichever that is.
    let blocks = (0..tracks).map(|track| from + track * spt);
    let mut samples = Vec::new();
    for at in blocks.rev() {
        for nth in 0..u64::from(probe.effort()) {
            samples.extend(probe.sample_again(at + nth)?);
        }
    }
    let found = phases(probe, &samples);
    let mut best: Option<(f64, Lattice)> = None;
    for first in 0..like.heads {
        let free = Lattice { anchor: from, first, phase: 0.0, gaps: None, ..*like };
        let off: Vec<f64> = found.iter().map(|(at, phase)| free.off(*at, *phase)).collect();
        let Some(level) = centre(&off, 5.0 * probe.sigma) else { continue };
        let lattice = Lattice { phase: level.mean, ..free };
        let misfit = lattice.misfit(&found, 0.25);
        if best.is_none_or(|(least, _)| misfit < least) {
            best = Some((misfit, lattice));
        }
    }
    let Some((_, rough)) = best.filter(|(_, lattice)| fits(lattice, &found, probe.sigma)) else {
        return Ok(None);
    };
    // Where tracks begin: half a track of samples on each side of everywhere.
    let real_spt = real(spt);
    let middle = from + spt;
    let Some((first, _)) = local::scan(probe, (middle, middle + spt * 6 / 5), real_spt, 0)? else {
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
    let phase = part(rough.phase - sector + turned * rough.step + wrapped);
    let lattice = Lattice { anchor, phase, first, ..rough };
    let lattice = lattice.fitted_level(&found, 0.2);
    Ok(fits(&lattice, &found, probe.sigma).then_some((lattice, found)))
}
