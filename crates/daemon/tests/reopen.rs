//! Disks that are reopened while clients are connected.

use backend::{Disk, Failure, FaultKind, FaultRule, FaultScript, ScriptedFaults};
use config::Document;
use nbd::client::{Client, ClientError};
use nbd::{Address, Errno};
use spindle_daemon::{ChangeError, Daemon, DiskState, Operator};
use tempfile::TempDir;
use units::{Extent, Lba, Op, Sectors};

/// A real disk, a memory disk whose flushes fail, a disk that goes offline, and a healthy disk.
const CONFIG: &str = r#"
[[disk]]
name = "real"
path = "disk.img"
depth = 4
write_buffer = "off"

[[disk]]
name = "memory"
drive = "memory"
size = "1MiB"
faults = { flush = "100%" }

[[disk]]
name = "leaving"
drive = "samsung-870evo-1t"
faults = { vanish_after = 2 }

[[disk]]
name = "well"
drive = "memory"
size = "1MiB"

[[volume]]
name = "r"
disk = "real"
size = "1MiB"

[[volume]]
name = "m"
disk = "memory"
size = "1MiB"

[[volume]]
name = "l"
disk = "leaving"
size = "1MiB"
"#;

const BLOCK: Extent = Extent::new(Lba(16), Sectors(8));

struct Served {
    daemon: Daemon,
    operator: Operator,
    faults: FaultScript,
    dir: TempDir,
}

impl Served {
    fn start() -> Self {
        // Beside the test, which is on a disk: direct access may not be had where temporary files
        // are.
        let beside = std::env::current_exe().expect("it runs");
        let dir = tempfile::tempdir_in(beside.parent().expect("it lies somewhere"));
        let dir = dir.expect("a scratch directory");
        let file = std::fs::File::create(dir.path().join("disk.img")).expect("a file");
        file.set_len(8 << 20).expect("a sparse one");
        std::fs::write(dir.path().join("plan.toml"), CONFIG).expect("a file");
        let document = Document::read(&dir.path().join("plan.toml")).expect("a sound config");
        let faults = FaultScript::default();
        let before = |name: &str, disk: Box<dyn Disk>| -> Box<dyn Disk> {
            match name {
                "real" => Box::new(ScriptedFaults::new(disk, faults.clone())),
                _ => disk,
            }
        };
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let daemon = Daemon::start_behind(document.plan(), &[address], &before);
        let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
        let operator = daemon.operator(document);
        Self { daemon, operator, faults, dir }
    }

    fn open(&self, volume: &str) -> Client {
        let mut client = Client::connect(&self.daemon.addresses()[0]).expect("it listens");
        client.go(volume).expect("it is served");
        client
    }

    fn state(&self, disk: &str) -> DiskState {
        let status = self.daemon.status();
        status.disks.iter().find(|one| one.name == disk).expect("it is served").health.state
    }

    fn refused(&self, disk: &str) -> String {
        match self.operator.reopen(disk) {
            Err(ChangeError::Refused(why)) => why,
            other => panic!("it is refused, not {other:?}"),
        }
    }
}

fn fails<T: std::fmt::Debug>(answer: &Result<T, ClientError>) {
    assert!(matches!(answer, Err(ClientError::Failed(Errno::Io))), "{answer:?}");
}

#[test]
fn a_real_disk_whose_flush_failed_is_written_again_when_it_was_opened_again() {
    let served = Served::start();
    let mut client = served.open("r");
    client.write(BLOCK, &[1; 4_096]).expect("it is written");
    let what = FaultKind::Fails(Failure::Io);
    served.faults.add(FaultRule { op: Some(Op::Flush), extent: None, after: 0, kind: what });
    fails(&client.flush());
    fails(&client.write(BLOCK, &[2; 4_096]));
    assert_eq!(served.state("real"), DiskState::Poisoned);
    served.operator.reopen("real").expect("it is there");
    assert_eq!(served.state("real"), DiskState::Healthy);
    assert_eq!(client.read(BLOCK).expect("the same client goes on"), [1; 4_096]);
    client.write(BLOCK, &[3; 4_096]).expect("it is written");
    client.flush().expect("and flushed");
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_disk_that_cannot_be_opened_again_is_gone_and_can_be_tried_once_more() {
    let served = Served::start();
    let mut client = served.open("r");
    served.faults.add(FaultRule {
        op: None,
        extent: None,
        after: 0,
        kind: FaultKind::Fails(Failure::Offline),
    });
    fails(&client.read(BLOCK));
    let (file, away) = (served.dir.path().join("disk.img"), served.dir.path().join("away.img"));
    std::fs::rename(&file, &away).expect("it is there");
    assert!(served.refused("real").contains("disk.img"));
    assert_eq!(served.state("real"), DiskState::Offline);
    fails(&client.read(BLOCK));
    std::fs::rename(&away, &file).expect("it is there");
    served.operator.reopen("real").expect("it is back");
    assert_eq!(client.read(BLOCK).expect("it is read"), [0; 4_096]);
    served.daemon.stop().expect("it stops");
}

#[test]
fn emulated_disks_keep_what_they_hold_and_fail_as_they_are_told_to() {
    let served = Served::start();
    let (mut memory, mut leaving) = (served.open("m"), served.open("l"));
    for _ in 0..2 {
        memory.write(BLOCK, &[7; 4_096]).expect("it is written");
        fails(&memory.flush());
        fails(&memory.write(BLOCK, &[8; 4_096]));
        served.operator.reopen("memory").expect("it is there");
        assert_eq!(memory.read(BLOCK).expect("it is read"), [7; 4_096]);
    }
    for _ in 0..2 {
        leaving.read(BLOCK).expect("it is there");
        leaving.read(BLOCK).expect("it is there");
        fails(&leaving.read(BLOCK));
        assert_eq!(served.state("leaving"), DiskState::Offline);
        served.operator.reopen("leaving").expect("it comes back");
    }
    served.daemon.stop().expect("it stops");
}

#[test]
fn a_disk_that_is_well_or_not_there_is_not_opened_again() {
    let served = Served::start();
    assert_eq!(served.refused("well"), "disk \"well\" is healthy: there is nothing to reopen");
    assert_eq!(served.refused("none"), "disk \"none\" is not there");
    served.daemon.stop().expect("it stops");
}
