//! A request allocates no memory, neither in the drive model nor in the whole simulation.
//!
//! Queues, the event queue, histograms and the oracles' tables grow while a simulation warms up;
//! after that, more requests must not cause more allocations.

use std::path::Path;
use std::sync::Arc;

use config::Plan;
use drive::{Choosing, Device, Discipline, Model, Tag};
use spindle_sim::{SeededRng, Simulation};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

const BLOCK: Sectors = Sectors(8);
const REQUESTS: u64 = 20_000;

fn model(discipline: Discipline) -> Arc<Model> {
    let mut spec = drive_library::find_mechanical("hgst-7k8").expect("in the library");
    spec.discipline = discipline;
    Arc::new(spec.check().expect("a drive"))
}

/// Allocations of reads, writes and some flushes with `depth` commands in the drive.
fn allocations(model: &Arc<Model>, depth: u64) -> u64 {
    let mut device = Device::new(Arc::clone(model));
    let mut rng = SeededRng::new(1, 0);
    let blocks = model.capacity().0 / BLOCK.0;
    let mut operation = |nth: u64| {
        let extent = Extent::new(Lba(rng.below(blocks) * BLOCK.0), BLOCK);
        match nth % 16 {
            15 => Operation::flush(),
            _ if nth.is_multiple_of(3) => Operation::write(extent),
            _ => Operation::read(extent),
        }
    };
    let counted = allocation_counter::measure(|| {
        for tag in 0..depth {
            device.submit(Instant::ZERO, Tag(tag), operation(tag));
        }
        let mut done = 0;
        while done < REQUESTS {
            let now = device.next_completion().expect("commands wait");
            if device.complete(now).is_some() {
                done += 1;
                device.submit(now, Tag(depth + done), operation(done));
            }
        }
    });
    counted.count_total
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn a_command_in_the_drive_allocates_nothing() {
    let choosing = Choosing {
        age_limit: Duration::from_secs(2),
        stream_hold: Duration::from_millis(1),
        decision_latency: Duration::ZERO,
    };
    for (discipline, depth) in [
        (Discipline::Fifo, 1),
        (Discipline::ShortestSeek(choosing), 32),
        (Discipline::ShortestPositioning(choosing), 32),
    ] {
        assert_eq!(allocations(&model(discipline), depth), 0, "{discipline:?}");
    }
}

/// The scenario of the benchmark.
const SCENARIO: &str = include_str!("../benches/two-streams.toml");

#[test]
fn a_request_through_the_simulation_allocates_nothing() {
    for policy in ["utilization", "fcfs"] {
        let text = SCENARIO.replace("POLICY", policy);
        let plan =
            Plan::parse(&text, "allocations", Path::new(".")).expect("the scenario is valid");
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(Instant::ZERO + Duration::from_secs(5));
        let before = simulation.report().oracles.answered;
        let counted = allocation_counter::measure(|| {
            simulation.run_until(Instant::ZERO + Duration::from_secs(60));
        });
        let answered = simulation.report().oracles.answered - before;
        println!("{policy}: {} allocations, {answered} requests", counted.count_total);
        assert!(answered > 4_000);
        assert_eq!(counted.count_total, 0, "{policy}");
    }
}
