//! A recorder that writes through a file system under the contract of a stream: its page cache
//! keeps what it writes for ten seconds, and `fsync` then sends all of it at once, the journal
//! after it, and the record of the commit between two flushes.

use std::fmt::Write as _;
use std::sync::Arc;

use config::{Plan, Requests, Step, VolumeIndex};
use spindle_sim::Simulation;
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

/// Between two calls of `fsync`.
const INTERVAL: Duration = Duration::from_secs(10);
/// The recorder's bytes a second, under a contract of 1.45 MB/s.
const RATE: u64 = 1_430_000;
/// A MiB in sectors.
const MIB: u64 = 2_048;
const CALLS: u64 = 6;

fn written(start: u64, len: u64) -> Operation {
    Operation { op: Op::Write, extent: Extent::new(Lba(start), Sectors(len)), fua: false }
}

/// The requests of the file system, at most `longest` sectors each: of each `fsync`, then of its
/// journal's checkpoint.
fn steps(longest: u64) -> Vec<Step> {
    let each = RATE * INTERVAL.as_nanos() / 1_000_000_000 / 512;
    let (recording, journal) = (4 * 1_024 * MIB, 512 * MIB);
    let mut steps = Vec::new();
    for call in 0..CALLS {
        let at = INTERVAL * (call + 1);
        let first = recording + call * each;
        let pieces = (0..each).step_by(usize::try_from(longest).expect("some"));
        let data = pieces.map(|from| written(first + from, longest.min(each - from)));
        let mut step = |not_before, operations| steps.push(Step { not_before, operations });
        step(at, data.collect());
        step(at, vec![written(journal + call * 56, 48)]);
        step(at, vec![Operation::flush()]);
        step(at, vec![written(journal + call * 56 + 48, 8)]);
        step(at, vec![Operation::flush()]);
        let scattered = [1, 33, 1_000, 260_000].map(|block| written(block * 8, 8));
        step(at + INTERVAL / 2, scattered.to_vec());
    }
    steps
}

/// The longest `fsync` in requests of `longest` sectors beside these volumes, and what the others
/// get a second.
fn longest_sync(longest: u64, others: &[(&str, &str)]) -> (Duration, Vec<f64>) {
    let mut text = String::from(
        "duration = \"80s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\npolicy = \"spindle\"\n\
         [[volume]]\nname = \"recorder\"\ndisk = \"d\"\nsize = \"20GiB\"\n\
         stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }\n\
         [[workload]]\nvolume = \"recorder\"\nop = \"write\"\naccess = \"sequential\"\n\
         block = \"4KiB\"\noutstanding = 1\n",
    );
    for (index, (contract, workload)) in others.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"500GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    let mut plan = Plan::parse(&text, "plan.toml", std::path::Path::new("")).expect("sound");
    let steps = steps(longest);
    plan.workloads[0].requests = Requests::Steps(Arc::from(&*steps));
    let mut simulation = Simulation::new(&plan);
    let (mut wanted, mut slowest, mut now) = (0, Duration::ZERO, Instant::ZERO);
    for step in &steps {
        wanted += step.operations.len() as u64;
        let begun = Instant::ZERO + step.not_before;
        now = now.max(begun);
        simulation.run_until(now);
        while simulation.volume(VolumeIndex(0)).requests < wanted {
            now += Duration::from_millis(10);
            assert!(now < begun + INTERVAL * 3, "the recorder falls behind");
            simulation.run_until(now);
        }
        slowest = slowest.max(now.since(begun));
    }
    let report = simulation.report();
    let kept = report.volumes[0].deadlines.expect("it has deadlines");
    assert_eq!((kept.missed, kept.bytes.expect("bytes").missed), (0, 0), "none is late");
    (slowest, report.volumes[1..].iter().map(|volume| volume.iops).collect())
}

const RANDOM: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 16";
const BACKUP: &str = "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4";

/// Of what is written at once 14 MB are 14 periods of the stream, 10 s: they have the disk time
/// that is not reserved, in whatever requests the block layer merges them to.
#[test]
fn fsync_of_a_recorder_is_short_beside_two_backups() {
    let slow = format!("{BACKUP}\nthink = {{ exponential = \"20ms\" }}");
    for longest in [MIB, 10 * MIB] {
        for neighbour in [BACKUP, &slow, RANDOM] {
            let forty = ("reserve = \"40%\"", neighbour);
            let (fsync, backups) = longest_sync(longest, &[forty, forty]);
            println!("{longest} sectors: fsync {fsync}, neighbours {backups:.1?}");
            assert!(fsync <= Duration::from_millis(3_200), "{longest} sectors: {fsync}");
        }
    }
}
