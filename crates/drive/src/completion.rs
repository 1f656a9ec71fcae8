//! A command that is done, and what its response time consists of.

use units::{Duration, Instant};

/// The name that the submitter gives a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// A command that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub tag: Tag,
    /// When.
    pub at: Instant,
    /// What it waited for, from its submission on.
    pub parts: Parts,
}

/// What the time between submission and completion went into; the parts add up to it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting for other commands, for a background operation under way, or for room in the write
    /// buffer.
    pub queue: Duration,
    /// The electronics, as far as they do not work beside the command before.
    pub overhead: Duration,
    /// Arm movement, head switch and settling before the first sector.
    pub seek: Duration,
    /// From there until the first sector is under the head.
    pub rotation: Duration,
    /// The media, with changes of track on the way, and the bus.
    pub transfer: Duration,
}

impl Parts {
    /// All of them.
    pub fn sum(&self) -> Duration {
        self.queue + self.overhead + self.seek + self.rotation + self.transfer
    }
}
