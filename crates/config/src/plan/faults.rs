//! Faults that a disk injects, for tests.

use units::{Duration, Share};

/// How often commands fail, from a seeded RNG. A simulation's disks do not fail, and ignore this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The RNG's seed, at each opening of the disk.
    pub seed: u64,
    /// The share of reads that fail.
    pub read: Share,
    /// The share of writes, trims and write-zeroes commands that fail; half of those take effect.
    pub write: Share,
    /// The share of flushes that fail.
    pub flush: Share,
    /// The share of commands that begin late.
    pub stall: Share,
    /// The delay of a stalled command.
    pub stall_for: Duration,
    /// The number of commands after which the disk is offline until it is reopened.
    pub vanish_after: Option<u64>,
}
