//! Every kind of contract, set and shown over the API.

mod common;

use common::{CONFIG, Served, blocks, create, disk, faulty, open, set, volume};
use serde_json::{Value, json};
use units::{Op, Operation, Share};

fn share(text: &Value) -> Share {
    text.as_str().expect("text").parse().expect("a share")
}

#[test]
fn a_rate_and_a_priority_are_set_shown_and_kept_over_a_restart() {
    let served = Served::start(CONFIG);
    let rate = json!({ "iops": "20/s", "run": 4, "limit": "60%", "priority": "high" });
    let answer = set(&served, "a", &rate);
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = |volume: &Value| {
        assert_eq!((&volume["kind"], &volume["priority"]), (&json!("rate"), &json!("high")));
        assert_eq!(volume["rate"]["iops"], json!(20.0), "{volume}");
        assert_eq!((&volume["rate"]["run"], &volume["rate"]["block"]), (&json!(4), &json!("4KiB")));
        assert!(share(&volume["reserve"]) > Share::NONE, "{volume}");
    };
    shown(&answer.body["volume"]);
    assert_eq!(share(&disk(&served, "d0")["reserved"]), Share::from_percent(60));
    assert!(served.text().contains("priority = \"high\""), "{}", served.text());
    faulty(&set(&served, "b", &json!({ "reserve": "50%" })), 409, "refused", Some("reserve"));
    let served = Served::again(served.stop());
    shown(&volume(&served, "a"));
    let answer = set(&served, "a", &json!({ "priority": "normal", "reserve": "10%" }));
    assert_eq!(answer.body["volume"]["kind"], "reserve", "{answer:?}");
    assert_eq!(share(&disk(&served, "d0")["left"]), Share::from_percent(90));
    served.stop();
}

#[test]
fn creating_a_volume_with_another_priority_or_rate_is_another_volume() {
    let served = Served::start(CONFIG);
    let spec = json!({
        "name": "c", "disk": "d0", "size": "1MiB", "bandwidth": "1MB/s", "run": 64,
        "limit": "50%", "priority": "high"
    });
    let statuses = (create(&served, &spec).status, create(&served, &spec).status);
    assert_eq!(statuses, (201, 200));
    for (field, value) in [("priority", json!("normal")), ("run", json!(32))] {
        let mut other = spec.clone();
        other[field] = value;
        faulty(&create(&served, &other), 409, "exists", Some("name"));
    }
    served.stop();
}

#[test]
fn what_the_policy_of_a_disk_does_not_keep_is_refused_by_name() {
    let plain = CONFIG.replace("reserve = \"50%\"\n", "");
    let fcfs = plain.replace("drive = \"hgst-7k8\"\n", "drive = \"hgst-7k8\"\npolicy = \"fcfs\"\n");
    let served = Served::start(&fcfs);
    for (field, value) in [
        ("reserve", json!("10%")),
        ("limit", json!("10%")),
        ("weight", json!(2)),
        ("iops", json!("10/s")),
    ] {
        let answer = set(&served, "a", &json!({ field: value }));
        faulty(&answer, 422, "invalid", Some(field));
        let accepted = answer.body["error"]["accepted"].as_str().expect("text");
        let expected = format!("no `{field}` on disk \"d0\": its policy \"fcfs\" keeps none");
        assert!(accepted.starts_with(&expected), "{accepted}");
    }
    assert_eq!(served.text(), fcfs);
    let priority = set(&served, "a", &json!({ "priority": "high" }));
    assert_eq!(priority.status, 200, "priority is kept");
    served.stop();
}

const DEADLINES: &str = r#"[[disk]]
name = "d0"
drive = "atlas-ii"
slowed = 0.5
policy = "delta-star"

[[volume]]
name = "cam7"
disk = "d0"
size = "256MiB"
stream = { bandwidth = "1MB/s", block = "1MB" }

[[volume]]
name = "rest"
disk = "d0"
size = "64MiB"
reserve = "10%"
"#;

