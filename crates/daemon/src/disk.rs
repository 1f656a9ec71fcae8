//! One disk's thread: its engine, its backend, and the loop between them.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use backend::{Completion, Disk, Failure, HealthMonitor, Job, Tag};
use engine::stream::Span;
use engine::{
    Action, Command, CommandId, Contract, ContractSchedule, Event, Outcome, Priority, RateContract,
    Request, VolumeId,
};
use flight::RecordedEngine;
use host::{Clock, WakeupMargin};
use nbd::limits::STATUS_SEGMENTS_MAX;
use nbd::{Allocation, BlockStatusReply, Errno, ExportId, Handle, Reply, Segment};
use units::{DiskTime, Duration, Extent, Instant, Op, Operation};

use crate::door::lock;
use crate::inbox::{Change, Changed, Inbox, Incoming, Look, Message, Portion};
use crate::observe::{Entered, Observer};
use crate::pending::{Asker, Pending, collect, index, payload};
use crate::pool::{Ended, Served};
use crate::rest::Rest;
use crate::seats::Seats;
use crate::status::{DiskView, Lateness};
use crate::traffic::{Answered, TimeSum};

/// The longest sleep of a disk with nothing to do.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A disk's engine, and what its thread knows of its volumes beside it.
pub(crate) struct Brain {
    pub(crate) engine: RecordedEngine,
    pub(crate) seats: Seats,
    pub(crate) agenda: ContractSchedule,
}

/// What a volume brings when it joins: it was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joins {
    pub(crate) contract: Contract,
    pub(crate) span: Span,
    pub(crate) declared: Option<RateContract>,
    pub(crate) priority: Priority,
}

impl Joins {
    /// A volume of the config.
    pub(crate) fn of(volume: &config::Volume) -> Self {
        let &config::Volume { contract, declared, priority, .. } = volume;
        Self { contract, span: volume.span(), declared, priority }
    }
}

impl Brain {
    /// A volume joins.
    pub(crate) fn join(&mut self, export: ExportId, joins: Joins, now: Instant) -> VolumeId {
        let Joins { contract, span, declared, priority } = joins;
        let none = Contract { stream: None, ..contract };
        let id = self.engine.add_volume(none, now).expect("the config has room");
        let contract = self.agenda.schedule(id, contract, span, now);
        if contract != none {
            self.engine.handle(Event::ContractChanged { volume: id, contract }, now);
        }
        self.engine.set_priority(id, priority, now);
        self.seats.add(id, export, declared);
        id
    }

    /// No stream releases anything any more. What waits for room beside them, which there may never have been, has it then:
    /// else a stop would wait for it for ever.
    fn release(&mut self, now: Instant) {
        for volume in self.seats.numbers() {
            self.agenda.remove(volume);
            let contract = self.engine.contract(volume);
            if contract.stream.is_some() {
                let contract = Contract { stream: None, ..contract };
                self.engine.handle(Event::ContractChanged { volume, contract }, now);
            }
        }
    }

    /// A volume is promised something else. Its priority stays.
    fn promise(&mut self, volume: VolumeId, joins: Joins, now: Instant) {
        let Joins { contract, span, declared, .. } = joins;
        self.seats.declare(volume, declared);
        let contract = self.agenda.schedule(volume, contract, span, now);
        self.engine.handle(Event::ContractChanged { volume, contract }, now);
    }
}

/// What a disk's thread has to do with others.
pub(crate) struct Fittings {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) handle: Handle,
    /// The pool that the disk belongs to, if it does.
    pub(crate) pool: Option<Arc<Served>>,
    pub(crate) observer: Observer,
}

/// What rings when something can be reaped, and who answers it.
enum Bell {
    /// The disk has none.
    None,
    /// Whoever brings requests.
    Theirs(Arc<OwnedFd>),
    /// The disk's own thread.
    Ours(Arc<OwnedFd>),
}

