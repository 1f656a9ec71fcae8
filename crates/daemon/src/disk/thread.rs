//! A disk's thread: the loop between its engine and its backend.
//!
//! Invariants: the engine sees time that never goes back; a command is in flight from the
//! backend's `submit` to its completion; a request is answered exactly once, after the last of its
//! commands.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};

use backend::{Completion, Disk, Failure, HealthMonitor};
use config::DiskIndex;
use engine::{Action, Command, CommandId, Event, Purpose, Request, VolumeId};
use host::{Clock, WakeupMargin};
use nbd::limits::STATUS_SEGMENTS_MAX;
use nbd::{Allocation, BlockStatusReply, Errno, Handle, Reply, Segment};
use units::{DiskTime, Duration, Extent, Instant, Op, Operation};

use super::idle::IdleWait;
use super::inbox::Inbox;
use super::message::{Change, Message, StatsDetail};
use super::read_ahead::HostReadAhead;
use super::request::{Changed, DiskRequest, GatherBuffers, OpenRequest, Origin, lay_over};
use super::scheduler::DiskScheduler;
use super::write_buffer::HostWriteBuffer;
use crate::observe::observer::{Entered, Observer};
use crate::observe::status::{DiskSnapshot, Lateness};
use crate::observe::traffic::{Answered, TimeSum};
use crate::pool::piece::PieceDone;
use crate::pool::service::PoolService;
use crate::slots::Slots;

mod read_ahead;
mod slow;
mod transfer;
mod write_buffer;

/// The longest sleep of a disk's thread without work.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What connects a disk's thread with the rest of the daemon.
pub(crate) struct DiskThreadDeps {
    pub(crate) inbox: Arc<Inbox>,
    /// Takes replies to the clients.
    pub(crate) handle: Handle,
    /// The pool that the disk belongs to, if it belongs to one.
    pub(crate) pool: Option<Arc<PoolService>>,
    pub(crate) observer: Observer,
}

/// The thread that polls the backend's completion file and handles completions.
enum CompletionOwner {
    /// None: the backend has no such file.
    None,
    /// The server's threads, which submit the requests.
    Submitter(Arc<OwnedFd>),
    /// The disk's own thread.
    DiskThread(Arc<OwnedFd>),
}

/// The state of one disk, owned by the thread that drives it at the moment.
pub(crate) struct DiskThread {
    index: DiskIndex,
    name: String,
    clock: Clock,
    scheduler: DiskScheduler,
    disk: HealthMonitor,
    /// Whether the backend completes a command within `submit`.
    is_synchronous: bool,
    completion_owner: CompletionOwner,
    inbox: Arc<Inbox>,
    /// When the disk's thread wakes, unless it is woken earlier.
    wakes_at: Instant,
    handle: Handle,
    /// The requests in progress. A slot's number is the request's number in the engine.
    requests: Slots<OpenRequest>,
    in_flight: Vec<Command>,
    gathered: GatherBuffers,
    /// Replies that are not handed to the server yet.
    replies: Vec<Reply>,
    pool: Option<Arc<PoolService>>,
    /// Completed pieces of the pool's requests that are not handed to the pool yet.
    pieces_done: Vec<PieceDone>,
    observer: Observer,
    lateness: Lateness,
    /// Whether the engine used just-in-time seeks when this was last reported.
    jit_enabled: bool,
    /// The disk's state when it was last reported.
    state: backend::HealthState,
    /// The disk is slow, and until then the pool is not asked again whether it can do without.
    slow_until: Option<Instant>,
    /// Time without a command in flight, up to `idle_since` if none is in flight now.
    idle: TimeSum,
    /// When the last command completed.
    idle_since: Instant,
    stopping: bool,
}

/// Locks a disk for the calling thread to drive.
pub(crate) fn lock(disk: &Mutex<DiskThread>) -> MutexGuard<'_, DiskThread> {
    disk.lock().expect("no thread panics while it drives a disk")
}

