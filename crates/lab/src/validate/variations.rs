//! The published drives with other schemes, mappings and cache settings in their files. Each is
//! refused with a message or replays a trace.

use console::{eprintln, println};
use std::path::Path;
use std::sync::Arc;

use super::*;
use sim::SeededRng;

const DRIVES: [&str; 5] = ["atlas10k", "barracuda", "cheetah9LP", "hp_c2247a", "hp_c3323a"];
const SEEDS: u64 = 300;
const REQUESTS: usize = 150;

/// Keys, and their possible values.
const KEYS: [(&str, &[&str]); 24] = [
    ("LBN-to-PBN mapping scheme", &["0", "1", "2"]),
    ("Sparing scheme used", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]),
    ("Rangesize for sparing", &["1", "2", "5", "0x10"]),
    ("Number of spares", &["0", "1", "2", "7", "100"]),
    ("Empty space at zone front", &["0", "13"]),
    ("Skew for track switch", &["0", "0.5", "17.0", "-3.0", "1e3"]),
    ("Skew for cylinder switch", &["0", "0.25", "80", "-1.0"]),
    ("Head switch time", &["0.0", "1.5"]),
    ("Add. write settling delay", &["-0.2", "0.0", "0.9"]),
    ("Fast write level", &["0", "1", "2"]),
    ("Buffer continuous read", &["0", "1", "2", "3", "4"]),
    ("Preseeking level", &["0", "1", "2"]),
    ("Immediate buffer read", &["0", "1"]),
    ("Immediate buffer write", &["0", "1"]),
    ("Read-ahead over requested", &["-1", "0", "1"]),
    ("Read-ahead on idle hit", &["0", "1"]),
    ("Read any free blocks", &["0", "1"]),
    ("Allow almost read hits", &["0", "1"]),
    ("Enable caching in buffer", &["0", "1", "2"]),
    ("Number of buffer segments", &["0", "1", "2", "16", "64"]),
    ("Segment size (in blks)", &["0", "1", "16", "4096"]),
    ("Maximum number of write segments", &["0", "1", "5"]),
    ("Never disconnect", &["0", "1"]),
    ("Max queue length", &["1", "8"]),
];

/// The text with every value of the key replaced.
fn with(text: &str, key: &str, value: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((name, rest)) if name.trim() == key => {
            let comma = if rest.contains(',') { "," } else { "" };
            format!("{name}= {value}{comma}\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn a_published_drive_with_other_settings_is_refused_in_words_or_replays_its_trace() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no variation was tried", directory.display());
        return;
    }
    let mut replayed = 0;
    for seed in 0..SEEDS {
        let mut rng = SeededRng::new(seed, 0);
        let mut pick = |len: usize| usize::try_from(rng.below(len as u64)).expect("small");
        let name = DRIVES[pick(DRIVES.len())];
        let mut settings = Vec::new();
        for _ in 0..=pick(5) {
            let (key, values) = KEYS[pick(KEYS.len())];
            settings.push((key, values[pick(values.len())]));
        }
        let context = format!("seed {seed}: {name} {settings:?}");
        let mut read = |path: &Path| {
            let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            Ok(settings.iter().fold(text, |text, (key, value)| with(&text, key, value)))
        };
        let path = directory.join(name);
        let spec =
            match drive_library::disksim::import_with(&path.with_extension("parv"), &mut read) {
                Ok(imported) => imported.spec,
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains("expected"), "{context}: {message}");
                    assert_eq!(message.lines().count(), 1, "{context}: {message}");
                    continue;
                }
            };
        assert_eq!(
            drive_library::parse_mechanical(&drive_library::to_toml(&spec), name).as_ref(),
            Ok(&spec),
            "{context}"
        );
        let model = Arc::new(spec.check().unwrap_or_else(|error| panic!("{context}: {error}")));
        let text = std::fs::read_to_string(path.with_extension("trace")).expect(name);
        let skipped = pick(5_000);
        let some: Vec<&str> = text.lines().skip(skipped).take(REQUESTS).collect();
        // A smaller disk does not have all addresses of the trace.
        let capacity = model.capacity();
        if let Ok(trace) = MeasuredTrace::read(some.join("\n").as_bytes(), name, capacity) {
            assert_eq!(validate(&model, &trace).all.requests, REQUESTS, "{context}");
            replayed += 1;
        }
    }
    println!("{replayed} of {SEEDS} replayed");
    assert!(replayed > SEEDS / 3, "only {replayed} of {SEEDS} replayed");
}
