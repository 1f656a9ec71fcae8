//! Observation of a running daemon: the slow-request log, `trace live`, flight records and their
//! replay.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nbd::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{Scratch, Server, spindle};
use units::{Extent, Lba, Operation, Sectors};

/// Three disks, with preemptible execution, with deadlines, and with shares of disk time. Some
/// volumes of the first and the last disk have limits.
const PLAN: &str = r#"[[disk]]
name = "cut"
drive = "st318437lw"
execution = "preemptible"

[[disk]]
name = "due"
drive = "st318437lw"
policy = "delta-star"

[[disk]]
name = "shared"
drive = "st318437lw"

[[volume]]
name = "a"
disk = "cut"
size = "64MiB"
reserve = "30%"

[[volume]]
name = "first"
disk = "cut"
size = "64MiB"
priority = "high"
limit = "20%"

[[volume]]
name = "film"
disk = "due"
size = "64MiB"
stream = { bandwidth = "500KB/s", block = "128KiB" }

[[volume]]
name = "rest"
disk = "due"
size = "64MiB"

[[volume]]
name = "b"
disk = "shared"
size = "64MiB"
reserve = "40%"

[[volume]]
name = "c"
disk = "shared"
size = "64MiB"
limit = "15%"
"#;

const VOLUMES: [&str; 6] = ["a", "first", "film", "rest", "b", "c"];

fn open(server: &Server, export: &str) -> Client {
    let address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go(export).expect("it is served");
    client
}

/// Reads at scattered locations of a volume, with `depth` requests in flight.
fn load(server: &Server, export: &str, requests: u64, depth: u64) {
    let mut client = open(server, export);
    let mut next = 0_u64;
    let mut send = |client: &mut Client| {
        let extent = Extent::new(Lba(next * 7_919 % 1_000 * 128), Sectors(8 << (next % 4 * 2)));
        client.send(next, Operation::read(extent), &[]).expect("it is sent");
        next += 1;
    };
    (0..depth).for_each(|_| send(&mut client));
    for done in 0..requests {
        client.receive().expect("an answer").result.expect("it is read");
        if done + depth < requests {
            send(&mut client);
        }
    }
}

fn load_all(server: &Server, requests: u64) {
    std::thread::scope(|scope| {
        for volume in VOLUMES {
            scope.spawn(move || load(server, volume, requests, 4));
        }
    });
}

fn serve(scratch: &Scratch, more: &[&str]) -> Server {
    let socket = format!("unix:{}", scratch.join("nbd.sock").display());
    let config = scratch.write("plan.toml", PLAN);
    Server::start(scratch.path(), &config, &[&["--json", "--listen", &socket], more].concat())
}

/// Checks that the parts of a request's latency add up to it.
fn adds_up(request: &Value) {
    let parts = request["breakdown_ns"].as_object().expect("parts");
    let sum: u64 = parts.values().map(|part| part.as_u64().expect("a number")).sum();
    assert_eq!(Some(sum), request["total_ns"].as_u64(), "{request}");
    let served = request["served"].as_array().expect("a list");
    let served: u64 = served.iter().map(|one| one["ns"].as_u64().expect("a number")).sum();
    assert!(served <= parts["queued_behind"].as_u64().expect("a number"), "{request}");
}

