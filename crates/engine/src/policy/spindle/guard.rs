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
//! **Why reserves hold beside streams.** Admission ([`crate::reserve_task`]) keeps the sum
//! of the streams' worst cases and of the reserves below the whole, and the static slack of the
//! streams alone above the longest command. So whatever the selector picks fits as soon as no block
//! is real time, at the latest, and streams take no more than their worst cases of any longer time.
//! What a reserve waits for in a burst its bucket keeps.
//!
//! A bounded latency ([`super::latency`]) is guarded in the same way; but its requests stay with
//! the selector as well, which may serve them earlier: their clients wait for the answers.
//!
//! **Several commands in the drive.** With a `depth` above 1 a command of the selector may join
//! others of the selector in the drive, if the slack is at least the sum of the worst cases of all
//! of them: to the proof they are one long command, since each takes its worst case at most from
//! wherever the one before left the arm. A command of a volume with a promise goes alone: the
//! drive's order knows no deadlines.
//!
//! Without streams and bounded latencies the guard is vacuous: nothing is looked up, and nothing
//! has a worst case.

mod granularity;

use std::collections::{BTreeMap, BTreeSet};

use units::{DiskTime, Duration, Instant, Operation, Sectors, Share};

use super::activity::{Activity, SHARED_FOR};
use super::byte_blocks::ByteBlocks;
use super::latency::Latency;
use super::stream::Stream;
use crate::policy::deadline::{BURST_COMMANDS, Rate, SlackBound, WorstCase};
use crate::policy::indexed_heap::IndexedHeap;
use crate::policy::interface::GuardedAs;
use crate::request::DeadlineStats;
use crate::stream::Granularity;
use crate::{Contract, Execution, LatencyStats, Settings, VolumeId};

/// In a burst the slack is computed again after this many real-time commands at the latest. It
/// grows by what they take less than their worst cases, and by releases that come later than they
/// could: the latter alone would not be noticed.
const LOOK_AGAIN: u32 = 16;

/// The command of a volume with a promise, which is alone in the drive.
#[derive(Clone, Copy, Debug)]
struct InService {
    volume: VolumeId,
    is_real: bool,
    worst: DiskTime,
    /// Whether a bounded latency covers its request, and when that is due, if it ends with it.
    is_covered: bool,
    due: Option<Instant>,
}

/// The streams and bounded latencies of a disk, and the slack that they leave.
#[derive(Debug)]
pub(super) struct Guard {
    /// The longest command, and whether commands of streams gather requests.
    command_max: Sectors,
    gathers: bool,
    streams: BTreeMap<VolumeId, Stream>,
    latencies: BTreeMap<VolumeId, Latency>,
    /// The deadlines met and missed, of past streams too.
    stats: BTreeMap<VolumeId, DeadlineStats>,
    latency_stats: BTreeMap<VolumeId, LatencyStats>,
    /// Real-time heads, by deadline.
    real: IndexedHeap<Instant>,
    /// Heads that will be real time, or no longer withheld, by when that may be.
    future: IndexedHeap<Instant>,
    /// Streams that are not active yet.
    activating: BTreeSet<VolumeId>,
    slack: SlackBound,
    /// The cost of a preemption at `Chunks`, and the granularity.
    preemption: DiskTime,
    granularity: Granularity,
    burst: bool,
    /// What the slack of a burst is at most, and the real-time commands for which that is believed.
    most: Option<(DiskTime, u32)>,
    /// The volume whose head was picked as real time.
    picked: Option<VolumeId>,
    in_service: Option<InService>,
    beside: InSlack,
    activity: Activity,
}

/// The commands in the drive for which the slack pays, with the sum of their worst cases.
#[derive(Clone, Copy, Debug, Default)]
struct InSlack {
    count: u32,
    worst: DiskTime,
    /// Since when there has been one, and what the slack has paid since.
    since: Instant,
    paid: DiskTime,
}

