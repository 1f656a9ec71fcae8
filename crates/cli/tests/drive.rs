//! `spindle drive` as a script sees it: exit codes, the message of a refusal, `--json`, and its
//! files.

use std::path::Path;

use serde_json::Value;
use testkit::{Ran, Scratch, spindle};

const DISKSPECS: &str = "disksim_disk SMALL {
  Model = source x.model,
  Bulk sector transfer time = 0.1,
  Number of buffer segments = 3,
  Segment size (in blks) = 64,
  Read miss over. after read = 0.3,
  Write miss over. after read = 0.9
}
";

const MODEL: &str = "dm_disk SMALL_model {
  Number of data surfaces = 2,
  Number of cylinders = 100,
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 0,
    Sparing scheme used = 0,
    Zones = [
      dm_layout_g1_zone {
        First cylinder number = 0,
        Last cylinder number = 99,
        Blocks per track = 50
      }
    ]
  },
  Mechanical Model = dm_mech_g1 {
    Seek type = extracted,
    Full seek curve = x.seek,
    Head switch time = 0.8,
    Rotation speed (in rpms) = 6000
  }
}
";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let files = [("x.diskspecs", DISKSPECS), ("x.model", MODEL), ("x.seek", "1, 1.0\n99, 9.0\n")];
    for (name, text) in files {
        scratch.write(name, text);
    }
    scratch
}

/// Runs it; it succeeds.
fn succeed(directory: &Path, arguments: &[&str]) -> Ran {
    let ran = spindle(directory, arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn json(ran: &Ran) -> Value {
    let value = ran.json();
    assert_eq!(value["schema"], 1);
    value
}

#[test]
fn an_imported_drive_is_a_drive_file_that_does_the_same() {
    let scratch = scratch();
    let imported = json(&succeed(
        scratch.path(),
        &["drive", "import", "x.diskspecs", "--out", "x.toml", "--json"],
    ));
    assert_eq!(
        (imported["sectors"].as_u64(), imported["file"].as_str()),
        (Some(10_000), Some("x.toml"))
    );
    let printed = succeed(scratch.path(), &["drive", "import", "x.diskspecs"]);
    let written = std::fs::read_to_string(scratch.join("x.toml")).expect("it was written");
    assert_eq!(printed.stdout, written);
    let show = |drive| {
        let mut shown = json(&succeed(scratch.path(), &["drive", "show", drive, "--json"]));
        shown["name"] = Value::Null;
        shown
    };
    assert_eq!(show("x.diskspecs"), show("./x.toml"));
}

#[test]
fn an_imported_drive_is_given_a_queue_on_request() {
    let scratch = scratch();
    let import = |args: &[&str]| {
        let all = [&["drive", "import", "x.diskspecs"], args].concat();
        spindle(scratch.path(), &all)
    };
    let ran = import(&["--queue", "16"]);
    let lines =
        ["queue_depth_max = 16", "order = \"shortest-positioning\"", "decision_latency = \"0s\""];
    assert!(lines.iter().all(|line| ran.stdout.contains(line)), "{}", ran.stdout);
    assert!(!import(&[]).stdout.contains("[queue]"));
    assert_eq!(import(&["--queue", "0"]).code, Some(2));
}

#[test]
fn a_drive_is_shown_with_its_zones_and_its_service_times() {
    let scratch = scratch();
    let shown = json(&succeed(scratch.path(), &["drive", "show", "x.diskspecs", "--json"]));
    assert_eq!(shown["zone_rates"][0]["sectors_per_track"], 50);
    assert_eq!(shown["full_stroke_ms"], 9.0);
    let times = &shown["service_times"];
    let columns = |key: &str| times[key].as_array().map(Vec::len);
    assert_eq!(columns("distance_cylinders"), columns("service_ms"));
    assert_eq!(times["service_ms"][0].as_array().map(Vec::len), columns("offset_turns"));
}

/// A read completes when its sector has passed the head: the rotational offset after the read
/// arrived, plus whole revolutions.
#[test]
fn service_times_are_rotational_offset_plus_missed_revolutions() {
    let shown = json(&succeed(Scratch::new().path(), &["drive", "show", "hgst-7k8", "--json"]));
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().expect("a list").iter().map(|n| n.as_f64().expect("a number")).collect()
    };
    let rotation = 60e3 / shown["rpm"].as_f64().expect("a number");
    let times = &shown["service_times"];
    let offsets = numbers(&times["offset_turns"]);
    let mut last = 0.0;
    for column in times["service_ms"].as_array().expect("a list") {
        let column = numbers(column);
        let revolutions: Vec<f64> =
            column.iter().zip(&offsets).map(|(time, offset)| time / rotation - offset).collect();
        for more in revolutions.iter().map(|each| each - revolutions[0]) {
            assert!((more - more.round()).abs() < 1e-3, "{more} revolutions");
        }
        // One revolution covers every offset; a longer seek never completes earlier.
        let least = column.iter().copied().fold(f64::INFINITY, f64::min);
        let most = column.iter().copied().fold(0.0, f64::max);
        assert!(most - least <= rotation && least >= last - rotation / 50.0, "{least} to {most}");
        last = least;
    }
}

#[test]
fn the_library_is_listed() {
    let listed = json(&succeed(Scratch::new().path(), &["drive", "ls", "--json"]));
    let drives = listed["drives"].as_array().expect("a list");
    assert_eq!(drives.len(), drive_library::names().count());
    let named = |name: &str| drives.iter().any(|drive| drive["name"] == name);
    for name in
        ["atlas10k", "barracuda-st32171w", "cheetah9LP", "hp_c2247a", "hp_c3323a", "atlas-ii"]
    {
        assert!(named(name), "{name}");
    }
    for drive in drives {
        let name = drive["name"].as_str().expect("a name");
        let rates: &[&str] = match drive["kind"].as_str() {
            Some("mechanical") => &["outer_bytes_per_s", "inner_bytes_per_s"],
            Some("flash") => &["read_bytes_per_s", "write_bytes_per_s", "flush_ms"],
            kind => panic!("{name}: {kind:?}"),
        };
        for key in ["bytes", "random_read_4k_ms"].iter().chain(rates) {
            assert!(drive[key].as_f64().is_some_and(|number| number > 0.0), "{name}: {key}");
        }
    }
}

#[test]
fn an_error_is_one_line_with_its_location() {
    let scratch = scratch();
    let spindle = |args: &[&str]| spindle(scratch.path(), args);
    let unknown = spindle(&["drive", "show", "no-such-drive"]);
    assert!(unknown.refusal().contains("no drive `no-such-drive`: expected one of"), "{unknown:?}");
    let missing = spindle(&["drive", "import", "y.parv"]);
    assert!(missing.refusal().starts_with("spindle: y.parv:1: field `source`"), "{missing:?}");
    scratch.write("x.seek", "1, 1.0\n99, fast\n");
    let unread = spindle(&["drive", "import", "x.diskspecs"]);
    assert!(unread.refusal().starts_with("spindle: x.seek:2: field `time`"), "{unread:?}");
    scratch.write("x.seek", "1, 1.0\n99, 9.0\n");
}
