//! What preemptible execution costs sequential readers: `cargo run --release -p spindle-sim
//! --example readers [SECONDS]`. Each of several readers has one request outstanding; MB/s of all
//! of them with chunks alone, and with each mechanism in addition. Each figure is the mean of
//! several places of the volumes: where readers go round in step, one place decides by how much a
//! sector is missed. Exit code 1 if just-in-time seeks cost more than 2 %, or free prefetching
//! does, beyond twice the standard error of the mean of the quotients.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::Instant;

const DRIVES: [&str; 6] =
    ["hgst-7k8", "nearline-20t", "barracuda-2t", "st318437lw", "cheetah9LP", "deskstar-34gxp"];
/// The kinds of readers: their number, the bytes of a request, whether they read at random, and
/// their think time.
type Load = (usize, &'static str, &'static str, &'static str);
const LOADS: [Load; 8] = [
    (1, "64KiB", "sequential", "-"),
    (2, "64KiB", "sequential", "-"),
    (2, "1MiB", "sequential", "-"),
    (4, "64KiB", "sequential", "-"),
    (2, "64KiB", "sequential", "5ms"),
    (4, "64KiB", "sequential", "5ms"),
    (2, "64KiB", "random", "-"),
    (1, "4KiB", "random", "-"),
];
/// The number of places of the volumes, each by another size of them.
const PLACES: u32 = 16;
/// What is added to chunks.
const MECHANISMS: [(&str, &str); 4] = [
    ("none", "jit_offset = \"off\"\nseek_split = \"off\""),
    ("ahead", "seek_split = \"off\""),
    ("in-time", "approach = \"in-time\"\nseek_split = \"off\""),
    ("prefetch", "approach = \"in-time\"\nseek_split = \"off\"\nfree_prefetch = true"),
];
/// The part of the throughput that a mechanism may cost.
const LOSS_MAX: f64 = 0.02;

/// MB/s of all readers, and the sectors prefetched into the host's memory and read from there.
fn run(drive: &str, load: Load, mechanism: &str, place: u32) -> (f64, [u64; 2]) {
    let (readers, block, access, think) = load;
    let size = 2_048 + 7 * place;
    let seconds = std::env::args().nth(1).unwrap_or_else(|| "5".into());
    let mut text = format!(
        "duration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n\
         policy = \"fcfs\"\nexecution = \"preemptible\"\n{mechanism}\n"
    );
    let think = match think {
        "-" => String::new(),
        think => format!("think = \"{think}\"\n"),
    };
    for index in 0..readers {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size}MiB\"\n\
             [[workload]]\nvolume = \"v{index}\"\nop = \"read\"\naccess = \"{access}\"\n\
             block = \"{block}\"\noutstanding = 1\n{think}"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "readers.toml", Path::new("")).expect("a sound scenario");
    let mut simulation = Simulation::new(&plan);
    let duration = plan.duration.expect("the text has one");
    simulation.run_until(Instant::ZERO + duration);
    let report = simulation.report();
    let bytes: u64 = report.volumes.iter().map(|volume| volume.bytes).sum();
    let ahead = report.volumes.iter().filter_map(|volume| volume.read_ahead.as_ref());
    let ahead = ahead.fold([0, 0], |[prefetched, used], ahead| {
        [prefetched + ahead.prefetched_bytes, used + ahead.prefetched_used_bytes]
    });
    (as_f64(bytes) / duration.as_secs_f64() / 1e6, ahead)
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / as_f64(of.len() as u64)
}

/// Whether `rates` are below `than` by more than a mechanism may cost, beyond the error of the
/// mean.
fn costs(rates: &[f64], than: &[f64]) -> bool {
    let quotients: Vec<f64> = rates.iter().zip(than).map(|(rate, of)| rate / of).collect();
    let (mean, count) = (mean(&quotients), as_f64(quotients.len() as u64));
    let squares: f64 = quotients.iter().map(|quotient| (quotient - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    mean + 2.0 * error < 1.0 - LOSS_MAX
}

fn main() {
    let mut over = 0;
    println!(
        "{:<15} {:>7} {:>6} {:<10} {:>5} {:>7} {:>7} {:>7} {:>8} {:>12}",
        "drive",
        "readers",
        "block",
        "access",
        "think",
        "none",
        "ahead",
        "in-time",
        "prefetch",
        "used, of MB"
    );
    for drive in DRIVES {
        for load in LOADS {
            let runs = MECHANISMS.map(|(_, mechanism)| {
                (0..PLACES).map(|place| run(drive, load, mechanism, place)).collect::<Vec<_>>()
            });
            let rates =
                runs.each_ref().map(|runs| runs.iter().map(|run| run.0).collect::<Vec<_>>());
            let [none, ahead, in_time, prefetch] = &rates;
            let marks = [costs(ahead, none), costs(in_time, none), costs(prefetch, in_time)];
            over += marks.iter().filter(|mark| **mark).count();
            let shown = |rates: &[f64], mark: bool| {
                format!("{:.2}{}", mean(rates), if mark { "*" } else { "" })
            };
            let [_, _, _, kept] = &runs;
            let sum = |which: usize| kept.iter().map(|run| run.1[which]).sum::<u64>();
            let (prefetched, used) = (as_f64(sum(0)) / 1e6, as_f64(sum(1)) / 1e6);
            println!(
                "{drive:<15} {:>7} {:>6} {:<10} {:>5} {:>7} {:>7} {:>7} {:>8} {:>12}",
                load.0,
                load.1,
                load.2,
                load.3,
                shown(none, false),
                shown(ahead, marks[0]),
                shown(in_time, marks[1]),
                shown(prefetch, marks[2]),
                format!("{used:.1}/{prefetched:.1}")
            );
        }
    }
    println!("{over} figures more than 2 % below the one they are compared with");
    std::process::exit(i32::from(over > 0));
}
