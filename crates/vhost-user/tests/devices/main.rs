//! Devices without a virtual machine: what a driver and its monitor see, and what hostile ones can
//! do.

mod machine;

use std::io::Read as _;
use std::os::fd::AsRawFd as _;

use machine::{BUFFERS, INDIRECT, MEMORY, Machine, NEXT, QUEUE_SIZE, Request, SIZE, Server, WRITE};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use units::{Extent, Lba, Sectors};
use vhost::VhostBackend as _;
use vhost::vhost_user::VhostUserFrontend as _;
use vm_memory::{Bytes as _, GuestAddress};

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// What a driver does that stops its queue.
type Breaks = fn(&mut Machine);
/// What a monitor sends that cannot be done; whether it could tell that it went well.
type Sets = fn(&mut Machine) -> bool;

fn read(sector: u64, bytes: u32) -> Request {
    Request { kind: IN, sector, data: Vec::new(), room: bytes }
}

fn send(kind: u32, sector: u64, data: Vec<u8>) -> Request {
    Request { kind, sector, data, room: 0 }
}

fn range(first: u64, count: u32, flags: u32) -> Vec<u8> {
    [&first.to_le_bytes()[..], &count.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn a_driver_writes_reads_flushes_zeroes_and_discards_what_nbd_clients_see_too() {
    let server = Server::start();
    let mut machine = Machine::running(&server);
    assert_eq!(machine.ask(&send(OUT, 8, vec![7; 4_096])).0, OK);
    machine.notified();
    assert_eq!(machine.ask(&read(8, 4_096)), (OK, vec![7; 4_096]));
    assert_eq!(machine.ask(&send(FLUSH, 0, Vec::new())).0, OK);
    let mut client = server.nbd();
    assert_eq!(client.read(Extent::new(Lba(8), Sectors(8))).expect("read"), vec![7; 4_096]);
    assert_eq!(machine.ask(&send(WRITE_ZEROES, 0, range(8, 2, 0))).0, OK);
    assert_eq!(machine.ask(&send(DISCARD, 0, range(12, 4, 0))).0, OK);
    let expected = [vec![0; 1_024], vec![7; 1_024], vec![0; 2_048]].concat();
    assert_eq!(machine.ask(&read(8, 4_096)), (OK, expected));
    let (status, serial) = machine.ask(&Request { kind: GET_ID, ..read(0, 20) });
    assert_eq!((status, &serial[..4]), (OK, &b"vol\0"[..]));
    assert_eq!(server.connections(), 2);
    drop(machine);
    server.stop();
}

#[test]
fn what_cannot_be_done_fails_its_request_and_no_other() {
    let server = Server::start();
    let mut machine = Machine::running(&server);
    let end = SIZE / 512;
    for (request, status) in [
        (read(end, 512), IO_ERROR),
        (read(u64::MAX, 512), IO_ERROR),
        (read(0, 100), IO_ERROR),
        (send(OUT, end - 1, vec![1; 1_024]), IO_ERROR),
        (send(OUT, 0, vec![1; 513]), IO_ERROR),
        (send(DISCARD, 0, range(end, 1, 0)), IO_ERROR),
        (send(DISCARD, 0, range(0, 1, 1)), UNSUPPORTED),
        (send(DISCARD, 0, range(0, 0, 0)), IO_ERROR),
        (send(DISCARD, 0, vec![0; 32]), IO_ERROR),
        (send(WRITE_ZEROES, 0, range(u64::MAX, u32::MAX, 0)), IO_ERROR),
        (send(WRITE_ZEROES, 0, range(0, 1, 2)), UNSUPPORTED),
        (send(99, 0, vec![0; 16]), UNSUPPORTED),
    ] {
        assert_eq!(machine.ask(&request).0, status, "{request:?}");
        assert_eq!(machine.ask(&read(0, 512)), (OK, vec![0; 512]), "after {request:?}");
    }
    server.stop();
}

#[test]
fn a_chain_in_a_table_of_its_own_is_a_request() {
    let server = Server::start();
    let mut machine = Machine::running(&server);
    machine.lay_out(0, &send(OUT, 3, vec![9; 512]));
    // The three descriptors are copied to a table elsewhere, to which one descriptor points.
    let mut table = [0; 48];
    machine.memory.read_slice(&mut table, GuestAddress(0)).expect("mapped");
    let elsewhere = BUFFERS - 0x1000;
    machine.memory.write_slice(&table, GuestAddress(elsewhere)).expect("mapped");
    machine.put_descriptor(7, (elsewhere, 48), INDIRECT, 0);
    machine.offer(7);
    assert_eq!(machine.returned(), (7, 1));
    assert_eq!(machine.status(0), OK);
    let mut client = server.nbd();
    assert_eq!(client.read(Extent::new(Lba(3), Sectors(1))).expect("read"), vec![9; 512]);
    server.stop();
}

#[test]
fn a_queue_that_breaks_the_rules_stops_and_the_next_connection_is_served() {
    let server = Server::start();
    let all: [(&str, Breaks); 7] = [
        ("a circle", |machine| {
            machine.put_descriptor(0, (BUFFERS, 16), NEXT, 1);
            machine.put_descriptor(1, (BUFFERS, 16), NEXT, 0);
            machine.offer(0);
        }),
        ("a descriptor outside of its table", |machine| {
            machine.put_descriptor(0, (BUFFERS, 16), NEXT, QUEUE_SIZE);
            machine.offer(0);
        }),
        ("memory that is not the guest's", |machine| {
            machine.lay_out(0, &read(0, 512));
            machine.put_descriptor(1, (MEMORY - 1, 512), NEXT | WRITE, 2);
            machine.offer(0);
        }),
        ("a status that is no memory", |machine| {
            machine.lay_out(0, &read(0, 512));
            machine.put_descriptor(2, (u64::MAX, 1), WRITE, 0);
            machine.offer(0);
        }),
        ("no status", |machine| {
            machine.put_descriptor(0, (BUFFERS, 16), 0, 0);
            machine.offer(0);
        }),
        ("a table within a table", |machine| {
            machine.put_descriptor(0, (0, 16), INDIRECT, 0);
            machine.offer(0);
        }),
        // The index jumps with the request that follows.
        ("more requests than the queue holds", |machine| machine.available += 999),
    ];
    for (what, breaks) in all {
        let mut machine = Machine::running(&server);
        assert_eq!(machine.ask(&read(0, 512)).0, OK, "before {what}");
        breaks(&mut machine);
        // The queue has stopped: a request behind it is not served.
        machine.lay_out(4, &read(0, 512));
        machine.offer(4);
        assert!(machine.frontend.get_vring_base(0).is_ok(), "{what}: messages are answered");
        assert_eq!(machine.used_index(), machine.used, "{what}: the queue goes on");
        drop(machine);
        let mut next = Machine::running(&server);
        assert_eq!(next.ask(&read(0, 512)).0, OK, "after {what}");
    }
    server.stop();
}

fn descriptor() -> impl Strategy<Value = (u64, u32, u16, u16)> {
    let address = prop_oneof![0..MEMORY, Just(BUFFERS), Just(BUFFERS + 0x3000), any::<u64>()];
    let len = prop_oneof![Just(16_u32), Just(1), Just(512), 0..70_000_u32, any::<u32>()];
    (address, len, prop_oneof![0..8_u16, any::<u16>()], prop_oneof![0..17_u16, any::<u16>()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is in a driver's descriptors and rings, and however it changes meanwhile, the
    /// process goes on, other clients too, and the next connection is served.
    #[test]
    fn whatever_a_driver_writes_others_are_served(
        table in proptest::collection::vec(descriptor(), usize::from(QUEUE_SIZE)),
        heads in proptest::collection::vec(0..20_u16, 1..8),
        bytes in proptest::collection::vec(any::<u8>(), 64),
        index in prop_oneof![0..20_u16, any::<u16>()],
    ) {
        let server = Server::start();
        let mut machine = Machine::running(&server);
        for (at, (address, len, flags, next)) in (0..).zip(&table) {
            machine.put_descriptor(at, (*address, *len), *flags, *next);
        }
        machine.memory.write_slice(&bytes, GuestAddress(BUFFERS)).expect("mapped");
        for head in heads {
            machine.offer(head);
            let changed = usize::from(head) % table.len();
            let (address, len, flags, next) = table[changed];
            machine.put_descriptor(head % QUEUE_SIZE, (address ^ 0x40, len / 2), flags ^ 2, next);
        }
        machine.set_available(index);
        let mut client = server.nbd();
        client.read(Extent::new(Lba(0), Sectors(1))).expect("other clients are served");
        drop(machine);
        let mut next = Machine::running(&server);
        assert_eq!(next.ask(&read(0, 512)).0, OK);
        drop(next);
        server.stop();
    }
}

#[test]
fn requests_in_progress_at_the_end_of_a_daemon_are_carried_out_by_the_next_one() {
    let server = Server::start();
    let mut machine = Machine::connect(&server);
    machine.share_memory();
    let (shape, file) = machine.in_flight();
    machine.lay_out(0, &send(OUT, 0, vec![1; 512]));
    machine.lay_out(4, &send(OUT, 1, vec![2; 512]));
    // As a daemon leaves them that was killed: both requests were taken, the second one first.
    machine.offer(0);
    machine.offer(4);
    let state = |head: u64| 16 + 16 * head;
    let put = |at: u64, bytes: &[u8]| {
        rustix::io::pwrite(&file, bytes, at).expect("written");
    };
    put(8, &1_u16.to_ne_bytes());
    put(10, &QUEUE_SIZE.to_ne_bytes());
    for (head, counter) in [(0, 6_u64), (4, 5)] {
        put(state(head) + 8, &counter.to_ne_bytes());
        put(state(head), &[1]);
    }
    let mut machine = machine.reconnect(&server);
    machine.share_memory();
    machine.frontend.set_inflight_fd(&shape, file.as_raw_fd()).expect("mapped");
    machine.start_queue().expect("the queue is in the memory");
    assert_eq!((machine.returned(), machine.returned()), ((4, 1), (0, 1)), "in their order");
    let mut marks = [9; 2];
    rustix::io::pread(&file, &mut marks[..1], state(0)).expect("read");
    rustix::io::pread(&file, &mut marks[1..], state(4)).expect("read");
    assert_eq!(marks, [0, 0], "none is in progress any more");
    machine.lay_out(0, &read(0, 1_024));
    machine.offer(0);
    assert_eq!(machine.returned(), (0, 1_025), "the queue goes on behind them");
    let mut client = server.nbd();
    let both = client.read(Extent::new(Lba(0), Sectors(2))).expect("read");
    assert_eq!(both, [[1; 512], [2; 512]].concat());
    server.stop();
}

#[test]
fn a_monitor_is_told_when_the_volume_grows_and_the_driver_reaches_the_new_sectors() {
    let server = Server::start();
    let mut machine = Machine::running(&server);
    let mut events = machine.listen_to_events();
    assert_eq!(machine.config()[..8], (SIZE / 512).to_le_bytes());
    assert_eq!(machine.ask(&read(SIZE / 512, 512)).0, IO_ERROR);
    server.resize(2 * SIZE);
    let mut message = [0; 12];
    events.read_exact(&mut message).expect("the device says that it has changed");
    assert_eq!(message[..4], 2_u32.to_ne_bytes(), "a change of the configuration space");
    assert_eq!(machine.config()[..8], (2 * SIZE / 512).to_le_bytes());
    assert_eq!(machine.ask(&read(SIZE / 512, 512)).0, OK);
    server.stop();
}

#[test]
fn one_machine_at_a_time_uses_a_volume() {
    let server = Server::start();
    let mut first = Machine::running(&server);
    let second = vhost::vhost_user::Frontend::connect(server.socket(), 1).expect("it listens");
    assert!(second.get_features().is_err(), "hung up on");
    assert_eq!(first.ask(&read(0, 512)).0, OK);
    drop(first);
    let mut third = Machine::running(&server);
    assert_eq!(third.ask(&read(0, 512)).0, OK);
    server.stop();
}

#[test]
fn a_monitor_that_sets_up_nonsense_is_hung_up_on_and_the_next_one_served() {
    let server = Server::start();
    let all: [(&str, Sets); 4] = [
        ("no memory", |machine| machine.start_queue().is_ok()),
        ("a queue that is no power of two", |machine| machine.frontend.set_vring_num(0, 9).is_ok()),
        ("a longer queue", |machine| machine.frontend.set_vring_num(0, 2_048).is_ok()),
        ("features that were not offered", |machine| {
            machine.frontend.set_features(1 << 40).is_ok()
        }),
    ];
    for (what, sets) in all {
        let mut machine = Machine::connect(&server);
        // The message itself may have been sent before the socket is closed.
        let _ = sets(&mut machine);
        assert!(machine.frontend.get_features().is_err(), "{what}: hung up on");
        drop(machine);
        let mut next = Machine::connect(&server);
        next.share_memory();
        next.start_queue().expect("the queue is in the memory");
        assert_eq!(next.ask(&read(0, 512)).0, OK, "after {what}");
    }
    server.stop();
}
