//! A server with one volume in memory, and a virtual machine without a machine: its monitor's
//! messages and its driver's queue.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use nbd::client::Client;
use nbd::memory::{FixedExports, MemoryHandler};
use nbd::{Address, Export, ExportId, Exports};
use tempfile::TempDir;
use units::{Bytes, Instant};
use vhost::VhostBackend as _;
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::EventFd;

pub(crate) const EXPORT: ExportId = ExportId(0);
pub(crate) const SIZE: u64 = 1 << 20;
pub(crate) const QUEUE_SIZE: u16 = 16;
/// The guest's memory.
pub(crate) const MEMORY: u64 = 1 << 20;
/// Where the monitor has it.
const USER: u64 = 0x7000_0000_0000;
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// The bytes of requests.
pub(crate) const BUFFERS: u64 = 0x10000;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// One export whose size can change.
#[derive(Debug)]
pub(crate) struct OneExport(AtomicU64);

impl Exports for OneExport {
    fn list(&self) -> Vec<Export> {
        vec![Export::new(EXPORT, "vol", Bytes(self.0.load(Ordering::SeqCst)))]
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.list().into_iter().find(|export| export.name == name)
    }

    fn size_now(&self, _export: ExportId) -> Option<Bytes> {
        Some(Bytes(self.0.load(Ordering::SeqCst)))
    }
}

pub(crate) struct Server {
    directory: TempDir,
    exports: Arc<OneExport>,
    handle: nbd::Handle,
    loops: JoinHandle<()>,
    vhost_user: spindle_vhost_user::Server,
}

impl Server {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let address = Address::Unix(directory.path().join("nbd.sock"));
        let server = nbd::Server::bind(&[address]).expect("free");
        let exports = Arc::new(OneExport(AtomicU64::new(SIZE)));
        // The disk has room for what the export grows by.
        let disk = FixedExports(vec![Export::new(EXPORT, "vol", Bytes(2 * SIZE))]);
        let (handle, mut handler) = (server.handle(), MemoryHandler::new(&disk, &server));
        let served = Arc::clone(&exports);
        let loops = std::thread::spawn(move || {
            server.run(&*served, &mut handler, &|| Instant::ZERO).expect("polls");
        });
        let sockets = directory.path().join("vhost");
        let all: Arc<dyn Exports> = exports.clone();
        let vhost_user = spindle_vhost_user::Server::start(&sockets, all, handle.clone());
        let vhost_user = vhost_user.expect("sockets");
        Self { directory, exports, handle, loops, vhost_user }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("vhost/vol.sock")
    }

    pub(crate) fn nbd(&self) -> Client {
        let address = Address::Unix(self.directory.path().join("nbd.sock"));
        let mut client = Client::connect(&address).expect("it listens");
        client.go("vol").expect("it is there");
        client
    }

    pub(crate) fn connections(&self) -> usize {
        self.handle.connections().expect("it runs").values().map(nbd::Connections::total).sum()
    }

    pub(crate) fn resize(&self, size: u64) {
        self.exports.0.store(size, Ordering::SeqCst);
        self.vhost_user.waker().exports_changed();
    }

    pub(crate) fn stop(self) {
        self.handle.stop();
        self.loops.join().expect("the loops end");
        self.vhost_user.stop();
    }
}

/// A driver's request, and its parts in the guest's memory.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: u32,
    pub(crate) sector: u64,
    pub(crate) data: Vec<u8>,
    /// The bytes that the device writes before the status.
    pub(crate) room: u32,
}

/// A monitor and its guest's driver.
pub(crate) struct Machine {
    pub(crate) frontend: Frontend,
    pub(crate) memory: GuestMemoryMmap,
    file: File,
    kick: EventFd,
    call: EventFd,
    /// The requests that were made available, and those that were returned.
    pub(crate) available: u16,
    pub(crate) used: u16,
}

