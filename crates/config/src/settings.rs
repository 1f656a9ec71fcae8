//! From a config's disk to its engine's settings: the same for a simulation and for the daemon.

use std::sync::Arc;

use engine::{Engine, Estimates, Profile, Settings};
use units::Instant;

use crate::{Disk, profile};

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
    pub fn engine(&self, now: Instant) -> Engine {
        self.engine_knowing(now, |profile| profile)
    }

    /// The same for a disk in real time, where a processor is between a command's end and the next one's beginning.
    pub fn engine_on_host(&self, now: Instant) -> Engine {
        self.engine_knowing(now, profile::on_host)
    }

    fn engine_knowing(&self, now: Instant, adapt: fn(Profile) -> Profile) -> Engine {
        let engine = Engine::new(self.settings(), now);
        match self.drive.model.mechanical() {
            Some(model) if self.execution.preemptible().is_some() => {
                engine.with_profile(Arc::new(adapt(profile::assumed(model))))
            }
            _ => engine,
        }
    }
}
