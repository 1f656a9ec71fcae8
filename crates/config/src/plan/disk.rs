//! A disk of the plan, and how its time is divided.

use std::path::PathBuf;
use std::sync::Arc;

use engine::{
    BestEffortServer, ChooserName, EstimatorName, Execution, Feature, PolicyName,
    ReadAheadSettings, WriteBufferSettings,
};
use units::{Duration, Rate, Share};

use super::backing::{Backing, WriteCache};
use super::bus::Bus;
use super::depth::DepthSource;
use super::faults::Faults;

/// A disk, by its index in [`crate::Plan::disks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskIndex(pub usize);

/// One disk, and how its time is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name, unique among the disks.
    pub name: String,
    /// The drive that it emulates.
    pub drive: DriveRef,
    /// The share of its speed to which an emulated or simulated drive is slowed: every service time
    /// is divided by it. The whole: not slowed. At least [`crate::limits::SLOWED_MIN`].
    pub slowed: Share,
    /// The bus that it shares with other disks; `None`: it has its own.
    pub bus: Option<Bus>,
    /// The measured profile, used instead of what the drive's parameters imply; `None` if there is
    /// none.
    pub profile: Option<ProfileRef>,
    /// Where its data is stored. A simulation has no data and ignores it.
    pub backing: Backing,
    /// Whether it takes the place of a disk that the pool has taken out. It is none of the pool's
    /// until then, and has no volumes.
    pub spare: bool,
    /// What it fails together with; `None`: it fails alone.
    pub domain: Option<String>,
    /// The scheduling policy.
    pub policy: PolicyName,
    /// Whether contracts are accepted that the policy does not keep, so that a simulation can show
    /// it. A daemon refuses such a config.
    pub unkept_contracts: bool,
    /// Commands in flight inside the drive, from 1 to [`crate::limits::DEPTH_MAX`] and at most the
    /// drive's own queue.
    pub depth: u32,
    /// Where the depth comes from.
    pub depth_source: DepthSource,
    /// Which of a volume's requests goes next.
    pub chooser: ChooserName,
    /// Whether reads of volumes without a guarantee are carried out in the rotational waits of
    /// other volumes' commands.
    pub freeblock: bool,
    /// The accounting period, in which each reserve is guaranteed (RTAS 2008's `p`).
    pub period: Duration,
    /// Disk time for which a sequential run is served before other volumes are; at most `period`.
    pub batch: Duration,
    /// How long the disk idles for the next request of a sequential run before it serves other
    /// volumes.
    pub linger: Duration,
    /// The estimate of a request that starts close behind its predecessor (RTAS 2008 §3). Above
    /// zero.
    pub estimate_sequential: Duration,
    /// The estimate of any other request. Above zero.
    pub estimate_random: Duration,
    /// How requests are executed as commands.
    pub execution: Execution,
    /// The estimator of service times.
    pub estimate: EstimatorName,
    /// The share of the disk's time that admission keeps free of reserves.
    pub reserve_headroom: Share,
    /// The rate of requests that [`PolicyName::Throughput`] divides; at least one request in a
    /// period.
    pub nominal: Rate,
    /// The declared worst case of a command, on a disk without a profile of an arm; `None` if there
    /// is no such declaration.
    pub worst_case: Option<engine::CommandBound>,
    /// Time added to each command's worst case for deadlines: a host observes a completion late,
    /// and sends the next command late.
    pub host_lateness: Duration,
    /// The server that reserves time for best-effort requests beside deadlines.
    pub best_effort: Option<BestEffortServer>,
    /// The intervals from which [`PolicyName::DeltaL`] takes its slack: all of them, except in
    /// experiments.
    pub slack_range: engine::stream::SlackRange,
    /// The memory in which the host reads ahead of sequential clients, and by what.
    pub read_ahead: ReadAheadSettings,
    /// The memory in which the host holds what clients have written; `None`: writes go to the drive
    /// as they come, and it may keep them in its own buffer.
    pub write_buffer: Option<WriteBufferSettings>,
    /// What is done about the write cache of its drive.
    pub write_cache: WriteCache,
    /// Where the daemon logs what its write buffers hold.
    pub write_buffer_log: WriteBufferLog,
    /// The faults that it injects, if any.
    pub faults: Option<Faults>,
    /// The line of its table, from 1.
    pub line: usize,
}

impl Disk {
    /// Changes the policy of a disk that was checked under another: with it the order of requests,
    /// and the depth unless the config says it.
    pub fn set_policy(&mut self, policy: PolicyName) {
        self.policy = policy;
        if !policy.keeps(Feature::Chooser) {
            (self.chooser, self.freeblock) = (ChooserName::Arrival, false);
        }
        if self.depth_source != DepthSource::Config && !policy.has_exclusive_quanta() {
            (self.depth, self.depth_source) = (1, DepthSource::Policy);
        }
        debug_assert!(self.depth > 0, "the drive takes a command");
    }
}

/// Where a daemon logs what its write buffers hold, so that the next one has it after a kill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteBufferLog {
    /// In the service manager's directory, or one of the user, in memory.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// In this directory, whose path is already relative to the working directory.
    Directory(PathBuf),
}

/// A profile, by the path in the config, and the values that an engine uses.
#[derive(Clone, Debug)]
pub struct ProfileRef {
    /// The file's path as written in the config.
    pub name: String,
    /// The measured values.
    pub profile: Arc<drive_profile::Profile>,
}

/// Within one plan each profile is loaded once, so that equal names mean equal profiles.
impl PartialEq for ProfileRef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ProfileRef {}

/// A drive, by its name in the config, and its model.
#[derive(Clone, Debug)]
pub struct DriveRef {
    /// A name in the library, or a drive file's path as written in the config.
    pub name: String,
    /// The checked model. Disks with the same drive name share it.
    pub model: drive::AnyModel,
}

/// Within one plan each drive is loaded once, so that equal names mean equal models.
impl PartialEq for DriveRef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for DriveRef {}
