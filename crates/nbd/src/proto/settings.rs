//! The limits of a server's clients. Each has a default, and a maximum in [`crate::limits`].

use units::{Bytes, Duration};

use crate::limits::{
    BLOCK_MIN_MAX, BYTES_IN_FLIGHT_MAX, CONNECTIONS_MAX, HANDSHAKE_TIMEOUT, MEMORY_MIN,
    PAYLOAD_ACCEPTED_BYTES_MAX, PAYLOAD_BYTES_MAX, REQUESTS_MAX, STALL_TIMEOUT, TIMEOUT_MAX,
};
use crate::proto::tls::Tls;

/// Which clients may list the exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Every client lists the exports that it may open.
    #[default]
    Open,
    /// None: a client has to know the name, and there is no default export.
    Hidden,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether exports are listed.
    pub listing: Listing,
    /// Connections of all exports together, those in their handshake among them.
    pub connections_max: usize,
    /// Connections that have one export open.
    pub export_connections_max: usize,
    /// Outstanding requests of one connection.
    pub requests_max: usize,
    /// Payload of one connection at once: arriving, at the disks, or waiting to be sent. No request
    /// may be longer.
    pub memory_max: Bytes,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// How long an incomplete message may make no progress.
    pub stall_timeout: Duration,
    /// How connections are encrypted, if they can be.
    pub tls: Option<Tls>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listing: Listing::default(),
            connections_max: CONNECTIONS_MAX,
            export_connections_max: CONNECTIONS_MAX,
            requests_max: REQUESTS_MAX,
            memory_max: Bytes(BYTES_IN_FLIGHT_MAX as u64),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            tls: None,
        }
    }
}

impl Settings {
    /// Checks the settings against their limits. The error names the setting and its range.
    ///
    /// # Errors
    /// The first setting out of range.
    pub fn check(&self) -> Result<(), &'static str> {
        let within = |value: usize, most: usize| (1..=most).contains(&value);
        let memory = MEMORY_MIN.0..=BYTES_IN_FLIGHT_MAX as u64;
        let patience = Duration::from_millis(1)..=TIMEOUT_MAX;
        let all = [
            (within(self.connections_max, CONNECTIONS_MAX), "connections: 1 to 1024"),
            (
                within(self.export_connections_max, CONNECTIONS_MAX),
                "connections of an export: 1 to 1024",
            ),
            (within(self.requests_max, REQUESTS_MAX), "requests of a connection: 1 to 256"),
            (memory.contains(&self.memory_max.0), "memory of a connection: 1 MiB to 64 MiB"),
            (patience.contains(&self.handshake_timeout), "time for a handshake: 1 ms to a day"),
            (patience.contains(&self.stall_timeout), "time for a message to move: 1 ms to a day"),
        ];
        all.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }

    pub(crate) fn memory_max_bytes(&self) -> usize {
        usize::try_from(self.memory_max.0).unwrap_or(usize::MAX).min(BYTES_IN_FLIGHT_MAX)
    }

    /// The `maximum block size` that clients are told: a multiple of every minimum.
    pub(crate) fn payload_max(&self) -> usize {
        let unit = usize::try_from(BLOCK_MIN_MAX.0).unwrap_or(1);
        PAYLOAD_BYTES_MAX.min(self.memory_max_bytes() / unit * unit)
    }

    /// The longest read or write of a client that has not asked for the block sizes.
    pub(crate) fn payload_accepted(&self) -> usize {
        PAYLOAD_ACCEPTED_BYTES_MAX.min(self.memory_max_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_what_is_not_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let none = Settings { connections_max: 0, ..Settings::default() };
        assert_eq!(none.check(), Err("connections: 1 to 1024"));
        let little = Settings { memory_max: Bytes(1 << 19), ..Settings::default() };
        assert_eq!(little.check(), Err("memory of a connection: 1 MiB to 64 MiB"));
    }

    #[test]
    fn a_request_fits_the_memory_of_its_connection() {
        let settings = Settings { memory_max: Bytes((3 << 20) + 5), ..Settings::default() };
        assert_eq!(settings.payload_max(), 3 << 20);
        assert_eq!(Settings::default().payload_max(), PAYLOAD_BYTES_MAX);
    }
}
