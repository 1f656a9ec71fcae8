//! A server on sockets with a clock that the test sets, and requests that it answers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use spindle_nbd::client::Client;
use spindle_nbd::{
    Address, ConnectionId, Export, ExportId, Exports, Handle, Reply, Request, RequestHandler,
    Server,
};
use tempfile::TempDir;
use units::{Bytes, Extent, Instant, Lba, Op, Operation, Sectors};

pub(crate) const DISK_BYTES: usize = 16 << 20;

pub(crate) struct Volumes;

impl Exports for Volumes {
    fn list(&self) -> Vec<Export> {
        let size = Bytes(DISK_BYTES as u64);
        let mut read_only = Export::new(ExportId(1), "ro", size);
        read_only.read_only = true;
        read_only.description = "not to be written".into();
        let big = Export::new(ExportId(2), "big", Bytes(1 << 30));
        vec![Export::new(ExportId(0), "vol", size), read_only, big]
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.list().into_iter().find(|export| export.name == name)
    }
}

/// Passes requests to another thread, as a daemon does.
pub(crate) struct Forward {
    requests: Sender<Request>,
    closed: Sender<ConnectionId>,
}

impl RequestHandler for Forward {
    fn submit(&mut self, request: Request) {
        self.requests.send(request).expect("a thread takes requests");
    }

    fn connection_closed(&mut self, connection: ConnectionId) {
        let _ = self.closed.send(connection);
    }
}

/// A running server, and the channel on which its requests arrive.
pub(crate) struct Running {
    pub(crate) directory: TempDir,
    pub(crate) handle: Handle,
    pub(crate) addresses: Vec<Address>,
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) closed: Receiver<ConnectionId>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start() -> (Self, Receiver<Request>) {
        Self::start_with(|server| server)
    }

    /// With the smallest payload memory, so that a test can use all of it.
    pub(crate) fn start_small() -> (Self, Receiver<Request>) {
        Self::start_with(|server| server.with_payload_memory(Bytes(0)))
    }

    pub(crate) fn start_with(change: impl FnOnce(Server) -> Server) -> (Self, Receiver<Request>) {
        let directory = TempDir::new().expect("a directory");
        let unix = Address::Unix(directory.path().join("socket"));
        let tcp = "127.0.0.1:0".parse().expect("an address");
        let server = change(Server::bind(&[unix, tcp]).expect("both are free"));
        let (handle, addresses) = (server.handle(), server.addresses().expect("bound"));
        let (requests, taken) = channel();
        let (closed_sender, closed) = channel();
        let clock = Arc::new(AtomicU64::new(0));
        let time = Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            let mut handler = Forward { requests, closed: closed_sender };
            let now = || Instant::from_nanos(time.load(Ordering::SeqCst));
            server.run(&Volumes, &mut handler, &now).expect("polls");
        });
        let thread = Some(thread);
        (Self { directory, handle, addresses, clock, closed, thread }, taken)
    }

    /// With a thread that carries out every request at once. Returns the number of bytes read so
    /// far.
    pub(crate) fn with_disk() -> (Self, Arc<AtomicU64>) {
        let (running, taken) = Self::start();
        let (handle, read) = (running.handle.clone(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&read);
        std::thread::spawn(move || {
            let mut disk = vec![0; DISK_BYTES];
            for request in taken {
                let result = Ok(perform(&mut disk, &request));
                if let Ok(data) = &result {
                    counted.fetch_add(data.len() as u64, Ordering::SeqCst);
                }
                handle.reply(Reply { id: request.id, result });
            }
        });
        (running, read)
    }

    /// Advances the clock until the channel has a message.
    pub(crate) fn pass_time_until<T>(&self, happens: &Receiver<T>) -> T {
        loop {
            match happens.recv_timeout(std::time::Duration::from_millis(50)) {
                Ok(happened) => return happened,
                Err(_) => self.clock.fetch_add(1_000_000_000, Ordering::SeqCst),
            };
        }
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(&self.addresses[0]).expect("it listens");
        client.go("vol").expect("it has a vol");
        client
    }

    /// A socket past the handshake, for input that violates the protocol.
    pub(crate) fn raw(&self) -> UnixStream {
        self.raw_on("vol")
    }

    pub(crate) fn raw_on(&self, export: &str) -> UnixStream {
        let mut stream =
            UnixStream::connect(self.directory.path().join("socket")).expect("listens");
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x03");
        hello.extend_from_slice(export.as_bytes());
        stream.write_all(&hello).expect("taken");
        stream.read_exact(&mut [0; 18 + 10]).expect("greeted and opened");
        stream
    }

    pub(crate) fn stop(&mut self) {
        self.handle.stop();
        self.thread.take().expect("it runs").join().expect("it ends well");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

pub(crate) fn perform(disk: &mut [u8], request: &Request) -> Vec<u8> {
    let extent = request.operation.extent;
    let start = usize::try_from(extent.start.0 * 512).expect("small");
    let range = &mut disk[start..start + extent.len.bytes_usize()];
    match request.operation.op {
        Op::Read => return range.to_vec(),
        Op::Write => range.copy_from_slice(&request.data),
        Op::WriteZeroes | Op::Trim => range.fill(0),
        Op::Flush | Op::Seek => {}
    }
    Vec::new()
}

pub(crate) fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

pub(crate) fn zeroes(extent: Extent) -> Operation {
    Operation { op: Op::WriteZeroes, extent, fua: true }
}

pub(crate) fn request_head(command: u8, offset: u64, length: u32) -> Vec<u8> {
    let mut head = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, command];
    head.extend_from_slice(&[9; 8]);
    head.extend_from_slice(&offset.to_be_bytes());
    head.extend_from_slice(&length.to_be_bytes());
    head
}
