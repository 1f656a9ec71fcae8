//! Limits, authentication and encryption of NBD clients.

use std::path::PathBuf;

use units::{Bytes, Duration};

use crate::limits::{CONNECTION_MEMORY_MAX, CONNECTION_REQUESTS_MAX, CONNECTIONS_MAX};

/// What clients of the data path are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbd {
    /// Whether volumes are listed to who asks; if not, a client has to know the name.
    pub list: bool,
    /// Connections of all volumes together.
    pub connections: usize,
    /// Connections of one volume.
    pub volume_connections: usize,
    /// Requests of one connection at once.
    pub requests: usize,
    /// Payload of one connection at once.
    pub memory: Bytes,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long a message may stand still that has begun and not ended.
    pub stall: Duration,
    /// How connections are encrypted, if they can be.
    pub tls: Option<Tls>,
}

/// Certificates and keys, their paths already relative to the working directory rather than to the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether there is nothing without it.
    pub required: bool,
    /// The daemon's certificate, with those between it and the authority that clients know.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities that sign clients' certificates; `None`: clients are not asked for one.
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
