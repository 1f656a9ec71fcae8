//! Changes of a config, as values.

use crate::plan::{PoolVolume, Volume};

/// What of a volume is to be written: as the config has it, not yet checked. `None`: as it is, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeEdit {
    /// Such as `10GiB`.
    pub size: Option<String>,
    /// Such as `30%`. It takes the place of a rate that the reserve was worked out from: `iops` or `bandwidth`, with `run`
    /// and `block`.
    pub reserve: Option<String>,
    /// Such as `60%`.
    pub limit: Option<String>,
    /// Such as `2`.
    pub weight: Option<i64>,
    /// A stream takes the place of a reserve, and a reserve that of a stream.
    pub stream: Option<StreamEdit>,
}

/// What of a volume's stream is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEdit {
    /// This, in place of the one that there is.
    Put {
        /// Such as `817KB/s`.
        bandwidth: String,
        /// Such as `1MB`.
        block: String,
        /// Such as `0GiB..2GiB`. `None`: all of the volume.
        range: Option<String>,
        /// Such as `0s` and `2h`. `None`: always.
        span: Option<[String; 2]>,
    },
    /// None: the volume becomes best effort.
    Drop,
}

/// A volume, whichever kind it is of, and its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedVolume<'a> {
    /// It lies where the config says: [`crate::Plan::volumes`].
    OnDisk(usize, &'a Volume),
    /// It lies where the pool says: [`PoolPlan::volumes`].
    InPool(usize, &'a PoolVolume),
}

/// What of a pool's volume is to be written: as the config has it, not yet checked. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolVolumeEdit {
    /// Its size and its contract; a stream without a range.
    pub volume: VolumeEdit,
    /// The names of the disks that it is to lie on. `None`: all that the pool has now.
    pub disks: Option<Vec<String>>,
    /// Such as `stripe`.
    pub layout: Option<String>,
    /// Such as `fast`.
    pub zone: Option<String>,
    /// Whether blocks appear when they are first written.
    pub thin: Option<bool>,
}
