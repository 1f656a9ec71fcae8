//! A volume of the plan, and its contract.

use engine::stream::{RequestedStream, Span};
use engine::{Contract, Priority, RateContract};
use units::{Bytes, Extent};

use super::disk::DiskIndex;

/// A volume: its number in [`Plan::volumes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub usize);

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
    /// Its share of the disk's time, or under [`engine::PolicyName::Throughput`] of its nominal rate. Admitted: the disk's
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

/// What is promised to a stream, as the config says it, and what that asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Bytes a second, and bytes a request.
    pub asked: RequestedStream,
    /// The sectors of the volume that it may ask for in time.
    pub range: Extent,
    /// When, from the start of the run or of the daemon.
    pub span: Span,
    /// What that asks of the disk.
    pub promised: engine::StreamContract,
}

impl Volume {
    /// When its contract's stream holds; always if it has none.
    pub fn span(&self) -> Span {
        self.stream.map_or(Span::ALWAYS, |stream| stream.span)
    }
}
