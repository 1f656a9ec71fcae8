//! Just-in-time seeks cost readers nothing that counts, whatever the drive reads ahead.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant};

const SECONDS: u64 = 10;

/// The bytes that two readers with one request outstanding each have read.
fn read(drive: &str, (access, block): (&str, &str), execution: &str) -> u64 {
    let mut text = format!(
        "duration = \"{SECONDS}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         policy = \"fcfs\"\nexecution = \"preemptible\"\nseek_split = \"off\"\n{execution}\n"
    );
    for name in ["a", "b"] {
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"2GiB\"\n[[workload]]\n\
             volume = \"{name}\"\nop = \"read\"\naccess = \"{access}\"\nblock = \"{block}\"\n\
             outstanding = 1\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(SECONDS));
    simulation.report().volumes.iter().map(|volume| volume.bytes).sum()
}

#[test]
fn just_in_time_seeks_cost_two_readers_at_most_two_percent() {
    for drive in ["hgst-7k8", "nearline-20t", "barracuda-2t"] {
        for load in [("sequential", "64KiB"), ("sequential", "1MiB"), ("random", "64KiB")] {
            let none = read(drive, load, "jit_offset = \"off\"");
            let with = read(drive, load, "");
            println!("{drive}, {load:?}: {none} bytes without, {with} with just-in-time seeks");
            assert!(with * 100 >= none * 98, "{drive}, {load:?}: {with} of {none}");
        }
    }
}
