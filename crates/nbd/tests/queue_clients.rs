//! Clients whose requests lie in queues in memory are clients like others: limits, stops,
//! withdrawals and writes to parts of sectors hold for them.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use spindle_nbd::client::Client;
use spindle_nbd::memory::{FixedExports, MemoryHandler};
use spindle_nbd::{
    Address, ByteRange, ConnectionId, Errno, Export, ExportId, Handle, InUse, Intake, QueueClient,
    Refused, Registration, Server, Settings, Transport,
};
use tempfile::TempDir;
use units::{Bytes, Extent, Instant, Lba, Op, Operation, Sectors};

const EXPORT: ExportId = ExportId(0);

fn sectors(start: u64, count: u64) -> Extent {
    Extent::new(Lba(start), Sectors(count))
}

fn export() -> Export {
    Export::new(EXPORT, "vol", Bytes(1 << 20))
}

#[derive(Debug, Default)]
struct State {
    connection: Option<ConnectionId>,
    refused: Option<Refused>,
    closed: bool,
    queue: VecDeque<(u64, Operation, Vec<u8>)>,
    completed: BTreeMap<u64, Result<Vec<u8>, Errno>>,
    flushes: usize,
    registration: Option<Registration>,
}

/// The other side of a queue client: what a driver sees.
#[derive(Clone, Debug)]
struct Queue {
    state: Arc<(Mutex<State>, Condvar)>,
    kick: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Served {
    queue: Queue,
    export: Export,
}

impl Queue {
    fn new() -> Self {
        let kick = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        Self { state: Arc::default(), kick: Arc::new(kick) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("whole")
    }

    fn wait<T>(&self, found: impl Fn(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(value) = found(&mut state) {
                return value;
            }
            state = self.state.1.wait(state).expect("whole");
        }
    }

    fn put(&self, cookie: u64, operation: Operation, data: Vec<u8>) {
        self.state().queue.push_back((cookie, operation, data));
    }

    fn kick(&self) {
        rustix::io::write(&*self.kick, &1_u64.to_ne_bytes()).expect("it counts");
    }

    fn ask(&self, cookie: u64, operation: Operation, data: Vec<u8>) -> Result<Vec<u8>, Errno> {
        self.put(cookie, operation, data);
        self.kick();
        self.wait(|state| state.completed.remove(&cookie))
    }
}

impl QueueClient for Served {
    fn export(&self) -> &Export {
        &self.export
    }

    fn transport(&self) -> Transport {
        Transport::VhostUser
    }

    fn attached(&mut self, connection: ConnectionId, registration: Registration) {
        registration.add(self.queue.kick.as_fd()).expect("it can be polled");
        let mut state = self.queue.state();
        (state.connection, state.registration) = (Some(connection), Some(registration));
        self.queue.state.1.notify_all();
    }

    fn refused(&mut self, why: Refused) {
        self.queue.state().refused = Some(why);
        self.queue.state.1.notify_all();
    }

    fn receive(&mut self, intake: &mut Intake<'_>) {
        let mut state = self.queue.state();
        while !state.queue.is_empty() && intake.has_room(1 << 16) {
            let (cookie, operation, data) = state.queue.pop_front().expect("not empty");
            if let Err(errno) = intake.submit(cookie, operation, false, data) {
                state.completed.insert(cookie, Err(errno));
            }
        }
    }

    fn complete(&mut self, cookie: u64, result: Result<Vec<u8>, Errno>) -> Vec<u8> {
        let previous = self.queue.state().completed.insert(cookie, result);
        assert!(previous.is_none(), "completed once");
        Vec::new()
    }

    fn flush(&mut self) {
        self.queue.state().flushes += 1;
        self.queue.state.1.notify_all();
    }

    fn closed(&mut self) {
        self.queue.state().closed = true;
        self.queue.state.1.notify_all();
    }
}

struct Running {
    _directory: TempDir,
    address: Address,
    handle: Handle,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(settings: Settings) -> Self {
        let directory = TempDir::new().expect("a directory");
        let address = Address::Unix(directory.path().join("socket"));
        let server = Server::bind(std::slice::from_ref(&address)).expect("free");
        let server = server.with_settings(settings).expect("allowed");
        let exports = FixedExports(vec![export()]);
        let (handle, mut handler) = (server.handle(), MemoryHandler::new(&exports, &server));
        let thread = std::thread::spawn(move || {
            server.run(&exports, &mut handler, &|| Instant::ZERO).expect("polls");
        });
        Self { _directory: directory, address, handle, thread }
    }

