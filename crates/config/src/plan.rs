//! What a config says, checked: the values that `sim` and `daemon` build their worlds from.
//!
//! Invariants, all of them established by [`Plan::parse`] and never re-checked behind it:
//! * every index points into the plan's own lists, and names are unique within their list;
//! * the reserves on a disk add up to at most the whole, the sizes on it to at most its capacity;
//! * every quantity lies within [`crate::limits`], so that sums and products of them do not overflow.
//!
//! The `line` fields are for messages of those who find out later that a value cannot be used (a
//! backing file on a full file system): they name the file and the line as the parser would have.

use core::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use engine::{
    BestEffortServer, Contract, EstimatorName, Execution, PolicyName, Priority, RateContract,
};
use units::{Bytes, Duration, Extent, Operation, Rate, Share};

use crate::faults::Faults;
use crate::log::Log;
use crate::nbd::Nbd;
use crate::pool::Pool;
use crate::stream::Stream;

/// A whole config: disks, the volumes on them, and (for a simulation) the load on those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The config's name, as messages give it.
    pub file: String,
    /// Where the dice of a simulation start.
    pub seed: u64,
    /// How long a simulation runs: as given, else the latest `stop` if every workload has one.
    pub duration: Option<Duration>,
    /// Where to listen for NBD clients: `unix:PATH` or `ADDRESS:PORT`. Empty: nothing was said.
    pub listen: Vec<String>,
    /// What its clients are allowed.
    pub nbd: Nbd,
    /// What is told of single requests, and recorded.
    pub log: Log,
    /// The disks, in the file's order.
    pub disks: Vec<Disk>,
    /// The volumes, in the file's order.
    pub volumes: Vec<Volume>,
    /// The pool that some of the disks are, with the volumes on it; only for a daemon.
    pub pool: Option<Pool>,
    /// The workloads, in the file's order.
    pub workloads: Vec<Workload>,
}

/// A disk: its number in [`Plan::disks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskIndex(pub usize);

/// A volume: its number in [`Plan::volumes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub usize);

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
    pub unreserved: Share,
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
    Real(Real),
}

/// How a real disk's commands get to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through io_uring, where the kernel lets us and the page cache does not stand between; else as the other.
    Ring,
    /// By threads that each make one at a time.
    Threads,
}

/// A real disk: a block device, or a file that stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// Its path, already relative to the working directory rather than to the config.
    pub path: PathBuf,
    /// Whether the page cache stands between.
    pub buffered: bool,
    /// Whether a table of partitions on it is taken as the volumes' data.
    pub adopt: bool,
    /// How its commands get to the kernel.
    pub way: Way,
    /// Whether zeroing changes a map and moves nothing.
    pub fast_zero: bool,
}

/// One volume, and what it is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name, unique among the volumes of all disks: clients ask for it.
    pub name: String,
    /// The disk it lies on.
    pub disk: DiskIndex,
    /// Who may open it, by `CN=NAME` or `sha256:FINGERPRINT`; `None`: whoever gets that far.
    pub clients: Option<Vec<String>>,
    /// Its size: a whole number of sectors, at least one.
    pub size: Bytes,
    /// Where it lies, in one piece that no other volume shares a sector with.
    pub place: Extent,
    /// Its share of the disk's time, or under [`PolicyName::Throughput`] of its nominal rate. Admitted: the disk's
    /// reserves fit together.
    pub contract: Contract,
    /// What its reserve was worked out from, if it asked for requests or bytes a second.
    pub declared: Option<RateContract>,
    /// The volume whose sectors it has, if it is a second door to another's: the same data under a contract of its own.
    pub same_as: Option<VolumeIndex>,
    /// Whether it goes before everybody of a lower class.
    pub priority: Priority,
    /// What it asked for by deadlines; what its contract has of that is admitted beside whatever else is promised on the disk.
    pub stream: Option<Stream>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// A stream of requests to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The volume it loads.
    pub volume: VolumeIndex,
    /// Where its requests come from.
    pub requests: Requests,
    /// When the first request comes, from the beginning of the run.
    pub start: Duration,
    /// When no more requests come, from the beginning of the run; after `start`. `None`: never.
    pub stop: Option<Duration>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// Where the requests of a workload come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    /// From dice.
    Drawn(Drawn),
    /// From a trace.
    Trace(Replay),
    /// From a list, one after the other in a closed loop: no file says that, experiments build it.
    Listed(Arc<[Operation]>),
    /// From a list with the time of each, from the workload's start, in that order; sent whether or not the last one was
    /// answered. No file says that either.
    Timed(Arc<[(Duration, Operation)]>),
}

/// Requests that dice make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// What they do.
    pub mix: Mix,
    /// Where they go.
    pub access: Access,
    /// The size of each: a whole number of sectors, at least one, at most the volume.
    pub block: Bytes,
    /// When they come.
    pub arrival: Arrival,
}

/// Requests of a trace, sent when it says, whether or not the last one was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The trace's file, its path already relative to the working directory rather than to the config.
    pub path: PathBuf,
    /// How it is read: its format, the device whose requests are wanted, and, where requests past the volume's end are
    /// refused, that end.
    pub options: trace::Options,
    /// What its times are multiplied by.
    pub scale: trace::Scale,
    /// What becomes of a request past the volume's end.
    pub remap: Remap,
}

/// What becomes of a request of a trace that passes its volume's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// The run ends, with the record's number.
    Refuse,
    /// It goes to its place modulo the volume's size, and one that would pass the end from there goes to the last place
    /// that holds it: runs stay runs. One that is larger than the volume is refused.
    Modulo,
}

/// What the requests of a workload do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All of them read.
    Read,
    /// All of them write.
    Write,
    /// Each is drawn anew.
    Mix {
        /// The share of them that read.
        read_share: Share,
    },
}

/// Where the requests of a workload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Each starts where the one before ended; behind the volume's end it goes on at the beginning.
    Sequential {
        /// Requests before a jump to a random place. `None`: it never jumps.
        run: Option<NonZeroU64>,
    },
    /// Each starts where the one before ended, within these sectors of the volume, and behind their end at their beginning.
    Within {
        /// The range of the volume's stream.
        range: Extent,
    },
    /// Each goes to a place of its own.
    Random,
    /// As random, but in the order of their places: so many are drawn at a time and sorted, as an elevator serves them.
    Elevator {
        /// How many.
        batch: NonZeroU64,
    },
}

/// When the requests of a workload come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A closed loop: an answer makes room for the next request.
    Closed {
        /// Requests under way at once, from 1 to [`crate::limits::OUTSTANDING_MAX`].
        outstanding: u32,
        /// The pause between an answer and the request that follows it.
        think: Duration,
    },
    /// An open loop: requests come at a constant rate, whether or not the last one was answered.
    Open {
        /// The time between two requests. Above zero.
        interval: Duration,
    },
    /// An open loop whose requests come independently of one another: a Poisson process.
    Poisson {
        /// The mean time between two requests. Above zero.
        interval: Duration,
    },
}
