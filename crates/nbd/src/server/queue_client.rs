//! Clients whose requests lie in queues in memory, not in the bytes of a socket: a virtual
//! machine's virtqueues, a kernel driver's descriptors.
//!
//! An event loop serves them beside its connections, so that limits, withdrawals, stops and writes
//! to parts of sectors hold for all clients of an export, however they reach it.
//!
//! ```text
//!  queue ── descriptor readable ──▶ receive ── Intake::submit ──▶ RequestHandler
//!  queue ◀── flush ◀── complete ◀────────────── Reply ◀────────── Handle
//! ```
//!
//! Invariants: a request that is submitted lies inside the export, and changes only a writable one;
//! it is completed once; a client is closed when all of its requests are completed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use units::{Bytes, Extent, Lba, Op, Operation};

use crate::proto::export::Export;
use crate::proto::reply::RequestTag;
use crate::proto::request::{ClientRequestId, ConnectionId, Errno, Request};
use crate::proto::session::{Blocked, Budget, InFlight, ReplyKind};
use crate::proto::settings::Settings;
use crate::proto::transport::Transport;

/// A client whose requests lie in queues in memory. Called from the thread of one event loop, which
/// it must not block.
pub trait QueueClient: Send + core::fmt::Debug {
    /// The export that it uses.
    fn export(&self) -> &Export;

    /// How it reaches the export.
    fn transport(&self) -> Transport;

    /// It is served from now on, under this number.
    fn attached(&mut self, connection: ConnectionId, registration: Registration);

    /// It is not served, and is dropped.
    fn refused(&mut self, why: Refused);

    /// Takes requests from the queues and submits them, as long as there is room.
    fn receive(&mut self, intake: &mut Intake<'_>);

    /// Completes the request with this cookie. A read's result has all of its bytes. Returns a
    /// buffer for reuse, or an empty one.
    fn complete(&mut self, cookie: u64, result: Result<Vec<u8>, Errno>) -> Vec<u8>;

    /// The completions of an iteration have been made: the moment to notify the other side, once.
    fn flush(&mut self);

    /// All requests are completed and no further ones are taken: the server stops, the export is
    /// withdrawn, or the client was detached. The client is dropped.
    fn closed(&mut self);
}

/// Why a client is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server stops.
    Stopping,
    /// The export has been withdrawn.
    Withdrawn,
    /// The server or the export has the maximum number of connections.
    Full,
    /// The system provides no descriptor.
    NoDescriptor,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Stopping => "the server is shutting down",
            Self::Withdrawn => "the volume has been removed",
            Self::Full => "there is the maximum number of connections",
            Self::NoDescriptor => "there are no more descriptors",
        })
    }
}

/// Where a client registers the descriptors that are readable when it has requests: from any
/// thread, at any time. Edges are reported, not levels.
#[derive(Debug)]
pub struct Registration {
    registry: Registry,
    token: Token,
}

impl Registration {
    pub(crate) const fn new(registry: Registry, token: Token) -> Self {
        Self { registry, token }
    }

    /// [`QueueClient::receive`] is called soon after `fd` becomes readable.
    ///
    /// # Errors
    /// The descriptor cannot be polled, or is registered already.
    pub fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.registry.register(&mut SourceFd(&fd.as_raw_fd()), self.token, Interest::READABLE)
    }

    /// Forgets a descriptor that was added. To be called before it is closed.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        // Fails only for a descriptor that was not added.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
    }
}

/// A queue client in its slot of an event loop.
#[derive(Debug)]
pub(crate) struct QueueConnection {
    pub(crate) id: ConnectionId,
    pub(crate) client: Box<dyn QueueClient>,
    pub(crate) export: Export,
    pub(crate) in_flight: InFlight,
    /// In the loop's list of connections that can be read.
    pub(crate) queued: bool,
    /// In the loop's list of connections that wait for memory.
    pub(crate) memory_blocked: bool,
    /// Why it has stopped taking requests, if there may be more.
    pub(crate) blocked: Option<Blocked>,
    /// No further request is taken.
    pub(crate) finishing: bool,
}

impl QueueConnection {
    pub(crate) fn new(id: ConnectionId, client: Box<dyn QueueClient>, export: Export) -> Self {
        let mut in_flight = InFlight::default();
        in_flight.export = export.id;
        Self {
            id,
            client,
            export,
            in_flight,
            queued: false,
            memory_blocked: false,
            blocked: None,
            finishing: false,
        }
    }

