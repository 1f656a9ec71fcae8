//! Listening sockets of either kind.

use std::io;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use crate::address::Address;
use crate::limits::LISTENERS_MAX;
use crate::server::connection::Stream;
use crate::server::socket_file::{self, BoundSocket, SocketMode};

/// The send buffer of a Unix socket. Linux's own default holds one and a half long replies.
const SEND_BYTES: usize = 1 << 20;

#[derive(Debug)]
enum Socket {
    /// With its socket file, if this process removes it.
    Unix(UnixListener, Option<socket_file::Kept>),
    Tcp(TcpListener),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    /// A client may be in the backlog: the last `accept` did not report that it would block.
    pub(crate) ready: bool,
    /// The service manager holds the socket too and keeps it when this process ends.
    inherited: bool,
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        let named = |error: io::Error| {
            let why = format!("found `{address}`, expected an address that is free ({error})");
            io::Error::new(error.kind(), why)
        };
        let socket = match address {
            Address::Unix(path) => {
                let BoundSocket { listener, file } =
                    BoundSocket::bind(path, SocketMode::Umask).map_err(named)?;
                listener.set_nonblocking(true).map_err(named)?;
                Socket::Unix(UnixListener::from_std(listener), Some(file))
            }
            Address::Tcp(address) => Socket::Tcp(TcpListener::bind(*address).map_err(named)?),
        };
        Ok(Self { socket, ready: true, inherited: false })
    }

    /// The listening sockets passed by the service manager (`LISTEN_FDS`), possibly none. Their
    /// files belong to the service manager.
    pub(crate) fn inherited() -> io::Result<Vec<Self>> {
        let mut handed = ListenFd::from_env();
        let count = handed.len();
        let take = |index| {
            let socket = if let Ok(Some(listener)) = handed.take_unix_listener(index) {
                listener.set_nonblocking(true)?;
                Socket::Unix(UnixListener::from_std(listener), None)
            } else {
                let why =
                    "the service manager handed over a descriptor that is no listening socket";
                let listener = handed.take_tcp_listener(index)?;
                let listener = listener.ok_or_else(|| io::Error::other(why))?;
                listener.set_nonblocking(true)?;
                Socket::Tcp(TcpListener::from_std(listener))
            };
            Ok(Self { socket, ready: true, inherited: true })
        };
        (0..count).map(take).collect()
    }

    /// The address that it listens on; for port 0, with the chosen port.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Unix(_, Some(file)) => Ok(Address::Unix(file.path().to_owned())),
            Socket::Unix(listener, None) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(Path::to_owned);
                Ok(Address::Unix(path.unwrap_or_else(|| PathBuf::from("(unnamed)"))))
            }
            Socket::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    /// Whether the socket stays open for the next server.
    pub(crate) const fn outlives(&self) -> bool {
        self.inherited
    }

    /// From here on as if the service manager had handed the socket over.
    pub(crate) const fn outlive(&mut self) {
        self.inherited = true;
    }

    /// Marks the listener ready once more, to drain its backlog. Returns false if the clients in it
    /// can wait for another server, because the socket belongs to the service manager.
    pub(crate) fn drain_backlog(&mut self) -> bool {
        self.ready = true;
        !self.inherited
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                // Long replies fit at once; with a smaller buffer they take several iterations.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BYTES);
                Ok(Stream::Unix(stream))
            }
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are written whole, so that Nagle's algorithm would only delay them. An
                // error leaves them late, but correct.
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

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.socket {
            Socket::Unix(listener, _) => listener.deregister(registry),
            Socket::Tcp(listener) => listener.deregister(registry),
        }
    }
}

/// Checks the number of listeners.
pub(crate) fn check_count(listeners: usize) -> io::Result<()> {
    if (1..=LISTENERS_MAX).contains(&listeners) {
        return Ok(());
    }
    let why = format!("a server listens on 1 to {LISTENERS_MAX} addresses");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
