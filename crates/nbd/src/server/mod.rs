//! The server: listening sockets, event loops with their connections, and the disks' interface.

mod busy_poll;
mod connection;
mod event_loop;
pub(crate) mod handle;
pub(crate) mod handler;
mod listener;
mod loop_group;
mod loop_id;
pub mod memory;
pub(crate) mod queue_client;
mod read_modify_write;
pub(crate) mod socket_file;
pub(crate) mod threads;
