//! The engine of one disk: queues, commands in service, and the connections between them, the meter
//! and the policy.

use core::hint::cold_path;
use std::collections::VecDeque;
use std::sync::Arc;

use units::{DiskTime, Duration, Instant, Op, Operation, Sectors};

use self::batch::FlushBatch;
use self::issued::Issued;
use self::lent::Freeblock;
use self::pending::{BesideDeadlines, OwnFlush, Pending, Pieces, Retry, Slot};
use crate::accounting::deferred::DeferredCharges;
use crate::accounting::meter::Meter;
use crate::chooser::Chooser;
use crate::limits::{BACKGROUND_READ_MAX, COMMAND_MAX, FEEDING_AGE_MAX, MERGED_MAX, REQUESTS_MAX};
use crate::policy::{self, Policy};
use crate::preempt::Executor;
use crate::request::{Action, CommandId, Event, Outcome, Reply, Request, VolumeUsage};
use crate::stream::Granularity;
use crate::{
    Admission, Charging, Contract, ForcedWrites, PolicyName, PreemptionStats, Priority, SeeksAhead,
    Settings, VolumeId,
};
use drive_profile::Profile;

mod ahead;
mod batch;
mod choose;
mod deadlines;
mod dispatch;
mod flush_batch;
mod freeblock;
mod gather;
mod idle;
mod invariants;
mod issued;
mod lent;
mod merge;
pub(crate) mod pending;
mod prefetch;
mod tasks;
mod volumes;

pub use gather::CommandPieces;
pub use idle::IdleReason;
pub use lent::FreeblockStats;
pub use tasks::{
    BEST_EFFORT_TASK, LongestCommand, RESERVES_TASK, latency_task, reserve_task, volume_of_task,
};

/// No request.
const NO_SLOT: Slot = Slot::MAX;

/// The volume that goes next, and whether it is served out of order because of its priority.
#[derive(Clone, Copy, Debug)]
struct Selection {
    volume: VolumeId,
    urgent: bool,
}

/// The request for which the disk is held, even if none of its commands is in flight.
#[derive(Clone, Copy, Debug)]
struct ActiveRequest {
    volume: VolumeId,
    slot: Slot,
    /// Whether the disk idles for it until the target sector approaches the head.
    waits_for_rotation: bool,
}

/// What a request touches of its volume. With many volumes each is cold when it is served: this is
/// one cache line, and the queue is a list linked through the requests themselves.
#[derive(Debug)]
#[repr(align(64))]
struct Volume {
    first: Slot,
    last: Slot,
    account: VolumeUsage,
}

const _: () = assert!(size_of::<Volume>() == 64);
const _: () = assert!(REQUESTS_MAX < NO_SLOT as usize);

/// The scheduler of one disk. The documentation of the crate says how it is driven.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    admission: Admission,
    tasks: Option<tasks::Tasks>,
    policy: Box<dyn Policy>,
    meter: Meter,
    deferred: Option<DeferredCharges>,
    volumes: Vec<Volume>,
    contracts: Vec<Contract>,
    /// Numbers of removed volumes, and the disk time that those were charged.
    vacant: Vec<VolumeId>,
    removed_volumes_charged: DiskTime,
    pending: Vec<Option<Pending>>,
    free: Vec<Slot>,
    queued: usize,
    issued: Vec<Issued>,
    replies: VecDeque<Reply>,
    next_command: u64,
    wakeup: Option<Instant>,
    now: Instant,
    /// The volumes of high priority, one entry per queued request, in the order of arrival.
    urgent: VecDeque<VolumeId>,
    priorities: Vec<Priority>,
    /// The slack that each volume was charged: kept apart from the volumes, which fill a cache
    /// line.
    slack: Vec<DiskTime>,
    total_slack: DiskTime,
    executor: Option<Box<Executor>>,
    /// The choice among a volume's requests; `None`: they go in the order of arrival.
    chooser: Option<Box<Chooser>>,
    /// Reads in rotational waits; `None`: there are none.
    freeblock: Option<Box<Freeblock>>,
    active: Option<ActiveRequest>,
    /// The forced writes that a flush is to end.
    batch: FlushBatch,
    /// Whether requests have deadlines.
    guarded: bool,
    /// How requests with deadlines, and all beside them, become commands.
    granularity: Granularity,
    /// The last request of each volume's queue that goes ahead of others.
    ahead: Vec<Slot>,
    /// The parts of merged commands that failed.
    retries: VecDeque<Retry>,
}

