//! The command line as a script sees it: exit codes, the message of a refusal, and the shape of
//! every `--json`.

use std::net::TcpListener;

use serde_json::Value;
use testkit::{Ran, Scratch, Server, config, spindle, succeed};

/// A plan that can be simulated and served. Tests make it invalid by replacing a text.
fn plan() -> String {
    let head = "seed = 3\nduration = \"2s\"\n\n";
    let workload = r#"
[[workload]]
volume = "a"
op = "mix"
read_share = "50%"
access = "random"
block = "4KiB"
outstanding = 4
"#;
    [head, &config("disk.img"), workload].concat()
}

/// The messages of `sim run` and `serve` about an invalid plan. No file is left behind.
fn both_refuse_file(scratch: &Scratch, file: &str) -> [String; 2] {
    let before = scratch.names();
    let serve = Server::refused(scratch.path(), &[file, "--listen", "unix:nbd.sock"]);
    let simulate = spindle(scratch.path(), &["sim", "run", file, "--json"]);
    assert_eq!(scratch.names(), before, "nothing is left behind");
    [serve, simulate].map(|ran| ran.refusal().to_owned())
}

/// Checks that `sim run` and `serve` refuse the plan with `good` replaced by `bad`, with this
/// message.
fn both_refuse(good: &str, bad: &str, message: &str) {
    assert_eq!(plan().matches(good).count(), 1, "`{good}` stands there once");
    let scratch = Scratch::new();
    let file = scratch.write("plan.toml", plan().replace(good, bad));
    for said in both_refuse_file(&scratch, &file) {
        assert_eq!(said, format!("spindle: {message}"));
    }
}

#[test]
fn a_reserve_over_what_is_left_is_refused() {
    both_refuse(
        "reserve = \"30%\"",
        "reserve = \"50.5%\"",
        "plan.toml:19: [[volume]] \"b\": field `reserve`: found `50.5%`, expected at most 50% \
         (what is left \
         of disk \"d0\")",
    );
}

#[test]
fn a_limit_under_its_reserve_is_refused() {
    both_refuse(
        "reserve = \"30%\"",
        "reserve = \"30%\"\nlimit = \"29%\"",
        "plan.toml:20: [[volume]] \"b\": field `limit`: found `29%`, expected at least 30% (the \
         reserve of the \
         volume)",
    );
}

#[test]
fn an_unknown_drive_is_refused_with_the_known_ones() {
    both_refuse(
        "hgst-7k8",
        "hgst-7k9",
        "plan.toml:6: [[disk]] \"d0\": field `drive`: found `hgst-7k9`, expected a drive of the \
         library \
         (\"atlas-ii\", \"atlas10k\", \"barracuda-2t\", \"barracuda-st32171w\", \
         \"cheetah9LP\", \"deskstar-34gxp\", \"hgst-7k8\", \"hp_c2247a\", \
         \"hp_c3323a\", \"intel-p4500-2t\", \"nearline-20t\", \"samsung-870evo-1t\", \
         \"st318437lw\", \"wd400bb\"), \
         \"memory\" or \"null\", or the path of a drive file (*.toml)",
    );
}

