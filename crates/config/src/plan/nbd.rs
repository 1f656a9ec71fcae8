//! Limits, authentication and encryption of NBD clients.

use std::path::PathBuf;

use units::{Bytes, Duration};

use crate::limits::{CONNECTION_MEMORY_MAX, CONNECTION_REQUESTS_MAX, CONNECTIONS_MAX};

/// Limits, authentication and encryption of the NBD clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbd {
    /// Whether clients can list the volumes; if not, a client has to know the name.
    pub list: bool,
    /// Connections to all volumes at once.
    pub connections: usize,
    /// Connections to one volume at once.
    pub volume_connections: usize,
    /// Requests in flight on one connection.
    pub requests: usize,
    /// Payload in flight on one connection.
    pub memory: Bytes,
    /// The longest duration of a handshake.
    pub handshake: Duration,
    /// The longest pause within a message.
    pub stall: Duration,
    /// How connections are encrypted, if they can be.
    pub tls: Option<Tls>,
}

/// Certificates and keys; the paths are already relative to the working directory rather than to
/// the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether connections without TLS are rejected.
    pub required: bool,
    /// The daemon's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities that sign clients' certificates; `None`: no client certificate is requested.
    pub client_ca: Option<PathBuf>,
}

impl Default for Nbd {
    fn default() -> Self {
        Self {
            list: true,
            connections: CONNECTIONS_MAX,
            volume_connections: CONNECTIONS_MAX,
            requests: CONNECTION_REQUESTS_MAX,
            memory: CONNECTION_MEMORY_MAX,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            tls: None,
        }
    }
}
