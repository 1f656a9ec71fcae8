//! The same load from several angles of the disks on.
//!
//! A live run begins at any angle of its disks. What a figure differs by between simulations that
//! begin at different angles is no difference between a live run and a simulation.

use core::ops::Range;

use config::Plan;
use sim::Simulation;
use units::{Duration, Instant};

use super::point::Measured;
use super::settings::profile;

/// The angles, evenly spread over a revolution.
pub(crate) const ANGLES: usize = 4;
/// The largest accepted relative difference of a live mean from a simulated one. RTAS 2000 (§4.4):
/// "In all cases the performance of the real Clockwise only differs minimally".
pub(crate) const RELATIVE_DIFFERENCE_MAX: f64 = 0.1;
/// The simulated time after the last request, in which all outstanding requests complete. After the
/// busiest twenty minutes there are more of them than a minute is enough for.
pub(super) const DRAIN: Duration = Duration::from_secs(1_200);

/// Simulates the plan's load of this length from each angle on, the first of which is that of the
/// plan. The volumes at `best_effort` are best effort.
pub(crate) fn simulate_from_angles(
    plan: &Plan,
    best_effort: &Range<usize>,
    length: Duration,
) -> [Measured; ANGLES] {
    let step = profile().rotation_period / ANGLES as u64;
    core::array::from_fn(|angle| {
        let mut plan = plan.clone();
        let later = step * angle as u64;
        plan.workloads.iter_mut().for_each(|workload| workload.start += later);
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(Instant::ZERO + later + length + DRAIN);
        Measured::of(&simulation.report().volumes, best_effort.clone())
    })
}
