//! Contracts that are changed in place: rates, priorities, and what they replace.

use core::num::NonZeroU64;
use std::path::PathBuf;

use engine::Priority;
use spindle_config::{
    DiskIndex, Document, LatencyEdit, RateEdit, StreamEdit, VolumeEdit, decimal_text,
};
use units::{Bytes, Duration, Sectors, Share};

const TEXT: &str = "\
[[disk]]
name = \"d0\"
drive = \"hgst-7k8\"

[[disk]]
name = \"p0\"
drive = \"atlas-ii\"

[[disk]]
name = \"p1\"
drive = \"atlas-10k\"

[[volume]]
name = \"v\"
disk = \"d0\"
size = \"1GiB\"
reserve = \"20%\" # for the office

[pool]
disks = [\"p0\", \"p1\"]

[[pool.volume]]
name = \"films\"
size = \"1GiB\"
";

fn document(name: &str) -> Document {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = TEXT.replace("atlas-10k", "st318437lw");
    std::fs::write(&path, text).expect("a scratch file");
    let document = Document::read(&path).expect("a good config");
    std::fs::remove_file(&path).expect("it is there");
    document
}

fn rate(iops: &str, run: i64) -> VolumeEdit {
    let rate = RateEdit { iops: Some(iops.to_owned()), run: Some(run), ..RateEdit::default() };
    VolumeEdit { rate: Some(rate), ..VolumeEdit::default() }
}

#[test]
fn a_rate_replaces_a_reserve_and_a_reserve_replaces_a_rate() {
    let before = document("rate.toml");
    let rated = before.set("v", &rate("20/s", 4)).expect("it fits");
    assert!(rated.text().contains("iops = \"20/s\"") && rated.text().contains("run = 4"));
    assert!(!rated.text().contains("reserve"), "{}", rated.text());
    let declared = rated.plan().volumes[0].declared.expect("a rate");
    assert_eq!(declared.requirement.interval, Duration::from_millis(50));
    assert_eq!(rated.plan().volumes[0].contract.reserve, declared.share);
    let reserve = VolumeEdit { reserve: Some("30%".to_owned()), ..VolumeEdit::default() };
    let back = rated.set("v", &reserve).expect("it fits");
    assert!(!back.text().contains("iops") && !back.text().contains("run"), "{}", back.text());
    assert_eq!(back.plan().volumes[0].contract.reserve, Share::from_percent(30));
}

#[test]
fn a_new_rate_keeps_nothing_of_the_old_one() {
    let rated = document("again.toml").set("v", &rate("20/s", 4)).expect("it fits");
    let bandwidth = RateEdit { bandwidth: Some("1MB/s".to_owned()), ..RateEdit::default() };
    let edit = VolumeEdit { rate: Some(bandwidth), ..VolumeEdit::default() };
    // One request of 4 KiB at a time, 244 times a second, is more than the disk can do.
    let error = rated.set("v", &edit).expect_err("it has no run");
    assert!(error.to_string().contains("field `bandwidth`: found `1MB/s`"), "{error}");
}

#[test]
fn a_run_without_a_rate_and_a_rate_beside_a_reserve_are_refused() {
    let before = document("run.toml");
    let run = RateEdit { run: Some(4), ..RateEdit::default() };
    let error = before
        .set("v", &VolumeEdit { rate: Some(run), ..VolumeEdit::default() })
        .expect_err("of what?");
    assert_eq!(error.expected(), "no such field, or `iops` or `bandwidth`");
    let both = VolumeEdit { reserve: Some("10%".to_owned()), ..rate("20/s", 1) };
    let error = before.set("v", &both).expect_err("which of them?");
    assert_eq!(error.expected(), "no such field: the share is worked out from the rate");
}

#[test]
fn a_priority_is_set_and_reset_and_is_admitted_with_its_limit() {
    let before = document("priority.toml");
    let priority = |word: &str| VolumeEdit {
        priority: Some(word.to_owned()),
        limit: Some("60%".to_owned()),
        ..VolumeEdit::default()
    };
    let high = before.set("v", &priority("high")).expect("it fits");
    assert_eq!(high.plan().volumes[0].priority, Priority::High);
    assert_eq!(high.plan().promised(DiskIndex(0)).available(), Share::from_percent(40));
    let normal = high.set("v", &priority("normal")).expect("it fits");
    assert_eq!(normal.plan().volumes[0].priority, Priority::Normal);
    let error = before.set("v", &priority("urgent")).expect_err("there is no such class");
    assert_eq!(error.expected(), "\"normal\" or \"high\"");
}

#[test]
fn a_block_device_is_a_key_that_is_written_and_removed() {
    let before = document("ublk.toml");
    let ublk = |ublk| VolumeEdit { ublk: Some(ublk), ..VolumeEdit::default() };
    let with = before.set("v", &ublk(true)).expect("it is a key");
    assert!(with.plan().volumes[0].ublk && with.text().contains("ublk = true"));
    let without = with.set("v", &ublk(false)).expect("it is a key");
    assert_eq!((without.text(), without.plan().volumes[0].ublk), (before.text(), false));
    let pooled = document("ublk-pooled.toml");
    let with = pooled.set_pool_volume("films", &ublk(true)).expect("it is a key");
    assert!(with.pool_volume("films").expect("it is there").1.ublk);
    // A change of something else keeps it.
    let weight = VolumeEdit { weight: Some(3), ..VolumeEdit::default() };
    assert!(
        with.set_pool_volume("films", &weight).expect("it fits").text().contains("ublk = true")
    );
}

#[test]
fn each_disk_of_a_pool_s_volume_reserves_its_whole_rate_in_runs_within_a_block() {
    let before = document("pooled.toml");
    let after = before.set_pool_volume("films", &rate("10/s", 1_000)).expect("it fits");
    let (_, films) = after.pool_volume("films").expect("it is there");
    let asked = films.rate.expect("a rate");
    assert_eq!((asked.run.get(), asked.block), (1_000, Sectors(8)));
    for part in &films.parts {
        let declared = part.declared.expect("a rate");
        // A block of 1 MiB has 256 requests of 4 KiB.
        assert_eq!(Some(declared.requirement.run), NonZeroU64::new(256));
        assert_eq!(declared.requirement.interval, Duration::from_millis(100));
        assert_eq!(part.contract.reserve, declared.share);
    }
    let [one, two] = &films.parts[..] else { panic!("two disks") };
    assert_ne!(one.contract.reserve, two.contract.reserve, "each disk has its own share");
}

#[test]
fn a_bounded_latency_is_written_beside_a_reserve_and_removed_alone() {
    let before = document("latency.toml");
    let put = |requests: &str| VolumeEdit {
        latency: Some(LatencyEdit::Put {
            within: "500ms".to_owned(),
            requests: requests.to_owned(),
            burst: Some(2),
            size: "64KiB".to_owned(),
        }),
        ..VolumeEdit::default()
    };
    let bounded = before.set("v", &put("5/s")).expect("it fits");
    let line = "latency = { within = \"500ms\", requests = \"5/s\", burst = 2, size = \"64KiB\" }";
    assert!(bounded.text().contains(line), "{}", bounded.text());
    assert!(bounded.text().contains("reserve = \"20%\" # for the office"));
    let latency = bounded.plan().volumes[0].contract.latency.expect("it has one");
    assert_eq!((latency.within(), latency.burst()), (Duration::from_millis(500), 2));
    let error = before.set("v", &put("200/s")).expect_err("it does not fit");
    assert!(error.is_refusal() && error.admission_failure().is_some(), "{error}");
    let drop = VolumeEdit { latency: Some(LatencyEdit::Drop), ..VolumeEdit::default() };
    assert_eq!(bounded.set("v", &drop).expect("it is there").text(), before.text());
    let pooled = before.set_pool_volume("films", &put("2/s")).expect("it fits");
    let (_, films) = pooled.pool_volume("films").expect("it is there");
    assert_eq!(films.latency.expect("it has one").burst, 2);
    assert!(films.parts.iter().all(|part| part.contract.latency.is_some()), "on each disk");
}

fn stream(bandwidth: &str) -> VolumeEdit {
    let (bandwidth, block) = (bandwidth.to_owned(), "1MB".to_owned());
    let (range, span, order, parts, survive) = (None, None, None, None, None);
    let stream = StreamEdit::Put { bandwidth, block, range, span, order, parts, survive };
    VolumeEdit { stream: Some(stream), ..VolumeEdit::default() }
}

#[test]
fn a_stream_and_a_reserve_stand_beside_each_other_and_each_is_removed_alone() {
    let both = document("both.toml").set("v", &stream("1MB/s")).expect("it fits");
    let volume = &both.plan().volumes[0];
    assert_eq!(volume.contract.reserve, Share::from_percent(20));
    assert!(volume.contract.stream.is_some(), "{}", both.text());
    let drop = VolumeEdit { stream: Some(StreamEdit::Drop), ..VolumeEdit::default() };
    let alone = both.set("v", &drop).expect("it fits");
    assert_eq!(alone.plan().volumes[0].contract.reserve, Share::from_percent(20));
    let none = VolumeEdit { reserve: Some("0%".to_owned()), ..VolumeEdit::default() };
    let alone = both.set("v", &none).expect("it fits");
    assert!(alone.plan().volumes[0].contract.stream.is_some(), "{}", alone.text());
    // Admission adds both up.
    let most = VolumeEdit { reserve: Some("99%".to_owned()), ..VolumeEdit::default() };
    assert!(both.set("v", &most).is_err(), "99 % and a stream are more than a disk");
}

#[test]
fn the_bandwidth_that_is_offered_to_a_stream_is_admitted_and_what_is_asked_was_not() {
    let before = document("offer.toml");
    let small = VolumeEdit { size: Some("1GiB".to_owned()), ..stream("1MB/s") };
    let mut plan = before.set("v", &stream("1MB/s")).expect("it fits");
    for name in ["one", "two", "three"] {
        plan = plan.create(name, "d0", &small).expect("it fits");
    }
    let plan = plan.set_pool_volume("films", &stream("200KB/s")).expect("it fits");
    let (more, much) = (Bytes(2_000_000), Bytes(100_000_000));
    let offer = |name: &str, asked| plan.plan().stream_offer(name, asked);
    assert_eq!(offer("v", more), Some(more), "also if others come after it in the file");
    let set = |name: &str, bandwidth: Bytes| {
        let edit = stream(&format!("{}/s", decimal_text(bandwidth)));
        match name {
            "films" => plan.set_pool_volume(name, &edit).map(drop),
            name => plan.set(name, &edit).map(drop),
        }
    };
    for name in ["v", "two", "three", "films"] {
        let fits = offer(name, much).expect("there is room for more");
        assert!(fits < much, "{name}: {fits}");
        set(name, fits).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = set(name, much).expect_err("it is more than the disk can do");
        assert!(error.is_refusal(), "{name}: {error}");
    }
    assert_eq!(offer("absent", more), None);
}
