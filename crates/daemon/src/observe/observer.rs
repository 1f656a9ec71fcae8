//! Traces where the time of single requests goes on one disk, while a subscriber wants to know.
//!
//! ```text
//!  received ─ entered ─ queued behind, throttled, ─ issued ─ completed ─ … ─ answered ─ reply
//!         inbox         rotational wait     ▲        disk      │
//!                                           └──────────────────┘
//! ```
//!
//! Between two events a disk serves volumes or is idle for a reason. The observer accounts for that
//! interval at the second event. It moves a request's own breakdown on only when an event concerns
//! that request, so its cost does not grow with the number of waiting requests.
//!
//! Invariants: without a subscriber, nothing is stored; a request's parts add up to its time; a
//! command is accounted for with at most the time that passed.

use std::sync::Arc;

use backend::Parts;
use engine::{Command, CommandId, Engine, IdleReason, VolumeId};
use nbd::ExportId;
use units::{Duration, Instant, Operation};

use super::breakdown::Breakdown;
use super::history::History;
use super::subscribers::Subscribers;
use super::traced::{SERVED_MAX, ThrottleReason, Traced, TracedId};
use crate::slots::index;

/// The number of a request's waits of which the time intervals are stored. Volumes served during
/// later waits are not reported.
const WAITS_MAX: usize = 8;

/// A request that enters a disk's engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(crate) slot: u64,
    pub(crate) id: TracedId,
    pub(crate) export: ExportId,
    pub(crate) operation: Operation,
    /// When the server received it, if that is known.
    pub(crate) received: Option<Instant>,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    traced: Traced,
    /// The instant up to which its time is accounted for.
    until: Instant,
    /// The number of its commands in flight.
    in_flight: u32,
    /// The disk's total throttled time when the current wait began.
    throttled: Duration,
    waits: [(Instant, Instant); WAITS_MAX],
    wait_count: usize,
}

impl Open {
    /// Accounts for a wait that ends now.
    fn end_wait(&mut self, throttled: Duration, now: Instant) {
        let wait = now.since(self.until);
        let idle = throttled.saturating_sub(self.throttled).min(wait);
        let queued = wait.saturating_sub(idle);
        self.traced.breakdown.throttled += idle;
        self.traced.breakdown.queued_behind += queued;
        if queued > Duration::ZERO && self.wait_count < WAITS_MAX {
            self.waits[self.wait_count] = (self.until, now);
            self.wait_count += 1;
        }
        (self.until, self.throttled) = (now, throttled);
    }
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    id: CommandId,
    volume: VolumeId,
}

/// One disk's observer.
#[derive(Debug)]
pub(crate) struct Observer {
    disk: config::DiskIndex,
    subscribers: Arc<Subscribers>,
    enabled: bool,
    /// The requests in progress, by slot.
    open: Vec<Option<Open>>,
    in_flight: Vec<InFlight>,
    /// The reason why no command is in flight.
    idle_reason: Option<IdleReason>,
    /// The start of the interval with the present commands or the present reason.
    since: Instant,
    /// The time in which the disk was idle although there were requests.
    throttled: Duration,
    history: History,
    finished: Vec<Traced>,
    /// The volumes of the finished requests.
    finished_volumes: Vec<VolumeId>,
    /// Service times by volume, while a request is answered.
    sums: Vec<(VolumeId, Duration)>,
}

