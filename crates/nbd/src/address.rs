//! The addresses that a server listens on and a client connects to.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A socket file. The permissions of its directory decide which users may open it.
    Unix(PathBuf),
    /// An IP address and port. The port that is reserved for NBD is 10809.
    Tcp(SocketAddr),
}

/// A text that is no address. Its message says what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    found: String,
}

const SHOWN_CHARS_MAX: usize = 80;

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `unix:PATH`, `/PATH`, `tcp:ADDRESS:PORT` or `ADDRESS:PORT`. Names of hosts are not
    /// looked up.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError { found: text.chars().take(SHOWN_CHARS_MAX).collect() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(refused()) } else { Ok(Self::Unix(path.into())) };
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let socket = text.strip_prefix("tcp:").unwrap_or(text);
        socket.parse().map(Self::Tcp).map_err(|_| refused())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected `unix:/path`, `/path` or `127.0.0.1:10809`", self.found)
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in ["unix:/run/disk.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        assert_eq!("/run/disk.sock".parse(), Ok(Address::Unix("/run/disk.sock".into())));
        assert_eq!("tcp:[::]:1".parse(), "[::]:1".parse::<Address>());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "unix:", "disk.sock", "localhost:10809", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
