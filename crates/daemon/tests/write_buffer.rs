//! Write buffers in the host, over NBD: what is answered, what is on the disk, and what is lost.

use backend::{Disk, Failure, FaultKind, FaultRule, FaultScript, ScriptedFaults};
use config::Document;
use nbd::client::{Client, ClientError};
use nbd::{Address, Errno};
use spindle_daemon::{Daemon, Operator, VolumeStatus};
use tempfile::TempDir;
use units::{Bytes, Extent, Lba, Op, Operation, Sectors};

const CONFIG: &str = r#"
[[disk]]
name = "d"
drive = "hgst-7k8"
backing = "d.img"
write_buffer = "auto"
write_age = "600s"

[[volume]]
name = "v"
disk = "d"
size = "64MiB"
reserve = "30%"

[[volume]]
name = "w"
disk = "d"
size = "64MiB"

[[volume]]
name = "through"
disk = "d"
size = "64MiB"
write_buffer = "0"
"#;

struct Served {
    daemon: Daemon,
    operator: Operator,
    faults: FaultScript,
}

impl Served {
    fn start(dir: &TempDir) -> Self {
        let file = dir.path().join("plan.toml");
        std::fs::write(&file, CONFIG).expect("a file");
        let document = Document::read(&file).expect("a sound config");
        let faults = FaultScript::default();
        let before = |_: &str, disk: Box<dyn Disk>| -> Box<dyn Disk> {
            Box::new(ScriptedFaults::new(disk, faults.clone()))
        };
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let daemon = Daemon::start_behind(document.plan(), &[address], &before);
        let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
        let operator = daemon.operator(document);
        Self { daemon, operator, faults }
    }

    fn open(&self, volume: &str) -> Client {
        let mut client = Client::connect(&self.daemon.addresses()[0]).expect("it listens");
        client.go(volume).expect("it is served");
        client
    }

    fn volume(&self, index: usize) -> VolumeStatus {
        self.daemon.status().volumes[index].clone()
    }

    /// The disk can write no more.
    fn fail_writes(&self) {
        let kind = FaultKind::Fails(Failure::Io);
        self.faults.add(FaultRule { op: Some(Op::Write), extent: None, after: 0, kind });
    }
}

fn scratch() -> TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

/// Bytes that differ from sector to sector.
fn pattern(start: u64, len: u64, salt: u8) -> Vec<u8> {
    let byte = |sector: u64| salt.wrapping_add(u8::try_from(sector % 251).expect("a byte"));
    (start..start + len).flat_map(|sector| [byte(sector); 512]).collect()
}

