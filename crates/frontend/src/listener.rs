//! Listening sockets of either kind.

use std::io;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use crate::address::Address;
use crate::connection::Stream;
use crate::socket_file::{self, Listening, Mode};

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, socket_file::Kept),
    Tcp(TcpListener),
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
                let Listening { listener, file } =
                    Listening::bind(path, Mode::Umask).map_err(named)?;
                listener.set_nonblocking(true).map_err(named)?;
                Socket::Unix(UnixListener::from_std(listener), file)
            }
            Address::Tcp(address) => Socket::Tcp(TcpListener::bind(*address).map_err(named)?),
        };
        Ok(Self { socket, ready: true })
    }

    /// Where it listens; for port 0, the port that was chosen.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Unix(_, file) => Ok(Address::Unix(file.path().to_owned())),
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
