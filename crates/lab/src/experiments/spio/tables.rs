//! Tables 2 to 4: responses and throughput while requests of higher priority come (FAST 2003 §4.3).

use engine::Execution;
use plot::{Line, Plot};
use units::Op;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Measured, Point};
use super::settings::{PAPER, TOLERANCE, WHOLE, WRITE_BACK};

pub(crate) const TABLE2: Experiment = Experiment {
    id: "spio-table2",
    title: "response of high-priority requests and throughput, reads",
    run: table2,
};

pub(crate) const TABLE3: Experiment = Experiment {
    id: "spio-table3",
    title: "expected waiting and response, reads against writes",
    run: table3,
};

pub(crate) const TABLE4: Experiment = Experiment {
    id: "spio-table4",
    title: "response of high-priority requests and throughput, writes",
    run: table4,
};

/// One row of FAST 2003's table 2 or 4: size in kB, high-priority requests per second, responses of
/// npIO and spIO in ms, throughput of both in MB/s.
type Row = (u32, f64, [f64; 2], [f64; 2]);

const READS: [Row; 12] = [
    (50, 0.5, [19.2, 19.4], [3.39, 2.83]),
    (50, 1.0, [21.8, 16.0], [3.36, 2.89]),
    (50, 2.0, [20.8, 17.6], [3.32, 2.82]),
    (50, 5.0, [21.0, 18.2], [3.18, 2.62]),
    (50, 10.0, [21.2, 18.3], [2.95, 2.30]),
    (50, 20.0, [21.1, 18.4], [2.49, 1.68]),
    (500, 0.5, [29.2, 15.7], [16.25, 16.40]),
    (500, 1.0, [28.1, 15.5], [16.15, 16.20]),
    (500, 2.0, [28.2, 16.7], [15.94, 15.77]),
    (500, 5.0, [28.6, 16.0], [15.28, 14.58]),
    (500, 10.0, [28.9, 16.3], [14.24, 12.48]),
    (500, 20.0, [29.4, 16.8], [11.96, 8.57]),
];

const WRITES: [Row; 12] = [
    (50, 0.5, [93.1, 26.9], [4.85, 1.98]),
    (50, 1.0, [105.8, 24.6], [4.75, 1.96]),
    (50, 2.0, [91.1, 22.7], [4.68, 1.94]),
    (50, 5.0, [102.2, 24.4], [4.40, 1.84]),
    (50, 10.0, [87.5, 23.7], [3.95, 1.70]),
    (50, 20.0, [81.3, 23.3], [3.09, 1.42]),
    (500, 0.5, [32.4, 20.3], [13.71, 11.41]),
    (500, 1.0, [36.0, 20.3], [13.64, 11.24]),
    (500, 2.0, [35.0, 20.8], [13.45, 11.02]),
    (500, 5.0, [34.9, 20.5], [12.82, 10.36]),
    (500, 10.0, [36.6, 20.3], [11.67, 9.13]),
    (500, 20.0, [34.6, 20.7], [9.64, 6.92]),
];

/// Writes are on the drive with the write-back rule that `spio-external` chooses.
fn point(how: Execution, op: Op, size: u32) -> Point {
    let point = Point::new(how, op, size);
    if op == Op::Write { point.destaging(WRITE_BACK) } else { point }
}

const HOW: [&str; 2] = ["npIO", "spIO"];

fn table2(on_progress: &mut dyn FnMut(f64)) -> Findings {
    responses(Op::Read, &READS, on_progress)
}

fn table4(on_progress: &mut dyn FnMut(f64)) -> Findings {
    responses(Op::Write, &WRITES, on_progress)
}

fn responses(op: Op, rows: &[Row; 12], on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut table = Series::new(
        "responses",
        &[
            "size_kb",
            "rate_per_s",
            "npio_ms",
            "spio_ms",
            "npio_mb_per_s",
            "spio_mb_per_s",
            "paper_npio_ms",
            "paper_spio_ms",
            "paper_npio_mb_per_s",
            "paper_spio_mb_per_s",
        ],
    );
    let mut checks = Vec::new();
    let mut done = 0_u32;
    for (size, rate, paper_ms, paper_mb) in rows {
        let [np, sp] = [WHOLE, PAPER].map(|how| point(how, op, *size).with_rate(*rate).measure());
        let (ms, mb) = ([np.high_ms, sp.high_ms], [np.mb_per_s, sp.mb_per_s]);
        for how in 0..2 {
            let name = |what| format!("{size} kB, {rate}/s, {}: {what}", HOW[how]);
            checks.push(cell((op, name("response")), ms[how], paper_ms[how], "ms"));
            checks.push(cell((op, name("throughput")), mb[how], paper_mb[how], "MB/s"));
        }
        table.rows.push([&[f64::from(*size), *rate][..], &ms, &mb, paper_ms, paper_mb].concat());
        done += 1;
        on_progress(f64::from(done) / 12.0);
    }
    if op == Op::Write {
        checks.push(writes(&checks));
    }
    let plots = vec![
        ("-response", plot(op, &table, [2, 6], "mean response of high-priority requests, ms")),
        ("-throughput", plot(op, &table, [4, 8], "throughput, MB/s")),
    ];
    Findings { checks, series: vec![table], plots }
}

