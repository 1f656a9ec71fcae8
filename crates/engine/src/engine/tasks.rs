//! The guarantees by deadlines as tasks: streams, reserves, and the server of best effort
//! (Clockwise, RTAS 2000 §3).

use units::{DiskTime, Duration, Sectors, Share};

use crate::limits::{LATENCY_MAX, STREAM_PERIOD_MAX, VOLUMES_MAX};
use crate::policy::WorstCase;
use crate::stream::{Granularity, RequestCost, SlackRange, Task, TaskId, TaskSet};
use crate::{BestEffortServer, Contract, Execution, Refusal, Settings, VolumeId};
use drive_profile::TransferKind;

/// The id of best effort's server; all other tasks have the ids of their volumes.
pub const BEST_EFFORT_TASK: TaskId = TaskId(u32::MAX);

/// The id of the reserves of a disk whose policy keeps them beside streams.
pub const RESERVES_TASK: TaskId = TaskId(u32::MAX - 1);

/// The ids of bounded latencies are those of their volumes and this.
const LATENCY_TASK: u32 = 1 << 31;
const _: () = assert!((VOLUMES_MAX as u64) < LATENCY_TASK as u64);

/// The id of the bounded latency of the volume of this number, which may have a reserve too.
pub fn latency_task(volume: u32) -> TaskId {
    debug_assert!(volume < LATENCY_TASK - 2, "no id has two meanings");
    TaskId(LATENCY_TASK | volume)
}

/// The number of the volume of a task, and whether the task is its bounded latency; `None` for the
/// disk's own tasks.
pub fn volume_of_task(id: TaskId) -> Option<(u32, bool)> {
    let is_latency = id.0 & LATENCY_TASK != 0;
    let volume = id.0 & !LATENCY_TASK;
    debug_assert!(is_latency || volume == id.0, "other ids are those of volumes");
    (id != BEST_EFFORT_TASK && id != RESERVES_TASK).then_some((volume, is_latency))
}

/// The tasks of a disk whose policy keeps streams.
#[derive(Debug)]
pub(super) struct Tasks {
    /// Under a policy [with deadlines](crate::PolicyName::has_deadlines) all guarantees; else the
    /// streams.
    pub(super) set: TaskSet,
    /// Whether reserves are not tasks of the set, and are kept beside it.
    beside: bool,
    /// The server of best effort, where it is kept beside the set.
    server: Share,
    period: Duration,
    pub(super) longest: LongestCommand,
    /// The granularity at which the tasks fit, as of the last [`Tasks::new_slack`].
    pub(super) granularity: Granularity,
    /// Whether the policy has not been told the current static slack yet.
    changed: bool,
    /// The static slack that it was told last.
    pub(super) slack: Option<DiskTime>,
}

/// The longest non-preemptible command of a disk's volumes that have no deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestCommand {
    /// At [`Granularity::Whole`], where writes are not split.
    pub whole: DiskTime,
    /// At [`Granularity::Chunks`].
    pub chunk: DiskTime,
}

impl LongestCommand {
    /// The same at every granularity.
    pub const fn same(longest: DiskTime) -> Self {
        debug_assert!(longest.as_nanos() >= 0, "a worst case is not negative");
        Self { whole: longest, chunk: longest }
    }
}

impl Settings {
    /// The longest non-preemptible command. Beside deadlines each piece of a write is forced and
    /// loses a revolution: writes are split only where the tasks fit in no other way.
    pub fn longest_command(&self, worst: &WorstCase) -> LongestCommand {
        let read = match self.execution {
            Execution::Preemptible(how) => how.chunk.unwrap_or(self.command_max),
            Execution::Whole { .. } => self.command_max,
        };
        let at = |len: Sectors, kind| worst.somewhere(len.min(self.command_max), kind);
        let write = self.forced_chunk().unwrap_or(self.command_max);
        let read = at(read, TransferKind::Read);
        let whole = read.max(at(self.command_max, TransferKind::Write));
        let chunk = read.max(at(write, TransferKind::Write));
        assert!(chunk >= DiskTime::ZERO, "a worst case is not negative");
        LongestCommand { whole, chunk: chunk.min(whole) }
    }

    /// The sectors of a piece of a write at [`Granularity::Chunks`]; `None` if writes are not
    /// split beside deadlines: not where the profile gives the chunk, which is the shortest that
    /// sustains the sequential rate through the drive's write buffer.
    pub fn forced_chunk(&self) -> Option<Sectors> {
        let how = self.execution.preemptible().filter(|how| how.preempt_writes)?;
        debug_assert!(how.chunk.is_none_or(|chunk| chunk > Sectors::ZERO), "a chunk has sectors");
        how.chunk.map(|chunk| chunk.min(self.command_max))
    }
}

