//! A workload's load on a volume.

use config::Workload;
use units::{Instant, Sectors};

use crate::SeededRng;
use crate::source::Source;

/// What a load is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A volume on one disk.
    Volume(usize),
    /// A volume or snapshot of the pool.
    Pool(usize),
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) target: Target,
    pub(super) source: Source,
    pub(super) start: Instant,
    pub(super) stop: Instant,
    pub(super) in_flight: u32,
}

impl Load {
    /// The load of a workload on a volume of `size`.
    pub(super) fn new(
        workload: &Workload,
        (target, size): (Target, Sectors),
        rng: SeededRng,
    ) -> Self {
        Self {
            target,
            source: Source::new(&workload.requests, size, rng),
            start: Instant::ZERO + workload.start,
            stop: workload.stop.map_or(Instant::FAR_FUTURE, |stop| Instant::ZERO + stop),
            in_flight: 0,
        }
    }

    /// Schedules its first requests.
    pub(super) fn schedule_first(&self, mut schedule: impl FnMut(Instant)) {
        let (count, after) = self.source.first();
        (0..count).for_each(|_| schedule(self.start + after));
    }
}