#[test]
fn an_unknown_policy_is_refused_with_the_known_ones() {
    let scratch = Scratch::new();
    let fair = plan().replace("backing = \"disk.img\"", "policy = \"fair\"");
    scratch.write("plan.toml", fair);
    for message in both_refuse_file(&scratch, "plan.toml") {
        let place =
            "spindle: plan.toml:7: [[disk]] \"d0\": field `policy`: found `fair`, expected one of ";
        assert!(message.starts_with(place), "{message}");
        assert!(message.contains("\"utilization\""), "{message}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_known_ones() {
    both_refuse(
        "size = \"32MiB\"",
        "sise = \"32MiB\"",
        "plan.toml:18: [[volume]] \"b\": field `sise`: found `sise`, expected one of the keys \
         `name`, `disk`, `clients`, `size`, `at`, `same_as`, `iops`, `bandwidth`, `run`, `block`, \
         `reserve`, `limit`, `weight`, `priority`, `stream`, `latency`, `write_buffer`, `labels`, \
         `ublk`",
    );
}

#[test]
fn a_size_of_nothing_is_refused() {
    both_refuse(
        "32MiB",
        "0",
        "plan.toml:18: [[volume]] \"b\": field `size`: found `0`, expected a size above zero",
    );
}

#[test]
fn a_size_over_the_disk_is_refused_with_the_free_size() {
    both_refuse(
        "32MiB",
        "9TB",
        "plan.toml:18: [[volume]] \"b\": field `size`: found `9TB`, expected at most \
         8001496113152B (what is \
         left of disk \"d0\")",
    );
}

#[test]
fn two_volumes_of_one_name_are_refused() {
    both_refuse(
        "name = \"b\"",
        "name = \"a\"",
        "plan.toml:16: [[volume]] \"a\": field `name`: found `a`, expected a name of its own \
         (line 10 has this \
         one already)",
    );
}

#[test]
fn a_volume_on_a_disk_that_is_not_there_is_refused() {
    both_refuse(
        "name = \"b\"\ndisk = \"d0\"",
        "name = \"b\"\ndisk = \"d1\"",
        "plan.toml:17: [[volume]] \"b\": field `disk`: found `d1`, expected one of the disks \
         \"d0\"",
    );
}

#[test]
fn a_truncated_config_is_refused_at_its_last_line_wherever_it_ends() {
    let scratch = Scratch::new();
    // Truncated within a string: elsewhere the rest may be a valid config.
    let in_text =
        |text: &&str| text.lines().last().is_some_and(|line| line.matches('"').count() == 1);
    let plan = plan();
    for text in (1..plan.len()).map(|length| &plan[..length]).filter(in_text).step_by(3) {
        scratch.write("plan.toml", text);
        let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
        let message = ran.refusal();
        let place = format!("spindle: plan.toml:{}: found `", text.lines().count());
        assert!(message.starts_with(&place) && message.contains("`, expected TOML"), "{message}");
    }
    assert_eq!(scratch.names(), ["plan.toml"]);
}

#[test]
fn a_missing_file_is_refused_by_its_name() {
    let scratch = Scratch::new();
    for message in both_refuse_file(&scratch, "no.toml") {
        assert!(message.starts_with("spindle: no.toml: found `No such file"), "{message}");
        assert!(message.ends_with("expected a file that can be read"), "{message}");
    }
}

#[test]
fn a_scenario_without_a_workload_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.write("plan.toml", config("ram"));
    let ran = spindle(scratch.path(), &["sim", "run", &file, "--json"]);
    assert_eq!(
        ran.refusal(),
        "spindle: plan.toml:1: field `workload`: found nothing, expected at least one table \
         `[[workload]]` to \
         simulate"
    );
}

#[test]
fn a_result_directory_that_cannot_be_created_is_refused_before_the_run() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let ran = spindle(scratch.path(), &["demo", "--seconds", "2", "--out", "file/out"]);
    assert!(ran.refusal().starts_with("spindle: file/out: "), "{ran:?}");
}

/// Checks that serving on `address` is refused with a message that contains all of `said`, and that
/// no file is created.
fn address_is_refused(scratch: &Scratch, address: &str, said: &[&str]) {
    let before = scratch.names();
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", address]);
    let message = ran.refusal();
    for text in said {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert_eq!(scratch.names(), before, "nothing is left behind");
}

#[test]
fn an_address_that_another_server_listens_on_is_refused_and_no_file_is_made() {
    let scratch = Scratch::new();
    let first = scratch.write("first.toml", config("ram"));
    scratch.write("plan.toml", config("disk.img"));
    let server = Server::unix(scratch.path(), &first);
    let socket = server.address.clone();
    address_is_refused(
        &scratch,
        &socket,
        &["listen", &socket, "another server is listening there"],
    );
    // The first server is not affected.
    succeed("nbdinfo", &["--size", &server.uri("a")], scratch.path());
    server.stop();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    address_is_refused(&scratch, &address, &["listen", &address, "in use"]);
    address_is_refused(&scratch, "unix:no/such/place", &["listen", "unix:no/such/place"]);
    address_is_refused(
        &scratch,
        "unix:plan.toml",
        &["listen", "there is a file that is no socket"],
    );
    address_is_refused(&scratch, "nonsense", &["listen: found `nonsense`, expected `unix:/path`"]);
}

#[test]
fn if_one_address_of_two_is_unavailable_neither_is_used() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", config("disk.img"));
    let both = ["plan.toml", "--listen", "unix:one.sock", "--listen", "unix:no/such/place"];
    let ran = Server::refused(scratch.path(), &both);
    assert!(ran.refusal().contains("no/such/place"), "{ran:?}");
    assert_eq!(scratch.names(), ["plan.toml"]);
}

