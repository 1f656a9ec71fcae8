//! A request at one disk: its origin, and where its bytes are while its commands are in flight.

use std::sync::mpsc::SyncSender;

use backend::{Failure, Part};
use engine::limits::DEPTH_MAX;
use engine::{Command, Destage, Purpose, SegmentId, VolumeId};
use nbd::{ClientRequestId, Transport};
use units::{Extent, Instant, Op, Operation};
use volume::pool::flow::PieceId;

use crate::observe::traced::TracedId;
use crate::pool::piece::ReadData;

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
    /// The pool, as part of the request of a client with this transport, or for its own purposes.
    /// `read_data` says what is made of what it reads.
    Pool { piece: PieceId, client: Option<Transport>, read_data: ReadData },
    /// The read-ahead, to fill a segment of its memory.
    ReadAhead(SegmentId),
    /// A write buffer, to write what a client has written.
    Destage(Destage),
}

impl Origin {
    /// The name of the request in traces.
    pub(crate) fn traced(&self) -> TracedId {
        match self {
            Self::Client(id) => TracedId::Client(*id),
            Self::Operator(_) => TracedId::Erasure,
            Self::Pool { piece, client, .. } => TracedId::Piece(*piece, *client),
            Self::ReadAhead(_) | Self::Destage(_) => {
                unreachable!("only what is answered is traced")
            }
        }
    }

    /// Whether a client waits for the answer.
    pub(crate) const fn is_client(&self) -> bool {
        matches!(self, Self::Client(_) | Self::Pool { client: Some(_), .. })
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
    /// The sectors in which reads that go on in order may be read ahead, if any.
    pub(crate) within: Option<Extent>,
}

/// A part of a read that was taken from memory: its place in the read, and its bytes.
pub(crate) type Overlay = (usize, Vec<u8>);

/// A request in progress: it is not answered.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) request: DiskRequest,
    /// The last failure of one of its commands.
    pub(crate) failure: Option<Failure>,
    /// When the disk's thread took it.
    pub(crate) arrived: Instant,
    /// Of a read: what the write buffer held of it when it arrived.
    pub(crate) overlays: Vec<Overlay>,
}

impl OpenRequest {
    pub(crate) fn new(request: DiskRequest, now: Instant) -> Self {
        Self { request, failure: None, arrived: now, overlays: Vec::new() }
    }
}

/// A read returns what was buffered, and what the disk has elsewhere.
pub(crate) fn lay_over(request: &mut DiskRequest, overlays: Vec<Overlay>) {
    debug_assert!(overlays.is_empty() || request.operation.op == Op::Read, "a read");
    for (at, bytes) in overlays {
        // A read that has failed has no data.
        if let Some(part) = request.data.get_mut(at..at + bytes.len()) {
            part.copy_from_slice(&bytes);
        }
    }
}

/// Whether `command`, a piece of one request, moves the whole of it, so that it can move the
/// request's own buffer.
fn moves_whole_buffer(request: &DiskRequest, command: &Command) -> bool {
    let moves = matches!(command.operation.op, Op::Read | Op::Write);
    let is_whole = command.operation.extent.len == request.operation.extent.len;
    moves && command.purpose == Purpose::Transfer && is_whole
}

/// The buffer that `command`, a piece of one request, writes from, or reads into. A request of one
/// command gives its own buffer away until the command completes; a longer one is copied piece by
/// piece.
pub(crate) fn payload(request: &mut DiskRequest, command: &Command) -> Vec<u8> {
    if moves_whole_buffer(request, command) {
        let mut data = core::mem::take(&mut request.data);
        if command.operation.op == Op::Read {
            data.clear();
        }
        return data;
    }
    let mut data = Vec::new();
    append(request, command, &mut data);
    data
}

/// Appends what `piece` of a request writes to the buffer of its command.
fn append(request: &DiskRequest, piece: &Command, data: &mut Vec<u8>) {
    if piece.operation.op != Op::Write {
        return;
    }
    let start = piece.offset.bytes_usize();
    let end = start + piece.operation.extent.len.bytes_usize();
    assert!(end <= request.data.len(), "a command lies within its request");
    data.extend_from_slice(&request.data[start..end]);
}

/// Stores what `command`, a piece of one request, read at its offset in the request, and takes a
/// buffer back.
pub(crate) fn collect(request: &mut DiskRequest, command: &Command, data: Vec<u8>) {
    if moves_whole_buffer(request, command) {
        request.data = data;
    } else {
        extract(request, command, &data);
    }
}

/// Stores what `piece` of a request read.
fn extract(request: &mut DiskRequest, piece: &Command, data: &[u8]) {
    if piece.operation.op != Op::Read || piece.purpose != Purpose::Transfer {
        return;
    }
    request.data.resize(request.operation.extent.len.bytes_usize(), 0);
    let start = piece.offset.bytes_usize();
    request.data[start..start + data.len()].copy_from_slice(data);
}

/// What commands that cover several requests need between two of them, so that none is allocated
/// for each: lists, and the buffers of pieces that are not a whole request. A stream's commands may
/// begin and end within a request.
#[derive(Debug, Default)]
pub(crate) struct GatherBuffers {
    lists: Vec<Vec<Part>>,
    of_pieces: Vec<Vec<u8>>,
}

impl GatherBuffers {
    /// An empty list.
    pub(crate) fn list(&mut self) -> Vec<Part> {
        self.lists.pop().unwrap_or_default()
    }

