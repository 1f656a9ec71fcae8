//! A volume of the plan, and its contract.

use engine::stream::{RequestedStream, Span};
use engine::{Contract, Priority, RateContract};
use units::{Bytes, Extent, Sectors};

use super::disk::DiskIndex;
use super::labels::Labels;

/// A volume, by its index in [`crate::Plan::volumes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub usize);

/// One volume, and its contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name, unique among all volumes: clients open it by this name.
    pub name: String,
    /// The disk that it is placed on.
    pub disk: DiskIndex,
    /// The clients that may open it, by `CN=NAME` or `sha256:FINGERPRINT`; `None`: all clients.
    pub clients: Option<Vec<String>>,
    /// Its size: a whole number of sectors, at least one.
    pub size: Bytes,
    /// Its location: one extent that overlaps no other volume's, except through `same_as`.
    pub extent: Extent,
    /// Its share of the disk's time, or under [`engine::PolicyName::Throughput`] of its nominal
    /// rate. Admitted: the disk's reserves fit together.
    pub contract: Contract,
    /// The rate that its reserve was derived from, if it asked for requests or bytes a second.
    pub declared: Option<RateContract>,
    /// The volume whose sectors it shares under a contract of its own, if `same_as` names one.
    pub same_as: Option<VolumeIndex>,
    /// Whether it is served before volumes of a lower class.
    pub priority: Priority,
    /// Its stream. The stream in its contract is admitted beside all other contracts on the disk.
    pub stream: Option<Stream>,
    /// The bound of its write buffer, on a disk that has buffers; zero: each of its writes is on
    /// the medium when it is answered.
    pub write_buffer: Sectors,
    /// What it is for, in the words of its user.
    pub labels: Labels,
    /// Whether it is a block device of the daemon's machine too.
    pub ublk: bool,
    /// The line of its table, from 1.
    pub line: usize,
}

/// A stream as written in the config, and its demand on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The bandwidth and the block size.
    pub requested: RequestedStream,
    /// The sectors of the volume that the guarantee covers.
    pub range: Extent,
    /// When the guarantee holds, from the start of the run or of the daemon.
    pub span: Span,
    /// Its contract on the disk.
    pub promised: engine::StreamContract,
}

/// The config's word for a priority.
pub const fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Normal => "normal",
        Priority::High => "high",
    }
}

impl Volume {
    /// When its stream is guaranteed; always if it has none.
    pub fn span(&self) -> Span {
        self.stream.map_or(Span::ALWAYS, |stream| stream.span)
    }
}