#[test]
fn if_one_backing_of_two_is_unavailable_neither_is_created() {
    let scratch = Scratch::new();
    let second = config("no/such/place").replace("\"d0\"", "\"d1\"");
    let second = second.replace("\"a\"", "\"c\"").replace("\"b\"", "\"d\"");
    scratch.write("plan.toml", config("disk.img") + &second);
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    let place = "spindle: plan.toml:17: [[disk]] \"d1\": field `backing`: ";
    assert!(ran.refusal().starts_with(place), "{ran:?}");
    assert_eq!(scratch.names(), ["plan.toml"]);
}

#[test]
fn a_backing_of_another_disk_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let small = config("disk.img").replace("hgst-7k8", "deskstar-34gxp");
    scratch.write("plan.toml", small);
    let large = std::fs::File::create(scratch.join("disk.img")).expect("a scratch file");
    large.set_len(1 << 36).expect("a sparse one");
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    assert!(ran.refusal().contains("it belongs to another"), "{ran:?}");
    assert_eq!(large.metadata().expect("it is there").len(), 1 << 36);
    assert_eq!(scratch.names(), ["disk.img", "plan.toml"]);
}

#[test]
fn bad_usage_exits_with_2_and_says_how_to_get_help() {
    let scratch = Scratch::new();
    for arguments in [&["frob"][..], &[], &["serve"], &["sim"], &["demo", "--seconds", "1"]] {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.contains("--help") || ran.stderr.contains("Usage"), "{}", ran.stderr);
    }
}

