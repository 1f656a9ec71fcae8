//! Figures 16 and 17: the effects of chunking, just-in-time seeks, seek splitting and free
//! prefetching, one by one (FAST 2003 §4.2).

use engine::Execution;
use plot::{Line, Plot};
use units::Op;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::Point;
use super::settings::{JIT, PAPER, PAPER_PREFETCHING, SIZES, WHOLE, as_published};
use super::sizes::elevator;

pub(crate) const FIG16: Experiment = Experiment {
    id: "spio-fig16",
    title: "expected waiting by what is done, elevator of 40",
    run: fig16,
};

pub(crate) const FIG17: Experiment = Experiment {
    id: "spio-fig17",
    title: "throughput by what is done, elevator of 40",
    run: fig17,
};

const CHUNKING: Execution = Execution::Preemptible(as_published(None, None));
const JUST_IN_TIME: Execution = Execution::Preemptible(as_published(Some(JIT), None));
const STEPS: [(&str, Execution); 3] = [
    ("chunking", CHUNKING),
    ("chunking + JIT-seek", JUST_IN_TIME),
    ("chunking + JIT-seek + seek splitting", PAPER),
];

fn point(how: Execution, size: u32) -> Point {
    Point::new(how, Op::Read, size).with_access(elevator())
}

fn fig16(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let columns = [
        "size_kb",
        "npio_ms",
        "chunking_ms",
        "jit_ms",
        "splitting_ms",
        "fcfs_jit_ms",
        "fcfs_splitting_ms",
    ];
    let mut table = Series::new("waiting", &columns);
    for (done, size) in (1_u32..).zip(SIZES) {
        let swept = [WHOLE, CHUNKING, JUST_IN_TIME, PAPER].map(|how| point(how, size).wait());
        let by_turn = [JUST_IN_TIME, PAPER].map(|how| Point::new(how, Op::Read, size).wait());
        table.rows.push([&[f64::from(size)][..], &swept, &by_turn].concat());
        on_progress(f64::from(done) / 6.0);
    }
    let (first, last) = (&table.rows[0], &table.rows[5]);
    let most = |less: usize, more: usize| {
        table.rows.iter().map(|row| row[less] / row[more]).fold(0.0, f64::max)
    };
    let checks = vec![
        Check::at_most("chunking ÷ npIO, most of all sizes", most(2, 1), 1.0, "ratio"),
        Check::at_most("JIT-seek ÷ chunking alone, most of all sizes", most(3, 2), 1.0, "ratio"),
        Check::at_most(
            "first come first served: splitting ÷ without, most of all sizes",
            most(6, 5),
            1.0,
            "ratio",
        ),
        Check::at_most(
            "part of all that chunking spares, 50 kB",
            spared(first),
            spared(last),
            "ratio",
        ),
        Check::at_least("part of all that chunking spares, 2000 kB", spared(last), 0.8, "ratio"),
    ];
    let plot =
        plot("Expected waiting", "expected waiting, ms", &table, 2, &STEPS.map(|(name, _)| name));
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}

/// The fraction of the total saving that chunking alone saves.
fn spared(row: &[f64]) -> f64 {
    (row[1] - row[2]) / (row[1] - row[4])
}

fn fig17(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let columns = [
        "size_kb",
        "npio_mb_per_s",
        "chunking_mb_per_s",
        "jit_mb_per_s",
        "splitting_mb_per_s",
        "free_prefetching_mb_per_s",
    ];
    let mut table = Series::new("throughput", &columns);
    for (done, size) in (1_u32..).zip(SIZES) {
        let brought =
            [WHOLE, CHUNKING, JUST_IN_TIME, PAPER].map(|how| point(how, size).measure().mb_per_s);
        let free = point(PAPER_PREFETCHING, size).measure().mb_per_s_prefetching;
        table.rows.push([&[f64::from(size)][..], &brought, &[free]].concat());
        on_progress(f64::from(done) / 6.0);
    }
    let ratio = |row: &Vec<f64>, of: usize, to: usize| row[of] / row[to];
    let least =
        |of, to| table.rows.iter().map(|row| ratio(row, of, to)).fold(f64::INFINITY, f64::min);
    let (first, last) = (&table.rows[0], &table.rows[5]);
    let gain = |row: &[f64]| row[5] / row[4];
    let checks = vec![
        Check::at_least("chunking ÷ npIO, least of all sizes", least(2, 1), 0.98, "ratio"),
        Check::at_most(
            "JIT-seek and splitting: lost of chunking at 2000 kB",
            1.0 - ratio(last, 4, 2),
            1.0 - ratio(first, 4, 2),
            "ratio",
        ),
        Check::at_least(
            "free prefetching ÷ without, least of all sizes",
            least(5, 4),
            1.0,
            "ratio",
        ),
        Check::at_least("free prefetching ÷ without, 50 kB", gain(first), gain(last), "ratio"),
    ];
    let names = [STEPS[0].0, STEPS[1].0, STEPS[2].0, "free prefetching"];
    let plot = plot("Throughput", "throughput, MB/s", &table, 2, &names);
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}

fn plot(what: &str, y: &str, table: &Series, first: usize, names: &[&str]) -> Plot {
    let line = |(column, name): (usize, &&str)| Line {
        name: (*name).to_owned(),
        points: table.points(0, column),
        dashed: false,
    };
    Plot {
        caption: format!("{what}, part by part (elevator of 40, random reads, st318437lw)"),
        x: "size of a request, kB".into(),
        y: y.into(),
        lines: (first..).zip(names).map(line).collect(),
        x_log: true,
        ..Plot::default()
    }
}