impl Observer {
    pub(crate) fn new(disk: config::DiskIndex, subscribers: Arc<Subscribers>) -> Self {
        Self {
            disk,
            subscribers,
            enabled: false,
            open: Vec::new(),
            in_flight: Vec::new(),
            idle_reason: None,
            since: Instant::ZERO,
            throttled: Duration::ZERO,
            history: History::default(),
            finished: Vec::new(),
            finished_volumes: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Starts or stops tracing when the first subscriber comes or the last one goes. Requests that
    /// entered before are not traced.
    pub(crate) fn update_enabled(&mut self, commands: &[Command], now: Instant) {
        let wanted = self.subscribers.is_wanted();
        if wanted == core::mem::replace(&mut self.enabled, wanted) {
            return;
        }
        self.open.clear();
        self.in_flight.clear();
        self.history.clear();
        let commands = commands.iter().map(|&Command { id, volume, .. }| InFlight { id, volume });
        self.in_flight.extend(commands.filter(|_| wanted));
        (self.idle_reason, self.since) = (None, now);
    }

    /// A request enters the engine.
    pub(crate) fn entered(&mut self, entered: Entered, now: Instant) {
        if !self.enabled {
            return;
        }
        self.close_interval(now);
        let Entered { slot, id, export, operation, received } = entered;
        let inbox = received.map_or(Duration::ZERO, |received| now.saturating_since(received));
        let breakdown = Breakdown { inbox, ..Breakdown::default() };
        let traced = Traced {
            id,
            disk: self.disk,
            export,
            operation,
            at: now,
            failed: false,
            commands: 0,
            breakdown,
            throttled_by: ThrottleReason::Policy,
            served: [None; SERVED_MAX],
        };
        let slot = index(slot);
        if self.open.len() <= slot {
            self.open.resize(slot + 1, None);
        }
        let (throttled, waits) = (self.throttled, [(now, now); WAITS_MAX]);
        let open = Open { traced, until: now, in_flight: 0, throttled, waits, wait_count: 0 };
        let previous = self.open[slot].replace(open);
        debug_assert!(previous.is_none(), "a slot is freed before it is used again");
    }

    /// A command is issued. `pieces` are its parts that belong to one request each.
    pub(crate) fn issued(
        &mut self,
        command: &Command,
        pieces: impl Iterator<Item = Command>,
        now: Instant,
    ) {
        if !self.enabled {
            return;
        }
        self.close_interval(now);
        self.in_flight.push(InFlight { id: command.id, volume: command.volume });
        let throttled = self.throttled;
        for piece in pieces {
            let Some(open) = self.open(piece.request.0) else { continue };
            if open.in_flight == 0 {
                open.end_wait(throttled, now);
            }
            open.in_flight += 1;
            open.traced.commands += 1;
        }
    }

    /// A command has completed, and its completion was noticed `late`. `parts` is the drive's own
    /// report of the service time.
    pub(crate) fn completed(
        &mut self,
        command: &Command,
        pieces: impl Iterator<Item = Command>,
        (parts, late): (Option<Parts>, Duration),
        now: Instant,
    ) {
        if !self.enabled {
            return;
        }
        self.close_interval(now);
        self.in_flight.retain(|in_flight| in_flight.id != command.id);
        let throttled = self.throttled;
        for piece in pieces {
            let Some(open) = self.open(piece.request.0) else { continue };
            open.in_flight -= 1;
            open.traced.breakdown.add_command(parts, late, now.since(open.until));
            (open.until, open.throttled) = (now, throttled);
        }
    }

    /// The engine has made all decisions that it makes now.
    pub(crate) fn decided(&mut self, engine: &Engine, now: Instant) {
        if !self.enabled {
            return;
        }
        self.close_interval(now);
        self.idle_reason = engine.idle_reason();
        if let Some(IdleReason::RotationalWait { request, .. }) = self.idle_reason {
            let throttled = self.throttled;
            if let Some(open) = self.open(request.0) {
                open.end_wait(throttled, now);
            }
        }
    }

    /// A request is answered. `export` returns the export of a volume.
    pub(crate) fn answered(
        &mut self,
        (slot, failed): (u64, bool),
        (engine, export): (&Engine, impl Fn(VolumeId) -> Option<ExportId>),
        volume: VolumeId,
        now: Instant,
    ) {
        if !self.enabled {
            return;
        }
        self.close_interval(now);
        let throttled = self.throttled;
        let Some(mut open) = self.open.get_mut(index(slot)).and_then(Option::take) else { return };
        debug_assert_eq!(open.in_flight, 0, "a request is answered after its last command");
        open.end_wait(throttled, now);
        let traced = &mut open.traced;
        (traced.at, traced.failed) = (now, failed);
        traced.throttled_by = if engine.contract(volume).limit < units::Share::ALL {
            ThrottleReason::Limit
        } else if engine.tasks().is_some() {
            ThrottleReason::Deadlines
        } else {
            ThrottleReason::Policy
        };
        self.sums.clear();
        for wait in &open.waits[..open.wait_count] {
            self.history.add_up(*wait, &mut self.sums);
        }
        self.sums.sort_by_key(|(volume, time)| (core::cmp::Reverse(*time), *volume));
        let named = self.sums.iter().filter_map(|(volume, time)| Some((export(*volume)?, *time)));
        for (served, named) in traced.served.iter_mut().zip(named) {
            *served = Some(named);
        }
        self.finished.push(open.traced);
        self.finished_volumes.push(volume);
    }

    /// The replies were handed to the server, at `now()`. Calls `slow` for each slow request.
    pub(crate) fn handed_over(
        &mut self,
        now: impl FnOnce() -> Instant,
        mut slow: impl FnMut(VolumeId),
    ) {
        if self.finished.is_empty() {
            return;
        }
        let now = now();
        let volumes = self.finished_volumes.drain(..);
        debug_assert_eq!(self.finished.len(), volumes.len(), "each finished request has a volume");
        for (traced, volume) in self.finished.iter_mut().zip(volumes) {
            traced.breakdown.reply = now.since(traced.at);
            if self.subscribers.slow().is_some_and(|slow| traced.breakdown.total() >= slow) {
                slow(volume);
            }
        }
        self.subscribers.publish(&mut self.finished);
    }

    fn open(&mut self, slot: u64) -> Option<&mut Open> {
        self.open.get_mut(index(slot))?.as_mut()
    }

    /// Accounts for the interval since the last event.
    fn close_interval(&mut self, now: Instant) {
        let from = core::mem::replace(&mut self.since, now);
        let time = now.since(from);
        if time == Duration::ZERO {
            return;
        }
        if !self.in_flight.is_empty() {
            let volumes = self.in_flight.iter().map(|in_flight| in_flight.volume);
            return self.history.served((from, now), volumes);
        }
        match self.idle_reason {
            Some(IdleReason::Ineligible) => self.throttled += time,
            Some(IdleReason::Anticipation(volume)) => {
                self.history.served((from, now), [volume].into_iter());
            }
            Some(IdleReason::RotationalWait { request, volume }) => {
                self.history.served((from, now), [volume].into_iter());
                let throttled = self.throttled;
                if let Some(open) = self.open(request.0) {
                    open.traced.breakdown.rotational_wait += time;
                    (open.until, open.throttled) = (now, throttled);
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
