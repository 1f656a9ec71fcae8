//! Streams with deadlines from the command line: the recorder's example, simulated and served, and
//! the replies of admission.

use nbd::client::Client;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Scratch, Server, spindle};
use units::{Extent, Lba, Operation, Sectors};

const EXAMPLE: &str = include_str!("../../../examples/recorder.toml");

/// Runs a command that succeeds, and returns its output.
fn done(scratch: &Scratch, arguments: &[&str]) -> String {
    let ran = spindle(scratch.path(), arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_recorder_misses_no_deadline_in_simulation_and_the_same_file_is_served() {
    let scratch = Scratch::new();
    let file = scratch.write("recorder.toml", EXAMPLE);
    let report = json(&done(&scratch, &["sim", "run", &file, "--json"]));
    let volumes = report["volumes"].as_array().expect("a list");
    assert_eq!(volumes.len(), 19);
    for volume in volumes {
        assert_eq!(volume["deadline_misses"], 0, "{}", volume["name"]);
        assert!(volume["requests"].as_u64() > Some(80), "{volume}");
    }
    let server = Server::unix(scratch.path(), &file);
    let shown = done(&scratch, &["vol", "show", "cam07", "--json"]);
    assert_eq!(json(&shown)["volume"]["stream"]["block"], "1MB");
    drop(server);
}

#[test]
fn admission_reports_the_remaining_slack_and_why_a_stream_does_not_fit() {
    let scratch = Scratch::new();
    let file = scratch.write("recorder.toml", EXAMPLE);
    let _server = Server::unix(scratch.path(), &file);
    let admit = ["admit", "--dry-run", "--disk", "d0", "--size", "40GiB", "--block", "1MB"];
    let ask = |bandwidth: &str| {
        spindle(scratch.path(), &[&admit[..], &["--bandwidth", bandwidth]].concat())
    };
    let fits = ask("1.45MB/s");
    assert_eq!(fits.code, Some(0), "{fits:?}");
    assert!(fits.stdout.starts_with("it fits\ndisk \"d0\" would have 19 tasks with "), "{fits:?}");
    let refused = ask("4MB/s");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let why = "of the disk's time would be asked for; ";
    assert!(
        refused.stdout.contains(why) && refused.stdout.contains("MB/s would fit"),
        "{refused:?}"
    );
    let nothing = ask("0B/s");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), ""));
    let create = ["vol", "create", "cam17", "--disk", "d0", "--size", "40GiB", "--block", "1MB"];
    done(&scratch, &[&create[..], &["--bandwidth", "1.45MB/s"]].concat());
    assert_eq!(ask("1.45MB/s").code, Some(1), "there was room for one");
    done(&scratch, &["vol", "set", "cam17", "--no-stream"]);
    assert_eq!(ask("1.45MB/s").code, Some(0), "it is free again");
}

#[test]
fn a_policy_without_the_recorder_and_a_stream_without_blocks_are_bad_usage() {
    let scratch = Scratch::new();
    for arguments in [
        &["demo", "--policy", "fcfs"][..],
        &["admit", "--dry-run", "--disk", "d0", "--size", "1GiB", "--bandwidth", "1MB/s"],
    ] {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
    }
}

/// A stream whose blocks never leave enough slack for a longer read.
const TIGHT: &str = r#"
[[disk]]
name = "d0"
drive = "st318437lw"
policy = "delta-star"

[[volume]]
name = "film"
disk = "d0"
size = "64MiB"
stream = { bandwidth = "1MB/s", block = "64KiB" }

[[volume]]
name = "rest"
disk = "d0"
size = "64MiB"
"#;

#[test]
fn a_daemon_warns_that_best_effort_may_starve_and_still_stops_on_a_signal() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", TIGHT));
    let address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go("rest").expect("it is served");
    client.send(1, Operation::read(Extent::new(Lba(0), Sectors(512))), &[]).expect("it is sent");
    // Waits until the disk's thread has the request, which another volume's reply would not show.
    let waits =
        || json(&done(&scratch, &["vol", "show", "rest", "--json"]))["volume"]["in_flight"] == 1;
    while !waits() {}
    server.signal(Signal::TERM);
    let answer = client.receive().expect("what was sent is answered").result.expect("it is read");
    assert_eq!(answer.len(), 512 * 512);
    let ran = server.ended();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("disk d0: its streams leave "), "{ran:?}");
}

/// A stream of 100 kB/s, of which a client asks for more.
const BEYOND: &str = r#"
[[disk]]
name = "d0"
drive = "hgst-7k8"

[[volume]]
name = "cam"
disk = "d0"
size = "64MiB"
stream = { bandwidth = "100KB/s", block = "64KiB" }
"#;

#[test]
fn bytes_that_are_not_real_time_are_listed_and_the_daemon_warns_of_them() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", BEYOND));
    let address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go("cam").expect("it is served");
    for cookie in 0..8 {
        let read = Operation::read(Extent::new(Lba(cookie * 128), Sectors(128)));
        client.send(cookie, read, &[]).expect("it is sent");
    }
    for _ in 0..8 {
        client.receive().expect("an answer").result.expect("it is read");
    }
    let table = done(&scratch, &["vol", "ls"]);
    assert!(table.contains("beyond") && table.contains("KiB"), "{table}");
    let shown = done(&scratch, &["vol", "show", "cam"]);
    assert!(shown.contains("bytes: 512KiB in time, 0B late; not real time: "), "{shown}");
    let top = json(&done(&scratch, &["top", "--once", "--interval", "100", "--json"]));
    let cam = &top["volumes"][0];
    assert_eq!((&cam["late_bytes"], &cam["beyond_bytes"]), (&0.into(), &0.into()), "{cam}");
    assert!(cam["closest_ms"].as_f64() > Some(0.0), "{cam}");
    let disks = done(&scratch, &["disk", "ls"]);
    assert!(disks.contains("of 64MiB, 0 hits, 0B dropped"), "{disks}");
    server.signal(Signal::TERM);
    let ran = server.ended();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let warnings: Vec<&str> =
        ran.stderr.lines().filter(|line| line.starts_with("volume cam: ")).collect();
    let [warning] = &warnings[..] else { panic!("one warning: {ran:?}") };
    assert!(warning.contains("has bytes that are not real time: "), "{warning}");
    assert!(warning.contains(" beyond its bandwidth"), "{warning}");
}

#[test]
fn a_simulation_reports_the_bytes_of_a_stream_and_the_closest_call() {
    let scratch = Scratch::new();
    let workload = "\n[[workload]]\nvolume = \"cam\"\naccess = \"sequential\"\nop = \"read\"\n\
                    block = \"4KiB\"\noutstanding = 4\n";
    let file = scratch.write("plan.toml", format!("duration = \"20s\"\n{BEYOND}{workload}"));
    let report = json(&done(&scratch, &["sim", "run", &file, "--json"]));
    let bytes = &report["volumes"][0]["deadlines"]["bytes"];
    assert_eq!(bytes["missed"], 0, "{report}");
    assert!(bytes["met"].as_u64() > Some(0) && bytes["closest_ms"].as_f64() > Some(0.0), "{bytes}");
    assert_eq!(bytes["asked"].as_u64().map(|asked| asked > 0), Some(true), "{bytes}");
}
