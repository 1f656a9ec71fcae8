//! Streams in parts (RTAS 2000 §3.1): films that use the same disks at different times are played
//! beside each other and no block is late; what a late client asks for outside of a disk's span is
//! best effort and counted, and takes nothing from the others.

use std::path::Path;

use config::{LoadedVolume, Plan, PoolVolumeIndex, Requests, Workload};
use spindle_sim::{Report, Simulation};
use stats::{DeadlinesReport, VolumeReport};
use units::{Bytes, Duration, Extent, Instant, Lba, Operation};

const MIB: u64 = 1 << 20;
/// Of a film, on each disk.
const PART: u64 = 48;
const BANDWIDTH: u64 = 2_000_000;
/// The first volume, which loads both disks all the time.
const LOAD: &str = "[[pool.volume]]\nname = \"rest\"\nsize = \"512MiB\"\nlayout = \"stripe\"\n\
                    reserve = \"20%\"\n[[workload]]\nvolume = \"rest\"\nop = \"mix\"\nread_share = \
                    \"70%\"\naccess = \"random\"\nblock = \"256KiB\"\noutstanding = 16\n";

/// When the film of this number begins: each disk has left the one before when it comes there.
fn start(film: u64) -> u64 {
    1 + film * 32
}

/// A film of two parts on the two disks; without `parts` if they are not to count.
fn film(number: u64, (bandwidth, has_parts): (u64, bool)) -> String {
    let (start, end) = (start(number), start(number) + 62);
    let parts = format!("order = \"sequential\", parts = [\"{PART}MiB\", \"{PART}MiB\"], ");
    let parts = if has_parts { parts } else { String::new() };
    format!(
        "[[pool.volume]]\nname = \"film{number}\"\nsize = \"{}MiB\"\nstream = {{ \
         bandwidth = \"{bandwidth}B/s\", block = \"1MiB\", {parts}span = [\"{start}s\", \
         \"{end}s\"] }}\n",
        2 * PART
    )
}

fn pool(policy: &str) -> String {
    let disk = |disk: u32| {
        format!("[[disk]]\nname = \"d{disk}\"\ndrive = \"atlas-ii\"\npolicy = \"{policy}\"\n")
    };
    format!("duration = \"150s\"\n{}{}[pool]\ndisks = [\"d0\", \"d1\"]\n", disk(0), disk(1))
}

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "plan.toml", Path::new("")).map_err(|error| error.to_string())
}

/// The requests of a client that plays a film from its beginning, `late` after its time.
fn client(number: u64, late: Duration, writes: bool) -> Vec<(Duration, Operation)> {
    let request = |block: u64| {
        let nanos = block * MIB * 1_000_000_000 / BANDWIDTH;
        let at = Duration::from_secs(start(number)) + late + Duration::from_nanos(nanos);
        let extent = Extent::new(Lba(block * MIB / 512), Bytes(MIB).sectors_floor());
        (at, if writes { Operation::write(extent) } else { Operation::read(extent) })
    };
    (0..2 * PART).map(request).collect()
}

/// Runs three films with these clients, beside a volume that takes what they leave.
fn run(policy: &str, clients: Vec<Vec<(Duration, Operation)>>) -> Report {
    let films: String = (0..3).map(|number| film(number, (BANDWIDTH, true))).collect();
    let load = if policy == "spindle" { LOAD } else { "" };
    let text = format!("{}{films}{load}", pool(policy));
    let mut plan = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(clients.len(), 3, "a client for each film");
    for (index, requests) in clients.into_iter().enumerate() {
        let volume = LoadedVolume::Pool(PoolVolumeIndex(index));
        let (requests, start) = (Requests::Timed(requests.into()), Duration::ZERO);
        plan.workloads.push(Workload { volume, requests, start, stop: None, line: 0 });
    }
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(150));
    assert_eq!(simulation.failed(), 0, "no disk fails");
    simulation.report()
}

