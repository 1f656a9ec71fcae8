//! From a config's disk to its engine's settings: the same for a simulation and for the daemon.

use engine::{Estimates, Settings};

use crate::Disk;

impl Disk {
    /// How an engine is to schedule this disk.
    pub fn settings(&self) -> Settings {
        Settings {
            policy: self.policy,
            depth: self.depth,
            period: self.period,
            batch: self.batch,
            linger: self.linger,
            estimates: Estimates {
                sequential: self.estimate_sequential.into(),
                random: self.estimate_random.into(),
            },
            execution: self.execution,
            ..Settings::default()
        }
    }

    /// An engine for this disk, idle and without volumes, with the profile that is assumed of its drive where requests
    /// are to be preemptible.
    pub fn engine(&self, now: units::Instant) -> engine::Engine {
        let engine = engine::Engine::new(self.settings(), now);
        match self.drive.model.mechanical() {
            Some(model) if self.execution.preemptible().is_some() => {
                engine.with_profile(std::sync::Arc::new(crate::profile::assumed(model)))
            }
            _ => engine,
        }
    }
}
