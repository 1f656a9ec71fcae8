//! One disk: the messages that it takes, its engine, its backend, and the thread that drives both.

pub(crate) mod handle;
mod idle;
pub(crate) mod inbox;
pub(crate) mod message;
pub(crate) mod open;
pub(crate) mod read_ahead;
pub(crate) mod request;
pub(crate) mod scheduler;
pub(crate) mod terms;
pub(crate) mod thread;
pub(crate) mod volumes;
pub(crate) mod write_buffer;
pub(crate) mod write_buffer_log;
