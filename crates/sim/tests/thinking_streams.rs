//! A stream's client that waits for each answer and thinks before its next request: what it gets,
//! alone and beside others.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use stats::VolumeReport;
use units::{Duration, Instant};

/// The length of a run, and of one beside two others: there a rate varies by a tenth in 30 s.
const SECONDS: u64 = 30;
const SECONDS_BESIDE_TWO: u64 = 120;
const CAMERA: &str = "stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }";
/// The bandwidth of the contract, in bytes a second.
const BANDWIDTH: f64 = 1_450_000.0;
/// Think times, in microseconds.
const THINKS: [u64; 8] = [100, 500, 1_000, 2_000, 6_000, 10_000, 20_000, 50_000];
/// Outstanding requests, and the length of each in KiB.
const CLIENTS: [(u32, u32); 4] = [(1, 4), (1, 64), (2, 64), (1, 512)];

/// What the volumes get: each has a contract, and what its client does. No byte of a stream is
/// late.
fn run(policy: &str, volumes: &[(&str, String)]) -> Vec<VolumeReport> {
    let seconds = if volumes.len() > 2 { SECONDS_BESIDE_TWO } else { SECONDS };
    let mut text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
         policy = \"{policy}\"\n"
    );
    for (index, (contract, workload)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"100GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(seconds));
    let volumes = simulation.report().volumes;
    for bytes in volumes.iter().filter_map(|volume| volume.deadlines?.bytes) {
        assert_eq!(bytes.missed, 0, "{bytes:?}");
    }
    volumes
}

/// A client that keeps `outstanding` sequential requests of `kib` and thinks for `think`.
fn client(op: &str, (outstanding, kib): (u32, u32), think: u64) -> String {
    format!(
        "op = \"{op}\"\naccess = \"sequential\"\nblock = \"{kib}KiB\"\n\
         outstanding = {outstanding}\nthink = \"{think}us\""
    )
}

fn random(outstanding: u32, think: u64) -> String {
    format!(
        "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = {outstanding}\n\
         think = \"{think}us\""
    )
}

/// The bytes a second of a thinking stream beside these volumes.
fn rate_beside(others: &[(&str, String)], client: &str) -> f64 {
    let mut volumes = vec![(CAMERA, client.to_owned())];
    volumes.extend(others.iter().cloned());
    run("spindle", &volumes)[0].bytes_per_s
}

#[test]
fn alone_on_a_disk_nothing_is_held_back() {
    for op in ["write", "read"] {
        for (outstanding, kib) in CLIENTS {
            for think in THINKS {
                let client = client(op, (outstanding, kib), think);
                let rate = rate_beside(&[], &client);
                // Under this policy nothing is held back, and two requests do not become one.
                let at_once = run("delta-star", &[(CAMERA, client)])[0].bytes_per_s;
                assert!(
                    rate >= 0.85 * at_once,
                    "{op}, {outstanding} of {kib} KiB, think {think} us: {rate} of {at_once} B/s"
                );
            }
        }
    }
}

#[test]
fn beside_best_effort_it_has_its_bandwidth_or_nearly_half_of_what_it_has_alone() {
    for others in [random(16, 0), random(1, 0), random(4, 1_000)] {
        for (outstanding, kib) in CLIENTS {
            for think in THINKS {
                let client = client("write", (outstanding, kib), think);
                let alone = rate_beside(&[], &client);
                let rate = rate_beside(&[("", others.clone())], &client);
                println!("{outstanding} of {kib} KiB, think {think} us: {rate} of {alone} B/s");
                assert!(
                    rate >= (0.45 * alone).min(BANDWIDTH),
                    "{outstanding} of {kib} KiB, think {think} us: {rate} of {alone} B/s"
                );
            }
        }
    }
}

#[test]
fn beside_reserves_it_has_its_bandwidth_or_an_eighth_of_what_it_has_alone() {
    let backup = ("reserve = \"40%\"", client("read", (4, 1_024), 0));
    for (outstanding, kib) in CLIENTS {
        for think in THINKS {
            let client = client("write", (outstanding, kib), think);
            let alone = rate_beside(&[], &client);
            let rate = rate_beside(&[backup.clone(), backup.clone()], &client);
            println!("{outstanding} of {kib} KiB, think {think} us: {rate} of {alone} B/s");
            assert!(
                rate >= (alone / 8.0).min(BANDWIDTH),
                "{outstanding} of {kib} KiB, think {think} us: {rate} of {alone} B/s"
            );
        }
    }
}

#[test]
fn a_thinking_reader_has_its_part_of_the_slack_beside_sixteen_outstanding() {
    for (think, least) in [(0, 0.45), (1_000, 0.44), (10_000, 0.3), (50_000, 0.1)] {
        let volumes = run("spindle", &[("", random(1, think)), ("", random(16, 0))]);
        let [one, deep] = &volumes[..] else { panic!("two volumes") };
        println!(
            "think {think} us: {:.1}/s {:.3} p99 {:.0} ms; {:.1}/s {:.3}",
            one.iops, one.disk_time_share, one.latency_ms.p99, deep.iops, deep.disk_time_share
        );
        assert!(one.disk_time_share >= least, "{one:?}");
        assert!(deep.disk_time_share >= 0.45, "{deep:?}");
    }
}
