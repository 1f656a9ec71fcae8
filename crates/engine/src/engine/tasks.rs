//! The guarantees by deadlines as tasks: streams, reserves, and the server of best effort
//! (Clockwise, RTAS 2000 §3).

use std::sync::Arc;

use units::{DiskTime, Duration, Share};

use crate::policy::WorstCase;
use crate::stream::{SlackRange, Task, TaskId, TaskSet};
use crate::{BestEffortServer, Contract, Execution, Refusal, Settings, VolumeId};
use drive_profile::{Profile, TransferKind};

/// The id of best effort's server; all other tasks have the ids of their volumes.
pub const BEST_EFFORT_TASK: TaskId = TaskId(u32::MAX);

/// The tasks of a disk whose policy has deadlines.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) set: TaskSet,
    period: Duration,
    pub(super) longest: DiskTime,
    /// Whether the policy has not been told the current static slack yet.
    changed: bool,
    /// The static slack that it was told last.
    pub(super) slack: Option<DiskTime>,
}

impl Settings {
    /// The longest non-preemptible command. Writes are never split: each piece would be forced and
    /// lose a revolution.
    pub fn longest_command(&self, profile: Option<&Arc<Profile>>) -> DiskTime {
        let worst = match profile {
            Some(profile) => WorstCase::Profile(Arc::clone(profile)),
            None => WorstCase::Bound(self.deadlines.worst),
        };
        let read = match self.execution {
            Execution::Preemptible(how) => how.chunk.unwrap_or(self.command_max),
            Execution::Whole { .. } => self.command_max,
        };
        let read = worst.somewhere(read.min(self.command_max), TransferKind::Read);
        let write = worst.somewhere(self.command_max, TransferKind::Write);
        assert!(read.max(write) >= DiskTime::ZERO, "a worst case is not negative");
        read.max(write)
    }
}

impl Contract {
    /// What admission by deadlines takes this for; none for best effort. A reserve is a task whose
    /// cost is its share of `period`, in commands of at most `longest`.
    pub fn task(&self, period: Duration, longest: DiskTime) -> Option<Task> {
        match self.stream {
            Some(stream) => Some(stream.task),
            None => server_task(self.reserve, period, longest),
        }
    }
}

impl BestEffortServer {
    /// The task that admission counts for it, with commands of at most `longest`; `None` for a
    /// share that amounts to nothing.
    pub fn task(&self, longest: DiskTime) -> Option<Task> {
        server_task(self.share, self.period, longest)
    }
}

/// A command that exceeds the budget is not the server's: its longest command is at most its cost.
fn server_task(share: Share, period: Duration, longest: DiskTime) -> Option<Task> {
    let cost = share.of(period);
    debug_assert!(cost <= period.into(), "a share is at most the whole");
    debug_assert!(longest >= DiskTime::ZERO, "a worst case is not negative: {longest}");
    Task::new(period, cost, longest.min(cost)).ok()
}

impl Tasks {
    /// The tasks of a disk without volumes; `None` if its policy has no deadlines.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let longest = settings.longest_command(None);
        let period = settings.period;
        let mut set = TaskSet::new(settings.deadlines.preemption);
        let server = settings.deadlines.best_effort.and_then(|server| server.task(longest));
        if let Some(server) = server {
            set.insert(BEST_EFFORT_TASK, server);
        }
        debug_assert!(set.len() <= 1, "without volumes the only task is best effort's server");
        let tasks = Self { set, period, longest, changed: true, slack: None };
        settings.policy.has_deadlines().then_some(tasks)
    }

    /// Admits `contract` if it fits beside all tasks but `volume`'s own previous one.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub(super) fn admit(&mut self, volume: VolumeId, contract: Contract) -> Result<(), Refusal> {
        assert_ne!(TaskId(volume.0), BEST_EFFORT_TASK, "best effort is no volume");
        let count = self.set.len();
        let before = self.set.remove(TaskId(volume.0));
        self.changed = true;
        let Some(task) = contract.task(self.period, self.longest) else { return Ok(()) };
        let admitted = self.set.admit(TaskId(volume.0), task);
        if let (Err(_), Some(before)) = (&admitted, before) {
            self.set.insert(TaskId(volume.0), before);
        }
        debug_assert!(admitted.is_ok() || self.set.len() == count, "a refusal changes nothing");
        admitted.map_err(Refusal::Deadlines)
    }

    /// Whether `contract` fits beside all tasks but `volume`'s own previous one.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn admits(&self, volume: VolumeId, contract: Contract) -> Result<(), Refusal> {
        let Some(task) = contract.task(self.period, self.longest) else { return Ok(()) };
        debug_assert_ne!(TaskId(volume.0), BEST_EFFORT_TASK, "best effort is no volume");
        let mut others = self.set.clone();
        others.remove(TaskId(volume.0));
        others.check_with(task).map_err(Refusal::Deadlines)
    }

    pub(super) fn release(&mut self, volume: VolumeId) {
        self.set.remove(TaskId(volume.0));
        debug_assert_ne!(TaskId(volume.0), BEST_EFFORT_TASK, "best effort is no volume");
        self.changed = true;
    }

    /// Reserves are kept over another period from now on. Whether they fit was checked before.
    pub(super) fn change_period(&mut self, period: Duration, contracts: &[Contract]) {
        let count = self.set.len();
        self.period = period;
        self.changed = true;
        for (id, contract) in (0..).map(TaskId).zip(contracts) {
            if contract.stream.is_none()
                && self.set.remove(id).is_some()
                && let Some(task) = contract.task(period, self.longest)
            {
                self.set.insert(id, task);
            }
        }
        debug_assert!(self.set.len() <= count, "a change of the period adds no task");
    }

    /// The static slack, if it may have changed since the last call.
    pub(super) fn new_slack(&mut self, range: SlackRange) -> Option<DiskTime> {
        if !core::mem::take(&mut self.changed) {
            return None;
        }
        self.slack = Some(self.set.slack_in(range));
        debug_assert!(self.slack >= Some(DiskTime::ZERO), "slack is not negative");
        self.slack
    }
}

#[cfg(test)]
mod tests {
    use units::Sectors;

    use super::*;

    #[test]
    fn a_long_command_does_not_enlarge_the_task_of_a_small_reserve() {
        let (period, longest) = (Duration::from_secs(1), DiskTime::from_millis(120));
        let task = Contract::reserve(Share::from_percent(5)).task(period, longest).expect("a task");
        assert_eq!(
            (task.cost(), task.longest()),
            (DiskTime::from_millis(50), DiskTime::from_millis(50))
        );
        assert_eq!(Contract::BEST_EFFORT.task(period, longest), None);
    }

    #[test]
    fn the_longest_command_is_a_whole_write_even_where_reads_are_split() {
        let chunk = Some(Sectors(16));
        let execution = Execution::Preemptible(crate::Preemptible { chunk, ..Default::default() });
        let settings = Settings { execution, ..Settings::default() };
        assert_eq!(settings.longest_command(None), Settings::default().longest_command(None));
    }
}
