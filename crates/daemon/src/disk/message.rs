//! The messages that a disk's thread takes.

use std::sync::mpsc::SyncSender;

use backend::ReopenRequest;
use engine::VolumeId;
use nbd::{ClientRequestId, ExportId};
use units::{Duration, Extent};

use super::request::{Changed, DiskRequest};
use super::terms::VolumeTerms;
use crate::observe::status::DiskSnapshot;

/// How detailed the statistics are to be. A thousand latency histograms take longer to copy than
/// all other statistics together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsDetail {
    /// Everything.
    All,
    /// No latency histograms.
    NoLatencies,
    /// The latency histograms of this export only.
    LatenciesOf(ExportId),
    /// Volumes with a stream only, without latency histograms.
    Streams,
}

/// A change by an operator. It was checked, and is carried out before the engine's next decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Attach a volume.
    Attach { export: ExportId, terms: Box<VolumeTerms> },
    /// Replace a volume's contract and the declared rate behind it.
    SetTerms { volume: VolumeId, terms: Box<VolumeTerms> },
    /// Replace the accounting period, and the length of a batch where it exceeds the period.
    SetPeriod { period: Duration, batch: Duration },
    /// Erase sectors of the disk that are the volume's: answered when they durably read as zeroes.
    Erase { volume: VolumeId, extent: Extent },
    /// Answered when all of the volume's requests are answered.
    Drain { volume: VolumeId },
    /// Detach a drained volume.
    Detach { volume: VolumeId },
}

#[derive(Debug)]
pub(crate) enum Message {
    /// Serve a request.
    Request(DiskRequest),
    /// Tell a client which of these sectors of the disk hold data.
    BlockStatus(ClientRequestId, Extent),
    /// Send the statistics.
    Query(StatsDetail, SyncSender<DiskSnapshot>),
    /// Carry out a change. [`Change::Attach`] answers with the volume's number; the other changes
    /// answer with the number that they were given.
    Change(Change, SyncSender<Changed>),
    /// Reopen the disk.
    Reopen(ReopenRequest),
    /// The server reads no further requests: cancel all stream contracts, so that no request waits
    /// for its release time.
    CancelStreams,
    /// The server's threads have stopped: the disk's thread handles completions from now on.
    TakeOverCompletions,
    /// End when all requests are answered.
    Stop,
}
