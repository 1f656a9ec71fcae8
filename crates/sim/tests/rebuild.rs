//! How fast the copies of a mirror are made equal, and what that and a relocation leave to others.

use std::path::Path;

use config::{DiskIndex, Plan};
use spindle_sim::Simulation;
use units::{Duration, Instant};

const DISKS: &str = "duration = \"170s\"\n[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n\
                     [[disk]]\nname = \"d1\"\ndrive = \"hgst-7k8\"\n\
                     [[disk]]\nname = \"d2\"\ndrive = \"hgst-7k8\"\n\
                     [pool]\ndisks = [\"d0\", \"d1\", \"d2\"]\n";

fn plan(rest: &str) -> Plan {
    plan_with("", rest)
}

/// The scenario with `keys` of its own, such as a seed.
fn plan_with(keys: &str, rest: &str) -> Plan {
    let plan = Plan::parse(&format!("{keys}{DISKS}{rest}"), "plan.toml", Path::new(""));
    plan.and_then(Plan::for_sim).expect("a sound scenario")
}

/// From after the first second on another disk takes the second one's place.
fn rebuilding(plan: &Plan) -> Simulation {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(1));
    simulation.replace_disk(DiskIndex(1));
    simulation
}

const MIRROR: &str = "rebuild = { reserve = \"20%\" }\n[[pool.volume]]\nname = \"v\"\n\
                      size = \"4GiB\"\nlayout = \"mirror\"\ndisks = [\"d0\", \"d1\"]\n";
/// A neighbour that sends a request, and then none for a long time.
const IDLE: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
                    block = \"4KiB\"\noutstanding = 1\nthink = \"1000s\"\n";
const SINGLE: &str = "[[pool.volume]]\nname = \"v\"\nsize = \"64GiB\"\ndisks = [\"d0\"]\n";

const GIBIBYTES: u32 = 4;
const READS: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"sequential\"\n\
                     block = \"1MiB\"\noutstanding = 4\n";

/// The blocks of 1 MiB that one disk reads in order in a second.
fn sequential() -> f64 {
    let mut simulation = Simulation::new(&plan(&format!("{SINGLE}{READS}")));
    let mut answered = |seconds: u32| {
        simulation.run_until(Instant::ZERO + Duration::from_secs(u64::from(seconds)));
        f64::from(u32::try_from(simulation.report().volumes[0].requests).unwrap())
    };
    let before = answered(2);
    (answered(12) - before) / 10.0
}

/// The blocks that are made equal in a second, of a whole disk that takes another's place.
fn rebuilt(text: &str) -> f64 {
    let mut simulation = rebuilding(&plan(text));
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let mut run_while = |is_stale: bool| {
        while (simulation.stale_blocks() > 0) == is_stale {
            now += Duration::from_millis(10);
            simulation.run_until(now);
        }
        now
    };
    let begin = run_while(false);
    let now = run_while(true);
    f64::from(GIBIBYTES) * 1024.0 / now.since(begin).as_secs_f64()
}

/// The samples in a second, and in a window of two.
const RATE: u32 = 20;
const WINDOW: usize = 40;

fn sample(nth: u32) -> Instant {
    Instant::ZERO + Duration::from_millis(1_000 / u64::from(RATE)) * u64::from(nth)
}

const RANDOM: &str = "[[workload]]\nvolume = \"n\"\nop = \"read\"\naccess = \"random\"\n\
                      block = \"4KiB\"\noutstanding = 16\n";

/// The requests in each second of a neighbour on the disk that takes another's place, and on one
/// that stays.
fn neighbours(is_rebuilding: bool) -> Vec<u32> {
    let neighbour = "[[pool.volume]]\nname = \"n\"\nsize = \"256MiB\"\nlayout = \"mirror\"\n\
                     disks = [\"d1\", \"d2\"]\nreserve = \"60%\"\n[[pool.volume]]\n";
    let mirror = MIRROR.replace("4GiB", "64GiB").replacen("[[pool.volume]]\n", neighbour, 1);
    let mut simulation = Simulation::new(&plan(&format!("{mirror}{RANDOM}")));
    simulation.run_until(Instant::ZERO + Duration::from_secs(1));
    if is_rebuilding {
        simulation.replace_disk(DiskIndex(1));
    }
    // Its own copies are equal by then.
    let answered = (6 * RATE..=24 * RATE).map(|nth| {
        simulation.run_until(sample(nth));
        u32::try_from(simulation.report().volumes[0].requests).unwrap()
    });
    let answered: Vec<u32> = answered.collect();
    assert!(!is_rebuilding || simulation.stale_blocks() > 0, "it is still rebuilding");
    answered.windows(WINDOW + 1).map(|window| window[WINDOW] - window[0]).collect()
}

