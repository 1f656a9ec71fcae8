//! A server on several threads is one server to its clients and to the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, ThreadId};

use spindle_nbd::client::Client;
use spindle_nbd::memory::FixedExports;
use spindle_nbd::{
    Address, ConnectionId, Errno, Export, ExportId, Handle, InUse, Reply, Request, RequestHandler,
    Server, Settings, Transport,
};
use tempfile::TempDir;
use units::{Bytes, Extent, Instant, Lba, Operation, Sectors};

const THREADS: usize = 3;
/// Reads of this sector are answered when another sector is read.
const WITHHELD: Lba = Lba(7);

/// The state that the threads' handlers share.
#[derive(Default)]
struct Desk {
    answers: Vec<Reply>,
    /// The thread of each connection's requests.
    threads: BTreeMap<ConnectionId, ThreadId>,
}

/// Answers reads with the sector's number; withheld reads are answered while another request is
/// handled.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Desk>>);

impl RequestHandler for Shared {
    fn submit(&mut self, request: Request) {
        let mut desk = self.0.lock().expect("whole");
        let thread = std::thread::current().id();
        let before = desk.threads.insert(request.id.connection, thread);
        assert!(before.is_none_or(|before| before == thread), "a connection stays where it is");
        let start = request.operation.extent.start;
        let data = vec![u8::try_from(start.0).expect("few"); 512];
        desk.answers.push(Reply { id: request.id, result: Ok(data) });
    }

    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        let mut desk = self.0.lock().expect("whole");
        let held = |reply: &Reply| reply.result.as_ref().is_ok_and(|data| data[0] == 7);
        if !desk.answers.iter().all(held) {
            answered.append(&mut desk.answers);
        }
    }
}

struct Running {
    _directory: TempDir,
    address: Address,
    handle: Handle,
    desk: Shared,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(settings: Settings) -> Self {
        let directory = TempDir::new().expect("a directory");
        let address = Address::Unix(directory.path().join("socket"));
        let server = Server::bind(std::slice::from_ref(&address)).expect("free");
        let server = server.with_threads(THREADS).expect("there are threads");
        let server = server.with_settings(settings).expect("allowed");
        let (handle, desk) = (server.handle(), Shared::default());
        let mut handlers = vec![desk.clone(); THREADS];
        let thread = std::thread::spawn(move || {
            let exports = FixedExports(vec![Export::new(ExportId(4), "vol", Bytes(1 << 20))]);
            server.run_on_threads(&exports, &mut handlers, &|| Instant::ZERO).expect("polls");
        });
        Self { _directory: directory, address, handle, desk, thread }
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(&self.address).expect("it listens");
        client.go("vol").expect("it is there");
        client
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().expect("it ends");
    }
}

fn sector(at: Lba) -> Extent {
    Extent::new(at, Sectors(1))
}

#[test]
fn clients_are_spread_over_the_threads_and_each_has_its_own_answers() {
    let running = Running::start(Settings::default());
    let mut clients: Vec<_> = (0..2 * THREADS).map(|_| running.client()).collect();
    for round in 10..14 {
        for (client, at) in clients.iter_mut().zip(round * 10..) {
            assert_eq!(
                client.read(sector(Lba(at))).expect("read"),
                vec![u8::try_from(at).expect("few"); 512]
            );
        }
    }
    let desk = running.desk.0.lock().expect("whole");
    let threads: BTreeSet<_> = desk.threads.values().map(|id| format!("{id:?}")).collect();
    assert_eq!((desk.threads.len(), threads.len()), (2 * THREADS, THREADS));
    drop(desk);
    drop(clients);
    running.stop();
}

#[test]
fn an_answer_that_comes_about_on_another_thread_reaches_its_client() {
    let running = Running::start(Settings::default());
    let (first, mut second) = (running.client(), running.client());
    let (mut sender, mut receiver) = first.split();
    sender.send(1, Operation::read(sector(WITHHELD)), &[]).expect("sent");
    // The read is withheld before another request can answer it.
    while running.desk.0.lock().expect("whole").answers.is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(second.read(sector(Lba(9))).expect("read"), vec![9; 512]);
    assert_eq!(receiver.receive().expect("answered").result, Ok(vec![7; 512]));
    running.stop();
}

#[test]
fn a_connection_for_the_kernel_is_counted_as_one_and_answered_as_any() {
    let running = Running::start(Settings::default());
    let mut client = Client::connect(&running.address).expect("it listens");
    client.announce_kernel().expect("answered");
    client.go("vol").expect("it is there");
    assert_eq!(client.read(sector(Lba(3))).expect("read"), vec![3; 512]);
    let other = running.client();
    let connections = running.handle.connections().expect("it runs")[&ExportId(4)];
    let by: Vec<_> = connections.iter().collect();
    assert_eq!(by, [(Transport::Nbd, 1), (Transport::KernelNbd, 1)]);
    drop((client, other));
    running.stop();
}

#[test]
fn an_export_is_given_up_on_all_threads_before_it_is_said_so() {
    let running = Running::start(Settings::default());
    let mut clients: Vec<_> = (0..THREADS).map(|_| running.client().split()).collect();
    let connections = running.handle.connections().expect("it runs");
    let counted: Vec<_> = connections.iter().map(|(export, all)| (*export, all.total())).collect();
    assert_eq!(counted, [(ExportId(4), THREADS)]);
    let kept = running.handle.withdraw(ExportId(4), false).expect("it runs");
    assert_eq!(kept, Err(InUse { connections: THREADS }));
    assert_eq!(running.handle.withdraw(ExportId(4), true).expect("it runs"), Ok(()));
    for (sender, receiver) in &mut clients {
        // A connection that has closed already was reported.
        if sender.send(1, Operation::read(sector(Lba(1))), &[]).is_ok()
            && let Ok(answer) = receiver.receive()
        {
            assert_eq!(answer.result, Err(Errno::Shutdown));
        }
    }
    assert!(running.desk.0.lock().expect("whole").threads.is_empty(), "nothing reached the disk");
    running.stop();
}

#[test]
fn the_threads_together_take_no_more_clients_than_may_come() {
    let most = THREADS + 1;
    let running = Running::start(Settings { connections_max: most, ..Settings::default() });
    let mut clients: Vec<_> = (0..most).map(|_| running.client()).collect();
    assert!(Client::connect(&running.address).is_err(), "one too many");
    // One disconnects, and there is room again as soon as the server has noticed.
    drop(clients.pop());
    while Client::connect(&running.address).is_err() {
        std::thread::yield_now();
    }
    running.stop();
}

#[test]
fn an_export_is_opened_by_no_more_than_may_whatever_their_threads() {
    let settings = Settings { export_connections_max: 2, ..Settings::default() };
    let running = Running::start(settings);
    let clients = [running.client(), running.client()];
    let mut third = Client::connect(&running.address).expect("it listens");
    assert!(third.go("vol").is_err(), "two have it");
    drop(clients);
    running.stop();
}
