//! The server and the client over real sockets, with disks in memory.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use spindle_nbd::client::{Client, ClientError};
use spindle_nbd::{
    Address, Errno, ExportId, Handle, Reply, Request, RequestHandler, Server, Settings, limits,
};
use tempfile::TempDir;
use units::{Bytes, Duration, Instant, Operation};

use harness::{DISK_BYTES, Running, Volumes, extent, request_head, zeroes};

mod harness;
mod memory;

#[test]
fn what_is_written_is_read_over_both_kinds_of_socket() {
    let (running, _) = Running::with_disk();
    for (n, address) in (1_u8..).zip(&running.addresses) {
        let mut client = Client::connect(address).expect("it listens");
        let names: Vec<_> = client.list().expect("it lists").into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["vol", "ro", "big"]);
        assert!(matches!(client.go("nosuch"), Err(ClientError::UnknownExport)));
        assert!(matches!(client.go(""), Err(ClientError::UnknownExport)), "there are several");
        assert!(client.info("ro").expect("it is there").is_read_only());
        let export = client.go("vol").expect("it is there");
        assert_eq!((export.size, export.block_min), (Bytes(DISK_BYTES as u64), Bytes(1)));
        assert_eq!(export.block_max, Bytes(limits::PAYLOAD_BYTES_MAX as u64));
        // Short reads, and reads long enough to go straight into their buffer.
        for sectors in [1, 8, 128, 20_000] {
            let data: Vec<_> = (0..sectors * 512).map(|i| (i % 253) as u8 ^ n).collect();
            client.write(extent(3, sectors), &data).expect("written");
            client.flush().expect("flushed");
            assert!(client.read(extent(3, sectors)).expect("read") == data);
        }
        client.perform(zeroes(extent(4, 2)), &[]).expect("zeroed");
        assert_eq!(client.read(extent(4, 2)).expect("read"), [0; 1024]);
        let past = client.read(extent(DISK_BYTES as u64 / 512, 1));
        assert!(matches!(past, Err(ClientError::Failed(Errno::Inval))));
        client.disconnect().expect("goodbye");
    }
}

#[test]
fn a_read_only_export_is_read_and_not_written() {
    let (running, _) = Running::with_disk();
    let mut client = Client::connect(&running.addresses[0]).expect("it listens");
    client.go("ro").expect("it is there");
    client.read(extent(0, 8)).expect("read");
    let refused = client.write(extent(0, 1), &[1; 512]);
    assert!(matches!(refused, Err(ClientError::Failed(Errno::Perm))));
}

#[test]
fn many_clients_at_once_do_not_mix() {
    let (running, _) = Running::with_disk();
    let mut clients: Vec<_> = (0..100).map(|_| running.client()).collect();
    for (n, client) in (0_u8..).zip(&mut clients) {
        client.send(1, Operation::write(extent(u64::from(n) * 8, 8)), &[n; 4096]).expect("sent");
    }
    for client in &mut clients {
        assert_eq!(client.receive().expect("answered").result, Ok(Vec::new()));
    }
    for (n, client) in (0_u8..100).zip(&mut clients).rev() {
        assert_eq!(client.read(extent(u64::from(n) * 8, 8)).expect("read"), [n; 4096]);
    }
}

#[test]
fn answers_in_another_order_find_their_requests() {
    let (running, taken) = Running::start();
    let (mut sender, mut receiver) = running.client().split();
    for cookie in 0..64 {
        sender.queue(cookie, Operation::read(extent(cookie, 1)), &[]).expect("queued");
    }
    sender.flush().expect("sent");
    let mut replies: Vec<_> = taken
        .iter()
        .take(64)
        .map(|request| {
            let start = u8::try_from(request.operation.extent.start.0).expect("small");
            Reply { id: request.id, result: Ok(vec![start; 512]) }
        })
        .collect();
    replies.reverse();
    running.handle.reply_many(&mut replies);
    for cookie in (0_u8..64).rev() {
        let completion = receiver.receive().expect("answered");
        assert_eq!(completion.cookie, u64::from(cookie));
        assert_eq!(completion.result, Ok(vec![cookie; 512]));
    }
}

#[test]
fn a_client_that_leaves_amid_a_payload_leaves_nothing_behind() {
    let (running, taken) = Running::start();
    let mut stream = running.raw();
    stream.write_all(&request_head(1, 0, 1 << 20)).expect("sent");
    stream.write_all(&vec![7; 100_000]).expect("sent");
    drop(stream);
    running.closed.recv().expect("it is noticed");
    assert!(taken.try_recv().is_err(), "half a write is no write");
}

