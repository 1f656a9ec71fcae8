//! Checksums of a served pool under real clients: what a disk has changed behind the daemon's back
//! is read from another copy and mended, or refused, and what a kill has lost is neither.

use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Scratch, Server, client, held, pattern, run, spindle, succeed, verifying};

const CONFIG: &str = r#"
[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
backing = "d0.img"

[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
backing = "d1.img"

[[disk]]
name = "d2"
drive = "samsung-870evo-1t"
backing = "d2.img"

[pool]
disks = ["d0", "d1"]
relocation_share = "40%"

[[pool.volume]]
name = "a"
size = "16MiB"
layout = "mirror"

[[pool.volume]]
name = "b"
size = "16MiB"
layout = "single"
disks = ["d1"]
thin = true
"#;

/// A pool with checksums, with the volumes' writes buffered in the host or not.
fn created(is_buffered: bool) -> Scratch {
    let scratch = Scratch::new();
    let buffered = CONFIG.replace("\nbacking", "\nwrite_buffer = \"64MiB\"\nbacking");
    scratch.write("plan.toml", if is_buffered { buffered.as_str() } else { CONFIG });
    held(&scratch, &["pool", "create", "--config", "plan.toml", "--checksums"]);
    scratch
}

/// The checksums of a disk.
fn checksums(scratch: &Scratch, disk: &str) -> Value {
    let pool = held(scratch, &["pool", "status", "--json"]).json()["pool"].clone();
    let disks = pool["disks"].as_array().expect("a list");
    let found = disks.iter().find(|one| one["name"] == disk).expect("a disk of the pool");
    found["checksums"].clone()
}

/// Changes every 16th of the 4 KiB of a disk that have this byte; returns how many it changed.
fn corrupt(scratch: &Scratch, disk: &str, byte: u8) -> u64 {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(scratch.join(disk)).expect("it is there");
    let (mut changed, mut next) = (0, 0);
    // The file is as large as the disk, and has holes where nothing was written.
    while let Ok(start) = seek(&file, SeekFrom::Data(next)) {
        next = seek(&file, SeekFrom::Hole(start)).expect("it ends");
        for at in (start.next_multiple_of(65_536)..next).step_by(65_536) {
            let mut bytes = [0; 4_096];
            file.read_exact_at(&mut bytes, at).expect("within the disk");
            if bytes.iter().all(|one| *one == byte) {
                file.write_all_at(&[byte ^ 0x40], at + 77).expect("written");
                changed += 1;
            }
        }
    }
    changed
}

#[test]
fn a_copy_that_was_changed_behind_its_back_is_read_from_another_and_mended() {
    for is_buffered in [false, true] {
        let scratch = created(is_buffered);
        let server = Server::unix(scratch.path(), "plan.toml");
        pattern(&server, "a", "write -P 7 0 16M", &scratch);
        server.stop();
        held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
        assert_eq!(corrupt(&scratch, "d0.img", 7), 256);
        let server = Server::unix(scratch.path(), "plan.toml");
        held(&scratch, &["pool", "scrub", "--wait"]);
        assert!(checksums(&scratch, "d0")["wrong"].as_u64() >= Some(256), "they were found");
        assert_eq!(checksums(&scratch, "d1")["wrong"], 0);
        let text = held(&scratch, &["pool", "status"]).stdout;
        assert!(text.contains("checksums: disk d0 returned "), "{text}");
        pattern(&server, "a", "read -P 7 0 16M", &scratch);
        server.stop();
        assert_eq!(corrupt(&scratch, "d0.img", 7), 256, "each was mended");
        // A read mends too.
        let server = Server::unix(scratch.path(), "plan.toml");
        pattern(&server, "a", "read -P 7 0 16M", &scratch);
        pattern(&server, "a", "read -P 7 512 1536", &scratch);
        server.stop();
    }
}

#[test]
fn without_another_copy_the_read_fails_and_the_rest_is_readable() {
    let scratch = created(false);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "b", "write -P 9 0 2M", &scratch);
    pattern(&server, "b", "write -P 5 8M 2M", &scratch);
    server.stop();
    assert_eq!(corrupt(&scratch, "d1.img", 9), 32);
    let server = Server::unix(scratch.path(), "plan.toml");
    let uri = server.uri("b");
    let mut command = client("qemu-io");
    command.args(["-r", "-f", "raw", "-c", "read 0 4k", &uri]);
    let ran = run(command, scratch.path());
    let said = ran.stdout.clone() + &ran.stderr;
    assert!(said.contains("Input/output error"), "{ran:?}");
    pattern(&server, "b", "read -P 9 4k 60k", &scratch);
    pattern(&server, "b", "read -P 5 8M 2M", &scratch);
    // What is written whole is as it was written.
    pattern(&server, "b", "write -P 6 0 4k", &scratch);
    pattern(&server, "b", "read -P 6 0 4k", &scratch);
    server.stop();
}

/// Creates and fills a volume of 4 MiB on the second disk.
fn filled(server: &Server, name: &str, byte: u8, options: &[&str], scratch: &Scratch) {
    let create = ["vol", "create", name, "--size", "4MiB", "--disks", "d1"];
    held(scratch, &[&create[..], options].concat());
    pattern(server, name, &format!("write -P {byte} 0 4M"), scratch);
    pattern(server, name, &format!("read -P {byte} 0 4M"), scratch);
}

#[test]
fn a_volume_without_checksums_is_read_as_it_is_on_blocks_that_had_some() {
    let scratch = created(false);
    let server = Server::unix(scratch.path(), "plan.toml");
    filled(&server, "x", 9, &[], &scratch);
    held(&scratch, &["vol", "rm", "x"]);
    filled(&server, "plain", 8, &["--no-checksums"], &scratch);
    pattern(&server, "plain", "write -P 8 512 4k", &scratch);
    let pool = held(&scratch, &["pool", "status", "--json"]).json()["pool"].clone();
    for one in pool["volumes"].as_array().expect("a list") {
        assert_eq!(one["checksums"], one["name"] != "plain", "{one}");
    }
    held(&scratch, &["pool", "scrub", "--wait"]);
    assert_eq!(checksums(&scratch, "d1")["wrong"], 0);
    server.stop();
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    assert_eq!(corrupt(&scratch, "d1.img", 8), 64);
    let server = Server::unix(scratch.path(), "plan.toml");
    let read = |name: &str| {
        let mut command = client("qemu-io");
        command.args(["-r", "-f", "raw", "-c", "read 0 4M", &server.uri(name)]);
        let ran = run(command, scratch.path());
        ran.stdout + &ran.stderr
    };
    assert!(read("plain").contains("read 4194304/4194304"), "what the disk has");
    assert_eq!(checksums(&scratch, "d1")["wrong"], 0);
    // Where its blocks go next, checksums are kept again.
    held(&scratch, &["vol", "rm", "plain"]);
    filled(&server, "y", 5, &[], &scratch);
    server.stop();
    assert_eq!(corrupt(&scratch, "d1.img", 5), 64);
    let server = Server::unix(scratch.path(), "plan.toml");
    let mut command = client("qemu-io");
    command.args(["-r", "-f", "raw", "-c", "read 0 4M", &server.uri("y")]);
    let ran = run(command, scratch.path());
    assert!((ran.stdout + &ran.stderr).contains("Input/output error"), "it is refused");
    assert_eq!(checksums(&scratch, "d1")["wrong"], 64);
    server.stop();
}

/// Changes a byte of 4 KiB of a disk of which a part has this byte, and returns where they are.
fn corrupt_part(scratch: &Scratch, disk: &str, byte: u8) -> u64 {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(scratch.join(disk)).expect("it is there");
    let at = blocks_with(&file, byte).next().expect("it was written");
    file.write_all_at(&[byte ^ 0x40], at + 600).expect("written");
    at
}

/// The blocks of a disk of whose first 4 KiB the second and third 512 bytes have this byte.
fn blocks_with(file: &std::fs::File, byte: u8) -> impl Iterator<Item = u64> + '_ {
    let blocks = file.metadata().expect("a file").len() >> 20;
    (0..blocks).map(|block| block << 20).filter(move |at| {
        let mut bytes = [0; 1_024];
        file.read_exact_at(&mut bytes, at + 512).expect("within the disk");
        bytes.iter().all(|one| *one == byte)
    })
}

