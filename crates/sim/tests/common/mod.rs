//! Scenarios of one disk, for the tests of what it keeps.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use stats::VolumeReport;
use units::Instant;

/// Sixteen random reads outstanding.
pub(crate) const BACKLOG: &str =
    "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 16";
/// A camera: its contract and its client.
pub(crate) const CAMERA: &str = "stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }";
pub(crate) const RECORDING: &str = "op = \"write\"\naccess = \"stream\"";

/// Runs volumes of 100 GiB, each with its contract and its workload, for 30 s on a disk of these
/// keys.
pub(crate) fn run(disk: &str, volumes: &[(&str, &str)]) -> Vec<VolumeReport> {
    let mut text = format!("duration = \"30s\"\n[[disk]]\nname = \"d\"\n{disk}\n");
    for (index, (contract, workload)) in volumes.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"100GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("the contracts are accepted");
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    simulation.report().volumes
}
