//! The NBD server of a config.

use std::thread;

use config::Plan;
use nbd::{Address, Listing, Server, Settings, Tls, TlsError, TlsFiles};

use super::error::StartError;

const _: () = assert!(config::limits::CONNECTIONS_MAX == nbd::limits::CONNECTIONS_MAX);
const _: () = assert!(config::limits::CONNECTION_REQUESTS_MAX == nbd::limits::REQUESTS_MAX);
const _: () =
    assert!(config::limits::CONNECTION_MEMORY_MAX.0 == nbd::limits::BYTES_IN_FLIGHT_MAX as u64);
const _: () = assert!(config::limits::CONNECTION_MEMORY_MIN.0 == nbd::limits::MEMORY_MIN.0);

/// The server's settings in a config.
fn settings(nbd: &config::Nbd) -> Result<Settings, TlsError> {
    let read = |tls: &config::Tls| {
        let files = TlsFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            client_authorities: tls.client_ca.clone(),
        };
        Tls::read(&files, tls.required)
    };
    Ok(Settings {
        listing: if nbd.list { Listing::Open } else { Listing::Hidden },
        connections_max: nbd.connections,
        export_connections_max: nbd.volume_connections,
        requests_max: nbd.requests,
        memory_max: nbd.memory,
        handshake_timeout: nbd.handshake,
        stall_timeout: nbd.stall,
        tls: nbd.tls.as_ref().map(read).transpose()?,
    })
}

/// Binds the server's addresses.
pub(super) fn listen(
    plan: &Plan,
    addresses: &[Address],
    threads: usize,
) -> Result<Server, StartError> {
    let server = Server::adopt_or_bind(addresses).map_err(StartError::Listen)?;
    let settings = settings(&plan.nbd).map_err(StartError::Tls)?;
    let server = server.with_settings(settings).expect("the config's limits are the server's");
    server.with_threads(threads).map_err(StartError::Listen)
}

/// The number of the server's threads: one for each processor, up to the server's maximum.
pub(super) fn thread_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(nbd::limits::THREADS_MAX)
}
