//! A client of qemu's that connects again, and exports what it is connected to.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::process::client;
use crate::server::Server;

/// Volume `a` of a server, exported again on `again.sock` by `qemu-storage-daemon`, which waits for
/// a server that is away. A value that is dropped kills its process.
#[derive(Debug)]
pub struct Export(Child);

impl Export {
    /// Exports a server's volume in `directory`. When this returns, the socket listens.
    ///
    /// # Panics
    /// If the server has no Unix socket, or the process does not serve.
    pub fn start(server: &Server, directory: &Path) -> Self {
        let path = server.address.strip_prefix("unix:").expect("a Unix socket");
        let node = format!(
            "driver=nbd,node-name=n,server.type=unix,server.path={path},export=a,\
             reconnect-delay=600"
        );
        let mut command = client("qemu-storage-daemon");
        command
            .args(["--blockdev", &node, "--nbd-server", "addr.type=unix,addr.path=again.sock"])
            .args(["--export", "type=nbd,id=e,node-name=n,name=a,writable=on"])
            // Its monitor reports when it serves.
            .args(["--chardev", "stdio,id=m", "--monitor", "chardev=m"])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut export = Self(command.spawn().expect("it is installed"));
        let mut greeting = String::new();
        let stdout = export.0.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut greeting).expect("text");
        assert!(greeting.contains("QMP"), "{greeting}");
        export
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // By its handle; a process that has ended ignores this.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
