//! This implementation's settings against FAST 2003's: the effect of each decision.

use engine::{Approach, Execution, FreePrefetch, Jit, Preemptible, SeekSplit};
use plot::{Line, Plot};
use units::Op;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Low, Measured, Point, lost};
use super::settings::{JIT, PAPER, SIZES, SPLIT, WHOLE, as_published, ours};
use super::traces::{video_server, video_server_by_elevator};

pub(crate) const BETTER: Experiment = Experiment {
    id: "spio-better",
    title: "semi-preemptible execution better than FAST 2003's, and why",
    run: better,
};

/// The settings from FAST 2003's to the default ones. The numbers are those of the tables' rows.
fn executions() -> [Execution; 6] {
    let (paper, ours) = (as_published(Some(JIT), SPLIT), Preemptible::default());
    let ahead = Preemptible { jit: Some(Jit { approach: Approach::Ahead, ..JIT }), ..paper };
    [
        // 1: FAST 2003's settings.
        paper,
        // 2: as 1, but a seek is split only if rotational slack hides the cost of the split.
        Preemptible { seek_split: Some(SeekSplit::Hidden), ..paper },
        // 3: as 2, with the seek sent ahead of the transfer.
        Preemptible { seek_split: Some(SeekSplit::Hidden), ..ahead },
        // 4: as 3, without seek splitting.
        Preemptible { seek_split: None, ..ahead },
        // 5: the default settings: as 3, with a chunk length per zone.
        ours,
        // 6: as 5, with free prefetching.
        Preemptible { free_prefetch: FreePrefetch::ToDrive, ..ours },
    ]
    .map(Execution::Preemptible)
}

/// The index of the default settings.
const OURS: usize = 4;
/// The request size for which the bounds are given, in kB.
const SIZE: u32 = 500;

fn better(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let at_size = against(on_progress, 0.0, |how| Point::new(how, Op::Read, SIZE));
    let served = |low: Low| {
        move |execution| Point { low: low.clone(), ..Point::of("st318437lw", execution) }
    };
    let video = against(on_progress, 0.2, served(video_server()));
    let swept = against(on_progress, 0.4, served(video_server_by_elevator()));
    let ours_at = |rows: &[[f64; 6]]| rows[OURS];
    let (random, server, elevator) = (ours_at(&at_size), ours_at(&video), ours_at(&swept));
    let mut checks = bounds("500 kB, first come first served", random, [7.0, 2.0], [6.6, 15.0]);
    checks.extend(bounds("video server (DV15)", server, [3.0, 3.0], [2.1, 6.0]));
    checks.extend(bounds("video server (Elevator15)", elevator, [3.0, 3.0], [2.1, 6.0]));
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
        on_progress(0.6 + f64::from(done) / 15.0);
    }
    let plots = vec![
        ("-waiting", plot(&sizes, 1, "expected waiting of npIO ÷ theirs, times")),
        ("-lost", plot(&sizes, 3, "throughput lost against npIO, %")),
    ];
    let series = vec![
        table("500kB", &at_size),
        table("video", &video),
        table("video_elevator", &swept),
        sizes,
    ];
    Findings { checks, series, plots }
}

/// Checks of the ratio of waiting times and of the loss of throughput in %, with FAST 2003's
/// figures beside.
fn bounds(what: &str, ours: [f64; 6], bounds: [f64; 2], paper: [f64; 2]) -> Vec<Check> {
    let (times, lost) =
        (format!("{what}: waiting of npIO ÷ ours"), format!("{what}: throughput lost"));
    vec![
        Check::at_least(times, ours[1], bounds[0], "times").beside(paper[0]),
        Check::at_most(lost, ours[2], bounds[1], "%").beside(paper[1]),
    ]
}

/// One row per setting: the expected wait in ms, npIO's wait ÷ this wait, the throughput lost in %,
/// missed in % of timed transfers, seek splits in % of the requests, and the rate of free
/// prefetches in MB/s.
fn against(
    on_progress: &mut dyn FnMut(f64),
    from: f64,
    point: impl Fn(Execution) -> Point,
) -> Vec<[f64; 6]> {
    let np = point(WHOLE).measure();
    let mut rows = Vec::new();
    for (done, how) in (1_u32..).zip(executions()) {
        rows.push(row(&np, &point(how).measure()));
        on_progress(from + f64::from(done) / 45.0);
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
        percent(executed.missed, executed.jit_transfers),
        percent(executed.split_seeks, it.requests),
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
        caption: "Semi-preemptible execution, FAST 2003's and ours (first come first served, \
                  random reads, st318437lw)"
            .into(),
        x: "size of a request, kB".into(),
        y: y.into(),
        lines: vec![line("FAST 2003's", first), line("ours", first + 1)],
        x_log: true,
        ..Plot::default()
    }
}
