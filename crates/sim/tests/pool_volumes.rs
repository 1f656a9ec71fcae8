//! Pools in simulation: clients' requests, snapshots and relocation under the oracles, and one
//! result for one seed.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::{Report, SeededRng, Simulation};
use stats::VolumeReport;
use units::{Duration, Instant};

/// Three disks with these lines, and a pool of them with these volumes, changes and workloads.
fn config(disk: &str, rest: &str) -> String {
    let disks = ["d0", "d1", "d2"]
        .map(|name| format!("[[disk]]\nname = \"{name}\"\ndrive = \"hgst-7k8\"\n{disk}\n"))
        .concat();
    format!(
        "duration = \"15s\"\n{disks}[pool]\ndisks = [\"d0\", \"d1\", \"d2\"]\n\
         relocation_share = \"20%\"\n{rest}"
    )
}

fn plan(disk: &str, rest: &str) -> Plan {
    let text = config(disk, rest);
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).and_then(Plan::for_sim);
    plan.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(plan: &Plan) -> Report {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    assert_eq!(simulation.failed(), 0, "no disk fails");
    simulation.report()
}

fn volume<'a>(report: &'a Report, name: &str) -> &'a VolumeReport {
    report.volumes.iter().find(|volume| volume.name == name).expect("it is reported")
}

fn part<'a>(report: &'a Report, name: &str) -> &'a VolumeReport {
    let parts = &report.pool.as_ref().expect("it has a pool").parts;
    parts.iter().find(|part| part.name == name).expect("it is reported")
}

/// Volumes of every layout that are small enough to be written over and over; one is moved while
/// it is written, one has snapshots, which are read.
const BUSY: &str = r#"
[[pool.volume]]
name = "stripe"
size = "24MiB"
layout = "stripe"
reserve = "20%"

[[pool.volume]]
name = "moved"
size = "64MiB"
disks = ["d2"]
zone = "fast"
from = { zone = "slow", disks = ["d0"] }

[[pool.volume]]
name = "thin"
size = "1GiB"
layout = "random"
thin = true

[[change]]
at = "2s"
volume = "moved"
action = "relocate"

[[change]]
at = "5s"
volume = "stripe"
action = "snapshot"
name = "first"

[[change]]
at = "10s"
volume = "stripe"
action = "snapshot"
name = "second"

[[change]]
at = "10s"
volume = "thin"
action = "snapshot"
name = "of thin"
"#;

fn busy() -> String {
    let mix = "op = \"mix\"\nread_share = \"50%\"\naccess = \"random\"";
    let mut text = BUSY.to_owned();
    for (name, block) in
        [("stripe", "256KiB"), ("stripe", "3MiB"), ("moved", "64KiB"), ("thin", "128KiB")]
    {
        let load = format!("{mix}\nblock = \"{block}\"\noutstanding = 4\nthink = \"5ms\"\n");
        write!(text, "[[workload]]\nvolume = \"{name}\"\n{load}").expect("a string takes all");
    }
    for name in ["first", "second", "of thin"] {
        let load = "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 2\n\
                    think = \"5ms\"\n";
        write!(text, "[[workload]]\nvolume = \"{name}\"\n{load}").expect("a string takes all");
    }
    text
}

#[test]
fn volumes_that_are_moved_and_have_snapshots_hold_what_was_written() {
    for disk in ["", "write_buffer = \"off\"\nread_ahead = \"off\""] {
        let report = run(&plan(disk, &busy()));
        let pool = report.pool.as_ref().expect("it has a pool");
        println!("{:?} {:?}", report.oracles, pool.changes);
        assert!(report.oracles.reads_checked > 1_000, "{:?}", report.oracles);
        for name in ["stripe", "moved", "thin", "first", "second", "of thin"] {
            assert!(volume(&report, name).requests > 10, "{name}: {:?}", volume(&report, name));
        }
        assert!(pool.changes.iter().all(|change| change.error.is_none()), "{:?}", pool.changes);
        // A block that was written at its new place is misplaced until that is committed.
        let (moved, left) = (pool.relocated_bytes, pool.misplaced_bytes);
        assert!(moved >= 32 << 20 && moved + left >= 64 << 20, "{moved} moved, {left} left");
        assert!(pool.relocated_s.is_some_and(|at| at > 2.0), "{:?}", pool.relocated_s);
        assert!(part(&report, "moved on d2").bytes > 0 && part(&report, "moved on d0").bytes > 0);
        assert!(part(&report, "moved on d1").bytes == 0, "no block of it was there");
    }
}

#[test]
fn one_seed_gives_one_result() {
    let plan = plan("", &busy());
    let report = run(&plan);
    assert_eq!(run(&plan), report);
    let other = Plan { seed: 2, ..plan };
    assert_ne!(run(&other).volumes, report.volumes, "another seed sends other requests");
}

#[test]
fn a_stripe_reads_from_all_of_its_disks_and_keeps_its_reserve_on_each() {
    let volumes = r#"
[[pool.volume]]
name = "films"
size = "30GiB"
layout = "stripe"
reserve = "40%"
[[pool.volume]]
name = "rest"
size = "30GiB"
layout = "stripe"
"#;
    let mut text = volumes.to_owned();
    for name in ["films", "rest"] {
        write!(
            text,
            "[[workload]]\nvolume = \"{name}\"\nop = \"read\"\naccess = \"random\"\n\
             block = \"4KiB\"\noutstanding = 48\n"
        )
        .expect("a string takes all");
    }
    let report = run(&plan("depth = 2", &text));
    for disk in ["d0", "d1", "d2"] {
        let share = part(&report, &format!("films on {disk}")).disk_time_share;
        assert!(share >= 0.39, "{disk}: {share}");
    }
    let films = volume(&report, "films");
    assert!(films.disk_time_share >= 1.2 && films.requests > 1_000, "{films:?}");
    assert!(report.oracles.promises_checked > 0, "its reserve was watched on each disk");
}

