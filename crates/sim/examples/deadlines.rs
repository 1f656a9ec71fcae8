//! The search for missed deadlines: `cargo run --release -p spindle-sim --example deadlines --
//! POLICY FROM COUNT [chunks]`, with `chunks` in chunks in every case. The policy `paper` is
//! `delta-l` with the range of intervals of Clockwise
//! (RTAS 2000). Exit code 1 if a policy that never misses has missed, or a reserve was short.

use engine::PolicyName;
use engine::stream::SlackRange;
use spindle_sim::search::{self, SearchParameters, SearchResult};
use units::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, parameters, from, count)) = read(&arguments) else {
        eprintln!(
            "usage: deadlines POLICY FROM COUNT [chunks]: edf, lst, delta-l, delta-star, \
             spindle or paper; \
             the first seed; the number of seeds"
        );
        std::process::exit(2);
    };
    let (mut sum, mut missed, mut first) = (SearchResult::default(), 0_u64, None);
    for seed in from..from.saturating_add(count) {
        let Ok(found) = std::panic::catch_unwind(|| search::run(seed, parameters)) else {
            eprintln!("repeat with: {}", command(name, seed, parameters.chunks));
            std::process::exit(1);
        };
        sum.streams += found.streams;
        sum.kept.met += found.kept.met;
        sum.kept.missed += found.kept.missed;
        sum.kept.max_lateness = sum.kept.max_lateness.max(found.kept.max_lateness);
        sum.bounded += found.bounded;
        sum.covered += found.covered;
        sum.late += found.late;
        sum.best_effort += found.best_effort;
        sum.latency += found.latency;
        sum.promises += found.promises;
        sum.changes += found.changes;
        if found.kept.missed + found.late > 0 {
            missed += 1;
            first.get_or_insert(seed);
        }
    }
    let mean = sum.latency.as_nanos().checked_div(sum.best_effort).map(Duration::from_nanos);
    println!(
        "{name}{}: {count} cases from seed {from} on, {} streams, {} deadlines met, \
         {} missed in {missed} cases (by {} at most); {} bounded latencies, {} requests, {} late; \
         {} changes, {} checks of reserves; {} best-effort requests, {} on the mean",
        if parameters.chunks { " in chunks" } else { "" },
        sum.streams,
        sum.kept.met,
        sum.kept.missed,
        sum.kept.max_lateness,
        sum.bounded,
        sum.covered,
        sum.late,
        sum.changes,
        sum.promises,
        sum.best_effort,
        mean.unwrap_or_default(),
    );
    let never = parameters.policy.guarantees_deadlines() && parameters.range == SlackRange::All;
    if let Some(seed) = first {
        eprintln!("the first of them: {}", command(name, seed, parameters.chunks));
        std::process::exit(i32::from(never));
    }
}

fn command(name: &str, seed: u64, chunks: bool) -> String {
    let chunks = if chunks { " chunks" } else { "" };
    format!("cargo run --release -p spindle-sim --example deadlines -- {name} {seed} 1{chunks}")
}

fn read(arguments: &[String]) -> Option<(&str, SearchParameters, u64, u64)> {
    let (name, from, count, chunks) = match arguments {
        [name, from, count] => (name, from, count, false),
        [name, from, count, last] if last == "chunks" => (name, from, count, true),
        _ => return None,
    };
    let parameters = match name.as_str() {
        "paper" => {
            SearchParameters { policy: PolicyName::DeltaL, range: SlackRange::Published, chunks }
        }
        name => SearchParameters { policy: name.parse().ok()?, range: SlackRange::All, chunks },
    };
    parameters.policy.keeps_streams().then_some(())?;
    Some((name, parameters, from.parse().ok()?, count.parse().ok()?))
}