#[test]
fn a_rebuild_leaves_its_neighbours_their_reserves() {
    let (alone, beside) = (neighbours(false), neighbours(true));
    println!("{alone:?}, and beside the rebuild {beside:?}");
    let mean =
        f64::from(alone.iter().sum::<u32>()) / f64::from(u32::try_from(alone.len()).unwrap());
    for window in beside {
        assert!(f64::from(window) >= 0.58 * mean, "{window} of {mean}");
    }
}

/// A mirror that is rebuilt from a disk on which two volumes have reserves, and one a stream.
const BESIDE_RESERVES: &str = "metadata_share = \"1%\"\nrelocation_share = \"1%\"\n\
    rebuild = { reserve = \"20%\" }\n\
    [[pool.volume]]\nname = \"a\"\nsize = \"256MiB\"\ndisks = [\"d0\"]\nreserve = \"40%\"\n\
    [[pool.volume]]\nname = \"b\"\nsize = \"256MiB\"\ndisks = [\"d0\"]\nreserve = \"30%\"\n\
    [[pool.volume]]\nname = \"s\"\nsize = \"256MiB\"\ndisks = [\"d0\"]\n\
    stream = { bandwidth = \"1MB/s\", block = \"1MB\" }\n\
    [[pool.volume]]\nname = \"v\"\nsize = \"64GiB\"\nlayout = \"mirror\"\n\
    disks = [\"d0\", \"d1\"]\n\
    [[workload]]\nvolume = \"a\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
    outstanding = 32\n\
    [[workload]]\nvolume = \"b\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
    outstanding = 32\n\
    [[workload]]\nvolume = \"s\"\nop = \"read\"\naccess = \"stream\"\n";

/// The least share of the disk that is read which each part had in any window of two seconds, and
/// its share of all of the time, from one second to another.
fn shares_within(
    simulation: &mut Simulation,
    parts: [&str; 3],
    (from, to): (u32, u32),
) -> [(f64, f64); 3] {
    let spent = |nth: u32| {
        simulation.run_until(sample(nth));
        let (report, seconds) = (simulation.report(), f64::from(nth) / f64::from(RATE));
        let pool = report.pool.as_ref().expect("there is one");
        parts.map(|name| {
            let part = pool.parts.iter().find(|part| part.name == name).expect("it is there");
            part.disk_time_share * seconds
        })
    };
    let spent: Vec<[f64; 3]> = (from * RATE..=to * RATE).map(spent).collect();
    [0, 1, 2].map(|part| {
        let windows = spent.windows(WINDOW + 1);
        let share = |window: &[[f64; 3]]| (window[WINDOW][part] - window[0][part]) / 2.0;
        let all = (spent[spent.len() - 1][part] - spent[0][part]) / f64::from(to - from);
        (windows.map(share).fold(1.0, f64::min), all)
    })
}

/// The same from the 5th second to the 24th.
fn shares(simulation: &mut Simulation, parts: [&str; 3]) -> [(f64, f64); 3] {
    shares_within(simulation, parts, (5, 24))
}

#[test]
fn reserves_a_stream_and_a_rebuild_keep_what_they_have_beside_each_other() {
    let mut simulation = rebuilding(&plan(BESIDE_RESERVES));
    let [a, b, rebuild] = shares(&mut simulation, ["a on d0", "b on d0", "rebuild on d0"]);
    println!("{a:.3?}, {b:.3?}, rebuild {rebuild:.3?}");
    assert!(simulation.stale_blocks() > 0, "it is still rebuilding");
    for ((least, all), reserve) in [(a, 0.4), (b, 0.3)] {
        assert!(least >= reserve - 0.02, "{least} of a reserve of {reserve} in two seconds");
        // A quantum begins and ends with the 19 seconds.
        assert!(all >= reserve - 0.01, "{all} of a reserve of {reserve}");
    }
    // It waits for its flushes and records, and takes what it had not used then.
    assert!(rebuild.1 >= 0.19, "the rebuild has {} of its floor of 0.2", rebuild.1);
    let report = simulation.report();
    let stream = report.volumes.iter().find(|volume| volume.name == "s").expect("it is there");
    let kept = stream.deadlines.as_ref().expect("a stream has deadlines");
    assert!(kept.met > 15 && kept.missed == 0, "{kept:?}");
}

