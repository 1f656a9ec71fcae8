//! What a profile file holds.

use drive_profile::findings::Findings;
use units::{Duration, Sectors};

/// What was measured of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// What it was measured of.
    pub device: MeasuredDevice,
    /// How it was measured.
    pub run: MeasurementRun,
    /// What was found.
    pub findings: Findings,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredDevice {
    /// As it was called: a path, an URI, `emulated:NAME` or `simulated:NAME`.
    pub name: String,
    /// What it calls itself, if it does.
    pub model: Option<String>,
    /// How much it holds.
    pub capacity: Sectors,
    /// Its logical block.
    pub block: Sectors,
    /// Whether it may have been written to.
    pub written: bool,
    /// Whether it takes a command that moves the arm alone.
    pub seeks: bool,
    /// How many commands it, or the way to it, takes at once.
    pub depth_max: u32,
}

/// How it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasurementRun {
    /// How much of the device's time it took, over all runs.
    pub time: Duration,
    /// Whether a glance was enough.
    pub quick: bool,
    /// Why it ended before everything was measured; nothing if everything was.
    pub halted: Option<String>,
    /// What the host takes to hand a command to a thread and to hear of its end, where threads are between.
    pub overhead: Option<Duration>,
    /// What transfers take of a processor in this process, by their length: the mean of so many.
    pub processor: Vec<CpuCost>,
}

/// What transfers of one length take of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// The length.
    pub len: Sectors,
    /// What one takes.
    pub time: Duration,
    /// The mean of so many.
    pub samples: u64,
}