impl Contract {
    /// What admission by deadlines takes this for; none for best effort. A reserve is a task whose
    /// cost is its share of `period`, in commands of at most `longest`.
    pub fn task(&self, period: Duration, longest: LongestCommand) -> Option<Task> {
        match self.stream {
            Some(stream) => Some(stream.task),
            None => server_task(self.reserve, period, longest),
        }
    }
}

impl BestEffortServer {
    /// The task that admission counts for it, with commands of at most `longest`; `None` for a
    /// share that amounts to nothing.
    pub fn task(&self, longest: LongestCommand) -> Option<Task> {
        server_task(self.share, self.period, longest)
    }
}

/// The reserves of a disk beside its streams as one task, for admission: together they take the
/// share `reserved`, in commands of at most `longest`. `None` if nothing is reserved.
///
/// The period is longer than the deadlines of all `tasks`, the streams and bounded latencies, so
/// that the reserves demand their utilization and block the others for one command, and no other
/// blocks them: they have no deadlines. It is long enough for `reserved` to accrue one command. So
/// the tasks admitted beside it leave a static slack of at least one command: in t below the period
/// by condition (2) of [`crate::stream`], above it because room(t) ≥ t · (1 − U) ≥ t · `reserved`.
///
/// Beside a bounded latency the period is that of the longest one, so that the room of the reserves
/// is the same for each latency that is offered instead.
pub fn reserve_task(
    reserved: Share,
    tasks: impl Iterator<Item = Task>,
    longest: LongestCommand,
) -> Option<Task> {
    let LongestCommand { whole, chunk } = longest;
    debug_assert!(whole >= chunk, "a chunk is a part of a command");
    let accrues = reserved.time_to_accrue(whole)?;
    let deadline = |task: Task| {
        if task.has_implicit_deadline() { task.period() } else { LATENCY_MAX }
    };
    let longer = tasks.map(deadline).max().unwrap_or_default() + Duration::from_millis(1);
    let period = longer.max(accrues).min(STREAM_PERIOD_MAX);
    server_at(period, reserved.of(period).max(whole), longest)
}

/// A command that exceeds the budget is not the server's: its longest command is at most its cost.
fn server_task(share: Share, period: Duration, longest: LongestCommand) -> Option<Task> {
    let cost = share.of(period);
    debug_assert!(cost <= period.into(), "a share is at most the whole");
    server_at(period, cost, longest)
}

/// A server with `cost` in every `period`, in commands of at most `longest`.
fn server_at(period: Duration, cost: DiskTime, longest: LongestCommand) -> Option<Task> {
    let LongestCommand { whole, chunk } = longest;
    debug_assert!(chunk >= DiskTime::ZERO, "a worst case is not negative: {chunk}");
    let server = Task::new(period, cost, chunk.min(cost)).ok()?.as_server();
    if whole == chunk {
        return Some(server);
    }
    server.with_whole(RequestCost { total: cost, longest: whole.min(cost) }).ok()
}