fn volume(report: &Report, number: u64) -> &VolumeReport {
    let name = format!("film{number}");
    report.volumes.iter().find(|one| one.name == name).expect("it is reported")
}

fn deadlines(report: &Report, number: u64) -> &DeadlinesReport {
    volume(report, number).deadlines.as_ref().expect("it has a stream")
}

#[test]
fn films_that_use_a_disk_at_different_times_are_played_beside_each_other_and_nothing_is_late() {
    let whole: String = (0..2).map(|number| film(number, (BANDWIDTH, false))).collect();
    let refused =
        parse(&(pool("spindle") + &whole)).map(|_| ()).expect_err("both on both disks do not fit");
    assert!(refused.contains("\"film1\""), "{refused}");
    let clients =
        (0..3).map(|number| client(number, Duration::ZERO, number == 1)).collect::<Vec<_>>();
    let report = run("spindle", clients.clone());
    // Twice the block time and the time of one more, as for each stream.
    let promised = 3.0 * 1_048_576.0 / 2_000.0;
    for number in 0..3 {
        let kept = deadlines(&report, number);
        let bytes = kept.bytes.expect("bytes are promised");
        let max = volume(&report, number).latency_ms.max;
        println!(
            "film {number}: {} met, at most {max:.0} of {promised:.0} ms, {bytes:?}",
            kept.met
        );
        assert_eq!((kept.missed, bytes.missed), (0, 0), "{kept:?}");
        assert_eq!((bytes.outside, bytes.out_of_order, bytes.beyond_rate), (0, 0, 0), "{kept:?}");
        assert_eq!(bytes.met, 2 * PART * MIB, "all of it has had its time: {kept:?}");
        assert!(max <= promised, "{max} ms");
    }
    let report = run("edf", clients);
    for number in 0..3 {
        let kept = deadlines(&report, number);
        assert_eq!((kept.met, kept.missed), (2 * PART, 0), "{kept:?}");
    }
}

#[test]
fn a_client_four_blocks_late_is_served_and_one_that_starts_later_is_best_effort_and_counted() {
    let block = Duration::from_nanos(MIB * 1_000_000_000 / BANDWIDTH);
    let run_late = |late: Duration| {
        let clients = (0..3).map(|number| {
            client(number, if number == 0 { late } else { Duration::ZERO }, number == 1)
        });
        let report = run("spindle", clients.collect());
        for number in 1..3 {
            let kept = deadlines(&report, number);
            let bytes = kept.bytes.expect("bytes are promised");
            assert_eq!((kept.missed, bytes.missed, bytes.outside), (0, 0, 0), "{kept:?}");
            assert_eq!(bytes.met, 2 * PART * MIB, "the others have all of their time: {kept:?}");
        }
        let kept = deadlines(&report, 0);
        let bytes = kept.bytes.expect("bytes are promised");
        println!("{late} late: {kept:?}");
        assert_eq!((kept.missed, bytes.missed), (0, 0), "{kept:?}");
        assert_eq!(volume(&report, 0).bytes, 2 * PART * MIB, "all of it is answered");
        bytes
    };
    assert_eq!(run_late(block * 4).outside, 0);
    // A disk's span ends seven blocks after play has left it, the stream's later.
    assert_eq!(run_late(block * 20).outside, 2 * 13 * MIB, "the last blocks of each disk");
}

#[test]
fn what_comes_before_a_disks_span_is_counted_too() {
    let mut clients: Vec<_> = (0..3).map(|number| client(number, Duration::ZERO, false)).collect();
    // A jump to the second disk, as soon as the film begins.
    clients[0][0].1 =
        Operation::read(Extent::new(Lba(PART * MIB / 512), Bytes(MIB).sectors_floor()));
    let report = run("spindle", clients);
    let bytes = deadlines(&report, 0).bytes.expect("bytes are promised");
    assert_eq!((bytes.outside, bytes.missed), (MIB, 0), "{bytes:?}");
    assert!(bytes.out_of_order >= MIB, "a jump is one: {bytes:?}");
}