impl DiskThread {
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn new(
        (index, name): (DiskIndex, String),
        clock: Clock,
        scheduler: DiskScheduler,
        mut disk: HealthMonitor,
        DiskThreadDeps { inbox, handle, pool, observer }: DiskThreadDeps,
    ) -> io::Result<Self> {
        // A pool's requests come through the inbox, so the disk's thread is awake for them anyway.
        let fd = disk.completion_fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
        let completion_owner = match fd {
            None => CompletionOwner::None,
            Some(fd) if pool.is_none() => CompletionOwner::Submitter(Arc::new(fd)),
            Some(fd) => CompletionOwner::DiskThread(Arc::new(fd)),
        };
        let jit_enabled =
            scheduler.engine.preemption_stats().is_some_and(|executed| executed.jit_enabled);
        let woken = Arc::clone(&inbox);
        disk.set_waker(Arc::new(move || woken.wake()));
        Ok(Self {
            index,
            name,
            clock,
            scheduler,
            is_synchronous: disk.completes_synchronously(),
            completion_owner,
            disk,
            inbox,
            wakes_at: Instant::ZERO,
            handle,
            requests: Slots::default(),
            in_flight: Vec::new(),
            gathered: GatherBuffers::default(),
            replies: Vec::new(),
            pool,
            pieces_done: Vec::new(),
            observer,
            lateness: Lateness::default(),
            jit_enabled,
            state: backend::HealthState::Healthy,
            slow_until: None,
            idle: TimeSum::default(),
            idle_since: Instant::ZERO,
            stopping: false,
        })
    }

    /// Whether the threads that submit its requests drive it.
    pub(crate) const fn is_inline(&self) -> bool {
        self.is_synchronous || matches!(self.completion_owner, CompletionOwner::Submitter(_))
    }

    /// The file that the submitting threads poll for completions.
    pub(crate) fn completion_fd(&self) -> Option<io::Result<OwnedFd>> {
        match &self.completion_owner {
            CompletionOwner::Submitter(fd) => Some(fd.try_clone()),
            CompletionOwner::None | CompletionOwner::DiskThread(_) => None,
        }
    }

    /// Handles completions on a submitting thread.
    pub(crate) fn poll_completions(&mut self, replies: &mut Vec<Reply>) {
        if self.disk.has_completions() {
            self.run_inline(&mut Vec::new(), replies);
        }
    }

    /// The body of the disk's own thread: serves until it is told to stop and every request is
    /// answered.
    pub(crate) fn run(disk: &Mutex<Self>) -> DiskSnapshot {
        // The kernel rounds sleeps up by 50 us otherwise, a visible part of a drive's service time.
        // Without the privilege, completions are noticed later, and the lateness says by how much.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let inbox = lock(disk).inbox.clone();
        let (mut messages, mut margin) = (Vec::new(), WakeupMargin::default());
        loop {
            let wait = lock(disk).idle_wait();
            wait.run(&inbox, &mut margin, &mut messages);
            let disk = &mut *lock(disk);
            let now = disk.run_once(&mut messages);
            disk.give_up_if_slow(now);
            disk.handle.reply_many(&mut disk.replies);
            disk.finish_iteration(now);
            disk.report_jit_change();
            disk.report_state_change();
            if disk.stopping && disk.scheduler.is_idle() {
                assert_eq!(disk.requests.len(), 0, "a disk stops when all requests are answered");
                disk.scheduler.engine.close();
                return disk.snapshot(StatsDetail::All, now);
            }
        }
    }

    /// Handles messages on a submitting thread; leaves the vector empty.
    pub(crate) fn run_inline(&mut self, messages: &mut Vec<Message>, replies: &mut Vec<Reply>) {
        let now = self.run_once(messages);
        replies.append(&mut self.replies);
        self.finish_iteration(now);
        // What is due later is the disk's thread's work, which may have to wake earlier for it.
        if let Some(due) = self.next_event().filter(|due| *due < self.wakes_at) {
            self.wakes_at = due;
            self.inbox.wake();
        }
    }

    /// Hands the iteration's results to the pool, the observer and the flight record.
    fn finish_iteration(&mut self, now: Instant) {
        if let Some(pool) = &self.pool {
            // What the disk has answered since it lost something is not taken.
            let buffer = self.scheduler.write_buffer.as_mut();
            for volume in buffer.map_or_else(Vec::new, HostWriteBuffer::take_losses) {
                pool.copy_lost(self.index, volume);
            }
            pool.pieces_done(&mut self.pieces_done);
        }
        debug_assert!(self.pieces_done.is_empty(), "the pool takes all pieces");
        let (clock, volumes) = (self.clock, &mut self.scheduler.volumes);
        self.observer.handed_over(|| clock.now(), |volume| volumes.record_slow(volume));
        self.scheduler.volumes.sample_demand(&self.scheduler.engine, now);
        self.scheduler.engine.keep(now);
    }

