//! What preemptible execution costs sequential readers: `cargo run --release -p spindle-sim
//! --example readers [SECONDS]`. Each of several readers has one request outstanding; MB/s of all
//! of them with chunks alone, and with each mechanism in addition. Exit code 1 if just-in-time
//! seeks cost more than 2 %, or free prefetching does.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::Instant;

const DRIVES: [&str; 6] =
    ["hgst-7k8", "nearline-20t", "barracuda-2t", "st318437lw", "cheetah9LP", "deskstar-34gxp"];
/// The kinds of readers: their number, the bytes of a request, and whether they read at random.
const LOADS: [(usize, &str, &str); 6] = [
    (1, "64KiB", "sequential"),
    (2, "64KiB", "sequential"),
    (2, "1MiB", "sequential"),
    (4, "64KiB", "sequential"),
    (2, "64KiB", "random"),
    (1, "4KiB", "random"),
];
/// What is added to chunks.
const MECHANISMS: [(&str, &str); 4] = [
    ("none", "jit_offset = \"off\"\nseek_split = \"off\""),
    ("ahead", "seek_split = \"off\""),
    ("in-time", "approach = \"in-time\"\nseek_split = \"off\""),
    ("prefetch", "approach = \"in-time\"\nseek_split = \"off\"\nfree_prefetch = true"),
];
/// The part of the throughput that a mechanism may cost.
const LOSS_MAX: f64 = 0.02;

fn rate(drive: &str, (readers, block, access): (usize, &str, &str), mechanism: &str) -> f64 {
    let seconds = std::env::args().nth(1).unwrap_or_else(|| "10".into());
    let mut text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         policy = \"fcfs\"\nexecution = \"preemptible\"\n{mechanism}\n"
    );
    for index in 0..readers {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"2GiB\"\n[[workload]]\n\
             volume = \"v{index}\"\nop = \"read\"\naccess = \"{access}\"\nblock = \"{block}\"\n\
             outstanding = 1\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "readers.toml", Path::new("")).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    let duration = plan.duration.expect("the text has one");
    simulation.run_until(Instant::ZERO + duration);
    let bytes: u64 = simulation.report().volumes.iter().map(|volume| volume.bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    let rate = bytes as f64 / duration.as_secs_f64() / 1e6;
    rate
}

fn main() {
    let mut over = 0;
    println!(
        "{:<15} {:>7} {:>6} {:<10} {:>7} {:>7} {:>7} {:>8}",
        "drive", "readers", "block", "access", "none", "ahead", "in-time", "prefetch"
    );
    for drive in DRIVES {
        for load in LOADS {
            let rates = MECHANISMS.map(|(_, mechanism)| rate(drive, load, mechanism));
            let [none, ahead, in_time, prefetch] = rates;
            let costs = |rate: f64, of: f64| rate < of * (1.0 - LOSS_MAX);
            let marks = [costs(ahead, none), costs(in_time, none), costs(prefetch, in_time)];
            over += marks.iter().filter(|mark| **mark).count();
            let mark = |index: usize| if marks[index] { "*" } else { "" };
            println!(
                "{drive:<15} {:>7} {:>6} {:<10} {none:>7.3} {:>7} {:>7} {:>8}",
                load.0,
                load.1,
                load.2,
                format!("{ahead:.3}{}", mark(0)),
                format!("{in_time:.3}{}", mark(1)),
                format!("{prefetch:.3}{}", mark(2))
            );
        }
    }
    println!("{over} figures more than 2 % below the one they are compared with");
    std::process::exit(i32::from(over > 0));
}
