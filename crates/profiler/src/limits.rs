//! Limits of what is measured and kept.

/// Most commands that the profiler has outstanding at once.
pub const DEPTH_MAX: u32 = 64;
/// Most outliers that are listed; further ones are counted.
pub const OUTLIERS_MAX: usize = 256;
/// Most notes that are kept.
pub const NOTES_MAX: usize = 64;
/// Most blocks that are read in turn to make a drive forget each: drives keep fewer runs.
pub const REFERENCES_MAX: u32 = 128;
/// Most pieces that a disk is taken to be laid out in.
pub const PIECES_MAX: usize = 4_096;
/// Most bands that a profile has.
pub const BANDS_MAX: usize = 16_384;
