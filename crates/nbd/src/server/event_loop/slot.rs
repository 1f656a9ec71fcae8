//! The slots of an event loop, each with a connection or what a closed one has left.

use units::Instant;

use crate::limits::MEMORY_HOLD_MAX;
use crate::proto::export::ExportId;
use crate::proto::request::ConnectionId;
use crate::proto::session::InFlight;
use crate::proto::transport::Transport;
use crate::server::connection::Connection;
use crate::server::queue_client::QueueConnection;

#[derive(Debug)]
pub(super) enum Slot {
    Free,
    Live(Box<Connection>),
    Queue(Box<QueueConnection>),
    /// The client has disconnected. Its requests are at the disks and hold memory until they
    /// complete.
    Orphaned(ConnectionId, InFlight),
}

impl Slot {
    /// The export that the connection has opened, and its transport.
    pub(super) fn opened(&self) -> Option<(ExportId, Transport)> {
        match self {
            Self::Live(connection) => {
                Some((connection.session.export()?, connection.id.transport()))
            }
            Self::Queue(connection) => Some((connection.export.id, connection.id.transport())),
            Self::Free | Self::Orphaned(..) => None,
        }
    }

    /// Whether the connection is queued to be read.
    pub(super) fn queued(&mut self) -> Option<&mut bool> {
        match self {
            Self::Live(connection) => Some(&mut connection.queued),
            Self::Queue(connection) => Some(&mut connection.queued),
            Self::Free | Self::Orphaned(..) => None,
        }
    }

    /// Whether the connection is queued to wait for memory.
    pub(super) fn memory_blocked(&mut self) -> Option<&mut bool> {
        match self {
            Self::Live(connection) => Some(&mut connection.memory_blocked),
            Self::Queue(connection) => Some(&mut connection.memory_blocked),
            Self::Free | Self::Orphaned(..) => None,
        }
    }

    /// The requests in flight of the slot's connection, and its number.
    pub(super) fn in_flight(&self) -> Option<(&InFlight, ConnectionId)> {
        match self {
            Self::Free => None,
            Self::Live(connection) => Some((connection.session.in_flight(), connection.id)),
            Self::Queue(connection) => Some((&connection.in_flight, connection.id)),
            Self::Orphaned(id, in_flight) => Some((in_flight, *id)),
        }
    }
}

/// A connection was dropped because payloads waited for each other's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadlockDrop {
    pub(super) at: Instant,
    /// A waiting payload has got memory since: the drop resolved the shortage.
    pub(super) helped: bool,
}

impl DeadlockDrop {
    /// Whether another connection may be dropped for the same reason: at the next tick if the
    /// memory was not enough for any payload, else after the payloads have had time to arrive.
    pub(super) fn is_past(self, now: Instant) -> bool {
        now > self.at && (!self.helped || now.saturating_since(self.at) >= MEMORY_HOLD_MAX)
    }
}
