//! Volumes that write, and neighbours of them, on one disk.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::{Report, Simulation};
use units::{Duration, Instant};

const WARM_UP: Duration = Duration::from_secs(10);
const LENGTH: Duration = Duration::from_secs(20);

pub(crate) const RANDOM_WRITES: &str =
    "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 32\n";
pub(crate) const LARGE_WRITES: &str =
    "op = \"write\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4\n";
pub(crate) const DATABASE: &str =
    "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nflush_every = 1\n";
pub(crate) const READER: &str =
    "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nthink = \"1ms\"\n";

/// A disk of these keys, and volumes of this size, each with its contract and its workload.
pub(crate) fn plan(disk: &str, size: &str, volumes: &[(&str, &str)]) -> Plan {
    let mut text = format!("[[disk]]\nname = \"d\"\n{disk}\n");
    for (index, (contract, _)) in volumes.iter().enumerate() {
        let _ = write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size}\"\n{contract}\n"
        );
    }
    for (index, (_, workload)) in volumes.iter().enumerate() {
        let _ = write!(text, "[[workload]]\nvolume = \"v{index}\"\n{workload}");
    }
    Plan::parse(&text, "writers.toml", Path::new("")).expect("a sound scenario")
}

/// The rate of each volume's requests behind the time in which the buffers fill, and the report of
/// the whole run.
pub(crate) fn rates(plan: &Plan) -> (Vec<f64>, Report) {
    let mut simulation = Simulation::new(plan);
    let begin = Instant::ZERO + WARM_UP;
    simulation.run_until(begin);
    simulation.restart_latencies();
    let before = simulation.report();
    simulation.run_until(begin + LENGTH);
    let after = simulation.report();
    let requests = |report: &Report| -> Vec<u64> {
        report.volumes.iter().map(|volume| volume.requests).collect()
    };
    let charged: f64 = after.volumes.iter().map(|volume| volume.disk_time_share).sum();
    let apart = (after.disks[0].busy_share - charged).abs() * after.duration_s;
    assert!(apart <= 1.0, "{apart} s of the disk's busy time are charged to no volume");
    let both = requests(&before).into_iter().zip(requests(&after));
    #[expect(clippy::cast_precision_loss, reason = "a rate is compared with a bound")]
    let rate = |(before, after): (u64, u64)| (after - before) as f64 / LENGTH.as_secs_f64();
    (both.map(rate).collect(), after)
}