    /// One iteration: handles messages and completions, then carries out the engine's decisions.
    fn run_once(&mut self, messages: &mut Vec<Message>) -> Instant {
        let mut now = self.clock.now();
        self.observer.update_enabled(&self.in_flight, now);
        for message in messages.drain(..) {
            self.handle_message(message, now);
        }
        self.reap(now);
        self.scheduler.apply_due_contracts(now);
        loop {
            self.read_ahead(now);
            self.write_buffer(now);
            let Some(action) = self.scheduler.engine.poll(now) else { break };
            let issues = matches!(action, Action::Issue(_));
            self.carry_out(action, now);
            if issues && self.is_synchronous {
                // The time that the command took is its volume's disk time.
                now = self.clock.now();
                self.reap(now);
            }
        }
        self.disk.start();
        self.observer.decided(&self.scheduler.engine, now);
        now
    }

    fn reap(&mut self, now: Instant) {
        while let Some(completion) = self.disk.reap(now) {
            self.complete(completion, now);
        }
    }

    /// Reports when just-in-time seeks are disabled or enabled again: clients see the difference.
    fn report_jit_change(&mut self) {
        let Some(executed) = self.scheduler.engine.preemption_stats() else { return };
        if executed.jit_enabled == core::mem::replace(&mut self.jit_enabled, executed.jit_enabled) {
            return;
        }
        let (name, missed, timed) = (&self.name, executed.missed, executed.jit_transfers);
        if executed.jit_enabled {
            eprintln!("disk {name}: just-in-time seeks are on again: predictions are accurate");
        } else {
            eprintln!(
                "disk {name}: just-in-time seeks and seek splitting are off until predictions are \
                 accurate: of {timed} predicted arrivals, {missed} were missed"
            );
        }
    }

    /// Reports once when the disk changes its state.
    fn report_state_change(&mut self) {
        let state = self.disk.state();
        if state == core::mem::replace(&mut self.state, state) {
            return;
        }
        if state != backend::HealthState::Healthy
            && let Some(pool) = &self.pool
        {
            pool.disk_failed(self.index);
        }
        let name = &self.name;
        match state {
            backend::HealthState::Healthy => eprintln!("disk {name}: it is open again"),
            backend::HealthState::Poisoned => eprintln!(
                "disk {name}: a flush failed, and data written before may be lost: its volumes are \
                 read-only until it is reopened"
            ),
            backend::HealthState::Offline => eprintln!(
                "disk {name}: it is gone: all requests to its volumes fail until it is reopened"
            ),
        }
    }

    /// The next instant at which there is work without a message.
    fn next_event(&self) -> Option<Instant> {
        let DiskScheduler { engine, schedule, write_buffer, .. } = &self.scheduler;
        let destage = write_buffer.as_ref().and_then(HostWriteBuffer::next_wakeup);
        let own = [self.disk.next_event(), destage];
        let instants = [engine.next_wakeup(), schedule.next_change()].into_iter().chain(own);
        instants.flatten().min()
    }

    /// The wait until the next event.
    fn idle_wait(&mut self) -> IdleWait {
        let (now, due) = (self.clock.now(), self.next_event());
        let until = now + due.map_or(SLEEP_MAX, |due| due.saturating_since(now).min(SLEEP_MAX));
        self.wakes_at = until;
        let completion_fd = match &self.completion_owner {
            CompletionOwner::DiskThread(fd) => Some(fd.clone()),
            CompletionOwner::None | CompletionOwner::Submitter(_) => None,
        };
        // Only an emulated drive's events need precision: a real disk's completions come through
        // its file, and a synchronous disk's later events are rate limits, not arrivals of a head.
        let is_emulated =
            matches!(self.completion_owner, CompletionOwner::None) && !self.is_synchronous;
        let is_precise = is_emulated && due == Some(until);
        IdleWait { clock: self.clock, until, completion_fd, is_precise }
    }

