//! Every row of what the policy `spindle` keeps, accepted and kept: each alone, in pairs, and all
//! on one disk.
//!
//! | row | alone | beside streams | on flash | several commands inside | preemptible |
//! |---|---|---|---|---|---|
//! | reserve | [`a_reserve`] | `beside.rs` | F | [`several_commands_in_the_drive`], D | P |
//! | limit | [`a_limit`] | A, `pools.rs` | [`flash`] | [`several_commands_in_the_drive`], S | A |
//! | weight | [`a_weight`] | A | [`flash`] | [`flash`] | A |
//! | rate | [`a_rate`] | A | [`a_rate_on_flash`] | as a reserve | A |
//! | priority | [`a_priority`] | A | F | S | A |
//! | stream | [`a_stream`], `cameras.rs` | F, `beside.rs` | F | D, S | A |
//! | latency | [`a_bounded_latency`] | F, A | F | D, S | A |
//! | best effort | `beside.rs` | `beside.rs` | F | D, S | A |
//!
//! A: [`all_of_them_on_one_disk`], whose preemptible execution has one command in the drive. F:
//! [`streams_and_latencies_on_flash_with_a_declared_worst_case`]. D:
//! [`several_commands_in_the_drive_beside_streams`]. P: [`preemptible_execution`]. S: generated
//! sets, `deadlines.rs`, with depths of 1 to 8; `seeds.rs` generates whole scenarios.
//!
//! Metadata and relocation of a pool beside streams: `pools.rs`. Pools and real disks are served
//! live: `crates/cli/tests/{pools,real}.rs`, a stream and a latency on a real disk in the latter. A
//! stream and a reserve on one volume: [`a_stream_and_a_reserve_on_one_volume`]. A stream and a
//! latency on one volume are refused by name, and so is every contract by each policy that does not
//! keep it: `crates/config/tests/errors`.

mod common;

use common::{BACKLOG, CAMERA, RECORDING, run};
use stats::VolumeReport;

