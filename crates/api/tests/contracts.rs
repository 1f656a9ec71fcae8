//! Every kind of contract, set and shown over the API.

mod common;

use common::{CONFIG, Served};
use serde_json::{Value, json};
use units::Share;

fn set(served: &Served, volume: &str, change: &Value) -> (u16, Value) {
    let answer = served.client.patch("volumes", volume, change).expect("an answer");
    (answer.status, answer.body)
}

fn disk(served: &Served, name: &str) -> Value {
    served.client.get("disks", Some(name)).expect("an answer").body["disk"].clone()
}

fn share(text: &Value) -> Share {
    text.as_str().expect("text").parse().expect("a share")
}

#[test]
fn a_rate_and_a_priority_are_set_shown_and_kept_over_a_restart() {
    let served = Served::start(CONFIG);
    let (status, body) =
        set(&served, "a", &json!({ "iops": "20/s", "run": 4, "limit": "60%", "priority": "high" }));
    assert_eq!(status, 200, "{body}");
    let shown = |volume: &Value| {
        assert_eq!((&volume["kind"], &volume["priority"]), (&json!("rate"), &json!("high")));
        assert_eq!(volume["rate"]["iops"], json!(20.0), "{volume}");
        assert_eq!((&volume["rate"]["run"], &volume["rate"]["block"]), (&json!(4), &json!("4KiB")));
        assert!(share(&volume["reserve"]) > Share::NONE, "{volume}");
    };
    shown(&body["volume"]);
    assert_eq!(share(&disk(&served, "d0")["reserved"]), Share::from_percent(60));
    assert!(served.text().contains("priority = \"high\""), "{}", served.text());
    let (status, body) = set(&served, "b", &json!({ "reserve": "50%" }));
    assert_eq!((status, &body["error"]["field"]), (409, &json!("reserve")), "{body}");
    let served = Served::again(served.stop());
    let read = served.client.get("volumes", Some("a")).expect("an answer").body;
    shown(&read["volume"]);
    let (status, body) = set(&served, "a", &json!({ "priority": "normal", "reserve": "10%" }));
    assert_eq!((status, &body["volume"]["kind"]), (200, &json!("reserve")), "{body}");
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
    let create = |spec: &Value| served.client.post("volumes", spec).expect("an answer").status;
    assert_eq!((create(&spec), create(&spec)), (201, 200));
    for (field, value) in [("priority", json!("normal")), ("run", json!(32))] {
        let mut other = spec.clone();
        other[field] = value;
        assert_eq!(create(&other), 409, "{other}");
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
        let (status, body) = set(&served, "a", &json!({ field: value }));
        let error = &body["error"];
        assert_eq!((status, &error["field"]), (422, &json!(field)), "{body}");
        let accepted = error["accepted"].as_str().expect("text");
        let expected = format!("no `{field}` on disk \"d0\": its policy \"fcfs\" keeps none");
        assert!(accepted.starts_with(&expected), "{accepted}");
    }
    assert_eq!(served.text(), fcfs);
    assert_eq!(set(&served, "a", &json!({ "priority": "high" })).0, 200, "priority is kept");
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
    let disk = disk(&served, "d0");
    assert_eq!(disk["slowed"], "50%");
    assert_eq!(share(&disk["reserved"]), Share::from_percent(10));
    let streams = share(&disk["reserved_by_streams"]);
    let utilization = cam["stream"]["utilization"].as_f64().expect("a number");
    assert!((streams.as_f64() - utilization).abs() < 1e-6 && utilization > 0.0, "{disk}");
    let sum = streams
        .checked_add(share(&disk["left"]))
        .and_then(|sum| sum.checked_add(Share::from_percent(10)));
    assert_eq!(sum, Some(Share::ALL), "{disk}");
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
    let created = served.client.post("volumes", &spec).expect("an answer");
    assert_eq!(created.status, 201, "{created:?}");
    let films = &created.body["volume"];
    assert_eq!((&films["kind"], &films["priority"]), (&json!("rate"), &json!("high")), "{films}");
    assert_eq!((&films["rate"]["iops"], &films["rate"]["run"]), (&json!(10.0), &json!(8)));
    assert_eq!(served.client.post("volumes", &spec).expect("an answer").status, 200);
    let (status, body) = set(&served, "films", &json!({ "priority": "normal", "reserve": "5%" }));
    assert_eq!((status, &body["volume"]["kind"]), (200, &json!("reserve")), "{body}");
    assert!(!served.text().contains("iops"), "{}", served.text());
    served.stop();
}
