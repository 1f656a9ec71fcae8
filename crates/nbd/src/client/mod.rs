//! A small NBD client: blocking sockets, no TLS; simple replies, or structured ones if it asks for
//! a block's status.
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
//! A client is two halves, a [`Sender`] and a [`Receiver`], for two threads if need be; they share
//! the table of what is outstanding, because a reply does not say how long it is.
//!
//! Invariant: a server is believed no further than its bytes go: lengths are bounded before memory
//! is taken for them.

mod block_status;
mod connection;
mod error;
mod outstanding;
mod replies;

pub use connection::{Client, ClientExport, Completion, ListedExport, Receiver, Sender};
pub use error::ClientError;