/// The check of one cell. The cells of writes are told, and checked together by [`writes`].
fn cell((op, name): (Op, String), ours: f64, paper: f64, unit: &'static str) -> Check {
    match op {
        Op::Read => Check::within(name, ours, paper, paper * TOLERANCE, unit),
        _ => Check::unbounded(name, ours, unit, "one of the cells of writes").beside(paper),
    }
}

/// The number of cells of writes within the tolerance, of which all should be.
fn writes(cells: &[Check]) -> Check {
    let told = || cells.iter().filter_map(|cell| Some((cell.ours, cell.paper?, cell.bound)));
    let cells = || told().filter(|(.., bound)| bound.is_none());
    let close = cells().filter(|(ours, paper, _)| (ours - paper).abs() <= paper * TOLERANCE);
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let [close, all] = [close.count(), cells().count()].map(|count| count as f64);
    Check::at_least("cells of writes within 20 %", close, all, "cells")
}

/// The plot of a table: one line per size (six rows each) and execution, from the columns that
/// start at `columns`. FAST 2003's lines are dashed.
fn plot(op: Op, table: &Series, columns: [usize; 2], y: &str) -> Plot {
    let line = |(rows, how, paper): (&[Vec<f64>], usize, bool)| Line {
        name: format!("{} kB, {}{}", rows[0][0], HOW[how], if paper { ", paper" } else { "" }),
        points: rows.iter().map(|row| (row[1], row[columns[usize::from(paper)] + how])).collect(),
        dashed: paper,
    };
    let lines =
        |paper| table.rows.chunks(6).flat_map(move |rows| [(rows, 0, paper), (rows, 1, paper)]);
    let what = if op == Op::Write { "writes" } else { "reads" };
    Plot {
        caption: format!(
            "Single-sector reads of high priority beside {what} of low priority (st318437lw)"
        ),
        x: "requests of high priority, per s".into(),
        y: y.into(),
        lines: lines(false).chain(lines(true)).map(line).collect(),
        ..Plot::default()
    }
}

/// Table 3: size, expected waiting npIO RD, WR, spIO RD, WR, and responses in the same order, in
/// ms.
pub(super) const WAITS: [(u32, [f64; 4], [f64; 4]); 3] = [
    (50, [8.2, 11.4, 3.9, 9.5], [21.8, 105.8, 16.0, 24.6]),
    (250, [11.8, 12.9, 3.1, 5.6], [25.5, 27.2, 16.1, 21.2]),
    (500, [16.4, 18.7, 2.5, 4.7], [28.1, 36.0, 15.5, 20.3]),
];

fn table3(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let cells = [
        ("npIO, reads", WHOLE, Op::Read),
        ("npIO, writes", WHOLE, Op::Write),
        ("spIO, reads", PAPER, Op::Read),
        ("spIO, writes", PAPER, Op::Write),
    ];
    let columns = ["size_kb", "npio_rd", "npio_wr", "spio_rd", "spio_wr"];
    let (mut waits, mut responses) =
        (Series::new("waiting_ms", &columns), Series::new("response_ms", &columns));
    let mut checks = Vec::new();
    let mut done = 0_u32;
    for (size, paper_wait, paper_response) in WAITS {
        let measured = cells.map(|(_, how, op)| point(how, op, size).with_rate(1.0).measure());
        let wait = measured.each_ref().map(Measured::wait);
        let response = measured.each_ref().map(|measured| measured.high_ms);
        for (place, (name, _, op)) in cells.iter().enumerate() {
            let named = |what| (*op, format!("{size} kB, {name}: {what}"));
            checks.push(cell(named("expected waiting"), wait[place], paper_wait[place], "ms"));
            checks.push(cell(named("response"), response[place], paper_response[place], "ms"));
        }
        waits.rows.push([&[f64::from(size)][..], &wait].concat());
        responses.rows.push([&[f64::from(size)][..], &response].concat());
        done += 1;
        on_progress(f64::from(done) / 3.0);
    }
    checks.push(writes(&checks));
    let lines = cells.iter().enumerate().flat_map(|(place, (name, _, _))| {
        let ours = Line { name: (*name).into(), points: waits.points(0, place + 1), dashed: false };
        let papers = WAITS.iter().map(|(size, wait, _)| (f64::from(*size), wait[place]));
        [ours, Line { name: format!("{name}, paper"), points: papers.collect(), dashed: true }]
    });
    let plot = Plot {
        caption: "Expected waiting with one high-priority request a second (st318437lw)".into(),
        x: "size of the requests of low priority, kB".into(),
        y: "expected waiting, ms".into(),
        lines: lines.collect(),
        ..Plot::default()
    };
    Findings { checks, series: vec![waits, responses], plots: vec![("", plot)] }
}
