//! Tracks that are laid out alike: a lattice of angles.
//!
//! From sector to sector the angle goes on by a part of a turn, from track to track it jumps by a skew, and from
//! cylinder to cylinder by a skew that may be another. What is known of a stretch of addresses is such a lattice and
//! where it is anchored.
//!
//! ```text
//! phase(x) = phase + sector/spt + step * track + extra * cylinder      (whole turns do not count)
//! ```

use crate::estimate::angle::{centre, wrap};
use crate::estimate::least_squares::fit;
use crate::estimate::number::{fraction, real, signed};
use crate::layout::block::Block;

/// A lattice, anchored at the first block of a track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrackLayout {
    /// Blocks on a track.
    pub(crate) spt: u64,
    /// The first block of some track.
    pub(crate) anchor: Block,
    /// The phase at which a read of the anchor ends.
    pub(crate) phase: f64,
    /// By how much a track begins later than the one before it, in turns.
    pub(crate) step: f64,
    /// By how much more, if a new cylinder begins with it.
    pub(crate) extra: f64,
    /// Tracks on a cylinder, as far as `extra` shows them; 1 if it does not, and then there is none.
    pub(crate) heads: u32,
    /// How many tracks of its cylinder lie before the anchor's.
    pub(crate) first: u32,
    /// Sectors without data at regular distances, if there are any.
    pub(crate) gaps: Option<Gaps>,
}

/// Sectors without data at regular distances: spares, as many after each group of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Blocks from one gap to the next.
    pub(crate) every: u64,
    /// Blocks that would fit a gap.
    pub(crate) skip: u64,
    /// Blocks from the gap before the anchor to the anchor.
    pub(crate) inside: u64,
}

/// As a signed number.
fn long(number: u64) -> i64 {
    i64::try_from(number).expect("under 2^63")
}

impl TrackLayout {
    /// The track of a block, counted from the anchor's, and its block there.
    pub(crate) fn track(&self, at: Block) -> (i64, u64) {
        let from = at.cast_signed() - self.anchor.cast_signed();
        let skipped = self.gaps.map_or(0, |gaps| {
            (from + long(gaps.inside)).div_euclid(long(gaps.every)) * long(gaps.skip)
        });
        self.sector(from + skipped)
    }

    /// The track of a sector, counted with those without data from the anchor on, and its sector there.
    pub(crate) fn sector(&self, from: i64) -> (i64, u64) {
        let spt = long(self.spt);
        (from.div_euclid(spt), from.rem_euclid(spt).cast_unsigned())
    }

    /// The first block of a track, if there is data on its first sector.
    pub(crate) fn begins(&self, track: i64) -> Option<Block> {
        let from = track * long(self.spt);
        let skipped = match self.gaps {
            None => 0,
            Some(gaps) => {
                let all = long(gaps.every + gaps.skip);
                let (nth, inside) =
                    ((from + long(gaps.inside)).div_euclid(all), from + long(gaps.inside));
                if inside.rem_euclid(all) >= long(gaps.every) {
                    return None;
                }
                nth * long(gaps.skip)
            }
        };
        self.anchor.checked_add_signed(from - skipped)
    }

    /// How many cylinders begin between the anchor and a track.
    pub(crate) fn cylinders(&self, track: i64) -> i64 {
        (track + i64::from(self.first)).div_euclid(i64::from(self.heads))
    }

    /// The phase at which a read of a block should end.
    pub(crate) fn at(&self, at: Block) -> f64 {
        self.on(self.track(at))
    }

    /// The phase at which a read of a track's sector should end; sectors past the track's end go on as on it.
    pub(crate) fn on(&self, (track, sector): (i64, u64)) -> f64 {
        let turned = fraction(self.step * signed(track));
        let extra = if self.heads > 1 { self.extra * signed(self.cylinders(track)) } else { 0.0 };
        fraction(self.phase + real(sector) / real(self.spt) + turned + extra)
    }

