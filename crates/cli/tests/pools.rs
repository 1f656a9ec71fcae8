//! A served pool under real clients: its data survives all changes, kills and missing disks.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use testkit::{Scratch, Server, client, held, pattern, spindle, succeed, verified, verifying};

/// Three disks of a pool and one further disk; `BACKING` is a placeholder. The disks are flash, so
/// that the tests are fast.
const CONFIG: &str = r#"
[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
backing = "BACKING0"

[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
backing = "BACKING1"

[[disk]]
name = "d2"
drive = "samsung-870evo-1t"
backing = "BACKING2"

[[disk]]
name = "d3"
drive = "samsung-870evo-1t"
backing = "BACKING3"

[pool]
disks = ["d0", "d1", "d2"]
relocation_share = "40%"

[[pool.volume]]
name = "a"
size = "48MiB"
layout = "stripe"
reserve = "30%"

[[pool.volume]]
name = "b"
size = "32MiB"
disks = ["d0"]
"#;

fn in_memory() -> String {
    (0..4).fold(CONFIG.to_owned(), |text, disk| text.replace(&format!("BACKING{disk}"), "ram"))
}

fn in_files() -> String {
    (0..4).fold(CONFIG.to_owned(), |text, disk| {
        text.replace(&format!("BACKING{disk}"), &format!("d{disk}.img"))
    })
}

/// A pool in files, created and not served.
fn created() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("plan.toml", in_files());
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    scratch
}

fn pool(scratch: &Scratch) -> serde_json::Value {
    held(scratch, &["pool", "status", "--json"]).json()["pool"].clone()
}

/// The config, and when it was written. One that was replaced and restored has the text of before.
fn written(scratch: &Scratch) -> (i64, i64, String) {
    let config = scratch.join("plan.toml");
    let file = std::fs::metadata(&config).expect("it is there");
    let text = std::fs::read_to_string(config).expect("it is there");
    (file.ctime(), file.ctime_nsec(), text)
}

/// Starts fio, which writes and reads back a volume's first 32 MiB until the file `enough` exists,
/// or `loops` times.
fn verifying_loops(server: &Server, volume: &str, loops: u32, scratch: &Scratch) -> Child {
    let shape = ["--bsrange=4k-256k", "--iodepth=8", "--size=32m", "--thread"];
    let loops = format!("--loops={loops}");
    verifying(server, volume, &[&shape[..], &[&loops]].concat(), scratch)
}

/// Copies a disk's file, which is mostly holes.
fn copied(from: &std::path::Path, to: &std::path::Path, scratch: &Scratch) {
    let names = [from, to].map(|path| path.to_str().expect("a plain name"));
    succeed("cp", &["--sparse=always", names[0], names[1]], scratch.path());
}

#[test]
fn data_survives_growth_and_relocation_of_volumes_and_added_and_removed_disks() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", in_memory()));
    let fios =
        [verifying_loops(&server, "a", 12, &scratch), verifying_loops(&server, "b", 12, &scratch)];
    held(&scratch, &["vol", "resize", "a", "96MiB"]);
    held(&scratch, &["vol", "move", "b", "--disks", "d2", "--wait"]);
    held(&scratch, &["vol", "snapshot", "a", "a-before"]);
    held(&scratch, &["vol", "create", "c", "--size", "40MiB", "--thin", "--layout", "random"]);
    held(&scratch, &["pool", "add", "d3"]);
    held(&scratch, &["pool", "remove", "d1", "--wait"]);
    held(&scratch, &["vol", "move", "a", "--zone", "slow", "--wait"]);
    held(&scratch, &["vol", "rebalance", "--wait"]);
    held(&scratch, &["vol", "rm", "a-before"]);
    for fio in fios {
        verified(fio);
    }
    let pool = pool(&scratch);
    let disks = pool["disks"].as_array().expect("a list");
    let names: Vec<_> = disks.iter().map(|disk| disk["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["d0", "d2", "d3"]);
    // The config states the current pool and can be served again.
    let plan = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(plan.contains(r#"disks = ["d0", "d2", "d3"]"#), "{plan}");
    server.stop();
}

#[test]
fn a_shrunk_volume_keeps_its_other_data_and_its_tail_reads_as_zeroes_after_growth() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", in_memory()));
    pattern(&server, "a", "write -P 7 0 48M", &scratch);
    held(&scratch, &["vol", "resize", "a", "20MiB"]);
    pattern(&server, "a", "read -P 7 0 20M", &scratch);
    held(&scratch, &["vol", "resize", "a", "60MiB"]);
    pattern(&server, "a", "read -P 7 0 20M", &scratch);
    pattern(&server, "a", "read -P 0 20M 40M", &scratch);
    server.stop();
}

#[test]
fn a_snapshot_keeps_its_data_is_read_only_and_can_be_rolled_back_to() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", in_memory()));
    pattern(&server, "a", "write -P 1 0 48M", &scratch);
    held(&scratch, &["vol", "snapshot", "a", "monday"]);
    pattern(&server, "a", "write -P 2 5M 9M", &scratch);
    held(&scratch, &["vol", "resize", "a", "50MiB"]);
    pattern(&server, "monday", "read -P 1 0 48M", &scratch);
    pattern(&server, "a", "read -P 2 5M 9M", &scratch);
    let refused = client("qemu-io")
        .args(["-f", "raw", "-c", "write -P 3 0 1M", &server.uri("monday")])
        .current_dir(scratch.path())
        .output()
        .expect("it is installed");
    assert!(!refused.status.success(), "a snapshot is not written");
    let busy = spindle(scratch.path(), &["vol", "rm", "a"]);
    assert_eq!(busy.code, Some(1), "{busy:?}");
    assert!(busy.stderr.contains("snapshots"), "{busy:?}");
    held(&scratch, &["vol", "rollback", "monday"]);
    pattern(&server, "a", "read -P 1 0 48M", &scratch);
    held(&scratch, &["vol", "rm", "monday"]);
    held(&scratch, &["vol", "rm", "a"]);
    server.stop();
}

#[test]
fn a_thin_volume_allocates_what_is_written_and_a_full_pool_refuses_writes() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", in_memory()));
    let mapped = |scratch: &Scratch| {
        let pool = pool(scratch);
        let volumes = pool["volumes"].as_array().expect("a list").clone();
        let found = volumes.iter().find(|volume| volume["name"] == "t").expect("it is there");
        found["mapped_bytes"].as_u64().expect("a number")
    };
    held(&scratch, &["vol", "create", "t", "--size", "100GiB", "--thin"]);
    assert_eq!(mapped(&scratch), 0);
    pattern(&server, "t", "write -P 9 50G 3M", &scratch);
    assert_eq!(mapped(&scratch), 3 << 20);
    pattern(&server, "t", "read -P 0 10G 4M", &scratch);
    pattern(&server, "t", "discard 50G 2M", &scratch);
    assert_eq!(mapped(&scratch), 1 << 20);
    pattern(&server, "t", "read -P 0 50G 2M", &scratch);
    pattern(&server, "t", "read -P 9 51202M 1M", &scratch);
    // Another volume takes all but 2 MiB of the free space: the third write fails with ENOSPC.
    let free = pool(&scratch)["free_bytes"].as_u64().expect("a number");
    let size = format!("{}MiB", (free >> 20) - 2);
    held(&scratch, &["vol", "create", "full", "--size", &size]);
    assert_eq!(pool(&scratch)["alarm"], true);
    pattern(&server, "t", "write -P 4 0 2M", &scratch);
    let full = client("qemu-io")
        .args(["-f", "raw", "-c", "write -P 4 2M 1M", &server.uri("t")])
        .current_dir(scratch.path())
        .output()
        .expect("it is installed");
    let said =
        String::from_utf8_lossy(&full.stdout).into_owned() + &String::from_utf8_lossy(&full.stderr);
    assert!(said.contains("No space left"), "{said}");
    pattern(&server, "t", "read -P 4 0 2M", &scratch);
    server.stop();
}

#[test]
fn a_pool_is_found_by_its_labels_whatever_its_disks_are_called() {
    let scratch = created();
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 5 0 48M", &scratch);
    pattern(&server, "b", "write -P 6 0 32M", &scratch);
    server.stop();
    // The disks are exchanged, and the config loses its contracts.
    std::fs::rename(scratch.join("d0.img"), scratch.join("was0.img")).expect("renamed");
    std::fs::rename(scratch.join("d1.img"), scratch.join("d0.img")).expect("renamed");
    std::fs::rename(scratch.join("was0.img"), scratch.join("d1.img")).expect("renamed");
    let plan = in_files();
    let bare = plan.split("[[pool.volume]]").next().expect("a beginning");
    scratch.write("plan.toml", bare);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "read -P 5 0 48M", &scratch);
    pattern(&server, "b", "read -P 6 0 32M", &scratch);
    held(&scratch, &["vol", "set", "b", "--reserve", "20%"]);
    server.stop();
    let plan = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(plan.contains(r#"reserve = "20%""#), "{plan}");
}

#[test]
fn without_one_of_its_disks_a_pool_is_read_as_far_as_it_is_whole() {
    let scratch = created();
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "b", "write -P 6 0 32M", &scratch);
    server.stop();
    std::fs::rename(scratch.join("d2.img"), scratch.join("away.img")).expect("renamed");
    let server = Server::unix(scratch.path(), "plan.toml");
    let status = spindle(scratch.path(), &["pool", "status", "--json"]);
    assert_eq!(status.code, Some(1), "{status:?}");
    assert_eq!(status.json()["pool"]["writable"], false);
    pattern(&server, "b", "read -P 6 0 32M", &scratch);
    let refused = spindle(scratch.path(), &["vol", "create", "c", "--size", "10MiB"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    server.stop();
    // With the disk present again everything is as before.
    std::fs::rename(scratch.join("away.img"), scratch.join("d2.img")).expect("renamed");
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "b", "read -P 6 0 32M", &scratch);
    assert_eq!(pool(&scratch)["writable"], true);
    server.stop();
}

#[test]
fn disks_without_a_pool_are_not_served_and_not_written() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", in_files());
    let refused = Server::refused(scratch.path(), &["plan.toml"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for said in ["plan.toml:", "[pool]", "d0", "pool create --config"] {
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
    // Two pools' disks.
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let other = created();
    std::fs::rename(other.join("d1.img"), scratch.join("d1.img")).expect("moved");
    let mixed = Server::refused(scratch.path(), &["plan.toml"]);
    assert_eq!(mixed.code, Some(2), "{mixed:?}");
    assert!(mixed.stderr.contains("d1"), "{}", mixed.stderr);
    // One disk twice.
    copied(&scratch.join("d0.img"), &scratch.join("d1.img"), &scratch);
    let twice = Server::refused(scratch.path(), &["plan.toml"]);
    assert_eq!(twice.code, Some(2), "{twice:?}");
}

#[test]
fn a_removal_that_a_kill_cut_short_is_ended_by_the_next_daemon() {
    let scratch = created();
    let server = Server::unix(scratch.path(), "plan.toml");
    held(&scratch, &["vol", "snapshot", "a", "kept"]);
    server.stop();
    // As a daemon leaves it that is killed between the config and the pool.
    let config = in_files();
    let (head, _) = config.split_at(config.find("[[pool.volume]]\nname = \"b\"").expect("b"));
    let begun = head.replace("[pool]\n", "[pool]\nremoving = [\"b\", \"kept\", \"no more\"]\n");
    scratch.write("plan.toml", &begun);
    let server = Server::unix(scratch.path(), "plan.toml");
    let names = |ran: serde_json::Value| {
        let all = ran["volumes"].as_array().expect("a list").clone();
        all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let there = names(held(&scratch, &["vol", "ls", "--json"]).json());
    assert_eq!(there, ["a", "kept"], "the snapshot was never in the config: it is another's name");
    let text = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert_eq!(text, begun.replace(", \"no more\"", "").replace("\"b\", ", ""));
    // The name is free, and is another volume's from here on.
    held(&scratch, &["vol", "create", "b", "--size", "4MiB", "--disks", "d1"]);
    held(&scratch, &["vol", "rm", "kept"]);
    server.stop();
    let server = Server::unix(scratch.path(), "plan.toml");
    assert_eq!(names(held(&scratch, &["vol", "ls", "--json"]).json()), ["a", "b"]);
    let text = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(!text.contains("removing"), "{text}");
    let ran = server.stop();
    assert!(!ran.stderr.contains("removal"), "{ran:?}");
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
}

#[test]
fn a_volume_that_the_pool_refuses_is_refused_before_the_config_has_it() {
    let scratch = created();
    let server = Server::unix(scratch.path(), "plan.toml");
    held(&scratch, &["vol", "create", "most", "--size", "900GiB", "--disks", "d1"]);
    let before = written(&scratch);
    let more = ["vol", "create", "more", "--size", "100GiB", "--disks", "d1"];
    let refused = spindle(scratch.path(), &more);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("what is free in its zone of its disks"), "{refused:?}");
    let smaller = ["vol", "create", "clone", "--from", "a", "--size", "40MiB"];
    let refused = spindle(scratch.path(), &smaller);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("at least the 48 MiB of its source"), "{refused:?}");
    assert_eq!(written(&scratch), before);
    server.stop();
}

/// The default number of kills; `make soak` has more.
fn kills() -> u64 {
    let asked = std::env::var("SPINDLE_KILLS").ok();
    asked.map_or(6, |asked| asked.parse().expect("SPINDLE_KILLS is a number"))
}

#[test]
fn a_daemon_killed_amid_writes_and_changes_keeps_flushed_data() {
    let scratch = created();
    let mut server = Server::unix(scratch.path(), "plan.toml");
    held(&scratch, &["vol", "create", "t", "--size", "64MiB", "--thin", "--layout", "random"]);
    for round in 0..kills() {
        let byte = round % 250 + 1;
        // Acknowledged with FUA or a flush, and so durable.
        let first = format!("write -f -P {byte} 0 4M");
        pattern(&server, "t", &first, &scratch);
        pattern(&server, "a", &format!("write -P {byte} 8M 4M"), &scratch);
        pattern(&server, "a", "flush", &scratch);
        let mut fio = verifying_loops(&server, "b", 50, &scratch);
        let changes: [&[&str]; 4] = [
            &["vol", "resize", "a", if round % 2 == 0 { "96MiB" } else { "72MiB" }],
            &["vol", "snapshot", "t", "kept"],
            &["vol", "move", "b", "--disks", if round % 2 == 0 { "d1" } else { "d2" }],
            &["vol", "create", "more", "--size", "10MiB"],
        ];
        let mut under_way: Vec<Child> = Vec::new();
        for arguments in changes.iter().take(1 + usize::try_from(round % 4).expect("few")) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
            command.args(*arguments).current_dir(scratch.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            under_way.push(command.spawn().expect("it is built"));
        }
        // Killed after the first change, so that the others are in progress or not begun.
        under_way[0].wait().expect("a child");
        server.signal(Signal::KILL);
        server.ended();
        fio.wait().expect("a child");
        for mut child in under_way {
            child.wait().expect("a child");
        }
        server = Server::unix(scratch.path(), "plan.toml");
        pattern(&server, "t", &format!("read -P {byte} 0 4M"), &scratch);
        pattern(&server, "a", &format!("read -P {byte} 8M 4M"), &scratch);
        for volume in ["kept", "more"] {
            // The change is there or not; there is no third state.
            spindle(scratch.path(), &["vol", "rm", volume]);
        }
    }
    server.stop();
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
}

/// Two disks with a deadline policy. `a` has a stream on both; `hog` takes most of the rest of
/// `d1`.
const DEADLINES: &str = r#"
[[disk]]
name = "d0"
drive = "hgst-7k8"
policy = "delta-l"

[[disk]]
name = "d1"
drive = "hgst-7k8"
policy = "delta-l"

[pool]
disks = ["d0", "d1"]
metadata_share = "4%"

[[pool.volume]]
name = "a"
size = "1GiB"
disks = ["d0"]
zone = "fast"
stream = { bandwidth = "4MiB/s", block = "1MiB" }

[[pool.volume]]
name = "hog"
size = "1GiB"
disks = ["d1"]
reserve = "85%"
"#;

#[test]
fn each_disk_of_a_volume_admits_its_part_or_none_does() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", DEADLINES));
    let before = pool(&scratch);
    let plan = || std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    let served = plan();
    let refusals: [(&[&str], &str); 3] = [
        // One disk has capacity, the other has none.
        (&["vol", "create", "b", "--size", "1GiB", "--layout", "stripe", "--reserve", "30%"], "d1"),
        (
            &[
                "vol",
                "create",
                "b",
                "--size",
                "1GiB",
                "--layout",
                "stripe",
                "--bandwidth",
                "8MiB/s",
                "--block",
                "1MiB",
            ],
            "d1",
        ),
        (&["vol", "move", "a", "--disks", "d1"], "d1"),
    ];
    for (arguments, disk) in refusals {
        let refused = spindle(scratch.path(), arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(disk), "{arguments:?}: {}", refused.stderr);
        assert_eq!(
            (pool(&scratch), plan()),
            (before.clone(), served.clone()),
            "nothing is changed"
        );
    }
    // In its zone of its disk a volume grows within its contract.
    held(&scratch, &["vol", "resize", "a", "2GiB"]);
    let grown = held(&scratch, &["vol", "show", "a", "--json"]).json();
    assert_eq!(grown["volume"]["size_bytes"], 2_u64 << 30);
    assert_eq!(grown["volume"]["stream"]["bandwidth"], "4194.304kB/s");
    server.stop();
}

/// Two disks in memory. The map of `a` has an extent for nearly each of its blocks, so that the
/// metadata hold a dozen copies of it.
const CROWDED: &str = r#"
[[disk]]
name = "d0"
drive = "memory"
size = "1900MiB"

[[disk]]
name = "d1"
drive = "memory"
size = "1900MiB"

[pool]
disks = ["d0", "d1"]

[[pool.volume]]
name = "a"
size = "3500MiB"
layout = "random"

[[pool.volume]]
name = "b"
size = "100MiB"
layout = "random"
"#;

#[test]
fn what_the_metadata_cannot_hold_does_not_reach_the_config() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", CROWDED));
    // Copies of a large map, of a small one, then volumes without extents: until not one more fits.
    let fill = |words: &[&str], name: &str| {
        let refused = (0..100).find_map(|number| {
            let name = format!("{name}{number}");
            let words = words.iter().map(|word| if *word == "NAME" { &name } else { *word });
            let ran = spindle(scratch.path(), &words.collect::<Vec<_>>());
            (ran.code != Some(0)).then_some(ran)
        });
        let refused = refused.expect("the metadata are full before that");
        assert!(refused.stderr.contains("the metadata have no room"), "{refused:?}");
    };
    fill(&["vol", "snapshot", "a", "NAME"], "of-a-");
    fill(&["vol", "snapshot", "b", "NAME"], "of-b-");
    fill(&["vol", "create", "NAME", "--size", "1GiB", "--thin"], "thin-");
    let before = (written(&scratch), pool(&scratch));
    let changes: [&[&str]; 4] = [
        &["vol", "create", "more", "--size", "1GiB", "--thin"],
        &["vol", "create", "more", "--size", "50MiB", "--layout", "random"],
        &["vol", "create", "more", "--from", "b", "--size", "100MiB"],
        &["vol", "resize", "a", "3560MiB"],
    ];
    for change in changes {
        let refused = spindle(scratch.path(), change);
        assert_eq!(refused.code, Some(1), "{change:?}: {refused:?}");
        assert!(refused.stderr.contains("the metadata have no room"), "{change:?}: {refused:?}");
        assert_eq!((written(&scratch), pool(&scratch)), before, "{change:?}");
    }
    held(&scratch, &["vol", "rm", "of-a-0"]);
    // With the space of one map both a new volume and the growth fit.
    held(&scratch, changes[1]);
    held(&scratch, changes[3]);
    server.stop();
}
