//! Preemptible execution on a current SATA drive. SATA has no command that only seeks, so that
//! short reads, where they pay, or the transfers themselves carry out just-in-time seeks, and no
//! seek is split.
//!
//! The profile is the assumed one, and the model's seeks do not vary, so that no seek arrives late
//! and no revolution is lost. Seeks of a real drive vary; `spio-fig11` shows the cost on a drive
//! with seek jitter.

use plot::{Line, Plot};
use units::Op;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Point, lost};
use super::settings::{SIZES, WHOLE, ours};

pub(crate) const HGST: Experiment = Experiment {
    id: "spio-hgst",
    title: "what preemptible execution is worth on a drive of today",
    run: hgst,
};

fn hgst(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let columns = [
        "size_kb",
        "npio_wait_ms",
        "spio_wait_ms",
        "npio_response_ms",
        "spio_response_ms",
        "npio_mb_per_s",
        "spio_mb_per_s",
        "lost_percent",
        "missed_percent",
    ];
    let mut table = Series::new("table", &columns);
    for (done, size) in (1_u32..).zip(SIZES) {
        let of = |how, rate| {
            Point { drive: "hgst-7k8", ..Point::new(how, Op::Read, size) }.with_rate(rate).measure()
        };
        let ([np, sp], [np_high, sp_high]) =
            ([WHOLE, ours()].map(|how| of(how, 0.0)), [WHOLE, ours()].map(|how| of(how, 1.0)));
        let executed = sp.executed;
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let missed = executed.missed as f64 / executed.jit_transfers.max(1) as f64 * 100.0;
        let (wait, high) = ([np.wait(), sp.wait()], [np_high.high_ms, sp_high.high_ms]);
        let rate = [np.mb_per_s, sp.mb_per_s];
        let rest = [lost(rate[0], rate[1]), missed];
        table.rows.push([&[f64::from(size)][..], &wait, &high, &rate, &rest].concat());
        on_progress(f64::from(done) / 6.0);
    }
    let least = |of: usize, to: usize| {
        table.rows.iter().map(|row| row[to] / row[of]).fold(f64::INFINITY, f64::min)
    };
    let most_lost = table.column(7).fold(f64::NEG_INFINITY, f64::max);
    let checks = vec![
        Check::at_least(
            "expected waiting of npIO ÷ ours, least of all sizes",
            least(2, 1),
            1.0,
            "times",
        ),
        Check::at_least("response of npIO ÷ ours, least of all sizes", least(4, 3), 1.0, "times"),
        Check::at_most("most throughput lost at any size", most_lost, 15.0, "%"),
    ];
    let line = |name: &str, column| Line {
        name: name.into(),
        points: table.points(0, column),
        dashed: false,
    };
    let plot = Plot {
        caption: "Preemptible execution on a drive of today (hgst-7k8, random reads, first come \
                  first served)"
            .into(),
        x: "size of a request, kB".into(),
        y: "ms".into(),
        lines: vec![
            line("npIO, expected waiting", 1),
            line("ours, expected waiting", 2),
            line("npIO, response of high priority", 3),
            line("ours, response of high priority", 4),
        ],
        x_log: true,
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}