fn memory() -> (GuestMemoryMmap, File) {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(MEMORY).expect("room");
    let offset = FileOffset::new(file.try_clone().expect("a descriptor"), 0);
    let bytes = usize::try_from(MEMORY).expect("it fits");
    let region = GuestRegionMmap::from_range(GuestAddress(0), bytes, Some(offset));
    let memory = GuestMemoryMmap::from_regions(vec![region.expect("mapped")]);
    (memory.expect("one region"), file)
}

impl Machine {
    /// Connects, and chooses features as Linux and QEMU do.
    pub(crate) fn connect(server: &Server) -> Self {
        let (memory, file) = memory();
        Self::with_memory(server, memory, file)
    }

    /// Another connection of the same machine.
    pub(crate) fn reconnect(self, server: &Server) -> Self {
        let Self { frontend, memory, file, available, used, .. } = self;
        drop(frontend);
        let machine = Self::with_memory(server, memory, file);
        Self { available, used, ..machine }
    }

    fn with_memory(server: &Server, memory: GuestMemoryMmap, file: File) -> Self {
        let mut frontend = Frontend::connect(server.socket(), 16).expect("it listens");
        frontend.set_owner().expect("answered");
        let offered = frontend.get_features().expect("answered");
        frontend.set_features(offered & !(1 << 29)).expect("offered features");
        let protocol = frontend.get_protocol_features().expect("answered");
        assert!(protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD));
        frontend.set_protocol_features(protocol).expect("offered features");
        let event = || EventFd::new(libc_nonblock()).expect("a descriptor");
        let (kick, call) = (event(), event());
        Self { frontend, memory, file, kick, call, available: 0, used: 0 }
    }

    pub(crate) fn share_memory(&self) {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.frontend.set_mem_table(&[region]).expect("mapped");
    }

    /// Starts the queue, as far as the device allows it.
    pub(crate) fn start_queue(&mut self) -> Result<(), vhost::Error> {
        let rings = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: USER + TABLE,
            used_ring_addr: USER + USED,
            avail_ring_addr: USER + AVAILABLE,
            log_addr: None,
        };
        self.frontend.set_vring_num(0, QUEUE_SIZE)?;
        self.frontend.set_vring_base(0, self.used)?;
        self.frontend.set_vring_addr(0, &rings)?;
        self.frontend.set_vring_call(0, &self.call)?;
        self.frontend.set_vring_kick(0, &self.kick)?;
        self.frontend.set_vring_enable(0, true)?;
        Ok(())
    }

    /// A machine whose queue runs.
    pub(crate) fn running(server: &Server) -> Self {
        let mut machine = Self::connect(server);
        machine.share_memory();
        machine.start_queue().expect("the queue is in the memory");
        machine
    }

    pub(crate) fn put_descriptor(
        &self,
        at: u16,
        (address, len): (u64, u32),
        flags: u16,
        next: u16,
    ) {
        let place = TABLE + 16 * u64::from(at);
        let put = |value: &[u8], offset| {
            self.memory.write_slice(value, GuestAddress(place + offset)).expect("mapped");
        };
        put(&address.to_le_bytes(), 0);
        put(&len.to_le_bytes(), 8);
        put(&flags.to_le_bytes(), 12);
        put(&next.to_le_bytes(), 14);
    }

    pub(crate) fn put_u16(&self, at: u64, value: u16) {
        self.memory.write_slice(&value.to_le_bytes(), GuestAddress(at)).expect("mapped");
    }

    /// Makes the chain at `head` available.
    pub(crate) fn offer(&mut self, head: u16) {
        let slot = u64::from(self.available % QUEUE_SIZE);
        self.put_u16(AVAILABLE + 4 + 2 * slot, head);
        self.available = self.available.wrapping_add(1);
        self.set_available(self.available);
    }

    pub(crate) fn set_available(&self, index: u16) {
        self.memory
            .store(index.to_le(), GuestAddress(AVAILABLE + 2), Ordering::Release)
            .expect("mapped");
        self.kick.write(1).expect("it counts");
    }

    pub(crate) fn used_index(&self) -> u16 {
        let index = self.memory.load::<u16>(GuestAddress(USED + 2), Ordering::Acquire);
        u16::from_le(index.expect("mapped"))
    }

    /// Lays a request out in the descriptors from `head` on.
    pub(crate) fn lay_out(&self, head: u16, request: &Request) {
        let base = BUFFERS + 0x4000 * u64::from(head);
        let header = [&request.kind.to_le_bytes()[..], &[0; 4], &request.sector.to_le_bytes()];
        self.memory.write_slice(&header.concat(), GuestAddress(base)).expect("mapped");
        self.memory.write_slice(&[0xee], GuestAddress(base + 0x3000)).expect("mapped");
        self.put_descriptor(head, (base, 16), NEXT, head + 1);
        let len = u32::try_from(request.data.len()).expect("short");
        let data = GuestAddress(base + 0x1000);
        self.memory.write_slice(&request.data, data).expect("mapped");
        let (len, flags) = if len > 0 { (len, NEXT) } else { (request.room, NEXT | WRITE) };
        self.put_descriptor(head + 1, (data.0, len), flags, head + 2);
        self.put_descriptor(head + 2, (base + 0x3000, 1), WRITE, 0);
    }

    /// Waits for a returned request. Returns its head, and the bytes that were written to it.
    pub(crate) fn returned(&mut self) -> (u16, u32) {
        while self.used_index() == self.used {
            std::thread::yield_now();
        }
        let at = USED + 4 + 8 * u64::from(self.used % QUEUE_SIZE);
        self.used = self.used.wrapping_add(1);
        let field = |at| self.memory.read_obj::<u32>(GuestAddress(at)).expect("mapped");
        (u16::try_from(u32::from_le(field(at))).expect("a head"), u32::from_le(field(at + 4)))
    }

    /// Waits until the driver is notified.
    pub(crate) fn notified(&self) {
        while self.call.read().is_err() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn status(&self, head: u16) -> u8 {
        let at = GuestAddress(BUFFERS + 0x4000 * u64::from(head) + 0x3000);
        self.memory.read_obj(at).expect("mapped")
    }

    /// Carries out one request. Returns its status and the bytes for the driver.
    pub(crate) fn ask(&mut self, request: &Request) -> (u8, Vec<u8>) {
        self.lay_out(0, request);
        self.offer(0);
        let (head, written) = self.returned();
        assert_eq!(head, 0);
        let mut read = vec![0; request.room.try_into().expect("short")];
        self.memory.read_slice(&mut read, GuestAddress(BUFFERS + 0x1000)).expect("mapped");
        let status = self.status(0);
        if status == 0 {
            let for_driver = if request.data.is_empty() { request.room } else { 0 };
            assert!(written == for_driver + 1 || written == 1, "{written} bytes were written");
        }
        (status, read)
    }

    pub(crate) fn config(&mut self) -> Vec<u8> {
        let read = self.frontend.get_config(0, 60, VhostUserConfigFlags::empty(), &[0; 60]);
        read.expect("answered").1
    }

    /// The memory of requests in progress, for one queue.
    pub(crate) fn in_flight(&mut self) -> (VhostUserInflight, File) {
        let wanted = VhostUserInflight::new(0, 0, 1, QUEUE_SIZE);
        self.frontend.get_inflight_fd(&wanted).expect("memory")
    }

    /// Hands over a socket for the device's own messages.
    pub(crate) fn listen_to_events(&mut self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        self.frontend.set_backend_request_fd(&OwnedFd::from(theirs)).expect("taken");
        ours
    }
}

/// `EFD_NONBLOCK`.
fn libc_nonblock() -> i32 {
    i32::try_from(rustix::event::EventfdFlags::NONBLOCK.bits()).expect("a small number")
}
