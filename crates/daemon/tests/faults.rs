//! Disks that fail while others are served: the errors that clients see, and the volumes that
//! stay unaffected.

use std::collections::BTreeMap;

use backend::{Disk, Failure, FaultKind, FaultRule, FaultScript, ScriptedFaults};
use config::Plan;
use nbd::client::{Client, ClientError};
use nbd::{Address, Errno};
use spindle_daemon::{Daemon, DiskState, Status};
use tempfile::TempDir;
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

/// Real disks, one file each, that take writes as they come; and a flash drive's emulation.
const CONFIG: &str = r#"
[[disk]]
name = "bad"
path = "bad.img"
depth = 4
write_buffer = "off"

[[disk]]
name = "good"
path = "good.img"
depth = 4
write_buffer = "off"

[[disk]]
name = "emulated"
drive = "samsung-870evo-1t"

[[volume]]
name = "a"
disk = "bad"
size = "1MiB"

[[volume]]
name = "other"
disk = "bad"
size = "1MiB"

[[volume]]
name = "b"
disk = "good"
size = "1MiB"

[[volume]]
name = "c"
disk = "emulated"
size = "1MiB"
"#;

struct Served {
    daemon: Daemon,
    faults: BTreeMap<String, FaultScript>,
    _dir: TempDir,
}

impl Served {
    fn start() -> Self {
        Self::start_with(CONFIG)
    }

    fn start_with(config: &str) -> Self {
        // In the test's own directory, which is on a disk: the file system of temporary files may
        // not support direct access.
        let beside = std::env::current_exe().expect("it runs");
        let dir = tempfile::tempdir_in(beside.parent().expect("it lies somewhere"));
        let dir = dir.expect("a scratch directory");
        for name in ["bad.img", "good.img"] {
            let file = std::fs::File::create(dir.path().join(name)).expect("a file");
            file.set_len(8 << 20).expect("a sparse one");
        }
        let plan = Plan::parse(config, "plan.toml", dir.path()).and_then(Plan::for_serve);
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let names = plan.disks.iter().map(|disk| disk.name.clone());
        let faults: BTreeMap<_, _> = names.map(|name| (name, FaultScript::default())).collect();
        let layer = |name: &str, disk: Box<dyn Disk>| -> Box<dyn Disk> {
            Box::new(ScriptedFaults::new(disk, faults[name].clone()))
        };
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let daemon = Daemon::start_behind(&plan, &[address], &layer);
        let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
        Self { daemon, faults, _dir: dir }
    }

    fn open(&self, volume: &str) -> Client {
        let mut client = Client::connect(&self.daemon.addresses()[0]).expect("it listens");
        client.go(volume).expect("it is served");
        client
    }

    fn state(&self, disk: &str) -> DiskState {
        self.status(disk, |status, nth| status.disks[nth].health.state)
    }

    fn status<T>(&self, disk: &str, of: impl Fn(&Status, usize) -> T) -> T {
        let status = self.daemon.status();
        let nth = status.disks.iter().position(|one| one.name == disk).expect("it is served");
        of(&status, nth)
    }

    fn strike(&self, op: Op, what: FaultKind) {
        self.faults["bad"].add(FaultRule { op: Some(op), extent: None, after: 0, kind: what });
    }
}

const fn extent(start: u64) -> Extent {
    Extent::new(Lba(start), Sectors(8))
}

/// The error that the server answered with.
fn errno<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Errno {
    match answer {
        Err(ClientError::Failed(errno)) => errno,
        other => panic!("the server answers with an error, not {other:?}"),
    }
}

fn works(client: &mut Client, byte: u8) {
    client.write(extent(16), &[byte; 4_096]).expect("it is written");
    assert_eq!(client.read(extent(16)).expect("it is read"), [byte; 4_096]);
    client.flush().expect("it is flushed");
}

#[test]
fn a_command_that_fails_fails_its_request_and_no_other() {
    let served = Served::start();
    let (mut a, mut b) = (served.open("a"), served.open("b"));
    works(&mut a, 1);
    let place = Some(Extent::new(Lba(16), Sectors(1)));
    let fault = |what| FaultRule { op: Some(Op::Write), extent: place, after: 0, kind: what };
    served.faults["bad"].add(fault(FaultKind::Fails(Failure::NoSpace)));
    assert_eq!(errno(a.write(extent(16), &[2; 4_096])), Errno::NoSpc);
    served.faults["bad"].lift();
    served.faults["bad"].add(fault(FaultKind::Fails(Failure::Io)));
    assert_eq!(errno(a.write(extent(16), &[2; 4_096])), Errno::Io);
    a.write(extent(32), &[2; 4_096]).expect("elsewhere it goes on");
    a.flush().expect("and is flushed");
    assert_eq!(a.read(extent(16)).expect("it is there"), [1; 4_096], "nothing was tried again");
    works(&mut b, 3);
    assert_eq!(served.state("bad"), DiskState::Healthy);
    let failures = served.status("bad", |status, nth| status.disks[nth].health.write_failures);
    assert_eq!(failures, 2);
    served.daemon.stop().expect("it stops");
}

