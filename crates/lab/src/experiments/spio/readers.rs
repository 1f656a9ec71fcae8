//! What just-in-time seeks and free prefetching cost readers: sequential ones, which the drive's
//! own read-ahead serves, and random ones.
//!
//! Each reader has one request outstanding, on a disk that serves in order of arrival. Each figure
//! is the mean over several places of the volumes: where readers go round in step, one place
//! decides by how much a sector is missed.

use std::fmt::Write as _;

use units::Duration;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::super::sample::{run, scenario};

pub(crate) const READERS: Experiment = Experiment {
    id: "spio-readers",
    title: "what just-in-time seeks and free prefetching cost sequential and random readers",
    run: readers,
};

const DRIVES: [&str; 6] =
    ["hgst-7k8", "nearline-20t", "barracuda-2t", "st318437lw", "cheetah9LP", "deskstar-34gxp"];
/// The number of readers, the KiB of a request, whether they read at random, and their think time
/// in ms.
type Load = (u32, u32, bool, u32);
const LOADS: [Load; 8] = [
    (1, 64, false, 0),
    (2, 64, false, 0),
    (2, 1_024, false, 0),
    (4, 64, false, 0),
    (2, 64, false, 5),
    (4, 64, false, 5),
    (2, 64, true, 0),
    (1, 4, true, 0),
];
/// The number of places of the volumes, each by another size of them.
const PLACES: u32 = 8;
const LENGTH: Duration = Duration::from_secs(3);
/// What is added to chunks: nothing; seeks ahead of the transfer, the default; seeks in time, as in
/// FAST 2003; the same with free prefetching.
const MECHANISMS: [&str; 4] = [
    "jit_offset = \"off\"",
    "",
    "approach = \"in-time\"",
    "approach = \"in-time\"\nfree_prefetch = true",
];
/// Each mechanism, and the one that it is compared with.
const COMPARED: [(&str, usize, usize); 3] = [
    ("just-in-time seeks ahead", 1, 0),
    ("just-in-time seeks in time", 2, 0),
    ("free prefetching", 3, 2),
];
/// The percentage of the throughput that a mechanism may cost.
const LOSS_MAX: f64 = 2.0;
const COLUMNS: [&str; 10] = [
    "readers",
    "block_kib",
    "random",
    "think_ms",
    "none_mb_per_s",
    "ahead_mb_per_s",
    "in_time_mb_per_s",
    "prefetch_mb_per_s",
    "prefetched_mb",
    "prefetched_used_mb",
];

/// MB/s of all readers, and the MB prefetched into the host's memory and read from there.
fn measure(drive: &str, load: Load, mechanism: &str, place: u32) -> [f64; 3] {
    let (readers, block, is_random, think) = load;
    let access = if is_random { "random" } else { "sequential" };
    let size = 2_048 + 7 * place;
    let mut text = format!(
        "[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\npolicy = \"fcfs\"\n\
         execution = \"preemptible\"\nseek_split = \"off\"\n{mechanism}\n"
    );
    for index in 0..readers {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size}MiB\"\n\
             [[workload]]\nvolume = \"v{index}\"\nop = \"read\"\naccess = \"{access}\"\n\
             block = \"{block}KiB\"\noutstanding = 1\nthink = \"{think}ms\"\n"
        )
        .expect("a string takes all");
    }
    let mut plan = scenario("readers.toml", &text);
    plan.duration = Some(LENGTH);
    let volumes = run(&plan).volumes;
    let bytes: u64 = volumes.iter().map(|volume| volume.bytes).sum();
    let ahead = || volumes.iter().filter_map(|volume| volume.read_ahead.as_ref());
    let prefetched: u64 = ahead().map(|ahead| ahead.prefetched_bytes).sum();
    let used: u64 = ahead().map(|ahead| ahead.prefetched_used_bytes).sum();
    [megabytes(bytes) / LENGTH.as_secs_f64(), megabytes(prefetched), megabytes(used)]
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / f64::from(PLACES)
}

/// By how much `rates` are below `than`, in percent, beyond twice the standard error of the mean of
/// the quotients.
fn loss(rates: &[f64], than: &[f64]) -> f64 {
    let quotients: Vec<f64> = rates.iter().zip(than).map(|(rate, of)| rate / of).collect();
    let mean = mean(&quotients);
    let squares: f64 = quotients.iter().map(|quotient| (quotient - mean).powi(2)).sum();
    let count = f64::from(PLACES);
    let error = (squares / (count - 1.0) / count).sqrt();
    (1.0 - mean - 2.0 * error) * 100.0
}

fn readers(told: &mut dyn FnMut(f64)) -> Findings {
    let (mut checks, mut series) = (Vec::new(), Vec::new());
    let mut done = 0_u32;
    for drive in DRIVES {
        let mut table = Series::new(drive, &COLUMNS);
        let mut losses = [f64::NEG_INFINITY; COMPARED.len()];
        for load in LOADS {
            let runs = MECHANISMS.map(|mechanism| {
                (0..PLACES).map(|place| measure(drive, load, mechanism, place)).collect::<Vec<_>>()
            });
            let rates =
                runs.each_ref().map(|runs| runs.iter().map(|run| run[0]).collect::<Vec<_>>());
            for (most, (_, with, without)) in losses.iter_mut().zip(COMPARED) {
                *most = most.max(loss(&rates[with], &rates[without]));
            }
            let sum = |which: usize| runs[3].iter().map(|run| run[which]).sum::<f64>();
            let [none, ahead, in_time, prefetch] = rates.map(|rates| mean(&rates));
            table.rows.push(vec![
                load.0.into(),
                load.1.into(),
                f64::from(u8::from(load.2)),
                load.3.into(),
                none,
                ahead,
                in_time,
                prefetch,
                sum(1),
                sum(2),
            ]);
            done += 1;
            told(f64::from(done) / 48.0);
        }
        for (most, (name, ..)) in losses.into_iter().zip(COMPARED) {
            let name = format!("{drive}: most lost by {name}");
            checks.push(Check::at_most(name, most, LOSS_MAX, "%"));
        }
        series.push(table);
    }
    Findings { checks, series, plots: Vec::new() }
}
