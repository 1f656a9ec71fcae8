//! Disks that share a bus: streams that are admitted for it are in time when all disks transfer at
//! once, and streams that were admitted as if each disk were alone are not.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use profiler::bus::{SequentialRates, find_bus};
use spindle_sim::{Report, SeededRng, Simulation};
use units::{Bytes, Duration, Instant};

const LENGTH: Duration = Duration::from_secs(20);
const DRIVES: [&str; 3] = ["atlas-ii", "hgst-7k8", "st318437lw"];

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "bus.toml", Path::new("")).map_err(|error| error.to_string())
}

fn run(plan: &Plan) -> Report {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + LENGTH);
    simulation.report()
}

/// Disks of this drive and policy, on one bus if it has a bandwidth, each with best effort.
fn disks(count: usize, (drive, policy): (&str, &str), bus: Option<u64>) -> String {
    let mut text = String::new();
    let on = match bus {
        Some(bandwidth) => {
            write!(text, "[[bus]]\nname = \"scsi\"\nbandwidth = \"{bandwidth}B/s\"\n")
                .expect("a string takes all");
            "bus = \"scsi\"\n"
        }
        None => "",
    };
    for disk in 0..count {
        write!(
            text,
            "[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\n{on}\
             [[volume]]\nname = \"rest{disk}\"\ndisk = \"d{disk}\"\nsize = \"1GiB\"\n\
             [[workload]]\nvolume = \"rest{disk}\"\nop = \"mix\"\nread_share = \"70%\"\n\
             access = \"random\"\nblock = \"16KiB\"\noutstanding = 4\n"
        )
        .expect("a string takes all");
    }
    text
}

/// A stream, and the client that uses all of it.
fn stream(name: &str, disk: usize, (bandwidth, block): (u64, u64), op: &str) -> String {
    format!(
        "[[volume]]\nname = \"{name}\"\ndisk = \"d{disk}\"\nsize = \"100MiB\"\n\
         stream = {{ bandwidth = \"{bandwidth}B/s\", block = \"{block}B\" }}\n\
         [[workload]]\nvolume = \"{name}\"\nop = \"{op}\"\naccess = \"stream\"\n"
    )
}

/// Adds streams from the seed until three were refused one after the other; returns the text and
/// the number of streams.
fn filled(rng: &mut SeededRng, mut text: String, count: usize) -> (String, usize) {
    let (mut streams, mut refused) = (0, 0);
    while refused < 3 {
        let block = 64 * 1024 * (1 + rng.below(16));
        let bandwidth = 50_000 * (1 + rng.below(40));
        let disk = usize::try_from(rng.below(count as u64)).expect("a few");
        let op = if rng.below(3) == 0 { "write" } else { "read" };
        let with = text.clone() + &stream(&format!("s{streams}"), disk, (bandwidth, block), op);
        if parse(&with).is_ok() {
            (text, streams, refused) = (with, streams + 1, 0);
        } else {
            refused += 1;
        }
    }
    (text, streams)
}

fn met_and_missed(report: &Report) -> (u64, u64) {
    let kept = report.volumes.iter().filter_map(|volume| volume.deadlines.as_ref());
    kept.fold((0, 0), |(met, missed), kept| (met + kept.met, missed + kept.missed))
}

#[test]
fn streams_that_are_admitted_on_disks_of_one_bus_are_in_time_when_all_of_them_transfer() {
    let mut met_all = 0;
    for seed in 0..24 {
        let mut rng = SeededRng::new(seed, 0);
        let count = 2 + usize::try_from(seed % 3).expect("a few");
        let drive = DRIVES[usize::try_from(rng.below(3)).expect("a few")];
        let policy =
            ["spindle", "delta-l", "delta-star"][usize::try_from(seed / 3 % 3).expect("3")];
        let bandwidth = [5_000_000, 10_000_000, 20_000_000, 80_000_000];
        let bandwidth = bandwidth[usize::try_from(rng.below(4)).expect("a few")];
        let empty = disks(count, (drive, policy), Some(bandwidth));
        let (text, streams) = filled(&mut rng, empty, count);
        let report = run(&parse(&text).expect("each stream was admitted"));
        let (met, missed) = met_and_missed(&report);
        assert_eq!(missed, 0, "seed {seed}: {streams} streams on\n{text}");
        met_all += met;
    }
    assert!(met_all > 3_000, "{met_all} blocks");
}

/// Three disks with the most streams of 817 kB/s in blocks of 1 MB that each admits alone.
fn admitted_alone(bus: Option<u64>) -> (String, usize) {
    let mut text = disks(3, ("atlas-ii", "delta-l"), bus);
    let mut streams = 0;
    loop {
        let name = format!("s{streams}");
        let with = text.clone() + &stream(&name, streams % 3, (817_000, 1_000_448), "read");
        if parse(&with).is_err() {
            return (text, streams);
        }
        (text, streams) = (with, streams + 1);
    }
}

