//! From nothing to a served volume: `init`, `check` and `doctor`.

use std::fs;

use testkit::{Scratch, Server, config, spindle, succeed};

#[test]
fn a_new_config_on_a_file_is_right_and_is_served_at_once() {
    let scratch = Scratch::new();
    let made = ["init", "--yes", "--size", "2GiB", "--listen", "unix:nbd.sock", "--json"];
    let made = spindle(scratch.path(), &made).json();
    assert_eq!(made["volumes"], serde_json::json!(["vm1"]));
    assert_eq!(made["serve"], "spindle serve spindle.toml");
    let checked = spindle(scratch.path(), &["check", "spindle.toml", "--json"]).json();
    assert_eq!(checked["ok"], true, "{checked}");
    assert_eq!(checked["disks"][0]["reserved"], "30%");
    let server = Server::start(scratch.path(), "spindle.toml", &[]);
    let info = succeed("nbdinfo", &["--size", &server.uri("vm1")], scratch.path());
    assert_eq!(info.trim(), "1073741824");
}

#[test]
fn a_new_config_on_an_emulated_drive_is_right() {
    let scratch = Scratch::new();
    let made = spindle(scratch.path(), &["init", "new.toml", "--emulate", "hgst-7k8"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(made.stdout, "spindle serve new.toml\n");
    assert_eq!(spindle(scratch.path(), &["check", "new.toml"]).code, Some(0));
}

#[test]
fn init_keeps_a_file_that_exists_and_its_size() {
    let scratch = Scratch::new();
    succeed("truncate", &["--size", "2GiB", "disk0.img"], scratch.path());
    let refused = spindle(scratch.path(), &["init", "--yes", "--size", "4GiB"]);
    assert!(refused.refusal().contains("disk0.img: found 2GiB, expected 4GiB"), "{refused:?}");
    assert_eq!(scratch.names(), ["disk0.img"], "no config was written");
    let made = spindle(scratch.path(), &["init", "--yes"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let checked = spindle(scratch.path(), &["check", "spindle.toml", "--json"]).json();
    assert_eq!(checked["ok"], true, "{checked}");
    let length = fs::metadata(scratch.path().join("disk0.img")).expect("it is kept").len();
    assert_eq!(length, 2 << 30);
}

#[test]
fn init_replaces_nothing_and_takes_no_device_that_is_used() {
    let scratch = Scratch::new();
    scratch.write("spindle.toml", "# mine\n");
    let refused = spindle(scratch.path(), &["init", "--yes"]);
    assert!(refused.refusal().contains("exists already"), "{refused:?}");
    assert_eq!(fs::read_to_string(scratch.path().join("spindle.toml")).expect("mine"), "# mine\n");
    assert_eq!(scratch.names(), ["spindle.toml"], "no file was created beside it");
    let refused = spindle(scratch.path(), &["init", "a.toml", "--disk", "/dev/no-such-disk"]);
    assert!(refused.refusal().contains("/dev/no-such-disk"), "{refused:?}");
    let refused = spindle(scratch.path(), &["init", "a.toml", "--emulate", "hgst-7k9"]);
    assert!(refused.refusal().contains("hgst-7k9"), "{refused:?}");
    assert_eq!(scratch.names(), ["spindle.toml"]);
}

#[test]
fn check_says_everything_that_is_wrong() {
    let scratch = Scratch::new();
    let text = config("disk.img").replace("reserve = \"30%\"", "reserve = \"90%\"\ncolour = 1");
    let file = scratch.write("plan.toml", text);
    let ran = spindle(scratch.path(), &["check", &file]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "two errors and their number: {lines:?}");
    assert!(lines[0].contains("field `reserve`") && lines[1].contains("field `colour`"));
    assert_eq!(lines[2], "spindle: plan.toml: 2 errors");
    let ran = spindle(scratch.path(), &["check", &file, "--json"]);
    assert_eq!(ran.code, Some(2));
    let checked: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(checked["errors"][0]["refused"], true, "{checked}");
    assert_eq!(checked["errors"][1]["field"], "colour");
}

#[test]
fn check_shows_when_each_disk_keeps_a_stream_in_parts() {
    let scratch = Scratch::new();
    let disk = |name| format!("[[disk]]\nname = \"{name}\"\ndrive = \"atlas-ii\"\n");
    let film = "[pool]\ndisks = [\"d0\", \"d1\"]\n[[pool.volume]]\nname = \"film\"\nsize = \
                \"30MiB\"\nstream = { bandwidth = \"1MiB/s\", block = \"1MiB\", order = \
                \"sequential\", span = [\"0s\", \"1h\"], parts = [\"20MiB\", \"10MiB\"] }\n";
    let file = scratch.write("plan.toml", format!("{}{}{film}", disk("d0"), disk("d1")));
    let ran = spindle(scratch.path(), &["check", &file]);
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let shown = [
        vec!["stream", "disk", "part", "from", "s", "until", "s"],
        vec!["film", "d0", "20MiB", "0.000", "27.000"],
        vec!["film", "d1", "10MiB", "16.000", "37.000"],
    ];
    assert!(lines.ends_with(&shown), "{ran:?}");
    let checked = spindle(scratch.path(), &["check", &file, "--json"]).json();
    assert_eq!(checked["stream_parts"][1]["from_s"], 16.0, "{checked}");
    let server = Server::unix(scratch.path(), "plan.toml");
    let listed = spindle(scratch.path(), &["vol", "ls"]);
    assert!(listed.stdout.contains("  d0 0-27 s, d1 16-37 s"), "{listed:?}");
    server.stop();
}

#[test]
fn doctor_judges_the_machine_and_the_real_disks_of_a_config() {
    let scratch = Scratch::new();
    succeed("truncate", &["--size", "1GiB", "disk.img"], scratch.path());
    let file = scratch.write("plan.toml", "[[disk]]\nname = \"d0\"\npath = \"disk.img\"\n");
    let found = spindle(scratch.path(), &["doctor", &file, "--json"]).json();
    let findings = found["findings"].as_array().expect("a list");
    let topics: Vec<_> = findings
        .iter()
        .map(|finding| [&finding["subject"], &finding["topic"]].map(|text| text.as_str().unwrap()))
        .collect();
    for topic in [["machine", "io_uring"], ["machine", "open files"], ["d0", "use"]] {
        assert!(topics.contains(&topic), "{topics:?}");
    }
    let missing = scratch.write("bad.toml", "[[disk]]\nname = \"d0\"\n");
    let refused = spindle(scratch.path(), &["doctor", &missing]);
    assert!(refused.refusal().contains("field `drive`"), "{refused:?}");
}

#[test]
fn check_counts_what_a_pool_has_of_its_disks_and_warns_of_copies_in_one_domain() {
    let scratch = Scratch::new();
    let disk = |name: &str, domain: &str| {
        format!("[[disk]]\nname = \"{name}\"\ndrive = \"atlas-ii\"\ndomain = \"{domain}\"\n")
    };
    let pool = "[pool]\ndisks = [\"d0\", \"d1\"]\nmetadata_share = \"1%\"\n\
                relocation_share = \"5%\"\n[[pool.volume]]\nname = \"m\"\nsize = \"30MiB\"\n\
                layout = \"mirror\"\nreserve = \"20%\"\n";
    let plan = |other| format!("{}{}{pool}", disk("d0", "shelf"), disk("d1", other));
    let file = scratch.write("plan.toml", plan("other"));
    let checked = spindle(scratch.path(), &["check", &file, "--json"]).json();
    for disk in checked["disks"].as_array().expect("a list") {
        assert_eq!((&disk["volumes"], &disk["reserved"]), (&1.into(), &"26%".into()), "{checked}");
    }
    assert!(checked.get("warnings").is_none(), "{checked}");
    // A pool that is there is served, so that it is no error.
    scratch.write("plan.toml", plan("shelf"));
    let ran = spindle(scratch.path(), &["check", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("warning: line ") && ran.stderr.contains("\"m\""), "{ran:?}");
    let checked = spindle(scratch.path(), &["check", &file, "--json"]).json();
    assert_eq!(checked["warnings"].as_array().expect("a list").len(), 1, "{checked}");
}