    /// Takes requests. `size` is the export's size now.
    pub(crate) fn receive(
        &mut self,
        size: Bytes,
        (budget, settings): (&mut Budget, &Settings),
        requests: &mut Vec<Request>,
    ) {
        self.export.size = size;
        let Self { id, client, export, in_flight, .. } = self;
        let mut intake =
            Intake { id: *id, export, in_flight, budget, settings, requests, blocked: None };
        client.receive(&mut intake);
        self.blocked = intake.blocked;
    }

    /// Completes a request.
    pub(crate) fn complete(
        &mut self,
        sequence: u64,
        result: Result<Vec<u8>, Errno>,
        budget: &mut Budget,
    ) {
        let Some(entry) = self.in_flight.close(sequence) else { return };
        budget.release(entry.bytes);
        let is_short = |data: &Vec<u8>| {
            matches!(entry.reply_kind, ReplyKind::Data) && data.len() != entry.bytes
        };
        let result = if result.as_ref().is_ok_and(is_short) { Err(Errno::Io) } else { result };
        budget.recycle(self.client.complete(entry.tag.cookie, result));
    }
}

/// Takes the requests of a queue client.
#[derive(Debug)]
pub struct Intake<'a> {
    id: ConnectionId,
    export: &'a Export,
    in_flight: &'a mut InFlight,
    budget: &'a mut Budget,
    settings: &'a Settings,
    requests: &'a mut Vec<Request>,
    blocked: Option<Blocked>,
}

impl Intake<'_> {
    /// Whether a request with at most this payload may be submitted now. If not,
    /// [`QueueClient::receive`] is called again when there may be room.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let (count, held) = (self.in_flight.count(), self.in_flight.bytes());
        let most = self.settings.memory_max_bytes();
        self.blocked = if count >= self.settings.requests_max || held > 0 && held + bytes > most {
            Some(Blocked::ConnectionLimit)
        } else if self.budget.free() < bytes {
            Some(Blocked::PayloadMemory)
        } else {
            None
        };
        self.blocked.is_none()
    }

    /// The export's size now.
    pub const fn size(&self) -> Bytes {
        self.export.size
    }

    /// A buffer of this length with any contents, for a write.
    pub fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.budget.take_recycled(bytes).unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    /// Submits a request. `data` is the payload of a write, else empty.
    ///
    /// # Errors
    /// The request is not within the export, or changes one that is read-only; or the payload is
    /// not as long as the sectors. The caller completes such a request itself.
    ///
    /// # Panics
    /// If there is no room for it, see [`Intake::has_room`].
    pub fn submit(
        &mut self,
        cookie: u64,
        operation: Operation,
        no_hole: bool,
        mut data: Vec<u8>,
    ) -> Result<(), Errno> {
        let Operation { op, extent, .. } = operation;
        let writes = op.writes();
        if writes && self.export.read_only {
            return Err(Errno::Perm);
        }
        let within = Extent::new(Lba(0), self.export.size.sectors_floor());
        let is_flush = op == Op::Flush;
        if !is_flush && (extent.is_empty() || !within.contains(extent)) {
            return Err(if writes { Errno::NoSpc } else { Errno::Inval });
        }
        let moves = matches!(op, Op::Read | Op::Write);
        let bytes = if moves { extent.len.bytes_usize() } else { 0 };
        let expected = if op == Op::Write { bytes } else { 0 };
        if op == Op::Seek || data.len() != expected {
            return Err(Errno::Inval);
        }
        assert!(self.budget.acquire(bytes), "there is room for a request that is submitted");
        if op == Op::Read {
            data = self.budget.recycled_or_empty(bytes);
        }
        let reply_kind = match op {
            Op::Read => ReplyKind::Data,
            _ if writes => ReplyKind::Change(extent),
            _ => ReplyKind::Nothing,
        };
        let sequence = self.in_flight.open(RequestTag { cookie, offset: 0 }, bytes, reply_kind);
        let id = ClientRequestId { connection: self.id, sequence };
        let export = self.export.id;
        self.requests.push(Request { id, export, operation, no_hole, data });
        Ok(())
    }
}
