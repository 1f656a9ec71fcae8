//! A small NBD client: blocking sockets, no TLS. Replies are simple, or structured where block
//! status is negotiated.
//!
//! ```no_run
//! use spindle_nbd::client::Client;
//! use units::{Extent, Lba, Sectors};
//!
//! let mut client = Client::connect(&"unix:/run/disks.sock".parse()?)?;
//! let export = client.go("vol")?;
//! let first = client.read(Extent::new(Lba(0), Sectors(8)))?;
//! assert_eq!((first.len(), export.block_min.0), (4096, 1));
//! client.disconnect()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client consists of a [`Sender`] and a [`Receiver`], which may be used on two threads. They
//! share the table of outstanding requests, because a reply does not contain its length.
//!
//! Invariant: lengths from the server are bounded before memory is allocated for them.

mod block_status;
mod connection;
mod error;
mod outstanding;
mod replies;

pub use connection::{Client, ClientExport, Completion, ListedExport, Receiver, Sender};
pub use error::ClientError;
