//! What is measured: a drive, a device, or something that behaves like one.

use units::{Duration, Instant, Operation, Sectors};

/// What a target says of itself, before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Facts {
    /// How many sectors it has.
    pub sectors: Sectors,
    /// What addresses and lengths have to be multiples of: the device's logical block, 512 bytes or 4 KiB.
    pub block: Sectors,
    /// Whether writes are allowed.
    pub writable: bool,
    /// Whether it takes flushes.
    pub flushes: bool,
    /// Whether it takes forced unit access: [`Operation::with_fua`].
    pub forces: bool,
    /// Whether it takes a command that moves the arm alone: [`Operation::seek`].
    pub seeks: bool,
    /// How many commands may be outstanding, at least one.
    pub depth_max: u32,
}

/// The name that the profiler gives a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked for.
    Done,
    /// With an error of the device.
    Failed,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub tag: Tag,
    /// When it was handed to the device.
    pub submitted: Instant,
    /// When its end was noticed; never before `submitted`.
    pub completed: Instant,
    /// How.
    pub outcome: Outcome,
}

/// A drive that can be timed. Time is what the target says: virtual in simulation, a host's clock on a device.
pub trait Target {
    /// What it is. The same every time.
    fn facts(&self) -> Facts;

    /// What time it is. Never goes back.
    fn now(&mut self) -> Instant;

    /// Returns at `at`, or as soon after it as it can; at once if it has passed. Completions that come meanwhile are
    /// noticed when they come, and handed out later.
    fn wait_until(&mut self, at: Instant);

    /// Hands a command to the device now, and says when that was. The data of a write is the target's choice.
    ///
    /// # Panics
    /// If as many commands as [`Facts::depth_max`] are outstanding, or the operation is none that the facts
    /// allow: the profiler asks for no such thing.
    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant;

    /// Waits for the next completion. Every command ends, if need be with [`Outcome::Failed`].
    ///
    /// # Panics
    /// If nothing is outstanding.
    fn complete(&mut self) -> Completion;

    /// What the way to the device and back takes: something is asked that no disk is asked for, with nothing else
    /// outstanding, and timed. Nothing where there is no way, as before a block device, or none that can be timed.
    fn path(&mut self) -> Option<Duration> {
        None
    }
}