#[test]
#[should_panic(expected = "late")]
fn streams_that_are_admitted_without_the_bus_are_late_on_it() {
    let (alone, streams) = admitted_alone(None);
    assert!(streams >= 12, "{streams} streams are admitted");
    let mut plan = parse(&alone).expect("each was admitted");
    let (with_bus, _) = admitted_alone(Some(10_000_000));
    let bus = parse(&with_bus).expect("each was admitted").disks[0].bus.clone();
    // The simulated drives share the bus; the contracts were made without it.
    plan.disks.iter_mut().for_each(|disk| disk.bus.clone_from(&bus));
    run(&plan);
}

#[test]
fn a_refusal_names_the_bus_and_its_disks() {
    let (alone, _) = admitted_alone(None);
    let on_bus = alone.replace("policy = ", "bus = \"scsi\"\npolicy = ");
    let text = format!("[[bus]]\nname = \"scsi\"\nbandwidth = \"10MB/s\"\n{on_bus}");
    let error = parse(&text).expect_err("three disks need more than the bus has");
    let expected = "with the bus \"scsi\" of 10MB/s for 3 disks at once";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_bus_that_is_not_there_or_of_no_use_is_refused_with_its_line() {
    let table = "[[bus]]\nname = \"a\"\nbandwidth = \"10MB/s\"\n";
    let disk =
        |bus: &str| format!("[[disk]]\nname = \"d\"\ndrive = \"atlas-ii\"\nbus = \"{bus}\"\n");
    let refused = |text: &str| parse(text).expect_err("it is refused");
    assert!(refused(&disk("a")).contains("there is none"));
    assert!(refused(&(table.to_owned() + &disk("b"))).contains("one of the buses \"a\""));
    let unused = refused(&(table.to_owned() + &disk("a").replace("bus = \"a\"\n", "")));
    assert!(unused.contains("bus.toml:2") && unused.contains("the bus of a disk"), "{unused}");
    let slow = table.replace("10MB", "10kB") + &disk("a");
    assert!(refused(&slow).contains("bus.toml:3"), "{}", refused(&slow));
    let null = table.to_owned()
        + "[[disk]]\nname = \"d\"\ndrive = \"null\"\nsize = \"1GiB\"\nbus = \"a\"\n";
    assert!(refused(&null).contains("no such field beside drive"));
}

/// The rates at which disks read sequentially, each alone and all together, on this bus.
fn sequential_rates(count: usize, bus: Option<u64>) -> Vec<SequentialRates> {
    let rates = |readers: &[usize]| -> Vec<Bytes> {
        let on = if bus.is_some() { "bus = \"b\"\n" } else { "" };
        let table = |bus| format!("[[bus]]\nname = \"b\"\nbandwidth = \"{bus}B/s\"\n");
        let mut text = bus.map(table).unwrap_or_default();
        for disk in 0..count {
            write!(
                text,
                "[[disk]]\nname = \"d{disk}\"\ndrive = \"atlas-ii\"\npolicy = \"fcfs\"\ndepth = 2\n\
                 {on}[[volume]]\nname = \"v{disk}\"\ndisk = \"d{disk}\"\nsize = \"1GiB\"\n"
            )
            .expect("a string takes all");
        }
        for disk in readers {
            write!(
                text,
                "[[workload]]\nvolume = \"v{disk}\"\nop = \"read\"\naccess = \"sequential\"\n\
                 block = \"512KiB\"\noutstanding = 2\n"
            )
            .expect("a string takes all");
        }
        let report = run(&parse(&text).expect("a sound scenario"));
        readers.iter().map(|disk| Bytes(report.volumes[*disk].bytes / 20)).collect()
    };
    let alone = (0..count).map(|disk| rates(&[disk])[0]);
    let all: Vec<usize> = (0..count).collect();
    let pairs = alone.zip(rates(&all));
    pairs.map(|(alone, together)| SequentialRates { alone, together }).collect()
}

#[test]
fn a_bus_is_found_by_sequential_reads_and_disks_with_their_own_are_not_called_one() {
    for (count, bandwidth) in [(2, 5_000_000), (2, 10_000_000), (3, 10_000_000), (3, 20_000_000)] {
        let rates = sequential_rates(count, Some(bandwidth));
        let found = find_bus(&rates).unwrap_or_else(|| panic!("{bandwidth}: {rates:?}"));
        assert_eq!(found.disks.len(), count, "{rates:?}");
        let range = bandwidth * 97 / 100..=bandwidth;
        assert!(range.contains(&found.bandwidth.0), "{bandwidth}: {found:?}");
    }
    // These three read less than the bus carries, or have no bus in common.
    for bus in [Some(80_000_000), None] {
        let rates = sequential_rates(3, bus);
        assert_eq!(find_bus(&rates), None, "{rates:?}");
    }
}
