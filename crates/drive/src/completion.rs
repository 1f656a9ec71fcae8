//! A command that is done, and what its response time consists of.

use units::{Duration, Instant};

/// The submitter's identifier of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command.
    pub tag: Tag,
    /// The instant of its completion.
    pub at: Instant,
    /// The parts of its response time.
    pub parts: Parts,
}

/// The parts of a command's response time, from submission to completion. They add up to it
/// exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting for other commands, for a background operation in progress, or for space in the
    /// write buffer.
    pub queue: Duration,
    /// The electronics, except for their overlap with the previous command.
    pub overhead: Duration,
    /// Arm movement, head switch and settling before the first sector.
    pub seek: Duration,
    /// From then until the first sector is under the head.
    pub rotation: Duration,
    /// The media transfer, including track changes, and the bus.
    pub transfer: Duration,
}

impl Parts {
    /// The sum of the parts.
    pub fn sum(&self) -> Duration {
        self.queue + self.overhead + self.seek + self.rotation + self.transfer
    }
}