#[test]
fn every_command_has_help() {
    let scratch = Scratch::new();
    let commands: [&[&str]; 15] = [
        &[],
        &["demo"],
        &["serve"],
        &["vol"],
        &["vol", "create"],
        &["disk"],
        &["pool"],
        &["top"],
        &["admit"],
        &["sim"],
        &["sim", "run"],
        &["sim", "replay"],
        &["trace"],
        &["drive"],
        &["profile"],
    ];
    for command in commands {
        let ran = spindle(scratch.path(), &[command, &["--help"]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
        let usage = ["Usage: spindle"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
        assert!(ran.stdout.contains(&usage), "{}", ran.stdout);
    }
    let version = spindle(scratch.path(), &["-V"]);
    let first = format!("spindle {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version.stdout, first);
    let version = spindle(scratch.path(), &["--version"]);
    let rest = version.stdout.strip_prefix(&first).expect("the version comes first");
    let names: Vec<_> = rest.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(
        names.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["commit", "build", "features"]
    );
    assert!(names[1].1.starts_with(std::env::consts::ARCH), "{rest}");
    assert!(names[2].1.split(' ').any(|feature| feature == "nbd"), "{rest}");
}

/// Checks that all of these fields are numbers.
fn numbers(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(object[field].is_number(), "{field} is a number: {object}");
    }
}

/// The names under `field`; `look` checks the other fields of each entry.
fn names<'a>(report: &'a Value, field: &str, look: impl Fn(&Value)) -> Vec<&'a str> {
    let entries = report[field].as_array().expect("a list");
    entries
        .iter()
        .inspect(|entry| look(entry))
        .map(|entry| entry["name"].as_str().expect("a name"))
        .collect()
}

/// Checks the part that all reports have: disks and volumes.
fn disks_and_volumes(report: &Value) {
    assert_eq!(report["schema"], 1);
    numbers(report, &["duration_s"]);
    let disks = names(report, "disks", |disk| numbers(disk, &["busy_share", "bytes_per_s"]));
    assert_eq!(disks, ["d0"]);
    assert_eq!(names(report, "volumes", volume), ["a", "b"]);
}

fn volume(volume: &Value) {
    numbers(
        volume,
        &[
            "reserve",
            "limit",
            "disk_time_share",
            "requests",
            "bytes",
            "iops",
            "bytes_per_s",
            "deadline_misses",
        ],
    );
    for times in ["latency_ms", "waiting_ms"] {
        numbers(&volume[times], &["mean", "p50", "p99", "p999", "max"]);
    }
}

fn simulate(scratch: &Scratch, seed: &[&str]) -> Ran {
    let ran = spindle(scratch.path(), &[&["sim", "run", "plan.toml", "--json"], seed].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

#[test]
fn a_simulation_reports_its_disks_and_volumes() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan());
    let report = simulate(&scratch, &[]).json();
    disks_and_volumes(&report);
    assert_eq!((&report["seed"], &report["duration_s"]), (&3.into(), &2.0.into()));
    let (a, b) = (&report["volumes"][0], &report["volumes"][1]);
    assert_eq!(
        (&a["reserve"], &b["reserve"], &a["limit"]),
        (&0.5.into(), &0.3.into(), &1.0.into())
    );
    assert!(a["iops"].as_f64() > Some(0.0), "it was loaded: {a}");
    assert_eq!((&b["iops"], &b["disk_time_share"]), (&0.0.into(), &0.0.into()), "it was not");
    assert_eq!(a["deadline_misses"], 0);
    assert_eq!(scratch.names(), ["plan.toml"], "a simulation has no data");
}

#[test]
fn one_seed_gives_one_simulation_to_the_byte() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan());
    let first = simulate(&scratch, &[]);
    assert_eq!(first, simulate(&scratch, &[]));
    assert_eq!(first, simulate(&scratch, &["--seed", "3"]));
    let (first, other) = (first.json(), simulate(&scratch, &["--seed", "4"]).json());
    assert_eq!(other["seed"], 4);
    assert_ne!(first["volumes"], other["volumes"]);
}

