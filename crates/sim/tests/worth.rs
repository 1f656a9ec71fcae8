//! The worth of reserves.

use std::path::Path;

use config::{Plan, VolumeIndex};
use spindle_sim::worth::{alone, default_warm_up, measure, worths};
use units::{Duration, Share};

/// Two random readers in the halves of a disk, with half of it each.
fn plan(first: &str, second: &str) -> Plan {
    let volume = |name: &str, at: &str| {
        format!(
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nat = \"{at}\"\nsize = \"1000GiB\"\n\
             reserve = \"50%\"\n"
        )
    };
    let workload = |name: &str, lines: &str| {
        format!(
            "[[workload]]\nvolume = \"{name}\"\nop = \"read\"\naccess = \"random\"\n\
             block = \"4KiB\"\n{lines}\n"
        )
    };
    let text = [
        "duration = \"20s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n".to_owned(),
        volume("a", "0"),
        volume("b", "4000GiB"),
        workload("a", first),
        workload("b", second),
    ];
    Plan::parse(&text.concat(), "worth.toml", Path::new("")).expect("a good config")
}

const WARM_UP: Duration = Duration::from_secs(5);

#[test]
fn a_client_that_never_pauses_gets_what_a_drive_slowed_to_its_reserve_gives() {
    let worths = worths(&plan("outstanding = 1", "outstanding = 16"), WARM_UP);
    for worth in worths.into_iter().map(|worth| worth.expect("a reserve and a closed loop")) {
        assert!((0.9..1.1).contains(&worth.value), "{worth:?}");
        assert!((worth.value - worth.rate / worth.reference_rate).abs() < 1e-12);
        assert!(worth.reference_latency_ms.p99 < worth.latency_ms.p99, "{worth:?}");
    }
}

#[test]
fn alone_on_the_whole_disk_a_reserve_of_all_of_it_is_worth_one() {
    let mut plan = plan("outstanding = 1\nthink = { exponential = \"2ms\" }", "outstanding = 1");
    plan.workloads.truncate(1);
    plan.volumes[1].contract = engine::Contract::BEST_EFFORT;
    plan.volumes[0].contract = engine::Contract::reserve(Share::ALL);
    let worths = worths(&plan, WARM_UP);
    let worth = worths[0].expect("a reserve and a closed loop");
    assert!((worth.value - 1.0).abs() < 1e-9, "{worth:?}");
    assert_eq!(worths[1], None, "no reserve, no worth");
}

#[test]
fn the_load_alone_has_the_random_numbers_of_the_load_beside_others() {
    let plan = plan("outstanding = 1", "outstanding = 1\nthink = \"1ms\"");
    let reference = alone(&plan, VolumeIndex(1), Share::from_percent(50));
    assert_eq!(reference.disks[0].slowed, Share::from_percent(50));
    let slowest = alone(&reference, VolumeIndex(1), Share::from_percent(50));
    assert_eq!(slowest.disks[0].slowed, Share::from_percent(25), "slowness multiplies");
    let rates = measure(&reference, WARM_UP);
    assert!(rates[0].rate == 0.0 && rates[1].rate > 0.0, "{rates:?}");
    assert_eq!(reference.workloads[1], plan.workloads[1]);
}

#[test]
fn an_open_loop_has_no_worth() {
    let worths = worths(&plan("rate = \"10/s\"", "burst = 4\nthink = \"10ms\""), WARM_UP);
    assert_eq!(worths[0], None);
    assert!(worths[1].is_some());
}

#[test]
fn a_short_run_is_measured_for_three_quarters_of_it() {
    let warm_up = |seconds| default_warm_up(Duration::from_secs(seconds));
    assert_eq!([4, 20, 60].map(warm_up), [1, 5, 5].map(Duration::from_secs));
}
