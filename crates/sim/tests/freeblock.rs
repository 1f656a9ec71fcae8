//! Reads of best effort in the rotational waits of other volumes' commands, on the drive models.

use std::path::Path;
use std::sync::Arc;

use config::{DiskIndex, Plan, VolumeIndex};
use drive::AnyModel;
use engine::{ChooserName, FreeblockStats};
use spindle_sim::{Simulation, seeds};
use stats::VolumeReport;
use tempfile::TempDir;
use units::{DiskTime, Duration, Instant};

/// The part of its throughput that a volume loses at most.
const LOSS_MAX: f64 = 0.02;

const SECONDS: u64 = 20;

/// A disk of these volumes, each with its contract and its client, whose seeks vary by 0.1 ms.
fn plan(drive: &str, freeblock: bool, volumes: &[(&str, &str)], seed: u64) -> Plan {
    use std::fmt::Write as _;
    let mut text = format!(
        "seed = {seed}\nduration = \"{SECONDS}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         freeblock = {freeblock}\n"
    );
    for (index, (contract, client)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"4GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{client}\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).and_then(Plan::for_sim);
    let mut plan = plan.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let disk = &mut plan.disks[0];
    let mut spec = disk.drive.model.mechanical().expect("an arm").spec().clone();
    spec.arm.variation = Duration::from_micros(100);
    disk.drive.model = AnyModel::Mechanical(Arc::new(spec.check().expect("a drive")));
    plan
}

fn run(plan: &Plan) -> (Vec<VolumeReport>, FreeblockStats) {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    let stats = simulation.freeblock(DiskIndex(0)).unwrap_or_default();
    (simulation.report().volumes, stats)
}

/// Requests a second of each volume, the mean over three seeds.
fn rates(drive: &str, freeblock: bool, volumes: &[(&str, &str)]) -> Vec<f64> {
    let runs = (1..=3).map(|seed| run(&plan(drive, freeblock, volumes, seed)).0);
    let rates = runs.map(|run| run.iter().map(|volume| volume.iops).collect::<Vec<_>>());
    let sum = rates.reduce(|sum, one| sum.iter().zip(one).map(|(a, b)| a + b).collect());
    sum.expect("three runs").into_iter().map(|sum| sum / 3.0).collect()
}

const FIRST: &str = "reserve = \"90%\"\npriority = \"high\"";
/// Scrubs: in any order with many reads outstanding, and in sequence.
const SCRUBS: [&str; 3] = [
    "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 256",
    "op = \"read\"\naccess = \"random\"\nblock = \"64KiB\"\noutstanding = 256",
    "op = \"read\"\naccess = \"sequential\"\nblock = \"64KiB\"\noutstanding = 64",
];

#[test]
fn a_scrub_goes_on_beside_a_volume_that_always_has_requests_and_costs_it_less_than_two_percent() {
    // Reads of the scrub in a second: on large drives the volumes are near each other.
    for (drive, least) in [("hgst-7k8", 100.0), ("nearline-20t", 100.0), ("st318437lw", 0.5)] {
        for outstanding in [1, 4] {
            let client = format!(
                "op = \"read\"\naccess = \"random\"\nblock = \"8KiB\"\noutstanding = {outstanding}"
            );
            for scrub in SCRUBS {
                let volumes = [(FIRST, client.as_str()), ("", scrub)];
                let (off, on) = (rates(drive, false, &volumes), rates(drive, true, &volumes));
                let loss = 1.0 - on[0] / off[0];
                println!("{drive}, {outstanding}: {loss:.4} lost, {:.1} scrubbed: {scrub}", on[1]);
                assert!(off[1] < 0.1, "{drive}: nothing is left to a scrub: {}", off[1]);
                assert!(loss < LOSS_MAX, "{drive}, {outstanding}, {scrub}: {loss:.4} lost");
                assert!(on[1] >= least, "{drive}, {outstanding}, {scrub}: {:.1} reads/s", on[1]);
            }
        }
    }
}

#[test]
fn a_volume_whose_waits_are_used_gets_no_more_of_the_disk_and_its_neighbour_no_less() {
    let run = "op = \"read\"\naccess = \"sequential\"\nblock = \"64KiB\"\noutstanding = 16";
    for outstanding in [2, 12] {
        let random = format!(
            "op = \"read\"\naccess = \"random\"\nblock = \"8KiB\"\noutstanding = {outstanding}"
        );
        let (half, scrub) = ("reserve = \"45%\"", ("limit = \"50%\"", SCRUBS[0]));
        let volumes = [(half, random.as_str()), (half, run), scrub];
        for drive in ["hgst-7k8", "nearline-20t"] {
            let (off, on) = (rates(drive, false, &volumes), rates(drive, true, &volumes));
            println!("{drive}, {outstanding}: {off:.1?} without, {on:.1?} with");
            for volume in [0, 1] {
                let loss = 1.0 - on[volume] / off[volume];
                assert!(loss < LOSS_MAX, "{drive}, volume {volume}: {loss:.4} lost");
            }
        }
    }
}

#[test]
fn beside_a_stream_nothing_is_different() {
    let camera = "stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }";
    let random = "op = \"read\"\naccess = \"random\"\nblock = \"8KiB\"\noutstanding = 4";
    let volumes = [(camera, "op = \"write\"\naccess = \"stream\""), ("", random), ("", SCRUBS[1])];
    let (off, _) = run(&plan("hgst-7k8", false, &volumes, 1));
    let (on, stats) = run(&plan("hgst-7k8", true, &volumes, 1));
    assert_eq!(stats, FreeblockStats::default());
    assert_eq!(on, off);
    let kept = on[0].deadlines.as_ref().expect("a stream");
    assert_eq!(kept.missed, 0, "{kept:?}");
}

#[test]
fn what_is_read_in_waits_is_charged_to_its_volume_and_the_charges_are_the_busy_time() {
    let client = "op = \"read\"\naccess = \"random\"\nblock = \"8KiB\"\noutstanding = 1";
    let volumes = [(FIRST, client), ("", SCRUBS[0])];
    let plan = plan("hgst-7k8", true, &volumes, 1);
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(SECONDS));
    let charged = [0, 1].map(|index| simulation.volume(VolumeIndex(index)).disk_time);
    let stats = simulation.freeblock(DiskIndex(0)).expect("it is on");
    assert_eq!(charged[1], stats.disk_time, "all of its reads were in waits");
    assert!(stats.disk_time > DiskTime::from_millis(5_000), "{stats:?}");
    let busy = simulation.report().disks[0].busy_share * 20.0;
    let sum = (charged[0] + charged[1]).as_secs_f64();
    assert!((busy - sum).abs() < 0.05, "{busy} s busy, {sum} s charged, and commands in service");
}

#[test]
fn every_oracle_holds_over_generated_scenarios_with_reads_in_waits() {
    let scratch = TempDir::new().expect("a scratch directory");
    let mut runs = 0;
    for seed in 0..40 {
        let generated = seeds::scenario(seed);
        for (name, content) in &generated.traces {
            std::fs::write(scratch.path().join(name), content).expect("there is space");
        }
        let text = generated.text.replace("[[disk]]\n", "[[disk]]\nfreeblock = true\n");
        let Ok(plan) = Plan::parse(&text, "plan.toml", scratch.path()) else { continue };
        assert!(plan.disks.iter().all(|disk| disk.chooser == ChooserName::Predicted));
        let name = format!("seed {seed}, freeblock");
        seeds::run_text(&text, &generated.changes, &name, scratch.path());
        runs += 1;
    }
    assert!(runs >= 4, "{runs} scenarios");
}
