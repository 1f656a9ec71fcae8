//! The event loop of one thread: its connections, and in the first loop the listeners.
//!
//! One iteration:
//!
//! ```text
//!  sleep ─▶ accept ─▶ read and submit ─▶ end of batch ─▶ take replies ─▶ write ─▶ tidy up
//! ```
//!
//! All ready sockets are read before the disks are woken, and all replies are queued before any
//! output is written: under load, one system call carries many messages.
//!
//! Invariants:
//! - a slot is free, or holds a connection, or holds the requests of a disconnected client that are
//!   still at the disks. So the number of slots bounds all of them together;
//! - a connection that can proceed, and does not wait for its socket, for a reply or for memory, is
//!   in `ready`.

mod control;
mod partial_writes;
mod queues;
mod slot;
mod state;
mod stop;

pub(crate) use state::{EventLoop, WAKER, listener_token};
