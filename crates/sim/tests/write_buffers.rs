//! Writes that are buffered in the host and paid for by the volume that wrote, under the policy
//! `spindle`.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::{SeededRng, Simulation};
use units::{Duration, Instant, Share};

use self::writers::{DATABASE, LARGE_WRITES, RANDOM_WRITES, READER, rates};

#[path = "common/writers.rs"]
mod writers;

const LARGE_READS: &str =
    "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4\n";

/// A disk with write buffers, and volumes, each with its contract and its workload.
fn plan(drive: &str, volumes: &[(&str, &str)]) -> Plan {
    sized("100GiB", drive, volumes)
}

/// The same with volumes of this size.
fn sized(size: &str, drive: &str, volumes: &[(&str, &str)]) -> Plan {
    writers::plan(&format!("drive = \"{drive}\""), size, volumes)
}

/// A volume alone on a flash drive.
fn flash_plan(drive: &str, limit: &str, workload: &str) -> Plan {
    let text = format!(
        "[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         [[volume]]\nname = \"v0\"\ndisk = \"d\"\nsize = \"100GiB\"\n{limit}\n\
         [[workload]]\nvolume = \"v0\"\n{workload}"
    );
    Plan::parse(&text, "flash.toml", Path::new("")).expect("a sound scenario")
}

/// The requests of the first volume in two seconds, behind two in which the drive's buffer fills,
/// and its percentage of the disk's time then.
fn short_rate(plan: &Plan) -> (f64, f64) {
    let mut simulation = Simulation::new(plan);
    let until = |seconds: u32| {
        simulation.run_until(Instant::ZERO + Duration::from_secs(u64::from(seconds)));
        let volume = &simulation.report().volumes[0];
        (volume.requests, volume.disk_time_share * f64::from(seconds))
    };
    let [before, after] = [2, 4].map(until);
    #[expect(clippy::cast_precision_loss, reason = "a rate is compared with a bound")]
    let rate = (after.0 - before.0) as f64;
    (rate, 100.0 * (after.1 - before.1) / 2.0)
}

#[test]
fn a_limit_holds_for_writes_that_are_answered_from_memory() {
    let longer = RANDOM_WRITES.replace("4KiB", "64KiB");
    let drives = ["hgst-7k8", "barracuda-2t", "nearline-20t"];
    for (drive, workload) in
        drives.into_iter().flat_map(|drive| [(drive, RANDOM_WRITES), (drive, longer.as_str())])
    {
        let rate = |limit: &str| rates(&plan(drive, &[(limit, workload)]));
        let whole = rate("").0[0];
        for limit in [10_u8, 30, 60] {
            let (limited, report) = rate(&format!("limit = \"{limit}%\""));
            let part = 100.0 * limited[0] / whole;
            let time = 100.0 * report.volumes[0].disk_time_share;
            println!("{drive}: {part:.1} % of {whole:.1} a second in {time:.1} % at {limit} %");
            let bound = f64::from(limit);
            assert!(
                part <= bound + 2.0,
                "{drive}: {part:.1} % of {whole:.1} a second at {limit} %"
            );
            // It is of disk time: a volume that waits for its limit between two commands has less
            // of the order among many than one that does not.
            assert!((time - bound).abs() <= 1.0, "{drive}: {time:.1} % of the time at {limit} %");
        }
    }
}

#[test]
fn a_limit_holds_for_long_sequential_writes() {
    for drive in ["hgst-7k8", "barracuda-2t", "nearline-20t"] {
        let rate = |limit: &str| rates(&plan(drive, &[(limit, LARGE_WRITES)])).0[0];
        let whole = rate("");
        for limit in [10_u8, 30, 60] {
            let limited = rate(&format!("limit = \"{limit}%\""));
            let part = 100.0 * limited / whole;
            println!("{drive}: {limited:.1} of {whole:.1} a second, {part:.1} % at {limit} %");
            let bound = f64::from(limit);
            assert!(part <= bound + 2.0, "{drive}: {part:.1} % of {whole:.1} at {limit} %");
            // A volume with a limit does not use the drive's buffer: 16 MiB lose a revolution.
            assert!(part >= 0.75 * bound, "{drive}: {part:.1} % of {whole:.1} at {limit} %");
        }
    }
}

