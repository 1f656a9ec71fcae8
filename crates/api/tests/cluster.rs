//! What a cluster's driver asks of a daemon: labels, admission in the pool, clones, events.

mod common;

use std::ops::ControlFlow;
use std::time::Duration;

use common::{Served, blocks, create, faulty, open, set, volume};
use serde_json::{Value, json};
use spindle_api::EventQuery;

/// A pool of two small disks in memory.
const POOL: &str = r#"
[[disk]]
name = "d0"
drive = "memory"
size = "256MiB"

[[disk]]
name = "d1"
drive = "memory"
size = "256MiB"

[pool]
disks = ["d0", "d1"]
"#;

fn admission(served: &Served, spec: &Value) -> Value {
    let answer = served.client.post("pool/admission", spec).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["admission"].clone()
}

#[test]
fn labels_are_set_replaced_and_in_the_metrics_and_make_no_other_volume() {
    let served = Served::start(POOL);
    let mut spec = json!({
        "name": "a", "size": "4MiB", "layout": "single", "reserve": "30%",
        "labels": { "namespace": "shop", "pvc": "data \"0\"" }
    });
    assert_eq!(create(&served, &spec).status, 201);
    assert_eq!(volume(&served, "a")["labels"], spec["labels"]);
    spec["labels"] = json!({ "namespace": "other" });
    assert_eq!(create(&served, &spec).status, 200, "an equal volume is the same volume");
    assert_eq!(volume(&served, "a")["labels"]["namespace"], "shop");
    spec["reserve"] = json!("20%");
    faulty(&create(&served, &spec), 409, "exists", Some("name"));
    let line = "spindle_volume_labels{device=\"a\",disk=\"d0+d1\",namespace=\"shop\",\
                pvc=\"data \\\"0\\\"\"} 1";
    let text = served.client.metrics().expect("there are metrics");
    assert!(text.contains(line), "{text}");
    let answer = set(&served, "a", &json!({ "labels": { "team": "x" } }));
    assert_eq!(answer.body["volume"]["labels"], json!({ "team": "x" }));
    faulty(
        &set(&served, "a", &json!({ "labels": { "Team": "x" } })),
        422,
        "invalid",
        Some("labels"),
    );
    assert_eq!(set(&served, "a", &json!({ "labels": {} })).body["volume"]["labels"], Value::Null);
    served.stop();
}

