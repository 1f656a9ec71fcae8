//! Bad input over HTTP: every request gets a described reply, never a 5xx.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use common::{CONFIG, Served};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// A config with volumes of a disk and of a pool.
const POOL: &str = r#"
[[disk]]
name = "d1"
drive = "hgst-7k8"

[[disk]]
name = "d2"
drive = "hgst-7k8"

[pool]
disks = ["d1", "d2"]

[[pool.volume]]
name = "pooled"
size = "4MiB"
reserve = "10%"
"#;

/// One request of a malicious or faulty client.
#[derive(Clone, Debug)]
struct Ask {
    method: &'static str,
    path: String,
    body: Vec<u8>,
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "d0", "d1", "d2", "vm", "pooled"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => prop::sample::select(vec![
            "", ".", "..", "%", "%2", "%ff", "%00", "a/b", "a?force=x", "ä", "\u{202e}",
        ])
        .prop_map(str::to_owned),
        1 => (250_usize..600).prop_map(|len| "x".repeat(len)),
    ]
}

/// Quantities at, near and far from the accepted limits.
fn quantity() -> impl Strategy<Value = Value> {
    let texts = vec![
        "1MiB",
        "0",
        "-1",
        "513B",
        "18446744073709551616B",
        "8TiB",
        "16777216TiB",
        "30%",
        "100%",
        "100.0000001%",
        "0.0000001%",
        "101%",
        "NaN",
        "1e9",
        "500ms",
        "1h",
        "",
        " ",
        "\u{0}",
        "\"",
        "\\",
        "٣%",
        "30%\nsize = \"1GiB\"",
    ];
    prop_oneof![
        6 => prop::sample::select(texts).prop_map(|text| json!(text)),
        1 => "\\PC{0,40}".prop_map(|text| json!(text)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => prop::sample::select(vec![
            json!(null), json!(true), json!([]), json!({}), json!([["30%"]]),
        ]),
    ]
}

/// An object with some of the known fields, with values of all types.
fn object() -> impl Strategy<Value = Value> {
    let keys =
        ["name", "disk", "size", "reserve", "limit", "weight", "force", "period", "at", "nonsense"];
    let pooled = ["name", "size", "disks", "layout", "zone", "thin", "paused", "alarm_percent"];
    let deadlines = ["stream", "latency", "drop_stream", "drop_latency"];
    let keys = [&keys[..], &pooled[..], &deadlines[..]].concat();
    let words = vec![
        json!(["d1"]),
        json!(["d1", "d2"]),
        json!(["d2", "d0"]),
        json!("single"),
        json!("stripe"),
        json!("random"),
        json!("fast"),
        json!("slow"),
        json!(true),
        json!(50),
        json!({ "bandwidth": "1MB/s", "block": "1MB" }),
        json!({ "within": "500ms", "requests": "2/s", "size": "64KiB" }),
    ];
    let word = prop::sample::select(words);
    let field = prop_oneof![2 => name().prop_map(Value::String), 2 => quantity(), 1 => word];
    let fields = prop::collection::btree_map(prop::sample::select(keys), field, 0..7);
    // Most are nearly valid, so that they pass the first checks.
    (fields, 0..4, name()).prop_map(|(fields, nearly, name)| {
        let mut object = match nearly {
            0 => json!({}),
            1 => json!({ "name": name }),
            2 => json!({ "name": name, "size": "1MiB" }),
            _ => json!({ "name": name, "disk": "d0", "size": "1MiB" }),
        };
        for (key, value) in fields {
            object[key] = value;
        }
        object
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => object().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (1_usize..3_000).prop_map(|depth| "[".repeat(depth).into_bytes()),
        1 => object().prop_map(|value| value.to_string().repeat(2).into_bytes()),
        1 => Just(vec![b' '; 70_000]),
        1 => Just(Vec::new()),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let described = spindle_api::description();
    // What is left out has replies without an end. `live.rs` sends invalid requests for traces.
    let ends = |path: &&String| !matches!(path.as_str(), "/v1/trace" | "/v1/events");
    let paths: Vec<String> = described.paths.paths.keys().filter(ends).cloned().collect();
    let methods = vec!["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"];
    let query =
        prop::sample::select(vec!["", "?force=true", "?force=maybe", "?force", "?x=1", "?%ff"]);
    let parts = (prop::sample::select(methods), prop::sample::select(paths), name(), query, body());
    parts.prop_map(|(method, path, name, query, body)| {
        // Mostly escaped, so that it arrives as a name.
        let name: String = if name.starts_with('%') {
            name
        } else {
            percent_encoding::percent_encode(name.as_bytes(), percent_encoding::NON_ALPHANUMERIC)
                .to_string()
        };
        Ask { method, path: path.replace("{name}", &name) + query, body }
    })
}

/// The status of the reply, parsed from the bytes without an HTTP client.
fn status(served: &Served, ask: &Ask) -> u16 {
    let socket = served.directory.path().join("api.sock");
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let Ask { method, path, body } = ask;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    // The server does not read the whole body of a request that it refuses by its head.
    let _ = stream.write_all(&bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let head = String::from_utf8_lossy(&answer[..answer.len().min(12)]).into_owned();
    head.strip_prefix("HTTP/1.1 ")
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no answer to {ask:?}: {head:?}"))
}

/// Whether the description contains this status for this request; for an undescribed request,
/// whether the status is 404 or 405.
fn described(ask: &Ask, status: u16) -> bool {
    let description = serde_json::to_value(spindle_api::description()).expect("JSON");
    let path = ask.path.split('?').next().expect("a path");
    // A path matches literally or with any text in the place of a name.
    let fits = |template: &&String| {
        let parts = template.split('/').zip(path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts.into_iter().all(|(part, given)| part.starts_with('{') || part == given)
    };
    let paths = description["paths"].as_object().expect("paths");
    let exact = paths.keys().find(|template| *template == path);
    let Some(template) = exact.or_else(|| paths.keys().find(fits)) else {
        return matches!(status, 404 | 405);
    };
    let method = if ask.method == "HEAD" { "get".to_owned() } else { ask.method.to_lowercase() };
    let responses = &description["paths"][template][&method]["responses"];
    matches!(status, 404 | 405) || !responses[status.to_string()].is_null()
}

/// A sample in CI; `make soak` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("SPINDLE_CASES").ok();
    asked.map_or(1_500, |asked| asked.parse().expect("SPINDLE_CASES is a number"))
}

#[test]
fn any_request_over_http_gets_a_described_reply_and_never_a_5xx() {
    let served = Served::start(&format!("{CONFIG}{POOL}"));
    let seed = [7; 32];
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let run = runner.run(&ask(), |ask| {
        let status = status(&served, &ask);
        prop_assert!(status < 500, "{} to {:?}", status, ask);
        // Input that is not HTTP is refused below the routes.
        prop_assert!(
            status == 400 || described(&ask, status),
            "{} to {:?} is not described",
            status,
            ask
        );
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("from the seed {seed:?}: {error}"));
    // The config that the daemon wrote can be served again and gives the same state.
    let before = served.client.get("volumes", None).expect("an answer").body;
    let served = Served::again(served.stop());
    let after = served.client.get("volumes", None).expect("an answer").body;
    // Volumes of disks and of the pool, clones among them, are listed in the order in which they
    // came: after a restart in that of the config.
    let all = |body: &Value| {
        let mut all = body["volumes"].as_array().expect("a list").clone();
        all.sort_by_key(|volume| volume["name"].as_str().map(str::to_owned));
        all
    };
    assert_eq!(all(&before).len(), all(&after).len());
    for (before, after) in all(&before).iter().zip(&all(&after)) {
        for field in ["name", "size_bytes", "at_bytes", "reserve", "limit", "weight"] {
            assert_eq!(before[field], after[field], "{field}");
        }
    }
    served.stop();
}