#[test]
fn a_limit_holds_for_what_a_flash_drive_stores_later() {
    let longer = RANDOM_WRITES.replace("4KiB", "64KiB");
    for drive in ["intel-p4500-2t", "samsung-870evo-1t"] {
        for workload in [RANDOM_WRITES, longer.as_str(), LARGE_WRITES] {
            let rate = |limit: &str| short_rate(&flash_plan(drive, limit, workload));
            let whole = rate("").0;
            for limit in [10_u8, 30, 60] {
                let (limited, time) = rate(&format!("limit = \"{limit}%\""));
                let part = 100.0 * limited / whole;
                println!("{drive}: {part:.1} % of {whole:.1} in {time:.1} % at {limit} %");
                let bound = f64::from(limit);
                assert!(
                    part <= bound + 2.0,
                    "{drive}: {part:.1} % of {whole} at {limit} %, {workload}"
                );
                assert!(
                    (time - bound).abs() <= 1.0,
                    "{drive}: {time:.1} % of the time at {limit} %, {workload}"
                );
            }
        }
    }
}

#[test]
fn a_database_commits_at_its_share_beside_those_who_write() {
    for neighbour in [RANDOM_WRITES, LARGE_WRITES, LARGE_READS] {
        let volumes = [("reserve = \"30%\"", DATABASE), ("reserve = \"70%\"", neighbour)];
        let (rates, report) = rates(&plan("hgst-7k8", &volumes));
        // A write and a flush.
        let commits = rates[0] / 2.0;
        println!("{commits} commits and {:.1} a second beside {neighbour}", rates[1]);
        assert!(commits >= 45.0, "{commits} a second beside {neighbour}");
        let p99 = report.volumes[0].latency_ms.p99;
        assert!(p99 <= 120.0, "{p99} ms beside {neighbour}");
        let alone = self::rates(&plan("hgst-7k8", &[("", neighbour)])).0[0];
        assert!(rates[1] >= 0.7 * 0.85 * alone, "{rates:?}, {alone} alone: {neighbour}");
    }
}

#[test]
fn a_reader_has_its_worth_beside_those_who_write() {
    // The same client alone on a disk of half the speed.
    let mut slowed = plan("hgst-7k8", &[("", READER)]);
    slowed.disks[0].slowed = Share::from_percent(50);
    let due = rates(&slowed).0[0];
    let volumes = [("reserve = \"50%\"", READER), ("reserve = \"50%\"", RANDOM_WRITES)];
    let (rates, _) = rates(&plan("hgst-7k8", &volumes));
    println!("{:.1} reads a second of {due:.1} due; {:.1} writes", rates[0], rates[1]);
    assert!(rates[0] >= 0.8 * due, "{rates:?} of {due} due");
}

#[test]
fn random_writes_through_the_buffer_are_faster_than_through_that_of_the_drive() {
    let one = RANDOM_WRITES.replace("32", "1");
    // Hundreds of buffered writes are put in order, however few the client keeps outstanding.
    for workload in [RANDOM_WRITES, one.as_str()] {
        let buffered = plan("hgst-7k8", &[("", workload)]);
        let mut plain = buffered.clone();
        plain.disks[0].write_buffer = None;
        let (buffered, plain) = (rates(&buffered).0[0], rates(&plain).0[0]);
        println!("{buffered:.1} a second, {plain:.1} in the drive's own buffer");
        assert!(buffered >= 1.5 * plain, "{buffered} a second, {plain} through the drive's");
    }
}

#[test]
fn a_sequential_writer_that_is_alone_has_the_rate_of_the_disk() {
    for drive in ["hgst-7k8", "barracuda-2t", "nearline-20t"] {
        let buffered = plan(drive, &[("", LARGE_WRITES)]);
        let mut plain = buffered.clone();
        plain.disks[0].write_buffer = None;
        let (buffered, plain) = (rates(&buffered).0[0], rates(&plain).0[0]);
        println!("{buffered:.1} a second, {plain:.1} in the drive's own buffer");
        assert!(buffered >= 0.97 * plain, "{drive}: {buffered} a second, {plain} through its own");
    }
}

