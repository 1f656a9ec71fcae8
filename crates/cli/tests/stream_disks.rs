//! A stream on a mirror that fewer disks keep than have copies, served: where its reads go, and
//! what is counted.

use serde_json::Value;
use testkit::{Scratch, Server, held, pattern, spindle};

/// Two disks in memory.
const CONFIG: &str = r#"
[[disk]]
name = "d0"
drive = "hgst-7k8"

[[disk]]
name = "d1"
drive = "hgst-7k8"

[pool]
disks = ["d0", "d1"]
"#;

const STREAM: [&str; 8] =
    ["--size", "64MiB", "--layout", "mirror", "--bandwidth", "4MB/s", "--block", "1MiB"];

fn created(scratch: &Scratch, name: &str) -> Value {
    let create = [&["vol", "create", name, "--survive", "0", "--json"][..], &STREAM].concat();
    held(scratch, &create).json()["volume"]["stream"].clone()
}

fn stream(scratch: &Scratch, name: &str) -> Value {
    held(scratch, &["vol", "show", name, "--json"]).json()["volume"]["stream"].clone()
}

#[test]
fn reads_go_to_the_disk_that_keeps_the_stream_and_what_another_serves_is_counted() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", CONFIG));
    let [film, clip] = ["film", "clip"].map(|name| created(&scratch, name));
    assert_eq!((&film["survive"], &film["disks"]), (&0.into(), &serde_json::json!(["d0"])));
    assert_eq!(clip["disks"], serde_json::json!(["d1"]), "the disk that has more time left");
    assert_eq!(created(&scratch, "film"), film, "it is there");
    let shown = held(&scratch, &["vol", "show", "film"]).stdout;
    assert!(shown.contains("stream survives 0 disks, kept by d0 for reads\n"), "{shown}");
    let checked = held(&scratch, &["check", "plan.toml"]).stdout;
    let has = |row: [&str; 3]| checked.lines().any(|line| line.split_whitespace().eq(row));
    assert!(has(["film", "0", "d0"]) && has(["clip", "0", "d1"]), "{checked}");
    // A write goes to both disks.
    pattern(&server, "film", "write -P 7 0 8M", &scratch);
    assert_eq!(stream(&scratch, "film")["bytes"]["outside"], 8 << 20);
    for _ in 0..4 {
        pattern(&server, "film", "read -P 7 0 8M", &scratch);
    }
    let bytes = stream(&scratch, "film")["bytes"].clone();
    assert_eq!(bytes["outside"], 8 << 20, "one disk has served all reads");
    assert_eq!(bytes["asked"], 40 << 20);
    let too_many = ["vol", "set", "film", "--bandwidth", "4MB/s", "--block", "1MiB", "--survive"];
    let refused = spindle(scratch.path(), &[&too_many[..], &["2"]].concat());
    assert!(refused.stderr.contains("from 0 to 1 (one less than its copies)"), "{refused:?}");
    held(&scratch, &[&too_many[..], &["1"]].concat());
    let both = stream(&scratch, "film");
    assert_eq!((&both["survive"], &both["disks"]), (&1.into(), &Value::Null));
    server.stop();
}

/// The disk that keeps the stream vanishes, comes back, and gets what it has missed.
#[test]
fn a_stream_whose_disk_is_lost_goes_on_as_best_effort_and_is_kept_when_the_disk_has_its_copies() {
    let scratch = Scratch::new();
    let faults = "name = \"d0\"\nfaults = { vanish_after = 200 }\nbacking = \"d0.img\"";
    let config = CONFIG.replace("name = \"d0\"", faults);
    let config = config.replace("name = \"d1\"", "name = \"d1\"\nbacking = \"d1.img\"");
    let worst_case = "drive = \"samsung-870evo-1t\"\nworst_case = { command = \"20ms\", rate = \
                      \"100MB/s\" }";
    scratch.write("plan.toml", config.replace("drive = \"hgst-7k8\"", worst_case));
    held(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = Server::unix(scratch.path(), "plan.toml");
    assert_eq!(created(&scratch, "film")["disks"], serde_json::json!(["d0"]));
    pattern(&server, "film", "write -P 7 0 8M", &scratch);
    let pool = || held(&scratch, &["pool", "status", "--json"]).json()["pool"].clone();
    let unkept = || {
        let api = api::Client::new(&scratch.join("spindle-api.sock"));
        let metrics = api.metrics().expect("an answer");
        let line = metrics.lines().find(|line| line.starts_with("spindle_pool_streams_unkept"));
        line.expect("it has one").ends_with(" 1")
    };
    assert_eq!(pool()["volumes"][0]["stream_kept"], true);
    assert!(!unkept());
    let lose = || {
        while pool()["volumes"][0]["stream_kept"] == true {
            pattern(&server, "film", "read -P 7 0 8M", &scratch);
            // A write finds out that it is gone.
            pattern(&server, "film", "write -P 7 0 1M", &scratch);
        }
    };
    lose();
    let before = stream(&scratch, "film")["bytes"]["outside"].as_u64();
    pattern(&server, "film", "read -P 7 0 8M", &scratch);
    let after = stream(&scratch, "film")["bytes"]["outside"].as_u64();
    assert_eq!(after, before.map(|before| before + (8 << 20)), "the other disk serves it");
    let said = held(&scratch, &["pool", "status"]).stdout;
    assert!(said.contains("best effort: streams of film are read from disks"), "{said}");
    assert!(unkept());
    held(&scratch, &["disk", "reopen", "d0"]);
    while pool()["volumes"][0]["stream_kept"] == false {}
    assert!(!unkept());
    // It vanishes again after as many commands.
    lose();
    let ran = server.stop();
    let said = "volume film: its stream is best effort from now on: it is read from disks that";
    assert!(ran.stderr.contains(said), "{ran:?}");
}
