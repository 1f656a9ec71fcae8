//! Requests, their answers, and their values.

use units::{Extent, Operation, Sectors};

use crate::proto::byte_range::ByteRange;
use crate::proto::export::ExportId;

/// The number of a connection. Never used twice in a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The number of a request. Unlike the client's cookie it is unique: a client may, against the
/// rules, use one cookie twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientRequestId {
    /// Whose request it is.
    pub connection: ConnectionId,
    /// Which of its requests; rises in the order in which they arrived.
    pub sequence: u64,
}

/// One thing a client wants done (section "Request types").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the reply names.
    pub id: ClientRequestId,
    /// On which export.
    pub export: ExportId,
    /// What, and on which sectors of the export. Inside the export, checked.
    pub operation: Operation,
    /// For a write-zeroes: the sectors must stay allocated (`NBD_CMD_FLAG_NO_HOLE`). Else false.
    pub no_hole: bool,
    /// The payload of a write, whole; else empty. The reply hands the buffer with a read's bytes to
    /// the socket, so that they are never copied here. With a read comes a buffer that may have the
    /// capacity for them, if there was one to be used again: it can be filled, or dropped by a disk
    /// that needs an alignment of its own.
    pub data: Vec<u8>,
}

/// A write of less than whole sectors: the server makes whole ones of it, so that a handler never
/// sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadModifyWrite {
    /// What the reply names.
    pub id: ClientRequestId,
    /// On which export.
    pub export: ExportId,
    /// Which of its bytes. Inside the export, checked.
    pub span: ByteRange,
    /// What to write there; nothing: zeroes.
    pub data: Option<Vec<u8>>,
    /// Whether it is to be durable when it is answered.
    pub fua: bool,
    /// For zeroes: the sectors must stay allocated.
    pub no_hole: bool,
}

/// A question which sectors of an export hold data (`NBD_CMD_BLOCK_STATUS`, for the context
/// `base:allocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStatusRequest {
    /// What the answer names.
    pub id: ClientRequestId,
    /// Of which export.
    pub export: ExportId,
    /// Which of its sectors. Inside the export, checked.
    pub extent: Extent,
}

/// What a disk holds of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allocation {
    /// Data, or it is not known. Writing there does not fail for want of space.
    Data,
    /// It has space of its own, and reads as zeroes.
    Zeroes,
    /// Nothing: it reads as zeroes, and writing there may find no space.
    Hole,
}

/// A run of sectors that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// How many.
    pub len: Sectors,
    /// What they are.
    pub allocation: Allocation,
}

/// The answer to a [`BlockStatusRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockStatusReply {
    /// Which question is answered.
    pub id: ClientRequestId,
    /// The segments one behind the other, the first from where the question begins. They may end
    /// earlier than it does, or later.
    pub result: Result<Vec<Segment>, Errno>,
}

/// The answer to a request, sent with [`crate::Handle`] in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which request is answered.
    pub id: ClientRequestId,
    /// For a read, all the bytes of its extent; for anything else the data is ignored and dropped,
    /// so that a write may simply give its buffer back. A read answered with too few or too many
    /// bytes becomes [`Errno::Io`] for the client.
    pub result: Result<Vec<u8>, Errno>,
}

/// What a client is told when something cannot be done (section "Error values").
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
    /// The number on the wire.
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

    /// The error of a number that is not zero. "The client SHOULD treat an unexpected error value
    /// as if it had been `NBD_EINVAL`."
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