impl Guard {
    /// A guard of nothing. A preemption costs what the settings say.
    pub(super) fn new(settings: &Settings) -> Self {
        assert!(settings.command_max > Sectors::ZERO, "a command has sectors");
        Self {
            command_max: settings.command_max,
            gathers: settings.execution == Execution::Whole { split: None },
            streams: BTreeMap::new(),
            latencies: BTreeMap::new(),
            stats: BTreeMap::new(),
            latency_stats: BTreeMap::new(),
            real: IndexedHeap::new(),
            future: IndexedHeap::new(),
            activating: BTreeSet::new(),
            slack: SlackBound::new(settings.deadlines.preemption),
            preemption: settings.deadlines.preemption,
            granularity: Granularity::Chunks,
            burst: false,
            most: None,
            picked: None,
            in_service: None,
            beside: InSlack::default(),
            activity: Activity::default(),
        }
    }

    /// `volume` has a request.
    pub(super) fn note_activity(&mut self, volume: VolumeId, now: Instant) {
        self.activity.note(volume, now);
    }

    /// Whether there is nothing to guard.
    pub(super) fn is_vacuous(&self) -> bool {
        self.streams.is_empty() && self.latencies.is_empty()
    }

    /// Whether `volume` has a stream or a bounded latency.
    pub(super) fn has_promise(&self, volume: VolumeId) -> bool {
        !self.is_vacuous() && self.finds_promise(volume)
    }

    #[inline(never)]
    fn finds_promise(&self, volume: VolumeId) -> bool {
        debug_assert!(!self.is_vacuous(), "looked for where there are some");
        self.has_stream(volume) || self.latencies.contains_key(&volume)
    }

    /// The number of streams and bounded latencies.
    fn promises(&self) -> usize {
        debug_assert!(self.stats.len() >= self.streams.len(), "a stream has counts");
        self.streams.len() + self.latencies.len()
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
        debug_assert!(volume.is_none_or(|volume| self.real.contains(volume)), "it is real time");
        self.picked = volume;
    }

    /// Gives `volume` the stream and the bounded latency of `contract` in place of its previous
    /// ones, with `queued` requests in its queue and a head of the worst case `head`. They are
    /// activated when nothing is real time and the drive is idle: then nothing that began before
    /// can delay them. Requests that are queued already are not covered.
    pub(super) fn replace(
        &mut self,
        volume: VolumeId,
        contract: Contract,
        (queued, head): (u32, Option<DiskTime>),
        now: Instant,
    ) {
        let has_reserve = !contract.reserve.is_none();
        let (latency, contract) = (contract.latency, contract.stream);
        self.latencies.remove(&volume);
        if let Some(in_service) = &mut self.in_service
            && in_service.volume == volume
        {
            (in_service.is_covered, in_service.due) = (false, None);
        }
        if let Some(latency) = latency {
            self.latencies.insert(volume, Latency::new(latency, self.granularity));
            self.latency_stats.entry(volume).or_default();
        }
        self.real.remove(volume);
        self.future.remove(volume);
        self.activating.remove(&volume);
        self.streams.remove(&volume);
        if latency.is_some() {
            self.activating.insert(volume);
        }
        if let Some(contract) = contract {
            let served = (contract, self.granularity);
            let mut blocks = Box::new(ByteBlocks::new(served, self.command_max, self.gathers));
            blocks.rebuild(queued as usize, now);
            let rate = Rate::of(blocks.task().cost(), blocks.task().period());
            let extra = DiskTime::ZERO;
            let (is_active, due, is_withheld) = (false, None, false);
            let stream =
                Stream { blocks, has_reserve, is_active, rate, extra, head, due, is_withheld };
            self.streams.insert(volume, stream);
            self.stats.entry(volume).or_default();
            self.activating.insert(volume);
        }
        self.charge_preemptions();
        self.slack.forget();
        self.most = None;
        assert!(self.activating.len() <= self.promises(), "promises are activated");
    }

    /// Whether `volume` has the stream and the bounded latency of `contract` already: a change of
    /// its other terms leaves them, and what is queued, as they are.
    pub(super) fn has_promises_of(&self, volume: VolumeId, contract: &Contract) -> bool {
        let latency = self.latencies.get(&volume).map(Latency::contract);
        let stream = self.streams.get(&volume).map(|stream| &stream.blocks.stream);
        debug_assert!(latency.is_none() || stream.is_none(), "a contract has one promise");
        latency == contract.latency.as_ref() && stream == contract.stream.as_ref()
    }

