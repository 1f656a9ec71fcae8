//! Limits of what findings hold.

/// The most outliers that are listed; further ones are counted.
pub const OUTLIERS_MAX: usize = 256;
/// The most notes that are kept.
pub const NOTES_MAX: usize = 64;
/// The most bands that a profile has.
pub const BANDS_MAX: usize = 16_384;
