//! Ours against the paper's: which decision gives what.

use engine::{Approach, Execution, Jit, Preemptible, SeekSplit};
use report::{Line, Plot};
use units::Op;

use super::super::{Check, Experiment, Findings, Series};
use super::point::{Measured, Point, lost};
use super::traces::video_server;
use super::{CHUNK, JIT, PAPER, SIZES, SPLIT, WHOLE, of_the_paper, ours};

pub(in super::super) const BETTER: Experiment = Experiment {
    id: "spio-better",
    title: "semi-preemptible execution better than the paper's, and why",
    run: better,
};

/// From the paper's settings to ours, one by one; and back from ours, one at a time.
fn ways() -> [(&'static str, Execution); 8] {
    let default = Preemptible::default();
    let ahead = Some(Jit { approach: Approach::Ahead, ..JIT });
    let paper = of_the_paper(Some(JIT), SPLIT);
    let hidden = Some(SeekSplit::Hidden);
    [
        ("the paper's", PAPER),
        ("arm ahead", Execution::Preemptible(Preemptible { jit: ahead, ..paper })),
        (
            "arm ahead, no splitting",
            Execution::Preemptible(Preemptible { jit: ahead, seek_split: None, ..paper }),
        ),
        (
            "arm ahead, splits hidden",
            Execution::Preemptible(Preemptible { jit: ahead, seek_split: hidden, ..paper }),
        ),
        ("ours (and chunks by zone)", Execution::Preemptible(default)),
        (
            "ours, arm just in time",
            Execution::Preemptible(Preemptible { jit: Some(JIT), ..default }),
        ),
        (
            "ours, chunks of 50",
            Execution::Preemptible(Preemptible { chunk: Some(CHUNK), ..default }),
        ),
        (
            "ours, free prefetching",
            Execution::Preemptible(Preemptible { free_prefetch: true, ..default }),
        ),
    ]
}

/// The size that the bounds are for, in kB.
const SIZE: u32 = 500;

fn better(told: &mut dyn FnMut(f64)) -> Findings {
    let at_size = against(told, 0.0, |how| Point::new(how, Op::Read, SIZE));
    let video = against(told, 0.3, |execution| Point {
        drive: "st318437lw",
        execution,
        low: video_server(),
        rate: 0.0,
    });
    let ours_at = |rows: &[[f64; 6]]| rows[4];
    let (random, server) = (ours_at(&at_size), ours_at(&video));
    let checks = vec![
        Check::at_least(
            "500 kB, first come first served: waiting of npIO ÷ ours",
            random[1],
            7.0,
            "times",
        )
        .beside(6.6),
        Check::at_most("500 kB, first come first served: throughput lost", random[2], 2.0, "%")
            .beside(15.0),
        Check::at_least("video server: waiting of npIO ÷ ours", server[1], 3.0, "times")
            .beside(2.1),
        Check::at_most("video server: throughput lost", server[2], 3.0, "%").beside(6.0),
    ];
    let columns = [
        "way",
        "wait_ms",
        "npio_over_it",
        "lost_percent",
        "missed_percent",
        "split_percent",
        "free_mb_per_s",
    ];
    let table = |name: &str, rows: &[[f64; 6]]| {
        let mut table = Series::new(name, &columns);
        for (row, nth) in rows.iter().zip(1_u32..) {
            table.rows.push([&[f64::from(nth)][..], row].concat());
        }
        table
    };
    let mut sizes = Series::new(
        "sizes",
        &[
            "size_kb",
            "npio_over_paper",
            "npio_over_ours",
            "paper_lost_percent",
            "ours_lost_percent",
        ],
    );
    for (done, size) in (1_u32..).zip(SIZES) {
        let of = |how| Point::new(how, Op::Read, size).measure();
        let (np, paper, ours) = (of(WHOLE), of(PAPER), of(ours()));
        let [times_paper, times_ours] = [&paper, &ours].map(|how| np.wait() / how.wait());
        let [lost_paper, lost_ours] = [&paper, &ours].map(|how| lost(np.mb_per_s, how.mb_per_s));
        sizes.rows.push(vec![f64::from(size), times_paper, times_ours, lost_paper, lost_ours]);
        told(0.6 + f64::from(done) / 15.0);
    }
    let plots = vec![
        ("-waiting", plot(&sizes, 1, "expected waiting of npIO ÷ theirs, times")),
        ("-lost", plot(&sizes, 3, "throughput lost against npIO, %")),
    ];
    let series = vec![table("500kB", &at_size), table("video", &video), sizes];
    Findings { checks, series, plots }
}

/// Each way: wait in ms, how many times less than npIO's, throughput lost in %, misses of what was timed in %, splits
/// of the requests in %, and what was read in slack, in MB/s.
fn against(
    told: &mut dyn FnMut(f64),
    from: f64,
    point: impl Fn(Execution) -> Point,
) -> Vec<[f64; 6]> {
    let np = point(WHOLE).measure();
    let mut rows = Vec::new();
    for (done, (_, how)) in (1_u32..).zip(ways()) {
        rows.push(row(&np, &point(how).measure()));
        told(from + f64::from(done) / 27.0);
    }
    rows
}

fn row(np: &Measured, it: &Measured) -> [f64; 6] {
    let executed = it.executed;
    let percent = |of: u64, whole: u64| {
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let (of, whole) = (of as f64, whole.max(1) as f64);
        of / whole * 100.0
    };
    [
        it.wait(),
        np.wait() / it.wait(),
        lost(np.mb_per_s, it.mb_per_s),
        percent(executed.missed, executed.timed),
        percent(executed.split, it.requests),
        it.mb_per_s_prefetching - it.mb_per_s,
    ]
}

fn plot(sizes: &Series, first: usize, y: &str) -> Plot {
    let line = |name: &str, column| Line {
        name: name.into(),
        points: sizes.points(0, column),
        dashed: false,
    };
    Plot {
        caption: "Semi-preemptible execution, the paper's and ours (first come first served, random reads, st318437lw)".into(),
        x: "size of a request, kB".into(),
        y: y.into(),
        lines: vec![line("the paper's", first), line("ours", first + 1)],
        x_log: true,
        ..Plot::default()
    }
}
