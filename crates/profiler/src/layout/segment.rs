//! Segments: consecutive addresses on one track layout, and whether reads agree with one.

use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::real;
use crate::layout::block::{Block, Phases};
use crate::layout::track_layout::TrackLayout;

/// Blocks in a check.
pub(crate) const CHECK: u32 = 8;
/// A check holds if its blocks lie off by no more than this part of a turn.
pub(crate) const OFF_MAX: f64 = 0.12;
/// The mean distance of a check's blocks from their mean, in standard deviations; four fifths are expected.
const SCATTER_MAX: f64 = 1.4;
/// The same, from where on more blocks are read.
const SCATTER_DOUBTFUL: f64 = 1.1;

/// What one place says of the step of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSample {
    /// By how much a track begins later than the one before it, in turns.
    pub(crate) step: f64,
    /// Its standard error, as far as the place alone shows it.
    pub(crate) error: f64,
}

/// Addresses in a row on one lattice.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The first block.
    pub(crate) from: Block,
    /// How sure that is.
    pub(crate) sure: f64,
    /// Whether it was known then where cylinders begin, on both sides.
    pub(crate) settled_by_cylinders: bool,
    /// The first block behind it, or behind what is known of it.
    pub(crate) to: Block,
    pub(crate) layout: TrackLayout,
    /// How many tracks of its cylinder lie before the anchor's, if the arm told it.
    pub(crate) first_seen: Option<u32>,
    /// Blocks on a track of the zone that it is part of.
    pub(crate) spt: u64,
    /// The same lattice near its end: what was slipped in between has moved it.
    pub(crate) ending: TrackLayout,
    /// What was measured in it.
    pub(crate) phases: Phases,
    /// The step of its lattice and what a new cylinder adds, if they are whole sectors.
    pub(crate) skews: Option<(f64, f64)>,
    /// The step as single places told it, and its error in turns as all that was measured has it.
    pub(crate) steps: Vec<StepSample>,
    pub(crate) step_error: f64,
    /// How many places did not tell.
    pub(crate) steps_lost: usize,
    /// When that was done, in ns since the probe began.
    pub(crate) time: f64,
}

impl Segment {
    /// By how much the mean phase of a check of `own` blocks at `at` may be off, as a standard deviation: that of its
    /// own blocks, and that of a line through all that was measured.
    fn error(&self, (at, own): (Block, usize), sigma: f64) -> f64 {
        let own = real(own.max(1) as u64);
        let count = real(self.phases.len().max(2) as u64);
        let mean = self.phases.iter().map(|(at, _)| real(*at)).sum::<f64>() / count;
        let square = |(at, _): &(Block, f64)| (real(*at) - mean) * (real(*at) - mean);
        let square = self.phases.iter().map(square).sum::<f64>().max(1.0);
        let lever = (real(at) - mean) * (real(at) - mean) / square;
        sigma * (1.0 / own + 1.0 / count + lever).sqrt()
    }
}

/// What blocks say of whether they lie where a piece says.
pub(crate) enum Verdict {
    Holds,
    /// They may, and may as well not.
    Doubtful,
    Fails,
}

pub(crate) fn verdict(segment: &Segment, phases: &Phases, (at, sigma): (Block, f64)) -> Verdict {
    let mut off: Vec<f64> =
        phases.iter().map(|(at, phase)| segment.layout.off(*at, *phase)).collect();
    if off.len() < 4 {
        return Verdict::Fails;
    }
    let Some(found) = centre(&off, 5.0 * sigma) else { return Verdict::Fails };
    // One of eight may have been moved elsewhere, or was late.
    off.sort_by(|a, b| wrap(a - found.mean).abs().total_cmp(&wrap(b - found.mean).abs()));
    let alone = off.split_off(off.len() - off.len().div_ceil(8));
    let alone = alone.iter().any(|off| wrap(off - found.mean).abs() > 4.0 * sigma);
    let scatter =
        off.iter().map(|off| wrap(off - found.mean).abs()).sum::<f64>() / real(off.len() as u64);
    let error = segment.error((at, phases.len()), sigma);
    let may = (4.0 * error + 2.0 / real(segment.layout.spt)).min(OFF_MAX);
    let moved = wrap(found.mean).abs();
    if scatter > SCATTER_MAX * sigma || moved > may {
        return Verdict::Fails;
    }
    let doubtful = alone || scatter > SCATTER_DOUBTFUL * sigma;
    if doubtful { Verdict::Doubtful } else { Verdict::Holds }
}