/// Everything that belongs to one disk, and to whoever drives it at the moment.
pub(crate) struct DiskThread {
    name: String,
    clock: Clock,
    brain: Brain,
    disk: HealthMonitor,
    /// Whether a command is done when the disk has taken it.
    prompt: bool,
    bell: Bell,
    inbox: Arc<Inbox>,
    /// Until when the disk's thread sleeps, unless it is woken.
    wakes_at: Instant,
    handle: Handle,
    pending: Vec<Option<Pending>>,
    free: Vec<u64>,
    /// Commands at the disk.
    running: Vec<Command>,
    replies: Vec<Reply>,
    /// The pool that the disk belongs to, if it does.
    pool: Option<Arc<Served>>,
    /// What of the pool's has ended and is not told yet.
    ended: Vec<Ended>,
    observer: Observer,
    lateness: Lateness,
    /// Whether the engine sent the arm just in time when last looked at.
    trusted: bool,
    /// What the disk was good for when last looked at.
    state: backend::HealthState,
    /// Time without a command at the disk, up to when it had its last first one.
    idle: TimeSum,
    /// Since when there is none, if there is none.
    idle_since: Instant,
    stopping: bool,
}

impl DiskThread {
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn new(
        name: String,
        clock: Clock,
        brain: Brain,
        mut disk: HealthMonitor,
        Fittings { inbox, handle, pool, observer }: Fittings,
    ) -> io::Result<Self> {
        // A pool's requests come through the inbox, and the disk's thread is awake for them anyway.
        let bell = match disk.completion_fd().map(|bell| bell.try_clone_to_owned()).transpose()? {
            None => Bell::None,
            Some(bell) if pool.is_none() => Bell::Theirs(Arc::new(bell)),
            Some(bell) => Bell::Ours(Arc::new(bell)),
        };
        let trusted = brain.engine.preemption_stats().is_some_and(|executed| executed.jit_enabled);
        let woken = Arc::clone(&inbox);
        disk.set_waker(Arc::new(move || woken.nudge()));
        Ok(Self {
            name,
            clock,
            brain,
            prompt: disk.completes_synchronously(),
            bell,
            disk,
            inbox,
            wakes_at: Instant::ZERO,
            handle,
            pending: Vec::new(),
            free: Vec::new(),
            running: Vec::new(),
            replies: Vec::new(),
            pool,
            ended: Vec::new(),
            observer,
            lateness: Lateness::default(),
            trusted,
            state: backend::HealthState::Healthy,
            idle: TimeSum::default(),
            idle_since: Instant::ZERO,
            stopping: false,
        })
    }

    /// Whether it is driven by whoever brings its requests.
    pub(crate) const fn is_driven_here(&self) -> bool {
        self.prompt || matches!(self.bell, Bell::Theirs(_))
    }

    /// What whoever brings requests is to listen to.
    pub(crate) fn bell(&self) -> Option<io::Result<OwnedFd>> {
        match &self.bell {
            Bell::Theirs(bell) => Some(bell.try_clone()),
            Bell::None | Bell::Ours(_) => None,
        }
    }

    /// Goes on with what has ended, on the thread that answers the bell.
    pub(crate) fn look(&mut self, answered: &mut Vec<Reply>) {
        if self.disk.has_completions() {
            self.carry_out(&mut Vec::new(), answered);
        }
    }

    /// The disk's own thread: serves until told to stop and nothing is left to answer.
    pub(crate) fn run(disk: &Mutex<Self>) -> DiskView {
        // A drive's completions are worth their microseconds; the kernel would round our sleeps up by 50 of them.
        // Without the privilege to say so they are merely later, and the lateness says by how much.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let inbox = lock(disk).inbox.clone();
        let (mut messages, mut margin) = (Vec::new(), WakeupMargin::default());
        loop {
            let rest = lock(disk).rest();
            rest.keep(&inbox, &mut margin, &mut messages);
            let disk = &mut *lock(disk);
            let now = disk.turn(&mut messages);
            disk.handle.reply_many(&mut disk.replies);
            disk.end_turn(now);
            disk.tell_of_trust();
            disk.tell_of_state();
            if disk.stopping && disk.brain.engine.requests() == 0 {
                disk.brain.engine.close();
                return disk.view(Look::All, now);
            }
        }
    }

