//! Just-in-time seeks cost readers nothing that counts, whatever the drive reads ahead.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant};

const SECONDS: u64 = 10;

/// The bytes that two readers with one request outstanding each have read.
fn read(drive: &str, load: (&str, &str), execution: &str) -> u64 {
    let simulation = run(drive, load, "", execution, 2_048);
    simulation.report().volumes.iter().map(|volume| volume.bytes).sum()
}

fn run(
    drive: &str,
    (access, block): (&str, &str),
    client: &str,
    execution: &str,
    mib: u32,
) -> Simulation {
    let mut text = format!(
        "duration = \"{SECONDS}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         policy = \"fcfs\"\nexecution = \"preemptible\"\nseek_split = \"off\"\n{execution}\n"
    );
    for name in ["a", "b"] {
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"{mib}MiB\"\n[[workload]]\n\
             volume = \"{name}\"\nop = \"read\"\naccess = \"{access}\"\nblock = \"{block}\"\n\
             outstanding = 1\n{client}\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(SECONDS));
    simulation
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

/// Free prefetching, on the drive of FAST 2003 and in its way: what rotational waits read is the
/// volume's own next read, or is kept in the host until its client comes for it.
#[test]
fn what_is_read_in_rotational_waits_is_delivered_and_costs_nothing() {
    let (plain, prefetching) =
        ("approach = \"in-time\"", "approach = \"in-time\"\nfree_prefetch = true");
    for client in ["", "think = \"5ms\""] {
        let (mut without, mut with, mut prefetched, mut used) = (0, 0, 0, 0);
        for place in 0..6 {
            let load = ("sequential", "64KiB");
            let run =
                |execution| run("st318437lw", load, client, execution, 2_048 + 37 * place).report();
            without += run(plain).volumes.iter().map(|volume| volume.bytes).sum::<u64>();
            for volume in run(prefetching).volumes {
                with += volume.bytes;
                let ahead = volume.read_ahead.iter();
                prefetched += ahead.clone().map(|ahead| ahead.prefetched_bytes).sum::<u64>();
                used += ahead.map(|ahead| ahead.prefetched_used_bytes).sum::<u64>();
            }
        }
        println!("{client}: {without} bytes, {with} with; {used} of {prefetched} prefetched used");
        assert!(with * 100 >= without * 98, "{client}: {with} of {without}");
        assert!(client.is_empty() || used * 10 >= prefetched * 8, "{used} of {prefetched}");
        assert!(client.is_empty() || used > 0, "clients that pause are prefetched for");
    }
}
