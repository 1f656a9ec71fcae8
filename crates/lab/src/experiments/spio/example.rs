//! The worked example of FAST 2003 §1.1: 20,000 cylinders, 7 ms of rotation, 500 kB at 20 MB/s.

use std::sync::Arc;

use engine::expected_wait;
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

const SEEK: Duration = Duration::from_millis(14);
const ROTATION: Duration = Duration::from_millis(7);
const SUB_SEEK: Duration = Duration::from_millis(9);
const CHUNK: Duration = Duration::from_millis(1);
const CHUNKS: u64 = 25;
/// The rounding of FAST 2003's figures, which have two decimals.
const DIGITS: f64 = 0.005;
/// The number of seeks back and forth between two locations 20,000 cylinders apart.
const TRIPS: u32 = 500;
const CYLINDERS: u32 = 20_000;
const LONG: u64 = 11;

fn example(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let whole = SEEK + ROTATION + CHUNK * CHUNKS;
    let parts = [SUB_SEEK, SUB_SEEK].into_iter().chain((0..CHUNKS).map(|_| CHUNK));
    let idle =
        ROTATION.saturating_sub(SUB_SEEK * 2).max((SEEK + ROTATION).saturating_sub(SUB_SEEK * 2));
    let expected = [
        expected_wait([whole], Duration::ZERO).as_millis_f64(),
        expected_wait(parts.clone(), idle).as_millis_f64(),
    ];
    let longest = [whole.as_millis_f64(), parts.max().expect("some").as_millis_f64()];
    on_progress(0.2);
    let exactly = |name: &str, ours, paper| Check::within(name, ours, paper, DIGITS, "ms");
    let [np, sp] = [WHOLE, PAPER].map(|execution| {
        let low = Low::Listed(there_and_back());
        Point { drive: "st318437lw", execution, low, rate: 0.0, profile: None }.measure()
    });
    on_progress(1.0);
    let longest_on_disk = [&np, &sp].map(|measured| measured.commands.longest().as_millis_f64());
    let ms = Duration::from_millis;
    let long = sp.commands.fraction(ms(LONG), ms(1_000));
    let name = |what| format!("st318437lw, {CYLINDERS} cylinders: {what}");
    let checks = vec![
        exactly("npIO: expected waiting", expected[0], 23.0),
        exactly("npIO: longest waiting", longest[0], 46.0),
        exactly("spIO: expected waiting", expected[1], 2.03),
        exactly("spIO: longest waiting", longest[1], 9.0),
        // A sub-seek takes 9 ms plus its command overhead and jitter. A miss costs a revolution.
        Check::at_most(name("part of spIO's commands of 11 ms and more"), long, 0.01, "ratio"),
        Check::at_most(name("expected waiting of spIO"), sp.wait(), np.wait() / 5.0, "ms"),
    ];
    let mut series = Series::new(
        "waiting",
        &["preemptible", "expected_ms", "longest_ms", "expected_on_disk_ms", "longest_on_disk_ms"],
    );
    for (how, measured) in [np, sp].iter().enumerate() {
        let preemptible = if how == 0 { 0.0 } else { 1.0 };
        let row = [preemptible, expected[how], longest[how], measured.wait(), longest_on_disk[how]];
        series.rows.push(row.to_vec());
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
