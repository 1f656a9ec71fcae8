//! `spindle-lab validate` and `spindle-lab plot` as a script sees them.

use std::path::Path;

use serde_json::Value;
use testkit::{Ran, Scratch, lab, spindle};

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

const TRACE: &str = "R Hit 0 8 1500.0 20000.0
R Hit 8 8 900.0 20000.0
W Hit 9000 4 12000.0 100.0
";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let files = [
        ("x.diskspecs", DISKSPECS),
        ("x.model", MODEL),
        ("x.seek", "1, 1.0\n99, 9.0\n"),
        ("x.trace", TRACE),
    ];
    for (name, text) in files {
        scratch.write(name, text);
    }
    scratch
}

/// Runs it; it succeeds.
fn succeed(directory: &Path, arguments: &[&str]) -> Ran {
    let ran = lab(directory, arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn json(ran: &Ran) -> Value {
    let value = ran.json();
    assert_eq!(value["schema"], 1);
    value
}

fn assert_svg(scratch: &Scratch, name: &str) -> String {
    let svg = std::fs::read_to_string(scratch.join("out").join(name)).expect(name);
    assert!(svg.starts_with("<svg"), "{name}");
    svg
}

#[test]
fn an_imported_drive_is_as_far_from_a_trace_as_what_it_was_imported_from() {
    let scratch = scratch();
    let import = ["drive", "import", "x.diskspecs", "--out", "x.toml"];
    assert_eq!(spindle(scratch.path(), &import).code, Some(0));
    let validate = |drive| {
        let args = ["validate", drive, "--trace", "x.trace", "--json"];
        let mut told = json(&succeed(scratch.path(), &args));
        told["drive"] = Value::Null;
        told
    };
    let (imported, file) = (validate("x.diskspecs"), validate("./x.toml"));
    assert_eq!(imported, file);
    assert_eq!(imported["all"]["requests"], 3);
    assert_eq!(imported["reads"]["measured_mean_ms"], 1.2);
    assert_eq!(imported["writes"]["requests"], 1);
    assert_eq!(imported["classes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn figures_go_where_they_are_told_to() {
    let scratch = scratch();
    let args = ["validate", "x.diskspecs", "--trace", "x.trace", "--out", "out"];
    let validated = succeed(scratch.path(), &args);
    assert!(validated.stdout.contains("demerit ms"), "{}", validated.stdout);
    let plot = ["plot", "drive", "x.diskspecs", "--out", "out", "--json"];
    let drawn = json(&succeed(scratch.path(), &plot));
    assert_eq!(drawn["files"].as_array().map(Vec::len), Some(3));
    for name in ["x-validate.svg", "x-seek.svg", "x-zones.svg", "x-surface.svg"] {
        assert_svg(&scratch, name);
    }
}

#[test]
fn the_latency_of_a_flash_drive_is_drawn_against_the_depth() {
    let scratch = Scratch::new();
    succeed(scratch.path(), &["plot", "drive", "samsung-870evo-1t", "--out", "out"]);
    assert_svg(&scratch, "samsung-870evo-1t-latency.svg");
}

#[test]
fn a_measured_profile_is_drawn() {
    let scratch = Scratch::new();
    let profile = ["profile", "--simulated", "samsung-870evo-1t", "--quick", "-o", "p.toml"];
    let ran = spindle(scratch.path(), &profile);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    succeed(scratch.path(), &["plot", "profile", "p.toml", "--out", "out"]);
    assert!(assert_svg(&scratch, "p-rates.svg").contains("random reads against depth"));
}

#[test]
fn the_demos_table_is_drawn() {
    let scratch = Scratch::new();
    scratch.write("demo.csv", "time_s,seq_s,seq_reserved_s\n0,0,0\n1,0.71,0.7\n");
    succeed(scratch.path(), &["plot", "demo", "demo.csv", "--out", "out"]);
    assert!(assert_svg(&scratch, "demo.svg").contains("seq, reserved"));
    scratch.write("demo.csv", "time_s,seq_s\n0\n");
    let refused = lab(scratch.path(), &["plot", "demo", "demo.csv"]);
    assert!(refused.refusal().starts_with("spindle-lab: demo.csv: line 2: "), "{refused:?}");
}

#[test]
fn a_trace_past_the_end_of_the_disk_is_refused_with_its_line() {
    let scratch = scratch();
    scratch.write("x.trace", "R Hit 0 8 1500.0 0\nR Hit 9996 8 1500.0 0\n");
    let past = lab(scratch.path(), &["validate", "x.diskspecs", "--trace", "x.trace"]);
    let message = "spindle-lab: x.trace:2: found 8 sectors at 9996";
    assert!(past.refusal().starts_with(message), "{past:?}");
}

#[test]
fn where_an_arm_is_needed_a_flash_drive_is_refused_by_its_name() {
    let scratch = Scratch::new();
    scratch.write("x.trace", "");
    let ran = lab(scratch.path(), &["validate", "samsung-870evo-1t", "--trace", "x.trace"]);
    let message = "samsung-870evo-1t: is a flash drive, expected a mechanical one";
    assert!(ran.refusal().contains(message), "{ran:?}");
}
