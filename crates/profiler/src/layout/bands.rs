//! From segments to the bands that the scheduler needs.

use drive_profile::{Band, HeadOrder, Skew};
use units::{Angle, Extent, Lba, Sectors};

use crate::estimate::number::{floor, fraction, real};
use crate::layout::segment::Segment;
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::limits::BANDS_MAX;

/// The bands of a disk with `heads` tracks on a cylinder, and its number of cylinders.
pub(crate) fn bands(
    segments: &[Segment],
    (heads, order): (u32, Option<HeadOrder>),
    block: u64,
) -> (Vec<Band>, u32) {
    let mut bands = Vec::new();
    let mut cylinder = 0_u32;
    for (nth, segment) in segments.iter().enumerate() {
        let (from, to) = (segment.from, segment.to.max(segment.from + 1));
        let layout = segment.layout;
        // Where angles do not show where cylinders begin, a zone is assumed to begin with one.
        let told = layout.heads > 1;
        let first_track = layout.track(from).0;
        let before = if told {
            (first_track + i64::from(layout.first)).rem_euclid(i64::from(layout.heads))
        } else {
            let same = nth > 0 && segments[nth - 1].layout.spt == layout.spt;
            if same { carried(&segments[nth - 1], heads) } else { 0 }
        };
        if nth > 0 && before == 0 {
            cylinder += 1;
        }
        let base = first_track - before;
        let last_track = layout.track(to - 1).0;
        for (start, end) in runs(&layout, from, to) {
            if bands.len() >= BANDS_MAX {
                break;
            }
            let band = band(&layout, (start, end), (base, cylinder), block);
            bands.push(Band { heads: order.unwrap_or_default(), ..band });
        }
        let cylinders = (last_track - base) / i64::from(heads.max(1));
        cylinder += u32::try_from(cylinders).unwrap_or(0);
    }
    (bands, cylinder + 1)
}

/// The tracks of the last cylinder that a segment has begun, if its end is not known to be a
/// cylinder's.
fn carried(segment: &Segment, heads: u32) -> i64 {
    let tracks = segment.layout.track(segment.to).0 - segment.layout.track(segment.from).0;
    tracks.rem_euclid(i64::from(heads.max(1)))
}

/// Runs of addresses without a gap.
fn runs(layout: &TrackLayout, from: u64, to: u64) -> Vec<(u64, u64)> {
    let Some(gaps) = layout.gaps else { return vec![(from, to)] };
    let mut runs = Vec::new();
    let mut start = from;
    while start < to && runs.len() < BANDS_MAX {
        let inside = (start + gaps.inside + gaps.every - layout.anchor % gaps.every) % gaps.every;
        let end = (start + gaps.every - inside).min(to);
        runs.push((start, end));
        start = end;
    }
    runs
}

/// One band, on a grid whose first cylinder begins with track `base`.
fn band(
    layout: &TrackLayout,
    (from, to): (u64, u64),
    (base, cylinder): (i64, u32),
    block: u64,
) -> Band {
    let (track, sector) = layout.track(from);
    let into = u64::try_from(track - base).unwrap_or(0) * layout.spt + sector;
    let extra = if layout.heads > 1 { layout.extra } else { 0.0 };
    // A read completes when its block has passed; the angle is that of the block's beginning.
    let begins = fraction(layout.on((base, 0)) - 1.0 / real(layout.spt));
    Band {
        lbas: Extent::new(Lba(from * block), Sectors((to - from) * block)),
        first_sector: into * block,
        first_cylinder: cylinder,
        sectors_per_track: u32::try_from(layout.spt * block).unwrap_or(u32::MAX),
        track_skew: skew(layout.step),
        cylinder_skew: skew(layout.step + extra),
        first_angle: Angle(u32::try_from(floor(begins * real(1 << 32))).unwrap_or(u32::MAX)),
        heads: HeadOrder::Up,
        chunk_read: Sectors(1),
        chunk_write: Sectors(1),
    }
}

/// A fraction of a revolution as a skew.
fn skew(revolutions: f64) -> Skew {
    // Two halves of 32 bits: an `f64` holds 53.
    let fine = floor(fraction(revolutions) * real(1 << 52));
    Skew(fine << 12)
}
