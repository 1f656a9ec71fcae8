//! Faults that a disk injects, for tests of what runs on it.

use units::{Duration, Share};

/// How often commands fail, drawn from a seed. A simulation's disks do not fail, and it ignores this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Where the dice begin, at every opening of the disk.
    pub seed: u64,
    /// Of the reads, so many fail.
    pub read: Share,
    /// Of the writes, trims and writes of zeroes, so many fail; half of those have been done all the same.
    pub write: Share,
    /// Of the flushes, so many fail.
    pub flush: Share,
    /// Of all commands, so many begin late.
    pub stall: Share,
    /// How late.
    pub stall_for: Duration,
    /// After so many commands the disk is gone until it is opened again.
    pub vanish_after: Option<u64>,
}
