//! Figures 5 and 6: throughput of a sequential stream against the size of its commands (FAST 2003
//! §3.4).

use config::Access;
use engine::Execution;
use plot::{Line, Plot};
use units::{Bytes, Op};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
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
/// The media rate of the outermost zone, in MB/s (§4).
const MEDIA: f64 = 41.7;
/// One command per request: a request stands for one chunk of a longer one.
const ONE: Execution = Execution::Whole { split: None };

fn fig5(on_progress: &mut dyn FnMut(f64)) -> Findings {
    against_chunks(Op::Read, on_progress)
}

fn fig6(on_progress: &mut dyn FnMut(f64)) -> Findings {
    against_chunks(Op::Write, on_progress)
}

fn against_chunks(op: Op, on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut table = Series::new("throughput", &["chunk_sectors", "chunk_kb", "mb_per_s"]);
    for (done, chunk) in (1_u32..).zip(CHUNKS) {
        let access = Access::Sequential { run: None };
        let low = Low::Synthetic { op, access, block: Bytes(u64::from(chunk) * 512) };
        let point = Point { drive: "st318437lw", execution: ONE, low, rate: 0.0, profile: None };
        let rate = point.measure().mb_per_s;
        table.rows.push(vec![f64::from(chunk), f64::from(chunk) / 2.0, rate]);
        on_progress(f64::from(done) / 16.0);
    }
    let best = table.column(2).fold(0.0, f64::max);
    let small = table.rows.iter().position(|row| row[2] >= OPTIMAL * best).expect("the best is");
    let large = table.rows[small..].iter().position(|row| row[2] < OPTIMAL * best);
    let (first, last) =
        (table.rows[small][0], table.rows[large.map_or(CHUNKS.len(), |at| small + at) - 1][0]);
    let spec = drive_library::find_mechanical("st318437lw").expect("in the library");
    let band = drive_library::profile::assumed(&spec.check().expect("a drive")).bands[0];
    let chosen = if op == Op::Write { band.chunk_write } else { band.chunk_read };
    let chosen = f64::from(u32::try_from(chosen.0).expect("a chunk"));
    let enough = OPTIMAL * best;
    let mut checks = vec![
        Check::at_most("smallest optimal chunk (point a)", first, 50.0, "sectors").beside(50.0),
        Check::at_least("largest optimal chunk (point b)", last, 50.0, "sectors"),
        Check::within("the profile's chunk for the outermost zone", chosen, 50.0, 5.0, "sectors"),
        Check::at_least("throughput with the profile's chunk", at(&table, chosen), enough, "MB/s"),
        Check::at_most("throughput with chunks of 8 sectors", at(&table, 8.0), best * 0.5, "MB/s"),
    ];
    if op == Op::Read {
        checks.push(Check::within("best throughput", best, MEDIA, MEDIA * 0.05, "MB/s"));
    }
    let what = if op == Op::Write { "write" } else { "read" };
    let measured =
        Line { name: format!("sequential {what}s"), points: table.points(1, 2), dashed: false };
    let media = Line {
        name: "what the media gives".into(),
        points: vec![(1.0, MEDIA), (128.0, MEDIA)],
        dashed: true,
    };
    let plot = Plot {
        caption: format!(
            "Sequential {what} throughput against chunk size (st318437lw, outermost zone)"
        ),
        x: "chunk size, kB".into(),
        y: "throughput, MB/s".into(),
        lines: vec![measured, media],
        x_log: true,
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}

/// Throughput with chunks of `sectors` sectors, interpolated between the measured ones.
fn at(table: &Series, chunk: f64) -> f64 {
    let points = table.points(0, 2);
    let pair = points.windows(2).find(|pair| pair[0].0 <= chunk && chunk <= pair[1].0);
    let pair = pair.expect("within what was measured");
    let part = (chunk - pair[0].0) / (pair[1].0 - pair[0].0);
    pair[0].1 + (pair[1].1 - pair[0].1) * part
}