    /// Notes whether `volume` has a reserve besides its stream, if it has one.
    pub(super) fn set_reserved(&mut self, volume: VolumeId, has_reserve: bool) {
        debug_assert!(self.streams.len() <= self.stats.len(), "a stream has counts");
        if let Some(stream) = self.streams.get_mut(&volume) {
            stream.has_reserve = has_reserve;
        }
    }

    /// The number of a removed volume is given to another.
    pub(super) fn forget(&mut self, volume: VolumeId, now: Instant) {
        self.replace(volume, Contract::BEST_EFFORT, (0, None), now);
        self.stats.remove(&volume);
        self.latency_stats.remove(&volume);
        debug_assert!(!self.has_stream(volume), "a removed volume has no stream");
    }

    /// The static slack ΔL of the streams.
    pub(super) fn set_static_slack(&mut self, slack: DiskTime) {
        self.slack.set_static(slack);
        self.most = None;
    }

    /// Whether a bounded latency covers a request that arrives now.
    pub(super) fn covers(&mut self, volume: VolumeId, operation: &Operation, now: Instant) -> bool {
        let Some(latency) = self.latencies.get_mut(&volume) else { return false };
        let stats = self.latency_stats.entry(volume).or_default();
        let covers = latency.covers(operation, stats, now);
        debug_assert!(!covers || latency.due().is_some(), "a covered request is due");
        covers
    }

    /// A request arrives in the queue of a volume with a promise.
    pub(super) fn on_arrival(&mut self, volume: VolumeId, operation: &Operation, now: Instant) {
        let Some(stream) = self.streams.get_mut(&volume) else { return };
        let stats = self.stats.entry(volume).or_default();
        stream.blocks.on_arrival(operation, stats, now);
        debug_assert!(!self.real.contains(volume) || stream.due.is_some(), "as its state says");
    }

