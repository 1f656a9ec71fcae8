//! Unknown keys and tables.

use super::*;

#[test]
fn an_unknown_key_at_the_top() {
    assert_eq!(
        refused(&[], "seed = 1\nsede = 2\n"),
        "plan.toml:2: field `sede`: found `sede`, expected one of the keys \
         `seed`, `duration`, `write_buffer_memory`, `listen`, `nbd`, `log`, `bus`, `disk`, \
         `volume`, `pool`, `change`, `workload`"
    );
}

#[test]
fn an_unknown_key_of_a_disk() {
    assert_eq!(
        disk("dirve = \"x\"\n"),
        "plan.toml:1: [[disk]] \"d0\": field `dirve`: found `dirve`, expected one of the keys \
         `name`, `drive`, `profile`, `slowed`, `bus`, `path`, `buffered`, `adopt`, `io_uring`, \
         `write_cache`, `size`, `backing`, `domain`, `spare`, \
         `policy`, `unkept_contracts`, `depth`, `period`, `batch`, `linger`, \
         `estimate_sequential`, \
         `estimate_random`, `estimate`, `read_ahead`, `write_buffer`, `write_age`, \
         `write_buffer_log`, `nominal_rate`, `reserve_headroom`, \
         `worst_case`, `host_lateness`, \
         `best_effort` \
         and 12 more"
    );
}

#[test]
fn a_domain_has_a_name() {
    assert_eq!(
        disk("domain = \"\"\n"),
        "plan.toml:1: [[disk]] \"d0\": field `domain`: found ``, expected a name of 1 to 63 \
         printable characters"
    );
}

#[test]
fn an_unknown_key_of_a_volume() {
    assert_eq!(
        volume("size = \"1GiB\"\nshare = \"1%\"\n"),
        "plan.toml:2: [[volume]] \"v\": field `share`: found `share`, expected one of the keys \
         `name`, `disk`, `clients`, `size`, `at`, `same_as`, `iops`, `bandwidth`, `run`, `block`, \
         `reserve`, `limit`, `weight`, `priority`, `stream`, `latency`, `write_buffer`, \
         `labels`, `ublk`"
    );
}

#[test]
fn an_unknown_key_of_a_workload_which_is_named_by_its_number() {
    assert_eq!(
        workload("size = \"1GiB\"\n"),
        "plan.toml:1: [[workload]] #1: field `size`: found `size`, expected one of the keys \
         `volume`, \
         `op`, `read_share`, `access`, `run`, `block`, `outstanding`, `burst`, `think`, \
         `rate`, `arrivals`, `elevator`, `flush_every`, \
         `start`, `stop`, \
         `file`, `format`, `device`, `scale`, `remap`"
    );
}

#[test]
fn an_unknown_key_of_listen() {
    assert_eq!(
        refused(&[], "[listen]\nubd = []\n"),
        "plan.toml:2: [listen]: field `ubd`: found `ubd`, expected one of the keys `nbd`, \
         `vhost_user`"
    );
}

#[test]
fn the_first_of_two_unknown_keys_is_named() {
    assert!(refused(&[], "zz = 1\naa = 1\n").starts_with("plan.toml:1: field `zz`:"));
}

#[test]
fn one_bracket_where_two_belong() {
    assert_eq!(
        refused(&[], "[disk]\nname = \"d0\"\n"),
        "plan.toml:1: field `disk`: found `[disk]`, expected tables `[[disk]]`, with two brackets"
    );
    assert_eq!(
        refused(&[], "\ndisk = [1]\n"),
        "plan.toml:2: field `disk`: found `1`, expected tables `[[disk]]`, with two brackets"
    );
}

#[test]
fn two_brackets_where_one_belongs() {
    assert_eq!(
        refused(&[], "[[listen]]\nnbd = []\n"),
        "plan.toml:1: field `listen`: found `[[listen]]`, expected a table `[listen]`"
    );
}

#[test]
fn the_earlier_name_of_a_key_is_accepted_alone_and_named_in_messages() {
    let text = "[[disk]]\nname = \"d\"\ndrive = \"deskstar-34gxp\"\n";
    let headroom = |lines: &str| {
        let plan = Plan::parse(&format!("{text}{lines}"), "plan.toml", Path::new(""));
        plan.map(|plan| plan.disks[0].reserve_headroom.to_string()).map_err(|e| e.to_string())
    };
    assert_eq!(headroom("unreserved = \"10%\""), Ok("10%".to_owned()));
    assert_eq!(headroom("reserve_headroom = \"10%\""), Ok("10%".to_owned()));
    let both = headroom("unreserved = \"10%\"\nreserve_headroom = \"10%\"").expect_err("both");
    assert_eq!(
        both,
        "plan.toml:4: [[disk]] \"d\": field `unreserved`: found `10%`, expected no such field \
         beside `reserve_headroom`, which is its new name"
    );
    let wrong = headroom("unreserved = \"110%\"").expect_err("too much");
    assert!(wrong.contains("field `unreserved`: found `110%`"), "{wrong}");
}

/// Each earlier name gives the same plan as its new name.
#[test]
fn every_earlier_name_of_a_key_means_the_same_as_its_new_name() {
    let text = "[[disk]]\nname = \"d\"\ndrive = \"atlas-ii\"\npolicy = \"delta-l\"\n";
    let plan = |lines: [&str; 2]| {
        let text = format!("{text}{}[pool]\ndisks = [\"d\"]\n{}", lines[0], lines[1]);
        Plan::parse(&text, "plan.toml", Path::new("")).expect("a valid config")
    };
    let old = plan([
        "unreserved = \"10%\"\nrange = \"paper\"\n",
        "metadata = \"3%\"\nreorganise = \"7%\"\n",
    ]);
    let new = plan([
        "reserve_headroom = \"10%\"\nslack_range = \"clockwise\"\n",
        "metadata_share = \"3%\"\nrelocation_share = \"7%\"\n",
    ]);
    assert_eq!(format!("{old:?}"), format!("{new:?}"));
    assert_ne!(format!("{old:?}"), format!("{:?}", plan(["", ""])));
}
