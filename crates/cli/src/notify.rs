//! Notifications to the service manager (`sd_notify`): a datagram to the socket that it names in
//! the environment.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It listens: units that wait for it may start.
pub(crate) const READY: &str = "READY=1\nSTATUS=serving";
/// It answers the requests in flight, and ends.
pub(crate) const STOPPING: &str = "STOPPING=1\nSTATUS=answering the requests under way";

/// Notifies the service manager, if there is one. A failure is ignored: it does not affect serving.
pub(crate) fn tell(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&socket, state);
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_over_a_file_or_an_abstract_name() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = directory.path().join("notify");
        let name = format!("@{}", path.display());
        let manager = |address: &SocketAddr| UnixDatagram::bind_addr(address).expect("it is free");
        let by_file = manager(&SocketAddr::from_pathname(&path).expect("short"));
        let by_name =
            manager(&SocketAddr::from_abstract_name(&name.as_bytes()[1..]).expect("short"));
        send(path.as_os_str(), READY).expect("it listens");
        send(OsStr::new(&name), STOPPING).expect("it listens");
        for (manager, expected) in [(by_file, READY), (by_name, STOPPING)] {
            let mut received = [0; 100];
            let count = manager.recv(&mut received).expect("a datagram");
            assert_eq!(&received[..count], expected.as_bytes());
        }
    }
}
