//! One disk's thread: its engine, its backend, and the loop between them.

use std::num::NonZeroU64;
use std::sync::Arc;

use backend::{Disk, Failure, Finished, Job, Tag};
use engine::{Action, Command, CommandId, Engine, Event, Outcome, Request, SEQUENTIAL_WITHIN};
use frontend::{Errno, Handle, Reply};
use report::{Latency, Runs};
use units::{DiskTime, Duration, Instant, Op, Operation};

use crate::Clock;
use crate::inbox::{Inbox, Incoming, Message};
use crate::status::{DiskView, Lateness, VolumeView};

/// The longest sleep of a disk with nothing to do.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A request that the engine has.
struct Pending {
    id: frontend::RequestId,
    operation: Operation,
    /// What to write, until its command takes it; what was read, until it is answered.
    data: Vec<u8>,
    failure: Option<Failure>,
    arrived: Instant,
}

/// Everything that one disk's thread owns.
pub(crate) struct DiskThread {
    clock: Clock,
    engine: Engine,
    disk: Box<dyn Disk>,
    inbox: Arc<Inbox>,
    handle: Handle,
    pending: Vec<Option<Pending>>,
    free: Vec<u64>,
    /// Commands at the disk.
    running: Vec<Command>,
    replies: Vec<Reply>,
    latencies: Vec<Latency>,
    errors: Vec<Latency>,
    runs: Vec<Runs>,
    lateness: Lateness,
    stopping: bool,
}

impl DiskThread {
    pub(crate) fn new(
        clock: Clock,
        (engine, volumes): (Engine, usize),
        disk: Box<dyn Disk>,
        inbox: Arc<Inbox>,
        handle: Handle,
    ) -> Self {
        Self {
            clock,
            engine,
            disk,
            inbox,
            handle,
            pending: Vec::new(),
            free: Vec::new(),
            running: Vec::new(),
            replies: Vec::new(),
            latencies: vec![Latency::default(); volumes],
            errors: vec![Latency::default(); volumes],
            runs: vec![Runs::default(); volumes],
            lateness: Lateness::default(),
            stopping: false,
        }
    }

    /// Serves until told to stop and nothing is left to answer.
    pub(crate) fn run(mut self) -> DiskView {
        // A drive's completions are worth their microseconds; the kernel would round our sleeps up by 50 of them.
        // Without the privilege to say so they are merely later, and the lateness says by how much.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut messages = Vec::new();
        loop {
            self.inbox.wait(self.sleep(), &mut messages);
            let now = self.clock.now();
            for message in messages.drain(..) {
                self.receive(message, now);
            }
            while let Some(finished) = self.disk.reap(now) {
                self.finish(finished, now);
            }
            while let Some(action) = self.engine.poll(now) {
                self.act(action, now);
            }
            self.handle.reply_many(&mut self.replies);
            if self.stopping && self.engine.requests() == 0 {
                return self.view(now);
            }
        }
    }

    fn sleep(&self) -> Duration {
        let moments = [self.disk.next_event(), self.engine.next_wakeup()];
        let now = self.clock.now();
        let until = moments.into_iter().flatten().min().map(|moment| moment.saturating_since(now));
        until.unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    fn receive(&mut self, message: Message, now: Instant) {
        match message {
            Message::Request(incoming) => self.submit(incoming, now),
            // Who asked may have gone; then nobody wants to know.
            Message::Look(to) => drop(to.try_send(self.view(now))),
            Message::Stop => self.stopping = true,
        }
    }

    fn submit(&mut self, incoming: Incoming, now: Instant) {
        let Incoming { id, volume, operation, data } = incoming;
        let pending = Pending { id, operation, data, failure: None, arrived: now };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() as u64 - 1
        });
        self.pending[index(slot)] = Some(pending);
        self.runs[volume.0 as usize].record(operation.extent, SEQUENTIAL_WITHIN);
        let id = engine::RequestId(slot);
        self.engine.handle(Event::Submit(Request { id, volume, operation }), now);
    }

    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Issue(command) => {
                let pending = self.pending[index(command.request.0)].as_mut();
                let data = payload(pending.expect("the engine knows only pending ones"), &command);
                let (tag, operation) = (Tag(command.id.0), command.operation);
                self.running.push(command);
                self.disk.submit(Job { tag, operation, data }, now);
            }
            Action::Reply(reply) => self.answer(reply, now),
        }
    }

    fn finish(&mut self, finished: Finished, now: Instant) {
        self.lateness.record(finished.late);
        let id = CommandId(finished.tag.0);
        let place = self.running.iter().position(|command| command.id == id);
        let command = self.running.swap_remove(place.expect("a finished job was submitted"));
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
        self.engine.handle(Event::Completed { command: id, outcome }, now);
    }

    fn answer(&mut self, reply: engine::Reply, now: Instant) {
        let slot = reply.request.0;
        let pending = self.pending[index(slot)].take().expect("a request is answered once");
        self.free.push(slot);
        self.latencies[reply.volume.0 as usize].record(now.since(pending.arrived));
        // Who estimates nothing is never off.
        if reply.estimate > DiskTime::ZERO {
            let off = (reply.disk_time - reply.estimate).as_nanos().unsigned_abs();
            self.errors[reply.volume.0 as usize].record(Duration::from_nanos(off));
        }
        let result = match pending.failure {
            None => Ok(pending.data),
            Some(Failure::Io) => Err(Errno::Io),
            Some(Failure::NoSpace) => Err(Errno::NoSpc),
        };
        self.replies.push(Reply { id: pending.id, result });
    }

    fn view(&self, now: Instant) -> DiskView {
        let volumes = (0..).map(engine::VolumeId).zip(&self.latencies).map(|(volume, latency)| {
            let index = volume.0 as usize;
            let (contract, account) = (self.engine.contract(volume), *self.engine.account(volume));
            let (error, runs) = (self.errors[index].clone(), self.runs[index]);
            VolumeView { contract, account, latency: latency.clone(), error, runs }
        });
        let (busy, lateness) = (self.engine.busy(), self.lateness.clone());
        DiskView { at: now, busy, lateness, volumes: volumes.collect() }
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot).expect("it indexed before")
}

fn is_whole(pending: &Pending, command: &Command) -> bool {
    command.operation.extent.len == pending.operation.extent.len
}

/// What `command` writes. A request that is one command gives its own buffer; a longer one is copied piecewise.
fn payload(pending: &mut Pending, command: &Command) -> Vec<u8> {
    if command.operation.op != Op::Write {
        return Vec::new();
    }
    if is_whole(pending, command) {
        return core::mem::take(&mut pending.data);
    }
    let start = command.offset.bytes_usize();
    pending.data[start..start + command.operation.extent.len.bytes_usize()].to_vec()
}

/// Puts what `command` read where it belongs in its request.
fn collect(pending: &mut Pending, command: &Command, data: Vec<u8>) {
    if command.operation.op != Op::Read {
        return;
    }
    if is_whole(pending, command) {
        pending.data = data;
        return;
    }
    pending.data.resize(pending.operation.extent.len.bytes_usize(), 0);
    let start = command.offset.bytes_usize();
    pending.data[start..start + data.len()].copy_from_slice(&data);
}