/// Sends requests of these lengths in sectors, one behind the other, while the disk has a command
/// that stalls; then answers them. The cookies of the requests that failed, and what was read.
fn run_merged(
    served: &Served,
    client: &mut Client,
    (op, from, lengths): (Op, u64, &[u64]),
    byte: u8,
) -> (Vec<u64>, BTreeMap<u64, Vec<u8>>) {
    let held = FaultRule { op: None, extent: Some(extent(0)), after: 0, kind: FaultKind::Stalls };
    served.faults["bad"].add(held);
    client.send(99, Operation::read(extent(0)), &[]).expect("it is sent");
    let mut at = from;
    for (cookie, len) in (0..).zip(lengths) {
        let operation = Operation { op, extent: Extent::new(Lba(at), Sectors(*len)), fua: false };
        let bytes = if op == Op::Write { operation.extent.len.bytes_usize() } else { 0 };
        client.send(cookie, operation, &vec![byte; bytes]).expect("it is sent");
        at += len;
    }
    let queued = lengths.len() as u64 + 1;
    while served.status("bad", |status, nth| status.disks[nth].traffic.open) < queued {
        std::thread::yield_now();
    }
    served.faults["bad"].lift_stalls();
    let (mut failed, mut read) = (Vec::new(), BTreeMap::new());
    for _ in 0..queued {
        let answer = client.receive().expect("each is answered");
        match answer.result {
            Ok(data) => drop(read.insert(answer.cookie, data)),
            Err(_) => failed.push(answer.cookie),
        }
    }
    (failed, read)
}

#[test]
fn a_fault_within_a_merged_command_is_that_of_its_request_and_the_others_are_carried_out() {
    // Transfers that are copied, and longer ones that are not if their memory is aligned.
    for lengths in [[8, 16, 8, 16], [8, 40, 24, 128]] {
        let served = Served::start_with(&CONFIG.replace("depth = 4", "depth = 1"));
        let mut a = served.open("a");
        let whole = Extent::new(Lba(64), Sectors(lengths.iter().sum()));
        a.write(whole, &vec![1; whole.len.bytes_usize()]).expect("it is written");
        let in_third = Extent::new(Lba(64 + lengths[0] + lengths[1] + 5), Sectors(1));
        let strike = |op| {
            let kind = FaultKind::Fails(Failure::Io);
            let fault = FaultRule { op: Some(op), extent: Some(in_third), after: 0, kind };
            served.faults["bad"].add(fault);
        };
        let failures = || served.status("bad", |status, nth| status.disks[nth].health);
        strike(Op::Write);
        let (failed, _) = run_merged(&served, &mut a, (Op::Write, 64, &lengths), 2);
        assert_eq!(failed, [2], "the request with the bad sector");
        assert_eq!(failures().write_failures, 2, "the merged command, and the part");
        served.faults["bad"].lift();
        strike(Op::Read);
        let (failed, read) = run_merged(&served, &mut a, (Op::Read, 64, &lengths), 0);
        assert_eq!(failed, [2]);
        assert_eq!(failures().read_failures, 2, "the merged command, and the part");
        for (cookie, len) in [0, 1, 3].into_iter().map(|nth| (nth as u64, lengths[nth])) {
            assert!(read[&cookie] == vec![2; Sectors(len).bytes_usize()], "request {cookie}");
        }
        served.faults["bad"].lift();
        let (failed, read) = run_merged(&served, &mut a, (Op::Read, 64, &lengths), 0);
        assert_eq!(failed, [] as [u64; 0]);
        assert!(read[&2] == vec![1; Sectors(lengths[2]).bytes_usize()], "it was not written");
        let (failed, _) = run_merged(&served, &mut a, (Op::Write, 64, &lengths), 3);
        assert_eq!(failed, [] as [u64; 0]);
        let all = a.read(whole).expect("it is read");
        assert!(all.iter().all(|byte| *byte == 3), "each request is written");
        served.daemon.stop().expect("it stops");
    }
}