#[test]
fn a_stream_stands_there_as_a_stream_and_a_disk_with_what_streams_leave() {
    let served = Served::start(DEADLINES);
    let volumes = served.client.get("volumes", None).expect("an answer").body;
    let (cam, rest) = (&volumes["volumes"][0], &volumes["volumes"][1]);
    assert_eq!((&cam["kind"], &rest["kind"]), (&json!("stream"), &json!("reserve")));
    assert_eq!(cam["stream"]["bandwidth"], "1MB/s");
    let shown = disk(&served, "d0");
    assert_eq!(shown["slowed"], "50%");
    assert_eq!(share(&shown["reserved"]), Share::from_percent(10));
    let streams = share(&shown["reserved_by_streams"]);
    let utilization = cam["stream"]["utilization"].as_f64().expect("a number");
    assert!((streams.as_f64() - utilization).abs() < 1e-6 && utilization > 0.0, "{shown}");
    let sum = streams
        .checked_add(share(&shown["left"]))
        .and_then(|sum| sum.checked_add(Share::from_percent(10)));
    assert_eq!(sum, Some(Share::ALL), "{shown}");
    let metrics = served.client.metrics().expect("an answer");
    for line in [
        "spindle_volume_contract_info{device=\"cam7\",disk=\"d0\",kind=\"stream\",\
         priority=\"normal\"} 1",
        "spindle_volume_stream_bytes_per_second{device=\"cam7\",disk=\"d0\"} 1000000",
        "spindle_disk_slowed_ratio{device=\"d0\"} 0.5",
    ] {
        assert!(metrics.contains(line), "{line} is missing");
    }
    assert!(!metrics.contains("spindle_volume_stream_bytes_per_second{device=\"rest\""));
    served.stop();
}

#[test]
fn a_disk_is_shown_with_the_bus_that_it_shares() {
    let disks = POOL.replacen("drive = \"atlas-ii\"", "drive = \"atlas-ii\"\nbus = \"scsi\"", 1);
    let bus = "[[bus]]\nname = \"scsi\"\nbandwidth = \"20MB/s\"\n\n";
    let served = Served::start(&format!("{bus}{disks}"));
    let shown = ["d0", "d1"].map(|name| disk(&served, name)["bus"].clone());
    assert_eq!(shown, [json!("scsi"), Value::Null]);
    served.stop();
}

const POOL: &str = r#"[[disk]]
name = "d0"
drive = "atlas-ii"

[[disk]]
name = "d1"
drive = "atlas-ii"

[pool]
disks = ["d0", "d1"]
"#;

#[test]
fn a_volume_of_the_pool_has_a_rate_and_a_priority_as_one_on_a_disk_has() {
    let served = Served::start(POOL);
    let spec = json!({
        "name": "films", "size": "4MiB", "layout": "stripe", "iops": "10/s", "run": 8,
        "limit": "70%", "priority": "high"
    });
    let created = create(&served, &spec);
    assert_eq!(created.status, 201, "{created:?}");
    let films = &created.body["volume"];
    assert_eq!((&films["kind"], &films["priority"]), (&json!("rate"), &json!("high")), "{films}");
    assert_eq!((&films["rate"]["iops"], &films["rate"]["run"]), (&json!(10.0), &json!(8)));
    assert_eq!(create(&served, &spec).status, 200);
    let answer = set(&served, "films", &json!({ "priority": "normal", "reserve": "5%" }));
    assert_eq!(answer.body["volume"]["kind"], "reserve", "{answer:?}");
    assert!(!served.text().contains("iops"), "{}", served.text());
    served.stop();
}

#[test]
fn a_stream_in_parts_is_placed_so_and_shown_and_what_comes_early_to_a_disk_is_counted() {
    let served = Served::start(POOL);
    let stream = |parts: [&str; 2]| {
        json!({
            "bandwidth": "128KiB/s", "block": "64KiB", "order": "sequential", "parts": parts,
            "span": ["0s", "10h"]
        })
    };
    let parts = stream(["24MiB", "40MiB"]);
    let spec = json!({ "name": "film", "size": "64MiB", "layout": "single", "stream": parts });
    let created = create(&served, &spec);
    assert_eq!(created.status, 201, "{created:?}");
    let shown = json!([
        { "disk": "d0", "size": "24MiB", "from_s": 0.0, "until_s": 248.0 },
        { "disk": "d1", "size": "40MiB", "from_s": 160.0, "until_s": 568.0 },
    ]);
    assert_eq!(created.body["volume"]["stream"]["parts"], shown);
    assert_eq!(create(&served, &spec).status, 200, "an equal volume is there");

    // The second disk's time is to come.
    let outside = |served: &Served| volume(served, "film")["stream"]["bytes"]["outside"].clone();
    let mut client = open(&served, "film");
    client.read(blocks(0, 128)).expect("it is read");
    assert_eq!(outside(&served), json!(0));
    for start in [24 * 2_048 - 64, 24 * 2_048 + 64] {
        client.read(blocks(start, 128)).expect("it is read");
    }
    assert_eq!(outside(&served), json!(192 * 512), "half of one is on the first disk");

    let other = set(&served, "film", &json!({ "stream": stream(["40MiB", "24MiB"]) }));
    assert_eq!(other.status, 409, "{other:?}");
    let told = "expected what is there, in this order: 24MiB on d0, 40MiB on d1";
    let message = other.body["error"].to_string();
    assert!(message.contains(told), "{message}");
    let longer = set(&served, "film", &json!({ "size": "65MiB" }));
    assert!(longer.status >= 400, "{longer:?}");
    assert!(served.text().contains("parts = [\"24MiB\", \"40MiB\"]"), "{}", served.text());
    let served = Served::again(served.stop());
    assert_eq!(volume(&served, "film")["stream"]["parts"], shown);
    served.stop();
}