    fn attach(&self, export: Export) -> Queue {
        let queue = Queue::new();
        self.handle.attach(Box::new(Served { queue: queue.clone(), export }));
        queue.wait(|state| (state.connection.is_some() || state.refused.is_some()).then_some(()));
        queue
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().expect("it ends");
    }
}

#[test]
fn a_queue_client_and_an_nbd_client_see_each_others_writes() {
    let running = Running::start(Settings::default());
    let queue = running.attach(export());
    let mut client = Client::connect(&running.address).expect("it listens");
    client.go("vol").expect("it is there");
    assert_eq!(queue.ask(1, Operation::write(sectors(4, 2)), vec![7; 1_024]), Ok(vec![7; 1_024]));
    assert_eq!(client.read(sectors(4, 2)).expect("read"), vec![7; 1_024]);
    client.write(sectors(5, 1), &[9; 512]).expect("written");
    let both = [[7; 512], [9; 512]].concat();
    assert_eq!(queue.ask(2, Operation::read(sectors(4, 2)), Vec::new()), Ok(both));
    assert_eq!(queue.ask(3, Operation::flush(), Vec::new()), Ok(Vec::new()));
    let all = running.handle.connections().expect("it runs")[&EXPORT];
    let by: Vec<_> = all.iter().collect();
    assert_eq!(by, [(Transport::Nbd, 1), (Transport::VhostUser, 1)]);
    running.stop();
}

#[test]
fn requests_outside_of_the_export_are_refused_and_never_reach_a_disk() {
    let running = Running::start(Settings::default());
    let queue = running.attach(export());
    let end = (1 << 20) / 512;
    for (extent, op, data, errno) in [
        (sectors(end, 1), Op::Read, 0, Errno::Inval),
        (sectors(end - 1, 2), Op::Write, 1_024, Errno::NoSpc),
        (sectors(u64::MAX - 1, 1), Op::Trim, 0, Errno::NoSpc),
        (sectors(0, 0), Op::Read, 0, Errno::Inval),
        (sectors(0, 2), Op::Write, 512, Errno::Inval),
        (sectors(0, 1), Op::Seek, 0, Errno::Inval),
    ] {
        let operation = Operation { op, extent, fua: false };
        let refused = queue.ask(1, operation, vec![1; data]);
        assert_eq!(refused, Err(errno), "{operation:?}");
    }
    running.stop();
}

#[test]
fn a_write_to_a_part_of_a_sector_and_a_queues_writes_to_it_do_not_mix() {
    let running = Running::start(Settings::default());
    let queue = running.attach(export());
    let mut client = Client::connect(&running.address).expect("it listens");
    client.go("vol").expect("it is there");
    let (mut sender, mut receiver) = client.split();
    let span = ByteRange { start: Bytes(3 * 512 + 100), len: Bytes(10) };
    for round in 0..200_u64 {
        let fill = u8::try_from(round).expect("few");
        // Both are in flight at once: the sector has the queue's bytes around the part, and the
        // part is newer or older as a whole.
        queue.put(round, Operation::write(sectors(3, 1)), vec![fill; 512]);
        sender.queue_bytes(2 * round, (Op::Write, false), span, &[255; 10]).expect("room");
        sender.flush().expect("sent");
        queue.kick();
        receiver.receive().expect("answered").result.expect("written");
        queue.wait(|state| state.completed.remove(&round)).expect("written");
        sender.send(2 * round + 1, Operation::read(sectors(3, 1)), &[]).expect("sent");
        let read = receiver.receive().expect("answered").result.expect("read");
        let (part, rest) = (read[100..110].to_vec(), [&read[..100], &read[110..]].concat());
        assert_eq!(rest, vec![fill; 502], "round {round}: an older sector was written back");
        assert!(part == [255; 10] || part == vec![fill; 10], "round {round}: {part:?}");
    }
    running.stop();
}

#[test]
fn more_requests_than_a_connection_may_have_wait_in_the_queue() {
    let running = Running::start(Settings { requests_max: 3, ..Settings::default() });
    let queue = running.attach(export());
    for cookie in 0..100 {
        queue.put(cookie, Operation::write(sectors(cookie, 1)), vec![1; 512]);
    }
    queue.kick();
    queue.wait(|state| (state.completed.len() == 100).then_some(()));
    assert!(queue.state().completed.values().all(Result::is_ok));
    running.stop();
}

#[test]
fn an_export_in_use_by_a_queue_is_withdrawn_by_force_alone_and_the_queue_is_told() {
    let running = Running::start(Settings::default());
    let queue = running.attach(export());
    let kept = running.handle.withdraw(EXPORT, false).expect("it runs");
    assert_eq!(kept, Err(InUse { connections: 1 }));
    assert_eq!(running.handle.withdraw(EXPORT, true).expect("it runs"), Ok(()));
    queue.wait(|state| state.closed.then_some(()));
    assert!(running.handle.connections().expect("it runs").is_empty());
    running.stop();
}

#[test]
fn a_client_that_is_detached_gets_its_completions_and_is_closed() {
    let running = Running::start(Settings { connections_max: 1, ..Settings::default() });
    let queue = running.attach(export());
    let refused = running.attach(export());
    assert_eq!(refused.state().refused, Some(Refused::Full));
    assert_eq!(queue.ask(1, Operation::read(sectors(0, 1)), Vec::new()), Ok(vec![0; 512]));
    let connection = queue.state().connection.expect("it is attached");
    running.handle.detach(connection);
    queue.wait(|state| state.closed.then_some(()));
    assert_eq!(running.attach(export()).state().refused, None, "its place is free");
    // A number that is no connection's any more.
    running.handle.detach(connection);
    running.stop();
}

#[test]
fn a_stopping_server_closes_queues_and_refuses_new_ones() {
    let running = Running::start(Settings::default());
    let queue = running.attach(export());
    let gone = running.attach(Export::new(ExportId(9), "vol", Bytes(512)));
    assert_eq!(gone.state().refused, Some(Refused::Withdrawn), "another volume of that name");
    let handle = running.handle.clone();
    running.stop();
    assert!(queue.state().closed);
    // After its end nothing answers: the client is dropped.
    let late = Queue::new();
    let state = Arc::downgrade(&late.state);
    handle.attach(Box::new(Served { queue: late, export: export() }));
    assert!(state.upgrade().is_none());
}
