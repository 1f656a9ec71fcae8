//! A volume's throughput is that of its own disk, scaled by its share: neighbours reduce it little.

use config::Plan;
use engine::Contract;
use sim::Simulation;
use units::{Instant, Share};

const PAIR: &str = include_str!("../experiments/vdisk-pair.toml");

/// IOPS of the sequential and the random volume at these reserves, or of one of them alone.
fn iops(reserves: [u32; 2], only: Option<usize>) -> [f64; 2] {
    measured(reserves, only).map(|(iops, _)| iops)
}

/// IOPS and the share of disk time of each volume.
fn measured(reserves: [u32; 2], only: Option<usize>) -> [(f64, f64); 2] {
    let mut plan = Plan::parse(PAIR, "vdisk-pair.toml", std::path::Path::new(".")).expect("valid");
    for (volume, reserve) in plan.volumes.iter_mut().zip(reserves) {
        volume.contract = Contract::reserve(Share::from_percent(reserve));
    }
    if let Some(only) = only {
        plan.workloads = vec![plan.workloads[only].clone()];
    }
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("given"));
    let volumes = simulation.report().volumes;
    [0, 1].map(|volume| (volumes[volume].iops, volumes[volume].disk_time_share))
}

#[test]
fn a_small_share_of_the_disk_is_worth_its_part_of_the_throughput() {
    let (sequential, random) = (iops([0, 0], Some(0))[0], iops([0, 0], Some(1))[1]);
    let beside = iops([10, 90], None);
    let kept = beside[0] / (0.1 * sequential);
    assert!(kept > 0.95, "a sequential stream with 10 % keeps {kept:.3} of its tenth");
    let beside = iops([90, 10], None);
    let kept = beside[1] / (0.1 * random);
    assert!(kept > 0.95, "a random stream with 10 % keeps {kept:.3} of its tenth");
}

#[test]
fn disk_time_out_of_slack_is_worth_as_much_as_reserved_disk_time() {
    let alone = [iops([0, 0], Some(0))[0], iops([0, 0], Some(1))[1]];
    for reserves in [[0, 0], [40, 40], [10, 80], [20, 60]] {
        let had = measured(reserves, None);
        for ((iops, share), alone) in had.into_iter().zip(alone) {
            let kept = iops / (share * alone);
            assert!(kept > 0.85, "{reserves:?}: {kept:.3} of its {share:.3} of the disk");
        }
    }
}
