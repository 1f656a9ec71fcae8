//! The worth that a daemon estimates without a second disk, against the worth that is measured on a
//! slowed drive.

use std::fmt::Write as _;
use std::path::Path;

use config::{Plan, VolumeIndex};
use spindle_sim::{Simulation, worth};
use stats::DemandSample;
use units::{Duration, Instant};

const WARM_UP: Duration = Duration::from_secs(5);
const BACKLOG: &str = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 16";

/// Two volumes in the halves of a drive, the first with this load. Requests are served one at a
/// time in the order of arrival: what an order by position gains is no part of the estimate.
fn plan(drive: &str, reserve: u32, load: &str) -> Plan {
    let size = if drive == "nearline-20t" { 9_000 } else { 3_700 };
    let mut text = format!(
        "duration = \"45s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\npolicy = \"spindle\"\n\
         depth = 1\nchooser = \"arrival\"\n"
    );
    for (name, reserve, load) in [("a", reserve, load), ("b", 100 - reserve, BACKLOG)] {
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"{size}GiB\"\n\
             reserve = \"{reserve}%\"\n[[workload]]\nvolume = \"{name}\"\nop = \"read\"\n{load}\n"
        )
        .expect("a string takes all");
    }
    Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario")
}

/// The estimate for each volume of what it gets after the warm-up.
fn estimates(plan: &Plan) -> Vec<Option<f64>> {
    let mut simulation = Simulation::new(plan);
    let mut sample = |at: Instant| {
        simulation.run_until(at);
        let of = |volume: usize| {
            let view = simulation.volume(VolumeIndex(volume));
            view.demand.map(|demand| DemandSample { at, requests: view.requests, demand })
        };
        (0..plan.volumes.len()).map(of).collect::<Vec<_>>()
    };
    let before = sample(Instant::ZERO + WARM_UP);
    let after = sample(Instant::ZERO + plan.duration.expect("a length"));
    let both = plan.volumes.iter().zip(before.into_iter().zip(after));
    both.map(|(volume, (before, after))| after?.worth_since(&before?, volume.contract.reserve))
        .collect()
}

/// The measured and the estimated worth of both volumes.
fn compared(plan: &Plan) -> [(f64, f64); 2] {
    let measured = worth::worths(plan, WARM_UP);
    let estimated = estimates(plan);
    let both = |volume: usize| {
        let measured = measured[volume].as_ref().expect("a reserve").value;
        (measured, estimated[volume].expect("enough requests"))
    };
    [both(0), both(1)]
}

fn random(outstanding: u32, think: &str) -> String {
    format!(
        "access = \"random\"\nblock = \"4KiB\"\noutstanding = {outstanding}\n\
         think = {{ exponential = \"{think}\" }}"
    )
}

/// Asserts that the estimates of both volumes are within `tolerance` of the measured worth; above
/// 1, of that part of it.
fn assert_near(drive: &str, reserve: u32, load: &str, tolerance: f64) {
    for (measured, estimated) in compared(&plan(drive, reserve, load)) {
        let error = (estimated - measured).abs() / measured.max(1.0);
        assert!(
            error <= tolerance,
            "{drive}, {reserve} %, {load:?}: measured {measured:.3}, estimated {estimated:.3}"
        );
    }
}

#[test]
fn the_worth_to_one_request_at_a_time_is_estimated_within_0_08() {
    for drive in ["hgst-7k8", "nearline-20t"] {
        for reserve in [20, 50, 70] {
            for think in ["100us", "1ms", "5ms", "20ms", "100ms"] {
                assert_near(drive, reserve, &random(1, think), 0.08);
            }
        }
    }
}

#[test]
fn the_worth_to_several_requests_with_pauses_of_their_own_is_estimated_within_0_15() {
    for reserve in [20, 50] {
        for (outstanding, think) in
            [(2, "1ms"), (2, "20ms"), (2, "100ms"), (4, "5ms"), (4, "100ms")]
        {
            assert_near("hgst-7k8", reserve, &random(outstanding, think), 0.15);
        }
    }
}

#[test]
fn the_worth_to_bursts_backlogs_and_sequential_readers_is_estimated_within_0_05() {
    let burst = "access = \"random\"\nblock = \"4KiB\"\nburst = 8\nthink = \"100ms\"";
    let backlog = "access = \"random\"\nblock = \"1MiB\"\noutstanding = 16";
    let sequential = "access = \"sequential\"\nblock = \"64KiB\"\noutstanding = 4";
    for reserve in [20, 50] {
        for load in [burst, backlog, sequential] {
            assert_near("hgst-7k8", reserve, load, 0.05);
        }
    }
}