    /// The head of a volume with a promise is one with this worst case.
    pub(super) fn set_head(&mut self, volume: VolumeId, head: Option<DiskTime>, now: Instant) {
        debug_assert!(self.has_promise(volume), "the volume has a promise");
        if let Some(latency) = self.latencies.get_mut(&volume) {
            match latency.set_head(head) {
                Some(due) => self.real.set(volume, due),
                None => self.real.remove(volume),
            }
            return;
        }
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
        // More is gathered for the sake of other volumes: where there is none, nothing waits.
        let shared = self.activity.of_others(volume).map(|at| at + SHARED_FOR);
        let waits = shared.map(|shared| shared.min(stream.blocks.waits_until()));
        let waits = waits.filter(|until| *until > now);
        let waits = waits.filter(|_| stream.head.is_some() && stream.is_active);
        let is_offered = stream.blocks.is_offered(stream.has_reserve, now);
        stream.is_withheld = waits.is_some() || is_released && !is_offered;
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
        debug_assert_eq!(self.in_drive(), 0, "the drive is idle");
        if self.real.len() > 0 {
            return BTreeSet::new();
        }
        self.slack.restart();
        (self.burst, self.most) = (false, None);
        if self.activating.is_empty() {
            return BTreeSet::new();
        }
        self.slack.forget();
        let activated = core::mem::take(&mut self.activating);
        for &volume in &activated {
            if let Some(latency) = self.latencies.get_mut(&volume) {
                latency.activate();
                continue;
            }
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
        debug_assert!(self.real.len() <= self.promises(), "a real-time head is promised");
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
        if in_burst && self.most.is_some_and(|(most, left)| left > 0 && most < wanted) {
            return false;
        }
        let available = self.dynamic_slack(wanted, now) - self.preemption_cost();
        let permits = available >= wanted;
        self.burst = !permits;
        self.most = (!permits).then_some((available, LOOK_AGAIN));
        permits
    }

    /// Whether a command that takes `worst` at most may go beside the commands in the drive, for
    /// which the slack pays as well: they are done by the sum of their worst cases, in whatever
    /// order the drive serves them.
    pub(super) fn permits_beside(&mut self, worst: DiskTime, now: Instant) -> bool {
        assert!(worst >= DiskTime::ZERO, "a worst case is not negative: {worst}");
        if self.in_service.is_some() || self.burst && self.real.len() > 0 {
            return false;
        }
        let wanted = self.beside.worst + worst;
        self.dynamic_slack(wanted, now) - self.preemption_cost() >= wanted
    }

    /// The number of commands in the drive that were dispatched beside promises.
    pub(super) fn in_drive(&self) -> u32 {
        debug_assert!(self.beside.count > 0 || self.beside.worst == DiskTime::ZERO, "none is left");
        self.beside.count + u32::from(self.in_service.is_some())
    }

    /// Whether the next command of `volume` is alone in the drive: it belongs to a stream, or a
    /// bounded latency covers it.
    pub(super) fn is_exclusive(&self, volume: VolumeId) -> bool {
        let latency = self.latencies.get(&volume);
        debug_assert!(latency.is_none() || !self.has_stream(volume), "a volume has one promise");
        self.has_stream(volume) || latency.is_some_and(|latency| latency.due().is_some())
    }

    /// Whether the disk may idle for `time` before the real-time blocks.
    pub(super) fn permits_idling(&mut self, time: Duration, now: Instant) -> bool {
        debug_assert_eq!(self.in_drive(), 0, "the drive is idle");
        let time = DiskTime::from(time);
        if self.burst || self.dynamic_slack(time, now) < time {
            return false;
        }
        self.slack.idle();
        true
    }

    /// The cost of a command beyond its own service time: the positioning back to a block that it
    /// interrupts.
    fn preemption_cost(&self) -> DiskTime {
        self.slack.preemption_cost(|volume| {
            self.streams.get(&volume).is_some_and(|stream| stream.blocks.is_begun())
                || self.latencies.get(&volume).is_some_and(Latency::is_begun)
        })
    }

    /// Notes that a command of `volume` goes to the drive, with the worst case `worst`, and that
    /// `ended` requests end with it.
    pub(super) fn on_dispatch(
        &mut self,
        (volume, command): (VolumeId, &Operation),
        (worst, ended): (DiskTime, u32),
        now: Instant,
    ) -> GuardedAs {
        assert!(self.in_service.is_none(), "a command of a promise is alone in the drive");
        let is_real = self.picked.take() == Some(volume);
        if !is_real {
            self.slack.spend(worst + self.preemption_cost());
        }
        self.set_last_served(volume);
        if !self.is_exclusive(volume) {
            assert!(!is_real, "a real-time command is promised");
            if self.beside.count == 0 {
                self.beside.since = now;
            }
            self.beside.count += 1;
            self.beside.worst += worst;
            self.beside.paid += worst;
            return GuardedAs::Slack { worst };
        }
        assert_eq!(self.beside.count, 0, "a command of a promise is alone in the drive");
        if let Some(stream) = self.streams.get_mut(&volume) {
            let stats = self.stats.entry(volume).or_default();
            stream.blocks.on_dispatch(command, (ended, is_real), stats, now);
        }
        let latency = self.latencies.get_mut(&volume).filter(|latency| latency.due().is_some());
        let is_covered = latency.is_some();
        let due = latency.and_then(|latency| latency.on_dispatch(ended > 0));
        self.in_service = Some(InService { volume, is_real, worst, is_covered, due });
        GuardedAs::Alone { is_real }
    }

    /// A command for which the slack pays, with the worst case `worst`, is complete. How much of
    /// the time until now the others have had is unknown: they may all be still to begin.
    pub(super) fn on_completion_beside(&mut self, worst: DiskTime, now: Instant) {
        assert!(self.beside.count > 0, "a completed command was dispatched");
        let InSlack { count, worst: before, since, paid } = self.beside;
        let rest = before - worst;
        let most = DiskTime::from(now.since(since)) + rest;
        self.slack.spend(most - paid);
        self.beside = match count {
            1 => InSlack::default(),
            _ => InSlack { count: count - 1, worst: rest, since, paid: most },
        };
    }

    /// The command that was alone in the drive is complete.
    pub(super) fn on_completion(
        &mut self,
        volume: VolumeId,
        took: DiskTime,
        worst: &WorstCase,
        now: Instant,
    ) {
        let in_service = self.in_service.take().expect("a completed command was dispatched");
        assert_eq!(in_service.volume, volume, "a command of a promise is alone in the drive");
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        if !in_service.is_real {
            self.slack.spend(took - in_service.worst);
        } else if let Some((most, left)) = &mut self.most {
            *most += (in_service.worst - took).max(DiskTime::ZERO);
            *left = left.saturating_sub(1);
        }
        if let Some(due) = in_service.due {
            self.latency_stats.entry(volume).or_default().count_answer(due, now);
        } else if in_service.is_covered
            && let Some(latency) = self.latencies.get_mut(&volume)
        {
            latency.on_partial_service(took, self.slack.preemption());
        }
        if let Some(stream) = self.streams.get_mut(&volume) {
            let stats = self.stats.entry(volume).or_default();
            let took = (took, self.slack.preemption());
            stream.blocks.on_completion(took, |operation| worst.of(operation), stats, now);
        }
    }

    /// The deadlines that `volume`'s streams have met and missed; `None` if it has had none.
    pub(super) fn stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let stats = self.stats.get(&volume).copied();
        debug_assert!(stats.is_some() || !self.has_stream(volume), "a stream has counts");
        stats
    }