const SINGLE: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\n\
                      think = { exponential = \"1ms\" }";
/// Ten requests a second.
const SELDOM: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\nrate = \"10/s\"";
const HARD_DISK: &str = "drive = \"hgst-7k8\"";

fn shares(volumes: &[VolumeReport]) -> Vec<f64> {
    volumes.iter().map(|volume| volume.disk_time_share).collect()
}

#[test]
fn a_reserve() {
    let shares = shares(&run(HARD_DISK, &[("reserve = \"30%\"", BACKLOG), ("", BACKLOG)]));
    assert!(shares[0] >= 0.295, "{shares:?}");
}

#[test]
fn a_limit() {
    let shares = shares(&run(HARD_DISK, &[("limit = \"10%\"", BACKLOG), ("", BACKLOG)]));
    assert!(shares[0] <= 0.105 && shares[0] + shares[1] >= 0.99, "{shares:?}");
}

#[test]
fn a_weight() {
    let shares = shares(&run(HARD_DISK, &[("weight = 3", BACKLOG), ("weight = 1", BACKLOG)]));
    let ratio = shares[0] / shares[1];
    assert!((2.5..=3.5).contains(&ratio), "{shares:?}");
}

#[test]
fn a_rate() {
    let volumes = run(HARD_DISK, &[("iops = \"20/s\"\nrun = 1", BACKLOG), ("", BACKLOG)]);
    assert!(volumes[0].iops >= 20.0, "{}", volumes[0].iops);
}

/// Derived from the declared worst case of a command. Without one it is refused.
#[test]
fn a_rate_on_flash() {
    let few = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 2";
    let writes = "op = \"write\"\naccess = \"random\"\nblock = \"256KiB\"\noutstanding = 8";
    let disk = format!("drive = \"{}\"\n{DECLARED}", FLASH[0]);
    let rate = ("iops = \"40/s\"", few);
    let volumes = run(&disk, &[rate, ("reserve = \"50%\"", writes), ("", writes)]);
    assert!(volumes[0].iops >= 40.0, "{:?}", volumes[0]);
    let declared = volumes[0].declared.as_ref().expect("it is reported");
    assert_eq!(declared.warning, None, "{declared:?}");
}

#[test]
fn a_priority() {
    let p99 = |contract: &str| {
        run(HARD_DISK, &[(contract, SINGLE), ("reserve = \"40%\"", BACKLOG)])[0].latency_ms.p99
    };
    let (normal, high) = (p99("limit = \"50%\""), p99("limit = \"50%\"\npriority = \"high\""));
    assert!(high < normal, "{high} ms, {normal} ms without");
}

#[test]
fn a_stream() {
    let volumes = run(HARD_DISK, &[(CAMERA, RECORDING), ("", BACKLOG)]);
    let kept = volumes[0].deadlines.as_ref().expect("a stream has deadlines");
    assert!(kept.met > 35 && kept.missed == 0, "{kept:?}");
}

/// A camera whose volume is read at random as well, ten times a second. Each such read is a block
/// of its own to the stream, seven times as many as it has; the reserve serves them.
#[test]
fn a_stream_and_a_reserve_on_one_volume() {
    let client = format!("{RECORDING}\n[[workload]]\nvolume = \"v0\"\n{SELDOM}");
    let contract = format!("{CAMERA}\nreserve = \"10%\"");
    let backup = ("reserve = \"40%\"", BACKLOG);
    let volumes = run(HARD_DISK, &[(&contract, &client), backup, backup]);
    let kept = volumes[0].deadlines.as_ref().expect("a stream has deadlines");
    let bytes = kept.bytes.expect("its bytes have");
    assert!(kept.missed == 0 && bytes.missed == 0, "{kept:?}");
    assert!(volumes[0].latency_ms.p99 < 1_000.0, "{:?}", volumes[0].latency_ms);
    assert!(volumes[0].requests > 320, "{:?}", volumes[0]);
    for backup in &volumes[1..] {
        assert!(backup.disk_time_share >= 0.395, "{backup:?}");
    }
}

/// One of ten requests a second beside a backlog, whose latency nothing else bounds.
#[test]
fn a_bounded_latency() {
    let latency = "latency = { within = \"80ms\", requests = \"15/s\", size = \"64KiB\" }";
    let volumes = run(HARD_DISK, &[(latency, SELDOM), ("reserve = \"45%\"", BACKLOG)]);
    let stats = volumes[0].bounded_latency.expect("it is counted");
    assert!(stats.answered > 250 && stats.late == 0 && stats.beyond < 10, "{stats:?}");
    assert!(volumes[0].latency_ms.p99 <= 80.0, "{:?}", volumes[0].latency_ms);
}

/// Admission of the config and of the engine agree on what reserves take beside a burst.
#[test]
fn a_burst_within_a_latency_beside_a_large_reserve() {
    let latency =
        "latency = { within = \"200ms\", requests = \"5/s\", burst = 4, size = \"64KiB\" }";
    let bursts = "op = \"read\"\naccess = \"random\"\nblock = \"64KiB\"\nrate = \"4/s\"";
    let volumes = run(HARD_DISK, &[(latency, bursts), ("reserve = \"60%\"", BACKLOG)]);
    let stats = volumes[0].bounded_latency.expect("it is counted");
    assert!(stats.answered > 100 && stats.late == 0, "{stats:?}");
    assert!(volumes[1].disk_time_share >= 0.595, "{}", volumes[1].disk_time_share);
}

/// Reads in chunks, with a decision between any two.
#[test]
fn preemptible_execution() {
    let disk = "drive = \"hgst-7k8\"\nexecution = \"preemptible\"\nchunk = \"256KiB\"";
    let shares = shares(&run(disk, &[("reserve = \"30%\"", BACKLOG), ("", BACKLOG)]));
    assert!(shares[0] >= 0.295, "{shares:?}");
}

/// Reserves are exact with one command in the drive; with several, limits hold and the rest is not
/// lost.
#[test]
fn several_commands_in_the_drive() {
    let disk = "drive = \"hgst-7k8\"\ndepth = 8";
    let volumes = run(disk, &[("reserve = \"30%\"\nlimit = \"40%\"", BACKLOG), ("", BACKLOG)]);
    let (served, shares) = (volumes[0].iops + volumes[1].iops, shares(&volumes));
    assert!(shares[0] <= 0.405 && shares[0] >= 0.25 && served > 130.0, "{shares:?} {served}");
}

#[test]
fn flash() {
    let disk = "drive = \"samsung-870evo-1t\"\ndepth = 8";
    let volumes = [("reserve = \"30%\"\nlimit = \"40%\"", BACKLOG), ("weight = 2", BACKLOG)];
    let shares = shares(&run(disk, &volumes));
    assert!((0.25..=0.405).contains(&shares[0]), "{shares:?}");
}

/// What a user declares of a flash drive or a real disk.
const DECLARED: &str = "worst_case = { command = \"10ms\", rate = \"200MB/s\" }";
/// A stream of 10 MB/s.
const FAST_STREAM: &str = "stream = { bandwidth = \"10MB/s\", block = \"1MB\" }";
/// A client that writes at 9.4 MB/s in requests of 256 KiB.
const FAST_WRITES: &str =
    "op = \"write\"\naccess = \"sequential\"\nblock = \"256KiB\"\nrate = \"36/s\"";
const FLASH: [&str; 2] = ["samsung-870evo-1t", "intel-p4500-2t"];

#[test]
fn streams_and_latencies_on_flash_with_a_declared_worst_case() {
    for drive in FLASH {
        let disk = format!("drive = \"{drive}\"\n{DECLARED}");
        let writes = BACKLOG.replace("read", "write");
        let volumes = run(
            &disk,
            &[
                (FAST_STREAM, FAST_WRITES),
                (FAST_STREAM, FAST_WRITES),
                ("latency = { within = \"60ms\", requests = \"15/s\", size = \"64KiB\" }", SELDOM),
                ("reserve = \"20%\"", BACKLOG),
                ("reserve = \"10%\"", &writes),
                ("", BACKLOG),
                ("limit = \"10%\"\npriority = \"high\"", SELDOM),
            ],
        );
        for stream in &volumes[..2] {
            let kept = stream.deadlines.as_ref().expect("a stream has deadlines");
            assert!(kept.met > 250 && kept.missed == 0, "{kept:?}");
        }
        let stats = volumes[2].bounded_latency.expect("it is counted");
        assert!(stats.answered > 250 && stats.late == 0, "{stats:?}");
        let shares = shares(&volumes);
        assert!(shares[3] >= 0.195 && shares[4] >= 0.095, "{shares:?}");
        let p99 = |index: usize| volumes[index].latency_ms.p99;
        assert!(p99(6) < p99(5), "priority: {} ms, {} ms without", p99(6), p99(5));
    }
}

/// Commands of other volumes are in the drive together where no block needs the disk first: the
/// drive orders them, and they gain from it.
#[test]
fn several_commands_in_the_drive_beside_streams() {
    let latency = "latency = { within = \"300ms\", requests = \"15/s\", size = \"64KiB\" }";
    let flash = format!("drive = \"samsung-870evo-1t\"\n{DECLARED}");
    // In the order of the drive's own queue.
    let hard_disk = format!("{HARD_DISK}\nchooser = \"arrival\"");
    let bounded = (latency, SELDOM);
    let reserve = ("reserve = \"20%\"", BACKLOG);
    for (drive, last, depth, least) in
        [(hard_disk.as_str(), reserve, 8, 1.8), (flash.as_str(), bounded, 16, 2.0)]
    {
        let served = |depth: u32| {
            let disk = format!("{drive}\ndepth = {depth}");
            let volumes =
                run(&disk, &[&[(CAMERA, RECORDING); 4][..], &[("", BACKLOG), last]].concat());
            for camera in &volumes[..4] {
                let kept = camera.deadlines.as_ref().expect("a stream has deadlines");
                assert!(kept.met > 35 && kept.missed == 0, "{disk}: {kept:?}");
            }
            if let Some(stats) = volumes[5].bounded_latency {
                assert!(stats.answered > 250 && stats.late == 0, "{disk}: {stats:?}");
            } else {
                assert!(volumes[5].disk_time_share >= 0.195, "{disk}: {:?}", shares(&volumes));
            }
            volumes[4].iops + volumes[5].iops
        };
        let (alone, deep) = (served(1), served(depth));
        println!("{drive}: {alone:.1} requests a second, {deep:.1} with a depth of {depth}");
        assert!(deep >= least * alone, "{drive}: {deep} requests a second, {alone} one at a time");
    }
}

#[test]
fn all_of_them_on_one_disk() {
    let disk = "drive = \"hgst-7k8\"\ndepth = 8\nhost_lateness = \"1ms\"\n\
                execution = \"preemptible\"\nchunk = \"256KiB\"";
    let volumes = run(
        disk,
        &[
            (CAMERA, RECORDING),
            ("reserve = \"20%\"\nlimit = \"30%\"", BACKLOG),
            ("reserve = \"10%\"\nlimit = \"15%\"\npriority = \"high\"", SELDOM),
            ("iops = \"10/s\"\nrun = 1", BACKLOG),
            ("weight = 2", BACKLOG),
            ("", BACKLOG),
            (
                "latency = { within = \"200ms\", requests = \"5/s\", size = \"64KiB\" }",
                "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\nrate = \"5/s\"",
            ),
        ],
    );
    let kept = volumes[0].deadlines.as_ref().expect("a stream has deadlines");
    assert!(kept.met > 35 && kept.missed == 0, "{kept:?}");
    let shares = shares(&volumes);
    assert!(shares[1] >= 0.195 && shares[1] <= 0.305, "{shares:?}");
    assert!(volumes[2].iops > 9.0 && volumes[2].latency_ms.p99 < 150.0, "{:?}", volumes[2]);
    assert!(volumes[3].iops >= 10.0, "{}", volumes[3].iops);
    assert!(shares[4] > shares[5], "{shares:?}");
    assert!(shares.iter().sum::<f64>() >= 0.98, "{shares:?}");
    let stats = volumes[6].bounded_latency.expect("it is counted");
    assert!(stats.answered > 100 && stats.late == 0, "{stats:?}");
}
