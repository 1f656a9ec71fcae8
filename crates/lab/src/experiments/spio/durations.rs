//! Figure 13: the durations of commands, in which the disk is not preemptible (FAST 2003 §4.1.1).

use plot::{Line, Plot};
use units::{Duration, Extent, Lba, Op};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Measured, Point};
use super::settings::{CHUNK, PAPER, PAPER_PREFETCHING, TOLERANCE, WHOLE};

pub(crate) const FIG13: Experiment =
    Experiment { id: "spio-fig13", title: "distribution of command durations", run: fig13 };

/// The request size in kB, and FAST 2003's probability that a command takes 3 to 16 ms.
const SIZES: [(u32, f64); 3] = [(50, 0.168), (500, 0.056), (2_000, 0.017)];
/// The largest duration that the figures show, in ms.
const SHOWN: f64 = 120.0;

/// FAST 2003 does not say whether figure 13 has free prefetching. Its 0.168 for 50 kB cannot be had
/// without: such a request has two chunks, of which one includes a seek, and a quarter of the seeks
/// are split, so that five of nine commands are long. The five chunks or so that are prefetched in
/// a slack of half a revolution make it one in six. All sizes are compared with free prefetching,
/// and those that are long enough for either without it too.
fn fig13(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let ms = Duration::from_millis;
    let long = |measured: &Measured| measured.commands.fraction(ms(3), ms(16));
    let columns = ["size_kb", "with_free_prefetching", "without", "paper", "mode_ms"];
    let mut table = Series::new("between_3_and_16_ms", &columns);
    let mut checks = Vec::new();
    let (mut whole, mut short) = (Vec::new(), Vec::new());
    for (done, (size, paper)) in (1_u32..).zip(SIZES) {
        let of = |how| Point::new(how, Op::Read, size).measure();
        let (np, without, with) = (of(WHOLE), of(PAPER), of(PAPER_PREFETCHING));
        let parts = [(&with, "free prefetching"), (&without, "without")];
        for (measured, how) in parts.into_iter().take(if size == SIZES[0].0 { 1 } else { 2 }) {
            let name = format!("{size} kB, {how}: part of the commands that take 3 to 16 ms");
            checks.push(Check::within(name, long(measured), paper, paper * TOLERANCE, "ratio"));
        }
        let mode = mode(&with);
        let name = format!("{size} kB: mode of the distribution");
        let (least, most) = chunk_ms();
        checks.push(Check::at_least(name.clone() + ", a chunk", mode, least, "ms"));
        checks.push(Check::at_most(name, mode, most, "ms"));
        table.rows.push(vec![f64::from(size), long(&with), long(&without), paper, mode]);
        whole.push(line(size, &np));
        short.push(line(size, &with));
        on_progress(f64::from(done) / 3.0);
    }
    let series = SIZES.iter().zip(whole.iter().zip(&short)).map(|((size, _), (np, sp))| {
        let mut series = Series::new(format!("{size}kB"), &["ms", "npio", "spio"]);
        let rows = np.points.iter().zip(&sp.points).map(|(np, sp)| vec![np.0, np.1, sp.1]);
        series.rows.extend(rows);
        series
    });
    let series = std::iter::once(table).chain(series).collect();
    let plots = vec![
        ("a", plot("non-preemptible", thinned(whole), false)),
        ("b", plot("semi-preemptible, free prefetching", thinned(short), true)),
    ];
    Findings { checks, series, plots }
}

fn line(size: u32, measured: &Measured) -> Line {
    let points = measured.commands.distribution().take_while(|(at, _)| *at <= SHOWN).collect();
    Line { name: format!("{size} kB"), points, dashed: false }
}

/// Thins the lines to steps of 0.5 ms after the first 4 ms, where the peaks are.
fn thinned(lines: Vec<Line>) -> Vec<Line> {
    let thin = |line: Line| {
        let (fine, coarse): (Vec<_>, Vec<_>) = line.points.into_iter().partition(|at| at.0 < 4.0);
        let mean = |five: &[(f64, f64)]| {
            (five[five.len() / 2].0, five.iter().map(|at| at.1).sum::<f64>() / 5.0)
        };
        Line { points: fine.into_iter().chain(coarse.chunks(5).map(mean)).collect(), ..line }
    };
    lines.into_iter().map(thin).collect()
}

/// The most frequent duration, in ms.
fn mode(measured: &Measured) -> f64 {
    let most = |most: (f64, f64), next: (f64, f64)| if next.1 > most.1 { next } else { most };
    measured.commands.distribution().fold((0.0, 0.0), most).0
}

/// The media transfer time of a chunk in the outermost and in the innermost zone, in ms, widened by
/// one step of the distribution on each side.
fn chunk_ms() -> (f64, f64) {
    let spec = drive_library::find_mechanical("st318437lw").expect("in the library");
    let profile = drive_library::profile::assumed(&spec.check().expect("a drive"));
    let last = profile.bands.last().expect("a disk has zones").lbas.start;
    let [least, most] =
        [Lba(0), last].map(|at| profile.transfer_time(Extent::new(at, CHUNK)).as_millis_f64());
    (least - 0.1, most + 0.1)
}

fn plot(how: &str, lines: Vec<Line>, log: bool) -> Plot {
    Plot {
        caption: format!(
            "How long the disk cannot be interrupted ({how}, random reads, st318437lw)"
        ),
        x: "duration, ms".into(),
        y: "part of all, a step of 0.1 ms".into(),
        lines,
        x_log: log,
        y_log: log,
        ..Plot::default()
    }
}