    fn handle_message(&mut self, message: Message, now: Instant) {
        match message {
            Message::Request(request) => {
                if request.origin.is_client() {
                    let extent = request.operation.extent;
                    self.scheduler.volumes.record_access(request.volume, extent);
                }
                self.submit(request, now);
            }
            Message::BlockStatus(id, extent) => {
                let result = Ok(self.block_status(extent));
                self.handle.reply_block_status(BlockStatusReply { id, result });
            }
            // The receiver may have stopped waiting.
            Message::Query(detail, to) => drop(to.try_send(self.snapshot(detail, now))),
            Message::Change(change, to) => self.change(change, to, now),
            Message::Reopen(reopening) => {
                self.scheduler.read_ahead.iter_mut().for_each(HostReadAhead::clear);
                self.disk.reopen(reopening);
            }
            Message::CancelStreams => self.scheduler.cancel_streams(now),
            Message::TakeOverCompletions => {
                if let CompletionOwner::Submitter(fd) = &self.completion_owner {
                    self.completion_owner = CompletionOwner::DiskThread(fd.clone());
                }
            }
            Message::Stop => {
                self.scheduler.stop(now);
                self.stopping = true;
            }
        }
    }

    /// Which sectors hold data, in as many segments as one reply holds.
    fn block_status(&mut self, extent: Extent) -> Vec<Segment> {
        let (mut segments, mut rest) = (Vec::new(), extent);
        while !rest.is_empty() && segments.len() < STATUS_SEGMENTS_MAX {
            let Some((space, len)) = self.disk.allocation(rest) else { break };
            let allocation = match space {
                backend::Allocation::Data => Allocation::Data,
                backend::Allocation::Hole if self.is_buffered(rest.split_at(len).0) => {
                    Allocation::Data
                }
                backend::Allocation::Hole => Allocation::Hole,
            };
            segments.push(Segment { len, allocation });
            rest = rest.split_at(len).1;
        }
        segments
    }

    /// Whether something of these sectors is in a write buffer.
    fn is_buffered(&self, extent: Extent) -> bool {
        self.scheduler.write_buffer.as_ref().is_some_and(|buffer| buffer.is_dirty(extent))
    }

    /// Gives a request to the write buffer, or to the engine.
    fn submit(&mut self, request: DiskRequest, now: Instant) {
        let DiskRequest { volume, operation, received, within, .. } = request;
        let traced = request.origin.traced();
        self.scheduler.volumes.record_arrival(volume, now);
        if request.origin.is_client() {
            self.scheduler.volumes.record_outside(volume, &operation, now);
        }
        let slot = self.requests.insert(OpenRequest::new(request, now));
        let export = self.scheduler.volumes.export(volume);
        let export = export.expect("a request is for an attached volume");
        let entered = Entered { slot, id: traced, export, operation, received };
        self.observer.entered(entered, now);
        let id = engine::RequestId(slot);
        self.serve(Request { id, volume, operation }, within, now);
    }

    /// Carries out a change. It is answered at once, or when the disk has done its part.
    fn change(&mut self, change: Change, to: SyncSender<Changed>, now: Instant) {
        let volume = match change {
            Change::Attach { export, terms } => self.scheduler.attach(export, &terms, now),
            Change::SetTerms { volume, terms } => {
                self.scheduler.set_terms(volume, &terms, now);
                volume
            }
            Change::SetPeriod { period, batch } => {
                self.scheduler.engine.handle(Event::PeriodChanged { period, batch }, now);
                VolumeId::default()
            }
            Change::Erase { volume, extent } => {
                let operation = Operation { op: Op::Trim, extent, fua: true };
                let (origin, data) = (Origin::Operator(to), Vec::new());
                let (no_hole, received, within) = (false, None, None);
                let request =
                    DiskRequest { origin, volume, operation, data, no_hole, received, within };
                return self.submit(request, now);
            }
            Change::Drain { volume } => return self.scheduler.drain(volume, to),
            Change::Detach { volume } => {
                self.scheduler.detach(volume, now);
                volume
            }
        };
        // The receiver may have stopped waiting.
        let _ = to.try_send(Ok(volume));
    }

    /// Carries out one decision of the engine.
    fn carry_out(&mut self, action: Action, now: Instant) {
        match action {
            Action::Issue(command) => {
                self.note_prefetch(&command);
                let job = self.job(&command);
                if self.in_flight.is_empty() {
                    self.idle = self.idle_until(now);
                }
                self.in_flight.push(command);
                self.observer.issued(&command, self.scheduler.engine.command_pieces(&command), now);
                self.start_job(job, now);
            }
            Action::Reply(reply) => self.replied(reply, now),
        }
    }

