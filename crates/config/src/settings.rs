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
            ..Settings::default()
        }
    }
}
