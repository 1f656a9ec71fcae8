//! A disk that completes commands synchronously is driven by the server's threads: its requests are
//! scheduled and accounted for as those of any disk.

use std::path::Path;

use config::Plan;
use nbd::Address;
use nbd::client::Client;
use spindle_daemon::Daemon;
use units::{DiskTime, Extent, Lba, Op, Operation, Sectors};

const CONFIG: &str = r#"
[[disk]]
name = "d"
drive = "memory"
size = "16MiB"

[[volume]]
name = "kept"
disk = "d"
size = "4MiB"
reserve = "50%"

[[volume]]
name = "limited"
disk = "d"
size = "4MiB"
limit = "1%"
"#;

fn start() -> Daemon {
    let plan = Plan::parse(CONFIG, "plan.toml", Path::new(".")).and_then(Plan::for_serve);
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    Daemon::start(&plan, &[address]).unwrap_or_else(|error| panic!("{error}"))
}

fn open(daemon: &Daemon, volume: &str) -> Client {
    let mut client = Client::connect(&daemon.addresses()[0]).expect("it listens");
    client.go(volume).expect("it is there");
    client
}

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

#[test]
fn it_keeps_what_is_written_and_its_time_is_charged() {
    let daemon = start();
    let (mut kept, mut other) = (open(&daemon, "kept"), open(&daemon, "limited"));
    let data: Vec<u8> = (0..300 * 512_u32).map(|byte| (byte % 251) as u8).collect();
    kept.write(extent(5, 300), &data).expect("written");
    kept.flush().expect("flushed");
    assert_eq!(kept.read(extent(5, 300)).expect("read"), data);
    assert_eq!(other.read(extent(5, 300)).expect("read"), vec![0; data.len()], "it is another's");
    let trim = Operation { op: Op::Trim, extent: extent(5, 100), fua: false };
    kept.perform(trim, &[]).expect("trimmed");
    let zeroed = [vec![0; 100 * 512], data[100 * 512..].to_vec()].concat();
    assert_eq!(kept.read(extent(5, 300)).expect("read"), zeroed);
    let status = daemon.stop().expect("it stops");
    let kept = &status.volumes[0];
    assert_eq!((kept.name.as_str(), kept.account.requests), ("kept", 5));
    assert!(kept.account.disk_time > DiskTime::ZERO, "copying takes time, and it is the volume's");
    assert_eq!(kept.latency.count(), 5);
}

#[test]
fn requests_over_a_limit_wait_for_their_time_and_are_answered() {
    let daemon = start();
    let mut limited = open(&daemon, "limited");
    for place in 0..50 {
        limited.read(extent(place * 8, 8)).expect("answered");
    }
    let status = daemon.stop().expect("it stops");
    assert_eq!(status.volumes[1].account.requests, 50);
    // The bucket is empty at a start, so that the first request at least has to wait for what is
    // estimated of it.
    assert!(status.volumes[1].waiting.max() > units::Duration::ZERO);
}

#[test]
fn clients_of_one_disk_on_several_threads_have_each_its_own_answers() {
    const CLIENTS: u64 = 6;
    const ROUNDS: u64 = 200;
    let daemon = start();
    std::thread::scope(|scope| {
        for place in 0..CLIENTS {
            // Some of them are throttled by their limit, and answered in a later iteration of any
            // thread.
            let limited = place == CLIENTS - 1;
            let mut client = open(&daemon, if limited { "limited" } else { "kept" });
            scope.spawn(move || {
                let extent = extent(place * 256, 256);
                for round in 0..if limited { ROUNDS / 20 } else { ROUNDS } {
                    let byte = u8::try_from((place * ROUNDS + round) % 251).expect("a byte");
                    client.write(extent, &vec![byte; 256 * 512]).expect("written");
                    let read = client.read(extent).expect("read");
                    assert!(read.iter().all(|found| *found == byte), "{place} in round {round}");
                }
            });
        }
    });
    let status = daemon.stop().expect("it stops");
    assert_eq!(status.volumes[0].account.requests, 2 * ROUNDS * (CLIENTS - 1));
    assert_eq!(status.volumes[1].account.requests, 2 * ROUNDS / 20);
}