    /// Passes a completion on to the engine.
    fn complete(&mut self, completion: Completion, now: Instant) {
        if let Some(late) = completion.delay {
            self.lateness.record(late);
        }
        let id = CommandId(completion.tag.0);
        let place = self.in_flight.iter().position(|command| command.id == id);
        let place = place.expect("a command completes once, and only if it is in flight");
        let command = self.in_flight.swap_remove(place);
        if self.in_flight.is_empty() {
            self.idle_since = now;
        }
        let reported = (self.disk.parts(), completion.delay.unwrap_or_default());
        let pieces = self.scheduler.engine.command_pieces(&command);
        self.observer.completed(&command, pieces, reported, now);
        let outcome = match command.purpose {
            Purpose::Prefetch => self.prefetched(completion.into_bytes(), now),
            Purpose::Transfer | Purpose::Seek => self.store(&command, completion),
        };
        self.note_read_ahead(&command, outcome);
        self.scheduler.engine.handle(Event::Completed { command: id, outcome }, now);
    }

    /// Answers a request that the engine has completion.
    fn answer(&mut self, reply: engine::Reply, now: Instant) {
        let (slot, volume) = (reply.request.0, reply.volume);
        let OpenRequest { mut request, failure, arrived, overlays } = self.requests.remove(slot);
        lay_over(&mut request, overlays);
        assert_eq!(request.volume, volume, "the engine answers the volume that asked");
        let (engine, volumes) = (&self.scheduler.engine, &self.scheduler.volumes);
        let failed = failure.is_some();
        self.observer.answered((slot, failed), (engine, |id| volumes.export(id)), volume, now);
        let answered = Answered {
            operation: request.operation,
            latency: now.since(arrived),
            waiting: reply.waited,
            // A policy without estimates reports zero, which is no error.
            estimate_error: (reply.estimate > DiskTime::ZERO)
                .then(|| (reply.disk_time - reply.estimate).as_nanos().unsigned_abs())
                .map(Duration::from_nanos),
            failed,
            client: request.origin.is_client(),
        };
        self.scheduler.volumes.record_answer(volume, &answered, now);
        match request.origin {
            Origin::Client(id) => {
                let result = match failure {
                    None => Ok(request.data),
                    Some(Failure::Io | Failure::Offline) => Err(Errno::Io),
                    Some(Failure::NoSpace) => Err(Errno::NoSpc),
                };
                self.replies.push(Reply { id, result });
            }
            Origin::Pool { piece, read_data, .. } => {
                let result = failure.map_or(Ok(request.data), Err);
                self.pieces_done.push(PieceDone::new(piece, read_data, result));
            }
            Origin::Operator(to) => {
                // The receiver may have stopped waiting.
                let _ = to.try_send(failure.map_or(Ok(volume), Err));
            }
            Origin::ReadAhead(_) | Origin::Destage(_) => unreachable!("no client waits for it"),
        }
    }

    /// The disk's statistics.
    fn snapshot(&mut self, detail: StatsDetail, now: Instant) -> DiskSnapshot {
        let DiskScheduler { engine, volumes, read_ahead, write_buffer, .. } = &mut self.scheduler;
        let host = (read_ahead.as_ref(), write_buffer.as_ref());
        let of_volumes = volumes.snapshot(engine, host, detail, now);
        let write_buffer = write_buffer.as_ref().map(HostWriteBuffer::status);
        let read_ahead = read_ahead.as_ref().map(HostReadAhead::status);
        let traffic = volumes.traffic(now);
        debug_assert_eq!(traffic.open, self.requests.len() as u64, "each open request is counted");
        DiskSnapshot {
            at: now,
            busy: engine.busy(),
            slack: engine.total_slack(),
            lateness: self.lateness.clone(),
            traffic,
            idle: if self.in_flight.is_empty() { self.idle_until(now) } else { self.idle },
            times: self.disk.times(),
            health: self.disk.health(now),
            access: self.disk.io_method(),
            write_cache: self.disk.write_cache(),
            executed: self.scheduler.engine.preemption_stats(),
            seeks_ahead: self.scheduler.engine.seeks_ahead(),
            stream_slack: self.scheduler.engine.static_slack(),
            recorded: self.scheduler.engine.records(),
            chooser: self.scheduler.engine.chooser(),
            read_ahead,
            write_buffer,
            volumes: of_volumes,
        }
    }

    /// Time without a command in flight, up to `now`, when none is.
    fn idle_until(&self, now: Instant) -> TimeSum {
        let mut idle = self.idle;
        idle += now.since(self.idle_since);
        idle
    }
}
