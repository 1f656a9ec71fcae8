//! The setting of FAST 2003's worked example (§1.1) on its drive: reads of 500 kB that seek over
//! 20,000 cylinders. The example's arithmetic, 23 and 2.03 ms, is a test of the engine.

use std::sync::Arc;

use units::{Duration, Extent, Lba, Operation, Sectors};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Low, Point};
use super::settings::{PAPER, WHOLE};

pub(crate) const EXAMPLE: Experiment = Experiment {
    id: "spio-example",
    title: "the worked example: a 500 kB read, whole and in short commands",
    run: example,
};

/// The number of seeks back and forth between two locations 20,000 cylinders apart.
const TRIPS: u32 = 500;
const CYLINDERS: u32 = 20_000;
const LONG: u64 = 11;
/// The example's ratio of waiting times, 23 ms ÷ 2.03 ms.
const EXAMPLE_TIMES: f64 = 23.0 / 2.03;
/// The least accepted ratio: the example has a rotation of 7 ms, which is nearly a revolution; half
/// of one is the mean here.
const TIMES: f64 = 5.0;

fn example(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let [np, sp] = [WHOLE, PAPER].map(|execution| {
        let low = Low::Listed(there_and_back());
        Point { low, ..Point::of("st318437lw", execution) }.measure()
    });
    on_progress(1.0);
    let ms = Duration::from_millis;
    let long = sp.commands.fraction(ms(LONG), ms(1_000));
    let name = |what| format!("st318437lw, {CYLINDERS} cylinders: {what}");
    let checks = vec![
        // A sub-seek takes 9 ms plus its command overhead and jitter. A miss costs a revolution.
        Check::at_most(name("part of spIO's commands of 11 ms and more"), long, 0.01, "ratio"),
        Check::at_least(
            name("expected waiting, npIO ÷ spIO"),
            np.wait() / sp.wait(),
            TIMES,
            "times",
        )
        .beside(EXAMPLE_TIMES),
    ];
    let mut series = Series::new("waiting", &["preemptible", "expected_ms", "longest_ms"]);
    for (preemptible, measured) in [(0.0, &np), (1.0, &sp)] {
        let longest = measured.commands.longest().as_millis_f64();
        series.rows.push(vec![preemptible, measured.wait(), longest]);
    }
    Findings { checks, series: vec![series], plots: Vec::new() }
}

/// Reads of 500 kB that alternate between two locations of the disk.
fn there_and_back() -> Arc<[Operation]> {
    let spec = drive_library::find_mechanical("st318437lw").expect("in the library");
    let profile = drive_library::profile::assumed(&spec.check().expect("a drive"));
    let read = |cylinder: u32, nth: u32| {
        let start = profile.first_lba_on(cylinder).0 + u64::from(nth) * 7;
        Operation::read(Extent::new(Lba(start), Sectors(1_000)))
    };
    (0..TRIPS).flat_map(|nth| [read(5_000, nth), read(5_000 + CYLINDERS, nth)]).collect()
}
