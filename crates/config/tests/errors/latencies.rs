//! Bounded latencies: what is refused, with what would fit, and what is admitted.

use std::path::Path;

use engine::{Feature, PolicyName};
use spindle_config::{ConfigError, DiskIndex, Plan};
use units::{Duration, Instant};

use super::refused;

const DISK: &str = "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n";
const VOLUME: &str = "[[volume]]\nname = \"log\"\ndisk = \"d0\"\nsize = \"10GiB\"\n";

/// A policy that keeps latencies, if there is one: the facts below hold from the first on.
fn keeping() -> Option<String> {
    let policy = PolicyName::keeping(Feature::Latency).next()?;
    Some(format!("{DISK}policy = \"{policy}\"\n"))
}

fn latency(text: &str) -> String {
    format!("{VOLUME}latency = {{ {text} }}\n")
}

fn parse(parts: &[&str]) -> Result<Plan, ConfigError> {
    Plan::parse(&parts.concat(), "plan.toml", Path::new(""))
}

fn said(parts: &[&str]) -> String {
    parse(parts).expect_err("it is refused").to_string()
}

#[test]
fn a_policy_that_keeps_no_latency_refuses_it_by_name() {
    let disk = format!("{DISK}policy = \"fcfs\"\n");
    let text = "latency = { within = \"80ms\", requests = \"20/s\", size = \"64KiB\" }\n";
    let said = refused(&[&disk, VOLUME], text);
    assert!(said.contains("field `latency`"), "{said}");
    assert!(said.contains("expected no `latency` on disk \"d0\": "), "{said}");
}

#[test]
fn a_latency_that_fits_is_admitted_with_its_worst_case_and_leaves_slack() {
    let Some(disk) = keeping() else { return };
    let text = "within = \"200ms\", requests = \"10/s\", burst = 3, size = \"64KiB\"";
    let plan = parse(&[&disk, &latency(text)]).expect("it fits");
    let latency = plan.volumes[0].contract.latency.expect("it has one");
    assert_eq!(latency.within(), Duration::from_millis(200));
    assert_eq!(latency.interval(), Duration::from_millis(100));
    assert_eq!((latency.burst(), latency.size.0), (3, 128));
    // The longest seek, two revolutions of 8.33 ms at most, and the transfer.
    let cost = latency.cost().as_secs_f64() * 1e3;
    assert!((25.0..35.0).contains(&cost), "{cost} ms");
    let headroom = plan.admission_headroom(DiskIndex(0), Instant::ZERO).expect("it has deadlines");
    assert_eq!(headroom.tasks, 1);
    let slack = headroom.slack.as_secs_f64() * 1e3;
    assert!((slack - (200.0 - 3.0 * cost)).abs() < 0.001, "a burst leaves {slack} ms");
}

#[test]
fn a_latency_that_does_not_fit_is_refused_with_what_would_and_each_offer_is_accepted() {
    let Some(disk) = keeping() else { return };
    let whole = |within: &str, rate: &str, burst: &str, size: &str| {
        latency(&format!(
            "within = \"{within}\", requests = \"{rate}\", burst = {burst}, size = \"{size}\""
        ))
    };
    let reserve = format!("{}reserve = \"30%\"\n", VOLUME.replace("log", "vm"));
    for (asked, named) in [
        (["30ms", "20/s", "4", "64KiB"], "within ="),
        (["1s", "200/s", "1", "64KiB"], "requests ="),
        (["80ms", "20/s", "40", "64KiB"], "burst ="),
        (["220ms", "2/s", "1", "8MiB"], "size ="),
    ] {
        let [within, rate, burst, size] = asked;
        let text = whole(within, rate, burst, size);
        let said = said(&[&disk, &reserve, &text]);
        assert!(said.contains("field `latency`"), "{said}");
        assert!(said.contains("what fits on disk \"d0\" ("), "{said}");
        let (_, offers) = said.split_once("; ").expect("something would fit");
        assert!(offers.contains(named), "{said}");
        let offers = offers.strip_suffix(" would fit)").expect("they end the message");
        for offer in offers.split(", or ") {
            let (key, value) = offer.split_once(" = ").expect("a key and a value");
            let [mut within, mut rate, mut burst, mut size] = asked;
            match key {
                "within" => within = value,
                "requests" => rate = value,
                "burst" => burst = value,
                "size" => size = value,
                _ => panic!("{said}"),
            }
            let text = whole(within, rate, burst, size);
            let parsed = parse(&[&disk, &reserve, &text]);
            assert!(parsed.is_ok(), "{offer} of {said}: {parsed:?}");
        }
    }
}