/// Admission in the pool says what is left on each disk, and what it says is created.
#[test]
fn admission_in_the_pool_changes_nothing_and_what_it_offers_fits() {
    let served = Served::start(POOL);
    let before = served.text();
    let spec = |size: &str, reserve: &str| {
        let (zone, layout) = ("slow", "stripe");
        json!({ "name": "x", "size": size, "reserve": reserve, "zone": zone, "layout": layout })
    };
    let said = admission(&served, &spec("4MiB", "30%"));
    assert_eq!((&said["fits"], &said["contract_fits"]), (&json!(true), &json!(true)), "{said}");
    assert_eq!(said["disks"].as_array().map(Vec::len), Some(2), "{said}");
    let said = admission(&served, &spec("4MiB", "99%"));
    assert_eq!((&said["fits"], &said["contract_fits"]), (&json!(false), &json!(false)), "{said}");
    let most = said["reserve_max"].as_str().expect("a share").to_owned();
    let said = admission(&served, &spec("500MiB", &most));
    assert_eq!((&said["fits"], &said["contract_fits"]), (&json!(false), &json!(true)), "{said}");
    assert_eq!(said["reason"]["field"], "size", "{said}");
    let size = said["size_max"].as_str().expect("a size").to_owned();
    assert_eq!(served.text(), before, "nothing has changed");
    let slow: u64 = said["disks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|disk| disk["slow_bytes"].as_u64().expect("a number"))
        .sum();
    assert_eq!(said["size_max_bytes"], slow, "a stripe over two equal disks");
    assert_eq!(create(&served, &spec(&size, &most)).status, 201, "what is offered fits");
    let said = admission(&served, &json!({ "name": "y", "size": "1MiB", "zone": "slow" }));
    assert_eq!((&said["fits"], &said["size_max_bytes"]), (&json!(false), &json!(0)), "{said}");
    let thin = json!({ "name": "y", "size": "1MiB", "zone": "slow", "thin": true });
    assert_eq!(admission(&served, &thin)["fits"], true, "a thin one needs no block now");
    let answer = served.client.post(
        "pool/admission",
        &json!({
            "name": "y", "size": "1MiB", "zone": "middle"
        }),
    );
    faulty(&answer.expect("an answer"), 422, "invalid", Some("zone"));
    served.stop();
}

/// The verdict on a snapshot or a relocation is that of the call itself, which the check does not
/// make.
#[test]
fn a_snapshot_and_a_relocation_are_checked_before_they_are_made() {
    let served = Served::start(POOL);
    let spec = json!({ "name": "a", "size": "4MiB", "disks": ["d0"], "reserve": "30%" });
    assert_eq!(create(&served, &spec).status, 201);
    let pool = || served.client.get("pool", None).expect("an answer").body["pool"].clone();
    let post = |path: &str, body: &Value| served.client.post(path, body).expect("an answer");
    let (config, before) = (served.text(), pool());
    let cases = [
        ("snapshots", json!({ "name": "monday" }), true),
        ("snapshots", json!({ "name": "a" }), false),
        ("snapshots", json!({ "name": "" }), false),
        ("move", json!({ "disks": ["d1"] }), true),
        ("move", json!({ "zone": "fast" }), true),
        ("move", json!({}), true),
        ("move", json!({ "disks": ["none"] }), false),
    ];
    for (call, body, fits) in &cases {
        let answer = post(&format!("volumes/a/{call}/admission"), body);
        assert_eq!(answer.status, 200, "{call} {body}: {answer:?}");
        let said = &answer.body["admission"];
        assert_eq!(said["fits"], json!(fits), "{call} {body}: {said}");
        assert_eq!((served.text(), pool()), (config.clone(), before.clone()), "{call} {body}");
        if !fits {
            let refused = post(&format!("volumes/a/{call}"), body);
            assert_eq!(refused.status, 409, "{refused:?}");
            let sentences = (&said["reason"]["message"], &refused.body["error"]["message"]);
            assert_eq!(sentences.0, sentences.1, "{call} {body}");
        }
    }
    for path in ["volumes/a/move/admission", "volumes/a/move"] {
        faulty(&post(path, &json!({ "disks": ["d1", "d1"] })), 422, "invalid", Some("disks"));
    }
    for (call, body) in [("snapshots", &cases[0].1), ("move", &cases[3].1)] {
        let answer = post(&format!("volumes/a/{call}"), body);
        assert_eq!(answer.status, 200, "{call} {body}: {answer:?}");
    }
    let of_snapshot = post("volumes/monday/move/admission", &json!({ "disks": ["d0"] }));
    assert_eq!(of_snapshot.body["admission"]["fits"], false, "{of_snapshot:?}");
    faulty(&post("volumes/none/move/admission", &json!({})), 404, "missing", Some("name"));
    let middle = post("volumes/a/move/admission", &json!({ "zone": "middle" }));
    faulty(&middle, 422, "invalid", Some("zone"));
    served.stop();
}

/// What is kept of contracts is remembered whether or not a client reads it, and a client that
/// comes later gets it first.
#[test]
fn the_last_hour_of_a_contract_is_there_for_a_client_that_comes_later() {
    let served = Served::start(common::CONFIG);
    let latency = json!({ "within": "400ms", "requests": "5/s", "burst": 4, "size": "4KiB" });
    assert_eq!(set(&served, "b", &json!({ "latency": latency })).status, 200);
    let mut client = open(&served, "b");
    for request in 0..4 {
        client.read(blocks(request * 8, 8)).expect("it is served");
    }
    // Events until one has every answer: samples are ten seconds apart.
    let listen = |until: &mut dyn FnMut(Value) -> ControlFlow<()>| {
        let query =
            EventQuery { promises: Some(true), frames: Some(false), ..EventQuery::default() };
        let ended = served.client.events(&query, Duration::from_millis(50), |line| {
            let line = line.map(String::from_utf8_lossy).unwrap_or_default();
            let data = line.strip_prefix("data: ").map(serde_json::from_str);
            data.map_or(ControlFlow::Continue(()), |data| until(data.expect("JSON")))
        });
        assert!(ended.expect("a stream").is_none());
    };
    let met = |volumes: &Value| -> u64 {
        let of = volumes.as_array().into_iter().flatten().find(|one| one["name"] == "b");
        let met = of.and_then(|of| of["met"].as_array());
        met.into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    listen(&mut |event| {
        if met(&event["volumes"]) == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    listen(&mut |event| {
        assert_eq!(met(&event["volumes"]), 4, "the first event has the hour: {event}");
        ControlFlow::Break(())
    });
    let answer = served.client.get("promises", None).expect("an answer");
    let volumes = answer.body["volumes"].clone();
    assert_eq!((met(&volumes), volumes.as_array().map(Vec::len)), (4, Some(1)), "{answer:?}");
    let kept = &volumes[0];
    assert_eq!((&kept["missed"], &kept["worth"]), (&Value::Null, &Value::Null), "{kept}");
    let closest = kept["closest_ms"].as_array().expect("a list");
    let closest = closest.iter().filter_map(Value::as_f64).fold(f64::MAX, f64::min);
    assert!(closest > 0.0 && closest < 400.0, "{kept}");
    served.stop();
}

/// A clone of a snapshot has the snapshot's content, whatever is written to either, and is there
/// after the snapshot and the volume are removed. The config keeps what it was made from.
#[test]
fn a_clone_is_a_volume_with_a_contract_of_its_own() {
    let served = Served::start(POOL);
    let origin = json!({ "name": "a", "size": "4MiB", "layout": "stripe", "thin": true });
    assert_eq!(create(&served, &origin).status, 201);
    let mut client = open(&served, "a");
    client.write(blocks(0, 8), &[1; 4_096]).expect("it is written");
    let taken = served.client.have("a", "snapshots", &json!({ "name": "s" })).expect("an answer");
    assert_eq!(taken.status, 200, "{taken:?}");
    client.write(blocks(0, 8), &[2; 4_096]).expect("it is written");
    let clone = json!({ "name": "b", "size": "6MiB", "source": "s", "reserve": "20%" });
    let small = json!({ "name": "b", "size": "3MiB", "source": "s" });
    faulty(&create(&served, &small), 409, "refused", None);
    let elsewhere = json!({ "name": "b", "size": "6MiB", "source": "s", "zone": "fast" });
    faulty(&create(&served, &elsewhere), 409, "refused", None);
    faulty(
        &create(&served, &json!({ "name": "b", "size": "6MiB", "source": "none" })),
        404,
        "missing",
        Some("name"),
    );
    let greedy = json!({ "name": "b", "size": "6MiB", "source": "s", "reserve": "99%" });
    faulty(&create(&served, &greedy), 409, "refused", Some("reserve"));
    let answer = create(&served, &clone);
    assert_eq!(answer.status, 201, "{answer:?}");
    let made = volume(&served, "b");
    assert_eq!((&made["source"], &made["reserve"]), (&json!("s"), &json!("20%")));
    assert_eq!((&made["size"], &made["pool"]["layout"]), (&json!("6MiB"), &json!("stripe")));
    let mut copy = open(&served, "b");
    assert_eq!(copy.read(blocks(0, 8)).expect("it is read"), [1; 4_096]);
    assert_eq!(copy.read(blocks(10_000, 8)).expect("it is read"), [0; 4_096]);
    copy.write(blocks(4, 4), &[3; 2_048]).expect("it is written");
    assert_eq!(client.read(blocks(0, 8)).expect("it is read"), [2; 4_096]);
    drop(client);
    // Of a volume too.
    let second = json!({ "name": "c", "size": "4MiB", "source": "a" });
    assert_eq!(create(&served, &second).status, 201);
    for gone in ["s", "a"] {
        let removed = served.client.delete("volumes", gone, Some(true)).expect("an answer");
        assert_eq!(removed.status, 204, "{removed:?}");
    }
    assert_eq!(create(&served, &clone).status, 200, "the same again, its source gone");
    let other = json!({ "name": "b", "size": "6MiB", "reserve": "20%", "layout": "stripe" });
    faulty(&create(&served, &other), 409, "exists", Some("name"));
    let content = [[1; 2_048], [3; 2_048]].concat();
    assert_eq!(copy.read(blocks(0, 8)).expect("it is read"), content);
    assert_eq!(open(&served, "c").read(blocks(0, 8)).expect("it is read"), [2; 4_096]);
    served.stop();
}

/// Volumes that share blocks lie on the same disks: they move together, with their contracts.
#[test]
fn a_clone_moves_with_its_source() {
    let served = Served::start(POOL);
    let origin = json!({ "name": "a", "size": "4MiB", "disks": ["d0"], "reserve": "10%" });
    assert_eq!(create(&served, &origin).status, 201);
    let clone = json!({ "name": "b", "size": "4MiB", "source": "a", "reserve": "20%" });
    assert_eq!(create(&served, &clone).status, 201);
    let moved = served.client.have("a", "move", &json!({ "disks": ["d1"] })).expect("an answer");
    assert_eq!(moved.status, 200, "{moved:?}");
    assert_eq!(served.text().matches("disks = [\"d1\"]").count(), 2, "{}", served.text());
    let contents = open(&served, "b").read(blocks(0, 8)).expect("it is read");
    assert_eq!(contents, [0; 4_096]);
    served.stop();
}

/// The events of a stream until `enough`, as `kind: data`.
fn events(
    served: &Served,
    frames: bool,
    mut enough: impl FnMut(&[(String, Value)]) -> bool,
) -> Vec<(String, Value)> {
    let client = Some("a test".to_owned());
    let query = EventQuery { client, frames: Some(frames), ..EventQuery::default() };
    let (mut kind, mut all) = (String::new(), Vec::new());
    let refused = served.client.events(&query, Duration::from_millis(20), |line| {
        let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut kind);
        }
        if let Some(data) = line.strip_prefix("data: ") {
            all.push((kind.clone(), serde_json::from_str(data).expect("JSON")));
        }
        assert!(all.len() < 100, "what was awaited has not come: {all:?}");
        if enough(&all) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(refused.expect("it is served"), None);
    all
}

#[test]
fn the_event_stream_tells_of_changes_and_refusals_and_has_a_frame_a_second() {
    let served = Served::start(POOL);
    let mut steps = vec![
        json!({ "name": "b", "size": "4MiB", "layout": "single", "reserve": "99%" }),
        json!({ "name": "a", "size": "4MiB", "layout": "single", "reserve": "30%" }),
    ];
    let heard = events(&served, true, |all| {
        // The stream has begun once there is a frame.
        if all.iter().any(|(kind, _)| kind == "frame")
            && let Some(spec) = steps.pop()
        {
            // A client has a runtime of its own, and one runs on this thread.
            std::thread::scope(|scope| drop(scope.spawn(|| create(&served, &spec)).join()));
        }
        all.iter().any(|(kind, _)| kind == "refused")
            && all
                .last()
                .is_some_and(|(kind, data)| kind == "frame" && data["volumes"][0]["name"] == "a")
    });
    let of = |kind: &str| heard.iter().find(|(event, _)| event == kind).expect("it came").1.clone();
    assert_eq!(
        (&of("volume")["change"], &of("volume")["volume"]),
        (&json!("created"), &json!("a"))
    );
    let refused = of("refused");
    assert_eq!(refused["volume"], "b");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("reserve")), "{refused}");
    assert_eq!(of("frame")["disks"].as_array().map(Vec::len), Some(2));
    let answer =
        served.client.ask(hyper::Method::GET, "/v1/events?client=", hyper::body::Bytes::new());
    faulty(&answer.expect("an answer"), 422, "invalid", Some("client"));
    served.stop();
}
