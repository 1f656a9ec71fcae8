//! The content of a profile file.

use drive_profile::findings::Findings;
use units::{Duration, Sectors};

/// A measured profile of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// The device.
    pub device: MeasuredDevice,
    /// The measurement.
    pub run: MeasurementRun,
    /// The findings.
    pub findings: Findings,
}

/// The measured device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredDevice {
    /// Its name: a path, a URI, `emulated:NAME` or `simulated:NAME`.
    pub name: String,
    /// The model that it reports, if any.
    pub model: Option<String>,
    /// Its capacity.
    pub capacity: Sectors,
    /// Its logical block size.
    pub block: Sectors,
    /// Whether the measurement was allowed to write to it.
    pub written: bool,
    /// Whether it has a seek command without a transfer.
    pub seeks: bool,
    /// The largest queue depth of the device and the path to it.
    pub depth_max: u32,
}

/// How the device was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasurementRun {
    /// The device time of the measurement, over all runs.
    pub time: Duration,
    /// Whether it is a quick profile.
    pub quick: bool,
    /// Why the measurement stopped early; `None` if it is complete.
    pub halted: Option<String>,
    /// The host's time to hand a command to a thread and to observe its completion, if threads are
    /// used.
    pub overhead: Option<Duration>,
    /// The CPU time of transfers in this process, by their length.
    pub processor: Vec<CpuCost>,
}

/// The CPU time of transfers of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// The length.
    pub len: Sectors,
    /// The mean CPU time of one transfer.
    pub time: Duration,
    /// The number of transfers.
    pub samples: u64,
}
