//! A request that a disk's engine has: who asked, and where its bytes are while its commands come and go.

use std::sync::mpsc::SyncSender;

use backend::Failure;
use engine::{Command, Purpose};
use units::{Instant, Op, Operation};
use volume::pool::flow::PieceId;

use crate::inbox::Changed;
use crate::observe::TracedId;

/// Who wants a request done.
pub(crate) enum Asker {
    /// A client.
    Client(nbd::ClientRequestId),
    /// An operator, who is told when it is done.
    Operator(SyncSender<Changed>),
    /// A pool, for a client or for itself.
    Pool { piece: PieceId, client: bool },
}

impl Asker {
    pub(crate) fn traced(&self) -> TracedId {
        match self {
            Self::Client(id) => TracedId::Client(*id),
            Self::Operator(_) => TracedId::Erasure,
            Self::Pool { piece, .. } => TracedId::Piece(*piece),
        }
    }
}

/// A request that the engine has.
pub(crate) struct Pending {
    pub(crate) asker: Asker,
    pub(crate) operation: Operation,
    /// What to write, until its command takes it; what was read, until it is answered; else a buffer to be used again.
    pub(crate) data: Vec<u8>,
    pub(crate) no_hole: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) arrived: Instant,
}

pub(crate) fn index(slot: u64) -> usize {
    usize::try_from(slot).expect("it indexed before")
}

fn is_whole(pending: &Pending, command: &Command) -> bool {
    command.operation.extent.len == pending.operation.extent.len
}

/// Whether the request's own buffer is what the command moves.
fn takes_all(pending: &Pending, command: &Command) -> bool {
    let moves = matches!(command.operation.op, Op::Read | Op::Write);
    moves && command.purpose == Purpose::Transfer && is_whole(pending, command)
}

/// What `command` writes, or reads into. A request that is one command gives its own buffer; a longer one is copied
/// piecewise.
pub(crate) fn payload(pending: &mut Pending, command: &Command) -> Vec<u8> {
    if takes_all(pending, command) {
        return core::mem::take(&mut pending.data);
    }
    if command.operation.op != Op::Write {
        return Vec::new();
    }
    let start = command.offset.bytes_usize();
    pending.data[start..start + command.operation.extent.len.bytes_usize()].to_vec()
}

/// Puts what `command` read where it belongs in its request, and takes a buffer back.
pub(crate) fn collect(pending: &mut Pending, command: &Command, data: Vec<u8>) {
    if takes_all(pending, command) {
        pending.data = data;
        return;
    }
    if command.operation.op != Op::Read || command.purpose != Purpose::Transfer {
        return;
    }
    pending.data.resize(pending.operation.extent.len.bytes_usize(), 0);
    let start = command.offset.bytes_usize();
    pending.data[start..start + data.len()].copy_from_slice(&data);
}
