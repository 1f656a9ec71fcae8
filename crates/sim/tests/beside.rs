//! Streams beside shares under the policy `spindle`: one disk keeps both.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use stats::VolumeReport;
use units::Instant;

const BACKLOG: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 16";
const CAMERA: &str = "stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }";
const RECORDING: &str = "op = \"write\"\naccess = \"stream\"";

/// A disk of these keys, and volumes: each with its contract and its workload, in 100 GiB.
fn parse(disk: &str, volumes: &[(String, &str)]) -> Result<Plan, config::ConfigError> {
    let mut text = format!("duration = \"30s\"\n[[disk]]\nname = \"d\"\n{disk}\n");
    for (index, (contract, workload)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"100GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    Plan::parse(&text, "plan.toml", Path::new(""))
}

fn run(disk: &str, volumes: &[(String, &str)]) -> Vec<VolumeReport> {
    let plan = parse(disk, volumes).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    simulation.report().volumes
}

/// `cameras` cameras, and then these volumes.
fn cameras(cameras: usize, others: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    let others = others.iter().map(|(contract, load)| ((*contract).to_owned(), *load));
    (0..cameras).map(|_| (CAMERA.to_owned(), RECORDING)).chain(others).collect()
}

/// The blocks met by the streams.
fn all_met(volumes: &[VolumeReport]) -> u64 {
    let kept = volumes.iter().filter_map(|volume| volume.deadlines.as_ref());
    kept.map(|kept| {
        assert_eq!(kept.missed, 0, "no block is late");
        kept.met
    })
    .sum()
}

#[test]
fn reserves_hold_beside_twelve_cameras_at_every_period() {
    for (percent, least) in [(10, 0.095), (20, 0.195), (35, 0.345)] {
        for period in ["100ms", "200ms", "1s"] {
            let disk = format!("drive = \"hgst-7k8\"\npolicy = \"spindle\"\nperiod = \"{period}\"");
            let reserve = format!("reserve = \"{percent}%\"");
            let volumes = cameras(12, &[(&reserve, BACKLOG), ("", BACKLOG)]);
            let report = run(&disk, &volumes);
            assert!(all_met(&report) > 12 * 40, "the cameras record");
            let share = report[12].disk_time_share;
            assert!(share >= least, "{percent}% at {period}: {share}");
        }
    }
}

#[test]
fn best_effort_beside_cameras_is_served_no_worse_than_under_delta_star() {
    let served = |policy: &str| {
        let disk = format!("drive = \"hgst-7k8\"\npolicy = \"{policy}\"");
        let report = run(&disk, &cameras(16, &[("", BACKLOG)]));
        all_met(&report);
        report[16].iops
    };
    let (beside, alone) = (served("spindle"), served("delta-star"));
    assert!(beside >= alone, "{beside} requests a second, {alone} under delta-star");
}