#[test]
fn the_replay_of_a_live_run_with_changes_makes_the_same_decisions() {
    let scratch = Scratch::new();
    let server = serve(&scratch, &["--record", "flight"]);
    load_all(&server, 40);
    for change in [
        &["vol", "set", "b", "--reserve", "20%"][..],
        &["vol", "set", "c", "--limit", "50%"],
        &["vol", "create", "new", "--disk", "due", "--size", "16MiB", "--reserve", "5%"],
        &["disk", "set", "shared", "--period", "500ms"],
        &["vol", "ls"],
    ] {
        let ran = spindle(scratch.path(), change);
        assert_eq!(ran.code, Some(0), "{change:?}: {ran:?}");
    }
    load_all(&server, 40);
    assert_eq!(spindle(scratch.path(), &["vol", "rm", "new"]).code, Some(0));
    server.stop();
    let files: Vec<String> =
        (0..3).map(|disk| format!("flight/run-000001-disk-{disk}.flight")).collect();
    let arguments: Vec<&str> =
        ["sim", "replay", "--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let ran = spindle(scratch.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.json();
    assert_eq!(report["same"], true, "{report}");
    for record in report["records"].as_array().expect("a list") {
        assert_eq!((&record["end"], &record["same"]), (&"closed".into(), &true.into()), "{report}");
        assert!(record["replies"].as_u64().is_some_and(|replies| replies >= 160), "{record}");
    }

    let bytes = std::fs::read(scratch.join(&files[0])).expect("it is there");
    scratch.write("torn.flight", &bytes[..bytes.len() - 100]);
    let torn = spindle(scratch.path(), &["sim", "replay", "--json", "torn.flight"]);
    assert_eq!(
        (torn.code, &torn.json()["records"][0]["end"]),
        (Some(0), &"torn".into()),
        "{torn:?}"
    );
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 4;
    scratch.write("damaged.flight", &damaged);
    let damaged = spindle(scratch.path(), &["sim", "replay", "damaged.flight"]);
    assert_eq!(damaged.code, Some(2), "{damaged:?}");
    assert!(damaged.stderr.contains("damaged in the block at byte"), "{damaged:?}");

    let (header, mut entries) = entries(&bytes);
    let place = entries.iter().rposition(|(_, entry)| issues(entry)).expect("commands");
    let flight::Entry::Decision(flight::Decision::Act(engine::Action::Issue(command))) =
        &mut entries[place].1
    else {
        panic!("it is one");
    };
    command.operation.extent.start = Lba(command.operation.extent.start.0 ^ 1);
    let (mut encoder, mut changed) = flight::Encoder::new(&header);
    for (at, entry) in &entries {
        changed.extend(encoder.put(*at, entry).unwrap_or_default());
    }
    changed.extend(encoder.end());
    scratch.write("changed.flight", changed);
    let changed = spindle(scratch.path(), &["sim", "replay", "--json", "changed.flight"]);
    assert_eq!(changed.code, Some(1), "{changed:?}");
    let difference = &changed.json()["records"][0]["difference"];
    assert_eq!(difference["entry"].as_u64(), Some(place as u64 + 1), "{changed:?}");
}

fn issues(entry: &flight::Entry) -> bool {
    matches!(entry, flight::Entry::Decision(flight::Decision::Act(engine::Action::Issue(_))))
}

fn entries(bytes: &[u8]) -> (flight::Header, Vec<(units::Instant, flight::Entry)>) {
    let mut reader = flight::Reader::new(bytes).expect("a record");
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().expect("it is whole") {
        entries.push(entry);
    }
    (reader.header().clone(), entries)
}

#[test]
fn the_slow_log_has_the_parts_of_each_latency_and_metrics_count_slow_requests() {
    let scratch = Scratch::new();
    let server = serve(&scratch, &["--slow", "1us"]);
    load(&server, "c", 12, 4);
    load(&server, "a", 30, 2);
    let api = api::Client::new(&scratch.join("spindle-api.sock"));
    let metrics = api.metrics().expect("an answer");
    let value = |start: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(start));
        line.unwrap_or_else(|| panic!("no {start}")).trim().parse::<f64>().expect("a number")
    };
    for (labels, count) in
        [("device=\"c\",disk=\"shared\"", 12.0), ("device=\"a\",disk=\"cut\"", 30.0)]
    {
        let counted = value(&format!("spindle_volume_slow_requests_total{{{labels}}} "));
        assert!((counted - count).abs() < 0.5, "{labels}: {counted}");
    }
    let slack = value("spindle_disk_stream_slack_seconds{device=\"due\"} ");
    assert!(slack > 0.0 && slack < 3_600.0, "{slack}");
    assert!(
        !metrics.contains("stream_slack_seconds{device=\"cut\"}"),
        "no deadlines are kept there"
    );
    let ran = server.stop();
    let lines = ran.stderr.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let dropped: u64 = lines.iter().filter_map(|line| line["dropped"].as_u64()).sum();
    let requests: Vec<&Value> = lines.iter().filter(|line| line["dropped"].is_null()).collect();
    assert_eq!(requests.len() as u64 + dropped, 42, "{ran:?}");
    for request in &requests {
        adds_up(request);
    }
    let limited =
        |request: &&&Value| request["volume"] == "c" && request["throttled_by"] == "limit";
    assert!(requests.iter().filter(limited).count() > 0, "{requests:?}");
}

