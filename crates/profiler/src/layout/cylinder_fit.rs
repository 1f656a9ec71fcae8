//! The fit of one segment's layout with a given number of heads.

use crate::layout::segment::Segment;
use crate::layout::track_layout::TrackLayout;

/// The initial reach of a fit, in revolutions: cylinders that begin elsewhere move tracks by as
/// much, however precise the timing.
const REACH_FIRST: f64 = 0.1;
/// The evidence for a segment that begins with a cylinder, in squares of noise: zones do.
const BEGINS: f64 = 9.0;

/// The tracks beyond whole cylinders.
pub(crate) fn under(tracks: i64, heads: u32) -> u32 {
    u32::try_from(tracks.rem_euclid(i64::from(heads))).expect("under the heads")
}

/// The segment's layout with `heads` heads, and the improvement of its fit over one without
/// cylinders, in squares of noise. `likely` is the probable number of tracks of its cylinder before
/// the anchor's; without it the segment probably begins with a cylinder.
pub(crate) fn with_heads(
    segment: &Segment,
    (heads, likely): (u32, Option<u32>),
    sigma: f64,
) -> (f64, TrackLayout) {
    let reach = 5.0 * sigma;
    let fitted = |layout: TrackLayout| {
        layout.fitted(&segment.phases, reach.max(REACH_FIRST)).fitted(&segment.phases, reach)
    };
    let mean = segment.layout.mean_step();
    let plain = TrackLayout { heads: 1, first: 0, extra: 0.0, step: mean, ..segment.layout };
    let plain = fitted(plain);
    let without = plain.misfit(&segment.phases, reach);
    let likely = likely.unwrap_or_else(|| under(-segment.layout.track(segment.from).0, heads));
    let seen = segment.first_seen.filter(|first| *first < heads);
    let mut best = (f64::INFINITY, plain);
    for first in seen.map_or(0..heads, |seen| seen..seen + 1) {
        let start = if segment.layout.heads == heads && segment.layout.first == first {
            segment.layout
        } else {
            TrackLayout { heads, first, ..plain }
        };
        let layout = fitted(start);
        let unlikely = if first == likely { 0.0 } else { BEGINS * sigma * sigma };
        let misfit = layout.misfit(&segment.phases, reach) + unlikely;
        if misfit < best.0 {
            best = (misfit, layout);
        }
    }
    ((without - best.0) / (sigma * sigma), best.1)
}
