//! Why a request of the client failed.

use core::fmt;
use std::io;

use crate::proto::request::Errno;

/// The error of a client's operation.
#[derive(Debug)]
pub enum ClientError {
    /// The connection failed, or the server closed it.
    Io(io::Error),
    /// The server violated the protocol, or is no NBD server.
    Protocol(&'static str),
    /// There is no export of that name; `list` says which there are.
    UnknownExport,
    /// The server requires TLS, which this client has not.
    TlsRequired,
    /// The server refused the option, with this error number.
    Refused(u32),
    /// The request was refused or failed.
    Failed(Errno),
    /// A request of this cookie is outstanding already, or its extent is too long for the protocol.
    /// Use another cookie, or shorter requests.
    Unsendable,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Protocol(what) => write!(f, "the server breaks the protocol: {what}"),
            Self::UnknownExport => f.write_str("the server has no export of that name"),
            Self::TlsRequired => f.write_str("the server requires TLS"),
            Self::Refused(kind) => write!(f, "the server refuses the option with error {kind:#x}"),
            Self::Failed(errno) => errno.fmt(f),
            Self::Unsendable => f.write_str("the request cannot be sent as it is"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
