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
