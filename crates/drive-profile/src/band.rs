//! Bands: logical blocks on tracks with one layout.

use units::{Angle, Extent, Sectors};

/// Consecutive logical blocks on consecutive sectors of tracks with one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The logical blocks.
    pub lbas: Extent,
    /// The sector that holds the first of them, counted from the first sector of `first_cylinder`.
    pub first_sector: u64,
    /// The outermost cylinder of the grid on which `first_sector` is counted.
    pub first_cylinder: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// The angle by which a track begins later than the previous one on the same cylinder.
    pub track_skew: Skew,
    /// The angle by which the first track of a cylinder begins later than the last track of the
    /// previous cylinder.
    pub cylinder_skew: Skew,
    /// Where the first sector of `first_cylinder` begins.
    pub first_angle: Angle,
    /// The order in which the heads of a cylinder are used.
    pub heads: HeadOrder,
    /// The smallest read command that sustains the full sequential rate: the lower end of the
    /// optimal range of semi-preemptible IO (FAST 2003 §3.1).
    pub chunk_read: Sectors,
    /// The smallest write command that sustains the full sequential rate.
    pub chunk_write: Sectors,
}

/// A part of a revolution in 2⁻⁶⁴: fine enough to be summed over every cylinder of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew(pub u64);

impl Skew {
    /// `part` of `whole` sectors around a track.
    ///
    /// # Panics
    /// If a track has no sectors.
    pub fn of(part: u32, whole: u32) -> Self {
        assert!(whole > 0, "a track has sectors");
        let nth = u128::from(part % whole);
        Self(u64::try_from((nth << 64) / u128::from(whole)).expect("less than a revolution"))
    }
}

/// The order in which the heads of a cylinder are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadOrder {
    /// From 0 up.
    #[default]
    Up,
    /// Up on even cylinders of the grid, down on odd ones.
    UpOnEven,
    /// Down on even cylinders of the grid, up on odd ones.
    DownOnEven,
}
