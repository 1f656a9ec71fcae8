//! A daemon under a load of fio: `top`, the API and `/metrics` agree on the same volumes.

use std::process::Stdio;

use api::Client;
use serde_json::Value;
use testkit::{Scratch, Server, client, config, spindle};

/// The value of the sample that begins with `start`.
fn sample(text: &str, start: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    let value = line.unwrap_or_else(|| panic!("no {start}: {text}"));
    value.trim().parse().expect("a number")
}

#[test]
fn top_and_metrics_count_the_requests_that_fio_sends() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let api = Client::new(&scratch.join("spindle-api.sock"));
    let mut fio = client("fio");
    fio.args(["--ioengine=nbd", "--thread", "--name=load", "--rw=randrw", "--bs=4k", "--size=64m"]);
    fio.args(["--iodepth=4", "--time_based", "--runtime=60"])
        .arg(format!("--uri={}", server.uri("a")));
    fio.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut fio = fio.spawn().expect("it is installed");
    // Waits for the first request, so that each sample of `top` has requests.
    let read = "spindle_volume_reads_completed_total{device=\"a\",disk=\"d0\"} ";
    let before = loop {
        let text = api.metrics().expect("an answer");
        if sample(&text, read) > 0.0 {
            break text;
        }
        assert_eq!(fio.try_wait().expect("ours"), None, "fio ended before it had sent anything");
    };
    let look = spindle(scratch.path(), &["top", "--json", "--interval", "200"]).json();
    let (disk, volume) = (&look["disks"][0], &look["volumes"][0]);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!((&look["schema"], &volume["name"]), (&Value::from(1), &Value::from("a")));
    assert!(number(&look["interval_s"]) >= 0.2, "{look}");
    assert!(number(&volume["iops"]) > 0.0 && number(&volume["mean_ms"]) > 0.0, "{look}");
    assert!(number(&volume["share"]) > 0.0 && number(&disk["busy_share"]) > 0.0, "{look}");
    assert!((number(&volume["reserve"]) - 0.5).abs() < 1e-9 && number(&disk["reserved"]) > 0.79);
    assert!(number(&look["volumes"][1]["iops"]).abs() < 1e-9, "b has no requests: {look}");
    let tables = spindle(scratch.path(), &["top", "--once", "--interval", "100"]);
    assert_eq!(tables.code, Some(0), "{tables:?}");
    for word in ["busy", "hgst-7k8", "share", "50.0 %", "30.0 %"] {
        assert!(tables.stdout.contains(word), "{word}: {tables:?}");
    }
    fio.kill().expect("it runs");
    fio.wait().expect("it ends");
    let after = api.metrics().expect("an answer");
    assert!(sample(&after, read) > sample(&before, read));
    for seen in ["reads_completed_total", "writes_completed_total", "io_time_seconds_total"] {
        let of = |what: &str, labels: &str| {
            sample(&after, &format!("spindle_{what}_{seen}{{{labels}}} "))
        };
        let (volume, disk) =
            (of("volume", "device=\"a\",disk=\"d0\""), of("disk", "device=\"d0\""));
        assert!(volume > 0.0 && (volume - disk).abs() < 1e-9, "{seen}: {volume} {disk}");
    }
    server.stop();
}

#[test]
fn top_without_a_daemon_names_the_socket() {
    let scratch = Scratch::new();
    let ran = spindle(scratch.path(), &["top", "--once"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("expected the API's socket of a daemon"), "{ran:?}");
}
