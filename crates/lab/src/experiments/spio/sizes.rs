//! Figures 9 to 12: expected waiting and throughput against the size of requests (FAST 2003
//! §4.1.1).

use core::num::NonZeroU64;

use config::Access;
use plot::{Line, Plot};
use units::Op;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Point, lost};
use super::settings::{PAPER, PAPER_PREFETCHING, SIZES, TOLERANCE, WHOLE, ours};

pub(crate) const FIG9: Experiment = Experiment {
    id: "spio-fig9",
    title: "expected waiting against size, first come first served",
    run: fig9,
};

pub(crate) const FIG10: Experiment = Experiment {
    id: "spio-fig10",
    title: "expected waiting against size, elevator of 40",
    run: fig10,
};

pub(crate) const FIG11: Experiment = Experiment {
    id: "spio-fig11",
    title: "throughput against size, first come first served",
    run: fig11,
};

pub(crate) const FIG12: Experiment =
    Experiment { id: "spio-fig12", title: "throughput against size, elevator of 40", run: fig12 };

/// The points of figure 9 that table 3 states: size in kB, npIO's and spIO's expected waiting in
/// ms.
const WAITS: [(u32, [f64; 2]); 3] = [(50, [8.2, 3.9]), (250, [11.8, 3.1]), (500, [16.4, 2.5])];

/// An elevator over 40 requests at a time.
pub(super) fn elevator() -> Access {
    Access::Elevator { batch: NonZeroU64::new(40).expect("above zero") }
}

fn fig9(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = waiting(Access::Random, "first come first served", on_progress);
    let table = &findings.series[0];
    for (size, paper) in WAITS {
        let place = SIZES.iter().position(|one| *one == size).expect("one of the sizes");
        let row = &table.rows[place];
        for (how, name) in ["npIO", "spIO"].into_iter().enumerate() {
            let bound = paper[how] * TOLERANCE;
            let name = format!("{size} kB, {name}: expected waiting");
            findings.checks.push(Check::within(name, row[1 + how], paper[how], bound, "ms"));
        }
    }
    findings
}

fn fig10(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut findings = waiting(elevator(), "elevator of 40", on_progress);
    let by_turn = SIZES.map(|size| Point::new(PAPER, Op::Read, size).wait());
    let ratios = findings.series[0].column(2).zip(by_turn).map(|(swept, by_turn)| swept / by_turn);
    let worst = ratios.fold(0.0, f64::max);
    let name = "spIO: waiting by elevator ÷ first come first served, most of all sizes";
    findings.checks.push(Check::at_most(name, worst, 1.0, "ratio"));
    findings
}

fn waiting(access: Access, order: &str, on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut table = Series::new("waiting", &["size_kb", "npio_ms", "spio_ms", "ours_ms"]);
    for (done, size) in (1_u32..).zip(SIZES) {
        let wait = |how| Point::new(how, Op::Read, size).with_access(access).wait();
        table.rows.push(vec![f64::from(size), wait(WHOLE), wait(PAPER), wait(ours())]);
        on_progress(f64::from(done) / 6.0);
    }
    let rise = |column: usize| {
        let waits: Vec<f64> = table.column(column).collect();
        waits.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<f64>>()
    };
    let least = rise(1).into_iter().fold(f64::INFINITY, f64::min);
    let most = rise(2).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let checks = vec![
        Check::at_least("npIO: least rise from size to size", least, 0.0, "ms"),
        Check::at_most(
            "npIO: furthest from a straight line",
            nonlinearity(&table.points(0, 1)),
            1.0,
            "ms",
        ),
        Check::at_most("spIO: greatest rise from size to size", most, 0.0, "ms"),
    ];
    let line = |name: &str, column| Line {
        name: name.into(),
        points: table.points(0, column),
        dashed: false,
    };
    let plot = Plot {
        caption: format!("Expected waiting against size ({order}, random reads, st318437lw)"),
        x: "size of a request, kB".into(),
        y: "expected waiting, ms".into(),
        lines: vec![
            line("non-preemptible", 1),
            line("semi-preemptible, FAST 2003's", 2),
            line("semi-preemptible, ours", 3),
        ],
        x_log: true,
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}

/// The largest distance of a point from the regression line of all points.
fn nonlinearity(points: &[(f64, f64)]) -> f64 {
    let count: f64 = points.iter().map(|_| 1.0).sum();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|at| at.0), mean(|at| at.1));
    let covariance: f64 = points.iter().map(|at| (at.0 - x) * (at.1 - y)).sum();
    let variance: f64 = points.iter().map(|at| (at.0 - x) * (at.0 - x)).sum();
    let slope = covariance / variance;
    points.iter().map(|at| (at.1 - y - slope * (at.0 - x)).abs()).fold(0.0, f64::max)
}

fn fig11(on_progress: &mut dyn FnMut(f64)) -> Findings {
    throughput(Access::Random, "first come first served", on_progress)
}

fn fig12(on_progress: &mut dyn FnMut(f64)) -> Findings {
    throughput(elevator(), "elevator of 40", on_progress)
}

fn throughput(access: Access, order: &str, on_progress: &mut dyn FnMut(f64)) -> Findings {
    let columns = [
        "size_kb",
        "npio_mb_per_s",
        "spio_mb_per_s",
        "free_prefetching_mb_per_s",
        "ours_mb_per_s",
        "spio_lost_percent",
        "ours_lost_percent",
    ];
    let mut table = Series::new("throughput", &columns);
    for (done, size) in (1_u32..).zip(SIZES) {
        let of = |how| Point::new(how, Op::Read, size).with_access(access).measure();
        let (np, sp, ours) = (of(WHOLE).mb_per_s, of(PAPER).mb_per_s, of(ours()).mb_per_s);
        let free = of(PAPER_PREFETCHING).mb_per_s_prefetching;
        table.rows.push(vec![f64::from(size), np, sp, free, ours, lost(np, sp), lost(np, ours)]);
        on_progress(f64::from(done) / 6.0);
    }
    let losses: Vec<f64> = table.column(5).collect();
    let most = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let gains = table.rows.iter().map(|row| row[3] - row[2]);
    let checks = vec![
        Check::at_most("spIO: most throughput lost at any size", most, 15.0, "%").beside(15.0),
        Check::at_most("spIO: lost at 2000 kB", losses[5], losses[0], "%"),
        Check::at_least(
            "free prefetching: least gain over spIO",
            gains.fold(f64::INFINITY, f64::min),
            0.0,
            "MB/s",
        ),
    ];
    let line = |name: &str, column| Line {
        name: name.into(),
        points: table.points(0, column),
        dashed: false,
    };
    let plot = Plot {
        caption: format!("Throughput against size ({order}, random reads, st318437lw)"),
        x: "size of a request, kB".into(),
        y: "throughput, MB/s".into(),
        lines: vec![
            line("non-preemptible", 1),
            line("semi-preemptible, FAST 2003's", 2),
            line("the same with free prefetching", 3),
            line("semi-preemptible, ours", 4),
        ],
        x_log: true,
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}
