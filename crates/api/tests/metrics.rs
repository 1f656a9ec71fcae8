//! The metrics as a Prometheus server scrapes them.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::exposition::{Read, read};
use common::{CONFIG, Served};
use serde_json::{Value, json};
use spindle_api::{MetricKind, metrics};
use units::{Extent, Lba, Op, Operation, Sectors};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn scrape(served: &Served) -> BTreeMap<String, Read> {
    read(&served.client.metrics().expect("an answer"))
}

/// The value of `name` for this device.
fn value(families: &BTreeMap<String, Read>, name: &str, device: &str) -> f64 {
    let samples = &families.get(name).unwrap_or_else(|| panic!("no {name}")).samples;
    let sample = samples.iter().find(|sample| sample.label("device") == Some(device));
    sample.unwrap_or_else(|| panic!("no {name} of {device}")).value
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Sends requests of every kind to volume `a`: 3 reads of 8 sectors, 2 writes of 16, a trim, a
/// flush and a write of zeroes.
fn work(served: &Served) {
    let mut client = nbd::client::Client::connect(&served.nbd()).expect("it listens");
    client.go("a").expect("it is served");
    let extent = |start, len| Extent::new(Lba(start), Sectors(len));
    for start in [0, 80_000, 8] {
        client.read(extent(start, 8)).expect("a read");
    }
    for start in [64, 40_000] {
        client.write(extent(start, 16), &[7; 16 * 512]).expect("a write");
    }
    let operation = |op, extent| Operation { op, extent, fua: false };
    client.perform(operation(Op::Trim, extent(0, 8)), &[]).expect("a trim");
    client.perform(operation(Op::WriteZeroes, extent(0, 8)), &[]).expect("zeroes");
    client.flush().expect("a flush");
    client.disconnect().expect("goodbye");
}

#[test]
fn the_text_has_every_metric_with_its_type_help_and_labels_and_no_other() {
    let served = Served::start(CONFIG);
    let families = scrape(&served);
    let reported: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    let all = metrics();
    assert_eq!(reported, all.iter().map(|metric| metric.name.as_str()).collect());
    for metric in &all {
        let Read { kind, help, samples } = &families[&metric.name];
        assert_eq!((kind.as_str(), help.as_str()), (metric.kind.as_str(), metric.help));
        for sample in samples {
            let labels: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
            let bound = metric.kind == MetricKind::Histogram && !sample.name.ends_with("_bucket");
            let expected = &metric.labels[..metric.labels.len() - usize::from(bound)];
            assert_eq!(labels, expected, "{sample:?}");
        }
    }
    served.stop();
}

#[test]
fn what_a_write_buffer_holds_and_writes_is_counted() {
    let sized = "drive = \"hgst-7k8\"\nwrite_buffer = \"8MiB\"";
    let served = Served::start(&CONFIG.replace("drive = \"hgst-7k8\"", sized));
    work(&served);
    let families = scrape(&served);
    // Two writes of 16 sectors, and what a flush waits for has been written.
    for (suffix, expected) in [
        ("memory_bytes", f64::from(8 << 20)),
        ("used_bytes", 0.0),
        ("writes_total", 2.0),
        ("waits_total", 0.0),
        ("destages_total", 2.0),
        ("destaged_bytes_total", 2.0 * 8192.0),
        ("overwritten_bytes_total", 0.0),
        ("lost_bytes_total", 0.0),
    ] {
        let name = format!("spindle_disk_write_buffer_{suffix}");
        let found = value(&families, &name, "d0");
        assert!(near(found, expected), "{name}: {found}, expected {expected}");
    }
    served.stop();
}

#[test]
fn the_counters_of_a_volume_are_its_requests_and_equal_the_api_s() {
    // What goes from a write buffer to the disk would overlap with them.
    let unbuffered = "drive = \"hgst-7k8\"\nwrite_buffer = \"off\"";
    let served = Served::start(&CONFIG.replace("drive = \"hgst-7k8\"", unbuffered));
    work(&served);
    let families = scrape(&served);
    for (suffix, expected) in [
        ("reads_completed_total", 3.0),
        ("read_bytes_total", 3.0 * 4096.0),
        ("writes_completed_total", 3.0),
        ("written_bytes_total", 2.0 * 8192.0 + 4096.0),
        ("discards_completed_total", 1.0),
        ("discarded_sectors_total", 8.0),
        ("flush_requests_total", 1.0),
        ("failures_total", 0.0),
        ("io_now", 0.0),
    ] {
        for (device, prefix) in [("a", "spindle_volume_"), ("d0", "spindle_disk_")] {
            let reported = value(&families, &format!("{prefix}{suffix}"), device);
            assert!(near(reported, expected), "{prefix}{suffix} of {device}: {reported}");
        }
        let other = value(&families, &format!("spindle_volume_{suffix}"), "b");
        assert!(near(other, 0.0), "{suffix}: b has had no requests");
    }
    let answer = served.client.get("volumes", Some("a")).expect("an answer").body;
    let volume = &answer["volume"];
    let number = |value: &Value| value.as_f64().expect("a number");
    let of = |name: &str| value(&families, name, "a");
    assert!(near(number(&volume["requests"]), 8.0), "{volume}");
    let charged = of("spindle_volume_disk_time_seconds_total");
    assert!(near(number(&volume["disk_time_s"]), charged) && charged > 0.0, "{volume}");
    let parts = ["read", "write", "discard", "flush_requests"];
    let parts = parts.map(|part| of(&format!("spindle_volume_{part}_time_seconds_total")));
    // The requests were sent one at a time, so the busy time is the sum of their times.
    let (time, weighted) = (
        of("spindle_volume_io_time_seconds_total"),
        of("spindle_volume_io_time_weighted_seconds_total"),
    );
    assert!(near(time, parts.iter().sum()) && near(time, weighted), "{time} {weighted} {parts:?}");
    assert!(
        near(of("spindle_volume_reserve_ratio"), 0.5)
            && near(of("spindle_volume_limit_ratio"), 1.0)
    );
    assert!(near(of("spindle_volume_size_bytes"), number(&volume["size_bytes"])));
    assert!(near(value(&families, "spindle_disk_reserved_ratio", "d0"), 0.5));
    let latency = &families["spindle_volume_latency_seconds"].samples;
    let count =
        latency.iter().find(|s| s.name.ends_with("_count") && s.label("device") == Some("a"));
    assert!(near(count.expect("a count").value, 8.0));
    served.stop();
}

#[test]
fn counters_only_grow_while_requests_are_served_and_volumes_come_and_go() {
    let served = Served::start(CONFIG);
    let mut before = scrape(&served);
    for round in 0..4 {
        match round {
            0 | 3 => work(&served),
            1 => {
                let spec = json!({ "name": "c", "disk": "d0", "size": "1MiB" });
                assert_eq!(served.client.post("volumes", &spec).expect("an answer").status, 201);
            }
            _ => assert_eq!(
                served.client.delete("volumes", "c", Some(false)).expect("an answer").status,
                204
            ),
        }
        let after = scrape(&served);
        for (name, family) in &before {
            for sample in family.samples.iter().filter(|_| family.kind != "gauge") {
                let same = |s: &&common::exposition::Sample| {
                    s.name == sample.name && s.labels == sample.labels
                };
                let Some(later) = after[name].samples.iter().find(same) else {
                    assert_eq!(
                        sample.label("device"),
                        Some("c"),
                        "only removed volumes have no sample"
                    );
                    continue;
                };
                assert!(later.value >= sample.value, "{sample:?} {later:?}");
            }
        }
        let [idle, seek] = ["idle", "seek"].map(|kind| {
            let samples = &after["spindle_disk_time_seconds_total"].samples;
            samples.iter().find(|s| s.label("kind") == Some(kind)).expect("it has a sample").value
        });
        let up = value(&after, "spindle_disk_uptime_seconds_total", "d0");
        assert!(idle > 0.0 && idle < up && seek > 0.0 && seek < up - idle, "{idle} {seek} {up}");
        before = after;
    }
    served.stop();
}

#[test]
fn metrics_over_tcp_require_the_token() {
    use std::io::{Read as _, Write as _};
    let served = Served::start(CONFIG);
    let nbd::Address::Tcp(address) = served.tcp.clone() else { panic!("TCP") };
    let get = |header: &str| {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    assert!(get("").starts_with("HTTP/1.1 401"));
    let answer = get(&format!("Authorization: Bearer {}\r\n", common::TOKEN));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{answer}");
    served.stop();
}

/// The rows of the reference page's table, one per metric.
fn table() -> String {
    let line = |metric: spindle_api::Metric| {
        let (name, kind) = (metric.name, metric.kind.as_str());
        format!("| `{name}` | {kind} | {} | {} |\n", metric.labels.join(", "), metric.help)
    };
    metrics().into_iter().map(line).collect()
}

#[test]
fn the_document_has_a_line_for_each_metric_in_their_order() {
    let path = format!("{ROOT}/docs/src/reference/metrics.md");
    let text = std::fs::read_to_string(&path).expect("the document");
    let start = text.find("| `spindle_").unwrap_or(text.len());
    let kept: String =
        text[start..].split_inclusive('\n').take_while(|line| line.starts_with('|')).collect();
    if std::env::var_os("SPINDLE_WRITE").is_some() {
        let rest = &text[start + kept.len()..];
        std::fs::write(&path, text[..start].to_owned() + &table() + rest).expect("written");
        return;
    }
    assert!(
        kept == table(),
        "docs/src/reference/metrics.md differs from the metrics: SPINDLE_WRITE=1 writes it"
    );
}

/// The metrics that an expression names. Each has to exist, and a counter has to be a rate or an
/// increase.
fn named(expression: &str, all: &[spindle_api::Metric]) -> Vec<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names: Vec<&str> = words.filter(|word| word.starts_with("spindle_")).collect();
    assert!(!names.is_empty(), "{expression}");
    let mut found = Vec::new();
    for name in names {
        let base = name.strip_suffix("_bucket").unwrap_or(name);
        let metric = all.iter().find(|metric| metric.name == base);
        let metric = metric.unwrap_or_else(|| panic!("no {base}: {expression}"));
        assert_eq!(name != base, metric.kind == MetricKind::Histogram, "{expression}");
        let rated = expression.contains("rate(") || expression.contains("increase(");
        // The labels of a volume are joined to either.
        if base != "spindle_volume_labels" {
            assert_eq!(rated, metric.kind != MetricKind::Gauge, "{expression}");
        }
        found.push(base.to_owned());
    }
    found
}

#[test]
fn every_metric_that_the_dashboards_show_exists_with_its_labels() {
    let all = metrics();
    for name in ["grafana-dashboard.json", "kubernetes/grafana-dashboard.json"] {
        let text = std::fs::read_to_string(format!("{ROOT}/contrib/{name}"));
        let dashboard: Value = serde_json::from_str(&text.expect("it is there")).expect("JSON");
        let mut shown = BTreeSet::new();
        let panels = dashboard["panels"].as_array().expect("panels");
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty() && panel["gridPos"].is_object(), "{panel}");
            for target in targets {
                shown.extend(named(target["expr"].as_str().expect("an expression"), &all));
            }
        }
        assert!(shown.len() > 15, "{name} shows much of what there is: {shown:?}");
    }
}

#[test]
fn every_metric_that_an_alert_watches_exists() {
    let text = std::fs::read_to_string(format!("{ROOT}/contrib/kubernetes/alerts.yaml"));
    let text = text.expect("it is there");
    let all = metrics();
    let rules = text.split("- alert: ").skip(1);
    let mut count = 0;
    for rule in rules {
        let expression = rule.split("expr:").nth(1).and_then(|rest| rest.split("labels:").next());
        named(expression.unwrap_or_else(|| panic!("no expression: {rule}")), &all);
        count += 1;
    }
    assert!(count > 5, "{count} alerts");
}
