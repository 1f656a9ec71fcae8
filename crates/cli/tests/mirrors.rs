//! Mirrors of a served pool under real clients: disks are lost under load, come back, are replaced
//! and are missing at a start, and the daemon is killed.

use std::os::unix::fs::FileExt;
use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Scratch, Server, held, pattern, spindle, verified, verifying};

/// Three disks of a pool, of which one may vanish, and one further disk. The disks are flash, so
/// that the tests are fast.
const CONFIG: &str = r#"
[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
backing = "d0.img"

[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
backing = "d1.img"
FAULTS

[[disk]]
name = "d2"
drive = "samsung-870evo-1t"
backing = "d2.img"

[[disk]]
name = "d3"
drive = "samsung-870evo-1t"
backing = "d3.img"

[pool]
disks = ["d0", "d1", "d2"]
relocation_share = "40%"
rebuild = { reserve = "10%" }

[[pool.volume]]
name = "a"
size = "48MiB"
layout = "mirror"
reserve = "30%"

[[pool.volume]]
name = "b"
size = "32MiB"
layout = "mirror"
copies = 3
thin = true
"#;

/// Where writes are buffered.
#[derive(Clone, Copy)]
enum Buffers {
    /// In the drives.
    Drive,
    /// In the host.
    Host,
}

/// The config with these faults of disk `d1`.
fn config(faults: &str, buffers: Buffers) -> String {
    let config = CONFIG.replace("FAULTS", faults);
    match buffers {
        Buffers::Drive => config,
        Buffers::Host => config.replace("\nbacking", "\nwrite_buffer = \"64MiB\"\nbacking"),
    }
}

/// A pool that was created, and whose disk `d1` vanishes after that number of commands.
fn created(vanish_after: Option<u32>, buffers: Buffers) -> Scratch {
    let scratch = Scratch::new();
    let faults = vanish_after.map(|last| format!("faults = {{ vanish_after = {last} }}"));
    scratch.write("plan.toml", config(&faults.unwrap_or_default(), buffers));
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    scratch
}

fn refused(scratch: &Scratch, arguments: &[&str], why: &str) {
    let ran = spindle(scratch.path(), arguments);
    assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
    assert!(ran.stderr.contains(why), "{why}: {ran:?}");
}

fn pool(scratch: &Scratch) -> Value {
    held(scratch, &["pool", "status", "--json"]).json()["pool"].clone()
}

/// The state of a disk in the pool.
fn state(scratch: &Scratch, disk: &str) -> Value {
    let pool = pool(scratch);
    let disks = pool["disks"].as_array().expect("a list");
    disks.iter().find(|one| one["name"] == disk).map_or(Value::Null, |one| one["state"].clone())
}

/// Waits until all copies of all mirrors are equal, on disks that are in.
fn wait_until_equal(scratch: &Scratch) {
    loop {
        let pool = pool(scratch);
        assert_eq!(pool["resync"]["stuck"], false, "{pool}");
        let disks = pool["disks"].as_array().expect("a list");
        assert!(disks.iter().all(|disk| disk["state"] == "in"), "{pool}");
        let volumes = pool["volumes"].as_array().expect("a list");
        let is_whole = volumes.iter().all(|volume| volume["degraded_bytes"] == 0);
        if is_whole && pool["resync"]["verifying"] == false && pool["resync"]["running"] == false {
            return;
        }
    }
}

/// Starts fio, which writes and reads back a volume's first 32 MiB.
fn verifying_loops(server: &Server, volume: &str, loops: u32, scratch: &Scratch) -> Child {
    let shape = ["--bsrange=4k-256k", "--iodepth=8", "--size=32m", "--thread", "--fsync=16"];
    let loops = format!("--loops={loops}");
    verifying(server, volume, &[&shape[..], &[&loops]].concat(), scratch)
}

/// Checks that each disk can be missing: whichever it is, the others have all of the data.
fn each_may_be_missing(scratch: &Scratch, disks: &[&str], reads: &[(&str, &str)]) {
    for (nth, disk) in disks.iter().enumerate() {
        let (file, away) = (scratch.join(&format!("{disk}.img")), scratch.join("away.img"));
        std::fs::rename(&file, &away).expect("renamed");
        if nth == 0 {
            // It cannot be opened. Without the file there is a new one, without a label.
            std::fs::create_dir(&file).expect("made");
        }
        let server = Server::unix(scratch.path(), "plan.toml");
        for (volume, how) in reads {
            pattern(&server, volume, how, scratch);
        }
        // It is out once the others say so.
        while !held(scratch, &["pool", "status"]).stdout.contains("the pool goes on without it") {}
        server.stop();
        if nth == 0 {
            std::fs::remove_dir(&file).expect("it is empty");
        }
        std::fs::rename(&away, &file).expect("renamed");
        // The next start takes it back.
        let server = Server::unix(scratch.path(), "plan.toml");
        wait_until_equal(scratch);
        assert_eq!(state(scratch, disk), "in");
        server.stop();
        held(scratch, &["pool", "fsck", "--config", "plan.toml"]);
    }
}

#[test]
fn a_mirror_goes_on_without_a_disk_gets_it_back_and_then_goes_on_without_any_other() {
    goes_on(Buffers::Drive);
}

/// Each answered write is on the other disks, though the one that vanished had it in memory.
#[test]
fn a_mirror_with_write_buffers_goes_on_without_a_disk_and_gets_it_back() {
    goes_on(Buffers::Host);
}

fn goes_on(buffers: Buffers) {
    // Fewer than fio's requests take, and more than a rebuild and the last pattern, in commands of
    // at most 128 KiB.
    let scratch = created(Some(1_100), buffers);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 7 32M 8M", &scratch);
    // It vanishes under these.
    let fios =
        [verifying_loops(&server, "a", 4, &scratch), verifying_loops(&server, "b", 4, &scratch)];
    fios.into_iter().for_each(verified);
    assert_eq!(state(&scratch, "d1"), "out");
    pattern(&server, "a", "write -P 8 36M 8M", &scratch);
    let text = held(&scratch, &["pool", "status"]).stdout;
    for said in ["out: disk d1", "spindle disk reopen d1", "at risk", "lack a copy, of a, b"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    refused(&scratch, &["pool", "replace", "d0", "d3"], "is in the pool");
    refused(&scratch, &["disk", "reopen", "d2"], "is in the pool");
    // It comes back under these, and vanishes again after as many commands.
    for _ in 0..2 {
        let fios = [
            verifying_loops(&server, "a", 4, &scratch),
            verifying_loops(&server, "b", 4, &scratch),
        ];
        held(&scratch, &["disk", "reopen", "d1"]);
        fios.into_iter().for_each(verified);
        assert_eq!(state(&scratch, "d1"), "out");
    }
    held(&scratch, &["disk", "reopen", "d1"]);
    wait_until_equal(&scratch);
    assert_eq!(state(&scratch, "d1"), "in");
    pattern(&server, "b", "write -P 9 0 32M", &scratch);
    let ran = server.stop();
    assert!(ran.stderr.contains("disk d1 failed, and is out"), "{ran:?}");
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    scratch.write("plan.toml", config("", buffers));
    let reads = [("a", "read -P 7 32M 4M"), ("a", "read -P 8 36M 8M"), ("b", "read -P 9 0 32M")];
    each_may_be_missing(&scratch, &["d0", "d1", "d2"], &reads);
}

#[test]
fn a_new_mirror_over_a_disk_that_is_out_is_refused_and_one_beside_it_is_made() {
    let scratch = created(Some(700), Buffers::Drive);
    let server = Server::unix(scratch.path(), "plan.toml");
    verified(verifying_loops(&server, "a", 4, &scratch));
    assert_eq!(state(&scratch, "d1"), "out");
    let why = "field `disks`: found \"d1\", which the pool has taken out, expected some of \"d0\", \
               \"d2\", which are in";
    let mirror = ["--size", "8MiB", "--layout", "mirror"];
    refused(&scratch, &[&["vol", "create", "c"], &mirror[..]].concat(), why);
    let dry = spindle(scratch.path(), &[&["admit", "--dry-run"], &mirror[..]].concat());
    assert_eq!(dry.code, Some(1), "{dry:?}");
    assert!(dry.stdout.contains(why), "{dry:?}");
    let plan = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(!plan.contains("\"c\""), "nothing has changed: {plan}");
    let beside = [&["vol", "create", "c", "--disks", "d0,d2"], &mirror[..]].concat();
    held(&scratch, &beside);
    pattern(&server, "c", "write -P 5 0 8M", &scratch);
    let volumes = pool(&scratch)["volumes"].clone();
    let made = volumes.as_array().expect("a list").iter().find(|one| one["name"] == "c").cloned();
    assert_eq!(made.expect("it was made")["degraded_bytes"], 0);
    // A volume without copies may have its blocks on the others.
    held(&scratch, &["vol", "create", "e", "--size", "8MiB"]);
    server.stop();
}

#[test]
fn a_disk_that_failed_is_replaced_by_another_under_load() {
    let scratch = created(Some(700), Buffers::Drive);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 7 32M 8M", &scratch);
    let fios =
        [verifying_loops(&server, "a", 4, &scratch), verifying_loops(&server, "b", 4, &scratch)];
    fios.into_iter().for_each(verified);
    assert_eq!(state(&scratch, "d1"), "out");
    let fios =
        [verifying_loops(&server, "a", 4, &scratch), verifying_loops(&server, "b", 4, &scratch)];
    held(&scratch, &["pool", "replace", "d1", "d3", "--wait"]);
    fios.into_iter().for_each(verified);
    wait_until_equal(&scratch);
    assert_eq!(state(&scratch, "d3"), "in");
    pattern(&server, "b", "write -P 9 0 32M", &scratch);
    server.stop();
    let plan = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(plan.contains(r#"disks = ["d0", "d3", "d2"]"#), "{plan}");
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    let reads = [("a", "read -P 7 32M 8M"), ("b", "read -P 9 0 32M")];
    each_may_be_missing(&scratch, &["d0", "d3"], &reads);
}

/// A pool with a spare that is too small and one that is not; a disk has been out for a while.
fn with_spares(faults: &str) -> String {
    let spares = r#"backing = "d3.img"
spare = true

[[disk]]
name = "d4"
drive = "samsung-870evo-1t"
backing = "d4.img"
spare = true
"#;
    let config = CONFIG.replace("FAULTS", faults).replace("backing = \"d3.img\"\n", spares);
    let small = "name = \"d3\"\ndrive = \"memory\"\nsize = \"64MiB\"\nspare = true\n";
    let (before, behind) = config.split_once("name = \"d3\"").expect("it has a spare");
    let behind = behind.split_once("spare = true\n").expect("it is one").1;
    let config = format!("{before}{small}{behind}");
    config.replace("rebuild =", "spare_after = \"0s\"\nrebuild =")
}

#[test]
fn a_spare_takes_the_place_of_a_disk_that_failed_by_itself() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", with_spares("faults = { vanish_after = 700 }"));
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 7 32M 8M", &scratch);
    let fios =
        [verifying_loops(&server, "a", 4, &scratch), verifying_loops(&server, "b", 4, &scratch)];
    fios.into_iter().for_each(verified);
    while state(&scratch, "d4") != "in" {}
    wait_until_equal(&scratch);
    pattern(&server, "b", "write -P 9 0 32M", &scratch);
    let ran = server.stop();
    assert!(ran.stderr.contains("disk d4 has the place of disk d1"), "{ran:?}");
    let plan = std::fs::read_to_string(scratch.join("plan.toml")).expect("it is there");
    assert!(plan.contains(r#"disks = ["d0", "d4", "d2"]"#), "{plan}");
    assert_eq!(plan.matches("spare = true").count(), 1, "the other is one still: {plan}");
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    let reads = [("a", "read -P 7 32M 8M"), ("b", "read -P 9 0 32M")];
    each_may_be_missing(&scratch, &["d0", "d4"], &reads);
}

/// What is said of the spares for a disk that failed: its `spare` in the pool's state, and the text
/// for operators.
fn said_of_spares(config: &str) -> (Value, String, String) {
    let scratch = Scratch::new();
    scratch.write("plan.toml", config);
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    verified(verifying_loops(&server, "a", 4, &scratch));
    let spare = loop {
        let found = pool(&scratch);
        let disk = found["disks"].as_array().expect("disks").iter().find(|one| one["number"] == 1);
        let disk = disk.expect("it is the pool's");
        if let Some(spare) = disk.get("spare") {
            assert_eq!(disk["state"], "out", "{disk}");
            break spare.clone();
        }
    };
    let text = held(&scratch, &["pool", "status"]).stdout;
    let api = api::Client::new(&scratch.join("spindle-api.sock"));
    let metrics = api.metrics().expect("an answer");
    server.stop();
    (spare, text, metrics)
}

#[test]
fn a_spare_is_announced_and_one_that_is_refused_is_told() {
    let all = with_spares("faults = { vanish_after = 700 }");
    let later = all.replace("spare_after = \"0s\"", "spare_after = \"1h\"");
    let (spare, text, metrics) = said_of_spares(&later);
    let seconds = spare["takes_over_in_s"].as_f64().expect("a spare is waiting");
    assert!((0.0..=3_600.0).contains(&seconds), "{spare}");
    assert!(text.contains("a spare takes its place in "), "{text}");
    assert!(metrics.contains("\nspindle_pool_disks_without_spare{pool="), "{metrics}");
    let (before, behind) = all.split_once("[[disk]]\nname = \"d4\"").expect("it has two spares");
    let small = format!("{before}{}", &behind[behind.find("[pool]").expect("a pool")..]);
    let (spare, text, metrics) = said_of_spares(&small);
    let why = spare["refused"].as_str().expect("it is too small");
    assert!(why.starts_with("d3: "), "{why}");
    assert!(text.contains(&format!("no spare may have its place: {why}")), "{text}");
    let count = metrics.lines().find(|line| line.contains("disks_without_spare{"));
    assert!(count.is_some_and(|line| line.ends_with(" 1")), "{count:?}");
}

/// The pool with each disk on a shelf of its own, and two spares: one of the shelf of disk d0, and
/// one of that of d1, which fails.
fn on_shelves() -> String {
    let small = "drive = \"memory\"\nsize = \"64MiB\"\nspare = true\n";
    let large = "drive = \"samsung-870evo-1t\"\nbacking = \"d3.img\"\nspare = true\n";
    let mut config = with_spares("faults = { vanish_after = 700 }").replace(small, large);
    for (disk, shelf) in [("d0", "a"), ("d1", "b"), ("d2", "c"), ("d3", "a"), ("d4", "b")] {
        let name = format!("name = \"{disk}\"\n");
        config = config.replacen(&name, &format!("{name}domain = \"shelf-{shelf}\"\n"), 1);
    }
    config
}

#[test]
fn a_spare_of_the_shelf_of_another_copy_is_passed_over() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", on_shelves());
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    verified(verifying_loops(&server, "a", 4, &scratch));
    while state(&scratch, "d4") != "in" {}
    wait_until_equal(&scratch);
    let found = pool(&scratch);
    let disks = found["disks"].as_array().expect("disks");
    let shelf = |disk: &str| {
        let disk = disks.iter().find(|one| one["name"] == disk).expect("it is the pool's");
        disk["domain"].as_str().expect("it has one").to_owned()
    };
    assert_eq!(["d0", "d4", "d2"].map(shelf), ["shelf-a", "shelf-b", "shelf-c"]);
    let volumes = found["volumes"].as_array().expect("volumes");
    assert!(volumes.iter().all(|volume| volume["shares_domain"] == false), "{found}");
    server.stop();
    // With the shelf of d0 alone there is none that may have the place.
    let all = on_shelves();
    let (before, behind) = all.split_once("[[disk]]\nname = \"d4\"").expect("it has two spares");
    let one = format!("{before}{}", &behind[behind.find("[pool]").expect("a pool")..]);
    let (spare, text, _) = said_of_spares(&one);
    let why = spare["refused"].as_str().expect("it shares a shelf");
    assert!(why.starts_with("d3: ") && why.contains("failure domain"), "{why}");
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_mirror_whose_copies_cannot_be_kept_apart_is_refused() {
    let scratch = Scratch::new();
    let config = on_shelves().replace("faults = { vanish_after = 700 }", "");
    scratch.write("plan.toml", config.replacen("shelf-b", "shelf-a", 1));
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let refused = spindle(scratch.path(), &["serve", "plan.toml"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let said = &refused.stderr;
    assert!(said.contains("\"a\"") && said.contains("failure domain"), "{said}");
}

#[test]
fn a_rebuild_says_what_is_left_and_when_it_ends() {
    let scratch = Scratch::new();
    // So slow that it does not end before it is looked at.
    let slow = CONFIG
        .replace("FAULTS", "")
        .replace("48MiB", "1GiB")
        .replace("reserve = \"10%\"", "reserve = \"1%\", limit = \"1%\"");
    scratch.write("plan.toml", slow);
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    // The first start makes the volumes.
    Server::unix(scratch.path(), "plan.toml").stop();
    std::fs::remove_file(scratch.join("d1.img")).expect("it was there");
    let server = Server::unix(scratch.path(), "plan.toml");
    let before = pool(&scratch);
    assert_eq!(before["resync"].get("time_left_s"), None, "nothing is made equal: {before}");
    // The pool takes the missing disk out soon after it has begun to serve, which is waited for.
    held(&scratch, &["pool", "replace", "d1", "d3"]);
    let found = loop {
        let found = pool(&scratch);
        if found["resync"].get("time_left_s").is_some() {
            break found["resync"].clone();
        }
        assert!(found["resync"]["left_bytes"].as_u64() > Some(0), "too soon: {found}");
    };
    let figure = |name: &str| found[name].as_f64().expect("a number");
    let (left, rate, time) = (figure("left_bytes"), figure("bytes_per_s"), figure("time_left_s"));
    // What is left may have fallen since the sample.
    assert!(time > 0.0 && rate > 0.0 && left <= time * rate * 1.01 + 1.0, "{found}");
    let text = held(&scratch, &["pool", "status"]).stdout;
    for said in ["at risk: ", "left: all are equal in ", "/s\n  to do: nothing, but keep all disks"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let api = api::Client::new(&scratch.join("spindle-api.sock"));
    let metrics = api.metrics().expect("an answer");
    assert!(metrics.contains("\nspindle_pool_resync_left_seconds{pool="), "{metrics}");
    server.stop();
}

/// What a scrub has to say.
fn scrub(scratch: &Scratch) -> Value {
    pool(scratch)["scrub"].clone()
}

#[test]
fn a_scrub_finds_the_copy_that_was_changed_behind_its_back_and_nothing_else() {
    let scratch = created(None, Buffers::Host);
    let server = Server::unix(scratch.path(), "plan.toml");
    pattern(&server, "a", "write -P 7 0 32M", &scratch);
    held(&scratch, &["pool", "scrub", "--wait"]);
    let quiet = scrub(&scratch);
    assert_eq!((&quiet["running"], &quiet["left_bytes"]), (&false.into(), &0.into()), "{quiet}");
    assert!(quiet["ended"].as_u64() >= quiet["began"].as_u64(), "{quiet}");
    // Two copies of 48 MiB; the other volume has no block yet.
    assert_eq!(quiet["read_bytes"], 96 << 20, "{quiet}");
    server.stop();
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(scratch.join("d0.img")).expect("it is there");
    let is_data = |at: &u64| {
        let mut bytes = [0; 4_096];
        file.read_exact_at(&mut bytes, *at).expect("within the disk");
        bytes.iter().all(|byte| *byte == 7)
    };
    let blocks = file.metadata().expect("a file").len() >> 20;
    let at = (0..blocks).map(|block| block << 20).find(is_data).expect("it has a copy");
    file.write_all_at(&[8], at).expect("written");
    let server = Server::unix(scratch.path(), "plan.toml");
    let ran = spindle(scratch.path(), &["pool", "scrub", "--wait", "--json"]);
    assert_eq!(ran.code, Some(1), "what differs fails: {ran:?}");
    let found = scrub(&scratch);
    assert_eq!((&found["differing"], &found["lost"]), (&1.into(), &0.into()), "{found}");
    let text = held(&scratch, &["pool", "status"]).stdout;
    assert!(text.contains("scrub: 1 blocks have copies that differ"), "{text}");
    let api = api::Client::new(&scratch.join("spindle-api.sock"));
    let metrics = api.metrics().expect("an answer");
    let metric = metrics.lines().find(|line| line.starts_with("spindle_pool_scrub_differing{"));
    assert!(metric.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    let ran = server.stop();
    assert!(ran.stderr.contains("pool: scrub: volume a, 1MiB from "), "{ran:?}");
    assert!(ran.stderr.contains("of 1 the copies differ"), "{ran:?}");
}

#[test]
fn a_scrub_goes_on_after_a_restart_until_it_is_stopped() {
    let scratch = Scratch::new();
    // So slow that it does not end before it is stopped.
    let slow = config("", Buffers::Drive)
        .replace("48MiB", "1GiB")
        .replace("rebuild =", "scrub = { reserve = \"1%\", limit = \"1%\" }\nrebuild =");
    scratch.write("plan.toml", slow);
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    refused(&scratch, &["pool", "scrub", "--stop"], "not being scrubbed");
    held(&scratch, &["pool", "scrub"]);
    refused(&scratch, &["pool", "scrub"], "being scrubbed already");
    let before = loop {
        let found = scrub(&scratch);
        if found["read_bytes"].as_u64() > Some(0) {
            break found;
        }
    };
    server.stop();
    let server = Server::unix(scratch.path(), "plan.toml");
    let after = scrub(&scratch);
    assert_eq!((&after["running"], &after["began"]), (&true.into(), &before["began"]), "{after}");
    assert!(after["read_bytes"].as_u64() >= before["read_bytes"].as_u64(), "{after}");
    held(&scratch, &["pool", "scrub", "--stop"]);
    let stopped = scrub(&scratch);
    assert_eq!((&stopped["running"], &stopped["stopped"]), (&false.into(), &true.into()));
    assert!(stopped["left_bytes"].as_u64() > Some(0), "{stopped}");
    server.stop();
}

/// The default number of kills; `make soak` has more.
fn kills() -> u64 {
    let asked = std::env::var("SPINDLE_KILLS").ok();
    asked.map_or(4, |asked| asked.parse().expect("SPINDLE_KILLS is a number"))
}

#[test]
fn a_daemon_killed_amid_writes_and_lost_disks_keeps_flushed_data() {
    killed(Buffers::Drive);
}

/// The next daemon writes to each disk what was in its memory.
#[test]
fn a_daemon_killed_with_write_buffers_amid_writes_and_lost_disks_keeps_flushed_data() {
    killed(Buffers::Host);
}

fn killed(buffers: Buffers) {
    let scratch = created(None, buffers);
    for round in 0..kills() {
        let byte = round % 250 + 1;
        let lost = round % 3;
        let (file, away) = (scratch.join(&format!("d{lost}.img")), scratch.join("away.img"));
        let is_without = round % 2 == 1;
        if is_without {
            std::fs::rename(&file, &away).expect("renamed");
        }
        let server = Server::unix(scratch.path(), "plan.toml");
        if !is_without {
            // Another loss before that could take the only copy of what the last one missed.
            wait_until_equal(&scratch);
        }
        if round > 0 {
            pattern(&server, "a", &format!("read -P {round} 40M 4M"), &scratch);
        }
        let mut fio = verifying_loops(&server, "b", 50, &scratch);
        pattern(&server, "a", &format!("write -f -P {byte} 40M 4M"), &scratch);
        server.signal(Signal::KILL);
        server.ended();
        fio.wait().expect("a child");
        if is_without {
            std::fs::rename(&away, &file).expect("renamed");
        }
    }
    let server = Server::unix(scratch.path(), "plan.toml");
    wait_until_equal(&scratch);
    let reads = format!("read -P {} 40M 4M", (kills() - 1) % 250 + 1);
    pattern(&server, "a", &reads, &scratch);
    server.stop();
    held(&scratch, &["pool", "fsck", "--config", "plan.toml"]);
    each_may_be_missing(&scratch, &["d0", "d1", "d2"], &[("a", &reads)]);
}