#[test]
fn a_flush_that_failed_poisons_its_disk_until_it_is_opened_again() {
    let served = Served::start();
    let (mut a, mut other) = (served.open("a"), served.open("other"));
    let (mut b, mut c) = (served.open("b"), served.open("c"));
    for client in [&mut a, &mut other, &mut b, &mut c] {
        works(client, 1);
    }
    served.strike(Op::Flush, FaultKind::Fails(Failure::Io));
    assert_eq!(errno(a.flush()), Errno::Io);
    // The next one would succeed, and say nothing of what is lost.
    served.faults["bad"].lift();
    for client in [&mut a, &mut other] {
        assert_eq!(errno(client.flush()), Errno::Io);
        assert_eq!(errno(client.write(extent(16), &[2; 4_096])), Errno::Io);
        let trim = Operation { op: Op::Trim, extent: extent(16), fua: false };
        assert_eq!(errno(client.perform(trim, &[])), Errno::Io);
        assert_eq!(client.read(extent(16)).expect("what is there can be copied"), [1; 4_096]);
    }
    assert_eq!(served.state("bad"), DiskState::Poisoned);
    for (disk, client) in [("good", &mut b), ("emulated", &mut c)] {
        works(client, 2);
        assert_eq!(served.state(disk), DiskState::Healthy);
    }
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_forced_write_that_failed_is_a_flush_that_failed() {
    let served = Served::start();
    let mut a = served.open("a");
    served.strike(Op::Write, FaultKind::Fails(Failure::Io));
    let forced = Operation { op: Op::Write, extent: extent(0), fua: true };
    assert_eq!(errno(a.perform(forced, &[1; 4_096])), Errno::Io);
    assert_eq!(served.state("bad"), DiskState::Poisoned);
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_disk_that_is_gone_fails_everything_and_the_others_do_not_notice() {
    let served = Served::start();
    let (mut a, mut b, mut c) = (served.open("a"), served.open("b"), served.open("c"));
    works(&mut a, 1);
    served.strike(Op::Read, FaultKind::Fails(Failure::Offline));
    assert_eq!(errno(a.read(extent(16))), Errno::Io);
    served.faults["bad"].lift();
    assert_eq!(errno(a.read(extent(16))), Errno::Io, "it does not come back by itself");
    assert_eq!(errno(a.write(extent(16), &[1; 4_096])), Errno::Io);
    assert_eq!(served.state("bad"), DiskState::Offline);
    works(&mut b, 2);
    works(&mut c, 2);
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_write_that_was_buffered_and_failed_fails_the_flush_and_later_writes_fail_at_once() {
    for (kind, state) in
        [(Failure::Offline, DiskState::Offline), (Failure::Io, DiskState::Poisoned)]
    {
        let buffered = "write_buffer = \"auto\"\nwrite_buffer_log = \"off\"";
        let served = Served::start_with(&CONFIG.replace("write_buffer = \"off\"", buffered));
        let (mut a, mut b) = (served.open("a"), served.open("b"));
        works(&mut a, 1);
        served.strike(Op::Write, FaultKind::Fails(kind));
        a.write(extent(16), &[2; 4_096]).expect("it is buffered");
        assert_eq!(errno(a.flush()), Errno::Io);
        served.faults["bad"].lift();
        assert_eq!(served.state("bad"), state);
        assert_eq!(errno(a.write(extent(16), &[3; 4_096])), Errno::Io, "{state:?}");
        assert_eq!(errno(a.flush()), Errno::Io, "{state:?}");
        works(&mut b, 2);
        served.daemon.stop().expect("it stops");
    }
}

#[test]
fn a_disk_that_stalls_shows_for_how_long_and_the_others_do_not_wait() {
    let served = Served::start();
    let (mut a, mut b) = (served.open("a"), served.open("b"));
    works(&mut a, 1);
    served.strike(Op::Write, FaultKind::Stalls);
    a.send(7, Operation::write(extent(16)), &[2; 4_096]).expect("it is sent");
    // Other disks serve, and this one still tells how it is.
    let mut rounds = 0_u8;
    let mut oldest = || {
        rounds = rounds.wrapping_add(1);
        works(&mut b, rounds);
        served.status("bad", |status, nth| (status.disks[nth].at, status.disks[nth].health.oldest))
    };
    let (seen, first): (Instant, Duration) = loop {
        if let (at, Some((Op::Write, age))) = oldest() {
            break (at, age);
        }
    };
    let (at, later) = oldest();
    let (op, age) = later.expect("it is still under way");
    assert_eq!((op, age), (Op::Write, first + at.since(seen)), "it is the same one");
    assert_eq!(served.state("bad"), DiskState::Healthy);
    served.faults["bad"].lift();
    let ended = a.receive().expect("it goes on");
    assert_eq!((ended.cookie, ended.result.is_ok()), (7, true));
    assert_eq!(a.read(extent(16)).expect("it was written"), [2; 4_096]);
    served.daemon.stop().expect("it stops");
}

#[test]
fn what_a_daemon_wrote_the_next_one_reads_and_two_do_not_serve_one_disk() {
    let Served { daemon, _dir: dir, .. } = {
        let served = Served::start();
        works(&mut served.open("a"), 9);
        served
    };
    let plan = Plan::parse(CONFIG, "plan.toml", dir.path()).and_then(Plan::for_serve);
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    let refused = Daemon::start(&plan, std::slice::from_ref(&address)).expect_err("it is locked");
    let said = refused.to_string();
    assert!(
        said.contains("[[disk]] \"bad\": field `path`: found") && said.contains("locked"),
        "{said}"
    );
    daemon.stop().expect("it stops");
    let again = Daemon::start(&plan, &[address]).unwrap_or_else(|error| panic!("{error}"));
    let mut client = Client::connect(&again.addresses()[0]).expect("it listens");
    client.go("a").expect("it is served");
    assert_eq!(client.read(extent(16)).expect("it is there"), [9; 4_096]);
    again.stop().expect("it stops");
}