impl Tasks {
    /// The tasks of a disk without volumes; `None` if its policy keeps no streams.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let longest = settings.longest_command(&WorstCase::Bound(settings.deadlines.worst));
        let period = settings.period;
        let beside = !settings.policy.has_deadlines();
        let mut set = TaskSet::new(settings.deadlines.preemption);
        let best_effort = settings.deadlines.best_effort;
        let share = best_effort.filter(|_| beside).map_or(Share::NONE, |server| server.share);
        let server = best_effort.filter(|_| !beside).and_then(|server| server.task(longest));
        if let Some(server) = server {
            set.insert(BEST_EFFORT_TASK, server);
        }
        debug_assert!(set.len() <= 1, "without volumes the only task is best effort's server");
        let granularity = Granularity::Chunks;
        let tasks = Self {
            set,
            beside,
            server: share,
            period,
            longest,
            changed: true,
            slack: None,
            granularity,
        };
        settings.policy.keeps_streams().then_some(tasks)
    }

    /// Whether reserves are kept beside the set.
    pub(super) fn reserves_are_beside(&self) -> bool {
        self.beside
    }

    /// The task of a contract in the set. Beside shares a contract has a stream or a bounded
    /// latency, not both.
    fn task_of(&self, contract: Contract) -> Option<Task> {
        if self.beside {
            let latency = contract.latency.map(|latency| latency.task);
            debug_assert!(latency.is_none() || contract.stream.is_none(), "one promise");
            return contract.stream.map(|stream| stream.task).or(latency);
        }
        contract.task(self.period, self.longest)
    }

    /// The reserves beside the set, `reserved` in all; `None` if there are none.
    fn reserves(&self, set: &TaskSet, candidate: Option<Task>, reserved: Share) -> Option<Task> {
        let reserved = reserved.checked_add(self.server).unwrap_or(Share::ALL);
        let tasks = set.iter().map(|(_, task)| task).chain(candidate);
        debug_assert!(self.beside, "a policy with deadlines has a task for each reserve");
        reserve_task(reserved, tasks, self.longest)
    }

    /// Whether the streams of `set`, and `candidate`, fit beside reserves of `reserved` in all.
    fn check_beside(
        &self,
        mut set: TaskSet,
        candidate: Option<Task>,
        reserved: Share,
    ) -> Result<(), Refusal> {
        if set.is_empty() && candidate.is_none() {
            return Ok(());
        }
        if let Some(reserves) = self.reserves(&set, candidate, reserved) {
            set.insert(RESERVES_TASK, reserves);
        }
        debug_assert!(!set.is_empty() || candidate.is_some(), "there is a stream");
        let checked = match candidate {
            Some(task) => set.check_with(task),
            None => set.check(),
        };
        checked.map_err(Refusal::Deadlines)
    }

    /// Admits `contract` if it fits beside all tasks but `volume`'s own previous one, and beside
    /// reserves of `reserved` in all, its own included.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub(super) fn admit(
        &mut self,
        volume: VolumeId,
        contract: Contract,
        reserved: Share,
    ) -> Result<(), Refusal> {
        assert_ne!(TaskId(volume.0), BEST_EFFORT_TASK, "best effort is no volume");
        if self.beside {
            self.admits(volume, contract, reserved)?;
            self.release(volume);
            if let Some(task) = self.task_of(contract) {
                self.set.insert(TaskId(volume.0), task);
            }
            return Ok(());
        }
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

    /// Whether `contract` fits beside all tasks but `volume`'s own previous one, and beside
    /// reserves of `reserved` in all, its own included.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(super) fn admits(
        &self,
        volume: VolumeId,
        contract: Contract,
        reserved: Share,
    ) -> Result<(), Refusal> {
        if self.beside {
            let mut others = self.set.clone();
            let before = others.remove(TaskId(volume.0));
            assert_eq!(before.is_some(), others.len() < self.set.len(), "a task is a volume's");
            return self.check_beside(others, self.task_of(contract), reserved);
        }
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
        for (id, contract) in (0..).map(TaskId).zip(contracts).filter(|_| !self.beside) {
            if contract.stream.is_none()
                && self.set.remove(id).is_some()
                && let Some(task) = contract.task(period, self.longest)
            {
                self.set.insert(id, task);
            }
        }
        debug_assert!(self.set.len() <= count, "a change of the period adds no task");
    }

    /// Whether the slack may have changed, or the granularity is another than this one.
    pub(super) fn may_differ(&self, granularity: Granularity) -> bool {
        self.changed || self.granularity != granularity
    }

    /// The static slack beside reserves of `reserved` in all, if it may have changed since the last
    /// call.
    pub(super) fn new_slack(&mut self, range: SlackRange, reserved: Share) -> Option<DiskTime> {
        if !core::mem::take(&mut self.changed) {
            return None;
        }
        self.granularity = if self.beside {
            let mut set = self.set.clone();
            if let Some(reserves) = self.reserves(&set, None, reserved) {
                set.insert(RESERVES_TASK, reserves);
            }
            set.granularity()
        } else {
            self.set.granularity()
        };
        self.slack = Some(self.set.slack_at(range, self.granularity));
        debug_assert!(self.slack >= Some(DiskTime::ZERO), "slack is not negative");
        self.slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_does_not_enlarge_the_task_of_a_small_reserve() {
        let period = Duration::from_secs(1);
        let longest = LongestCommand::same(DiskTime::from_millis(120));
        let task = Contract::reserve(Share::from_percent(5)).task(period, longest).expect("a task");
        assert_eq!(
            (task.cost(), task.longest()),
            (DiskTime::from_millis(50), DiskTime::from_millis(50))
        );
        assert_eq!(Contract::BEST_EFFORT.task(period, longest), None);
    }

    #[test]
    fn the_longest_command_is_a_whole_write_where_only_reads_are_split() {
        let chunk = Some(Sectors(16));
        let settings = |preempt_writes| {
            let how = crate::Preemptible { chunk, preempt_writes, ..Default::default() };
            Settings { execution: Execution::Preemptible(how), ..Settings::default() }
        };
        let worst = WorstCase::Bound(Settings::default().deadlines.worst);
        let whole = Settings::default().longest_command(&worst);
        assert_eq!(whole.whole, whole.chunk);
        assert_eq!(settings(false).longest_command(&worst), whole);
        let chunk = worst.somewhere(Sectors(16), TransferKind::Write);
        let both = LongestCommand { chunk, ..whole };
        assert_eq!(settings(true).longest_command(&worst), both);
    }
}
