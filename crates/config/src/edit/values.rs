//! Changes of a config, as values.

use crate::plan::{Labels, PoolVolume, Volume};

/// Keys of a volume to write, as in the config and not yet checked. `None`: unchanged, or the
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeEdit {
    /// Such as `10GiB`.
    pub size: Option<String>,
    /// Such as `30%`. It replaces a rate from which the reserve was derived.
    pub reserve: Option<String>,
    /// Such as `60%`.
    pub limit: Option<String>,
    /// Such as `2`.
    pub weight: Option<i64>,
    /// `normal` or `high`.
    pub priority: Option<String>,
    /// A rate from which the reserve is derived. It replaces a reserve or another rate.
    pub rate: Option<RateEdit>,
    /// A stream replaces another stream or a bounded latency. It stands beside a reserve or a rate;
    /// a policy that does not keep both refuses the second.
    pub stream: Option<StreamEdit>,
    /// A bounded latency replaces a stream. It stands beside a reserve or a rate.
    pub latency: Option<LatencyEdit>,
    /// Labels replace all others.
    pub labels: Option<Labels>,
    /// Whether it is a block device of the daemon's machine too.
    pub ublk: Option<bool>,
}

/// The keys of a rate from which a reserve is derived. Each key that is `None` is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateEdit {
    /// Such as `60/s`.
    pub iops: Option<String>,
    /// Such as `20MB/s`, in place of `iops`.
    pub bandwidth: Option<String>,
    /// Such as `64`.
    pub run: Option<i64>,
    /// Such as `4KiB`.
    pub block: Option<String>,
}

/// A change of a volume's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEdit {
    /// This stream replaces the existing one.
    Put {
        /// Such as `817KB/s`.
        bandwidth: String,
        /// Such as `1MB`.
        block: String,
        /// Such as `0GiB..2GiB`. `None`: all of the volume.
        range: Option<String>,
        /// Such as `0s` and `2h`. `None`: always.
        span: Option<[String; 2]>,
        /// `any` or `sequential`, of a volume of the pool. `None`: any.
        order: Option<String>,
        /// Such as `3GiB` and `1GiB`, of a volume of the pool. `None`: no parts.
        parts: Option<Vec<String>>,
        /// Such as 0, of a mirror of the pool. `None`: one less than there are copies.
        survive: Option<i64>,
    },
    /// The stream is removed: the volume becomes best effort.
    Drop,
}

/// A change of a volume's bounded latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LatencyEdit {
    /// This bounded latency replaces the existing one.
    Put {
        /// Such as `80ms`.
        within: String,
        /// Such as `20/s`.
        requests: String,
        /// Such as `4`. `None`: 1.
        burst: Option<i64>,
        /// Such as `64KiB`.
        size: String,
    },
    /// The bounded latency is removed: the rest of the contract stays.
    Drop,
}

/// A volume of either kind, and its index among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedVolume<'a> {
    /// A volume on one disk: [`crate::Plan::volumes`].
    OnDisk(usize, &'a Volume),
    /// A volume of the pool: [`crate::PoolPlan::volumes`].
    InPool(usize, &'a PoolVolume),
}

/// Keys of a pool's volume to write, as in the config and not yet checked. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolVolumeEdit {
    /// Its size and its contract; a stream without a range.
    pub volume: VolumeEdit,
    /// The names of the disks that it is placed on. `None`: all current disks of the pool.
    pub disks: Option<Vec<String>>,
    /// Such as `stripe`.
    pub layout: Option<String>,
    /// The number of copies of a mirror's blocks.
    pub copies: Option<i64>,
    /// Such as `fast`.
    pub zone: Option<String>,
    /// Whether blocks are allocated when they are first written.
    pub thin: Option<bool>,
    /// Whether checksums of its data are kept.
    pub checksums: Option<bool>,
    /// The name of a volume or snapshot of the pool with whose content it is created.
    pub source: Option<String>,
}