#[test]
fn a_scrub_records_the_checksums_that_are_not_known_and_what_changes_then_is_noticed() {
    let scratch = created(false);
    let server = Server::unix(scratch.path(), "plan.toml");
    // In part, so that the checksums of their 4 KiB are not known: `a` is a mirror, `b` is not.
    pattern(&server, "a", "write -P 7 512 1k", &scratch);
    pattern(&server, "b", "write -P 9 512 1k", &scratch);
    held(&scratch, &["pool", "scrub", "--wait"]);
    server.stop();
    let server = Server::unix(scratch.path(), "plan.toml");
    held(&scratch, &["pool", "scrub", "--wait"]);
    for disk in ["d0", "d1"] {
        let found = checksums(&scratch, disk);
        assert_eq!(
            (&found["unverified_bytes"], &found["wrong"]),
            (&0.into(), &0.into()),
            "{found}"
        );
    }
    server.stop();
    corrupt_part(&scratch, "d1.img", 9);
    let at = corrupt_part(&scratch, "d0.img", 7);
    let server = Server::unix(scratch.path(), "plan.toml");
    let mut command = client("qemu-io");
    command.args(["-r", "-f", "raw", "-c", "read 512 1k", &server.uri("b")]);
    let ran = run(command, scratch.path());
    assert!((ran.stdout + &ran.stderr).contains("Input/output error"), "it is refused");
    // It fails because of `b`, of which there is no other copy.
    spindle(scratch.path(), &["pool", "scrub", "--wait"]);
    pattern(&server, "a", "read -P 7 512 1k", &scratch);
    server.stop();
    let file = std::fs::File::open(scratch.join("d0.img")).expect("it is there");
    assert_eq!(blocks_with(&file, 7).next(), Some(at), "it was mended");
}

