//! Block protocols: an NBD server and a small NBD client.
//!
//! ```text
//!  sockets ── bytes ──▶ Session ── Request ──▶ RequestHandler (the disks)
//!                          ▲                      │
//!  sockets ◀── bytes ── Output ◀─── Reply ──── Handle
//!
//!  queues in memory ◀── QueueClient ──▶ the same
//! ```
//!
//! [`session::Session`] is the protocol without sockets and without a clock. [`Server`] is the
//! event loop that carries its bytes. [`client`] is the other side. Writes to parts of sectors go
//! through `server::read_modify_write`, which reads and writes whole sectors. Section names in this
//! crate's documentation are those of the protocol document, `doc/proto.md` of the NBD project.
//!
//! Invariants:
//! - no input of a client causes a panic, and memory stays under the bounds of [`limits`];
//! - a request that reaches the [`RequestHandler`] lies inside its export, on sector boundaries,
//!   and a writing request reaches only a writable export;
//! - a request is answered at most once, and its memory is accounted for until that answer is sent.

#![cfg_attr(
    not(feature = "sockets"),
    allow(dead_code, unused_imports, reason = "the server and the client use them")
)]

#[cfg(feature = "sockets")]
mod address;
pub mod limits;
mod proto;
#[cfg(feature = "sockets")]
mod server;

#[cfg(feature = "sockets")]
pub mod client;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;

#[cfg(feature = "sockets")]
pub use address::{Address, AddressError};
pub use proto::byte_range::ByteRange;
pub use proto::export::{Export, ExportId, Exports};
pub use proto::request::{
    Allocation, BlockStatusReply, BlockStatusRequest, ClientRequestId, ConnectionId, Errno,
    ReadModifyWrite, Reply, Request, Segment,
};
pub use proto::session;
pub use proto::settings::{Listing, Settings};
pub use proto::tls::{ClientName, ClientNameError, Fingerprint, Identity, Tls, TlsError, TlsFiles};
pub use proto::transport::{Connections, Transport};
#[cfg(feature = "sockets")]
pub use server::handle::{Handle, InUse, ServerStopped};
#[cfg(feature = "sockets")]
pub use server::handler::RequestHandler;
#[cfg(feature = "sockets")]
pub use server::memory;
#[cfg(feature = "sockets")]
pub use server::queue_client::{Intake, QueueClient, Refused, Registration};
#[cfg(feature = "sockets")]
pub use server::socket_file::{BoundSocket, SocketMode};
#[cfg(feature = "sockets")]
pub use server::threads::Server;
