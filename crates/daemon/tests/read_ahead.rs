//! Read-ahead in the host, over NBD: what a client reads from the memory is what the disk holds.

use backend::{Disk, Failure, FaultKind, FaultRule, FaultScript, ScriptedFaults};
use config::Document;
use nbd::client::{Client, ClientError};
use nbd::{Address, Errno};
use spindle_daemon::{Daemon, NewVolume, Operator};
use tempfile::TempDir;
use units::{Extent, Lba, Op, Sectors};

const CONFIG: &str = r#"
[[disk]]
name = "d"
drive = "hgst-7k8"

[[volume]]
name = "v"
disk = "d"
size = "64MiB"
reserve = "50%"

[[volume]]
name = "same"
disk = "d"
same_as = "v"
"#;

/// A read of a client, in sectors.
const READ: u64 = 8;

struct Served {
    daemon: Daemon,
    operator: Operator,
    faults: FaultScript,
    _dir: TempDir,
}

impl Served {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        std::fs::write(dir.path().join("plan.toml"), CONFIG).expect("a file");
        let document = Document::read(&dir.path().join("plan.toml")).expect("a sound config");
        let faults = FaultScript::default();
        let before = |_: &str, disk: Box<dyn Disk>| -> Box<dyn Disk> {
            Box::new(ScriptedFaults::new(disk, faults.clone()))
        };
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let daemon = Daemon::start_behind(document.plan(), &[address], &before);
        let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
        let operator = daemon.operator(document);
        Self { daemon, operator, faults, _dir: dir }
    }

    fn open(&self, volume: &str) -> Client {
        let mut client = Client::connect(&self.daemon.addresses()[0]).expect("it listens");
        client.go(volume).expect("it is served");
        client
    }

    /// The sectors that were read ahead for the first volume.
    fn read_ahead(&self) -> Sectors {
        self.daemon.status().volumes[0].read_ahead.sectors
    }
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
fn a_sequential_client_reads_from_the_memory_and_sees_what_another_client_overwrites() {
    let served = Served::start();
    let (mut reader, mut writer) = (served.open("v"), served.open("same"));
    writer.write(extent(0, 2_048), &pattern(0, 2_048, 1)).expect("written");
    writer.write(extent(2_048, 2_048), &pattern(2_048, 2_048, 1)).expect("written");
    let mut position = 0;
    let mut read = |salt: u8| {
        let found = reader.read(extent(position, READ)).expect("read");
        assert_eq!(found, pattern(position, READ, salt), "at sector {position}");
        position += READ;
        position
    };
    // More has been read ahead than the client has read.
    while served.read_ahead() <= Sectors(read(1)) {}
    let passed = read(1);
    writer.write(extent(passed, 1_024), &pattern(passed, 1_024, 2)).expect("overwritten");
    while read(2) < passed + 1_024 {}
    while read(1) < 4_096 {}
    let status = served.daemon.stop().expect("it stops");
    let reader = &status.volumes[0];
    assert_eq!(reader.account.requests, 4_096 / READ, "requests are the client's: {reader:?}");
    assert_eq!(reader.account.sectors, Sectors(4_096));
    assert!(reader.read_ahead.hits > 0, "{reader:?}");
    assert!(reader.traffic.reads.requests == 4_096 / READ, "so is the traffic: {reader:?}");
}

#[test]
fn trimmed_sectors_read_as_zeroes_although_they_were_read_ahead() {
    let served = Served::start();
    let mut client = served.open("v");
    client.write(extent(0, 2_048), &pattern(0, 2_048, 1)).expect("written");
    let mut position = 0;
    while served.read_ahead() <= Sectors(position) {
        client.read(extent(position, READ)).expect("read");
        position += READ;
    }
    let trim = units::Operation { op: Op::Trim, extent: extent(position, READ), fua: false };
    client.perform(trim, &[]).expect("trimmed");
    assert_eq!(client.read(extent(position, READ)).expect("read"), vec![0; 4_096]);
    let next = position + READ;
    assert_eq!(client.read(extent(next, READ)).expect("read"), pattern(next, READ, 1));
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_bad_sector_fails_the_read_that_wants_it_and_no_other() {
    let served = Served::start();
    let mut client = served.open("v");
    client.write(extent(0, 2_048), &pattern(0, 2_048, 1)).expect("written");
    let kind = FaultKind::Fails(Failure::Io);
    let bad = FaultRule { op: Some(Op::Read), extent: Some(extent(800, 1)), after: 0, kind };
    served.faults.add(bad);
    for position in (0..1_600).step_by(8) {
        let found = client.read(extent(position, READ));
        if position == 800 {
            assert!(matches!(found, Err(ClientError::Failed(Errno::Io))), "{found:?}");
        } else {
            assert_eq!(found.expect("a good sector"), pattern(position, READ, 1), "{position}");
        }
    }
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_volume_that_is_read_ahead_is_deleted_and_the_next_one_starts_empty() {
    let served = Served::start();
    let mut client = served.open("same");
    client.write(extent(0, 2_048), &pattern(0, 2_048, 1)).expect("written");
    let hits = |served: &Served| served.daemon.status().volumes[1].read_ahead.hits;
    let mut position = 0;
    while hits(&served) == 0 {
        client.read(extent(position, READ)).expect("read");
        position += READ;
    }
    served.operator.delete("same", true).expect("deleted");
    served.operator.delete("v", true).expect("deleted");
    let status = served.daemon.status();
    assert!(status.volumes.is_empty(), "{:?}", status.volumes);
    let ahead = status.disks[0].read_ahead.expect("it is on");
    assert_eq!((ahead.used, ahead.memory), (units::Bytes::ZERO, units::Bytes(64 << 20)));
    assert!(ahead.usage.hits > 0, "removed volumes are in the sum: {ahead:?}");
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_volume_with_a_bounded_latency_is_not_read_ahead_from_its_creation_on() {
    let served = Served::start();
    let latency = config::LatencyEdit::Put {
        within: "500ms".to_owned(),
        requests: "5/s".to_owned(),
        burst: None,
        size: "4KiB".to_owned(),
    };
    let size = Some("4MiB".to_owned());
    let edit = config::VolumeEdit { size, latency: Some(latency), ..config::VolumeEdit::default() };
    let new = NewVolume::OnDisk { disk: "d".to_owned(), edit };
    served.operator.create("bounded", &new).expect("it fits");
    let mut client = served.open("bounded");
    for position in (0..1_600).step_by(8) {
        client.read(extent(position, READ)).expect("read");
    }
    let bounded = &served.daemon.status().volumes[2];
    assert_eq!(bounded.read_ahead.sectors, Sectors::ZERO, "{bounded:?}");
    let stats = bounded.bounded.expect("it has a bounded latency");
    assert_eq!(stats.answered + stats.beyond, 200, "the engine has seen each read: {stats:?}");
    served.daemon.stop().expect("it stops");
}