#[test]
fn answers_to_a_client_that_left_are_dropped() {
    let (running, taken) = Running::start();
    let (mut sender, _receiver) = running.client().split();
    sender.send(1, Operation::read(extent(0, 8)), &[]).expect("sent");
    let orphan = taken.recv().expect("submitted");
    sender.hang_up().expect("gone");
    let mut client = running.client();
    client.send(1, Operation::read(extent(8, 1)), &[]).expect("sent");
    let request = taken.recv().expect("submitted");
    assert_ne!(orphan.id.connection, request.id.connection);
    running.handle.reply(Reply { id: orphan.id, result: Ok(vec![1; 4096]) });
    running.handle.reply(Reply { id: request.id, result: Ok(vec![2; 512]) });
    assert_eq!(client.receive().expect("answered").result, Ok(vec![2; 512]));
    assert_eq!(running.closed.recv().expect("noticed"), orphan.id.connection);
}

#[test]
fn goodbye_is_said_after_what_was_outstanding_is_answered() {
    let (running, taken) = Running::start();
    let (mut sender, mut receiver) = running.client().split();
    sender.send(1, Operation::read(extent(0, 1)), &[]).expect("sent");
    sender.disconnect().expect("sent");
    let request = taken.recv().expect("submitted");
    running.handle.reply(Reply { id: request.id, result: Ok(vec![3; 512]) });
    assert_eq!(receiver.receive().expect("answered").result, Ok(vec![3; 512]));
    assert!(matches!(receiver.receive(), Err(ClientError::Io(_))), "and then the end");
}

#[test]
fn a_stopping_server_answers_what_it_has_and_takes_no_more() {
    let (mut running, taken) = Running::start();
    let (mut sender, mut receiver) = running.client().split();
    sender.send(1, Operation::read(extent(0, 1)), &[]).expect("sent");
    let request = taken.recv().expect("submitted");
    let mut bystander = UnixStream::connect(running.directory.path().join("socket")).expect("in");
    running.handle.stop();
    let mut greeting = Vec::new();
    bystander.read_to_end(&mut greeting).expect("closed without an error");
    let gone = Client::connect(&running.addresses[0]);
    assert!(matches!(gone, Err(ClientError::Io(_))), "no server listens");
    running.handle.reply(Reply { id: request.id, result: Ok(vec![4; 512]) });
    assert_eq!(receiver.receive().expect("answered").result, Ok(vec![4; 512]));
    assert!(receiver.receive().is_err());
    running.stop();
    assert!(!running.directory.path().join("socket").exists());
}

#[test]
fn a_stop_serves_clients_in_their_handshake_where_the_sockets_outlive_the_server() {
    let (mut running, taken) = Running::start_with(Server::with_sockets_that_outlive_it);
    let mut short = Client::connect(&running.addresses[0]).expect("it listens");
    let mut long = Client::connect(&running.addresses[0]).expect("it listens");
    let mut silent = Client::connect(&running.addresses[0]).expect("it listens");
    let mut open = running.client();
    running.handle.stop();
    assert!(open.receive().is_err(), "a client with an export finds the next server");
    short.go("vol").expect("the handshake goes on");
    short.disconnect().expect("sent");
    long.go("vol").expect("the handshake goes on");
    let (mut sender, mut receiver) = long.split();
    sender.send(1, Operation::read(extent(0, 1)), &[]).expect("sent");
    let request = taken.recv().expect("submitted");
    running.handle.reply(Reply { id: request.id, result: Ok(vec![4; 512]) });
    assert_eq!(receiver.receive().expect("answered").result, Ok(vec![4; 512]));
    running.clock.fetch_add(limits::NEWCOMERS_TIME.as_nanos(), Ordering::SeqCst);
    assert!(receiver.receive().is_err(), "its time is over");
    assert!(silent.go("vol").is_err(), "its time is over");
    running.stop();
}

fn kind_of_bind(path: &Path) -> Result<Server, ErrorKind> {
    Server::bind(&[Address::Unix(path.to_owned())]).map_err(|error| error.kind())
}

