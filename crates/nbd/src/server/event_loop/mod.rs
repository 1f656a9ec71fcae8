//! The event loop of one thread: its connections, and in the first of them the listeners.
//!
//! One turn of the loop:
//!
//! ```text
//!  sleep ─▶ accept ─▶ read and submit ─▶ end of batch ─▶ take replies ─▶ write ─▶ tidy up
//! ```
//!
//! Everything that is ready is read before the disks are woken, and every reply that is there is queued
//! before anything is written: at load, one system call carries many messages.
//!
//! Invariants:
//! - a slot is free, or holds a connection, or holds what a gone connection still has at the disks, so that
//!   the number of slots bounds all of them together;
//! - a connection that has something to do and is not waiting for its socket, for a reply or for memory, is
//!   in `ready`.

mod control;
mod partial_writes;
mod state;

pub(crate) use state::{EventLoop, WAKER, listener_token};
