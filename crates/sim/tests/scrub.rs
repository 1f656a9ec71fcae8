//! How fast a pool is scrubbed, and what that costs its clients.

use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant};

const POOL: &str = "duration = \"24s\"\n[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n[pool]\n\
                    disks = [\"d0\"]\n";
const VOLUME: &str = "[[pool.volume]]\nname = \"v\"\nsize = \"64GiB\"\n";
const READS: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"sequential\"\n\
                     block = \"1MiB\"\noutstanding = 4\n";
const RANDOM: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
                      block = \"4KiB\"\noutstanding = 16\n";
/// A client that sends a request, and then none for a long time.
const IDLE: &str = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
                    block = \"4KiB\"\noutstanding = 1\nthink = \"1000s\"\n";

fn simulation(rest: &str) -> Simulation {
    let plan = Plan::parse(&format!("{POOL}{rest}"), "plan.toml", Path::new(""));
    Simulation::new(&plan.and_then(Plan::for_sim).expect("a sound scenario"))
}

fn second(second: u32) -> Instant {
    Instant::ZERO + Duration::from_secs(u64::from(second))
}

/// The client's requests, and the blocks that were scrubbed, in each of 18 seconds.
fn seconds(text: &str, is_scrubbing: bool) -> Vec<(u32, u32)> {
    let mut simulation = simulation(text);
    simulation.run_until(second(1));
    if is_scrubbing {
        simulation.start_scrub();
    }
    let figures = (5..24).map(|at| {
        simulation.run_until(second(at));
        let requests = simulation.report().volumes[0].requests;
        let figure = |number: u64| u32::try_from(number).expect("few");
        (figure(requests), figure(simulation.scrubbed_blocks()))
    });
    let figures: Vec<(u32, u32)> = figures.collect();
    figures.windows(2).map(|two| (two[1].0 - two[0].0, two[1].1 - two[0].1)).collect()
}

fn mean(figures: impl ExactSizeIterator<Item = u32>) -> f64 {
    let count = f64::from(u32::try_from(figures.len()).expect("few"));
    figures.map(f64::from).sum::<f64>() / count
}

/// The samples in a second, and in a window of two.
const RATE: u32 = 20;
const WINDOW: usize = 40;

/// The shares of the disk's time that the client's volume and the scrub had, in every window of two
/// seconds.
fn shares(text: &str) -> Vec<(f64, f64)> {
    let mut simulation = simulation(text);
    simulation.run_until(second(1));
    simulation.start_scrub();
    let spent = (4 * RATE..24 * RATE).map(|nth| {
        let step = Duration::from_millis(1_000 / u64::from(RATE));
        simulation.run_until(Instant::ZERO + step * u64::from(nth));
        let (report, seconds) = (simulation.report(), f64::from(nth) / f64::from(RATE));
        let pool = report.pool.as_ref().expect("there is one");
        let part = pool.parts.iter().find(|part| part.name == "scrub on d0").expect("it is there");
        (report.volumes[0].disk_time_share * seconds, part.disk_time_share * seconds)
    });
    let spent: Vec<(f64, f64)> = spent.collect();
    let window = |two: &[(f64, f64)]| {
        let ((client, scrub), (client_then, scrub_then)) = (two[0], two[WINDOW]);
        ((client_then - client) / 2.0, (scrub_then - scrub) / 2.0)
    };
    spent.windows(WINDOW + 1).map(window).collect()
}

#[test]
fn a_scrub_leaves_its_neighbour_its_reserve_and_has_its_own() {
    let reserved = VOLUME.replace("size", "reserve = \"60%\"\nsize");
    let shares = shares(&format!("scrub = {{ reserve = \"20%\" }}\n{reserved}{RANDOM}"));
    println!("{shares:.3?}");
    for (client, scrub) in shares {
        assert!(client >= 0.58, "the client has {client} of the disk's time in two seconds");
        assert!(scrub >= 0.18, "the scrub has {scrub} of the disk's time in two seconds");
    }
}

#[test]
fn a_scrub_with_a_limit_stays_below_it() {
    let scrub = "scrub = { reserve = \"2%\", limit = \"10%\" }\n";
    let shares = shares(&format!("{scrub}{VOLUME}{IDLE}"));
    println!("{shares:?}");
    for (_, scrub) in shares {
        assert!((0.08..=0.12).contains(&scrub), "the scrub has {scrub} in two seconds");
    }
}

#[test]
fn a_scrub_beside_an_idle_client_reads_at_nine_tenths_of_the_sequential_rate() {
    let sequential = mean(seconds(&format!("{VOLUME}{READS}"), false).iter().map(|one| one.0));
    let text = format!("scrub = {{ reserve = \"1%\" }}\n{VOLUME}{IDLE}");
    let scrubbed = mean(seconds(&text, true).iter().map(|one| one.1));
    println!("{scrubbed} of {sequential} MiB/s: {}", scrubbed / sequential);
    assert!(scrubbed >= 0.9 * sequential, "{scrubbed} of {sequential}");
}
