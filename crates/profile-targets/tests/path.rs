//! The path to a drive behind an NBD server is timed if the server supports block status, and
//! commands complete as without it.

use std::thread::JoinHandle;

use nbd::memory::{FixedExports, MemoryHandler};
use nbd::{Address, Export, ExportId, Handle, Server};
use profiler::{Outcome, Tag, Target};
use spindle_profile_targets::NbdTarget;
use units::{Bytes, Extent, Instant, Lba, Operation, Sectors};

/// A server of one memory disk.
struct Running {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
    uri: String,
}

impl Running {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("nbd.sock");
        let uri = format!("nbd+unix:///disk?socket={}", socket.display());
        let exports = FixedExports(vec![Export::new(ExportId(0), "disk", Bytes(1 << 20))]);
        let server = Server::bind(&[Address::Unix(socket)]).expect("it is free");
        let handle = server.handle();
        let mut memory = MemoryHandler::new(&exports, &server);
        let serve = move || server.run(&exports, &mut memory, &|| Instant::ZERO).expect("served");
        let thread = Some(std::thread::spawn(serve));
        Self { handle, thread, _directory: directory, uri }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_server_with_block_status_has_a_path() {
    let running = Running::start();
    let mut target = NbdTarget::open(&running.uri, true).expect("it is there");
    for nth in 0..20 {
        let path = target.path().expect("it answers");
        assert!(path.as_nanos() > 0);
        // Reads of written and unwritten blocks, and writes, complete as without path requests.
        let extent = Extent::new(Lba(nth * 8), Sectors(8));
        let operation =
            if nth % 3 == 0 { Operation::write(extent) } else { Operation::read(extent) };
        target.submit(Tag(nth), operation);
        let done = target.complete();
        assert_eq!((done.tag, done.outcome), (Tag(nth), Outcome::Done));
    }
}
