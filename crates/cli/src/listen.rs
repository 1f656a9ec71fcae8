//! Where the daemon listens.

/// The address to listen on if neither the config nor the command line gives one.
pub(crate) const LISTEN: &str = "unix:spindle.sock";
