//! The whole disk, piece by piece: how far a layout goes on, and what comes next.
//!
//! A piece is addresses on one lattice. From where it is known, checks at growing distances refine it, until one fails; the
//! end lies between the last check that held and the first that did not, is halved down to a few tracks and then found to
//! the block between what the piece says and what the next one does. So it is the number of pieces that costs time, and
//! not the size of the disk.

use crate::bench::Halt;
use crate::boundary::{Search, boundary};
use crate::circle::{centre, part, real, whole, wrap};
use crate::lattice::Lattice;
use crate::limits::PIECES_MAX;
use crate::local::{self, Phases, find, fits, phases};
use crate::probe::{Block, Probe};

/// Blocks in a check.
const CHECK: u32 = 8;
/// A check holds if its blocks lie off by no more than this part of a turn.
const OFF_MAX: f64 = 0.12;
/// A piece's end is halved down to so many tracks.
const TRACKS_LEFT: u64 = 12;
/// The most tracks that one check spans.
const SPAN_MAX: u64 = 24;
/// By how much further each check lies than the one before.
const FURTHER: u64 = 4;

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
    /// What was measured in it.
    pub(crate) phases: Phases,
}

/// Sweeps the disk into `pieces`, from the end of the last of them on.
///
/// # Errors
/// As [`crate::Bench::check`]; the pieces that were found until then stand.
pub(crate) fn sweep(probe: &mut Probe<'_, '_>, pieces: &mut Vec<Piece>) -> Result<(), Halt> {
    let mut from = pieces.last().map_or(0, |piece| piece.to);
    let mut lost = 0_u32;
    while pieces.len() < PIECES_MAX {
        let last = pieces.last();
        let again = match last {
            Some(last) => same_again(probe, from, &last.lattice)?,
            None => None,
        };
        let found = match again {
            Some(found) => Some(found),
            None => {
                let like = last.map(|last| last.lattice);
                local::local(probe, from, like.as_ref())?
            }
        };
        let Some((lattice, phases)) = found else {
            // Nothing regular here: look further on, each time twice as far.
            let spt = last.map_or(4_096, |last| last.lattice.spt);
            from += (16 * spt) << lost.min(24);
            lost += 1;
            if from + 8 * spt >= probe.blocks {
                return Ok(());
            }
            continue;
        };
        lost = 0;
        let (start, sure) = begin(probe, pieces.last(), &lattice)?;
        if let Some(last) = pieces.last_mut() {
            last.to = start;
        }
        pieces.push(Piece { from: start, sure, to: lattice.anchor, lattice, phases });
        let piece = pieces.last_mut().expect("just pushed");
        let bad = extend(probe, piece)?;
        let Some(bad) = bad else {
            piece.to = probe.blocks;
            return Ok(());
        };
        from = bad;
    }
    Ok(())
}

/// Where the lattice begins, behind the piece before it, and how sure that is.
fn begin(
    probe: &mut Probe<'_, '_>,
    before: Option<&Piece>,
    lattice: &Lattice,
) -> Result<(Block, f64), Halt> {
    let Some(before) = before else { return Ok((0, 1.0)) };
    let search = Search {
        from: before.to,
        to: lattice.anchor.max(before.to),
        width: 1,
        reads: 160,
        sigma: probe.sigma * 1.2,
    };
    let old = before.lattice;
    let found = boundary(probe, &search, &|at| old.at(at), &|at| lattice.at(at))?;
    Ok((found.at, found.sure))
}

/// Whether the blocks from `at` on, over so many, lie where the piece says; if so they are added to it.
fn check(
    probe: &mut Probe<'_, '_>,
    piece: &mut Piece,
    (at, span): (Block, u64),
) -> Result<bool, Halt> {
    let samples = probe.samples(CHECK, |part| at + whole(part * real(span)))?;
    let phases = phases(probe, &samples);
    let off: Vec<f64> = phases.iter().map(|(at, phase)| piece.lattice.off(*at, *phase)).collect();
    let Some(found) = centre(&off, 5.0 * probe.sigma) else { return Ok(false) };
    let together = found.count as usize + 1 >= phases.len() && phases.len() >= 4;
    let near = wrap(found.mean).abs() < OFF_MAX && found.scatter < 2.2 * probe.sigma;
    if !(together && near) {
        return Ok(false);
    }
    piece.phases.extend(phases);
    piece.lattice = piece.lattice.fitted(&piece.phases, 0.15);
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
        if check(probe, piece, (at, span))? {
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
        samples.extend(probe.sample_again(at)?);
    }
    let found = phases(probe, &samples);
    let mut best: Option<(f64, Lattice)> = None;
    for first in 0..like.heads {
        let free = Lattice { anchor: from, first, phase: 0.0, ..*like };
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
    let lattice = Lattice { anchor, first, phase, ..rough };
    let lattice = lattice.fitted_level(&found, 0.2);
    Ok(fits(&lattice, &found, probe.sigma).then_some((lattice, found)))
}