    /// By how much later a read of a block ended than it should have.
    pub(crate) fn off(&self, at: Block, phase: f64) -> f64 {
        wrap(phase - self.at(at))
    }

    /// The mean jump from track to track.
    pub(crate) fn mean_step(&self) -> f64 {
        if self.heads > 1 { self.step + self.extra / f64::from(self.heads) } else { self.step }
    }

    /// The same lattice, its phase and its skews moved to where they fit these phases of blocks best; those that lie
    /// off by more than `reach` are left out. The lattice as it is, if they do not tell.
    #[must_use]
    pub(crate) fn fitted(&self, phases: &[(Block, f64)], reach: f64) -> Self {
        let near = |(at, phase): &(Block, f64)| {
            let off = self.off(*at, *phase);
            (off.abs() < reach).then(|| (self.track(*at).0, off))
        };
        let near: Vec<(i64, f64)> = phases.iter().filter_map(near).collect();
        let mut fitted = *self;
        if self.heads > 1 {
            let row = |(track, off): &(i64, f64)| {
                ([1.0, signed(*track), signed(self.cylinders(*track))], *off)
            };
            if let Some([level, step, extra]) = fit(&near.iter().map(row).collect::<Vec<_>>()) {
                fitted.phase = fraction(fitted.phase + level);
                fitted.step += step;
                fitted.extra += extra;
            }
        } else {
            let row = |(track, off): &(i64, f64)| ([1.0, signed(*track)], *off);
            if let Some([level, step]) = fit(&near.iter().map(row).collect::<Vec<_>>()) {
                fitted.phase = fraction(fitted.phase + level);
                fitted.step += step;
            }
        }
        fitted
    }

    /// The same lattice, its phase moved to where it fits these phases of blocks best; its skews as they are.
    #[must_use]
    pub(crate) fn fitted_level(&self, phases: &[(Block, f64)], reach: f64) -> Self {
        let off: Vec<f64> = phases.iter().map(|(at, phase)| self.off(*at, *phase)).collect();
        let level = centre(&off, reach).map_or(0.0, |centre| centre.mean);
        Self { phase: fraction(self.phase + level), ..*self }
    }

    /// The same lattice, its tracks beginning so many blocks later.
    #[must_use]
    pub(crate) fn moved(&self, by: i64) -> Self {
        let anchor = self.anchor.checked_add_signed(by).unwrap_or(self.anchor);
        let phase = fraction(self.phase + signed(by) / real(self.spt));
        Self { anchor, phase, ..*self }
    }

    /// The same lattice, its tracks turned as those of another; on the cylinder of a block they lie as before, on the mean.
    #[must_use]
    pub(crate) fn turned_as(&self, other: &Self, at: Block) -> Self {
        let Self { step, extra, heads, first, .. } = *other;
        let turned = Self { step, extra, heads, first, ..*self };
        let last = self.track(at).0;
        let off: Vec<f64> = (last - i64::from(heads)..last)
            .map(|track| wrap(self.on((track, 0)) - turned.on((track, 0))))
            .collect();
        let moved = centre(&off, 0.5).map_or(0.0, |centre| centre.mean);
        Self { phase: fraction(turned.phase + moved), ..turned }
    }

    /// The same lattice, its tracks turned by another step; what a cylinder turns by stays, and so does the mean of its tracks.
    #[must_use]
    pub(crate) fn with_step(&self, step: f64) -> Self {
        let (heads, more) = (f64::from(self.heads), step - self.step);
        let middle = (heads - 1.0) / 2.0 - f64::from(self.first);
        let phase = fraction(self.phase - more * middle);
        Self { phase, step, extra: self.extra - heads * more, ..*self }
    }

    /// The sum of squares of what these phases lie off, each cut off at `reach`.
    pub(crate) fn misfit(&self, phases: &[(Block, f64)], reach: f64) -> f64 {
        let square = |(at, phase): &(Block, f64)| self.off(*at, *phase).abs().min(reach).powi(2);
        phases.iter().map(square).sum()
    }
}
