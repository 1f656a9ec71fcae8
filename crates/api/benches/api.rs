//! How long an operator waits, with 1,000 volumes on 8 disks, and a scrape takes, with 10,000 on
//! one: `cargo bench -p spindle-api --bench api`.
//!
//! Through all of it: HTTP over the Unix socket, the disks' threads, the config's file and its
//! fsyncs. Run as a test it only looks whether it runs: a debug build's figures say nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::fmt::Write as _;
use std::time::Instant;

use common::Served;
use serde_json::json;

const VOLUMES: usize = 1_000;
const VOLUMES_MAX: usize = config::limits::VOLUMES_MAX;

fn config() -> String {
    let mut text = String::new();
    for disk in 0..8 {
        write!(text, "[[disk]]\nname = \"d{disk}\"\ndrive = \"hgst-7k8\"\n\n")
            .expect("to a string");
    }
    for volume in 0..VOLUMES {
        let disk = volume % 8;
        write!(
            text,
            "[[volume]]\nname = \"v{volume}\"\ndisk = \"d{disk}\"\nsize = \"1GiB\"\n\
             reserve = \"0.7%\"\n\n"
        )
        .expect("to a string");
    }
    text
}

/// As many volumes as there may be, all on one disk.
fn most() -> String {
    let mut text = String::from("[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n\n");
    for volume in 0..VOLUMES_MAX {
        write!(text, "[[volume]]\nname = \"volume-{volume}\"\ndisk = \"d0\"\nsize = \"1MiB\"\n\n")
            .expect("to a string");
    }
    text
}

/// The median and the longest of some rounds, in milliseconds.
fn measure(rounds: usize, mut work: impl FnMut(usize)) -> (f64, f64) {
    let mut took: Vec<f64> = (0..rounds)
        .map(|round| {
            let begun = Instant::now();
            work(round);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took.sort_by(f64::total_cmp);
    (took[rounds / 2], took[rounds - 1])
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 100 } else { 2 };
    let served = Served::start(&config());
    let list = measure(rounds, |_| {
        let answer = served.client.get("volumes", None).expect("an answer");
        assert_eq!(answer.body["volumes"].as_array().map(Vec::len), Some(VOLUMES));
    });
    let change = measure(rounds, |round| {
        let change = json!({ "reserve": format!("0.{}%", 1 + round % 7) });
        let answer = served.client.patch("volumes", "v500", &change).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    });
    served.stop();
    let most = Served::start(&most());
    let mut bytes = 0;
    let scrape = measure(rounds.min(20), |_| {
        bytes = most.client.metrics().expect("an answer").len();
    });
    let look = measure(rounds.min(20), |_| {
        assert_eq!(most.operator.accounts().volumes.len(), VOLUMES_MAX);
    });
    most.stop();
    println!("{VOLUMES} volumes on 8 disks   median ms  longest ms");
    println!("list them all             {:9.1}  {:10.1}", list.0, list.1);
    println!("change a reserve          {:9.1}  {:10.1}", change.0, change.1);
    println!("{VOLUMES_MAX} volumes on one disk");
    println!("scrape /metrics           {:9.1}  {:10.1}  {bytes} bytes", scrape.0, scrape.1);
    println!("of it, the disk's thread  {:9.1}  {:10.1}  at most", look.0, look.1);
}