struct Live {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Live {
    /// Starts `spindle trace live`.
    fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(["trace", "live", "--json"]).args(arguments).current_dir(scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[test]
fn a_live_trace_prints_the_requests_of_one_volume_until_the_signal() {
    let scratch = Scratch::new();
    let server = serve(&scratch, &[]);
    let mut live = Live::start(&scratch, &["--volume", "b"]);
    // The load runs until the first line arrives, which shows that the trace is connected.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let lines: Vec<Value> = std::thread::scope(|scope| {
        for volume in ["b", "c"] {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    load(server, volume, 8, 2);
                }
            });
        }
        let lines = (0..40).map(|_| live.line()).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        lines
    });
    for request in &lines {
        assert_eq!((&request["volume"], &request["op"]), (&"b".into(), &"read".into()));
        adds_up(request);
    }
    let metrics = api::Client::new(&scratch.join("spindle-api.sock")).metrics().expect("an answer");
    assert!(metrics.contains("spindle_disk_recorded{device=\"cut\"} 0"));
    kill_process(Pid::from_child(&live.child), Signal::INT).expect("it runs");
    let mut rest = String::new();
    live.out.read_to_string(&mut rest).expect("text");
    assert_eq!(live.child.wait().expect("it ends").code(), Some(0));
    let summary: Value = serde_json::from_str(rest.lines().last().expect("a line")).expect("JSON");
    assert!(summary["requests"].as_u64().is_some_and(|requests| requests >= 40), "{summary}");
    assert_eq!(summary["dropped"], 0);
    server.stop();
}

#[test]
fn a_daemon_that_stops_ends_its_live_traces() {
    let scratch = Scratch::new();
    let server = serve(&scratch, &[]);
    let mut live = Live::start(&scratch, &["--every", "2"]);
    std::thread::scope(|scope| {
        let (server, (to, from)) = (&server, std::sync::mpsc::channel::<()>());
        scope.spawn(move || {
            while from.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                load(server, "rest", 8, 2);
            }
        });
        adds_up(&live.line());
        drop(to);
    });
    server.stop();
    assert_eq!(live.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn an_invalid_trace_request_is_refused_with_the_accepted_values() {
    let scratch = Scratch::new();
    let server = serve(&scratch, &[]);
    for (arguments, code, words) in [
        (&["--volume", "absent"][..], 2, "there is no volume \"absent\""),
        (&["--every", "0"], 2, "a number from 1 to 1000000"),
        (&["--at-least", "soon"], 2, "a time such as 5ms"),
    ] {
        let ran = spindle(scratch.path(), &[&["trace", "live"], arguments].concat());
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
    }
    server.stop();
    let config = scratch.write("text", "no record");
    let ran = spindle(scratch.path(), &["sim", "replay", &config]);
    assert_eq!(
        (ran.code, ran.stderr.contains("expected a flight record")),
        (Some(2), true),
        "{ran:?}"
    );
    let ran = Server::refused(scratch.path(), &["plan.toml", "--record-max", "1KiB"]);
    assert_eq!((ran.code, ran.stderr.contains("from 1MiB to 1TiB")), (Some(2), true), "{ran:?}");
    let ran = Server::refused(scratch.path(), &["plan.toml", "--record", "text"]);
    assert_eq!(
        (ran.code, ran.stderr.contains("a directory that can be written to")),
        (Some(2), true),
        "{ran:?}"
    );
}
