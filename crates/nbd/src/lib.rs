//! Block protocols: an NBD server and a small NBD client.
//!
//! ```text
//!  sockets ── bytes ──▶ Session ── Request ──▶ Sink (the disks)
//!                          ▲                      │
//!  sockets ◀── bytes ── Output ◀─── Reply ──── Handle
//! ```
//!
//! [`session::Session`] is the protocol without sockets and without a clock; [`Server`] is the thin event
//! loop that carries its bytes; [`client`] is the other side. What writes less than whole sectors goes through
//! `splice`, where sectors are read and put together. Section names in this crate's documentation
//! are those of the protocol document, `doc/proto.md` of the NBD project.
//!
//! Invariants:
//! - whatever a client sends, nothing here panics, and memory stays under the bounds of [`limits`];
//! - a request that reached the [`Sink`] lies inside its export, on sector borders, and a writing one only
//!   reaches a writable export;
//! - a request is answered at most once, and its memory is accounted for until that answer is sent.

mod address;
mod connection;
mod crew;
mod event_loop;
mod export;
mod handle;
mod listener;
mod reply;
mod request;
mod server;
mod settings;
mod socket_file;
mod span;
mod splice;
mod tls;
mod vigil;
mod wire;

pub mod client;
pub mod fuzz;
pub mod limits;
pub mod memory;
pub mod session;

pub use address::{Address, AddressError};
pub use export::{Export, ExportId, Exports};
pub use handle::{Handle, InUse, ServerGone};
pub use request::{
    Allocation, ClientRequestId, ConnectionId, Errno, Query, Reply, Request, Segment, Sink, Splice,
    Told,
};
pub use server::Server;
pub use settings::{Listing, Settings};
pub use socket_file::{Listening, Mode};
pub use span::Span;
pub use tls::{ClientName, ClientNameError, Fingerprint, Identity, Tls, TlsError, TlsFiles};
