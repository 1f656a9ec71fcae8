//! Starting the daemon: all of it, or nothing.

pub(crate) mod daemon;
pub(crate) mod error;
mod pool;
mod server;