    /// Carries messages out on the thread that brings them; leaves the vector empty.
    pub(crate) fn carry_out(&mut self, messages: &mut Vec<Message>, answered: &mut Vec<Reply>) {
        let now = self.turn(messages);
        answered.append(&mut self.replies);
        self.end_turn(now);
        // What is not answered yet has its time, and the disk's thread sees to it.
        if let Some(due) = self.due().filter(|due| *due < self.wakes_at) {
            self.wakes_at = due;
            self.inbox.nudge();
        }
    }

    /// Tells those who wait for more than an answer.
    fn end_turn(&mut self, now: Instant) {
        if let Some(pool) = &self.pool {
            pool.ended(&mut self.ended);
        }
        let (clock, seats) = (self.clock, &mut self.brain.seats);
        self.observer.handed_over(|| clock.now(), |volume| seats.slow(volume));
        self.brain.engine.keep(now);
    }

    /// Receives, and does what can be done now.
    fn turn(&mut self, messages: &mut Vec<Message>) -> Instant {
        let mut now = self.clock.now();
        self.observer.look(&self.running, now);
        for message in messages.drain(..) {
            self.receive(message, now);
        }
        self.reap(now);
        while let Some((volume, stream)) = self.brain.agenda.take_due(now) {
            let contract = Contract { stream, ..self.brain.engine.contract(volume) };
            self.brain.engine.handle(Event::ContractChanged { volume, contract }, now);
        }
        while let Some(action) = self.brain.engine.poll(now) {
            let issues = matches!(action, Action::Issue(_));
            self.act(action, now);
            if issues && self.prompt {
                // What the command took is its volume's disk time.
                now = self.clock.now();
                self.reap(now);
            }
        }
        self.disk.start();
        self.observer.rests(&self.brain.engine, now);
        now
    }

    fn reap(&mut self, now: Instant) {
        while let Some(finished) = self.disk.reap(now) {
            self.finish(finished, now);
        }
    }

    /// Says when just-in-time seeks are given up or taken up again: what clients see of the disk changes with it.
    fn tell_of_trust(&mut self) {
        let Some(executed) = self.brain.engine.preemption_stats() else { return };
        if executed.jit_enabled == core::mem::replace(&mut self.trusted, executed.jit_enabled) {
            return;
        }
        let (name, missed, timed) = (&self.name, executed.missed, executed.jit_transfers);
        if executed.jit_enabled {
            eprintln!("disk {name}: just-in-time seeks are on again: predictions come true");
        } else {
            eprintln!(
                "disk {name}: just-in-time seeks and seek splitting are off until predictions come true: of {timed} \
                 arrivals foretold, {missed} were missed"
            );
        }
    }

    /// Says once when the disk fails for good.
    fn tell_of_state(&mut self) {
        let state = self.disk.state();
        if state == core::mem::replace(&mut self.state, state) {
            return;
        }
        let name = &self.name;
        match state {
            backend::HealthState::Healthy => eprintln!("disk {name}: it is open again"),
            backend::HealthState::Poisoned => eprintln!(
                "disk {name}: a flush failed, and something written before may be lost: its volumes are only read until it \
                 is opened again"
            ),
            backend::HealthState::Offline => eprintln!(
                "disk {name}: it is gone: everything asked of its volumes fails until it is opened again"
            ),
        }
    }

    /// When there is something to do though nothing comes.
    fn due(&self) -> Option<Instant> {
        let moments = [
            self.disk.next_event(),
            self.brain.engine.next_wakeup(),
            self.brain.agenda.next_change(),
        ];
        moments.into_iter().flatten().min()
    }

    /// Until when there is nothing to do, and what else is listened to meanwhile.
    fn rest(&mut self) -> Rest {
        let (now, due) = (self.clock.now(), self.due());
        let until = now + due.map_or(SLEEP_MAX, |due| due.saturating_since(now).min(SLEEP_MAX));
        self.wakes_at = until;
        let bell = match &self.bell {
            Bell::Ours(bell) => Some(bell.clone()),
            Bell::None | Bell::Theirs(_) => None,
        };
        // What a real drive has done, its bell tells; what a prompt one is asked for later is due to limits, not to an arm.
        let is_watched = matches!(self.bell, Bell::None) && !self.prompt && due == Some(until);
        Rest { clock: self.clock, until, bell, is_watched }
    }

