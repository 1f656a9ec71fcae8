//! Streams and reserves under deadlines.

use core::hint::cold_path;
use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Instant};

use super::tasks::BEST_EFFORT_TASK;
use super::{Engine, NO_SLOT};
use crate::policy::WorstCase;
use crate::request::DeadlineStats;
use crate::stream::TaskSet;
use crate::{Execution, LatencyStats, VolumeId};

impl Engine {
    /// The guarantees by deadlines: streams and reserves; or the streams alone, under a policy that
    /// keeps reserves beside them. `None` if requests have no deadlines.
    pub fn tasks(&self) -> Option<&TaskSet> {
        let tasks = self.tasks.as_ref().filter(|_| self.is_guarded());
        tasks.map(|tasks| &tasks.set)
    }

    /// The static slack ΔL (Clockwise, RTAS 2000): the disk time that the admitted tasks leave to
    /// best effort at any moment, as of the last [`Engine::poll`]; `None` if requests have no
    /// deadlines.
    pub fn static_slack(&self) -> Option<DiskTime> {
        let tasks = self.tasks.as_ref().filter(|_| self.is_guarded());
        let slack = tasks.and_then(|tasks| tasks.slack);
        debug_assert!(slack.is_none_or(|slack| slack >= DiskTime::ZERO), "slack is not negative");
        slack
    }

    /// The deadlines that `volume`'s streams have met and missed; `None` if it has had none.
    pub fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.policy.deadline_stats(volume)
    }

    /// The requests of `volume`'s bounded latency; `None` if it has had none.
    pub fn latency_stats(&self, volume: VolumeId) -> Option<LatencyStats> {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.policy.latency_stats(volume)
    }

    /// Gives the profile to the policy and to admission.
    pub(super) fn set_profile(&mut self, profile: &Arc<Profile>) {
        self.policy.set_profile(profile);
        if let Some(tasks) = &mut self.tasks {
            assert_eq!(self.volumes.len(), 0, "a profile is set before volumes are added");
            assert!(tasks.set.len() <= 1, "without volumes the only task is best effort's server");
            tasks.longest = self.settings.longest_command(&WorstCase::Profile(Arc::clone(profile)));
            let server = self.settings.deadlines.best_effort;
            let server = server.filter(|_| !tasks.reserves_are_beside());
            if let Some(server) = server.and_then(|server| server.task(tasks.longest)) {
                tasks.set.remove(BEST_EFFORT_TASK);
                tasks.set.insert(BEST_EFFORT_TASK, server);
            }
        }
    }

    /// Whether requests have deadlines: under a policy with deadlines always, under one that keeps
    /// streams beside shares while there is a stream. Then no command holds the disk against
    /// another, and every write goes through to the media.
    pub(super) fn is_guarded(&self) -> bool {
        debug_assert!(!self.guarded || self.tasks.is_some(), "the policy keeps streams");
        self.guarded
    }

    /// Notes whether there are guarantees by deadlines. The heads that the policy knows are those
    /// that are issued from now on: what a request's next command is depends on it.
    pub(super) fn update_guarded(&mut self, now: Instant) {
        let policy = self.settings.policy;
        let streams = self.tasks.as_ref().is_some_and(|tasks| !tasks.set.is_empty());
        let guarded = policy.has_deadlines() || policy.keeps_streams() && streams;
        if core::mem::replace(&mut self.guarded, guarded) == guarded {
            return;
        }
        self.update_heads(now);
        assert_eq!(self.guarded, guarded, "a guarantee is noted once");
    }

    /// Tells the policy the static slack, and changes to the granularity at which the tasks fit,
    /// as soon as no released request is queued and the drive is idle: then nothing that was begun
    /// at the other one matters.
    pub(super) fn update_slack(&mut self, now: Instant) {
        debug_assert!(self.issued.len() <= self.settings.depth as usize, "the depth is kept");
        let Some(tasks) = &mut self.tasks else { return };
        if !tasks.may_differ(self.granularity) {
            return;
        }
        cold_path();
        let (range, reserved) = (self.settings.deadlines.slack_range, self.admission.reserved());
        if let Some(slack) = tasks.new_slack(range, reserved) {
            self.policy.set_static_slack(slack);
        }
        let granularity = tasks.granularity;
        if granularity == self.granularity
            || !self.issued.is_empty()
            || !self.policy.change_granularity(granularity, now)
        {
            return;
        }
        debug_assert_eq!(now, self.now, "the time until now is charged");
        self.granularity = granularity;
        self.update_heads(now);
        debug_assert!(self.issued.is_empty(), "nothing is issued by a change");
    }

    /// Tells the policy each volume's next command, which has become another.
    fn update_heads(&mut self, now: Instant) {
        for index in 0..self.volumes.len() {
            self.update_head(VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits")), now);
        }
        debug_assert!(self.volumes.len() >= self.vacant.len(), "a vacant number was a volume's");
    }

    /// Tells the policy the next command of `volume`, which may have become another.
    pub(super) fn update_head(&mut self, volume: VolumeId, now: Instant) {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        let slot = self.volumes[volume.0 as usize].first;
        if slot != NO_SLOT {
            let head = self.next_piece(slot);
            self.policy.head_changed(volume, &head, now);
        }
    }

    /// The commands that the drive takes at a time. Beside guarantees by deadlines it is the policy
    /// that lets several go; a request that is executed in pieces is alone.
    pub(super) fn depth(&self) -> usize {
        debug_assert!(self.settings.depth > 0, "the drive takes a command");
        let is_whole = matches!(self.settings.execution, Execution::Whole { split: None });
        if self.guarded && !is_whole {
            cold_path();
            return 1;
        }
        let depth = self.settings.depth as usize;
        self.chooser.as_ref().map_or(depth, |chooser| chooser.depth(depth))
    }
}
