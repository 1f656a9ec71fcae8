//! The worth of reserves under the policy `spindle`: to clients that pause, and to their
//! neighbours. The full grid is `spindle-lab reproduce worth-grid`.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::{Simulation, worth};
use stats::WorthReport;
use units::{Duration, Instant};

/// A scenario on hgst-7k8: each volume with its contract and its workload, in a part of the disk.
fn plan(seconds: u64, policy: &str, volumes: &[(&str, &str)]) -> Plan {
    let mut text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
         policy = \"{policy}\"\n"
    );
    let size = 7_000 / volumes.len();
    for (index, (contract, workload)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size}GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario")
}

const BACKLOG: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 16";

fn pausing(think: &str) -> String {
    format!(
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\n\
         think = {{ exponential = \"{think}\" }}"
    )
}

fn worths(plan: &Plan) -> Vec<WorthReport> {
    let warm_up = worth::default_warm_up(plan.duration.expect("a length"));
    worth::worths(plan, warm_up).into_iter().map(|worth| worth.expect("a reserve")).collect()
}

#[test]
fn half_a_disk_is_worth_half_a_disk_to_a_client_that_pauses_and_to_its_neighbour() {
    let cells =
        [("100us", 0.85, 0.92), ("1ms", 0.85, 0.92), ("5ms", 0.78, 0.85), ("20ms", 0.9, 1.0)];
    for (think, least, neighbour) in cells {
        let pausing = pausing(think);
        let half = "reserve = \"50%\"";
        let worths = worths(&plan(30, "spindle", &[(half, &pausing), (half, BACKLOG)]));
        assert!(worths[0].value >= least, "think {think}: {:?}", worths[0]);
        assert!(worths[1].value >= neighbour, "think {think}: {:?}", worths[1]);
    }
}

#[test]
fn a_tenth_of_a_disk_is_worth_a_tenth() {
    let pausing = pausing("1ms");
    let volumes = [("reserve = \"10%\"", &*pausing), ("reserve = \"90%\"", BACKLOG)];
    let worths = worths(&plan(60, "spindle", &volumes));
    assert!(worths[0].value >= 0.8, "{:?}", worths[0]);
    assert!(worths[1].value >= 0.9, "{:?}", worths[1]);
}

#[test]
fn twenty_clients_with_a_twentieth_of_the_disk_each_have_its_worth() {
    for think in ["100us", "5ms"] {
        let pausing = pausing(think);
        let volumes = [("reserve = \"5%\"", &*pausing); 20];
        for worth in worths(&plan(60, "spindle", &volumes)) {
            assert!(worth.value >= 0.7, "think {think}: {worth:?}");
            assert!(worth.latency_ms.max <= 2_000.0, "none starves: {worth:?}");
        }
    }
}

#[test]
fn a_sequential_neighbour_keeps_its_worth() {
    let sequential = "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4";
    for think in ["1ms", "5ms"] {
        let pausing = pausing(think);
        let half = "reserve = \"50%\"";
        let worths = worths(&plan(30, "spindle", &[(half, &pausing), (half, sequential)]));
        assert!(worths[0].value >= 0.66, "think {think}: {:?}", worths[0]);
        assert!(worths[1].value >= 0.65, "think {think}: {:?}", worths[1]);
    }
}

#[test]
fn bursts_and_several_outstanding_requests_have_their_worth() {
    let few =
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 4\nthink = \"1ms\"";
    let bursts =
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\nburst = 8\nthink = \"100ms\"";
    for client in [few, bursts] {
        let half = "reserve = \"50%\"";
        let worths = worths(&plan(30, "spindle", &[(half, client), (half, BACKLOG)]));
        assert!(worths[0].value >= 0.83, "{client}: {:?}", worths[0]);
        assert!(worths[1].value >= 0.86, "{client}: {:?}", worths[1]);
    }
}

/// Each of the four would else wait until the reserve pays for a quantum that is as long as that of
/// a client which keeps one: 1.8 times the latency of the slowed drive.
#[test]
fn four_requests_that_come_apart_wait_hardly_longer_than_on_the_slowed_drive() {
    let few = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 4\n\
               think = { exponential = \"50ms\" }";
    let half = "reserve = \"50%\"";
    let few = worths(&plan(60, "spindle", &[(half, few), (half, BACKLOG)]))[0];
    let (own, slowed) = (few.latency_ms.p99, few.reference_latency_ms.p99);
    assert!(own <= 1.6 * slowed, "{own} ms, {slowed} ms on the slowed drive: {few:?}");
    assert!(few.value >= 0.9, "{few:?}");
}

#[test]
fn few_requests_of_a_small_reserve_are_hardly_passed_over_for_nearer_ones() {
    let few =
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 4\nthink = \"1ms\"";
    let volumes = [("reserve = \"20%\"", few), ("reserve = \"80%\"", BACKLOG)];
    let few = worths(&plan(60, "spindle", &volumes))[0];
    let (own, slowed) = (few.latency_ms.p99, few.reference_latency_ms.p99);
    assert!(own <= 1.6 * slowed, "{own} ms, {slowed} ms on the slowed drive: {few:?}");
    assert!(few.value >= 1.0, "{few:?}");
}

#[test]
fn two_requests_of_a_small_reserve_are_served_together() {
    let two =
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 2\nthink = \"1ms\"";
    let volumes = [("reserve = \"10%\"", two), ("reserve = \"90%\"", BACKLOG)];
    let mut plan = plan(60, "spindle", &volumes);
    let disk = &mut plan.disks[0];
    (disk.depth, disk.chooser) = (1, engine::ChooserName::Arrival);
    for seed in [3, 15, 18, 19] {
        plan.seed = seed;
        let worth = worths(&plan)[0];
        assert!(worth.value >= 0.8, "seed {seed}: {worth:?}");
    }
}

#[test]
fn a_volume_that_pauses_does_not_exceed_its_limit() {
    let pausing = pausing("1ms");
    let contract = "reserve = \"5%\"\nlimit = \"10%\"";
    let plan = plan(30, "spindle", &[(contract, &pausing), ("reserve = \"20%\"", BACKLOG)]);
    let report = run(&plan);
    assert!(report[0] <= 0.105, "{report:?}");
    assert!(report[0] + report[1] >= 0.99, "the rest is not lost: {report:?}");
}

/// The charged shares of all volumes.
fn run(plan: &Plan) -> Vec<f64> {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    simulation.report().volumes.iter().map(|volume| volume.disk_time_share).collect()
}

#[test]
fn charged_shares_never_add_up_to_more_than_the_time() {
    let writes = "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 32";
    let pausing = pausing("1ms");
    for (policy, seconds) in [("spindle", 10), ("spindle", 60), ("utilization", 60)] {
        let half = "reserve = \"50%\"";
        let shares = run(&plan(seconds, policy, &[(half, writes), (half, &pausing)]));
        // What is not charged yet, of either sign, is at most one period's worth.
        let most = 1.0 + 1.0 / Duration::from_secs(seconds).as_secs_f64();
        let sum: f64 = shares.iter().sum();
        assert!(sum <= most.min(1.02), "{policy}, {seconds} s: {shares:?}");
    }
}

fn sequential(block: &str, think: &str) -> String {
    format!(
        "op = \"read\"\naccess = \"sequential\"\nblock = \"{block}\"\noutstanding = 1\n\
         think = {{ exponential = \"{think}\" }}"
    )
}

#[test]
fn a_reserve_keeps_its_worth_to_a_sequential_client_that_pauses() {
    let cells = [
        (20, "64KiB", "500us", 0.85),
        (50, "4KiB", "5ms", 0.85),
        (10, "1MiB", "1ms", 0.8),
        (50, "1MiB", "1ms", 0.85),
        (20, "1MiB", "500us", 0.85),
    ];
    for (reserve, block, think, least) in cells {
        let (client, rest) = (sequential(block, think), 100 - reserve);
        let (own, rest) = (format!("reserve = \"{reserve}%\""), format!("reserve = \"{rest}%\""));
        let worths = worths(&plan(30, "spindle", &[(&own, &client), (&rest, BACKLOG)]));
        let setting = format!("{reserve} %, {block}, {think}");
        println!("{setting}: {:.3}, {:.3}", worths[0].value, worths[1].value);
        assert!(worths[0].value >= least, "{setting}: {:?}", worths[0]);
        assert!(worths[1].value >= 0.85, "{setting}: {:?}", worths[1]);
    }
}

/// Without read-ahead in the host, which would hide it: the client is not there for most of a
/// quantum of a period's worth, however many requests it keeps until it pauses.
#[test]
fn a_backup_that_pauses_keeps_its_worth_beside_one_that_does_not() {
    let backup = |requests: &str| {
        format!("op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\n{requests}")
    };
    let always = backup("outstanding = 4");
    let cells = [
        ("burst = 4\nthink = \"5ms\"", 0.9),
        ("burst = 4\nthink = { exponential = \"20ms\" }", 0.63),
        ("outstanding = 4\nthink = \"20ms\"", 0.75),
        ("burst = 8\nthink = \"20ms\"", 0.65),
        ("burst = 32\nthink = \"20ms\"", 0.8),
    ];
    for (requests, least) in cells {
        let (forty, pausing) = ("reserve = \"40%\"", backup(requests));
        let mut plan = plan(30, "spindle", &[(forty, &pausing), (forty, &always)]);
        plan.disks[0].read_ahead = engine::ReadAheadSettings::OFF;
        let worths = worths(&plan);
        println!("{requests:?}: {:.3}, {:.3}", worths[0].value, worths[1].value);
        assert!(worths[0].value >= least, "{requests}: {:?}", worths[0]);
        assert!(worths[1].value >= 0.95, "{requests}: {:?}", worths[1]);
    }
}

#[test]
fn a_report_tells_what_was_read_ahead_and_for_which_volume() {
    let (client, half) = (sequential("4KiB", "1ms"), "reserve = \"50%\"");
    let plan = plan(10, "spindle", &[(half, &client), (half, BACKLOG)]);
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    let report = simulation.report();
    let ahead = report.volumes[0].read_ahead.as_ref().expect("it reads in order");
    assert!(ahead.hits > report.volumes[0].requests * 9 / 10, "{ahead:?}");
    assert!(ahead.bytes >= report.volumes[0].bytes * 9 / 10, "{ahead:?}");
    assert_eq!(ahead.unused_bytes, 0, "the client reads all of it");
    assert_eq!(report.volumes[1].read_ahead, None, "it reads at random");
}

#[test]
fn read_ahead_changes_nothing_for_clients_that_read_at_random() {
    let half = "reserve = \"50%\"";
    let pausing = pausing("1ms");
    let reports = ["auto", "off"].map(|read_ahead| {
        let mut plan = plan(10, "spindle", &[(half, &pausing), (half, BACKLOG)]);
        if read_ahead == "off" {
            plan.disks[0].read_ahead = engine::ReadAheadSettings::OFF;
        }
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
        simulation.report()
    });
    assert_eq!(reports[0], reports[1]);
}