impl Engine {
    /// An engine for an idle disk without volumes.
    ///
    /// # Panics
    /// On settings outside their bounds: the caller checks settings from outside.
    pub fn new(settings: Settings, now: Instant) -> Self {
        settings.assert_valid();
        Self {
            settings,
            admission: Admission::with_headroom(settings.headroom),
            tasks: tasks::Tasks::new(&settings),
            policy: policy::make(&settings, now),
            meter: Meter::new(settings.charging, now),
            deferred: settings.deferred_writes.map(DeferredCharges::new),
            volumes: Vec::new(),
            contracts: Vec::new(),
            vacant: Vec::new(),
            removed_volumes_charged: DiskTime::ZERO,
            pending: Vec::new(),
            free: Vec::new(),
            queued: 0,
            issued: Vec::new(),
            replies: VecDeque::new(),
            next_command: 0,
            wakeup: None,
            now,
            urgent: VecDeque::new(),
            priorities: Vec::new(),
            slack: Vec::new(),
            total_slack: DiskTime::ZERO,
            executor: None,
            chooser: Chooser::new(settings.chooser),
            freeblock: settings.freeblock.then(Box::default),
            active: None,
            batch: FlushBatch::new(settings.forced_writes != ForcedWrites::Fua),
            guarded: settings.policy.has_deadlines(),
            granularity: Granularity::Chunks,
            ahead: Vec::new(),
            retries: VecDeque::new(),
        }
    }

    /// Adds what is known of the disk. Without it requests are split as the settings say, and no
    /// seek is just in time. There are no just-in-time seeks either with several commands in
    /// flight, whose order is the drive's, or under deadlines, which are guaranteed by the worst
    /// case of single commands.
    ///
    /// # Panics
    /// On an invalid profile, or if the engine has volumes with deadlines.
    #[must_use]
    pub fn with_profile(mut self, profile: Arc<Profile>) -> Self {
        debug_assert!(self.issued.is_empty(), "a profile is set before the first command");
        self.set_profile(&profile);
        if let Some(chooser) = &mut self.chooser {
            chooser.set_profile(&profile);
        }
        let is_predictable = self.settings.depth == 1 && !self.settings.policy.has_deadlines();
        self.executor = self.settings.execution.preemptible().map(|how| {
            let jit = how.jit.filter(|_| is_predictable);
            Box::new(Executor::new(crate::Preemptible { jit, ..*how }, profile))
        });
        self
    }

    /// Changes the priority of `volume`, from its next request on. Under deadlines there are no
    /// priorities.
    pub fn set_priority(&mut self, volume: VolumeId, priority: Priority) {
        debug_assert_eq!(self.priorities.len(), self.volumes.len(), "each volume has a priority");
        self.priorities[volume.0 as usize] = priority;
    }

    /// What preemptible execution has done; `None` if requests are executed whole.
    pub fn preemption_stats(&self) -> Option<PreemptionStats> {
        self.executor.as_ref().map(|executor| executor.done())
    }

    /// How preemptible execution moves the arm ahead of transfers; `None` if requests are executed
    /// whole.
    pub fn seeks_ahead(&self) -> Option<SeeksAhead> {
        self.executor.as_ref().map(|executor| executor.seeks_ahead())
    }

    /// The end of a rotational wait: the disk idles until then so that the head arrives as the
    /// sector does. As of the last [`Engine::poll`] that returned `None`.
    pub fn rotational_wait_until(&self) -> Option<Instant> {
        self.wakeup.filter(|_| self.active.is_some_and(|active| active.waits_for_rotation))
    }

    /// One revolution of the disk, as far as it is known; zero where it does not matter.
    pub fn rotation_period(&self) -> Duration {
        self.executor.as_ref().map_or(Duration::ZERO, |executor| executor.period())
    }

    /// The reserves that are admitted on this disk.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The contract of `volume`.
    pub fn contract(&self, volume: VolumeId) -> Contract {
        debug_assert_eq!(self.contracts.len(), self.volumes.len(), "each volume has a contract");
        self.contracts[volume.0 as usize]
    }

    /// The disk's busy time. It includes idle time that a volume was charged for, and the time in
    /// which the drive stores what it has answered from its own buffer, where that is charged.
    pub fn busy(&self) -> DiskTime {
        self.deferred.as_ref().map_or(DiskTime::ZERO, DeferredCharges::charged) + self.meter.busy()
    }

    /// Requests in the engine, queued and in service.
    pub fn requests(&self) -> usize {
        debug_assert!(self.free.len() <= self.pending.len(), "a free slot is a slot");
        self.pending.len() - self.free.len()
    }

    /// Commands in the drive.
    pub fn running(&self) -> usize {
        debug_assert_eq!(self.issued.len(), self.meter.running(), "the meter has every command");
        self.meter.running()
    }

