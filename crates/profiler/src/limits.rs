//! Limits of what is measured.

/// The most commands in flight.
pub const DEPTH_MAX: u32 = 64;
/// The most blocks that are read in turn to evict each of them from the drive's cache: drives keep
/// fewer segments.
pub const REFERENCES_MAX: u32 = 128;
/// The most segments of a disk's layout.
pub const SEGMENTS_MAX: usize = 4_096;