#[test]
fn a_kill_makes_nothing_refused() {
    let scratch = created(false);
    for _ in 0..3 {
        let server = Server::unix(scratch.path(), "plan.toml");
        pattern(&server, "b", "write -P 3 12M 1M", &scratch);
        let shape = ["--bsrange=512-64k", "--bs_unaligned", "--iodepth=8", "--size=8m", "--thread"];
        let mut fio = verifying(&server, "a", &[&shape[..], &["--loops=200"]].concat(), &scratch);
        pattern(&server, "b", "write -P 4 0 8M", &scratch);
        server.signal(Signal::KILL);
        server.ended();
        fio.wait().expect("it ends");
        let server = Server::unix(scratch.path(), "plan.toml");
        held(&scratch, &["pool", "scrub", "--wait"]);
        pattern(&server, "b", "read -P 3 12M 1M", &scratch);
        for disk in ["d0", "d1"] {
            assert_eq!(checksums(&scratch, disk)["wrong"], 0);
        }
        server.stop();
    }
}

const UPGRADE: [&str; 5] = ["pool", "upgrade", "--checksums", "--config", "plan.toml"];

#[test]
fn a_pool_that_was_made_without_gets_checksums_and_a_scrub_records_those_of_its_data() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", CONFIG);
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 7 0 16M", &scratch);
    pattern(&server, "b", "write -P 9 0 2M", &scratch);
    filled(&server, "plain", 8, &["--no-checksums"], &scratch);
    let refused = spindle(scratch.path(), &UPGRADE);
    assert!(refused.refusal().contains("in use"), "the daemon has the disks: {refused:?}");
    server.stop();
    let refused = spindle(scratch.path(), &UPGRADE[..3]);
    assert!(refused.refusal().contains("expected files, or --config CONFIG"), "{refused:?}");

    held(&scratch, &UPGRADE);
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    let refused = spindle(scratch.path(), &UPGRADE);
    assert!(refused.refusal().contains("has checksums already"), "{refused:?}");
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "read -P 7 0 16M", &scratch);
    pattern(&server, "b", "read -P 9 0 2M", &scratch);
    pattern(&server, "plain", "read -P 8 0 4M", &scratch);
    assert!(checksums(&scratch, "d0")["unverified_bytes"].as_u64() > Some(0), "not known yet");
    held(&scratch, &["pool", "scrub", "--wait"]);
    let pool = held(&scratch, &["pool", "status", "--json"]).json()["pool"].clone();
    for one in pool["volumes"].as_array().expect("a list") {
        assert_eq!(one["checksums"], one["name"] != "plain", "{one}");
    }
    server.stop();
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);

    assert_eq!(corrupt(&scratch, "d0.img", 7), 256);
    assert_eq!(corrupt(&scratch, "d1.img", 9), 32);
    let server = Server::unix(scratch.path(), "plan.toml");
    let mut command = client("qemu-io");
    command.args(["-r", "-f", "raw", "-c", "read 0 4k", &server.uri("b")]);
    let ran = run(command, scratch.path());
    assert!((ran.stdout + &ran.stderr).contains("Input/output error"), "it is refused");
    // It fails because of `b`, of which there is no other copy.
    spindle(scratch.path(), &["pool", "scrub", "--wait"]);
    assert!(checksums(&scratch, "d0")["wrong"].as_u64() >= Some(256), "they were found");
    pattern(&server, "a", "read -P 7 0 16M", &scratch);
    server.stop();
    assert_eq!(corrupt(&scratch, "d0.img", 7), 256, "each was mended");
}

