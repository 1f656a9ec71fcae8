//! A listening Unix socket, and its file.
//!
//! Invariants: the file of a live server is never removed or replaced; a file that is no socket is
//! never removed; a file that this process made is removed when it ends, unless another has
//! replaced it; no client can connect before the file has its mode.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The length of the backlog: the limit of connections, so that all clients of a restarted server
/// can reconnect at once. A non-blocking client is refused if the backlog is full; the system may
/// allow less (`net.core.somaxconn`).
const BACKLOG: i32 = 1_024;
const _: () = assert!(BACKLOG as usize == crate::limits::CONNECTIONS_MAX);

/// The permissions of the socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketMode {
    /// As the process's umask allows.
    Umask,
    /// Only the user that the process runs as.
    Owner,
}

/// A listening socket and its file.
#[derive(Debug)]
pub struct BoundSocket {
    /// The socket.
    pub listener: UnixListener,
    /// The guard of the socket file, for as long as the socket listens.
    pub file: Kept,
}

/// The file of a listening Unix socket; removed on drop.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// Device and inode, to recognise the file after it was replaced.
    identity: (u64, u64),
}

impl Kept {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // A file that cannot be removed is stale, and the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl BoundSocket {
    /// Listens on a socket of its own at `path`. A file that no server listens on any more is
    /// replaced.
    ///
    /// # Errors
    /// Another server listens there, the file is no socket, or the socket cannot be made.
    pub fn bind(path: &Path, mode: SocketMode) -> io::Result<Self> {
        let listener = match listen(path, mode) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                listen(path, mode)?
            }
            outcome => outcome?,
        };
        let file = Kept { path: path.to_owned(), identity: identity(path)? };
        Ok(Self { listener, file })
    }
}

fn listen(path: &Path, mode: SocketMode) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if mode == SocketMode::Owner {
        // Linux gives the file the mode that the socket has when it is bound.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    }
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Removes the stale file of a server that was killed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why.to_owned()));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("there is a file that is no socket");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => in_use("another server is listening there"),
    }
}
