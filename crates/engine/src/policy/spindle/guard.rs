//! The guard: whether a command may go now without making a block of a stream late.
//!
//! A stream's block is *real time* from its release to its dispatch. The guard serves real-time
//! blocks by deadline, and lets the selector's command go first while the slack of the present
//! state ([`crate::policy::deadline::dynamic_slack`]) is at least its worst case: so reserves,
//! limits and best effort are served in the selector's own order, and streams as late as they may
//! be. As under `delta-star`, a *burst* of real-time blocks begins when the selector's command does
//! not fit, and ends when none is left, or when the slack suffices for some commands.
//!
//! ```text
//!                  released                     no block of the stream, or not released yet
//!  (selector) ────────────────▶ real time            (selector): served as the rest of the
//!      ▲                            │                              contract says
//!      └────────────────────────────┘
//!                dispatched
//! ```
//!
//! **Why reserves hold beside streams.** Admission ([`crate::stream::reserve_task`]) keeps the sum
//! of the streams' worst cases and of the reserves below the whole, and the static slack of the
//! streams alone above the longest command. So whatever the selector picks fits as soon as no block
//! is real time, at the latest, and streams take no more than their worst cases of any longer time.
//! What a reserve waits for in a burst its bucket keeps.
//!
//! Without streams the guard is vacuous: nothing is looked up, and nothing has a worst case.

use std::collections::{BTreeMap, BTreeSet};

use units::{DiskTime, Duration, Instant, Operation, Sectors};

use super::byte_blocks::ByteBlocks;
use crate::policy::deadline::{DemandForecast, Rate, Releases, WorstCase};
use crate::policy::indexed_heap::IndexedHeap;
use crate::request::DeadlineStats;
use crate::stream::Task;
use crate::{Execution, Settings, StreamContract, VolumeId};

/// Commands of the selector for which a burst ends: with one, the positioning there and back costs
/// the service of three more ([`crate::policy::deadline`] has the measurement).
const BURST_COMMANDS: usize = 4;

/// The guarantee of one stream.
#[derive(Debug)]
struct Stream {
    blocks: Box<ByteBlocks>,
    /// Whether it releases blocks.
    is_active: bool,
    /// The utilization of its task.
    rate: Rate,
    /// The cost of the preemption that it may cause.
    extra: DiskTime,
    /// The worst case of its volume's next command; `None` if nothing is queued.
    head: Option<DiskTime>,
    /// The deadline of its head while that is real time.
    due: Option<Instant>,
    /// Whether the selector does not serve its head: it is real time, or more is to be gathered.
    is_withheld: bool,
}

/// The command in the drive.
#[derive(Clone, Copy, Debug)]
struct InService {
    volume: VolumeId,
    is_real: bool,
    worst: DiskTime,
}

/// The streams of a disk, and the slack that they leave.
#[derive(Debug)]
pub(super) struct Guard {
    preemption: DiskTime,
    /// The longest command, and whether commands of streams gather requests.
    command_max: Sectors,
    gathers: bool,
    streams: BTreeMap<VolumeId, Stream>,
    /// The deadlines met and missed, of past streams too.
    stats: BTreeMap<VolumeId, DeadlineStats>,
    /// Real-time heads, by deadline.
    real: IndexedHeap<Instant>,
    /// Heads that will be real time, or no longer withheld, by when that may be.
    future: IndexedHeap<Instant>,
    /// Streams that are not active yet.
    activating: BTreeSet<VolumeId>,
    /// The static slack, and the rest of it since no block was real time.
    slack: DiskTime,
    slack_left: DiskTime,
    /// A lower bound of the dynamic slack, and when it was computed.
    known_slack: Option<(Instant, DiskTime)>,
    burst: bool,
    last_served: Option<VolumeId>,
    /// The volume whose head was picked as real time.
    picked: Option<VolumeId>,
    in_service: Option<InService>,
    forecast: DemandForecast,
}

impl Guard {
    /// A guard of no streams. A preemption costs what the settings say.
    pub(super) fn new(settings: &Settings) -> Self {
        let preemption = settings.deadlines.preemption;
        assert!(preemption >= DiskTime::ZERO, "a positioning takes time");
        Self {
            preemption,
            command_max: settings.command_max,
            gathers: settings.execution == Execution::Whole { split: None },
            streams: BTreeMap::new(),
            stats: BTreeMap::new(),
            real: IndexedHeap::new(),
            future: IndexedHeap::new(),
            activating: BTreeSet::new(),
            slack: DiskTime::ZERO,
            slack_left: DiskTime::ZERO,
            known_slack: None,
            burst: false,
            last_served: None,
            picked: None,
            in_service: None,
            forecast: DemandForecast::default(),
        }
    }