#[test]
fn a_stream_in_order_is_set_and_shown_and_a_jump_is_counted_while_it_is_in_order() {
    let served = Served::start(POOL);
    let stream = |order: &str| json!({ "bandwidth": "128KiB/s", "block": "64KiB", "order": order });
    let mut spec = json!({
        "name": "film", "size": "8MiB", "layout": "stripe", "stream": stream("sequential")
    });
    let dry = served.client.post("pool/admission", &spec).expect("an answer");
    assert_eq!(dry.body["admission"]["fits"], true, "{dry:?}");
    let created = create(&served, &spec);
    assert_eq!(created.status, 201, "{created:?}");
    let shown = &created.body["volume"]["stream"];
    // Each of the two disks has one MiB in each two that are read.
    assert_eq!((&shown["order"], &shown["period_ms"]), (&json!("sequential"), &json!(16_000.0)));
    assert_eq!(create(&served, &spec).status, 200, "an equal volume is there");
    spec["stream"] = stream("any");
    faulty(&create(&served, &spec), 409, "exists", Some("name"));

    let out_of_order = || volume(&served, "film")["stream"]["bytes"]["out_of_order"].clone();
    let mut client = open(&served, "film");
    for start in [0, 128, 256, 2_048, 2_176] {
        client.read(blocks(start, 128)).expect("it is read");
    }
    assert_eq!(out_of_order(), json!(128 * 512), "one of them jumped");
    let any = set(&served, "film", &json!({ "stream": stream("any") }));
    let shown = &any.body["volume"]["stream"];
    assert_eq!((&shown["order"], &shown["period_ms"]), (&json!("any"), &json!(500.0)), "{any:?}");
    client.read(blocks(0, 128)).expect("it is read");
    assert_eq!(out_of_order(), json!(128 * 512), "in any order nothing is a jump");
    set(&served, "film", &json!({ "stream": stream("sequential") }));
    for start in [4_096, 0] {
        client.read(blocks(start, 128)).expect("it is read");
    }
    assert_eq!(out_of_order(), json!(2 * 128 * 512));
    let text = served.text();
    assert!(text.contains("block = \"64KiB\", order = \"sequential\" }"), "{text}");
    let served = Served::again(served.stop());
    let mut client = open(&served, "film");
    for start in [4_096, 0] {
        client.read(blocks(start, 128)).expect("it is read");
    }
    let bytes = &volume(&served, "film")["stream"]["bytes"];
    assert_eq!(bytes["out_of_order"], json!(128 * 512), "it is watched from the start on");
    let metrics = served.client.metrics().expect("an answer");
    let line = metrics.lines().find(|line| line.contains("film") && line.contains("out_of_order"));
    assert!(line.is_some_and(|line| line.ends_with(" 65536")), "{line:?}");
    served.stop();
}

/// A bounded latency in which up to three requests may arrive at once.
fn bounded(within: &str) -> Value {
    json!({ "within": within, "requests": "5/s", "burst": 3, "size": "64KiB" })
}