#[test]
fn a_stream_of_a_pool_is_never_late_while_it_is_moved() {
    let text = r#"
[[pool.volume]]
name = "camera"
size = "2GiB"
disks = ["d1"]
zone = "fast"
from = { zone = "fast", disks = ["d0"] }
stream = { bandwidth = "1.45MB/s", block = "1MiB" }
[[pool.volume]]
name = "rest"
size = "30GiB"
[[workload]]
volume = "camera"
op = "write"
access = "stream"
[[workload]]
volume = "rest"
op = "read"
access = "random"
block = "64KiB"
outstanding = 16
"#;
    let report = run(&plan("", text));
    assert!(report.oracles.deadlines_checked >= 15, "{:?}", report.oracles);
    assert_eq!(volume(&report, "camera").deadline_misses, 0);
    let pool = report.pool.expect("it has a pool");
    assert!(pool.relocated_bytes > 80 << 20, "{} were moved", pool.relocated_bytes);
}

/// Streams in first parts of the disks, as many as are admitted, some of which are moved there
/// from a slower part or another disk: what is admitted holds before, during and after the move.
#[test]
fn no_stream_is_late_in_a_first_part_of_the_disks_nor_on_the_way_there() {
    let (mut blocks, mut moved) = (0, 0);
    for seed in 0..6 {
        let mut rng = SeededRng::new(seed, 1);
        let pick = |rng: &mut SeededRng, words: &[&'static str]| {
            words[usize::try_from(rng.below(words.len() as u64)).expect("few")]
        };
        let mut text = String::new();
        let mut loads = String::new();
        for number in 0.. {
            let zone = pick(&mut rng, &["fastest 1%", "fastest 5%", "fastest 30%"]);
            let before = pick(&mut rng, &["", "fastest 90%", "slow", "fast"]);
            let (disk, other) = (rng.below(3), rng.below(3));
            let rate = 1_000 + rng.below(9_000);
            let mut more = format!(
                "[[pool.volume]]\nname = \"s{number}\"\nsize = \"48MiB\"\ndisks = \
                 [\"d{disk}\"]\nzone = \"{zone}\"\nstream = {{ bandwidth = \"{rate}KB/s\", block \
                 = \"1MiB\" }}\n"
            );
            if !before.is_empty() {
                write!(
                    more,
                    "from = {{ zone = \"{before}\", disks = [\"d{other}\"] }}\n\
                     [[change]]\nat = \"2s\"\nvolume = \"s{number}\"\naction = \"relocate\"\n"
                )
                .expect("a string takes all");
            }
            if Plan::parse(&config("", &format!("{text}{more}")), "plan.toml", Path::new(""))
                .is_err()
            {
                break;
            }
            text += &more;
            let op = pick(&mut rng, &["read", "write"]);
            write!(
                loads,
                "[[workload]]\nvolume = \"s{number}\"\nop = \"{op}\"\naccess = \
                 \"stream\"\n"
            )
            .expect("a string takes all");
        }
        text += "[[pool.volume]]\nname = \"rest\"\nsize = \"30GiB\"\n[[workload]]\nvolume = \
                 \"rest\"\nop = \"read\"\naccess = \"random\"\nblock = \"64KiB\"\noutstanding = \
                 16\n";
        let report = run(&plan("", &(text + &loads)));
        let streams = report.volumes.iter().filter(|volume| volume.name != "rest");
        for stream in streams {
            let kept = stream.deadlines.as_ref().expect("it has a stream");
            assert!(kept.met > 0 && kept.missed == 0, "seed {seed}, {}: {kept:?}", stream.name);
            let bytes = kept.bytes.expect("bytes are promised");
            assert_eq!((bytes.missed, bytes.outside), (0, 0), "seed {seed}, {}", stream.name);
            blocks += kept.met;
        }
        moved += report.pool.expect("it has a pool").relocated_bytes >> 20;
    }
    assert!(blocks > 1_000 && moved > 500, "{blocks} blocks, {moved} MiB moved");
    println!("{blocks} blocks, none late, while {moved} MiB were moved");
}

#[test]
fn a_thin_volume_that_was_never_written_is_read_without_a_disk() {
    let text = r#"
[[pool.volume]]
name = "thin"
size = "1GiB"
thin = true
[[workload]]
volume = "thin"
op = "read"
access = "random"
block = "4KiB"
outstanding = 1
stop = "100ms"
"#;
    let report = run(&plan("", text));
    let thin = volume(&report, "thin");
    assert!(thin.requests == 10_000 && thin.disk_time_share <= 0.0, "10 µs each: {thin:?}");
}

#[test]
fn the_example_keeps_its_contracts() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/serve/pool.toml"));
    let plan = Plan::read(path).and_then(Plan::for_sim).expect("a good scenario");
    let report = run(&Plan { duration: Some(Duration::from_secs(25)), ..plan });
    for name in ["films", "films-monday", "cam01", "scratch"] {
        assert!(volume(&report, name).requests > 10, "{name}: {:?}", volume(&report, name));
    }
    let camera = part(&report, "cam01 on d2").deadlines.as_ref().expect("it has a stream");
    assert!(camera.met > 20 && camera.missed == 0, "{camera:?}");
    let pool = report.pool.as_ref().expect("it has a pool");
    assert!(pool.changes[0].ended_s.is_some_and(|at| at < 22.0), "{:?}", pool.changes);
}