    /// Whether there is nothing to guard.
    pub(super) fn is_vacuous(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether `volume` has a stream.
    pub(super) fn has_stream(&self, volume: VolumeId) -> bool {
        self.streams.contains_key(&volume)
    }

    /// Whether the selector is not to serve `volume`'s head.
    pub(super) fn is_withheld(&self, volume: VolumeId) -> bool {
        debug_assert!(self.streams.len() <= self.stats.len(), "a stream has counts");
        self.streams.get(&volume).is_some_and(|stream| stream.is_withheld)
    }

    /// The next command of `volume` if it gathers requests.
    pub(super) fn gathered(&self, volume: VolumeId) -> Option<Operation> {
        let blocks = &self.streams.get(&volume)?.blocks;
        debug_assert!(self.gathers || blocks.gather().is_none(), "as the settings say");
        blocks.gather().and_then(|_| blocks.head())
    }

    /// Notes that the next decision is for the head of `volume` as a real-time block, or for that
    /// of another volume.
    pub(super) fn pick(&mut self, volume: Option<VolumeId>) {
        debug_assert!(volume.is_none_or(|volume| self.is_real(volume)), "its head is real time");
        self.picked = volume;
    }

    /// Whether `volume`'s head is real time.
    pub(super) fn is_real(&self, volume: VolumeId) -> bool {
        self.streams.get(&volume).is_some_and(|stream| stream.due.is_some())
    }

    /// Gives `volume` a stream in place of its previous one, with `queued` requests in its queue
    /// and a head of the worst case `head`. It is activated when no block is real time and the
    /// drive is idle: then nothing that began before can delay it.
    pub(super) fn replace(
        &mut self,
        volume: VolumeId,
        contract: Option<StreamContract>,
        (queued, head): (u32, Option<DiskTime>),
        now: Instant,
    ) {
        self.real.remove(volume);
        self.future.remove(volume);
        self.activating.remove(&volume);
        self.streams.remove(&volume);
        if let Some(contract) = contract {
            let blocks = ByteBlocks::new(contract, self.command_max, self.gathers);
            let mut blocks = Box::new(blocks);
            blocks.rebuild(queued as usize, now);
            let rate = Rate::of(contract.task.cost(), contract.task.period());
            let extra = DiskTime::ZERO;
            let (is_active, due, is_withheld) = (false, None, false);
            let stream = Stream { blocks, is_active, rate, extra, head, due, is_withheld };
            self.streams.insert(volume, stream);
            self.stats.entry(volume).or_default();
            self.activating.insert(volume);
        }
        self.charge_preemptions();
        self.known_slack = None;
        assert!(self.activating.len() <= self.streams.len(), "streams are activated");
    }

    /// The number of a removed volume is given to another.
    pub(super) fn forget(&mut self, volume: VolumeId, now: Instant) {
        self.replace(volume, None, (0, None), now);
        self.stats.remove(&volume);
        debug_assert!(!self.has_stream(volume), "a removed volume has no stream");
    }

    /// The static slack ΔL of the streams.
    pub(super) fn set_static_slack(&mut self, slack: DiskTime) {
        assert!(slack >= DiskTime::ZERO, "slack is not negative");
        self.slack = slack;
        self.slack_left = self.slack_left.min(slack);
        self.known_slack = None;
    }

    /// A request arrives in the queue of a stream's volume.
    pub(super) fn on_arrival(&mut self, volume: VolumeId, operation: &Operation, now: Instant) {
        let stream = self.streams.get_mut(&volume).expect("the volume has a stream");
        let stats = self.stats.entry(volume).or_default();
        stream.blocks.on_arrival(operation, stats, now);
        debug_assert!(!self.real.contains(volume) || stream.due.is_some(), "as its state says");
    }

    /// The head of a stream's volume is one with this worst case.
    pub(super) fn set_head(&mut self, volume: VolumeId, head: Option<DiskTime>, now: Instant) {
        let stream = self.streams.get_mut(&volume).expect("the volume has a stream");
        stream.head = head;
        debug_assert!(head.is_none_or(|cost| cost >= DiskTime::ZERO), "a command takes time");
        self.place(volume, now);
    }

    /// Enters the head of a stream's volume into the order that it belongs to.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let stream = self.streams.get_mut(&volume).expect("the volume has a stream");
        let release = stream.blocks.release().filter(|_| stream.head.is_some());
        let is_released = release.is_some_and(|release| release <= now);
        stream.due = stream.blocks.deadline().filter(|_| is_released);
        match stream.due {
            Some(due) => self.real.set(volume, due),
            None => self.real.remove(volume),
        }
        let waits = Some(stream.blocks.waits_until()).filter(|until| *until > now);
        let waits = waits.filter(|_| stream.head.is_some() && stream.is_active);
        stream.is_withheld = waits.is_some() || is_released && !stream.blocks.is_offered(now);
        match release.filter(|_| !is_released).into_iter().chain(waits).min() {
            Some(change) => self.future.set(volume, change),
            None => self.future.remove(volume),
        }
        assert!(self.future.len() <= self.streams.len(), "a head changes once");
    }