/// What takes all that no volume has reserved.
const BEST_EFFORT: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
                           block = \"4KiB\"\noutstanding = 16\n";

/// Its bursts are irregular, as it waits for its flushes, its records and its limit; and others
/// have what it leaves, if there are any. It has its floor on the disk that it writes, which it
/// waits for on the others.
#[test]
fn beside_a_rebuild_with_a_limit_reserves_lack_two_points_at_most_in_any_two_seconds() {
    let (floor, limited) = ("reserve = \"20%\"", "reserve = \"20%\", limit = \"20%\"");
    let scenario = BESIDE_RESERVES.replacen(floor, limited, 1);
    for (seed, others) in (1..=5).flat_map(|seed| [(seed, ""), (seed, BEST_EFFORT)]) {
        let plan = plan_with(&format!("seed = {seed}\n"), &format!("{scenario}{others}"));
        let mut simulation = rebuilding(&plan);
        let parts = ["a on d0", "b on d0", "rebuild on d1"];
        let [a, b, rebuild] = shares(&mut simulation, parts);
        println!("{seed}: {a:.3?}, {b:.3?}, rebuild {rebuild:.3?}{others}");
        assert!((0.19..=0.21).contains(&rebuild.1), "{seed}: the rebuild has {}", rebuild.1);
        assert!(a.0 >= 0.38 && b.0 >= 0.28, "{seed}: {} and {} in two seconds", a.0, b.0);
    }
}

/// Two volumes and a relocation have all of a disk that takes up to 75 ms for a block.
const BESIDE_A_RELOCATION: &str = "duration = \"70s\"\n\
    [[disk]]\nname = \"d0\"\ndrive = \"deskstar-34gxp\"\n\
    [[disk]]\nname = \"d1\"\ndrive = \"deskstar-34gxp\"\n\
    [pool]\ndisks = [\"d0\", \"d1\"]\nmetadata_share = \"1%\"\nrelocation_share = \"10%\"\n\
    [[pool.volume]]\nname = \"a\"\nsize = \"2GiB\"\ndisks = [\"d0\"]\nreserve = \"50%\"\n\
    [[pool.volume]]\nname = \"b\"\nsize = \"2GiB\"\ndisks = [\"d0\"]\nreserve = \"39%\"\n\
    [[pool.volume]]\nname = \"moved\"\nsize = \"8GiB\"\ndisks = [\"d1\"]\n\
    from = { zone = \"any\", disks = [\"d0\"] }\n\
    [[workload]]\nvolume = \"a\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
    outstanding = 32\n\
    [[workload]]\nvolume = \"b\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
    outstanding = 32\n";

/// The volumes beside the relocation lack two points of two seconds at most, and it has its share.
fn assert_kept_beside_a_relocation(seed: u64, outstanding: u32, seconds: (u32, u32)) {
    let scenario = format!("seed = {seed}\n{BESIDE_A_RELOCATION}");
    let scenario = scenario.replace("outstanding = 32", &format!("outstanding = {outstanding}"));
    let plan = Plan::parse(&scenario, "plan.toml", Path::new(""));
    let mut simulation = Simulation::new(&plan.and_then(Plan::for_sim).expect("sound"));
    let parts = ["a on d0", "b on d0", "relocation on d0"];
    let [a, b, relocation] = shares_within(&mut simulation, parts, seconds);
    println!("{seed}: {a:.3?}, {b:.3?}, relocation {relocation:.3?}");
    assert!(relocation.1 >= 0.095, "it has {} of 0.1", relocation.1);
    assert!(a.0 >= 0.48 && b.0 >= 0.37, "seed {seed}: {} of 0.5, {} of 0.39", a.0, b.0);
}

/// In three turns of 66 ms it reads a quarter of a block more or less: 15 ms of two seconds. Whole
/// blocks, each of up to 75 ms, would be up to 3 points of others.
#[test]
fn beside_a_relocation_reserves_lack_two_points_at_most_in_any_two_seconds() {
    for seed in 1..=5 {
        assert_kept_beside_a_relocation(seed, 32, (5, 24));
    }
}

/// Later what was read waits for the disk that it is written to, and its turns to read are late.
/// Those that put off others, and commits of single blocks, cost half of the disk 3.6 points.
#[test]
fn beside_a_relocation_that_waits_reserves_lack_two_points_at_most_in_any_two_seconds() {
    for seed in [5, 23, 24] {
        assert_kept_beside_a_relocation(seed, 64, (30, 60));
    }
}

