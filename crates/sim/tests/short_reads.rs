//! Short reads that move the arm ahead of transfers, on the drives without a seek command.

use std::path::Path;

use config::{DiskIndex, Plan};
use engine::SeeksAhead;
use spindle_sim::Simulation;
use units::Instant;

/// The part of the throughput that they may cost.
const LOSS_MAX: f64 = 0.02;
/// The drives without a seek command, with the size of a volume.
const DRIVES: [(&str, &str); 4] = [
    ("hgst-7k8", "900GiB"),
    ("nearline-20t", "900GiB"),
    ("barracuda-2t", "900GiB"),
    ("deskstar-34gxp", "9GiB"),
];

/// A volume of high priority that reads 4 KiB at random twice a second, beside one that keeps eight
/// random reads of `block` outstanding.
fn simulate((drive, size): (&str, &str), block: &str, approach: &str) -> Simulation {
    let volume = |name, more, load| {
        format!(
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"{size}\"\n{more}[[workload]]\n\
             volume = \"{name}\"\nop = \"read\"\naccess = \"random\"\n{load}"
        )
    };
    let eight = format!("block = \"{block}\"\noutstanding = 8\n");
    let text = format!(
        "seed = 1\nduration = \"300s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         execution = \"preemptible\"\napproach = \"{approach}\"\n{}{}",
        volume("first", "priority = \"high\"\n", "block = \"4KiB\"\nrate = \"2/s\"\n"),
        volume("big", "", &eight),
    );
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).and_then(Plan::for_sim);
    let plan = plan.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    simulation
}

/// The mean wait and its 99th percentile of the first volume in ms, and MB/s of the other.
fn figures(simulation: &Simulation) -> [f64; 3] {
    let report = simulation.report();
    let waiting = &report.volumes[0].waiting_ms;
    [waiting.mean, waiting.p99, report.volumes[1].bytes_per_s / 1e6]
}

#[test]
fn short_reads_shorten_the_wait_of_high_priority_where_the_profile_says_so_and_cost_nothing() {
    for (drive, size) in DRIVES {
        for block in ["64KiB", "1MiB"] {
            let run = |approach| simulate((drive, size), block, approach);
            let (transfer, short) = (run("transfer"), run("short-read"));
            let [wait, p99, rate] = figures(&transfer);
            let [short_wait, short_p99, short_rate] = figures(&short);
            let seeks_ahead = run("ahead").seeks_ahead(DiskIndex(0));
            println!(
                "| {drive} | {block} | {wait:.2} | {short_wait:.2} | {p99:.2} | {short_p99:.2} | \
                 {rate:.2} | {short_rate:.2} | {seeks_ahead:?}"
            );
            // Chunks of a run that the drive reads ahead of need hardly any seeks: there the mean
            // is the same, and the longest waits are shorter.
            let is_shorter = short_wait < wait || short_wait < wait * 1.01 && short_p99 < p99;
            let is_worth_it = is_shorter && short_rate > rate * (1.0 - LOSS_MAX);
            let Some(SeeksAhead::ShortRead(trade)) = seeks_ahead else {
                panic!("{drive}: the default is {seeks_ahead:?}")
            };
            assert!(trade.pays(), "{drive}: {trade:?}");
            assert!(is_worth_it, "{drive}, {block}: {wait} and {short_wait}, {rate}, {short_rate}");
            let executed = short.executed(DiskIndex(0)).expect("it is preemptible");
            assert!(executed.seek_commands > 0, "{drive}: {executed:?}");
            assert!(executed.missed * 100 < executed.jit_transfers, "{drive}: {executed:?}");
        }
    }
}