#[test]
fn a_bounded_latency_is_set_and_removed_while_the_daemon_runs_and_kept_over_a_restart() {
    let served = Served::start(&CONFIG.replace("50%", "20%"));
    let answer = set(&served, "a", &json!({ "latency": bounded("400ms") }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = |volume: &Value| {
        let latency = &volume["latency"];
        assert_eq!((&volume["kind"], &volume["reserve"]), (&json!("latency"), &json!("20%")));
        let found = [&latency["within_ms"], &latency["requests_per_s"], &latency["burst"]];
        assert_eq!(found, [&json!(400.0), &json!(5.0), &json!(3)], "{volume}");
        assert_eq!(latency["size"], "64KiB", "{volume}");
    };
    shown(&answer.body["volume"]);
    assert_eq!(answer.body["volume"]["latency"]["closest_ms"], Value::Null, "no answer yet");
    let served = Served::again(served.stop());
    shown(&volume(&served, "a"));
    let mut client = open(&served, "a");
    client.read(blocks(0, 8)).expect("it is read");
    client.read(blocks(1_000, 256)).expect("it is read");
    let latency = volume(&served, "a")["latency"].clone();
    let counts = [&latency["answered"], &latency["late"], &latency["beyond"]];
    assert_eq!(counts, [1, 0, 1], "the second is larger than 64 KiB: {latency}");
    let closest = latency["closest_ms"].as_f64().expect("an answer");
    assert!(closest > 0.0 && closest <= 400.0, "{latency}");
    let dropped = set(&served, "a", &json!({ "drop_latency": true }));
    let volume = &dropped.body["volume"];
    assert_eq!((&volume["kind"], &volume["latency"]), (&json!("reserve"), &Value::Null));
    assert!(!served.text().contains("latency"), "{}", served.text());
    client.read(blocks(2_000, 8)).expect("it is served on");
    served.stop();
}

#[test]
fn a_bounded_latency_that_does_not_fit_is_refused_with_values_of_which_each_fits() {
    let served = Served::start(&CONFIG.replace("50%", "20%"));
    let before = served.text();
    let asked = bounded("100ms");
    let answer = set(&served, "b", &json!({ "latency": asked }));
    faulty(&answer, 409, "refused", Some("latency"));
    let deadlines = &answer.body["error"]["deadlines"];
    assert_eq!(deadlines["constraint"], "blocked", "{answer:?}");
    let spec = json!({ "name": "c", "disk": "d0", "size": "16MiB", "latency": asked });
    let dry = served.client.post("admission", &spec).expect("an answer");
    let admission = &dry.body["admission"];
    assert_eq!(
        (&admission["fits"], admission["reason"]["code"].as_str()),
        (&json!(false), Some("refused"))
    );
    let offers = deadlines["latency"].as_object().expect("something would fit");
    assert!(offers.contains_key("within") && offers.contains_key("burst"), "{answer:?}");
    assert_eq!(served.text(), before, "nothing has changed");
    for (key, value) in offers {
        let mut latency = asked.clone();
        latency[key] = value.clone();
        let answer = set(&served, "b", &json!({ "latency": latency }));
        assert_eq!(answer.status, 200, "{key} = {value}: {answer:?}");
    }
    served.stop();
}

#[test]
fn a_bounded_latency_and_a_stream_replace_each_other_and_neither_stands_beside_a_limit() {
    let served = Served::start(CONFIG);
    let stream = json!({ "bandwidth": "100KB/s", "block": "64KiB" });
    let latency = bounded("1s");
    for (change, kind) in [
        (json!({ "latency": latency }), "latency"),
        (json!({ "stream": stream }), "stream"),
        (json!({ "latency": latency }), "latency"),
        (json!({ "reserve": "10%" }), "latency"),
        (json!({ "stream": stream }), "stream"),
    ] {
        let answer = set(&served, "b", &change);
        assert_eq!(answer.body["volume"]["kind"], kind, "{change}: {answer:?}");
    }
    let both = json!({ "latency": latency, "stream": stream });
    faulty(&set(&served, "b", &both), 422, "invalid", Some("stream"));
    let both = json!({ "latency": latency, "drop_latency": true });
    faulty(&set(&served, "b", &both), 422, "invalid", Some("drop_latency"));
    assert_eq!(set(&served, "b", &json!({ "drop_stream": true, "limit": "50%" })).status, 200);
    faulty(&set(&served, "b", &json!({ "latency": latency })), 422, "invalid", Some("limit"));
    let unlimited = json!({ "latency": latency, "limit": "100%" });
    assert_eq!(set(&served, "b", &unlimited).status, 200, "all is no limit");
    faulty(&set(&served, "b", &json!({ "latency": {} })), 422, "invalid", Some("latency"));
    served.stop();
}

#[test]
fn a_volume_of_the_pool_has_a_bounded_latency_on_each_of_its_disks() {
    let served = Served::start(POOL);
    let spec = |requests: &str| {
        json!({
            "name": "log", "size": "4MiB", "layout": "stripe",
            "latency": { "within": "1s", "requests": requests, "size": "64KiB" }
        })
    };
    let created = create(&served, &spec("4/s"));
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.body["volume"]["kind"], "latency");
    assert_eq!(create(&served, &spec("4/s")).status, 200, "an equal volume is there");
    faulty(&create(&served, &spec("3/s")), 409, "exists", Some("name"));
    open(&served, "log").read(blocks(0, 8)).expect("it is read");
    let shown = volume(&served, "log");
    assert_eq!((&shown["latency"]["answered"], &shown["latency"]["late"]), (&json!(1), &json!(0)));
    let refused = set(&served, "log", &json!({ "latency": bounded("20ms") }));
    faulty(&refused, 409, "refused", Some("latency"));
    let changed = set(&served, "log", &json!({ "latency": bounded("1s") }));
    assert_eq!(changed.body["volume"]["latency"]["burst"], 3, "{changed:?}");
    assert_eq!(set(&served, "log", &json!({ "drop_latency": true })).status, 200);
    assert_eq!(volume(&served, "log")["kind"], "best-effort");
    served.stop();
}

/// A stream of 100 kB/s under the default policy, and a volume beside it.
const BYTES: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"

[[volume]]
name = "cam"
disk = "d0"
size = "64MiB"
stream = { bandwidth = "100KB/s", block = "64KiB" }

[[volume]]
name = "rest"
disk = "d0"
size = "64MiB"
"#;

#[test]
fn bytes_beyond_the_bandwidth_of_a_stream_and_outside_of_it_are_counted() {
    let served = Served::start(BYTES);
    assert_eq!(volume(&served, "cam")["stream"]["bytes"], Value::Null, "there are none yet");
    let (mut sender, mut receiver) = open(&served, "cam").split();
    for cookie in 0..8 {
        sender.queue(cookie, Operation::read(blocks(cookie * 128, 128)), &[]).expect("room");
    }
    sender.flush().expect("it reads");
    for _ in 0..8 {
        receiver.receive().expect("an answer").result.expect("it was read");
    }
    let trim = Operation { op: Op::Trim, extent: blocks(0, 8), fua: false };
    open(&served, "cam").perform(trim, &[]).expect("it is trimmed");
    let shown = volume(&served, "cam");
    let bytes = &shown["stream"]["bytes"];
    let of = |key: &str| bytes[key].as_u64().expect("a number");
    assert_eq!((of("asked"), of("met"), of("missed")), (8 << 16, 8 << 16, 0), "{bytes}");
    // Two blocks at once are borne, beside what is in the drive.
    assert!(of("beyond_rate") >= 3 << 16 && of("out_of_order") == 0, "{bytes}");
    assert_eq!(of("outside"), 4_096, "{bytes}");
    assert!(bytes["closest_ms"].as_f64().expect("an answer") > 0.0, "{bytes}");
    let metrics = served.client.metrics().expect("an answer");
    for (name, value) in [("asked", 8 << 16), ("late", 0), ("outside", 4_096)] {
        let line = format!(
            "spindle_volume_stream_{name}_bytes_total{{device=\"cam\",disk=\"d0\"}} {value}\n"
        );
        assert!(metrics.contains(&line), "{line} is missing");
    }
    assert!(metrics.contains("spindle_volume_stream_closest_seconds{device=\"cam\""));
    assert!(!metrics.contains("spindle_volume_stream_asked_bytes_total{device=\"rest\""));
    served.stop();
}

#[test]
fn the_memory_of_the_read_ahead_is_shown_with_its_bound_and_its_hits() {
    let config =
        BYTES.replace("drive = \"hgst-7k8\"", "drive = \"hgst-7k8\"\nread_ahead = \"8MiB\"");
    let served = Served::start(&config);
    let mut client = open(&served, "rest");
    let mut position = 0;
    while disk(&served, "d0")["read_ahead"]["hits"] == 0 {
        client.read(blocks(position, 8)).expect("it is read");
        position += 8;
    }
    let ahead = disk(&served, "d0")["read_ahead"].clone();
    let of = |key: &str| ahead[key].as_u64().expect("a number");
    assert_eq!(of("memory_bytes"), 8 << 20, "{ahead}");
    assert!(of("used_bytes") <= 8 << 20 && of("read_bytes") > 0, "{ahead}");
    let metrics = served.client.metrics().expect("an answer");
    assert!(metrics.contains("spindle_disk_read_ahead_memory_bytes{device=\"d0\"} 8388608\n"));
    assert!(!metrics.contains("spindle_disk_read_ahead_hits_total{device=\"d0\"} 0\n"));
    assert_eq!(served.client.delete("volumes", "rest", Some(true)).expect("an answer").status, 204);
    let after = disk(&served, "d0")["read_ahead"].clone();
    assert_eq!(after["used_bytes"], 0, "{after}");
    assert!(after["hits"].as_u64() >= ahead["hits"].as_u64(), "a counter only grows: {after}");
    assert!(after["dropped_bytes"].as_u64() > Some(0), "what was not read is dropped: {after}");
    served.stop();
    let off = Served::start(&config.replace("8MiB", "off"));
    assert_eq!(disk(&off, "d0")["read_ahead"], Value::Null);
    off.stop();
}
