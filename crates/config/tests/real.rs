//! Configs of real disks. The disks here are files; block devices take the same path.

use std::path::Path;

use engine::ForcedWrites;
use spindle_config::{Backing, IoMethod, Plan, WriteCache};
use units::Bytes;

const SIZE: u64 = 64 << 20;

/// A config beside a file of [`SIZE`] bytes, `disk.img`.
fn parse(table: &str) -> Result<Plan, String> {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let file = std::fs::File::create(dir.path().join("disk.img")).expect("room for a name");
    // The part of a block at its end is not used.
    file.set_len(SIZE + 1_000).expect("a sparse file");
    let text = format!("[[disk]]\nname = \"d0\"\npath = \"disk.img\"\n{table}");
    Plan::parse(&text, "plan.toml", dir.path()).map_err(|error| error.to_string())
}

fn refused(table: &str) -> String {
    parse(table).expect_err("it is refused")
}

#[test]
fn a_disk_has_the_size_of_its_file() {
    let plan = parse("buffered = true\nadopt = true\n").expect("it is there");
    let disk = &plan.disks[0];
    assert_eq!(disk.drive.model.capacity().bytes(), Bytes(SIZE));
    let Backing::Real(real) = &disk.backing else { panic!("it is a real one") };
    assert!(real.buffered && real.adopt && real.path.ends_with("disk.img"));
    let plain = parse("").expect("it is there");
    let Backing::Real(real) = &plain.disks[0].backing else { panic!("a real disk") };
    assert!(!real.buffered && !real.adopt && real.io_method == IoMethod::IoUring);
    let threads = parse("io_uring = false\n").expect("it is there");
    let Backing::Real(real) = &threads.disks[0].backing else { panic!("a real disk") };
    assert_eq!(real.io_method, IoMethod::Threads);
    let beyond = refused("[[volume]]\nname = \"a\"\ndisk = \"d0\"\nsize = \"65MiB\"\n");
    assert!(beyond.contains("64MiB"), "{beyond}");
}

#[test]
fn what_is_done_about_the_write_cache_of_a_drive_is_named() {
    for (table, expected) in [
        ("", WriteCache::Auto),
        ("write_cache = \"auto\"\n", WriteCache::Auto),
        ("write_cache = \"forced\"\n", WriteCache::Forced),
        ("write_cache = \"off\"\n", WriteCache::Off),
        ("write_cache = \"flushed\"\n", WriteCache::Flushed),
    ] {
        let plan = parse(table).expect("it is there");
        assert_eq!(plan.disks[0].write_cache, expected, "{table}");
        // What there is decides what is "auto".
        let found = plan.disks[0].cache_bypass();
        assert_eq!(found.is_none(), expected == WriteCache::Auto, "{table}: {found:?}");
    }
    let said = refused("write_cache = \"on\"\n");
    let expected = "expected \"auto\", \"forced\", \"off\" or \"flushed\"";
    assert!(said.contains("found `on`") && said.contains(expected), "{said}");
    let flash = "[[disk]]\nname = \"e\"\ndrive = \"intel-p4500-2t\"\nwrite_cache = \"off\"\n";
    let said = refused(flash);
    assert!(said.contains("no such field, or a `drive` that rotates"), "{said}");
}

#[test]
fn an_emulated_drive_has_the_cheapest_way_past_its_write_cache_or_the_one_that_is_named() {
    use spindle_config::CacheBypass::{Flushed, Forced, Off};
    for (keys, expected) in [
        ("", Some(Forced)),
        ("write_cache = \"off\"\n", Some(Off)),
        ("write_cache = \"flushed\"\n", Some(Flushed)),
        // Its own cache is used as it is.
        ("write_buffer = \"off\"\n", None),
    ] {
        let text = format!("[[disk]]\nname = \"e\"\ndrive = \"hgst-7k8\"\n{keys}");
        let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound config");
        let disk = &plan.disks[0];
        assert_eq!(disk.cache_bypass(), expected, "{keys}");
        let is_fua = disk.settings().forced_writes == ForcedWrites::Fua;
        assert_eq!(is_fua, expected != Some(Flushed), "{keys}");
        let model = disk.served_model();
        let has_cache = model.mechanical().expect("it rotates").spec().write_cache;
        assert_eq!(has_cache, expected != Some(Off), "{keys}");
    }
}

#[test]
fn a_feature_that_needs_a_profile_says_how_to_measure_one() {
    for (table, field) in
        [("policy = \"delta-l\"\n", "profile"), ("estimate = \"profile\"\n", "estimate")]
    {
        let said = refused(table);
        assert!(said.contains(field) && said.contains("spindle profile DEVICE"), "{said}");
    }
    let rate = refused("policy = \"throughput\"\n");
    assert!(rate.contains("nominal_rate"), "{rate}");
    parse("estimate = \"learned\"\ndepth = 32\n").expect("neither asks for a profile");
    let load = "[[volume]]\nname = \"a\"\ndisk = \"d0\"\nsize = \"1MiB\"\n[[workload]]\nvolume = \
         \"a\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nstop = \
         \"1s\"\n";
    let plan = parse(load).expect("a config to serve");
    let said = plan.for_sim().expect_err("its service times are unknown").to_string();
    assert!(said.contains("[[disk]] \"d0\"") && said.contains("spindle profile DEVICE"), "{said}");
}

#[test]
fn two_disks_do_not_share_a_file() {
    let said = refused("[[disk]]\nname = \"d1\"\npath = \"./disk.img\"\n");
    assert!(said.contains("line 3 has this one already"), "{said}");
    let said = refused("[[disk]]\nname = \"d1\"\ndrive = \"atlas10k\"\nbacking = \"disk.img\"\n");
    assert!(said.contains("line 3 has this one already"), "{said}");
}

#[test]
fn a_disk_that_is_too_small_is_refused() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    std::fs::write(dir.path().join("small.img"), [0; 4_096]).expect("room");
    let text = "[[disk]]\nname = \"d0\"\npath = \"small.img\"\n";
    let said = Plan::parse(text, "plan.toml", Path::new(dir.path())).expect_err("it is refused");
    assert!(said.to_string().contains("at least 1MiB: this one holds 4KiB"), "{said}");
}