    /// A volume whose head is real time, or no longer withheld, from now on, if there is one.
    pub(super) fn next_released(&mut self, now: Instant) -> Option<VolumeId> {
        let (_, volume) = self.future.first().filter(|(at, _)| *at <= now)?;
        self.place(volume, now);
        assert!(self.future.first().is_none_or(|(at, other)| at > now || other != volume), "noted");
        Some(volume)
    }

    /// The drive is idle. If no block is real time the slack starts again, and streams that wait
    /// for it are activated: returns them.
    pub(super) fn on_idle(&mut self, now: Instant) -> BTreeSet<VolumeId> {
        debug_assert!(self.in_service.is_none(), "the drive is idle");
        if self.real.len() > 0 {
            return BTreeSet::new();
        }
        (self.slack_left, self.burst) = (self.slack, false);
        if self.activating.is_empty() {
            return BTreeSet::new();
        }
        self.known_slack = None;
        let activated = core::mem::take(&mut self.activating);
        for &volume in &activated {
            let stream = self.streams.get_mut(&volume).expect("an activated stream exists");
            assert!(!stream.is_active, "a stream is activated once");
            stream.is_active = true;
            stream.blocks.activate(now);
            self.place(volume, now);
        }
        activated
    }

    /// The real-time head that goes first.
    pub(super) fn first_real(&self) -> Option<VolumeId> {
        debug_assert!(self.real.len() <= self.streams.len(), "a real-time head is a stream's");
        self.real.first().map(|(_, volume)| volume)
    }