    fn receive(&mut self, message: Message, now: Instant) {
        match message {
            Message::Request(incoming) => self.submit(incoming, now),
            Message::Portion(portion) => self.take(portion, now),
            Message::Ask(id, extent) => {
                let result = Ok(self.segments(extent));
                self.handle.reply_block_status(BlockStatusReply { id, result });
            }
            // Who asked may have gone; then nobody wants to know.
            Message::Look(look, to) => drop(to.try_send(self.view(look, now))),
            Message::Change(change, to) => self.change(change, to, now),
            Message::Reopen(reopening) => self.disk.reopen(reopening),
            Message::Close => self.brain.release(now),
            Message::Alone => {
                if let Bell::Theirs(bell) = &self.bell {
                    self.bell = Bell::Ours(bell.clone());
                }
            }
            Message::Stop => self.stopping = true,
        }
    }

    /// Which sectors hold data, as far as one answer holds it.
    fn segments(&mut self, extent: Extent) -> Vec<Segment> {
        let (mut segments, mut rest) = (Vec::new(), extent);
        while !rest.is_empty() && segments.len() < STATUS_SEGMENTS_MAX {
            let Some((space, len)) = self.disk.allocation(rest) else { break };
            let allocation = match space {
                backend::Allocation::Data => Allocation::Data,
                backend::Allocation::Hole => Allocation::Hole,
            };
            segments.push(Segment { len, allocation });
            rest = rest.split_at(len).1;
        }
        segments
    }

    fn submit(&mut self, incoming: Incoming, now: Instant) {
        let Incoming { id, asked, volume, operation, data, no_hole } = incoming;
        self.brain.seats.seen(volume, operation.extent);
        let (asker, failure) = (Asker::Client(id), None);
        let pending = Pending { asker, operation, data, no_hole, failure, arrived: now };
        self.enter(volume, pending, Some(asked), now);
    }

    /// A pool's part of a request, or something of its own.
    fn take(&mut self, portion: Portion, now: Instant) {
        let Portion { piece, client, volume, operation, data, no_hole } = portion;
        if client {
            self.brain.seats.seen(volume, operation.extent);
        }
        let (asker, failure) = (Asker::Pool { piece, client }, None);
        let pending = Pending { asker, operation, data, no_hole, failure, arrived: now };
        self.enter(volume, pending, None, now);
    }

