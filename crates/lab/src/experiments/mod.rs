//! Published experiments and further ones, by name: `spindle-lab reproduce ID`.
//!
//! An experiment is a scenario file, a procedure that runs it at one or more settings, and checks
//! that compare the figures with the published ones. Its results are JSON, CSV and SVG files under
//! the experiment's name.
//!
//! Invariant: a check computes its figure. A statement without a published number has no bound
//! here.

use std::io;
use std::path::Path;

mod check;
mod clockwise;
mod depth;
mod experiment;
mod insulation;
mod interleaved;
mod known_misses;
mod mclock;
mod mirror;
mod models;
mod one_scheduler;
mod sample;
mod speed;
mod spio;
mod starvation;
mod throughput;
mod vdisk;
mod worth;
mod worth_clients;
mod worth_targets;

pub(crate) use check::Verdict;
pub(crate) use clockwise::{
    ANGLES, Measured, OnPool, OneDisk, RELATIVE_DIFFERENCE_MAX, simulate_from_angles,
};
pub(crate) use experiment::{Experiment, Options, Outcome};
pub(crate) use sample::{as_it_passes, bare, most_missing};

pub(crate) use worth::check_policy;

use experiment::Optional;

/// All experiments.
pub(crate) const ALL: [Experiment; 46] = [
    vdisk::FIG1,
    models::FIG2,
    vdisk::FIG4,
    throughput::FIG5,
    throughput::FIG6,
    models::FIG7,
    models::FIG8,
    throughput::FIG9,
    throughput::FIG10,
    vdisk::FIG11,
    insulation::INSULATION,
    one_scheduler::ONE_SCHEDULER,
    starvation::NCQ_STARVATION,
    spio::EXAMPLE,
    spio::FIG5,
    spio::FIG6,
    spio::FIG8,
    spio::FIG9,
    spio::FIG10,
    spio::FIG11,
    spio::FIG12,
    spio::FIG13,
    spio::FIG14,
    spio::FIG15,
    spio::FIG16,
    spio::FIG17,
    spio::TABLE2,
    spio::TABLE3,
    spio::TABLE4,
    spio::EXTERNAL,
    spio::BETTER,
    spio::HGST,
    spio::READERS,
    spio::MEASURED,
    clockwise::FIG2,
    clockwise::FIG3,
    clockwise::POOL_FIG2,
    clockwise::POOL_FIG3,
    clockwise::POOL_FIG4,
    clockwise::BUS,
    worth::WORTH_GRID,
    worth_clients::WORTH_CLIENTS,
    depth::DEPTH,
    mirror::MIRROR,
    speed::SPEED,
    mclock::MCLOCK,
];

/// The experiments that take options, by name.
const OPTIONAL: [(&str, Optional); 1] = [(worth::WORTH_GRID.id, worth::grid)];

/// The experiment with this name.
pub(crate) fn find(id: &str) -> Option<Experiment> {
    ALL.into_iter().find(|experiment| experiment.id == id)
}

/// Runs an experiment, with the options if it takes any, and writes its files into `out`.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn run(
    experiment: &Experiment,
    options: Options,
    out: &Path,
    progress: &mut dyn FnMut(f64),
) -> io::Result<Outcome> {
    match OPTIONAL.into_iter().find(|(id, _)| *id == experiment.id) {
        Some((_, procedure)) => experiment.run_with((procedure, options), out, progress),
        None => experiment.run(out, progress),
    }
}

/// Whether an experiment takes options.
pub(crate) fn is_optional(experiment: &Experiment) -> bool {
    OPTIONAL.iter().any(|(id, _)| *id == experiment.id)
}