    /// Takes the list of a completed command back.
    pub(crate) fn keep(&mut self, list: Vec<Part>) {
        debug_assert!(list.is_empty(), "the requests have their buffers");
        debug_assert!(self.lists.len() < DEPTH_MAX as usize, "a list is a command's");
        self.lists.push(list);
    }

    /// What `piece` of a request transfers: the request's buffer if it is the whole request, else a
    /// copy.
    pub(crate) fn take(&mut self, request: &mut DiskRequest, piece: &Command) -> Part {
        let len = piece.operation.extent.len;
        if moves_whole_buffer(request, piece) {
            return Part { len, bytes: payload(request, piece) };
        }
        let mut bytes = self.of_pieces.pop().unwrap_or_default();
        append(request, piece, &mut bytes);
        Part { len, bytes }
    }

    /// Gives a request its buffer back, and what it has read. After a failure it has its bytes to
    /// write again, and no bytes read.
    pub(crate) fn put_back(
        &mut self,
        request: &mut DiskRequest,
        piece: &Command,
        (part, succeeded): (Part, bool),
    ) {
        let mut bytes = part.bytes;
        if !succeeded && piece.operation.op == Op::Read {
            bytes.clear();
        }
        if moves_whole_buffer(request, piece) {
            request.data = bytes;
            return;
        }
        if succeeded {
            extract(request, piece, &bytes);
        }
        bytes.clear();
        debug_assert!(self.of_pieces.len() < 2 * DEPTH_MAX as usize, "a command has two ends");
        self.of_pieces.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use engine::{CommandId, RequestId};
    use nbd::ConnectionId;
    use units::{Lba, Sectors};

    use super::*;

    fn request(op: Op, start: u64, sectors: u64, fill: u8) -> DiskRequest {
        let extent = Extent::new(Lba(start), Sectors(sectors));
        let len = if op == Op::Write { extent.len.bytes_usize() } else { 0 };
        DiskRequest {
            origin: Origin::Client(ClientRequestId { connection: ConnectionId(0), sequence: 0 }),
            volume: VolumeId(0),
            operation: Operation { op, extent, fua: false },
            data: vec![fill; len],
            no_hole: false,
            received: None,
            within: None,
        }
    }

    fn piece(of: u64, request: &DiskRequest, offset: u64, len: u64) -> Command {
        let Operation { extent, .. } = request.operation;
        let extent = Extent::new(extent.start + Sectors(offset), Sectors(len));
        Command {
            id: CommandId(1),
            request: RequestId(of),
            volume: VolumeId(0),
            operation: Operation { extent, ..request.operation },
            offset: Sectors(offset),
            purpose: Purpose::Transfer,
        }
    }

    /// The list of a command with these pieces.
    fn list(buffers: &mut GatherBuffers, of: &mut [DiskRequest], pieces: &[Command]) -> Vec<Part> {
        let mut list = buffers.list();
        for piece in pieces {
            let slot = usize::try_from(piece.request.0).expect("small");
            list.push(buffers.take(&mut of[slot], piece));
        }
        list
    }

    fn put_back(
        buffers: &mut GatherBuffers,
        (of, pieces): (&mut [DiskRequest], &[Command]),
        (mut list, succeeded): (Vec<Part>, bool),
    ) {
        for (piece, part) in pieces.iter().zip(list.drain(..)) {
            let slot = usize::try_from(piece.request.0).expect("small");
            buffers.put_back(&mut of[slot], piece, (part, succeeded));
        }
        buffers.keep(list);
    }

    #[test]
    fn a_gathered_write_moves_whole_requests_and_they_have_their_bytes_after_a_failure() {
        let mut requests = [request(Op::Write, 0, 2, 7), request(Op::Write, 2, 3, 8)];
        let pieces = [piece(0, &requests[0], 1, 1), piece(1, &requests[1], 0, 3)];
        let mut buffers = GatherBuffers::default();
        let at = requests[1].data.as_ptr();
        for _ in 0..2 {
            let sent = list(&mut buffers, &mut requests, &pieces);
            let part = |len, bytes| Part { len: Sectors(len), bytes };
            assert_eq!(sent, [part(1, vec![7; 512]), part(3, vec![8; 1_536])]);
            assert_eq!(sent[1].bytes.as_ptr(), at, "a whole request is moved");
            assert_eq!(requests[0].data, [7; 1_024], "of another a piece is copied");
            put_back(&mut buffers, (&mut requests, &pieces), (sent, false));
        }
        assert_eq!((requests[1].data.as_ptr(), &requests[1].data), (at, &vec![8; 1_536]));
        assert_eq!((buffers.lists.len(), buffers.of_pieces.len()), (1, 1), "they are used again");
    }

    #[test]
    fn a_gathered_read_gives_each_request_its_sectors_and_nothing_after_a_failure() {
        let mut requests = [request(Op::Read, 0, 2, 0), request(Op::Read, 2, 3, 0)];
        let pieces = [piece(0, &requests[0], 1, 1), piece(1, &requests[1], 0, 3)];
        let mut buffers = GatherBuffers::default();
        for succeeded in [false, true] {
            let mut sent = list(&mut buffers, &mut requests, &pieces);
            assert!(sent.iter().all(|part| part.bytes.is_empty()), "a read brings no bytes");
            sent[0].bytes.resize(512, 1);
            sent[1].bytes.resize(1_536, 2);
            put_back(&mut buffers, (&mut requests, &pieces), (sent, succeeded));
            assert!(succeeded || requests.iter().all(|request| request.data.is_empty()));
        }
        assert_eq!(requests[0].data, [vec![0; 512], vec![1; 512]].concat());
        assert_eq!(requests[1].data, vec![2; 1_536]);
    }
}
