//! A request at one disk: its origin, and where its bytes are while its commands are in flight.

use std::sync::mpsc::SyncSender;

use backend::Failure;
use engine::{Command, Purpose, VolumeId};
use nbd::ClientRequestId;
use units::{Instant, Op, Operation};
use volume::pool::flow::PieceId;

use crate::observe::traced::TracedId;

/// The result of a change: the volume's number on the disk, or the reason why the disk could not
/// carry the change out.
pub(crate) type Changed = Result<VolumeId, Failure>;

/// The source of a request, which receives its answer.
#[derive(Debug)]
pub(crate) enum Origin {
    /// A client's connection.
    Client(ClientRequestId),
    /// An operator's change.
    Operator(SyncSender<Changed>),
    /// The pool, as part of a client's request (`client`) or for its own purposes.
    Pool { piece: PieceId, client: bool },
}

impl Origin {
    /// The name of the request in traces.
    pub(crate) fn traced(&self) -> TracedId {
        match self {
            Self::Client(id) => TracedId::Client(*id),
            Self::Operator(_) => TracedId::Erasure,
            Self::Pool { piece, .. } => TracedId::Piece(*piece),
        }
    }

    /// Whether a client waits for the answer.
    pub(crate) const fn is_client(&self) -> bool {
        matches!(self, Self::Client(_) | Self::Pool { client: true, .. })
    }
}

/// A request to one disk, with its extent in the disk's sectors.
#[derive(Debug)]
pub(crate) struct DiskRequest {
    pub(crate) origin: Origin,
    /// The volume that is charged for it.
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    /// The bytes to write, until a command takes them; the bytes read, until the reply takes them;
    /// else a buffer for reuse.
    pub(crate) data: Vec<u8>,
    /// For a write of zeroes: the sectors stay allocated.
    pub(crate) no_hole: bool,
    /// The start of the event-loop iteration that received it, if it came from a client directly.
    pub(crate) received: Option<Instant>,
}

/// A request in progress: the disk's engine has it, and it is not answered.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) request: DiskRequest,
    /// The last failure of one of its commands.
    pub(crate) failure: Option<Failure>,
    /// When the disk's thread took it.
    pub(crate) arrived: Instant,
}

/// Whether `command` moves the whole of the request, so that it can move the request's own buffer.
fn moves_whole_buffer(request: &DiskRequest, command: &Command) -> bool {
    let moves = matches!(command.operation.op, Op::Read | Op::Write);
    let is_whole = command.operation.extent.len == request.operation.extent.len;
    moves && command.purpose == Purpose::Transfer && is_whole
}

/// The buffer that `command` writes from, or reads into. A request of one command gives its own
/// buffer away; a longer one is copied piece by piece.
pub(crate) fn payload(request: &mut DiskRequest, command: &Command) -> Vec<u8> {
    if moves_whole_buffer(request, command) {
        return core::mem::take(&mut request.data);
    }
    if command.operation.op != Op::Write {
        return Vec::new();
    }
    let start = command.offset.bytes_usize();
    let end = start + command.operation.extent.len.bytes_usize();
    assert!(end <= request.data.len(), "a command lies within its request");
    request.data[start..end].to_vec()
}

/// Stores what `command` read at its offset in the request, and takes a buffer back.
pub(crate) fn collect(request: &mut DiskRequest, command: &Command, data: Vec<u8>) {
    if moves_whole_buffer(request, command) {
        request.data = data;
        return;
    }
    if command.operation.op != Op::Read || command.purpose != Purpose::Transfer {
        return;
    }
    request.data.resize(request.operation.extent.len.bytes_usize(), 0);
    let start = command.offset.bytes_usize();
    request.data[start..start + data.len()].copy_from_slice(&data);
}
