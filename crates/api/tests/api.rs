//! The API as an operator uses it.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use common::{CONFIG, Served, TOKEN, blocks, create, disk, faulty, open, set, volume};
use nbd::Address;
use serde_json::{Value, json};
use spindle_api::{Bound, DiskAnswer, DiskHealth, Token, VolumeAnswer};
use units::Operation;

fn names(served: &Served) -> Vec<String> {
    let answer = served.client.get("volumes", None).expect("an answer");
    let volumes = answer.body["volumes"].as_array().expect("a list").clone();
    volumes.iter().map(|volume| volume["name"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn creating_a_volume_twice_changes_nothing_and_another_of_its_name_is_refused() {
    let served = Served::start(CONFIG);
    let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB", "reserve": "10%" });
    assert_eq!(create(&served, &spec).status, 201);
    let before = served.text();
    assert_eq!(create(&served, &spec).status, 200);
    assert_eq!(served.text(), before);
    for other in [
        json!({ "name": "c", "disk": "d0", "size": "2MiB", "reserve": "10%" }),
        json!({ "name": "c", "disk": "d0", "size": "1MiB" }),
        json!({ "name": "c", "disk": "d0", "size": "1MiB", "reserve": "90%" }),
    ] {
        faulty(&create(&served, &other), 409, "exists", Some("name"));
    }
    assert_eq!(names(&served), ["a", "b", "c"]);
    served.stop();
}

#[test]
fn a_refused_change_says_what_would_fit_and_changes_nothing() {
    let served = Served::start(CONFIG);
    let refused = set(&served, "b", &json!({ "size": "16MiB", "reserve": "51%" }));
    faulty(&refused, 409, "refused", Some("reserve"));
    assert_eq!(refused.body["error"]["given"], "51%");
    assert_eq!(refused.body["error"]["accepted"], "at most 50% (what is left of disk \"d0\")");
    assert_eq!(served.text(), CONFIG);
    faulty(&set(&served, "a", &json!({ "size": "65MiB" })), 409, "refused", Some("size"));
    faulty(&set(&served, "a", &json!({ "limit": "40%" })), 422, "invalid", Some("limit"));
    faulty(&set(&served, "a", &json!({ "weight": "2" })), 422, "invalid", Some("weight"));
    faulty(&set(&served, "a", &json!({ "wait": 2 })), 422, "invalid", Some("wait"));
    faulty(&set(&served, "z", &json!({ "weight": 2 })), 404, "missing", Some("name"));
    let unsized_one = json!({ "name": "c", "disk": "d0" });
    faulty(&create(&served, &unsized_one), 422, "invalid", Some("size"));
    let nowhere = json!({ "name": "c", "disk": "d1", "size": "1MiB" });
    faulty(&create(&served, &nowhere), 422, "invalid", Some("disk"));
    assert_eq!(served.text(), CONFIG);
    served.stop();
}

#[test]
fn admission_says_whether_a_volume_would_fit_and_what_would() {
    let served = Served::start(CONFIG);
    let ask = |reserve: &str| {
        let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB", "reserve": reserve });
        let answer = served.client.post("admission", &spec).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["admission"].clone()
    };
    let refused = ask("60%");
    assert_eq!((&refused["fits"], &refused["reserve_max"]), (&json!(false), &json!("50%")));
    assert_eq!(refused["reason"]["field"], "reserve");
    assert_eq!(ask("50%")["fits"], true);
    assert_eq!(names(&served), ["a", "b"]);
    served.stop();
}

#[test]
fn a_volume_in_use_is_removed_only_by_force_and_its_client_gets_its_answers_first() {
    let served = Served::start(CONFIG);
    let (mut sender, mut receiver) = open(&served, "a").split();
    faulty(
        &served.client.delete("volumes", "a", Some(false)).expect("an answer"),
        409,
        "in_use",
        None,
    );
    for cookie in 0..8 {
        let extent = blocks(cookie * 16_384, 8);
        sender.queue(cookie, Operation::read(extent), &[]).expect("room");
    }
    sender.flush().expect("it reads");
    // Sent in one write: when the first reply arrives, the server has all of them.
    receiver.receive().expect("an answer");
    assert_eq!(served.client.delete("volumes", "a", Some(true)).expect("an answer").status, 204);
    for _ in 1..8 {
        receiver.receive().expect("an answer").result.expect("it was read");
    }
    assert!(receiver.receive().is_err(), "then the server hangs up");
    assert_eq!(names(&served), ["b"]);
    assert_eq!(served.client.delete("volumes", "a", Some(true)).expect("an answer").status, 404);
    served.stop();
}

#[test]
fn a_volume_keeps_its_data_while_others_are_created_removed_and_grown() {
    let served = Served::start(CONFIG);
    let written = vec![0x5a; 4_096];
    let mut client = open(&served, "b");
    client.write(blocks(0, 8), &written).expect("it is written");
    assert_eq!(served.client.delete("volumes", "a", Some(false)).expect("an answer").status, 204);
    let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB" });
    assert_eq!(create(&served, &spec).status, 201);
    assert_eq!(set(&served, "c", &json!({ "size": "64MiB" })).status, 200);
    assert_eq!(set(&served, "b", &json!({ "size": "64MiB" })).status, 200);
    assert_eq!(client.read(blocks(0, 8)).expect("it is read"), written);
    assert_eq!(open(&served, "b").read(blocks(131_064, 8)).expect("within"), vec![0; 4_096]);
    served.stop();
}

#[test]
fn space_that_is_allocated_again_reads_as_zeroes() {
    let served = Served::start(CONFIG);
    let mut client = open(&served, "b");
    client.write(blocks(8_192, 8), &[0xee; 4_096]).expect("it is written");
    client.disconnect().expect("goodbye");
    let smaller = json!({ "size": "1MiB", "force": true });
    assert_eq!(set(&served, "b", &smaller).status, 200);
    assert_eq!(set(&served, "b", &json!({ "size": "32MiB" })).status, 200);
    assert_eq!(open(&served, "b").read(blocks(8_192, 8)).expect("within"), vec![0; 4_096]);
    served.stop();
}

#[test]
fn a_volume_that_is_open_does_not_shrink_but_by_force() {
    let served = Served::start(CONFIG);
    let mut client = open(&served, "b");
    faulty(&set(&served, "b", &json!({ "size": "16MiB" })), 409, "in_use", None);
    client.read(blocks(65_528, 8)).expect("its end is where it was");
    assert_eq!(set(&served, "b", &json!({ "size": "16MiB", "force": true })).status, 200);
    assert!(client.read(blocks(0, 8)).is_err(), "it was hung up on");
    let mut client = nbd::client::Client::connect(&served.nbd()).expect("it listens");
    assert_eq!(client.go("b").expect("it is served").size.0, 16 << 20);
    served.stop();
}

#[test]
fn comments_around_the_changes_stay_and_a_restart_reads_the_changes() {
    let served = Served::start(CONFIG);
    assert_eq!(set(&served, "a", &json!({ "reserve": "40%", "weight": 3 })).status, 200);
    let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB", "limit": "5%" });
    assert_eq!(create(&served, &spec).status, 201);
    let period = served.client.patch("disks", "d0", &json!({ "period": "500ms" }));
    assert_eq!(period.expect("an answer").status, 200);
    let before = served.client.get("volumes", None).expect("an answer").body;
    let text = served.text();
    assert!(text.starts_with("# What we promise.\n"), "{text}");
    assert!(text.contains("name = \"a\" # the first\n"), "{text}");
    let served = Served::again(served.stop());
    let after = served.client.get("volumes", None).expect("an answer").body;
    for (before, after) in before["volumes"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(after["volumes"].as_array().expect("a list"))
    {
        for field in ["name", "size_bytes", "at_bytes", "reserve", "limit", "weight"] {
            assert_eq!(before[field], after[field], "{field}");
        }
    }
    assert_eq!(disk(&served, "d0")["period"], "500ms");
    assert_eq!(names(&served), ["a", "b", "c"]);
    served.stop();
}

#[test]
fn a_config_that_was_edited_by_hand_is_not_overwritten() {
    let served = Served::start(CONFIG);
    let edited = format!("{CONFIG}# by hand\n");
    std::fs::write(&served.config, &edited).expect("a scratch file");
    faulty(&set(&served, "a", &json!({ "reserve": "40%" })), 409, "edited", None);
    assert_eq!(served.text(), edited);
    assert_eq!(volume(&served, "a")["reserve"], "50%");
    served.stop();
}

/// The head of the reply to a request over TCP with this authorization.
fn over_tcp(served: &Served, authorization: &str) -> String {
    let Address::Tcp(address) = served.tcp else { panic!("it is TCP") };
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /v1/disks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.lines().next().expect("a status").to_owned()
}

#[test]
fn over_tcp_requests_without_the_token_are_refused() {
    let served = Served::start(CONFIG);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(over_tcp(&served, &right), "HTTP/1.1 200 OK");
    let prefix = format!("Authorization: Bearer {}\r\n", &TOKEN[1..]);
    let basic = format!("Authorization: Basic {TOKEN}\r\n");
    for wrong in ["", &prefix, &basic, "Authorization: Bearer \r\n"] {
        assert_eq!(over_tcp(&served, wrong), "HTTP/1.1 401 Unauthorized", "{wrong}");
    }
    let socket = served.directory.path().join("api.sock");
    let mode = std::fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the socket is its owner's alone");
    served.stop();
}

#[test]
fn tcp_without_a_token_and_a_token_that_others_can_read_are_refused() {
    let tcp = [Address::Tcp("127.0.0.1:0".parse().expect("an address"))];
    let error = Bound::listen(&tcp, None).expect_err("any process could call");
    assert!(error.to_string().contains("without a token"), "{error}");
    let directory = tempfile::tempdir().expect("a scratch directory");
    let path = directory.path().join("token");
    let refused = |content: &str, mode: u32, words: &str| {
        std::fs::write(&path, content).expect("a scratch file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        let error = Token::read(&path).expect_err("no token").to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(TOKEN, 0o644, "found mode 644");
    refused("short", 0o600, "16 to 4096");
    refused("", 0o600, "16 to 4096");
}

/// A volume whose reserve is derived from a rate, on a disk whose reserve headroom is 10 %.
const DECLARED: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
reserve_headroom = "10%"

[[volume]]
name = "a"
disk = "d0"
size = "64MiB"
iops = "20/s" # what the database needs
run = 4

[[volume]]
name = "b"
disk = "d0"
size = "32MiB"
"#;

#[test]
fn a_reserve_that_is_set_replaces_the_rate_it_was_derived_from() {
    let served = Served::start(DECLARED);
    let reserve =
        |served: &Served| volume(served, "a")["reserve"].as_str().expect("text").to_owned();
    let worked_out = reserve(&served);
    assert_eq!(set(&served, "a", &json!({ "limit": "80%", "weight": 2 })).status, 200);
    assert!(served.text().contains("iops = \"20/s\" # what the database needs"));
    assert_eq!(reserve(&served), worked_out, "no request has set another");
    assert_eq!(set(&served, "a", &json!({ "reserve": "30%" })).status, 200);
    assert_eq!(reserve(&served), "30%");
    let text = served.text();
    assert!(!text.contains("iops") && !text.contains("run"), "{text}");
    let served = Served::again(served.stop());
    assert_eq!(reserve(&served), "30%");
    served.stop();
}

#[test]
fn reserve_headroom_is_neither_reserved_nor_available() {
    let served = Served::start(DECLARED);
    assert_eq!(set(&served, "a", &json!({ "reserve": "30%" })).status, 200);
    let shown = disk(&served, "d0");
    assert_eq!((&shown["reserved"], &shown["left"]), (&json!("30%"), &json!("60%")));
    let asked = |reserve: &str| {
        let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB", "reserve": reserve });
        served.client.post("admission", &spec).expect("an answer").body["admission"].clone()
    };
    assert_eq!(asked("61%")["fits"], false);
    assert_eq!(asked("61%")["reserve_max"], "60%");
    assert_eq!(asked("60%")["fits"], true);
    faulty(&set(&served, "b", &json!({ "reserve": "61%" })), 409, "refused", Some("reserve"));
    assert_eq!(set(&served, "b", &json!({ "reserve": "60%" })).status, 200);
    served.stop();
}

#[test]
fn on_a_disk_with_rates_reserves_are_shown_and_set_as_rates() {
    let policy = "policy = \"throughput\"\nnominal_rate = \"68/s\"";
    let config = DECLARED.replace("reserve_headroom = \"10%\"", policy);
    let config =
        config.replace("iops = \"20/s\" # what the database needs\nrun = 4", "reserve = \"7/s\"");
    let served = Served::start(&config);
    let shown = volume(&served, "a");
    assert_eq!((&shown["reserve"], &shown["limit"]), (&json!("7/s"), &json!("68/s")));
    let shown = disk(&served, "d0");
    let left = shown["left"].as_str().expect("text");
    assert_eq!((&shown["reserved"], left), (&json!("7/s"), "61/s"));
    assert_eq!(
        set(&served, "b", &json!({ "reserve": left })).status,
        200,
        "the available share can be reserved"
    );
    faulty(&set(&served, "b", &json!({ "reserve": "10%" })), 422, "invalid", Some("reserve"));
    served.stop();
}

#[test]
fn a_period_shorter_than_a_batch_shortens_it_and_a_longer_one_restores_it() {
    let served = Served::start(CONFIG);
    for period in ["100ms", "1s", "150ms"] {
        let changed = served.client.patch("disks", "d0", &json!({ "period": period }));
        assert_eq!(changed.expect("an answer").status, 200);
        assert_eq!(disk(&served, "d0")["period"], period);
    }
    let mut client = open(&served, "a");
    client.read(blocks(0, 8)).expect("it serves on");
    served.stop();
}

/// A disk that serves deadlines, with a stream of large blocks.
const DEADLINES: &str = r#"[[disk]]
name = "d0"
drive = "atlas-ii"
policy = "delta-star"

[[volume]]
name = "cam7"
disk = "d0"
size = "256MiB"
stream = { bandwidth = "2MB/s", block = "4MB" }
"#;

#[test]
fn a_stream_that_does_not_fit_is_refused_with_a_reason_and_an_offer_that_fits() {
    let served = Served::start(DEADLINES);
    let before = served.text();
    let spec =
        |stream: Value| json!({ "name": "v", "disk": "d0", "size": "64MiB", "stream": stream });
    let asked = json!({ "bandwidth": "400KB/s", "block": "64KiB" });
    let answer = create(&served, &spec(asked.clone()));
    faulty(&answer, 409, "refused", Some("stream"));
    let why = answer.body["error"]["deadlines"].clone();
    assert_eq!((&why["constraint"], &why["beside"]), (&json!("blocked"), &json!("cam7")), "{why}");
    // A block of 65,536 bytes every 163.84 ms; L is 1 ns longer.
    assert_eq!(why["interval_ms"], json!(163.840_001));
    assert_eq!(served.text(), before);
    // The dry run gives the same reply.
    let dry = served.client.post("admission", &spec(asked)).expect("an answer");
    let admission = &dry.body["admission"];
    assert_eq!((&admission["fits"], &admission["reason"]["deadlines"]), (&json!(false), &why));
    assert_eq!(admission["room"]["tasks"], 1);
    let bandwidth = format!("{}B/s", why["bandwidth_bytes_per_s"]);
    let fits = create(&served, &spec(json!({ "bandwidth": bandwidth, "block": "64KiB" })));
    assert_eq!(fits.status, 201, "{fits:?}");
    assert_eq!(fits.body["volume"]["stream"]["missed"], 0);
}

#[test]
fn a_stream_is_added_and_removed_while_the_daemon_runs() {
    let served = Served::start(DEADLINES);
    let stream = |bandwidth: &str| json!({ "stream": { "bandwidth": bandwidth, "block": "1MB" } });
    let changed = set(&served, "cam7", &stream("1MB/s"));
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(changed.body["volume"]["stream"]["period_ms"], json!(1000.0));
    faulty(&set(&served, "cam7", &stream("50MB/s")), 409, "refused", Some("stream"));
    faulty(&set(&served, "cam7", &stream("0B/s")), 422, "invalid", Some("bandwidth"));
    let past = json!({ "bandwidth": "1MB/s", "block": "1MB", "span": ["0s", "1ns"] });
    faulty(&set(&served, "cam7", &json!({ "stream": past })), 422, "invalid", Some("span"));
    let both = json!({ "stream": { "bandwidth": "1MB/s", "block": "1MB" }, "drop_stream": true });
    faulty(&set(&served, "cam7", &both), 422, "invalid", Some("drop_stream"));
    assert!(served.text().contains(r#"stream = { bandwidth = "1MB/s", block = "1MB" }"#));
    let dropped = set(&served, "cam7", &json!({ "drop_stream": true }));
    assert_eq!((dropped.status, &dropped.body["volume"]["stream"]), (200, &Value::Null));
    assert!(!served.text().contains("stream"));
    // This policy keeps one of a stream and a reserve: the other is refused, not replaced.
    assert_eq!(set(&served, "cam7", &json!({ "reserve": "20%" })).status, 200);
    let refused = set(&served, "cam7", &stream("1MB/s"));
    assert!(refused.status >= 400, "{refused:?}");
    assert!(served.text().contains("reserve = \"20%\"") && !served.text().contains("stream"));
    let instead = json!({ "reserve": "0%", "stream": { "bandwidth": "1MB/s", "block": "1MB" } });
    assert_eq!(set(&served, "cam7", &instead).status, 200);
    assert!(set(&served, "cam7", &json!({ "reserve": "20%" })).status >= 400);
}

#[test]
fn blocks_of_a_stream_are_counted_by_their_deadlines() {
    let served = Served::start(DEADLINES);
    let mut client = open(&served, "cam7");
    for block in 0..3 {
        client.write(blocks(block * 128, 128), &vec![1; 128 * 512]).expect("it is written");
    }
    let shown = volume(&served, "cam7");
    let stream = &shown["stream"];
    let of = |key: &str| stream[key].as_u64().expect("a number");
    // Requests before their release were best effort, unless they waited until it.
    assert!(of("met") >= 1 && of("met") + of("missed") <= 3, "{stream}");
}

#[test]
fn only_a_disk_that_is_not_healthy_is_reopened() {
    let faults = "drive = \"hgst-7k8\"\nwrite_buffer = \"off\"\nfaults = { flush = \"100%\" }";
    let served = Served::start(&CONFIG.replace("drive = \"hgst-7k8\"", faults));
    let reopened = || served.client.reopen("d0").expect("an answer");
    faulty(&reopened(), 409, "refused", None);
    faulty(&served.client.reopen("none").expect("an answer"), 404, "missing", None);
    let mut client = open(&served, "a");
    client.flush().expect_err("flushes fail");
    assert_eq!(disk(&served, "d0")["state"], "poisoned");
    let answer = reopened();
    assert_eq!((answer.status, &answer.body["disk"]["state"]), (200, &json!("well")));
    client.write(blocks(0, 8), &vec![1; 8 * 512]).expect("it is written again");
    served.stop();
}

/// Two disks in memory that are a pool, and one beside them.
const POOL: &str = r#"[[disk]]
name = "d0"
drive = "samsung-870evo-1t"

[[disk]]
name = "d1"
drive = "samsung-870evo-1t"

[[disk]]
name = "single"
drive = "samsung-870evo-1t"

[pool]
disks = ["d0", "d1"]
"#;

#[test]
fn a_volume_of_the_pool_is_created_read_changed_and_removed_as_one_on_a_disk_is() {
    let served = Served::start(POOL);
    let read = |name: &str| served.client.get("volumes", Some(name)).expect("an answer");
    let plain = json!({ "name": "plain", "disk": "single", "size": "4MiB", "reserve": "10%" });
    let pooled = json!({
        "name": "pooled", "size": "4MiB", "reserve": "10%", "layout": "stripe", "zone": "any"
    });
    for spec in [&plain, &pooled] {
        let name = spec["name"].as_str().expect("text");
        let created = create(&served, spec);
        assert_eq!(created.status, 201, "{created:?}");
        assert_eq!(create(&served, spec).status, 200, "an equal volume is there");
        let volume = &read(name).body["volume"];
        let found = [&volume["name"], &volume["size"], &volume["reserve"], &volume["health"]];
        assert_eq!(found, [name, "4MiB", "10%", "healthy"]);

        let mut client = open(&served, name);
        client.write(blocks(8, 8), &[7; 4_096]).expect("it is written");
        let change = json!({ "size": "8MiB", "reserve": "20%", "limit": "50%", "weight": 3 });
        let changed = set(&served, name, &change);
        assert_eq!(changed.status, 200, "{changed:?}");
        let volume = &read(name).body["volume"];
        let found = [&volume["size"], &volume["reserve"], &volume["limit"]];
        assert_eq!(found, ["8MiB", "20%", "50%"]);
        assert_eq!((&volume["weight"], &volume["size_bytes"]), (&json!(3), &json!(8 << 20)));
        assert_eq!(client.read(blocks(8, 8)).expect("it is read"), [7; 4_096]);
        faulty(&set(&served, name, &json!({ "reserve": "101%" })), 422, "invalid", Some("reserve"));
    }
    let volume = &read("pooled").body["volume"];
    assert_eq!((&volume["disk"], &volume["pool"]["layout"]), (&json!("d0+d1"), &json!("stripe")));
    assert_eq!(read("plain").body["volume"]["pool"], Value::Null);
    let both = json!({ "name": "c", "disk": "single", "size": "4MiB", "layout": "stripe" });
    faulty(&create(&served, &both), 422, "invalid", Some("disk"));
    for name in ["plain", "pooled"] {
        faulty(
            &served.client.delete("volumes", "c", None).expect("an answer"),
            404,
            "missing",
            Some("name"),
        );
        let removed = served.client.delete("volumes", name, Some(true)).expect("an answer");
        assert_eq!(removed.status, 204, "{removed:?}");
        assert_eq!(read(name).status, 404);
    }
    assert!(names(&served).is_empty());
    assert_eq!(served.text(), POOL, "nothing of them remains in the config");
    served.stop();
}

#[test]
fn a_client_reads_the_health_that_a_daemon_of_the_previous_version_sends_as_state() {
    let served = Served::start(CONFIG);
    let mut disk = served.client.get("disks", Some("d0")).expect("an answer").body;
    let mut volume = served.client.get("volumes", Some("a")).expect("an answer").body;
    served.stop();
    for (state, health) in [
        ("well", DiskHealth::Healthy),
        ("poisoned", DiskHealth::Poisoned),
        ("gone", DiskHealth::Offline),
    ] {
        for (answer, key) in [(&mut disk, "disk"), (&mut volume, "volume")] {
            let fields = answer[key].as_object_mut().expect("an object");
            fields.remove("health");
            fields.insert("state".to_owned(), json!(state));
        }
        let read: DiskAnswer = serde_json::from_value(disk.clone()).expect("an answer");
        assert_eq!(read.disk.health(), health);
        let read: VolumeAnswer = serde_json::from_value(volume.clone()).expect("an answer");
        assert_eq!(read.volume.health(), health);
    }
}