#[test]
fn the_socket_of_a_live_server_is_not_taken() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("socket");
    let first = kind_of_bind(&path).expect("it is free");
    assert_eq!(kind_of_bind(&path).err(), Some(ErrorKind::AddrInUse));
    drop(first);
    assert!(!path.exists());
    kind_of_bind(&path).expect("it is free again");
}

#[test]
fn a_stale_socket_is_replaced_and_any_other_file_is_not() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("socket");
    drop(UnixListener::bind(&path).expect("it is free"));
    assert!(path.exists(), "the standard library leaves its file");
    drop(kind_of_bind(&path).expect("it is stale"));
    std::fs::write(&path, "precious").expect("written");
    assert_eq!(kind_of_bind(&path).err(), Some(ErrorKind::AddrInUse));
    assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
}

#[test]
fn a_client_that_does_not_read_gets_no_more_and_delays_no_other() {
    const READS: u64 = 1_000;
    const READ_SECTORS: u64 = 2048;
    let (running, read) = Running::with_disk();
    let (mut sender, mut receiver) = running.client().split();
    for cookie in 0..READS {
        sender.queue(cookie, Operation::read(extent(0, READ_SECTORS)), &[]).expect("queued");
    }
    sender.flush().expect("sent");
    let mut other = running.client();
    for n in 0..500 {
        other.write(extent(n, 1), &[5; 512]).expect("written");
    }
    let held = read.load(Ordering::SeqCst);
    // The bytes in flight, and those in the kernel's buffers.
    assert!(held <= (limits::BYTES_IN_FLIGHT_MAX + (8 << 20)) as u64, "{held}");
    let mut data = Vec::new();
    for _ in 0..READS {
        receiver.receive_into(&mut data).expect("answered").1.expect("read");
        assert_eq!(data.len() as u64, READ_SECTORS * 512);
    }
}

#[test]
fn an_endless_handshake_is_dropped_and_an_open_connection_is_not() {
    let (running, _) = Running::with_disk();
    let mut client = running.client();
    let mut idler = UnixStream::connect(running.directory.path().join("socket")).expect("in");
    idler.read_exact(&mut [0; 18]).expect("greeted");
    let late = limits::HANDSHAKE_TIMEOUT + Duration::from_millis(1);
    running.clock.store(late.as_nanos(), Ordering::SeqCst);
    assert_eq!(idler.read(&mut [0]).expect("closed"), 0);
    client.read(extent(0, 1)).expect("read");
}

#[test]
fn garbage_closes_the_connection() {
    let (running, _) = Running::with_disk();
    let mut stream = running.raw();
    stream.write_all(&[0; 28]).expect("sent");
    assert_eq!(stream.read(&mut [0]).expect("closed"), 0);
    running.client().read(extent(0, 1)).expect("others are served");
}

#[test]
fn refusals_make_room_for_the_next_as_they_are_sent() {
    let (running, _) = Running::with_disk();
    let mut stream = running.raw();
    let mut reader = stream.try_clone().expect("a second descriptor");
    // More than may be unsent at once, in one piece: only sending frees room.
    let unknown = request_head(99, 0, 0).repeat(5_000);
    let writer = std::thread::spawn(move || stream.write_all(&unknown).expect("sent"));
    let mut refusals = vec![0; 5_000 * 16];
    reader.read_exact(&mut refusals).expect("all are answered");
    assert!(refusals.chunks(16).all(|refusal| refusal[..8] == *b"gDf\x98\0\0\0\x16"));
    writer.join().expect("it ends well");
}

/// Answers on the server's own thread, from within `submit`.
struct Echo(Arc<Mutex<Option<Handle>>>);

impl RequestHandler for Echo {
    fn submit(&mut self, request: Request) {
        let length = request.operation.extent.len.bytes_usize();
        let handle = self.0.lock().expect("not poisoned");
        let reply = Reply { id: request.id, result: Ok(vec![1; length]) };
        handle.as_ref().expect("set before it runs").reply(reply);
    }
}

#[test]
fn a_handler_may_answer_at_once() {
    let server = Server::bind(&["127.0.0.1:0".parse().expect("an address")]).expect("free");
    let address = server.addresses().expect("bound").remove(0);
    let handle = server.handle();
    let echo = Arc::new(Mutex::new(Some(handle.clone())));
    let thread = std::thread::spawn(move || {
        server.run(&Volumes, &mut Echo(echo), &|| Instant::ZERO).expect("polls");
    });
    let mut client = Client::connect(&address).expect("it listens");
    client.go("vol").expect("it is there");
    for _ in 0..100 {
        assert_eq!(client.read(extent(0, 1)).expect("read"), [1; 512]);
    }
    handle.stop();
    thread.join().expect("it ends well");
}

