//! A uniform layout of tracks: a lattice of angles.
//!
//! From sector to sector the angle grows by a fraction of a revolution, from track to track by the
//! track skew, and from cylinder to cylinder by the cylinder skew. A layout is such a lattice with
//! its anchor.
//!
//! ```text
//! phase(x) = phase + sector/spt + step * track + extra * cylinder      (modulo 1)
//! ```

use crate::estimate::angle::{centre, wrap};
use crate::estimate::least_squares::fit;
use crate::estimate::number::{fraction, real, signed};
use crate::layout::block::Block;

/// A lattice of angles, anchored at the first block of a track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrackLayout {
    /// Blocks on a track.
    pub(crate) spt: u64,
    /// The first block of one track.
    pub(crate) anchor: Block,
    /// The phase at which a read of the anchor completes.
    pub(crate) phase: f64,
    /// The delay of a track's beginning relative to the track before it, in revolutions.
    pub(crate) step: f64,
    /// The additional delay if a new cylinder begins with it.
    pub(crate) extra: f64,
    /// Tracks on a cylinder, as far as `extra` shows them, or 1 without `extra`.
    pub(crate) heads: u32,
    /// The tracks of its cylinder before the anchor's.
    pub(crate) first: u32,
    /// Regular gaps without data, if there are any.
    pub(crate) gaps: Option<Gaps>,
}

/// Regular gaps without data: spare sectors after each group of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Blocks from one gap to the next.
    pub(crate) every: u64,
    /// Blocks that a gap could hold.
    pub(crate) skip: u64,
    /// Blocks from the gap before the anchor to the anchor.
    pub(crate) inside: u64,
}

/// A count as a signed integer.
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

    /// The track of a sector, counted with gaps from the anchor on, and its sector there.
    pub(crate) fn sector(&self, from: i64) -> (i64, u64) {
        let spt = long(self.spt);
        (from.div_euclid(spt), from.rem_euclid(spt).cast_unsigned())
    }

    /// The first block of a track, if its first sector holds data.
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

    /// The number of cylinders that begin between the anchor and a track.
    pub(crate) fn cylinders(&self, track: i64) -> i64 {
        (track + i64::from(self.first)).div_euclid(i64::from(self.heads))
    }

    /// The predicted phase of a read of a block.
    pub(crate) fn at(&self, at: Block) -> f64 {
        self.on(self.track(at))
    }

    /// The predicted phase of a read of a track's sector; sectors past the track's end continue on
    /// it.
    pub(crate) fn on(&self, (track, sector): (i64, u64)) -> f64 {
        let turned = fraction(self.step * signed(track));
        let extra = if self.heads > 1 { self.extra * signed(self.cylinders(track)) } else { 0.0 };
        fraction(self.phase + real(sector) / real(self.spt) + turned + extra)
    }

    /// The deviation of a read of a block from its predicted phase.
    pub(crate) fn off(&self, at: Block, phase: f64) -> f64 {
        wrap(phase - self.at(at))
    }

    /// The mean skew from track to track.
    pub(crate) fn mean_step(&self) -> f64 {
        if self.heads > 1 { self.step + self.extra / f64::from(self.heads) } else { self.step }
    }

    /// The layout with phase and skews fitted to these phases of blocks, without those that deviate
    /// by more than `reach`. Unchanged if they do not determine it.
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

    /// The layout with its phase fitted to these phases of blocks, and unchanged skews.
    #[must_use]
    pub(crate) fn fitted_level(&self, phases: &[(Block, f64)], reach: f64) -> Self {
        let off: Vec<f64> = phases.iter().map(|(at, phase)| self.off(*at, *phase)).collect();
        let level = centre(&off, reach).map_or(0.0, |centre| centre.mean);
        Self { phase: fraction(self.phase + level), ..*self }
    }

    /// The layout with track boundaries `by` blocks later.
    #[must_use]
    pub(crate) fn moved(&self, by: i64) -> Self {
        let anchor = self.anchor.checked_add_signed(by).unwrap_or(self.anchor);
        let phase = fraction(self.phase + signed(by) / real(self.spt));
        Self { anchor, phase, ..*self }
    }

    /// The layout with the skews of another; the tracks on the cylinder of a block keep their mean
    /// phase.
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

    /// The layout with another track skew; the total skew of a cylinder and the mean phase of its
    /// tracks stay.
    #[must_use]
    pub(crate) fn with_step(&self, step: f64) -> Self {
        let (heads, more) = (f64::from(self.heads), step - self.step);
        let middle = (heads - 1.0) / 2.0 - f64::from(self.first);
        let phase = fraction(self.phase - more * middle);
        Self { phase, step, extra: self.extra - heads * more, ..*self }
    }

    /// The sum of the squared deviations of these phases, each limited to `reach`.
    pub(crate) fn misfit(&self, phases: &[(Block, f64)], reach: f64) -> f64 {
        let square = |(at, phase): &(Block, f64)| self.off(*at, *phase).abs().min(reach).powi(2);
        phases.iter().map(square).sum()
    }
}
