//! The fit of one segment's layout with a given number of heads.

use crate::layout::segment::Segment;
use crate::layout::track_layout::TrackLayout;

/// Cylinders that begin elsewhere move tracks by so much of a turn at first, however exactly they are timed.
const REACH_FIRST: f64 = 0.1;
/// What speaks for a piece that begins with a cylinder, in squares of noise: zones do.
const BEGINS: f64 = 9.0;

/// What is left of a number of tracks beyond whole cylinders.
pub(crate) fn under(tracks: i64, heads: u32) -> u32 {
    u32::try_from(tracks.rem_euclid(i64::from(heads))).expect("under the heads")
}

/// The piece's lattice with so many heads, and by how much better it fits than without, in squares of noise. Likely so
/// many tracks of its cylinder lie before the anchor's as are said; if nothing is, the piece begins with a cylinder.
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
