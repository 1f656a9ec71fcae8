//! Streams on an engine.

use std::sync::Arc;

use drive_profile::Profile;
use units::DiskTime;

use super::Engine;
use super::tasks::BEST_EFFORT_TASK;
use crate::VolumeId;
use crate::request::DeadlineStats;
use crate::stream::TaskSet;

impl Engine {
    /// What is promised by deadlines; none if the policy keeps none.
    pub fn tasks(&self) -> Option<&TaskSet> {
        self.tasks.as_ref().map(|tasks| &tasks.set)
    }

    /// ΔL (RTAS 2000): the disk time that what is promised by deadlines leaves to best effort at any moment, as of the last
    /// [`Engine::poll`]; none if the policy keeps no deadlines.
    pub fn static_slack(&self) -> Option<DiskTime> {
        self.tasks.as_ref().and_then(|tasks| tasks.slack)
    }

    /// What became of the deadlines of `volume`'s streams so far; none if it has had none that deadlines are kept of.
    pub fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        self.policy.deadline_stats(volume)
    }

    /// Tells the policy what it has to know of the disk.
    pub(super) fn tell(&mut self, profile: &Arc<Profile>) {
        self.policy.set_profile(profile);
        if let Some(tasks) = &mut self.tasks {
            assert_eq!(self.volumes.len(), 0, "a disk is known before its volumes");
            tasks.longest = self.settings.longest_command(Some(profile));
            let server = self.settings.deadlines.best_effort;
            if let Some(server) = server.and_then(|server| server.task(tasks.longest)) {
                tasks.set.remove(BEST_EFFORT_TASK);
                tasks.set.insert(BEST_EFFORT_TASK, server);
            }
        }
    }

    /// Whether requests have deadlines.
    pub(super) fn has_deadlines(&self) -> bool {
        self.tasks.is_some()
    }
}
