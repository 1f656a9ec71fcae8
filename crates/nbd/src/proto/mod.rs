//! The protocol: values, the wire format, and the session of one connection. Sans-IO: nothing here
//! knows a socket or a clock.

pub(crate) mod byte_range;
pub(crate) mod export;
pub(crate) mod reply;
pub(crate) mod request;
pub mod session;
pub(crate) mod settings;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod wire;
