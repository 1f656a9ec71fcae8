//! A sample of the seeds that `make soak` runs by the thousand.

use std::fmt::Write as _;

use spindle_sim::seeds;
use tempfile::TempDir;

/// Scenarios that once violated an oracle. They are kept as text, since a seed generates another
/// scenario after each change of the generator.
const FOUND: [(&str, &str); 5] = [
    ("found/133.toml", include_str!("found/133.toml")),
    ("found/143.toml", include_str!("found/143.toml")),
    ("found/157.toml", include_str!("found/157.toml")),
    ("found/1370.toml", include_str!("found/1370.toml")),
    ("found/1565.toml", include_str!("found/1565.toml")),
];

#[test]
fn every_oracle_holds_over_scenarios_that_once_failed() {
    // The traces that they replay lie beside them.
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    for (name, text) in FOUND {
        let report = seeds::run_text(text, &[], name, &found);
        assert!(report.oracles.answered > 0, "{name}");
    }
}

#[test]
fn every_oracle_holds_over_generated_scenarios() {
    let scratch = TempDir::new().expect("a scratch directory");
    let (mut reads, mut rests, mut promises, mut replayed, mut deadlines) = (0, 0, 0, 0, 0);
    let mut worths = 0;
    for seed in 0..60 {
        let run = std::panic::catch_unwind(|| seeds::run(seed, scratch.path()));
        let report = run.unwrap_or_else(|_| {
            panic!(
                "{}\nrepeat with: cargo run --release -p spindle-sim --example soak -- {seed} 1",
                seeds::scenario(seed)
            )
        });
        reads += report.oracles.reads_checked;
        rests += report.oracles.rests_checked;
        promises += report.oracles.promises_checked;
        worths += report.oracles.worths_checked;
        deadlines += report.oracles.deadlines_checked;
        replayed += report.traces.iter().map(|trace| trace.sent).sum::<u64>();
    }
    // An oracle that checked nothing has shown nothing.
    assert!(reads > 100 && rests > 1_000 && promises > 100, "{reads} {rests} {promises}");
    assert!(worths > 0, "no client with a reserve paused");
    assert!(replayed > 1_000 && deadlines > 20, "{replayed} {deadlines}");
}

#[test]
fn generated_scenarios_have_bounded_latencies_and_live_changes() {
    let scenarios: Vec<seeds::Scenario> = (0..400).map(seeds::scenario).collect();
    let bounded = scenarios.iter().filter(|scenario| scenario.text.contains("latency = {")).count();
    let changes = scenarios.iter().map(|scenario| scenario.changes.len()).sum::<usize>();
    assert!(bounded >= 10 && changes >= 100, "{bounded} with latencies, {changes} changes");
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let scratch = TempDir::new().expect("a scratch directory");
    let report = |seed| {
        serde_json::to_string(&seeds::run(seed, scratch.path())).expect("a report serialises")
    };
    assert_eq!(report(3), report(3));
    assert_ne!(report(3), report(4));
}

#[test]
fn open_loops_that_overload_a_disk_are_dropped_and_counted() {
    let mut text = "duration = \"4s\"\n[[disk]]\nname = \"d\"\ndrive = \"deskstar-34gxp\"\n\
                    [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"1GiB\"\n"
        .to_owned();
    let load = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
        block = \"4KiB\"\nrate = \"50000/s\"\n";
    text += &load.repeat(20);
    let plan = config::Plan::parse(&text, "overload", std::path::Path::new(".")).expect("valid");
    let mut simulation = spindle_sim::Simulation::new(&plan);
    simulation.run_until(units::Instant::ZERO + plan.duration.expect("given"));
    let volume = &simulation.report().volumes[0];
    // Four million requests were sent, and 2^19 can wait.
    assert!(volume.dropped > 3_000_000, "{} were dropped", volume.dropped);
    assert!(volume.iops > 50.0, "the disk worked on: {} IOPS", volume.iops);
}

#[test]
fn reserves_are_checked_at_every_depth_under_each_policy_that_keeps_them() {
    let all = [("utilization", 32), ("spindle", 32), ("throughput", 32)];
    for (policy, depth_max) in all.into_iter().chain([("delta-l", 1), ("delta-star", 1)]) {
        for depth in [1, 8, 32].into_iter().filter(|depth| *depth <= depth_max) {
            let mut text = format!(
                "duration = \"5s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
                 policy = \"{policy}\"\ndepth = {depth}\n"
            );
            let reserves = match policy {
                "throughput" => ["4/s", "8/s"],
                "delta-l" | "delta-star" => ["20%", "40%"],
                _ => ["30%", "70%"],
            };
            for (index, reserve) in reserves.into_iter().enumerate() {
                write!(
                    text,
                    "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"100GiB\"\n\
                     reserve = \"{reserve}\"\n[[workload]]\nvolume = \"v{index}\"\n\
                     op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 32\n"
                )
                .expect("a string takes all");
            }
            let report = seeds::run_text(&text, &[], "depth", std::path::Path::new("."));
            let checked = report.oracles.promises_checked;
            assert!(checked >= 40, "{policy}, depth {depth}: {checked} checks");
        }
    }
}

#[test]
fn the_worth_of_a_reserve_is_checked_of_clients_that_pause() {
    for think in ["100us", "500us", "1ms"] {
        let text = format!(
            "duration = \"20s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
             [[volume]]\nname = \"a\"\ndisk = \"d\"\nsize = \"1TiB\"\nreserve = \"20%\"\n\
             [[volume]]\nname = \"b\"\ndisk = \"d\"\nsize = \"1TiB\"\nreserve = \"80%\"\n\
             [[workload]]\nvolume = \"a\"\nop = \"read\"\naccess = \"random\"\n\
             block = \"4KiB\"\noutstanding = 1\nthink = {{ exponential = \"{think}\" }}\n\
             [[workload]]\nvolume = \"b\"\nop = \"read\"\naccess = \"random\"\n\
             block = \"4KiB\"\noutstanding = 16\n"
        );
        let report = seeds::run_text(&text, &[], "think", std::path::Path::new("."));
        println!("think {think}: {} checks", report.oracles.worths_checked);
        assert!(report.oracles.worths_checked >= 10, "{think}: {:?}", report.oracles);
    }
}
