//! Segments: consecutive addresses on one track layout, and whether reads agree with one.

use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::real;
use crate::layout::block::{Block, Phases};
use crate::layout::track_layout::TrackLayout;

/// The blocks in a check.
pub(crate) const CHECK: u32 = 8;
/// The largest deviation of a check's blocks, in revolutions.
pub(crate) const OFF_MAX: f64 = 0.12;
/// The largest mean distance of a check's blocks from their mean, in standard deviations; four
/// fifths are expected.
const SCATTER_MAX: f64 = 1.4;
/// The mean distance beyond which more blocks are read.
const SCATTER_DOUBTFUL: f64 = 1.1;

/// The step of a segment as one location shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSample {
    /// The delay of a track's beginning relative to the track before it, in revolutions.
    pub(crate) step: f64,
    /// Its standard error, as far as this location shows it.
    pub(crate) error: f64,
}

/// Consecutive addresses on one track layout.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The first block.
    pub(crate) from: Block,
    /// The probability of that first block.
    pub(crate) sure: f64,
    /// Whether the cylinders on both sides were known when the first block was determined.
    pub(crate) settled_by_cylinders: bool,
    /// The first block behind the segment, or behind its known part.
    pub(crate) to: Block,
    pub(crate) layout: TrackLayout,
    /// The tracks of its cylinder before the anchor's, if seeks showed them.
    pub(crate) first_seen: Option<u32>,
    /// Blocks on a track of the segment's zone.
    pub(crate) spt: u64,
    /// The layout near the segment's end, which slipped sectors in between have moved.
    pub(crate) ending: TrackLayout,
    /// The measured phases.
    pub(crate) phases: Phases,
    /// The layout's step and the additional skew of a cylinder, if they are whole sectors.
    pub(crate) skews: Option<(f64, f64)>,
    /// The step at single locations, and its error in revolutions by all measurements.
    pub(crate) steps: Vec<StepSample>,
    pub(crate) step_error: f64,
    /// The number of locations without a result.
    pub(crate) steps_lost: usize,
    /// When the segment was measured, in ns since the probe began.
    pub(crate) time: f64,
}

impl Segment {
    /// The standard error of the mean phase of `own` blocks at `at`: that of the blocks, and that
    /// of a line through all phases of the segment.
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

/// Whether reads agree with a segment.
pub(crate) enum Verdict {
    Holds,
    /// The reads do not decide it.
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
    // One in eight may be remapped, or late.
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