#[test]
fn a_latency_beside_a_reserve_that_leaves_it_no_time_is_refused() {
    let Some(disk) = keeping() else { return };
    let text = "within = \"200ms\", requests = \"10/s\", size = \"64KiB\"";
    let reserve = format!("{}reserve = \"95%\"\n", VOLUME.replace("log", "vm"));
    let said = said(&[&disk, &reserve, &latency(text)]);
    assert!(said.contains("\"log\": field `latency`: found `{ within"), "{said}");
    assert!(said.contains("124.9% of the disk's time would be asked for"), "{said}");
}

#[test]
fn a_value_outside_its_range_is_refused_with_the_range() {
    let Some(disk) = keeping() else { return };
    for (text, field, expected) in [
        ("within = \"0ms\", requests = \"20/s\", size = \"64KiB\"", "within", "1ms"),
        ("within = \"2h\", requests = \"20/s\", size = \"64KiB\"", "within", "1ms to 60s"),
        ("requests = \"20/s\", size = \"64KiB\"", "within", "a time such as 80ms"),
        ("within = \"80ms\", size = \"64KiB\"", "requests", "a rate such as 20/s"),
        ("within = \"80ms\", requests = \"20/s\"", "size", "a size such as 64KiB"),
        ("within = \"80ms\", requests = \"9/s\", size = \"1GiB\"", "size", "at most 32MiB"),
        ("within = \"80ms\", requests = \"9/s\", burst = 0, size = \"4KiB\"", "burst", "1"),
    ] {
        let said = said(&[&disk, &latency(text)]);
        assert!(said.contains(field) && said.contains(expected), "{said}");
    }
}

#[test]
fn a_latency_excludes_a_stream_and_a_limit_and_needs_a_disk_with_a_worst_case() {
    let Some(disk) = keeping() else { return };
    let text = latency("within = \"200ms\", requests = \"5/s\", size = \"64KiB\"");
    let limited = said(&[&disk, &text, "limit = \"50%\"\n"]);
    assert!(limited.contains("field `limit`"), "{limited}");
    assert!(limited.contains("expected no limit beside a latency"), "{limited}");
    assert!(parse(&[&disk, "depth = 4\n", &text]).is_ok());
    let whole = said(&[&disk, "execution = \"preemptible\"\n", &text]);
    assert!(whole.contains("field `latency`") && whole.contains("a `chunk` such as"), "{whole}");
    let flash = disk.replace("hgst-7k8", "samsung-870evo-1t");
    let flash = said(&[&flash, &text]);
    assert!(flash.contains("nothing else bounds what erasing and collecting"), "{flash}");
}

#[test]
fn the_pieces_of_a_pool_volumes_requests_are_counted_on_each_of_its_disks() {
    let Some(disk) = keeping() else { return };
    let disks = [disk.clone(), disk.replace("d0", "d1")].concat();
    let pool = |layout: &str| {
        format!(
            "[pool]\ndisks = [\"d0\", \"d1\"]\n[[pool.volume]]\nname = \"log\"\nsize = \
             \"10GiB\"\nlayout = \"{layout}\"\nlatency = {{ within = \"400ms\", requests = \
             \"5/s\", burst = 2, size = \"64KiB\" }}\n"
        )
    };
    // A request may lie across the end of a block: two pieces, on one disk or on two.
    for (layout, pieces) in [("single", 2), ("stripe", 1)] {
        let plan = parse(&[&disks, &pool(layout)]).expect("it fits");
        let volume = &plan.pool.as_ref().expect("it has one").volumes[0];
        assert_eq!(volume.latency.expect("it has one").burst, 2);
        for part in &volume.parts {
            let latency = part.contract.latency.expect("on each disk");
            assert_eq!(u64::from(latency.burst()), 2 * pieces, "{layout}");
            assert_eq!(latency.interval(), Duration::from_millis(200) / pieces, "{layout}");
        }
    }
}
