//! External waiting (FAST 2003 §4.3.1): a write-back rule that explains table 3.
//!
//! FAST 2003 does not say what the drive's firmware does with writes, other than that a write-back
//! may come before a read and "can include multiple disk seeks" (§3.1.3). The rule is
//! [`DestageBeforeRead`]: segments of one run each, written in the order of position, and all of
//! them before a command that needs the media. That a forced write is such a command, whatever
//! lies in front of it in the buffer, has no parameter and was found in view of the short commands'
//! cells. Its two parameters are the number of segments and their length. They are chosen by table
//! 3's six cells of whole requests (npIO) and judged by its six cells of short commands (spIO), and
//! by the 48 cells of table 4.
//!
//! The error of cells is the root mean square of ln(ours ÷ FAST 2003's), so that 0.2 is about 20 %.

use drive::DestageBeforeRead;
use plot::{Line, Plot};
use units::{Op, Sectors};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::Point;
use super::settings::{PAPER, WHOLE, WRITE_BACK};
use super::tables::WAITS;

pub(crate) const EXTERNAL: Experiment = Experiment {
    id: "spio-external",
    title: "a write-back rule that explains the external waiting of table 3",
    run: external,
};

/// The numbers of segments, and their lengths in sectors, among which the rule is chosen.
const RUNS: [u32; 6] = [2, 4, 6, 8, 10, 12];
const LENGTHS: [u64; 2] = [256, 384];
/// The accepted error: the tables' tolerance of 20 %.
const ERROR_MAX: f64 = 0.2;

/// Ours over FAST 2003's of the six cells of whole requests, then of the six of short commands.
fn ratios(destage: DestageBeforeRead) -> [[f64; 6]; 2] {
    [(WHOLE, 1), (PAPER, 3)].map(|(how, column)| {
        let mut all = [0.0; 6];
        for (place, (size, waits, responses)) in WAITS.iter().enumerate() {
            let point = Point::new(how, Op::Write, *size).with_rate(1.0).destaging(destage);
            let measured = point.measure();
            all[place * 2] = measured.wait() / waits[column];
            all[place * 2 + 1] = measured.high_ms / responses[column];
        }
        all
    })
}

fn error(ratios: &[f64; 6]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln() * ratio.ln()).sum::<f64>() / 6.0).sqrt()
}

fn external(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut table = Series::new("fit", &["segments", "segment_kib", "error_npio", "error_spio"]);
    let mut best = (f64::INFINITY, WRITE_BACK, [[0.0; 6]; 2]);
    let mut done = 0_u32;
    for length in LENGTHS {
        for runs in RUNS {
            let rule = DestageBeforeRead { runs, run_max: Sectors(length) };
            let found = ratios(rule);
            let [npio, spio] = found.each_ref().map(error);
            #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
            table.rows.push(vec![f64::from(runs), length as f64 / 2.0, npio, spio]);
            if npio < best.0 {
                best = (npio, rule, found);
            }
            done += 1;
            on_progress(f64::from(done) / 12.0);
        }
    }
    let (npio, rule, found) = best;
    let mut cells = Series::new(
        "cells",
        &["size_kb", "npio_wait", "npio_response", "spio_wait", "spio_response"],
    );
    for (place, (size, ..)) in WAITS.iter().enumerate() {
        let of = |half: usize, which: usize| found[half][place * 2 + which];
        cells.rows.push(vec![f64::from(*size), of(0, 0), of(0, 1), of(1, 0), of(1, 1)]);
    }
    let is_used = f64::from(u8::from(rule == WRITE_BACK));
    let checks = vec![
        Check::at_most("whole requests, by which the rule is chosen: error", npio, ERROR_MAX, "ln"),
        Check::unbounded(
            "short commands, by which it is judged: error",
            error(&found[1]),
            "ln",
            "cell by cell in spio-table3",
        ),
        Check::at_least("tables 3 and 4 use the rule that is chosen", is_used, 1.0, "yes"),
    ];
    let line = |length: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let kib = length as f64 / 2.0;
        let rows = table.rows.iter().filter(|row| (row[1] - kib).abs() < 0.1);
        Line {
            name: format!("segments of {kib} KiB"),
            points: rows.map(|row| (row[0], row[2])).collect(),
            dashed: false,
        }
    };
    let plot = Plot {
        caption: "Error of table 3's whole writes against the segments of the write buffer \
                  (st318437lw)"
            .into(),
        x: "segments".into(),
        y: "r.m.s. of ln(ours ÷ FAST 2003's)".into(),
        lines: LENGTHS.map(line).into(),
        ..Plot::default()
    };
    Findings { checks, series: vec![table, cells], plots: vec![("", plot)] }
}
