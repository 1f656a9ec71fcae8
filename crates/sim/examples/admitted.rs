//! Streams admitted with requests served whole and in chunks, on twenty drives: `cargo run
//! --release -p spindle-sim --example admitted [SERVE_SECONDS]`. Exit code 1 if chunks admit fewer
//! anywhere.
//!
//! The loads, of each of which as many streams as fit are admitted:
//!
//! | load | streams | beside them |
//! |---|---|---|
//! | equal | 2 MB/s in blocks of 1 MiB | nothing |
//! | large | 2 MB/s in blocks of 8 MiB | nothing |
//! | short | 64 KiB every 0.6 s | a stream of 0.4 MB/s in blocks of 8 MiB |
//! | server | 64 KiB every 0.6 s | a best-effort share of 25 %, in requests of up to 1 MiB |
//! | brisk | 64 KiB every 0.125 s | a best-effort share of 5 %, in requests of up to 1 MiB |
//!
//! With `SERVE_SECONDS` what is admitted in chunks is also served: every stream reads or writes its
//! blocks at its rate, beside sixteen random writes of 1 MiB, which reach the disk: a write buffer
//! would take them in memory. A late block makes the exit code 1.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::Instant;

/// The drives, and the share of their speed.
const DRIVES: [(&str, &str); 20] = [
    ("atlas-ii", "1"),
    ("atlas10k", "1"),
    ("barracuda-2t", "1"),
    ("barracuda-st32171w", "1"),
    ("cheetah9LP", "1"),
    ("deskstar-34gxp", "1"),
    ("hgst-7k8", "1"),
    ("hp_c2247a", "1"),
    ("hp_c3323a", "1"),
    ("nearline-20t", "1"),
    ("st318437lw", "1"),
    ("atlas10k", "0.5"),
    ("barracuda-2t", "0.7"),
    ("barracuda-2t", "0.4"),
    ("cheetah9LP", "0.5"),
    ("deskstar-34gxp", "0.5"),
    ("hgst-7k8", "0.7"),
    ("hgst-7k8", "0.4"),
    ("nearline-20t", "0.7"),
    ("nearline-20t", "0.4"),
];
const CHUNKS: [Option<&str>; 4] = [None, Some("512KiB"), Some("256KiB"), Some("64KiB")];
const STREAMS_MAX: usize = 96;

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    stream: &'static str,
    /// The contract of a further volume, and a further key of the disk.
    beside: Option<&'static str>,
    key: &'static str,
}

const LOADS: [Load; 5] = [
    Load {
        name: "equal",
        stream: "bandwidth = \"2MB/s\", block = \"1MiB\"",
        beside: None,
        key: "",
    },
    Load {
        name: "large",
        stream: "bandwidth = \"2MB/s\", block = \"8MiB\"",
        beside: None,
        key: "",
    },
    Load {
        name: "short",
        stream: "bandwidth = \"109KB/s\", block = \"64KiB\"",
        beside: Some("bandwidth = \"400KB/s\", block = \"8MiB\""),
        key: "",
    },
    Load {
        name: "server",
        stream: "bandwidth = \"109KB/s\", block = \"64KiB\"",
        beside: None,
        key: "best_effort = { share = \"25%\", period = \"2s\" }\n",
    },
    Load {
        name: "brisk",
        stream: "bandwidth = \"524KB/s\", block = \"64KiB\"",
        beside: None,
        key: "best_effort = { share = \"5%\", period = \"5s\" }\n",
    },
];

fn text((drive, speed): (&str, &str), load: Load, chunk: Option<&str>, count: usize) -> String {
    let seconds = std::env::args().nth(1).unwrap_or_else(|| "1".into());
    let mut text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n{}",
        load.key
    );
    if speed != "1" {
        writeln!(text, "slowed = \"{speed}\"").expect("a string takes all");
    }
    if let Some(chunk) = chunk {
        writeln!(text, "execution = \"preemptible\"\nchunk = \"{chunk}\"").expect("it does");
    }
    let mut add = |name: String, keys: String, workload: String| {
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"8MiB\"\n{keys}\n\
             [[workload]]\nvolume = \"{name}\"\n{workload}"
        )
        .expect("it does");
    };
    let contract = |stream: &str| format!("stream = {{ {stream} }}");
    let blocks = |op: &str| format!("op = \"{op}\"\naccess = \"stream\"\n");
    for (index, op) in (0..count).zip(["read", "write"].into_iter().cycle()) {
        add(format!("s{index}"), contract(load.stream), blocks(op));
    }
    if let Some(stream) = load.beside {
        add("long".into(), contract(stream), blocks("read"));
    }
    let random = "op = \"write\"\naccess = \"random\"\nblock = \"1MiB\"\noutstanding = 16\n";
    // A buffer would hold the whole volume, and no write would reach the disk.
    add("rest".into(), "write_buffer = \"0\"".into(), random.into());
    text
}

fn plan(text: &str) -> Result<Plan, config::ConfigError> {
    Plan::parse(text, "admitted.toml", Path::new(""))
}

/// The largest number of streams that is admitted.
fn admitted(drive: (&str, &str), load: Load, chunk: Option<&str>) -> usize {
    let fits = |count| plan(&text(drive, load, chunk, count)).is_ok();
    let (mut fitting, mut too_many) = (0, STREAMS_MAX + 1);
    while too_many - fitting > 1 {
        let middle = fitting + (too_many - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_many = middle }
    }
    fitting
}

/// Serves what is admitted; the number of late blocks, and of those in time.
fn serve(text: &str) -> (u64, u64) {
    let plan = plan(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("the text has one"));
    let volumes = simulation.report().volumes;
    let kept = volumes.iter().filter_map(|volume| volume.deadlines.as_ref());
    kept.fold((0, 0), |(late, met), kept| (late + kept.missed, met + kept.met))
}

fn main() {
    let serves = std::env::args().nth(1).is_some();
    let (mut fewer, mut late_in_all, mut met_in_all) = (0, 0, 0);
    for load in LOADS {
        println!(
            "\n{:<8} {:<20} {:>6} {:>8} {:>8} {:>8}",
            load.name, "drive", "whole", "512KiB", "256KiB", "64KiB"
        );
        for drive in DRIVES {
            let counts = CHUNKS.map(|chunk| admitted(drive, load, chunk));
            let [whole, chunks @ ..] = counts;
            fewer += chunks.iter().filter(|count| **count < whole).count();
            let name =
                if drive.1 == "1" { drive.0.into() } else { format!("{} at {}", drive.0, drive.1) };
            println!(
                "{:<8} {name:<20} {whole:>6} {:>8} {:>8} {:>8}",
                "", chunks[0], chunks[1], chunks[2]
            );
            for (chunk, count) in CHUNKS.into_iter().zip(counts).skip(1).filter(|_| serves) {
                let (late, met) = serve(&text(drive, load, chunk, count));
                if late > 0 {
                    eprintln!("{late} late of {met} on {drive:?}, {}, {chunk:?}", load.name);
                }
                (late_in_all, met_in_all) = (late_in_all + late, met_in_all + met);
            }
        }
    }
    if serves {
        println!("\n{met_in_all} blocks in time, {late_in_all} late");
    }
    println!("{fewer} cells with fewer streams than whole");
    std::process::exit(i32::from(fewer > 0 || late_in_all > 0));
}