#[test]
fn more_clients_than_there_may_be_are_turned_away() {
    let (running, _) = Running::with_disk();
    let path = running.directory.path().join("socket");
    let mut inside = Vec::new();
    loop {
        let mut stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            // This process may lack the descriptors for both ends of all connections.
            Err(error) => return eprintln!("not tried to the end: {error}"),
        };
        match stream.read(&mut [0; 18]) {
            Ok(18) => inside.push(stream),
            Ok(_) => break,
            Err(error) => return eprintln!("not tried to the end: {error}"),
        }
    }
    assert_eq!(inside.len(), limits::CONNECTIONS_MAX);
    drop(inside.pop());
    running.closed.recv().expect("noticed");
    running.client().read(extent(0, 1)).expect("there is room again");
}

#[test]
fn a_stalled_message_is_dropped_and_an_idle_connection_stays() {
    let (running, _) = Running::with_disk();
    let mut idle = running.client();
    let mut writer = running.raw();
    writer.write_all(&request_head(1, 0, 1 << 20)).expect("sent");
    writer.write_all(&[7; 1_000]).expect("sent");
    let mut half = running.raw();
    half.write_all(&request_head(0, 0, 512)[..10]).expect("sent");
    running.pass_time_until(&running.closed);
    running.pass_time_until(&running.closed);
    for stalled in [&mut writer, &mut half] {
        assert_eq!(stalled.read(&mut [0]).unwrap_or(0), 0, "it is hung up on");
    }
    idle.read(extent(0, 1)).expect("it is still there");
}

#[test]
fn a_client_that_takes_no_replies_is_dropped() {
    let (running, read) = Running::with_disk();
    let (mut sender, _deaf) = running.client().split();
    for cookie in 0..40 {
        sender.queue(cookie, Operation::read(extent(0, 2048)), &[]).expect("queued");
    }
    sender.flush().expect("sent");
    while read.load(Ordering::SeqCst) < 40 << 20 {
        std::thread::yield_now();
    }
    running.pass_time_until(&running.closed);
}

#[test]
fn no_more_connections_to_an_export_than_are_allowed() {
    let allowed = Settings { export_connections_max: 2, ..Settings::default() };
    let (running, _taken) =
        Running::start_with(|server| server.with_settings(allowed).expect("within the limits"));
    let first = running.client();
    let _second = running.client();
    let mut third = Client::connect(&running.addresses[0]).expect("it listens");
    assert!(matches!(third.go("vol"), Err(ClientError::Refused(_))));
    third.go("ro").expect("another export");
    first.disconnect().expect("goodbye");
    running.closed.recv().expect("it is noticed");
    running.client();
}

#[test]
fn an_export_that_is_given_up_refuses_what_comes_and_hangs_up() {
    let (running, taken) = Running::start();
    let (mut sender, mut receiver) = running.client().split();
    sender.send(1, Operation::read(extent(0, 1)), &[]).expect("sent");
    let request = taken.recv().expect("submitted");
    running.handle.withdraw(ExportId(0), true).expect("it runs").expect("by force");
    sender.send(2, Operation::read(extent(1, 1)), &[]).expect("sent");
    let refused = receiver.receive().expect("answered");
    assert_eq!((refused.cookie, refused.result), (2, Err(Errno::Shutdown)));
    running.handle.reply(Reply { id: request.id, result: Ok(vec![4; 512]) });
    assert_eq!(receiver.receive().expect("answered").result, Ok(vec![4; 512]));
    assert!(receiver.receive().is_err(), "and then the end");
    assert!(taken.try_recv().is_err(), "nothing reached the disk");
}

#[test]
fn hundreds_of_clients_that_come_at_once_find_a_place() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("sock");
    let server = Server::bind(&[Address::Unix(path.clone())]).expect("free");
    // No thread accepts yet, and no client waits.
    let clients: Vec<_> = (0..512).map(|_| mio::net::UnixStream::connect(&path)).collect();
    assert!(
        clients.iter().all(Result::is_ok),
        "{:?}",
        clients.iter().find(|client| client.is_err())
    );
    drop(server);
}