    fn enter(&mut self, volume: VolumeId, pending: Pending, asked: Option<Instant>, now: Instant) {
        let (operation, id) = (pending.operation, pending.asker.traced());
        self.brain.seats.asked(volume, now);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() as u64 - 1
        });
        self.pending[index(slot)] = Some(pending);
        let export = self.brain.seats.export(volume).expect("it is asked for");
        self.observer.entered(Entered { slot, id, export, operation, asked }, now);
        let id = engine::RequestId(slot);
        self.brain.engine.handle(Event::Submit(Request { id, volume, operation }), now);
    }

    /// Carries out a change, and says so: at once, or when what it takes of the disk is done.
    fn change(&mut self, change: Change, to: SyncSender<Changed>, now: Instant) {
        let volume = match change {
            Change::Add { export, joins } => self.brain.join(export, joins, now),
            Change::Contract { volume, joins } => {
                self.brain.promise(volume, joins, now);
                volume
            }
            Change::Period { period, batch } => {
                self.brain.engine.handle(Event::PeriodChanged { period, batch }, now);
                VolumeId::default()
            }
            Change::Erase { volume, extent } => {
                let operation = Operation { op: Op::Trim, extent, fua: true };
                let (asker, data) = (Asker::Operator(to), Vec::new());
                let (no_hole, failure) = (false, None);
                let pending = Pending { asker, operation, data, no_hole, failure, arrived: now };
                return self.enter(volume, pending, None, now);
            }
            Change::Drain { volume } => return self.brain.seats.drain(volume, to),
            Change::Remove { volume } => {
                self.brain.seats.remove(volume);
                self.brain.agenda.remove(volume);
                self.brain.engine.handle(Event::VolumeRemoved { volume }, now);
                volume
            }
        };
        // Who asked may have gone.
        let _ = to.try_send(Ok(volume));
    }

    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Issue(command) => {
                let pending = self.pending[index(command.request.0)].as_mut();
                let pending = pending.expect("the engine knows only pending ones");
                let (data, no_hole) = (payload(pending, &command), pending.no_hole);
                let (tag, operation) = (Tag(command.id.0), command.operation);
                if self.running.is_empty() {
                    self.idle = self.idle(now);
                }
                self.running.push(command);
                self.observer.issued(&command, now);
                self.disk.submit(Job { tag, operation, data, no_hole }, now);
            }
            Action::Reply(reply) => self.answer(reply, now),
        }
    }

    fn finish(&mut self, finished: Completion, now: Instant) {
        if let Some(late) = finished.delay {
            self.lateness.record(late);
        }
        let id = CommandId(finished.tag.0);
        let place = self.running.iter().position(|command| command.id == id);
        let command = self.running.swap_remove(place.expect("a finished job was submitted"));
        if self.running.is_empty() {
            self.idle_since = now;
        }
        let told = (self.disk.parts(), finished.delay.unwrap_or_default());
        self.observer.completed(&command, told, now);
        let pending = self.pending[index(command.request.0)].as_mut().expect("it is pending");
        let outcome = match finished.result {
            Ok(data) => {
                collect(pending, &command, data);
                Outcome::Done
            }
            Err(failure) => {
                pending.failure = Some(failure);
                Outcome::Failed
            }
        };
        self.brain.engine.handle(Event::Completed { command: id, outcome }, now);
    }

    fn answer(&mut self, reply: engine::Reply, now: Instant) {
        let (slot, volume) = (reply.request.0, reply.volume);
        let pending = self.pending[index(slot)].take().expect("a request is answered once");
        self.free.push(slot);
        let (engine, seats) = (&self.brain.engine, &self.brain.seats);
        let failed = pending.failure.is_some();
        self.observer.answered((slot, failed), (engine, |id| seats.export(id)), volume, now);
        let answered = Answered {
            operation: pending.operation,
            latency: now.since(pending.arrived),
            waiting: reply.waited,
            // Who estimates nothing is never off.
            estimate_error: (reply.estimate > DiskTime::ZERO)
                .then(|| (reply.disk_time - reply.estimate).as_nanos().unsigned_abs())
                .map(Duration::from_nanos),
            failed,
            client: matches!(pending.asker, Asker::Client(_) | Asker::Pool { client: true, .. }),
        };
        match pending.asker {
            Asker::Client(id) => {
                let result = match pending.failure {
                    None => Ok(pending.data),
                    Some(Failure::Io | Failure::Offline) => Err(Errno::Io),
                    Some(Failure::NoSpace) => Err(Errno::NoSpc),
                };
                self.replies.push(Reply { id, result });
                self.brain.seats.answered(volume, &answered, now);
            }
            Asker::Pool { piece, .. } => {
                self.brain.seats.answered(volume, &answered, now);
                let result = pending.failure.map_or(Ok(pending.data), Err);
                self.ended.push(Ended { piece, result });
            }
            Asker::Operator(to) => {
                self.brain.seats.answered(volume, &answered, now);
                // Who asked may have gone.
                let _ = to.try_send(pending.failure.map_or(Ok(volume), Err));
            }
        }
    }

    fn view(&mut self, look: Look, now: Instant) -> DiskView {
        let volumes = self.brain.seats.view(&mut self.brain.engine, look, now);
        DiskView {
            at: now,
            busy: self.brain.engine.busy(),
            slack: self.brain.engine.total_slack(),
            lateness: self.lateness.clone(),
            traffic: self.brain.seats.traffic(now),
            idle: if self.running.is_empty() { self.idle(now) } else { self.idle },
            times: self.disk.times(),
            health: self.disk.health(now),
            access: self.disk.io_method(),
            executed: self.brain.engine.preemption_stats(),
            stream_slack: self.brain.engine.static_slack(),
            recorded: self.brain.engine.records(),
            volumes,
        }
    }

    /// Time without a command, up to `now`, at which there is none.
    fn idle(&self, now: Instant) -> TimeSum {
        let mut idle = self.idle;
        idle += now.since(self.idle_since);
        idle
    }
}
