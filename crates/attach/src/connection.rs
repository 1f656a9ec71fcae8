//! A connection to a server, ready for the kernel.

use std::os::fd::OwnedFd;

use nbd::Address;
use nbd::client::{Client, ClientError, ClientExport};
use rustix::net::sockopt;

use crate::backend::Backend;
use crate::error::AttachError;

/// A connection after its handshake, and the export as the server describes it.
#[derive(Debug)]
pub struct Connected {
    /// The socket.
    pub socket: OwnedFd,
    /// The export.
    pub export: ClientExport,
}

/// Connects to a volume.
///
/// # Errors
/// [`AttachError::Server`]
pub fn connect(backend: &Backend) -> Result<Connected, AttachError> {
    open(backend).map_err(|error| AttachError::Server(backend.clone(), error))
}

fn open(Backend { volume, server }: &Backend) -> Result<Connected, ClientError> {
    let mut client = Client::connect(server)?;
    client.announce_kernel()?;
    let export = client.go(volume)?;
    let socket = client.into_socket()?;
    if matches!(server, Address::Tcp(_)) {
        // The driver waits without end for a host that vanished, unless its system notices.
        sockopt::set_socket_keepalive(&socket, true).map_err(std::io::Error::from)?;
    }
    Ok(Connected { socket, export })
}

/// A volume as its server describes it, without opening it.
///
/// # Errors
/// See [`ClientError`].
pub fn describe(Backend { volume, server }: &Backend) -> Result<ClientExport, ClientError> {
    let mut client = Client::connect(server)?;
    let export = client.info(volume)?;
    client.abort()?;
    Ok(export)
}