    /// The requests of `volume`'s bounded latencies; `None` if it has had none.
    pub(super) fn latency_stats(&self, volume: VolumeId) -> Option<LatencyStats> {
        let stats = self.latency_stats.get(&volume).copied();
        debug_assert!(stats.is_some() || !self.latencies.contains_key(&volume), "it has counts");
        stats
    }

    /// Notes that `volume` is served.
    fn set_last_served(&mut self, volume: VolumeId) {
        let Self { slack, streams, latencies, .. } = self;
        debug_assert!(streams.len() <= self.stats.len(), "a stream has counts");
        slack.served(volume, |before| {
            let stream = streams.get_mut(&before);
            let interrupted = stream.is_some_and(|stream| stream.blocks.preempt());
            interrupted | latencies.get_mut(&before).is_some_and(Latency::preempt)
        });
    }

    /// The dynamic slack, or a lower bound: enough to decide whether `wanted` is available.
    fn dynamic_slack(&mut self, wanted: DiskTime, now: Instant) -> DiskTime {
        let wanted = wanted + self.preemption_cost();
        let Self { slack, streams, latencies, .. } = self;
        let preemption = slack.preemption();
        slack.dynamic(wanted, now, |forecast| {
            for stream in streams.values().filter(|stream| stream.is_active) {
                stream.forecast(forecast, preemption, now);
            }
            for latency in latencies.values().filter(|latency| latency.is_active()) {
                latency.forecast(forecast, preemption, now);
            }
        })
    }

    pub(super) fn invariants(&self) {
        for (volume, latency) in &self.latencies {
            assert_eq!(self.real.contains(*volume), latency.due().is_some(), "as it is due");
            assert_eq!(self.activating.contains(volume), !latency.is_active(), "or is activated");
            assert!(!self.has_stream(*volume), "a volume has one promise");
        }
        for (volume, stream) in &self.streams {
            assert_eq!(self.real.contains(*volume), stream.due.is_some(), "deadlines are ordered");
            assert!(stream.due.is_none() || stream.head.is_some(), "what is due is queued");
            stream.blocks.invariants();
            assert_eq!(self.activating.contains(volume), !stream.is_active, "or is activated");
            assert!(self.stats.contains_key(volume), "a stream has counts");
        }
        let real = self.streams.values().filter(|stream| stream.due.is_some()).count();
        let due = self.latencies.values().filter(|latency| latency.due().is_some()).count();
        assert_eq!(self.real.len(), real + due, "each deadline is promised");
        assert!(self.in_service.is_none() || self.beside.count == 0, "a promise's is alone");
    }
}

/// Whether `contract` has a part that is kept by deadlines.
pub(super) fn is_promised(contract: &Contract) -> bool {
    let (stream, latency) = (contract.stream.is_some(), contract.latency.is_some());
    debug_assert!(!stream || !latency, "a contract has one promise");
    stream || latency
}

/// `contract` as the selector keeps it: a stream's share of the disk is reserved too. What the
/// guard serves is debited from it.
pub(super) fn with_stream_share(contract: Contract) -> Contract {
    let Some(stream) = &contract.stream else { return contract };
    let reserve = contract.reserve.checked_add(stream.share()).unwrap_or(Share::ALL);
    debug_assert!(reserve >= contract.reserve, "a stream adds to the reserve");
    Contract { reserve, limit: contract.limit.max(reserve), ..contract }
}