const SMALL: &str = r#"
[[disk]]
name = "d0"
path = "d0.img"
buffered = true

[pool]
disks = ["d0"]
"#;

#[test]
fn what_is_where_checksums_go_is_moved_and_without_room_nothing_changes() {
    let scratch = Scratch::beside();
    scratch.write("plan.toml", SMALL);
    succeed("truncate", &["--size", "96MiB", "d0.img"], scratch.path());
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    let create = |name: &str, size: &str| {
        held(&scratch, &["vol", "create", name, "--size", size, "--zone", "any"]);
    };
    let free =
        || held(&scratch, &["pool", "status", "--json"]).json()["pool"]["free_bytes"].clone();
    let all = free().as_u64().expect("a number") >> 20;
    create("small", "1MiB");
    create("films", &format!("{}MiB", all - 1));
    assert_eq!(free(), 0);
    pattern(&server, "films", &format!("write -P 5 0 {}M", all - 1), &scratch);
    pattern(&server, "small", "write -P 6 0 1M", &scratch);
    server.stop();
    let before = std::fs::read(scratch.join("d0.img")).expect("a disk");
    let refused = spindle(scratch.path(), &UPGRADE);
    let told = refused.refusal();
    assert!(told.contains("volume \"films\": block ") && told.contains("d0.img"), "{told}");
    assert!(std::fs::read(scratch.join("d0.img")).expect("a disk") == before, "nothing is written");

    let server = Server::unix(scratch.path(), "plan.toml");
    held(&scratch, &["vol", "rm", "small"]);
    server.stop();
    let ran = spindle(scratch.path(), &UPGRADE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("1 blocks of 1MiB were moved"), "{ran:?}");
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "films", &format!("read -P 5 0 {}M", all - 1), &scratch);
    held(&scratch, &["pool", "scrub", "--wait"]);
    pattern(&server, "films", "write -P 4 512 1M", &scratch);
    assert_eq!(checksums(&scratch, "d0")["wrong"], 0);
    server.stop();
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
}
