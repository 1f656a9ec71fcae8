//! Requests, their answers, and who takes them.

use units::Operation;

use crate::export::ExportId;

/// The number of a connection. Never used twice in a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The number of a request. Unlike the client's cookie it is unique: a client may, against the rules, use
/// one cookie twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Whose request it is.
    pub connection: ConnectionId,
    /// Which of its requests; rises in the order in which they arrived.
    pub sequence: u64,
}

/// One thing a client wants done (section "Request types").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the reply names.
    pub id: RequestId,
    /// On which export.
    pub export: ExportId,
    /// What, and on which sectors of the export. Inside the export, checked.
    pub operation: Operation,
    /// For a write-zeroes: the sectors must stay allocated (`NBD_CMD_FLAG_NO_HOLE`). Else false.
    pub no_hole: bool,
    /// The payload of a write, whole; else empty. A read comes without a buffer: the disk knows the
    /// alignment that it needs, allocates once when the request's turn comes, and the reply hands that same
    /// buffer to the socket. So a read's data is never copied here, and a queued read holds no memory.
    pub data: Vec<u8>,
}

/// The answer to a request, sent with [`crate::Handle`] in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which request is answered.
    pub id: RequestId,
    /// For a read, all the bytes of its extent; for anything else the data is ignored and dropped, so that
    /// a write may simply give its buffer back. A read answered with too few or too many bytes becomes
    /// [`Errno::Io`] for the client.
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
    /// `NBD_EOVERFLOW`: an answer too long. Not used with simple replies.
    Overflow,
    /// `NBD_ENOTSUP`: the disk cannot do it.
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

    /// The error of a number that is not zero. "The client SHOULD treat an unexpected error value as if it
    /// had been `NBD_EINVAL`."
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

/// Who does the work. Called from the server's thread: it must not block.
pub trait Sink {
    /// Takes a request; its answer goes to the server's [`crate::Handle`], from any thread, or from within
    /// this call.
    fn submit(&mut self, request: Request);

    /// All requests of this turn of the loop have been submitted: a good moment to wake the disks, once.
    fn submitted_batch_end(&mut self) {}

    /// The connection is gone. Its requests that are not answered yet may be cancelled or carried out, and
    /// must be answered all the same; what they held counts as held until then.
    fn closed(&mut self, connection: ConnectionId) {
        let _ = connection;
    }
}
