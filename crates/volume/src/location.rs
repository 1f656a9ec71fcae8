//! Where sectors lie: a disk, and an extent of it.

use units::Extent;

/// A disk of the pool: its number in the order of [`crate::FreeSpace::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u32);

/// A run of sectors on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskExtent {
    /// Which disk.
    pub disk: DiskId,
    /// Where on it.
    pub extent: Extent,
}
