//! Figure 8: the seek curve that the profiler obtains, and the variation of single seeks (FAST 2003
//! §3.4).
//!
//! The profiler times reads of the simulated drive, with a noise of 0.2 ms, and knows neither the
//! drive's seek curve nor its seek jitter. The drive's curve passes through the two points that
//! FAST 2003 states, so that they show whether the profiler finds them.

use plot::{Line, Plot};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::measured::{PAPER_DRIVE, SEED, measured_profile};

pub(crate) const FIG8: Experiment =
    Experiment { id: "spio-fig8", title: "the seek curve as the profiler measures it", run: fig8 };

/// FAST 2003's seek times (§1.1), by distance in cylinders, in ms.
const PUBLISHED: [(u32, f64); 2] = [(10_000, 9.0), (20_000, 14.0)];
/// The accepted error of a measured seek time, in ms: a tenth of the variation of single seeks.
const ERROR_MAX: f64 = 0.1;
/// The variation "of the order of one millisecond" (§3.4), which is taken for two standard
/// deviations, and its accepted error, in ms.
const VARIATION: (f64, f64) = (1.0, 0.2);
const DISTANCES: u32 = 60;

fn fig8(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let spec = drive_library::find_mechanical(PAPER_DRIVE).expect("a drive of the library");
    let model = spec.check().expect("the library's drives are sound");
    let profile = measured_profile(PAPER_DRIVE, SEED);
    on_progress(0.9);
    let mut table = Series::new("curve", &["cylinders", "measured_ms", "drive_ms"]);
    let full = model.cylinders() - 1;
    for nth in 1..=DISTANCES {
        let distance = full * nth / DISTANCES;
        let [measured, own] =
            [profile.seek.time(distance), model.seek(distance)].map(units::Duration::as_millis_f64);
        table.rows.push(vec![f64::from(distance), measured, own]);
    }
    let off = table.rows.iter().map(|row| (row[1] - row[2]).abs()).fold(0.0, f64::max);
    let mut checks =
        vec![Check::at_most("measured curve: most off the drive's", off, ERROR_MAX, "ms")];
    for (distance, paper) in PUBLISHED {
        let measured = profile.seek.time(distance).as_millis_f64();
        let name = format!("a seek over {distance} cylinders");
        checks.push(Check::within(name, measured, paper, ERROR_MAX, "ms"));
    }
    let variation = profile.seek_variation.as_millis_f64() * 2.0;
    let (paper, error) = VARIATION;
    checks.push(Check::within("variation of single seeks", variation, paper, error, "ms"));
    on_progress(1.0);
    let line = |name: &str, column: usize, dashed: bool| Line {
        name: name.into(),
        points: table.points(0, column),
        dashed,
    };
    let plot = Plot {
        caption: format!("Seek curve as the profiler measures it ({PAPER_DRIVE}, noise of 0.2 ms)"),
        x: "distance, cylinders".into(),
        y: "seek time, ms".into(),
        lines: vec![line("measured", 1, false), line("of the drive", 2, true)],
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}
