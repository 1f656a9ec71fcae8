//! Streams and reserves under deadlines.

use std::sync::Arc;

use drive_profile::Profile;
use units::DiskTime;

use super::Engine;
use super::tasks::BEST_EFFORT_TASK;
use crate::VolumeId;
use crate::request::DeadlineStats;
use crate::stream::TaskSet;

impl Engine {
    /// The guarantees by deadlines; `None` if the policy has no deadlines.
    pub fn tasks(&self) -> Option<&TaskSet> {
        self.tasks.as_ref().map(|tasks| &tasks.set)
    }

    /// The static slack ΔL (Clockwise, RTAS 2000): the disk time that the admitted tasks leave to
    /// best effort at any moment, as of the last [`Engine::poll`]; `None` if the policy has no
    /// deadlines.
    pub fn static_slack(&self) -> Option<DiskTime> {
        let slack = self.tasks.as_ref().and_then(|tasks| tasks.slack);
        debug_assert!(slack.is_none_or(|slack| slack >= DiskTime::ZERO), "slack is not negative");
        slack
    }

    /// The deadlines that `volume`'s streams have met and missed; `None` if it has had none.
    pub fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.policy.deadline_stats(volume)
    }

    /// Gives the profile to the policy and to admission.
    pub(super) fn set_profile(&mut self, profile: &Arc<Profile>) {
        self.policy.set_profile(profile);
        if let Some(tasks) = &mut self.tasks {
            assert_eq!(self.volumes.len(), 0, "a profile is set before volumes are added");
            assert!(tasks.set.len() <= 1, "without volumes the only task is best effort's server");
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
        let has_deadlines = self.tasks.is_some();
        debug_assert_eq!(has_deadlines, self.settings.policy.has_deadlines(), "as the policy says");
        has_deadlines
    }
}
