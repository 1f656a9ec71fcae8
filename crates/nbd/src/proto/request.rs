//! Requests and their replies, as values.

use units::{Extent, Op, Operation, Sectors};

use crate::proto::byte_range::ByteRange;
use crate::proto::export::ExportId;
use crate::proto::transport::Transport;

/// The number of a connection. Never used twice in a server's life. It contains the transport, so
/// that whatever has a request's number knows how its client reaches the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// Where the transport's number is.
    const TRANSPORT_SHIFT: u32 = 18;
    const TRANSPORT_BITS: u32 = 2;

    /// How its client reaches the export.
    pub fn transport(self) -> Transport {
        let index = self.0 >> Self::TRANSPORT_SHIFT & ((1 << Self::TRANSPORT_BITS) - 1);
        let index = usize::try_from(index).expect("a few bits fit");
        Transport::ALL[index]
    }

    /// The same number with another transport.
    #[must_use]
    pub(crate) const fn with_transport(self, transport: Transport) -> Self {
        let all = ((1 << Self::TRANSPORT_BITS) - 1) << Self::TRANSPORT_SHIFT;
        Self(self.0 & !all | (transport.index() as u64) << Self::TRANSPORT_SHIFT)
    }
}

const _: () = assert!(Transport::ALL.len() == 1 << ConnectionId::TRANSPORT_BITS);

/// The number of a request. Unlike the client's cookie it is unique: a client may, against the
/// rules, use one cookie twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientRequestId {
    /// The connection that sent it.
    pub connection: ConnectionId,
    /// The number of the request on its connection; rises in the order of arrival.
    pub sequence: u64,
}

/// A request of a client (section "Request types").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number that the reply contains.
    pub id: ClientRequestId,
    /// The export.
    pub export: ExportId,
    /// The operation and its sectors, checked to lie inside the export.
    pub operation: Operation,
    /// For a write-zeroes: the sectors must stay allocated (`NBD_CMD_FLAG_NO_HOLE`). Else false.
    pub no_hole: bool,
    /// The whole payload of a write; else empty. The socket sends a read's bytes from the buffer of
    /// the reply, without copying. A read comes with a buffer that may have the capacity for its
    /// bytes, if one could be recycled: a handler may fill it, or drop it if the disk needs another
    /// alignment.
    pub data: Vec<u8>,
}

/// A change of parts of sectors. The server turns it into whole sectors, so that a handler never
/// receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadModifyWrite {
    /// The number that the reply contains.
    pub id: ClientRequestId,
    /// The export.
    pub export: ExportId,
    /// The bytes, checked to lie inside the export.
    pub span: ByteRange,
    /// A write, a write of zeroes or a trim. What is trimmed reads as zeroes, its parts of sectors
    /// too.
    pub op: Op,
    /// The data of a write; else `None`.
    pub data: Option<Vec<u8>>,
    /// Whether it must be durable before it is answered.
    pub fua: bool,
    /// For zeroes: the sectors must stay allocated.
    pub no_hole: bool,
}

/// A request for the allocation of sectors (`NBD_CMD_BLOCK_STATUS`, for the context
/// `base:allocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStatusRequest {
    /// The number that the reply contains.
    pub id: ClientRequestId,
    /// The export.
    pub export: ExportId,
    /// The sectors, checked to lie inside the export.
    pub extent: Extent,
}

/// The allocation of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allocation {
    /// Data, or unknown. A write there does not fail for lack of space.
    Data,
    /// Allocated, and reads as zeroes.
    Zeroes,
    /// Not allocated: reads as zeroes, and a write there may fail for lack of space.
    Hole,
}

/// A run of sectors with the same allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of sectors.
    pub len: Sectors,
    /// Their allocation.
    pub allocation: Allocation,
}

/// The answer to a [`BlockStatusRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockStatusReply {
    /// The request that is answered.
    pub id: ClientRequestId,
    /// Consecutive segments; the first begins at the start of the request. They may end before or
    /// after the end of the request.
    pub result: Result<Vec<Segment>, Errno>,
}

/// The reply to a request, sent with [`crate::Handle`] in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request that is answered.
    pub id: ClientRequestId,
    /// For a read, all bytes of its extent. For any other request the data is ignored, so that a
    /// write may return its buffer. A read with a wrong number of bytes becomes [`Errno::Io`] for
    /// the client.
    pub result: Result<Vec<u8>, Errno>,
}

/// The errors that a client can get (section "Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errno {
    /// `NBD_EPERM`: a write to a read-only export. Open another one.
    Perm,
    /// `NBD_EIO`: the disk failed. Read its log.
    Io,
    /// `NBD_ENOMEM`: memory ran out. Not used by this server.
    NoMem,
    /// `NBD_EINVAL`: the request breaks the protocol or the announced block sizes.
    Inval,
    /// `NBD_ENOSPC`: a write past the end, or the pool is full.
    NoSpc,
    /// `NBD_EOVERFLOW`: an answer too long. Not used by this server.
    Overflow,
    /// `NBD_ENOTSUP`: zeroing would be no faster than writing, and only then it was wanted.
    NotSup,
    /// `NBD_ESHUTDOWN`: the server is going away. Disconnect.
    Shutdown,
}

impl Errno {
    /// Its number on the wire.
    pub const fn code(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::NoMem => 12,
            Self::Inval => 22,
            Self::NoSpc => 28,
            Self::Overflow => 75,
            Self::NotSup => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error of a number other than zero. "The client SHOULD treat an unexpected error value as
    /// if it had been `NBD_EINVAL`."
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Perm,
            5 => Self::Io,
            12 => Self::NoMem,
            28 => Self::NoSpc,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Inval,
        }
    }
}

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Perm => "not permitted",
            Self::Io => "input/output error",
            Self::NoMem => "out of memory",
            Self::Inval => "invalid request",
            Self::NoSpc => "no space",
            Self::Overflow => "too large",
            Self::NotSup => "not supported",
            Self::Shutdown => "the server is shutting down",
        })
    }
}
