//! `spindle pool` on plain files: create, show, damage and repair. A refused command changes no
//! file.

use std::fs;
use std::os::unix::fs::FileExt;

use testkit::{Ran, Scratch, spindle};
use volume::pool::format::{Geometry, disk_blocks};
use volume::pool::{Action, DiskUid, Pool, PoolOutput, PoolUid};

const MIB: u64 = 1 << 20;

fn disk(scratch: &Scratch, name: &str, bytes: u64) {
    let file = fs::File::create(scratch.join(name)).expect("a scratch file");
    file.set_len(bytes).expect("a scratch file");
}

/// A pool of two files.
fn pool() -> Scratch {
    let scratch = Scratch::new();
    disk(&scratch, "a", 64 * MIB);
    disk(&scratch, "b", 80 * MIB);
    let made = spindle(scratch.path(), &["pool", "create", "a", "b"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    scratch
}

fn refused(scratch: &Scratch, arguments: &[&str], said: &str) {
    let names = scratch.names();
    let read = || -> Vec<_> {
        names.iter().map(|name| fs::read(scratch.join(name)).expect("is there")).collect()
    };
    let before = read();
    let ran = spindle(scratch.path(), arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "one message: {}", ran.stderr);
    assert!(ran.stderr.contains(said), "{} says {said}", ran.stderr);
    assert!(read() == before, "nothing is written");
}

fn json(ran: &Ran) -> serde_json::Value {
    let json = ran.json();
    assert_eq!(json["schema"], 1);
    json
}

#[test]
fn a_pool_is_found_by_its_disks_in_any_order_and_under_any_name() {
    let scratch = pool();
    fs::rename(scratch.join("a"), scratch.join("renamed")).expect("renamed");
    let ran = spindle(scratch.path(), &["pool", "status", "b", "renamed", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let status = json(&ran);
    assert_eq!(status["writable"], true);
    assert_eq!(status["disks"][0]["file"], "renamed");
    assert_eq!(status["disks"][1]["file"], "b");
    assert_eq!(status["free_bytes"], status["bytes"]);
    assert_eq!(spindle(scratch.path(), &["pool", "fsck", "b", "renamed"]).code, Some(0));
}

#[test]
fn damage_is_reported_and_repaired_from_an_intact_copy() {
    let scratch = pool();
    let file = fs::OpenOptions::new().write(true).open(scratch.join("b")).expect("a disk");
    file.write_all_at(b"a boot sector, perhaps", 100).expect("written");
    let ran = spindle(scratch.path(), &["pool", "fsck", "a", "b", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(
        json(&ran)["findings"][0],
        "b: the label at its beginning does not fit its checksum"
    );
    let ran = spindle(scratch.path(), &["pool", "fsck", "a", "b", "--repair"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = spindle(scratch.path(), &["pool", "fsck", "a", "b"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_missing_disk_is_reported_and_nothing_is_repaired_without_it() {
    let scratch = pool();
    let before = fs::read(scratch.join("a")).expect("a disk");
    let ran = spindle(scratch.path(), &["pool", "fsck", "a", "--repair", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = json(&ran);
    assert_eq!(
        (&report["writable"], &report["disks"][1]["file"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert!(fs::read(scratch.join("a")).expect("a disk") == before, "nothing is written");
}

#[test]
fn files_without_a_pool_are_refused_and_not_changed() {
    let scratch = pool();
    disk(&scratch, "empty", 64 * MIB);
    disk(&scratch, "small", 2 * MIB);
    fs::hard_link(scratch.join("a"), scratch.join("link")).expect("linked");
    disk(&scratch, "other", 64 * MIB);
    assert_eq!(spindle(scratch.path(), &["pool", "create", "other"]).code, Some(0));
    fs::copy(scratch.join("a"), scratch.join("copy")).expect("copied");
    refused(&scratch, &["pool", "create", "a"], "a: holds data");
    refused(
        &scratch,
        &["pool", "create", "small"],
        "small: has 2MiB; a disk of a pool has at least",
    );
    refused(&scratch, &["pool", "create", "nothing"], "nothing: no such file");
    refused(
        &scratch,
        &["pool", "status", "a", "b", "empty"],
        "empty: its label holds nothing of Spindle's",
    );
    refused(&scratch, &["pool", "status", "a", "link"], "link: the same file as a");
    refused(&scratch, &["pool", "status", "a", "b", "copy"], "copy: it is disk");
    refused(&scratch, &["pool", "fsck", "a", "other", "--repair"], "other: it is of pool");
}

/// The words of the row of `table` that begins with this one.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|words| words.first() == Some(&name)).unwrap_or_else(|| panic!("{name}: {table}"))
}

#[test]
fn the_example_is_simulated_and_its_report_says_whether_contracts_were_kept() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/serve/pool.toml");
    let scratch = Scratch::new();
    let ran = spindle(scratch.path(), &["sim", "run", example]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let [volumes, parts, deadlines] = ran.stdout.split("\n\n").collect::<Vec<_>>()[..] else {
        panic!("three tables: {}", ran.stdout)
    };
    assert_eq!(row(volumes, "films")[1..3], ["40.0", "%"]);
    let share = |line: &str| -> f64 {
        line.split_whitespace().nth(5).expect("a share").parse().expect("a number")
    };
    // Of the disk that is never idle it has its 40 % at least, and of the other what it asks for.
    let of = |disk: &str| -> Vec<&str> {
        parts.lines().filter(|line| line.split_whitespace().nth(2) == Some(disk)).collect()
    };
    let films = of("d0").into_iter().find(|line| line.starts_with("films on")).expect("a row");
    assert!(share(films) > 40.0, "{films}");
    let busy: f64 = of("d1").into_iter().map(share).sum();
    assert!(busy < 80.0, "d1 waits for requests: {busy} % of it are used");
    // The camera records 1.45 MB/s for a minute, in blocks of 1 MiB.
    let camera = row(deadlines, "cam01");
    assert_eq!((camera[1], camera[3]), ("blocks", "0"), "{camera:?}");
    assert!(camera[2].parse::<u32>().is_ok_and(|met| met > 80), "{camera:?}");
    assert!(ran.stderr.contains("films: snapshot at 20 s: "), "{}", ran.stderr);
    assert_eq!(scratch.names(), [""; 0], "a simulation leaves no image behind");
}

/// A pool of one file, in the first version of the format.
fn of_the_first_version(scratch: &Scratch, name: &str) {
    disk(scratch, name, 64 * MIB);
    let file = fs::OpenOptions::new().write(true).open(scratch.join(name)).expect("a disk");
    let blocks = disk_blocks(units::Bytes(64 * MIB).sectors_floor());
    let disks = [(DiskUid([1; 16]), blocks)];
    let made = Pool::create_in(PoolUid([2; 16]), Geometry::suited(blocks), &disks, 1);
    let mut pool = made.expect("the disk is large enough");
    while let Some(output) = pool.poll() {
        let PoolOutput::Do(id, action) = output else { continue };
        if let Action::Write { extent, bytes, .. } = action {
            file.write_all_at(&bytes, extent.start.0 * 512).expect("written");
        }
        pool.done(id, true);
    }
}

#[test]
fn a_pool_of_an_older_version_is_upgraded_by_a_command_alone_and_gets_checksums() {
    let scratch = Scratch::new();
    of_the_first_version(&scratch, "a");
    of_the_first_version(&scratch, "b");
    let version = |name: &str| {
        let bytes = fs::read(scratch.join(name)).expect("a disk");
        u32::from_le_bytes(bytes[4_096 + 8..4_096 + 12].try_into().expect("four bytes"))
    };
    let held = |arguments: &[&str]| {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran
    };
    held(&["pool", "fsck", "a"]);
    held(&["pool", "fsck", "--repair", "a"]);
    assert_eq!(version("a"), 1, "nothing else upgrades it");
    let before = json(&held(&["pool", "status", "a", "--json"]));
    let upgraded = json(&held(&["pool", "upgrade", "a", "--json"]));
    assert_eq!((version("a"), &upgraded["bytes"]), (4, &before["bytes"]));
    refused(&scratch, &["pool", "upgrade", "a"], "newest format already");
    for (name, said) in [("a", "checksums already"), ("b", "checksums already")] {
        let upgraded = json(&held(&["pool", "upgrade", "--checksums", name, "--json"]));
        assert!(upgraded["bytes"].as_u64() < before["bytes"].as_u64(), "{upgraded}");
        assert_eq!(version(name), 4);
        held(&["pool", "fsck", name]);
        refused(&scratch, &["pool", "upgrade", "--checksums", name], said);
    }
}

#[test]
fn a_pool_without_one_of_its_disks_gets_no_checksums() {
    let scratch = pool();
    for options in [&["--checksums"][..], &[]] {
        let arguments = [&["pool", "upgrade"][..], options, &["a"]].concat();
        refused(&scratch, &arguments, "1 of the pool's disks are missing");
    }
}