#[test]
fn long_writes_pay_for_themselves_beside_others() {
    let alone = rates(&plan("hgst-7k8", &[("", LARGE_WRITES)])).0[0];
    // Behind a read 16 MiB take 80 ms, behind a forced write 73.
    for (other, least) in [(DATABASE, 0.85), (READER, 0.8)] {
        let volumes = [("reserve = \"30%\"", other), ("reserve = \"70%\"", LARGE_WRITES)];
        let (rates, report) = rates(&plan("hgst-7k8", &volumes));
        // Each buffer of 16 MiB loses a revolution and a half.
        assert!(rates[1] >= 0.7 * least * alone, "{rates:?}, {alone} alone, beside {other}");
        let p99 = report.volumes[0].latency_ms.p99;
        assert!(p99 <= 120.0, "{p99} ms of {other}");
        // The same client alone on a disk of 0.3 times the speed.
        let mut slowed = plan("hgst-7k8", &[("", other)]);
        slowed.disks[0].slowed = Share::from_percent(30);
        let due = self::rates(&slowed).0[0];
        println!(
            "{:.1} of {due:.1} due, {:.1} of {alone:.1} beside it: {other}",
            rates[0], rates[1]
        );
        assert!(rates[0] >= 0.8 * due, "{rates:?}, {due} alone, {other}");
    }
}

/// The worth of 30 % to this client beside sequential writes with the rest, and theirs.
fn worth_beside_writes(drive: &str, client: &str) -> (f64, f64) {
    let alone = rates(&plan(drive, &[("", LARGE_WRITES)])).0[0];
    let mut slowed = plan(drive, &[("", client)]);
    slowed.disks[0].slowed = Share::from_percent(30);
    let due = rates(&slowed).0[0];
    let volumes = [("reserve = \"30%\"", client), ("reserve = \"70%\"", LARGE_WRITES)];
    let (rates, _) = rates(&plan(drive, &volumes));
    (rates[0] / due, rates[1] / (0.7 * alone))
}

#[test]
fn a_client_of_several_writes_and_a_flush_has_its_worth_beside_long_writes() {
    for drive in ["hgst-7k8", "nearline-20t"] {
        for writes in [2, 4, 8] {
            for think in ["100us", "1ms", "2ms", "3ms", "10ms", "30ms"] {
                let client = DATABASE
                    .replace("flush_every = 1", &format!("flush_every = {writes}"))
                    + &format!("think = \"{think}\"\n");
                let (own, other) = worth_beside_writes(drive, &client);
                println!("{drive}, {writes} writes, {think}: {own:.2}, beside it {other:.2}");
                // Two writes are short beside the flush that is waited for.
                let least = if writes == 2 { 0.70 } else { 0.75 };
                assert!(own >= least, "{drive}: {own} of {writes} writes a flush, {think}");
                assert!(other >= 0.85, "{drive}: {other} beside {writes} writes a flush, {think}");
            }
        }
    }
}

#[test]
fn a_reader_that_pauses_has_two_thirds_of_its_worth_beside_long_writes() {
    for drive in ["hgst-7k8", "nearline-20t"] {
        for think in ["100us", "1ms", "3ms", "10ms", "30ms"] {
            let client = READER.replace("1ms", think);
            let (own, other) = worth_beside_writes(drive, &client);
            println!("{drive}, reads, {think}: {own:.2}, beside it {other:.2}");
            assert!(own >= 2.0 / 3.0, "{drive}: {own} of a reader, {think}");
            assert!(other >= 0.75, "{drive}: {other} beside a reader, {think}");
        }
    }
}