#[test]
fn reads_see_what_is_buffered_and_what_the_disk_has_around_it() {
    let dir = scratch();
    let served = Served::start(&dir);
    let mut client = served.open("v");
    client.write(extent(0, 64), &pattern(0, 64, 1)).expect("written");
    client.flush().expect("flushed");
    client.write(extent(8, 8), &pattern(8, 8, 2)).expect("buffered");
    client.write(extent(12, 8), &pattern(12, 8, 3)).expect("buffered");
    let whole =
        [pattern(0, 8, 1), pattern(8, 4, 2), pattern(12, 8, 3), pattern(20, 44, 1)].concat();
    assert_eq!(client.read(extent(0, 64)).expect("read"), whole);
    assert_eq!(client.read(extent(9, 2)).expect("read"), pattern(9, 2, 2));
    let zeroes = Operation { op: Op::WriteZeroes, extent: extent(10, 4), fua: false };
    client.perform(zeroes, &[]).expect("zeroed");
    assert_eq!(client.read(extent(10, 4)).expect("read"), vec![0; 2_048]);
    let trim = Operation { op: Op::Trim, extent: extent(14, 2), fua: false };
    client.perform(trim, &[]).expect("trimmed");
    assert_eq!(client.read(extent(14, 2)).expect("read"), vec![0; 1_024]);
    client.flush().expect("flushed");
    let whole = [
        pattern(0, 8, 1),
        pattern(8, 2, 2),
        vec![0; 2_048],
        vec![0; 1_024],
        pattern(16, 4, 3),
        pattern(20, 44, 1),
    ]
    .concat();
    assert_eq!(client.read(extent(0, 64)).expect("read"), whole);
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_flush_of_any_connection_covers_what_all_of_them_were_answered() {
    let dir = scratch();
    let served = Served::start(&dir);
    let (mut one, mut two) = (served.open("v"), served.open("v"));
    one.write(extent(0, 8), &pattern(0, 8, 1)).expect("buffered");
    two.write(extent(800, 8), &pattern(800, 8, 1)).expect("buffered");
    two.flush().expect("flushed");
    let usage = served.volume(0).write_buffer;
    assert_eq!((usage.used, usage.destaged), (Sectors::ZERO, Sectors(16)), "{usage:?}");
    let forced = Operation::write(extent(16, 8)).with_fua();
    one.perform(forced, &pattern(16, 8, 1)).expect("forced");
    let usage = served.volume(0).write_buffer;
    assert_eq!((usage.used, usage.destaged), (Sectors::ZERO, Sectors(24)), "{usage:?}");
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_write_that_the_disk_fails_fails_the_flushes_of_its_volume() {
    let dir = scratch();
    let served = Served::start(&dir);
    let mut client = served.open("v");
    served.fail_writes();
    client.write(extent(0, 8), &pattern(0, 8, 1)).expect("buffered");
    for _ in 0..2 {
        // The second, because a disk that failed a forced write is not written again.
        let flushed = client.flush();
        assert!(matches!(flushed, Err(ClientError::Failed(Errno::Io))), "{flushed:?}");
    }
    assert_eq!(served.volume(0).write_buffer.lost, Sectors(8));
    let written = served.open("through").write(extent(0, 8), &pattern(0, 8, 1));
    assert!(matches!(written, Err(ClientError::Failed(Errno::Io))), "{written:?}");
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_daemon_that_is_stopped_writes_its_buffers_out() {
    let dir = scratch();
    let served = Served::start(&dir);
    let mut client = served.open("v");
    for at in (0..1_600).step_by(80) {
        client.write(extent(at, 8), &pattern(at, 8, 5)).expect("buffered");
    }
    drop(client);
    let status = served.daemon.stop().expect("it stops");
    let buffer = status.volumes[0].write_buffer;
    assert_eq!((buffer.used, buffer.destaged), (Sectors::ZERO, Sectors(160)), "{buffer:?}");
    let again = Served::start(&dir);
    let mut client = again.open("v");
    for at in (0..1_600).step_by(80) {
        assert_eq!(client.read(extent(at, 8)).expect("read"), pattern(at, 8, 5));
    }
    again.daemon.stop().expect("it stops");
}

#[test]
fn what_is_buffered_of_a_deleted_volume_is_in_no_volume_after_it() {
    let dir = scratch();
    let served = Served::start(&dir);
    let mut client = served.open("w");
    client.write(extent(0, 8), &pattern(0, 8, 1)).expect("buffered");
    served.operator.delete("w", true).expect("deleted");
    let edit = config::VolumeEdit { size: Some("64MiB".to_owned()), ..Default::default() };
    let new = spindle_daemon::NewVolume::OnDisk { disk: "d".to_owned(), edit };
    served.operator.create("next", &new).expect("it fits");
    let mut client = served.open("next");
    assert_eq!(client.read(extent(0, 8)).expect("read"), vec![0; 4_096]);
    client.write(extent(0, 8), &pattern(0, 8, 2)).expect("buffered");
    assert_eq!(client.read(extent(0, 8)).expect("read"), pattern(0, 8, 2));
    let status = served.daemon.status().disks[0].write_buffer.expect("it is on");
    assert_eq!(status.memory, Bytes(256 << 20));
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_write_buffer_of_zero_puts_each_write_on_the_medium() {
    let dir = scratch();
    let served = Served::start(&dir);
    let mut client = served.open("through");
    client.write(extent(0, 8), &pattern(0, 8, 1)).expect("written");
    client.flush().expect("flushed");
    let volume = served.volume(2);
    assert_eq!(volume.write_buffer.writes, 0, "{volume:?}");
    assert_eq!(volume.account.requests, 2, "a flush is answered: {volume:?}");
    served.daemon.stop().expect("it stops");
}
