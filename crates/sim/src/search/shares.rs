//! What a case knows under a policy that keeps shares: the terms of the reserves' bound, and the
//! changes to come.

use engine::{Settings, VolumeId};
use units::{Duration, Instant};

use super::tasks::TaskDistribution;
use super::terms::ms;
use crate::SeededRng;

/// What the bound of the reserves depends on.
#[derive(Debug)]
pub(super) struct Shares {
    /// With the longest period and batch so far: a debt may be from before a change.
    pub(super) settings: Settings,
    /// The longest command so far.
    pub(super) longest: Duration,
    pub(super) next_check: Instant,
    /// The volumes of high priority, and the reserve of each that admits its limit.
    pub(super) high: Vec<VolumeId>,
    pub(super) burst: Duration,
}

impl Shares {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: *settings,
            longest: Duration::ZERO,
            next_check: Instant::ZERO,
            high: Vec::new(),
            burst: Duration::ZERO,
        }
    }

    /// Forgets that `volume` had high priority: its number may be another's from now on.
    pub(super) fn removed(&mut self, volume: VolumeId) {
        self.high.retain(|high| *high != volume);
    }

    pub(super) fn is_high(&self, volume: VolumeId) -> bool {
        self.high.contains(&volume)
    }
}

/// The changes of a case that are still to come.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) rng: SeededRng,
    pub(super) tasks: TaskDistribution,
    pub(super) next: Instant,
    pub(super) left: u64,
}

impl Changes {
    pub(super) fn new(mut rng: SeededRng, tasks: TaskDistribution) -> Self {
        // A third of the cases have none.
        let left = rng.below(3) * rng.below(5);
        let next = Instant::ZERO + ms(20 + rng.below(300));
        Self { rng, tasks, next, left }
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }
}