    /// Requests for which not all commands have been issued.
    pub fn queued(&self) -> usize {
        debug_assert!(self.queued <= self.requests(), "a queued request is a request");
        self.queued
    }

    /// Records an event. Makes no decision.
    ///
    /// # Panics
    /// If time runs backwards, or the event breaks a condition of [`Event`].
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.charge_idle(now);
        match event {
            Event::Submit(request) => _ = self.submit(request, now),
            Event::SubmitDeferred(request) => self.submit_deferred(request, now),
            Event::Completed { command, outcome } => self.complete(command, outcome, now),
            Event::ContractChanged { volume, contract } => self.change(volume, contract, now),
            Event::VolumeRemoved { volume } => self.remove_volume(volume, now),
            Event::PeriodChanged { period, batch } => self.change_period((period, batch), now),
            Event::PrefetchOffered { volume, extent } => self.offer_prefetch(volume, extent),
        }
        debug_assert_eq!(self.issued.len(), self.meter.running(), "the meter has every command");
        debug_assert!(self.queued <= self.requests(), "a queued request is a request");
    }

    /// The next action. The caller polls until it returns `None`.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(Action::Reply(reply));
        }
        self.charge_idle(now);
        self.wakeup = None;
        self.update_slack(now);
        let is_full = self.issued.len() >= self.depth() || self.batch.is_ending();
        if is_full || self.is_overtaken(now) || self.is_busy_for_long() {
            return None;
        }
        if !self.retries.is_empty() {
            cold_path();
            return self.issue_retry(now).map(Action::Issue);
        }
        match self.choose(now) {
            Ok(selection) => self.execute(selection, now).map(Action::Issue),
            Err(_) if self.batch.is_open() => self.issue_batch_flush(now).map(Action::Issue),
            Err(wakeup) => {
                debug_assert!(wakeup.is_none_or(|at| at > now), "a wake-up is in the future");
                self.wakeup = wakeup;
                None
            }
        }
    }

    /// Whether a drive with one actuator, which orders its own queue, has passed over a command for
    /// too long: it is given no other until that one completes. The policies of the publications
    /// do not look at this.
    fn is_overtaken(&self, now: Instant) -> bool {
        debug_assert!(self.issued.len() <= self.settings.depth as usize, "the depth is kept");
        self.settings.charging == Charging::Completions
            && self.meter.oldest_age(now) >= FEEDING_AGE_MAX
    }

    /// Whether a drive that works for several commands at a time, of several volumes, is busy for
    /// long enough with those in it.
    fn is_busy_for_long(&self) -> bool {
        debug_assert!(self.issued.len() <= self.settings.depth as usize, "the depth is kept");
        self.meter.is_busy_for_long(self.settings.depth) && self.policy.divides_drive()
    }

    fn next_command(&mut self) -> CommandId {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        debug_assert!(self.issued.iter().all(|issued| issued.id != id), "an id is unique");
        id
    }

    /// When to poll again without an event, as of the last [`Engine::poll`] that returned `None`.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    /// Charges the time since the last call, if the disk idled for a volume.
    fn charge_idle(&mut self, now: Instant) {
        assert!(now >= self.now, "time runs backwards: {now} after {}", self.now);
        self.now = now;
        if !self.issued.is_empty() {
            self.meter.skip_idle(now);
            return;
        }
        let rotational = self.rotational_wait_of();
        let Some(volume) = rotational.or_else(|| self.policy.anticipating()) else {
            self.meter.skip_idle(now);
            return;
        };
        cold_path();
        let idle = self.meter.charge_idle(now);
        assert!(idle >= DiskTime::ZERO, "idle time is not negative: {idle}");
        let account = &mut self.volumes[volume.0 as usize].account;
        account.disk_time += idle;
        if let (Some(_), Some(executor)) = (rotational, &mut self.executor) {
            executor.done_mut().rotational_wait += idle;
        } else {
            account.anticipation += idle;
        }
        self.policy.idle_charged(volume, idle, now);
    }

    /// The volume for whose request the disk idles until the sector approaches. That time is part
    /// of the request's service time.
    fn rotational_wait_of(&self) -> Option<VolumeId> {
        self.active.filter(|active| active.waits_for_rotation).map(|active| active.volume)
    }

    fn submit(&mut self, request: Request, now: Instant) -> Slot {
        debug_assert!(!self.vacant.contains(&request.volume), "the volume has not been removed");
        assert!(self.requests() < REQUESTS_MAX, "requests are bounded at the edge");
        assert!(request.operation.op != Op::Seek, "no client submits a seek");
        let moves = request.operation.op != Op::Flush;
        assert_eq!(moves, !request.operation.extent.is_empty(), "only a flush has no extent");
        let pending = Pending {
            request,
            submitted: now,
            started: None,
            issued: Sectors::ZERO,
            running: 0,
            preemptions: 0,
            own_flush: OwnFlush::new(self.owes_flush(&request.operation)),
            urgent: self.is_urgent(request.volume),
            outcome: Outcome::Done,
            disk_time: DiskTime::ZERO,
            estimate: DiskTime::ZERO,
            next_in_queue: None,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            Slot::try_from(self.pending.len() - 1).expect("REQUESTS_MAX fits")
        });
        let urgent = pending.urgent;
        let before = self.pending[slot as usize].replace(pending);
        assert!(before.is_none(), "a free slot holds no request");
        self.queued += 1;
        assert!(self.queued <= self.requests(), "a queued request is a request");
        if urgent {
            self.urgent.push_back(request.volume);
        }
        if let Some(chooser) = &mut self.chooser {
            cold_path();
            let charged = self.volumes[request.volume.0 as usize].account.disk_time;
            chooser.queued(slot, &request, charged);
        }
        if self.is_guarded() && self.policy.goes_ahead(request.volume, &request.operation, now) {
            cold_path();
            self.queue_ahead(slot, now);
            return slot;
        }
        let entry = &mut self.volumes[request.volume.0 as usize];
        let last = core::mem::replace(&mut entry.last, slot);
        assert_ne!(last, slot, "a request is queued once");
        let head = if last == NO_SLOT {
            debug_assert_eq!(entry.first, NO_SLOT, "an empty queue has no head");
            entry.first = slot;
            Some(self.next_piece(slot))
        } else {
            self.pending_mut(last).next_in_queue = Some((slot, request.operation));
            None
        };
        self.policy.queued(request.volume, &request.operation, head.as_ref(), now);
        slot
    }

    fn is_urgent(&self, volume: VolumeId) -> bool {
        !self.settings.policy.has_deadlines()
            && self.priorities[volume.0 as usize] == Priority::High
    }

    fn pending(&self, slot: Slot) -> &Pending {
        self.pending[slot as usize].as_ref().expect("a request that is not answered is pending")
    }

    fn pending_mut(&mut self, slot: Slot) -> &mut Pending {
        self.pending[slot as usize].as_mut().expect("a request that is not answered is pending")
    }

    /// The most that one command of a request transfers for the sake of other volumes.
    fn piece_max(&self, volume: VolumeId, operation: &Operation) -> Sectors {
        if self.settings.policy != PolicyName::Spindle || operation.extent.len <= MERGED_MAX {
            return COMMAND_MAX;
        }
        let reads = operation.op == Op::Read;
        let divides = self.settings.charging == Charging::ByLength && !self.is_guarded();
        if divides && (reads || operation.op == Op::Write) {
            cold_path();
            return MERGED_MAX;
        }
        // The contract is cold: it is looked at where it matters.
        let is_long = reads && operation.extent.len > BACKGROUND_READ_MAX;
        let is_cut = is_long && self.contracts[volume.0 as usize].is_background;
        if is_cut { BACKGROUND_READ_MAX } else { COMMAND_MAX }
    }

    /// What the next command of a request depends on.
    fn pieces(&self, volume: VolumeId, operation: &Operation) -> Pieces<'_> {
        let (settings, executor) = (&self.settings, self.executor.as_deref());
        let command_max = settings.command_max.min(self.piece_max(volume, operation));
        let beside = self.is_guarded().then(|| {
            let has_deadlines = self.contracts[volume.0 as usize].has_deadlines();
            BesideDeadlines { granularity: self.granularity, has_deadlines }
        });
        Pieces { settings, executor, command_max, beside }
    }

    /// The next command of the request in `slot`.
    fn next_piece(&self, slot: Slot) -> Operation {
        let pending = self.pending(slot);
        let request = &pending.request;
        pending.remainder().piece(&self.pieces(request.volume, &request.operation))
    }

    /// The first request of `volume`'s queue needs no more commands.
    fn end(&mut self, (volume, urgent): (VolumeId, bool), next_in_queue: Option<Slot>) {
        self.advance(volume, next_in_queue);
        self.active = None;
        if urgent {
            cold_path();
            let place = self.urgent.iter().position(|urgent| *urgent == volume);
            self.urgent.remove(place.expect("it was entered at its arrival"));
            debug_assert!(self.urgent.len() <= self.queued, "urgent requests are queued");
        }
    }

    /// Makes `first` the head of `volume`'s queue: the previous head has left.
    fn advance(&mut self, volume: VolumeId, first: Option<Slot>) {
        let entry = &mut self.volumes[volume.0 as usize];
        if self.guarded && self.ahead[volume.0 as usize] == entry.first {
            cold_path();
            self.ahead[volume.0 as usize] = NO_SLOT;
        }
        entry.first = first.unwrap_or(NO_SLOT);
        if first.is_none() {
            entry.last = NO_SLOT;
        }
        let is_empty = entry.first == NO_SLOT;
        debug_assert_eq!(is_empty, entry.last == NO_SLOT, "a queue has both ends or none");
        assert!(self.queued > 0, "a request that leaves was queued");
        self.queued -= 1;
        self.chooser.iter_mut().for_each(|chooser| chooser.left(volume));
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome, now: Instant) {
        let place = self.issued.iter().position(|issued| issued.id == command);
        let issued = self.issued.swap_remove(place.expect("a completed command was issued"));
        let volume = self.charged_volume(&issued);
        let mut charge = self.meter.completed(command, now);
        if let Some(deferred) = &mut self.deferred {
            cold_path();
            charge += deferred.charge(volume, &issued.operation, charge);
        }
        assert!(charge >= DiskTime::ZERO, "a charge is not negative: {charge}");
        debug_assert_eq!(self.issued.len(), self.meter.running(), "the meter has every command");
        if let Some(executor) = &mut self.executor {
            cold_path();
            executor.completed(&issued.operation, (issued.purpose, volume), now);
        }
        if self.chooser.is_some() {
            self.tell_chooser(&issued, charge, now);
        }
        if let Some(issued) = self.hold_for_flush(issued, charge, outcome, now) {
            let is_retried = self.is_retried_after(&issued, outcome);
            self.settle((issued, is_retried), charge, outcome, now);
        }
    }

    /// A command has left the drive after `charge`: the chooser is told.
    #[cold]
    fn tell_chooser(&mut self, issued: &Issued, charge: DiskTime, now: Instant) {
        let volume = self.charged_volume(issued);
        let ended = self.ended_for_chooser(issued);
        if let (Some(chooser), Some(ended)) = (&mut self.chooser, ended) {
            chooser.completed((ended, volume), (&issued.operation, charge), now);
        }
    }

    /// A command has ended that took `charge`: it is charged, and the requests that it has ended
    /// are answered.
    fn settle(
        &mut self,
        (issued, is_retried): (Issued, bool),
        charge: DiskTime,
        outcome: Outcome,
        now: Instant,
    ) {
        let (command, volume) = (issued.id, self.charged_volume(&issued));
        let own = if issued.gains.is_none() { charge } else { DiskTime::ZERO };
        self.share_service(&issued, own, if is_retried { Outcome::Done } else { outcome });
        let slack = issued.record.as_ref().is_some_and(|record| record.from_slack);
        let charge = if let Some(record) = issued.record {
            self.charge((command, volume), record, charge, now)
        } else {
            cold_path();
            self.policy.idle_charged(volume, charge, now);
            charge
        };
        self.volumes[volume.0 as usize].account.disk_time += charge;
        if slack {
            self.slack[volume.0 as usize] += charge;
            self.total_slack += charge;
            let slack = self.slack[volume.0 as usize];
            debug_assert!(slack <= self.total_slack, "a part of the slack of all volumes");
        }
        self.end_command(&issued, is_retried, now);
    }

    fn reply(&mut self, slot: Slot, now: Instant) {
        let pending = self.pending[slot as usize].take().expect("it has ended just now");
        assert_eq!(pending.running, 0, "an answered request has no command in flight");
        debug_assert!(pending.issued_whole(), "an answered request was issued whole");
        self.free.push(slot);
        debug_assert!(self.free.len() <= self.pending.len(), "a slot is freed once");
        let Pending { request, outcome, disk_time, estimate, .. } = pending;
        let account = &mut self.volumes[request.volume.0 as usize].account;
        account.requests += 1;
        account.failures += u64::from(outcome == Outcome::Failed);
        if matches!(request.operation.op, Op::Read | Op::Write) && outcome == Outcome::Done {
            account.sectors += request.operation.extent.len;
        }
        assert!(account.failures <= account.requests, "a failed request is a request");
        debug_assert!(account.last_reply.is_none_or(|last| last <= now), "time goes forward");
        account.last_reply = Some(now);
        let waited = pending.started.expect("it was started").since(pending.submitted);
        let (request, volume) = (request.id, request.volume);
        self.replies.push_back(Reply { request, volume, outcome, disk_time, estimate, waited });
    }
}
