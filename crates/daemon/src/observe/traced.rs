//! A finished request, and where its time went.

use config::DiskIndex;
use nbd::{ClientRequestId, ExportId, Transport};
use units::{Duration, Instant, Operation};
use volume::pool::flow::PieceId;

use super::breakdown::Breakdown;

/// The number of volumes that are reported as served while a request waited.
pub const SERVED_MAX: usize = 4;

/// The name of a request at its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedId {
    /// A client's request.
    Client(ClientRequestId),
    /// A piece of the request of a client with this transport to a pool's volume, or of the pool's
    /// own work.
    Piece(PieceId, Option<Transport>),
    /// An erasure of newly allocated space, by the daemon.
    Erasure,
}

impl TracedId {
    /// How the client reached its volume; `None` of the daemon's own work.
    pub fn transport(&self) -> Option<Transport> {
        match self {
            Self::Client(id) => Some(id.connection.transport()),
            Self::Piece(_, client) => *client,
            Self::Erasure => None,
        }
    }
}

/// The reason why a disk was idle although a volume had requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThrottleReason {
    /// Neither of the other reasons, as far as is known.
    #[default]
    Policy,
    /// The volume is at its limit.
    Limit,
    /// The deadlines of streams leave no slack.
    Deadlines,
}

/// A finished request, and where its time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its name at its origin.
    pub id: TracedId,
    /// The disk.
    pub disk: DiskIndex,
    /// The volume.
    pub export: ExportId,
    /// The operation, in the disk's sectors.
    pub operation: Operation,
    /// When it was answered.
    pub at: Instant,
    /// Whether the disk failed it.
    pub failed: bool,
    /// The number of its commands.
    pub commands: u32,
    /// Where its time went.
    pub breakdown: Breakdown,
    /// The reason why it was throttled, if it was.
    pub throttled_by: ThrottleReason,
    /// The volumes that were served while it waited, with their times, longest first; `None` after
    /// the last.
    pub served: [Option<(ExportId, Duration)>; SERVED_MAX],
}

#[cfg(test)]
impl Traced {
    /// A read that took no time.
    pub(crate) fn example(export: ExportId, at: Instant) -> Self {
        use units::{Extent, Lba, Sectors};
        Self {
            id: TracedId::Erasure,
            disk: DiskIndex(0),
            export,
            operation: Operation::read(Extent::new(Lba(0), Sectors(8))),
            at,
            failed: false,
            commands: 1,
            breakdown: Breakdown::default(),
            throttled_by: ThrottleReason::Policy,
            served: [None; SERVED_MAX],
        }
    }
}
