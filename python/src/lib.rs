//! The native half of the Python package `spindle_sim`: text in, text and integers out. The Python
//! half gives them their shapes.
//!
//! Nothing here decides anything: scenarios are parsed, admitted and simulated by the crates that
//! `spindle` is made of, so that results are equal bit for bit. Bad input is a `ValueError` with
//! the sentence that `spindle` prints.

mod arrow;
mod drive;
mod requests;
mod values;

use std::path::Path;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spindle_config::{DiskIndex, Plan};
use spindle_sim::{RECORDED_MAX, Simulation};
use spindle_units::Instant;

/// A `ValueError` with this sentence.
fn bad_input(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Simulates a scenario, and gives what `spindle sim run --json` prints, with the columns of its
/// requests if they are wanted.
#[pyfunction]
fn simulate(
    py: Python<'_>,
    text: &str,
    file: &str,
    base_dir: &str,
    seed: Option<u64>,
    worth: bool,
    requests: bool,
) -> PyResult<(String, Option<Vec<requests::Column>>)> {
    let (json, recorded) = py.detach(|| {
        let plan = Plan::parse(text, file, Path::new(base_dir)).and_then(Plan::for_sim);
        let mut plan = plan.map_err(bad_input)?;
        plan.seed = seed.unwrap_or(plan.seed);
        let length = plan.duration.expect("a checked scenario says how long");
        let mut simulation = Simulation::new(&plan);
        if requests {
            simulation.record_requests();
        }
        simulation.advance(Instant::ZERO + length).map_err(bad_input)?;
        let mut report = simulation.report();
        if worth {
            let warm_up = spindle_sim::worth::default_warm_up(length);
            let worths = spindle_sim::worth::worths(&plan, warm_up);
            for (volume, worth) in report.volumes.iter_mut().zip(worths) {
                volume.worth = worth;
            }
        }
        let (recorded, left_out) = simulation.take_requests();
        if left_out > 0 {
            let expected = format!("expected at most {RECORDED_MAX}: shorten its `duration`");
            return Err(bad_input(format!("found {left_out} requests more, {expected}")));
        }
        let names = report.volumes.iter().map(|volume| volume.name.clone()).collect::<Vec<_>>();
        let json = serde_json::to_string(&report).map_err(bad_input)?;
        PyResult::Ok((json, requests.then_some((names, recorded))))
    })?;
    Ok((json, recorded.map(|(names, recorded)| requests::columns(py, names, &recorded))))
}

/// The verdict on a volume, the reason if it does not fit, the largest reserve that its disk has
/// left for it, and the disk's slack in nanoseconds, if deadlines are kept there.
type Verdict = (bool, Option<String>, f64, Option<i64>);

/// Whether the config with the table of one more volume is admitted.
#[pyfunction]
fn admit(text: &str, file: &str, base_dir: &str, disk: &str, table: &str) -> PyResult<Verdict> {
    let base_dir = Path::new(base_dir);
    let plan = Plan::parse(text, file, base_dir).map_err(bad_input)?;
    let Some(index) = plan.disks.iter().position(|there| there.name == disk) else {
        let known: Vec<_> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
        let expected = known.join(", ");
        return Err(bad_input(format!("disk: found `{disk}`, expected one of {expected}")));
    };
    let index = DiskIndex(index);
    let left = plan.unreserved(index, Instant::ZERO).as_f64();
    let with = Plan::parse(&format!("{text}\n{table}"), file, base_dir);
    let slack = |plan: &Plan| {
        let headroom = plan.admission_headroom(index, Instant::ZERO);
        headroom.map(|headroom| headroom.slack.as_nanos())
    };
    match with {
        Ok(with) => Ok((true, None, left, slack(&with))),
        Err(error) if error.is_refusal() => {
            Ok((false, Some(error.to_string()), left, slack(&plan)))
        }
        Err(error) => Err(bad_input(error)),
    }
}

/// The names of the drives in the library.
#[pyfunction]
fn drive_names() -> Vec<&'static str> {
    spindle_drive_library::names().collect()
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::arrow::{arrow_array, arrow_stream};
    #[pymodule_export]
    use super::drive::{Completion, Drive};
    #[pymodule_export]
    use super::values::with_values;
    #[pymodule_export]
    use super::{admit, drive_names, simulate};
}
