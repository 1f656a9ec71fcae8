//! Figures 5 and 6: throughput of a sequential stream against the size of its commands (FAST 2003
//! §3.4), on the SCSI and on the IDE drive.
//!
//! FAST 2003's profiler finds the range of sizes with the best throughput, and its prototype takes
//! 50 sectors. The command overhead of `st318437lw` is derived from these 50, so that its curve
//! cannot confirm them. What is checked is that the profiler, which only times commands, finds the
//! range on either drive, and that 50 kB, the size from which on FAST 2003's processor time is
//! constant, lies in it.

use config::Access;
use engine::Execution;
use plot::{Line, Plot};
use units::{Bytes, Op};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::measured::{PAPER_DRIVE, SEED, measured_profile};
use super::point::{Low, Point};

pub(crate) const FIG5: Experiment = Experiment {
    id: "spio-fig5",
    title: "sequential read throughput against chunk size",
    run: fig5,
};

pub(crate) const FIG6: Experiment = Experiment {
    id: "spio-fig6",
    title: "sequential write throughput against chunk size",
    run: fig6,
};

/// Lengths of commands, in sectors.
const CHUNKS: [u32; 16] = [2, 4, 8, 16, 24, 32, 40, 44, 48, 50, 52, 56, 64, 100, 200, 256];
/// The fraction of the best throughput from which on a chunk length counts as optimal.
const OPTIMAL: f64 = 0.95;
/// The largest accepted chunk of the profiler, in smallest optimal chunks: a longer one makes
/// requests of higher priority wait for nothing. The profiler takes the least chunk that keeps up
/// with a track; across tracks, whose changes give the bus time, less is enough.
const CHUNK_MAX: f64 = 2.0;
/// The size from which on FAST 2003's processor time is constant (§3.4), in sectors.
const CONSTANT: f64 = 100.0;
const DRIVES: [&str; 2] = [PAPER_DRIVE, "wd400bb"];
/// One command per request: a request stands for one chunk of a longer one.
const ONE: Execution = Execution::Whole { split: None };

fn fig5(on_progress: &mut dyn FnMut(f64)) -> Findings {
    against_chunks(Op::Read, on_progress)
}

fn fig6(on_progress: &mut dyn FnMut(f64)) -> Findings {
    against_chunks(Op::Write, on_progress)
}

fn against_chunks(op: Op, on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    for (drive, offset) in DRIVES.into_iter().zip([0.0, 0.5]) {
        let table = measured(drive, op, &mut |part| on_progress(offset + part / 2.0));
        findings.checks.extend(checks(drive, op, &table));
        findings.plots.push((if offset == 0.0 { "" } else { "-ide" }, plot(drive, op, &table)));
        findings.series.push(table);
    }
    findings
}

fn measured(drive: &'static str, op: Op, on_progress: &mut dyn FnMut(f64)) -> Series {
    let mut table = Series::new(drive, &["chunk_sectors", "chunk_kb", "mb_per_s"]);
    for (done, chunk) in (1_u32..).zip(CHUNKS) {
        let access = Access::Sequential { run: None };
        let low = Low::Synthetic { op, access, block: Bytes(u64::from(chunk) * 512) };
        let point = Point { low, ..Point::of(drive, ONE) };
        let rate = point.measure().mb_per_s;
        table.rows.push(vec![f64::from(chunk), f64::from(chunk) / 2.0, rate]);
        on_progress(f64::from(done) / 16.0);
    }
    table
}

fn checks(drive: &str, op: Op, table: &Series) -> Vec<Check> {
    let best = table.column(2).fold(0.0, f64::max);
    let small = table.rows.iter().position(|row| row[2] >= OPTIMAL * best).expect("the best is");
    let first = table.rows[small][0];
    let band = measured_profile(drive, SEED).bands[0];
    let chosen = if op == Op::Write { band.chunk_write } else { band.chunk_read };
    let chosen = f64::from(u32::try_from(chosen.0).expect("a chunk"));
    let name = |what: &str| format!("{drive}: {what}");
    let part = |chunk: f64| at(table, chunk) / best;
    let derived = "the drive's command overhead is derived from FAST 2003's 50 sectors";
    let first_optimal = name("smallest optimal chunk (point a)");
    let first_optimal = if drive == PAPER_DRIVE {
        Check::unbounded(first_optimal, first, "sectors", derived).beside(50.0)
    } else {
        Check::at_most(first_optimal, first, CONSTANT, "sectors")
    };
    vec![
        first_optimal,
        Check::at_least(
            name("throughput with the chunk that the profiler finds ÷ best"),
            part(chosen),
            OPTIMAL,
            "ratio",
        ),
        Check::at_most(
            name("the profiler's chunk ÷ smallest optimal chunk"),
            chosen / first,
            CHUNK_MAX,
            "ratio",
        ),
        Check::at_least(name("throughput with 50 kB ÷ best"), part(CONSTANT), OPTIMAL, "ratio"),
        // "For chunk sizes smaller than a […] the IO bus is a bottleneck" (§3.1.1).
        Check::at_most(
            name("throughput with a quarter of the smallest optimal chunk ÷ best"),
            part(first / 4.0),
            0.5,
            "ratio",
        ),
    ]
}

fn plot(drive: &str, op: Op, table: &Series) -> Plot {
    let what = if op == Op::Write { "write" } else { "read" };
    let measured =
        Line { name: format!("sequential {what}s"), points: table.points(1, 2), dashed: false };
    Plot {
        caption: format!(
            "Sequential {what} throughput against chunk size ({drive}, outermost zone)"
        ),
        x: "chunk size, kB".into(),
        y: "throughput, MB/s".into(),
        lines: vec![measured],
        x_log: true,
        ..Plot::default()
    }
}

/// Throughput with chunks of `sectors` sectors, interpolated between the measured ones.
fn at(table: &Series, chunk: f64) -> f64 {
    let points = table.points(0, 2);
    let pair = points.windows(2).find(|pair| pair[0].0 <= chunk && chunk <= pair[1].0);
    let pair = pair.expect("within what was measured");
    let part = (chunk - pair[0].0) / (pair[1].0 - pair[0].0);
    pair[0].1 + (pair[1].1 - pair[0].1) * part
}
