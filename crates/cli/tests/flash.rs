//! A flash drive is shown, simulated and served like any drive, and refused where a mechanical one
//! is required.

use testkit::{Scratch, Server, config, spindle, succeed};

/// The part of the scenario's second for which the commands in the drive at its end stand.
const INSIDE: f64 = 0.001;

const SCENARIO: &str = r#"
seed = 1
duration = "1s"

[[disk]]
name = "d0"
drive = "samsung-870evo-1t"
depth = 8

[[volume]]
name = "reads"
disk = "d0"
size = "9GiB"
reserve = "70%"

[[volume]]
name = "writes"
disk = "d0"
size = "9GiB"
reserve = "30%"

[[workload]]
volume = "reads"
op = "read"
access = "random"
block = "4KiB"
outstanding = 32

[[workload]]
volume = "writes"
op = "write"
access = "random"
block = "4KiB"
outstanding = 32
"#;

#[test]
fn its_latency_is_shown_against_the_depth() {
    let scratch = Scratch::new();
    let args = ["drive", "show", "samsung-870evo-1t", "--json"];
    let ran = spindle(scratch.path(), &args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = ran.json();
    assert_eq!((shown["schema"].as_u64(), shown["kind"].as_str()), (Some(1), Some("flash")));
    let depths = shown["depths"].as_array().expect("a row for each depth");
    assert_eq!(depths.len(), 6);
    for row in depths {
        let number = |key: &str| row[key].as_f64().expect(key);
        assert!(number("beside_writes_read_mean_ms") > number("read_mean_ms"), "{row}");
    }
}

#[test]
fn one_that_holds_a_single_command_is_shown_too() {
    let scratch = Scratch::new();
    let library = include_str!("../../drive-library/drives/samsung-870evo-1t.toml");
    scratch.write("x.toml", library.replace("queue_depth_max = 32", "queue_depth_max = 1"));
    let ran = spindle(scratch.path(), &["drive", "show", "x.toml", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["depths"].as_array().map(Vec::len), Some(1));
}

#[test]
fn volumes_on_it_receive_their_shares_and_one_seed_gives_one_result() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", SCENARIO);
    let ran = || spindle(scratch.path(), &["sim", "run", "plan.toml", "--json"]);
    let (one, other) = (ran(), ran());
    assert_eq!((one.code, &one.stdout), (Some(0), &other.stdout), "{one:?}");
    let shares = [0, 1].map(|place| {
        one.json()["volumes"][place]["disk_time_share"].as_f64().expect("a share of the time")
    });
    // Writes are charged the time in which the drive stores them, also while it reads: together
    // the volumes may have more than the time. What is in the drive at the end is not charged yet.
    // Each has its part of that, and its reserve.
    let all: f64 = shares.iter().sum();
    assert!((1.0 - INSIDE..1.1).contains(&all), "{shares:?}");
    for (share, reserve) in shares.into_iter().zip([0.7, 0.3]) {
        let is_kept = share >= reserve - INSIDE && (share / all - reserve).abs() < 0.01;
        assert!(is_kept, "{share} for {reserve}");
    }
}

#[test]
fn it_is_served_and_holds_its_data() {
    let scratch = Scratch::new();
    let config = config("ram").replace("hgst-7k8", "intel-p4500-2t");
    scratch.write("plan.toml", config);
    let server = Server::unix(scratch.path(), "plan.toml");
    let export = server.uri("a");
    let data = testkit::noise(1 << 20, 7);
    scratch.write("data", &data);
    succeed("nbdcopy", &["--flush", "data", &export], scratch.path());
    succeed("nbdcopy", &[&export, "back"], scratch.path());
    let back = std::fs::read(scratch.join("back")).expect("it was copied back");
    assert_eq!(back[..data.len()], data[..]);
    assert_eq!(server.stop().code, Some(0));
}
