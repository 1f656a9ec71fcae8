//! Streams beside shares under the policy `spindle`: one disk keeps both.

mod common;

use common::{BACKLOG, CAMERA, RECORDING, run};
use stats::VolumeReport;

/// `cameras` cameras, and then these volumes.
fn cameras<'a>(cameras: usize, others: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    (0..cameras).map(|_| (CAMERA, RECORDING)).chain(others.iter().copied()).collect()
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
