//! Drives that are slowed to a share of their speed.

use std::path::Path;

use config::Plan;
use spindle_sim::{Report, Simulation};
use units::{Duration, Instant};

const DRIVES: [&str; 3] = ["hgst-7k8", "nearline-20t", "samsung-870evo-1t"];

/// One random read of 4 KiB outstanding, alone on the drive.
fn run(drive: &str, slowed: &str, seconds: u64) -> Report {
    let text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n{slowed}\n\
         [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"400GiB\"\n\
         [[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
         outstanding = 1\n"
    );
    let plan = Plan::parse(&text, "slowed.toml", Path::new("")).expect("a good config");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + Duration::from_secs(seconds));
    simulation.report()
}

#[test]
fn a_client_alone_on_a_drive_at_half_its_speed_gets_half_the_rate() {
    for drive in DRIVES {
        let seconds = if drive == DRIVES[2] { 2 } else { 60 };
        let iops = |slowed, seconds| run(drive, slowed, seconds).volumes[0].iops;
        // Twice as long, so that the two runs have the same requests.
        let (full, half) = (iops("", seconds), iops("slowed = 0.5", 2 * seconds));
        assert!((half / full - 0.5).abs() < 0.0025, "{drive}: {half} of {full} requests a second");
    }
}

#[test]
fn a_run_on_a_slowed_drive_takes_longer_and_is_otherwise_the_same() {
    for drive in DRIVES {
        let (full, half) = (run(drive, "", 2), run(drive, "slowed = \"50%\"", 4));
        assert_eq!(half.volumes[0].requests, full.volumes[0].requests, "{drive}");
        let (full, half) = (full.volumes[0].latency_ms, half.volumes[0].latency_ms);
        assert!((half.mean / full.mean - 2.0).abs() < 1e-6, "{drive}: {half:?} {full:?}");
    }
}

#[test]
fn a_drive_slowed_to_its_whole_speed_is_the_drive() {
    for drive in DRIVES {
        assert_eq!(run(drive, "slowed = 1", 2), run(drive, "", 2), "{drive}");
    }
}