/// A scenario that writes, reads and flushes a few sectors over and over.
fn small(seed: u64) -> Plan {
    let mut rng = SeededRng::new(seed, 0);
    let mut pick =
        |of: &[&'static str]| of[usize::try_from(rng.below(of.len() as u64)).expect("an index")];
    let drive = pick(&["hgst-7k8", "deskstar-34gxp", "nearline-20t"]);
    let memory = pick(&["256KiB", "1MiB", "auto"]);
    let mut text = format!(
        "seed = {seed}\nduration = \"3s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         write_buffer = \"{memory}\"\nwrite_age = \"{}\"\ndepth = {}\n",
        pick(&["100ms", "1s", "5s"]),
        pick(&["1", "1", "4"]).replace('4', if drive == "deskstar-34gxp" { "1" } else { "4" }),
    );
    let count = pick(&["1", "2", "3", "4"]).parse::<u8>().expect("a digit");
    for volume in 0..count {
        let _ = write!(
            text,
            "[[volume]]\nname = \"v{volume}\"\ndisk = \"d\"\nsize = \"{}\"\nreserve = \"{}\"\n\
             write_buffer = \"{}\"\n",
            pick(&["256KiB", "1MiB", "64MiB"]),
            pick(&["0%", "10%", "20%"]),
            pick(&["0", "16KiB", "64KiB", "256KiB", "16MiB"]),
        );
    }
    for volume in (0..count).chain(0..count) {
        let (op, outstanding) = (pick(&["write", "write", "mix"]), pick(&["1", "2", "8"]));
        let _ = write!(
            text,
            "[[workload]]\nvolume = \"v{volume}\"\nop = \"{op}\"\naccess = \"{}\"\n\
             block = \"{}\"\noutstanding = {}\nthink = \"{}\"\n",
            pick(&["random", "sequential"]),
            pick(&["4KiB", "32KiB", "64KiB"]),
            outstanding,
            pick(&["0ms", "500us", "5ms", "60ms"]),
        );
        text.push_str(match (op, outstanding) {
            ("mix", _) => "read_share = \"60%\"\n",
            (_, "2" | "8") => "",
            _ => pick(&["", "flush_every = 1\n", "flush_every = 7\n"]),
        });
    }
    Plan::parse(&text, "small.toml", Path::new(""))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A sample; `SPINDLE_CASES` asks for more.
fn cases(usual: u64) -> u64 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(usual, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

#[test]
fn reads_see_what_was_written_and_what_was_flushed_is_on_the_medium() {
    let mut checked = 0;
    for seed in 0..cases(100) {
        println!("seed {seed}");
        let plan = small(seed);
        let mut simulation = Simulation::new(&plan);
        if seed % 3 == 0 {
            simulation.fail_one_in(20);
        }
        simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
        checked += simulation.report().oracles.reads_checked;
    }
    assert!(checked > 1_000, "only {checked} sectors were checked");
}

#[test]
fn random_writes_that_a_chooser_orders_are_faster_than_in_the_buffer_of_the_drive() {
    for (size, drive) in
        [("1500GiB", "barracuda-2t"), ("7000GiB", "hgst-7k8"), ("17000GiB", "nearline-20t")]
    {
        let drive = format!("{drive}\"\nchooser = \"predicted");
        let buffered = sized(size, &drive, &[("", RANDOM_WRITES)]);
        let mut plain = buffered.clone();
        plain.disks[0].write_buffer = None;
        let (buffered, plain) = (rates(&buffered).0[0], rates(&plain).0[0]);
        println!("{buffered:.1} a second, {plain:.1} in the drive's own buffer");
        assert!(buffered >= 1.5 * plain, "{drive}: {buffered} a second, {plain} through its own");
    }
}

/// Volumes that write as much as they can: the requests of each that were answered after each of
/// these times, at which the memory is within its bounds.
fn flooded<const TIMES: usize>(volumes: usize, seconds: [u64; TIMES]) -> [Vec<u64>; TIMES] {
    let writes = RANDOM_WRITES.replace("32", "8");
    let plan = sized("4GiB", "hgst-7k8", &vec![("", writes.as_str()); volumes]);
    let settings = plan.disks[0].write_buffer.expect("it is on");
    let (memory, own) = (settings.memory.bytes().0, plan.volumes[0].write_buffer.bytes().0);
    let part = own.min(memory / volumes as u64);
    let mut simulation = Simulation::new(&plan);
    seconds.map(|seconds| {
        simulation.run_until(Instant::ZERO + Duration::from_secs(seconds));
        let report = simulation.report();
        let buffers = report.volumes.iter().map(|volume| volume.write_buffer.as_ref());
        let buffered = buffers.map(|buffer| buffer.map_or(0, |buffer| buffer.buffered_bytes));
        let buffered: Vec<u64> = buffered.collect();
        assert!(buffered.iter().all(|one| *one <= part), "each has its part, {part}");
        assert!(buffered.iter().sum::<u64>() > memory / 2, "they flood the disk");
        report.volumes.iter().map(|volume| volume.requests).collect()
    })
}

#[test]
fn a_thousand_volumes_that_flood_a_disk_have_their_parts_of_its_memory() {
    let [requests, _] = flooded(1_000, [1, 2]);
    // Each has filled its 256 KiB, whatever the others have done.
    assert!(requests.iter().all(|requests| *requests >= 64), "{:?}", requests.iter().min());
}
