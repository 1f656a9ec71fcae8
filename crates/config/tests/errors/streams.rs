//! Invalid streams, and streams that do not fit.

use std::path::Path;

use spindle_config::{DiskIndex, Plan};
use units::{DiskTime, Duration};

use super::{disk, refused};

const DISK: &str = "[[disk]]\nname = \"d0\"\ndrive = \"atlas-ii\"\npolicy = \"delta-star\"\n";
const CAM: &str = "[[volume]]\nname = \"cam1\"\ndisk = \"d0\"\nsize = \"1GiB\"\nstream = { \
     bandwidth = \"817KB/s\", block = \"1MB\" }\n";

/// The message about a volume of 1 GiB with this stream, at the stream's line.
fn stream(stream: &str) -> String {
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    refused(&[DISK, volume], &format!("stream = {stream}\n"))
}

fn plan(text: &str) -> Plan {
    Plan::parse(text, "plan.toml", Path::new("")).expect("a good config")
}

#[test]
fn that_request_nothing() {
    assert_eq!(
        stream("{ bandwidth = \"0B/s\", block = \"1MB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `bandwidth`: found `0B/s`, expected a \
         bandwidth above zero such as 20MB/s or 5MiB/s"
    );
}

#[test]
fn without_a_bandwidth_or_block() {
    assert_eq!(
        stream("{ block = \"1MB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `bandwidth`: found nothing, expected bytes \
         a second such as 817KB/s"
    );
}

#[test]
fn with_an_unknown_key() {
    assert_eq!(
        stream("{ bandwith = \"1MB/s\", block = \"1MB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `bandwith`: found `bandwith`, expected one \
         of the keys `bandwidth`, `block`, `range`, `span`, `order`, `parts`, `survive`"
    );
}

#[test]
fn that_are_not_a_table() {
    assert_eq!(
        stream("\"817KB/s\""),
        "plan.toml:1: [[volume]] \"v\": field `stream`: found `817KB/s`, expected a table in \
         braces, with bandwidth, block, range, span, order, parts, survive"
    );
}

#[test]
fn with_a_block_over_the_largest_transfer() {
    assert_eq!(
        stream("{ bandwidth = \"817KB/s\", block = \"64MiB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `block`: found `64MiB`, expected a size \
         from 512B to 32MiB (the largest request)"
    );
}

#[test]
fn with_a_range_past_the_volumes_end() {
    assert_eq!(
        stream("{ bandwidth = \"817KB/s\", block = \"1MB\", range = \"0GiB..2GiB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `range`: found `0GiB..2GiB`, expected a \
         range that ends at 1GiB at most (the size of the volume)"
    );
}

#[test]
fn with_an_invalid_range() {
    for (range, expected) in [
        ("1GiB", "two locations on the volume such as 0GiB..2GiB"),
        ("1GiB..0GiB", "a range whose end lies behind its start"),
        ("0B..100B", "multiples of 512 bytes"),
        ("0B..512KiB", "a range of at least 1000000B (one block)"),
    ] {
        assert_eq!(
            stream(&format!("{{ bandwidth = \"817KB/s\", block = \"1MB\", range = \"{range}\" }}")),
            format!(
                "plan.toml:1: [[volume]] \"v\": stream: field `range`: found `{range}`, expected \
                 {expected}"
            )
        );
    }
}

#[test]
fn whose_span_ends_before_it_starts() {
    assert_eq!(
        stream("{ bandwidth = \"817KB/s\", block = \"1MB\", span = [\"2h\", \"1h\"] }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `span`: found `1h`, expected a time after \
         7200s (its start)"
    );
    assert_eq!(
        stream("{ bandwidth = \"817KB/s\", block = \"1MB\", span = [\"2h\"] }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `span`: found `[\"2h\"]`, expected a start \
         and an end such as [\"0s\", \"2h\"]"
    );
}

#[test]
fn with_too_long_a_period() {
    assert_eq!(
        stream("{ bandwidth = \"1B/s\", block = \"1MB\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `bandwidth`: found `1B/s`, expected at \
         least 12B/s (a block of 1000000B every 86400s)"
    );
}

#[test]
fn beside_a_reserve_of_their_own() {
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\nstream = { bandwidth \
         = \"817KB/s\", block = \"1MB\" }\n";
    assert_eq!(
        refused(&[DISK, volume], "reserve = \"10%\"\n"),
        "plan.toml:1: [[volume]] \"v\": field `reserve`: found `10%`, expected no reserve beside \
         a stream under policy \"delta-star\": policy \"spindle\" keeps both"
    );
}

#[test]
fn under_a_policy_without_deadlines() {
    let fcfs = DISK.replace("delta-star", "fcfs");
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    assert_eq!(
        refused(&[&fcfs, volume], "stream = { bandwidth = \"817KB/s\", block = \"1MB\" }\n"),
        "plan.toml:1: [[volume]] \"v\": field `stream`: found `{ bandwidth = \"817KB/s\", block \
         = \"1MB\" }`, expected a disk whose policy keeps streams (\"edf\", \"lst\", \
         \"delta-l\", \"delta-star\", \"spindle\"): disk \"d0\" has \"fcfs\""
    );
}

#[test]
fn on_a_disk_without_a_worst_case() {
    for (lines, field, expected) in [
        (
            "name = \"d1\"\ndrive = \"samsung-870evo-1t\"\n",
            "field `drive`: found `samsung-870evo-1t`",
            "a drive with an arm: nothing bounds what erasing and collecting cost a flash \
             drive's commands",
        ),
        (
            "name = \"d1\"\ndrive = \"atlas-ii\"\ndepth = 4\n",
            "field `depth`: found `4`",
            "1: the order inside the drive is the drive's, and knows no deadlines",
        ),
        (
            "name = \"d1\"\ndrive = \"atlas-ii\"\nexecution = \"preemptible\"\n",
            "field `chunk`: found nothing",
            "a size such as 256KiB: streams are admitted by the worst case of a chunk",
        ),
    ] {
        let said = refused(&[], &format!("[[disk]]\n{lines}policy = \"edf\"\n"));
        let (_, said) = said.split_once("[[disk]] \"d1\": ").expect("it names the disk");
        assert_eq!(said, format!("{field}, expected {expected}"));
    }
}

#[test]
fn beside_shares_where_blocks_have_no_worst_case() {
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d1\"\nsize = \"1GiB\"\n\
                  stream = { bandwidth = \"817KB/s\", block = \"1MB\" }\n";
    for (lines, expected) in [
        (
            "drive = \"samsung-870evo-1t\"\n",
            "a disk with an arm or a `worst_case`: nothing else bounds what erasing and collecting \
             cost a flash drive's commands",
        ),
        (
            "drive = \"atlas-ii\"\nexecution = \"preemptible\"\n",
            "a disk whose `execution` has a `chunk` such as 256KiB: each chunk is taken to need \
             a positioning of its own",
        ),
    ] {
        let disk = format!("[[disk]]\nname = \"d1\"\n{lines}");
        let said = refused(&[&disk], volume);
        let (_, said) = said.split_once("`, expected ").expect("it says what is expected");
        assert_eq!(said, format!("{expected}, for a stream on disk \"d1\""));
    }
    // Whatever a stream needs is required for a stream alone.
    let others = "[[volume]]\nname = \"v\"\ndisk = \"d1\"\nsize = \"1GiB\"\nreserve = \"10%\"\n";
    let flash = format!("[[disk]]\nname = \"d1\"\ndrive = \"samsung-870evo-1t\"\n{others}");
    assert_eq!(plan(&flash).volumes.len(), 1);
}

#[test]
fn a_declared_worst_case() {
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n\
                  stream = { bandwidth = \"10MB/s\", block = \"1MB\" }\n";
    let flash =
        |worst: &str| format!("drive = \"samsung-870evo-1t\"\nworst_case = {{ {worst} }}\n");
    let declared = flash("command = \"10ms\", rate = \"200MB/s\"");
    let text = format!("[[disk]]\nname = \"d0\"\n{declared}{volume}");
    let plan = plan(&text);
    let task = plan.volumes[0].contract.stream.expect("it is accepted").task;
    // A block of 1 MB is 1,954 sectors of 2.56 us; the host is late by 1 ms.
    assert_eq!(task.cost(), units::DiskTime::from_nanos(11_000_000 + 1_954 * 2_560));
    let headroom = plan.admission_headroom(DiskIndex(0), units::Instant::ZERO);
    assert_eq!(headroom.expect("there is a stream").tasks, 1);
    let (policy, arm) = (
        format!("{declared}policy = \"delta-star\"\n"),
        declared.replace("samsung-870evo-1t", "atlas-ii"),
    );
    for (lines, expected) in [
        (flash("command = \"0s\", rate = \"200MB/s\""), "a time from 1us to 10s"),
        (flash("command = \"11s\", rate = \"200MB/s\""), "a time from 1us to 10s"),
        (flash("command = \"10ms\", rate = \"999KB/s\""), "at least 1000000B/s"),
        (flash("command = \"10ms\""), "bytes a second such as 100MB/s"),
        (policy, "no such field, or policy = \"spindle\""),
        (arm, "no such field: the profile of the drive bounds its commands"),
    ] {
        let said = refused(&[], &format!("[[disk]]\nname = \"d0\"\n{lines}"));
        assert!(said.ends_with(&format!("expected {expected}")), "{said}");
    }
}

#[test]
fn keys_of_deadlines_on_a_disk_without() {
    assert_eq!(
        disk("policy = \"utilization\"\nbest_effort = { share = \"5%\" }\n"),
        "plan.toml:2: [[disk]] \"d0\": field `best_effort`: found `{ share = \"5%\" }`, expected \
         no such field, or a policy that keeps streams"
    );
    let edf = "[[disk]]\nname = \"d0\"\ndrive = \"atlas-ii\"\npolicy = \"edf\"\n";
    assert_eq!(
        refused(&[edf], "range = \"paper\"\n"),
        "plan.toml:1: [[disk]] \"d0\": field `range`: found `paper`, expected no such field, or \
         policy = \"delta-l\""
    );
}

#[test]
fn with_an_order_on_one_disk() {
    assert_eq!(
        stream("{ bandwidth = \"1MB/s\", block = \"1MB\", order = \"sequential\" }"),
        "plan.toml:1: [[volume]] \"v\": stream: field `order`: found `sequential`, expected no \
         order: a volume on one disk has all of its blocks there"
    );
}

#[test]
fn that_take_more_than_the_whole_disk() {
    assert_eq!(
        stream("{ bandwidth = \"20MB/s\", block = \"1MB\" }"),
        "plan.toml:1: [[volume]] \"v\": field `stream`: found `{ bandwidth = \"20MB/s\", block = \
         \"1MB\" }`, expected what fits on disk \"d0\" (299.2% of the disk's time would be asked \
         for; 6.68MB/s would fit)"
    );
}

#[test]
fn that_do_not_fit_beside_large_blocks() {
    let large = "[[volume]]\nname = \"cam7\"\ndisk = \"d0\"\nsize = \"1GiB\"\nstream = { \
         bandwidth = \"2MB/s\", block = \"4MB\" }\n";
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    assert_eq!(
        refused(
            &[DISK, large, volume],
            "stream = { bandwidth = \"400KB/s\", block = \"64KiB\" }\n"
        ),
        "plan.toml:1: [[volume]] \"v\": field `stream`: found `{ bandwidth = \"400KB/s\", block \
         = \"64KiB\" }`, expected what fits on disk \"d0\" (at L = 163.84ms, beside stream \
         cam7's 4MB blocks: short by 31.247ms; 335kB/s would fit)"
    );
}

#[test]
fn a_valid_config_gives_the_requested_streams() {
    let plan = plan(&format!("{DISK}best_effort = {{ share = \"10%\", period = \"2s\" }}\n{CAM}"));
    let stream = plan.volumes[0].stream.expect("it has one");
    // 1,000,000 bytes at 817,000 per second.
    assert_eq!(stream.promised.task.period(), Duration::from_nanos(1_223_990_208));
    assert!(stream.promised.task.cost() > DiskTime::from_millis(120));
    assert!(stream.promised.task.longest() == stream.promised.task.cost());
    let room =
        plan.admission_headroom(plan.volumes[0].disk, units::Instant::ZERO).expect("deadlines");
    assert_eq!(room.tasks, 2);
    println!("{room:?}");
}
