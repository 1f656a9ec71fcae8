//! The spindle.

use units::Duration;

use super::figure::Figure;

/// What is known of a rotating spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The rotation period.
    pub period: Figure<Duration>,
    /// The rotation period in ps, because `period` is rounded to ns.
    pub period_picos: u64,
    /// The standard deviation of single completions about the rotation: the noise of the timing.
    pub noise: Duration,
    /// The largest deviation of the spindle from its mean rotation over seconds, beyond the part
    /// that noise explains.
    pub wander: Duration,
    /// The number of reads elsewhere that evict a block from the drive's cache.
    pub eviction_reads: u32,
    /// The longest service time of a cache hit. Zero if the drive caches nothing.
    pub cache_hit_max: Duration,
}

/// Whether the drive has a spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spindle {
    /// The drive rotates.
    Rotating(Rotation),
    /// Nothing rotates: completions have no period.
    NotRotating,
}
