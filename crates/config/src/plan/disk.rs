//! A disk of the plan, and how its time is handed out.

use std::path::PathBuf;
use std::sync::Arc;

use engine::{BestEffortServer, EstimatorName, Execution, PolicyName};
use units::{Duration, Rate, Share};

use super::faults::Faults;

/// A disk: its number in [`Plan::disks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskIndex(pub usize);

/// One disk, and how its time is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name, unique among the disks.
    pub name: String,
    /// The drive that it behaves like.
    pub drive: DriveRef,
    /// What was measured of it, in place of what is assumed of its parameters; nothing if nobody measured.
    pub profile: Option<ProfileRef>,
    /// Where its data lives. A simulation has no data and ignores it.
    pub backing: Backing,
    /// Who decides which request goes next.
    pub policy: PolicyName,
    /// Commands inside the drive at once, from 1 to [`crate::limits::DEPTH_MAX`], and within
    /// the drive's own queue.
    pub depth: u32,
    /// The accounting period, in which every reserve is kept (RTAS 2008's `p`).
    pub period: Duration,
    /// Disk time that a sequential run keeps the arm for before others may take it; at most `period`.
    pub batch: Duration,
    /// How long the disk waits for the next request of a sequential run before it turns to others.
    pub linger: Duration,
    /// The estimate of a request that starts close behind its predecessor (RTAS 2008 §3). Above zero.
    pub estimate_sequential: Duration,
    /// The estimate of any other request. Above zero.
    pub estimate_random: Duration,
    /// How requests become commands.
    pub execution: Execution,
    /// Who estimates.
    pub estimate: EstimatorName,
    /// The share of it that is promised to nobody.
    pub reserve_headroom: Share,
    /// The rate of requests that [`PolicyName::Throughput`] hands out; at least one a period.
    pub nominal: Rate,
    /// What deadlines cost more, per command, on a host than in the drive: it is late to see a completion, and to send the next
    /// command.
    pub host_lateness: Duration,
    /// The server that keeps best effort from starving where deadlines leave it nothing.
    pub best_effort: Option<BestEffortServer>,
    /// Which intervals [`PolicyName::DeltaL`] takes its slack from: all, but for experiments.
    pub slack_range: engine::stream::SlackRange,
    /// What goes wrong on it, where it is to.
    pub faults: Option<Faults>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// A profile by the path that the config gives, and what an engine takes of it.
#[derive(Clone, Debug)]
pub struct ProfileRef {
    /// The file's path as the config gives it.
    pub name: String,
    /// What was measured.
    pub profile: Arc<drive_profile::Profile>,
}

/// The name stands for the profile: within one plan it was loaded once.
impl PartialEq for ProfileRef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ProfileRef {}

/// A drive by the name that the config calls it, and the drive itself.
#[derive(Clone, Debug)]
pub struct DriveRef {
    /// A name in the library, or a drive file's path as the config gives it.
    pub name: String,
    /// The drive, checked. Disks of one name share it.
    pub model: drive::AnyModel,
}

/// The name stands for the model: within one plan it was loaded once.
impl PartialEq for DriveRef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for DriveRef {}

/// Where a disk's data lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In memory: gone with the process.
    Ram,
    /// In a file, its path already relative to the working directory rather than to the config.
    File(PathBuf),
    /// In memory, and every command is done at once.
    Memory,
    /// Nowhere, and every command is done at once: what is written is forgotten.
    Null,
    /// It is no emulated disk: it is this one.
    Real(RealDisk),
}

/// How a real disk's commands get to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMethod {
    /// Through io_uring, where the kernel lets us and the page cache does not stand between; else as the other.
    IoUring,
    /// By threads that each make one at a time.
    Threads,
}

/// A real disk: a block device, or a file that stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealDisk {
    /// Its path, already relative to the working directory rather than to the config.
    pub path: PathBuf,
    /// Whether the page cache stands between.
    pub buffered: bool,
    /// Whether a table of partitions on it is taken as the volumes' data.
    pub adopt: bool,
    /// How its commands get to the kernel.
    pub io_method: IoMethod,
    /// Whether zeroing changes a map and moves nothing.
    pub fast_zero: bool,
}