    /// When a head becomes real time without an event.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.future.first().map(|(at, _)| at)
    }

    /// Whether a command that takes `worst` at most may go before the real-time blocks; `ready`:
    /// the number of such commands that wait.
    pub(super) fn permits(&mut self, worst: DiskTime, ready: usize, now: Instant) -> bool {
        assert!(worst >= DiskTime::ZERO, "a worst case is not negative: {worst}");
        let in_burst = self.burst && self.real.len() > 0;
        let commands = if in_burst { ready.clamp(1, BURST_COMMANDS) } else { 1 };
        let commands = i64::try_from(commands).expect("a few");
        let wanted = DiskTime::from_nanos(worst.as_nanos().saturating_mul(commands));
        let available = self.dynamic_slack(wanted, now) - self.preemption_cost();
        let permits = available >= wanted;
        self.burst = !permits;
        permits
    }

    /// Whether the disk may idle for `time` before the real-time blocks.
    pub(super) fn permits_idling(&mut self, time: Duration, now: Instant) -> bool {
        debug_assert!(self.in_service.is_none(), "the drive is idle");
        let time = DiskTime::from(time);
        if self.burst || self.dynamic_slack(time, now) < time {
            return false;
        }
        // The rest of the static slack is that of a disk that does not idle.
        self.slack_left = DiskTime::ZERO;
        true
    }

    /// The cost of a command beyond its own service time: the positioning back to a block that it
    /// interrupts.
    fn preemption_cost(&self) -> DiskTime {
        let begun =
            |volume| self.streams.get(&volume).is_some_and(|stream| stream.blocks.is_begun());
        debug_assert!(self.preemption >= DiskTime::ZERO, "a positioning takes time");
        if self.last_served.is_some_and(begun) { self.preemption } else { DiskTime::ZERO }
    }

    /// Notes that a command of `volume` goes to the drive, with the worst case `worst`, and that
    /// `ended` requests end with it. Returns whether it is a real-time one.
    pub(super) fn on_dispatch(
        &mut self,
        (volume, command): (VolumeId, &Operation),
        (worst, ended): (DiskTime, u32),
        now: Instant,
    ) -> bool {
        assert!(self.in_service.is_none(), "one command is in flight beside streams");
        let is_real = self.picked.take() == Some(volume);
        if !is_real {
            self.slack_left -= worst + self.preemption_cost();
        }
        self.set_last_served(volume);
        if let Some(stream) = self.streams.get_mut(&volume) {
            let stats = self.stats.entry(volume).or_default();
            stream.blocks.on_dispatch(command, (ended, is_real), stats, now);
        }
        self.in_service = Some(InService { volume, is_real, worst });
        is_real
    }

    /// The command in the drive is complete. Returns whether it was a real-time one.
    pub(super) fn on_completion(
        &mut self,
        volume: VolumeId,
        took: DiskTime,
        worst: &WorstCase,
        now: Instant,
    ) -> bool {
        // A command that went before there were streams is none of the guard's.
        let Some(in_service) = self.in_service.take() else { return false };
        assert_eq!(in_service.volume, volume, "one command is in flight beside streams");
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        if !in_service.is_real {
            self.slack_left -= took - in_service.worst;
        }
        if let Some(stream) = self.streams.get_mut(&volume) {
            let stats = self.stats.entry(volume).or_default();
            let took = (took, self.preemption);
            stream.blocks.on_completion(took, |operation| worst.of(operation), stats, now);
        }
        in_service.is_real
    }

    /// The deadlines that `volume`'s streams have met and missed; `None` if it has had none.
    pub(super) fn stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let stats = self.stats.get(&volume).copied();
        debug_assert!(stats.is_some() || !self.has_stream(volume), "a stream has counts");
        stats
    }

    /// Notes that `volume` is served. A block that is begun and does not continue now will need
    /// positioning again.
    fn set_last_served(&mut self, volume: VolumeId) {
        let preemption = self.preemption;
        let Some(before) = self.last_served.replace(volume).filter(|before| *before != volume)
        else {
            return;
        };
        if let Some(stream) = self.streams.get_mut(&before)
            && stream.blocks.preempt()
            && let Some((_, known_slack)) = &mut self.known_slack
        {
            *known_slack -= preemption;
        }
        debug_assert_eq!(self.last_served, Some(volume), "the head is where that command ends");
    }

    /// The dynamic slack, or a lower bound: enough to decide whether `wanted` is available.
    fn dynamic_slack(&mut self, wanted: DiskTime, now: Instant) -> DiskTime {
        debug_assert!(wanted >= DiskTime::ZERO, "a command takes time: {wanted}");
        let since = |then: Instant| DiskTime::from(now.since(then));
        let known = self
            .known_slack
            .map_or(self.slack_left, |(then, slack)| (slack - since(then)).max(self.slack_left));
        if known >= wanted + self.preemption_cost() {
            return known;
        }
        self.look_ahead(now);
        let slack = self.forecast.slack(now).max(self.slack_left);
        self.known_slack = Some((now, slack));
        slack
    }

    /// Collects the demand of the streams from now on.
    fn look_ahead(&mut self, now: Instant) {
        debug_assert!(self.activating.len() <= self.streams.len(), "streams are activated");
        self.forecast.clear();
        for stream in self.streams.values().filter(|stream| stream.is_active) {
            let task = stream.blocks.stream.task;
            if let (Some(due), Some(head)) = (stream.due, stream.head) {
                let rest = stream.blocks.remaining(head, self.preemption);
                self.forecast.add_pending(due, rest + stream.extra);
            }
            let releases = Releases {
                at_once: 0,
                first: stream.blocks.next_release(now),
                period: task.period(),
                deadline: task.period(),
                cost: task.cost() + stream.extra,
                rate: stream.rate,
            };
            self.forecast.add_releases(releases, now);
        }
    }

    /// Charges each stream for preempting those that can be preempted, as admission does.
    fn charge_preemptions(&mut self) {
        let preemption = self.preemption;
        let task = |stream: &Stream| stream.blocks.stream.task;
        let preempted = self.streams.values().map(task).filter(Task::is_preemptible);
        let longest = preempted.map(|task| task.period()).max().unwrap_or_default();
        let longest = if preemption == DiskTime::ZERO { Duration::ZERO } else { longest };
        for stream in self.streams.values_mut() {
            let task = stream.blocks.stream.task;
            stream.extra = if task.period() < longest { preemption } else { DiskTime::ZERO };
            stream.rate = Rate::of(task.cost() + stream.extra, task.period());
        }
        debug_assert!(longest == Duration::ZERO || !self.streams.is_empty(), "a stream's period");
    }

    pub(super) fn invariants(&self) {
        for (volume, stream) in &self.streams {
            assert_eq!(self.real.contains(*volume), stream.due.is_some(), "deadlines are ordered");
            assert!(stream.due.is_none() || stream.head.is_some(), "what is due is queued");
            stream.blocks.invariants();
            assert_eq!(self.activating.contains(volume), !stream.is_active, "or is activated");
            assert!(self.stats.contains_key(volume), "a stream has counts");
        }
        let real = self.streams.values().filter(|stream| stream.due.is_some()).count();
        assert_eq!(self.real.len(), real, "each deadline is a stream's");
    }
}
