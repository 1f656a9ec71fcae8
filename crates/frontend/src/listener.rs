//! Listening sockets, and the file of a Unix one.
//!
//! Invariants: the file of a live server is never taken away from it; a file that is no socket is never
//! removed; a file that we made is removed when we go, unless somebody has put another in its place.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use crate::address::Address;
use crate::connection::Stream;

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// The file of a listening Unix socket; removed on drop.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode, to tell our file from one that took its place.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // A file that cannot be removed is stale, and the next server copes with it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    /// Somebody may be waiting: nothing was accepted since the loop was last told so.
    pub(crate) ready: bool,
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        let named = |error: io::Error| {
            let why = format!("found `{address}`, expected an address that is free ({error})");
            io::Error::new(error.kind(), why)
        };
        let socket = match address {
            Address::Unix(path) => {
                let listener = bind_unix(path).map_err(named)?;
                let identity = identity(path).map_err(named)?;
                Socket::Unix(listener, SocketFile { path: path.clone(), identity })
            }
            Address::Tcp(address) => Socket::Tcp(TcpListener::bind(*address).map_err(named)?),
        };
        Ok(Self { socket, ready: true })
    }

    /// Where it listens; for port 0, the port that was chosen.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
            Socket::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are written whole: waiting for more to send would only add delay. Where the
                // option is refused, they are late but right.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            Socket::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
            Socket::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        outcome => return outcome,
    }
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why.to_owned()));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("there is a file that is no socket");
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            // Nobody listens: a server was killed before it could remove its file.
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        Err(error) => Err(error),
        Ok(_) => in_use("another server is listening there"),
    }
}