#[test]
fn a_rebuild_beside_idle_neighbours_runs_at_nine_tenths_of_the_sequential_rate() {
    let (sequential, rebuilt) = (sequential(), rebuilt(&format!("{MIRROR}{IDLE}")));
    println!("{rebuilt} of {sequential} MiB/s: {}", rebuilt / sequential);
    assert!(rebuilt / sequential >= 0.9, "{}", rebuilt / sequential);
}

/// Volumes with reserves of 40 and 30 % and a stream on each disk that a rebuild reads or writes.
fn busy_neighbours() -> String {
    let volume = |name: &str, (disk, rest): (&str, &str), contract: &str| {
        format!(
            "[[pool.volume]]\nname = \"{name}-{disk}\"\nsize = \"256MiB\"\n{rest}\n{contract}\n"
        )
    };
    let load = |name: &str, disk: &str, rest: &str| {
        format!("[[workload]]\nvolume = \"{name}-{disk}\"\nop = \"read\"\naccess = {rest}\n")
    };
    let random = "\"random\"\nblock = \"4KiB\"\noutstanding = 32";
    let stream = "stream = { bandwidth = \"1MB/s\", block = \"1MB\" }";
    // What is on the disk that is replaced has another copy.
    let copied = ("d1", "layout = \"mirror\"\ndisks = [\"d1\", \"d2\"]");
    let of_disk = |disk: (&str, &str)| {
        let volumes = [
            volume("forty", disk, "reserve = \"40%\""),
            volume("thirty", disk, "reserve = \"30%\""),
            volume("stream", disk, stream),
        ];
        let loads = [
            load("forty", disk.0, random),
            load("thirty", disk.0, random),
            load("stream", disk.0, "\"stream\""),
        ];
        [volumes.concat(), loads.concat()].concat()
    };
    [of_disk(("d0", "disks = [\"d0\"]")), of_disk(copied)].concat()
}

/// The share of the written disk's time that a rebuild of a large mirror has, beside `rest`, and
/// its blocks a second: from one record to another, some 30 s later.
fn floor(limit: &str, rest: &str) -> (f64, f64) {
    let rebuild = format!("\"20%\"{limit} }}");
    let mirror = MIRROR.replace("4GiB", "64GiB").replace("\"20%\" }", &rebuild);
    let mut simulation = rebuilding(&plan(&format!("relocation_share = \"1%\"\n{mirror}{rest}")));
    let mut recorded_after = |seconds: u64| {
        let mut now = Instant::ZERO + Duration::from_secs(seconds);
        simulation.run_until(now);
        let before = simulation.stale_blocks();
        while simulation.stale_blocks() == before {
            now += Duration::from_millis(10);
            simulation.run_until(now);
        }
        let report = simulation.report();
        let kept = report.volumes.iter().filter_map(|one| one.deadlines.as_ref());
        assert_eq!(kept.map(|kept| kept.missed).sum::<u64>(), 0, "no block of a stream is late");
        let pool = report.pool.as_ref().expect("there is one");
        let part = pool.parts.iter().find(|part| part.name == "rebuild on d1");
        let seconds = now.since(Instant::ZERO).as_secs_f64();
        let spent = part.expect("it is there").disk_time_share * seconds;
        (seconds, spent, u32::try_from(simulation.stale_blocks()).expect("few"))
    };
    // The copies of the neighbours are equal by then.
    let (before, after) = (recorded_after(40), recorded_after(70));
    assert!(after.2 > 0, "it is still rebuilding");
    let seconds = after.0 - before.0;
    ((after.1 - before.1) / seconds, f64::from(before.2 - after.2) / seconds)
}

/// It has the floor's time, whatever its neighbours do, and makes as much equal in it.
#[test]
fn a_rebuild_has_the_time_of_its_floor_within_a_twentieth() {
    let limit = ", limit = \"20%\"";
    let (alone, beside) = (floor(limit, IDLE), floor(limit, &busy_neighbours()));
    let slack = floor("", &busy_neighbours());
    println!("{alone:.4?} alone, {beside:.4?} beside others, {slack:.4?} with slack");
    for (share, _) in [alone, beside] {
        assert!((0.19..=0.21).contains(&share), "{share} of a floor and limit of a fifth");
    }
    assert!(slack.0 >= 0.19, "{} of a floor of a fifth", slack.0);
    let kept = beside.1 / alone.1;
    assert!((0.95..=1.05).contains(&kept), "{kept} of its speed alone");
}
