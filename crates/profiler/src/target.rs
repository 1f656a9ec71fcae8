//! The device under measurement: a drive, or a device that behaves like one.

use units::{Duration, Instant, Operation, Sectors};

/// The properties that a target states before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Facts {
    /// The number of sectors.
    pub sectors: Sectors,
    /// The device's logical block, 512 bytes or 4 KiB: addresses and lengths are multiples of it.
    pub block: Sectors,
    /// Whether writes are allowed.
    pub writable: bool,
    /// Whether it supports flushes.
    pub flushes: bool,
    /// Whether it supports forced unit access: [`Operation::with_fua`].
    pub forces: bool,
    /// Whether it supports a command that only moves the arm: [`Operation::seek`].
    pub seeks: bool,
    /// The most commands in flight, at least one.
    pub depth_max: u32,
}

/// The profiler's identifier of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded.
    Done,
    /// The device reported an error.
    Failed,
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub tag: Tag,
    /// When the command was submitted to the device.
    pub submitted: Instant,
    /// When its completion was observed; never before `submitted`.
    pub completed: Instant,
    /// Its outcome.
    pub outcome: Outcome,
}

/// A drive that can be timed. The target provides the time: virtual time in simulation, the host's
/// clock on a device.
pub trait Target {
    /// The target's properties. They are constant.
    fn facts(&self) -> Facts;

    /// The current time. It never decreases.
    fn now(&mut self) -> Instant;

    /// Returns at `at`, or as soon after it as possible; at once if it has passed. Completions that
    /// arrive meanwhile are observed on arrival and returned later.
    fn wait_until(&mut self, at: Instant);

    /// Submits a command to the device now, and returns the time of submission. The target chooses
    /// the data of a write.
    ///
    /// # Panics
    /// If [`Facts::depth_max`] commands are in flight, or the facts do not allow the operation: the
    /// profiler submits no such command.
    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant;

    /// Waits for the next completion. Every command completes, if need be with [`Outcome::Failed`].
    ///
    /// # Panics
    /// If nothing is in flight.
    fn complete(&mut self) -> Completion;

    /// The round-trip latency of the path to the device: performs and times an out-of-band request
    /// that no disk serves, with nothing else in flight. `None` where there is no such path, as for
    /// a block device, or where it cannot be timed.
    fn path(&mut self) -> Option<Duration> {
        None
    }
}
