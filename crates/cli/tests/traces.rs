//! `spindle trace`, and traces in scenarios.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use testkit::{Ran, Scratch, spindle};

/// Requests to two devices, the last of them past a volume of 1 MiB.
const TRACE: &str = "spindle trace 1\n0 R 0 8 0\n1000000 W+ 8 16 0 2000000\n2000000 F 0 0 \
                     0\n3000000 R 100 4 1\n\
                     4000000 T 0 8 0\n5000000 R 2040 16 0 4000000\n";
const PLAN: &str = "duration = \"1s\"\n[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n\
                    [[volume]]\nname = \"a\"\ndisk = \"d0\"\nsize = \"1MiB\"\n\
                    [[workload]]\nvolume = \"a\"\naccess = \"trace\"\nfile = \"t.trace\"\n";

fn run(scratch: &Scratch, args: &[&str]) -> Ran {
    spindle(scratch.path(), args)
}

fn numbers<const N: usize>(of: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| of[name].as_u64().unwrap_or_else(|| panic!("no {name} in {of}")))
}

#[test]
fn a_trace_is_counted() {
    let scratch = Scratch::new();
    scratch.write("t.trace", TRACE);
    let ran = run(&scratch, &["trace", "stat", "t.trace", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    assert_eq!(
        numbers(&told, ["schema", "requests", "reads", "writes", "flushes", "trims"]),
        [1, 6, 3, 1, 1, 1]
    );
    assert_eq!(numbers(&told, ["bytes", "bytes_read", "bytes_written"]), [22_528, 14_336, 8_192]);
    assert_eq!((&told["format"], &told["duration_s"]), (&"spindle".into(), &0.005.into()));
    assert_eq!((&told["interarrival_ms"], &told["response_ms_mean"]), (&1.0.into(), &3.0.into()));
    let devices = told["devices"].as_array().expect("a list");
    let device = |index: usize| {
        numbers(&devices[index], ["device", "requests", "bytes", "first_sector", "end_sector"])
    };
    assert_eq!([device(0), device(1)], [[0, 5, 20_480, 0, 2_056], [1, 1, 2_048, 100, 104]]);
    let words = run(&scratch, &["trace", "stat", "t.trace"]);
    assert!(
        words.stdout.contains("requests  6: 3 reads, 1 writes, 1 flushes, 1 trims"),
        "{words:?}"
    );
}

#[test]
fn a_trace_is_converted_to_another_format_and_back() {
    let scratch = Scratch::new();
    scratch.write("t.trace", TRACE);
    let convert = ["trace", "convert", "t.trace", "out", "--to"];
    let with = |more: &[&str]| run(&scratch, &[&convert[..], more].concat());
    let out = || std::fs::read_to_string(scratch.join("out")).expect("it was written");

    let ran = with(&["disksim-ascii", "--device", "0", "--scale-time", "0.5", "--json"]);
    assert_eq!(numbers(&ran.json(), ["requests", "left_out", "fua_left_out"]), [3, 2, 1]);
    assert_eq!(out(), "0.000000 0 0 8 1\n0.500000 0 8 16 0\n2.500000 0 2040 16 1\n");
    assert!(ran.stderr.contains("1 requests to other devices"), "{ran:?}");

    let ran = with(&["fio-v2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(out().starts_with("fio version 2 iolog\n/dev/spindle0 add\n"), "{}", out());
    assert!(
        out().contains("/dev/spindle0 wait 1000 0\n/dev/spindle0 write 4096 8192\n"),
        "{}",
        out()
    );

    assert_eq!(with(&["spindle"]).code, Some(0));
    assert_eq!(out(), TRACE, "our own format says all of it");
    assert_eq!(scratch.names(), ["out", "t.trace"]);
}

#[test]
fn a_conversion_that_is_refused_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch.write("t.trace", format!("{TRACE}4 R 0 8 0\n"));
    let ran = run(&scratch, &["trace", "convert", "t.trace", "out", "--to", "spindle"]);
    let said = "spindle: t.trace:8: found a time of 4ns after one of 5ms, expected times that do \
                not go back";
    assert_eq!(ran.refusal(), said);
    assert_eq!(scratch.names(), ["t.trace"]);
    let ran = run(&scratch, &["trace", "convert", "t.trace", "./t.trace", "--to", "spindle"]);
    assert_eq!(ran.refusal(), "spindle: ./t.trace: found the trace itself, expected another file");
}

#[test]
fn a_truncated_last_record_is_counted_if_requested() {
    let scratch = Scratch::new();
    scratch.write("t.trace", format!("{TRACE}9000000 R 0"));
    let said = run(&scratch, &["trace", "stat", "t.trace", "--json"]).refusal().to_owned();
    assert!(
        said.starts_with("spindle: t.trace:8: found `9000000 R 0`, where the file ends"),
        "{said}"
    );
    let ran = run(&scratch, &["trace", "stat", "t.trace", "--json", "--lenient"]);
    assert_eq!(numbers(&ran.json(), ["requests"]), [6]);
    assert_eq!(ran.json()["tally"]["truncated"], 1);
    assert_eq!(ran.stderr, "1 last record cut short, passed over\n");
}

#[test]
fn a_request_past_the_end_of_the_disk_is_refused_if_its_size_is_given() {
    let scratch = Scratch::new();
    scratch.write("t.trace", TRACE);
    let ran = run(&scratch, &["trace", "stat", "t.trace", "--capacity", "1MiB"]);
    let said = "spindle: t.trace:7: found a read of sectors 2040+16, expected a disk of 2048 \
                sectors to hold them";
    assert_eq!(ran.refusal(), said);
}

#[test]
fn a_replay_ends_where_a_request_passes_the_end_of_its_volume() {
    let scratch = Scratch::new();
    scratch.write("t.trace", TRACE);
    scratch.write("plan.toml", PLAN);
    let ran = run(&scratch, &["sim", "run", "plan.toml", "--json"]);
    let said = "spindle: t.trace:7: found a read of sectors 2040+16, expected a disk of 2048 \
                sectors to hold them";
    assert_eq!(ran.refusal(), said);
}

#[test]
fn a_replay_reports_the_requests_of_the_trace() {
    let scratch = Scratch::new();
    scratch.write("t.trace", TRACE);
    scratch.write("plan.toml", format!("{PLAN}remap = \"modulo\"\nscale = 100\n"));
    let ran = run(&scratch, &["sim", "run", "plan.toml", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    assert_eq!(numbers(&told["volumes"][0], ["requests", "bytes", "dropped"]), [6, 22_528, 0]);
    let traced = &told["traces"][0];
    assert_eq!((&traced["sent"], &traced["whole"]), (&6.into(), &true.into()));
}

#[test]
fn a_week_of_a_workstation_replays_whole() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces/ajw.1week.srt");
    let Ok(file) = file.canonicalize() else {
        // Directly to standard error: the test harness hides the output of tests that pass.
        let missing = file.display();
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no {missing}: the replay of a week was NOT tested"
        );
        return;
    };
    let file = file.to_str().expect("a plain name");
    let scratch = Scratch::new();
    let told = run(&scratch, &["trace", "stat", file, "--json"]).json();
    assert_eq!(numbers(&told, ["requests", "reads", "bytes"]), [44_519, 13_040, 263_305_216]);
    assert_eq!(told["tally"]["widened"], 0, "every request is of whole sectors");
    let of_unit = |unit| {
        format!(
            "[[volume]]\nname = \"unit{unit}\"\ndisk = \"d0\"\nsize = \"320MiB\"\n[[workload]]\n\
             volume = \"unit{unit}\"\naccess = \"trace\"\ndevice = {unit}\nfile = \"{file}\"\n"
        )
    };
    let head = "duration = \"168h\"\n[[disk]]\nname = \"d0\"\ndrive = \"deskstar-34gxp\"\n";
    let plan = [head, &of_unit(0), &of_unit(1)].concat();
    scratch.write("plan.toml", plan);
    let replayed = run(&scratch, &["sim", "run", "plan.toml", "--json"]).json();
    for unit in [0, 1] {
        let (device, volume) = (&told["devices"][unit], &replayed["volumes"][unit]);
        let names = ["requests", "bytes"];
        assert_eq!(numbers(device, names), numbers(volume, names), "unit {unit}");
        assert_eq!(
            (&volume["dropped"], &replayed["traces"][unit]["whole"]),
            (&0.into(), &true.into())
        );
    }
    let requests: u64 =
        [0, 1].map(|unit| numbers(&replayed["volumes"][unit], ["requests"])[0]).iter().sum();
    assert_eq!(requests, 44_519);
}