#[test]
fn without_json_a_simulation_prints_a_table_of_its_volumes() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan());
    let ran = spindle(scratch.path(), &["sim", "run", "plan.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned).unwrap_or_default();
    assert_eq!(ran.stdout.lines().map(first).collect::<Vec<_>>(), ["volume", "a", "b"]);
    assert!(ran.stderr.contains("seed 3"), "{}", ran.stderr);
}

#[test]
fn a_simulation_measures_the_worth_of_reserves_when_asked_to() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan());
    let (without, with) = (simulate(&scratch, &[]).json(), simulate(&scratch, &["--worth"]).json());
    let worth = with["volumes"][0]["worth"].clone();
    numbers(&worth, &["value", "rate", "reference_rate"]);
    for times in ["latency_ms", "reference_latency_ms"] {
        numbers(&worth[times], &["mean", "p50", "p99", "p999", "max"]);
    }
    assert!(with["volumes"][1]["worth"].is_null(), "a volume without load has no worth");
    let mut rest = with;
    let volume = rest["volumes"][0].as_object_mut().expect("a volume");
    volume.remove("worth");
    assert_eq!(rest, without, "the rest of the report is the same");
    let ran = spindle(scratch.path(), &["sim", "run", "plan.toml", "--worth"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let head = ran.stdout.lines().find(|line| line.contains("worth")).expect("a second table");
    assert!(head.starts_with("volume  reserve  worth"), "{head}");
}

#[test]
fn the_demo_shows_three_volumes_and_its_exit_code_is_its_verdict() {
    let scratch = Scratch::new();
    let ran = spindle(scratch.path(), &["demo", "--seconds", "3", "--json", "--out", "out"]);
    let told = ran.json();
    assert_eq!(told["schema"], 1);
    assert!(ran.stderr.contains("page: http://127.0.0.1:"), "{ran:?}");
    assert_eq!(names(&told, "volumes", volume), ["seq", "rand", "single"]);
    let figures = ["duration_s", "worst_share_error_points", "worst_worth"];
    numbers(&told, &figures);
    numbers(&told, &["bound_points"]);
    numbers(&told["volumes"][2]["worth"], &["value", "rate", "reference_rate"]);
    numbers(&told["lateness_us"], &["p50", "p99", "max"]);
    let holds = told["holds"].as_bool().expect("a verdict");
    assert_eq!(ran.code, Some(i32::from(!holds)), "{ran:?}");
    let number = |field: &str| told[field].as_f64().expect("a number");
    assert_eq!(holds, number("worst_share_error_points") <= number("bound_points"));
    assert_eq!(told["files"], serde_json::json!(["out/demo.csv"]));
    let csv = std::fs::read_to_string(scratch.join("out/demo.csv")).expect("it was written");
    assert!(csv.starts_with("time_s,seq_s,rand_s,single_s,"));
}

#[test]
fn a_server_reports_the_shares_of_its_volumes_at_its_end() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let write = ["-f", "raw", "-c", "write 0 1M", &server.uri("b")];
    succeed("qemu-io", &write, scratch.path());
    let ran = server.stop();
    assert!(ran.stderr.contains("stopping"), "words go to standard error: {}", ran.stderr);
    let told = ran.json();
    disks_and_volumes(&told);
    numbers(&told["lateness_us"], &["p50", "p99", "max"]);
    let (a, b) = (&told["volumes"][0], &told["volumes"][1]);
    assert_eq!((&a["iops"], &a["bytes_per_s"]), (&0.0.into(), &0.0.into()));
    let bytes = b["bytes_per_s"].as_f64().expect("a number")
        * told["duration_s"].as_f64().expect("a number");
    assert!((bytes - 1_048_576.0).abs() < 1.0, "{bytes} bytes were written");
    assert!(told["disks"][0]["busy_share"].as_f64() > Some(0.0), "{told}");
}

#[test]
fn without_json_a_server_prints_a_table_at_its_end() {
    let scratch = Scratch::new();
    let file = scratch.write("plan.toml", config("ram"));
    let server = Server::start(scratch.path(), &file, &["--listen", "unix:nbd.sock"]);
    let ran = server.stop();
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned).unwrap_or_default();
    assert_eq!(ran.stdout.lines().map(first).collect::<Vec<_>>(), ["volume", "a", "b"]);
}

#[test]
fn a_plan_that_was_simulated_is_served_unchanged_where_it_says() {
    let scratch = Scratch::new();
    scratch.write(
        "plan.toml",
        plan().replace("duration = \"2s\"", "duration = \"2s\"\nlisten.nbd = [\"unix:own.sock\"]"),
    );
    simulate(&scratch, &[]);
    let server = Server::start(scratch.path(), "plan.toml", &[]);
    assert_eq!(server.address, "unix:own.sock");
    let size = succeed("nbdinfo", &["--size", &server.uri("b")], scratch.path());
    assert_eq!(size.trim(), "33554432");
    server.stop();
    assert_eq!(scratch.names(), ["disk.img", "plan.toml"]);
}

#[test]
fn arguments_of_attach_that_are_none_are_refused() {
    let scratch = Scratch::new();
    for (arguments, words) in [
        (&["attach", "a", "/dev/sda"][..], "expected a device such as /dev/nbd0"),
        (&["attach", "a", "--server", "nowhere"], "expected `unix:/path`"),
        (&["attach", "a", "--connections", "0"], "found `0`, expected 1 to 16"),
        (&["attach", "a", "--dead-timeout", "1ms"], "expected a time from 1s to"),
        (&["attach"], "<VOLUME>"),
    ] {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
    // Without privileges and without a driver, the list is readable.
    let listed = succeed_json(&scratch, &["attach", "--list", "--json"]);
    assert_eq!(listed["schema"], 1);
    assert!(listed["attached"].is_array(), "{listed}");
}

fn succeed_json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let ran = spindle(scratch.path(), arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.json()
}
