//! One event loop: its state and its iterations.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use mio::{Events, Poll, Token};
use units::{Duration, Instant};

use super::slot::{DeadlockDrop, Slot};
use crate::limits::{LISTENERS_MAX, RECEIVE_BYTES_MAX, STOP_TIMEOUT};
use crate::proto::export::{ExportId, Exports};
use crate::proto::request::{BlockStatusReply, ClientRequestId, Reply, Request};
use crate::proto::session::{Blocked, Budget, Event, Session, SessionContext};
use crate::proto::settings::Settings;
use crate::proto::transport::Transport;
use crate::server::busy_poll::{BusyPoll, poll_events, register_completion_fds};
use crate::server::connection::{Connection, Progress, Sending, Stream};
use crate::server::handle::{ControlMessage, Handle, Received};
use crate::server::handler::RequestHandler;
use crate::server::listener::Listener;
use crate::server::loop_group::LoopGroup;
use crate::server::loop_id::{LoopId, slot as slot_of};

pub(crate) const WAKER: Token = Token(0);
const LISTENER_FIRST: usize = 1;
pub(super) const CONNECTION_FIRST: usize = LISTENER_FIRST + LISTENERS_MAX;
const EVENTS_MAX: usize = 1_024;
/// The interval between checks of deadlines, and the longest sleep.
const TICK: std::time::Duration = std::time::Duration::from_secs(1);
/// The most connections accepted in one iteration, so that a burst of them does not delay the
/// established ones.
const ACCEPTS_PER_ITERATION_MAX: usize = 64;
/// The connection counts that a session past its handshake gets: it does not read them.
static NOTHING_OPEN: BTreeMap<ExportId, usize> = BTreeMap::new();

/// The event token of the listener at `index`.
pub(crate) const fn listener_token(index: usize) -> Token {
    Token(LISTENER_FIRST + index)
}

/// The event loop of one thread.
pub(crate) struct EventLoop<'a> {
    pub(super) loop_id: LoopId,
    pub(super) poll: Poll,
    /// The first loop has all listeners; the others have none.
    pub(super) listeners: Vec<Listener>,
    pub(super) handle: Handle,
    pub(super) exports: &'a dyn Exports,
    pub(super) settings: &'a Settings,
    pub(super) group: &'a LoopGroup,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<usize>,
    pub(super) connections_made: u64,
    pub(super) budget: Budget,
    /// [`Budget::releases`] when the memory-blocked connections last tried again.
    pub(super) releases_seen: u64,
    /// Slots whose connections can read on, each once.
    pub(super) ready: VecDeque<usize>,
    /// Slots that wait for memory, each once.
    pub(super) memory_blocked: VecDeque<usize>,
    /// The last connection that was dropped to resolve a deadlock over payload memory.
    pub(super) deadlock_drop: Option<DeadlockDrop>,
    /// Slots whose connections may have output in this iteration.
    pub(super) to_write: Vec<usize>,
    pub(super) events: Vec<Event>,
    /// Requests of a queue client, while they are taken.
    pub(super) queue_requests: Vec<Request>,
    /// Replies produced here to requests of other loops.
    pub(super) replies_of_others: Vec<Reply>,
    pub(super) buffer: Vec<u8>,
    /// When the loop began to stop.
    pub(super) stopping: Option<Instant>,
    pub(super) now: Instant,
    pub(super) ticked: Instant,
    pub(super) busy_poll: BusyPoll,
    /// Exports with read-modify-writes: their writing requests go through the shared queue.
    pub(super) tracked_exports: Vec<ExportId>,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        (loop_id, handle): (LoopId, Handle),
        (poll, listeners): (Poll, Vec<Listener>),
        (exports, settings, group): (&'a dyn Exports, &'a Settings, &'a LoopGroup),
        payload_memory: usize,
        now: Instant,
    ) -> Self {
        let budget = Budget::for_thread(payload_memory, handle.members());
        Self {
            loop_id,
            poll,
            listeners,
            handle,
            exports,
            settings,
            group,
            slots: Vec::new(),
            free: Vec::new(),
            connections_made: 0,
            budget,
            releases_seen: 0,
            ready: VecDeque::new(),
            memory_blocked: VecDeque::new(),
            deadlock_drop: None,
            to_write: Vec::new(),
            events: Vec::new(),
            queue_requests: Vec::new(),
            replies_of_others: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES_MAX],
            stopping: None,
            now,
            ticked: Instant::ZERO,
            busy_poll: BusyPoll::default(),
            tracked_exports: Vec::new(),
        }
    }

    pub(crate) const fn loop_id(&self) -> LoopId {
        self.loop_id
    }

    /// Serves until told to stop. An error stops all loops.
    pub(crate) fn serve(
        &mut self,
        handler: &mut dyn RequestHandler,
        clock: &dyn Fn() -> Instant,
    ) -> io::Result<()> {
        let ended = self.run(handler, clock);
        // Clients that came too late keep no slot: the first loop waits for all slots.
        for _ in 0..self.handle.mark_ended(self.loop_id) {
            self.group.release_slot(self.loop_id);
        }
        self.end_read_modify_writes(handler);
        if ended.is_err() {
            self.handle.stop();
        }
        ended
    }

    fn run(
        &mut self,
        handler: &mut dyn RequestHandler,
        clock: &dyn Fn() -> Instant,
    ) -> io::Result<()> {
        // Only the first loop polls the completion descriptors: one completion would wake all
        // loops. The descriptors stay open and registered until the loop ends.
        let first = self.loop_id == LoopId::FIRST;
        let completion_fds = if first { handler.completion_fds()? } else { Vec::new() };
        let _bells = register_completion_fds(&self.poll, completion_fds)?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut taken = Received::default();
        loop {
            self.sleep(&mut events, clock)?;
            self.record_readiness(&events);
            self.accept();
            self.read(handler, &mut taken.replies);
            handler.poll_completions(&mut taken.replies);
            let stop = self.handle.drain_inbox(self.loop_id, &mut taken);
            taken.streams.drain(..).for_each(|stream| self.register_connection(stream));
            taken.queue_clients.drain(..).for_each(|client| self.register_queue_client(client));
            self.answer(&mut taken.replies, handler);
            taken.block_statuses.drain(..).for_each(|told| self.reply_block_status(&told));
            taken.control.drain(..).for_each(|message| self.handle_control(message, handler));
            if stop && self.stopping.is_none() {
                self.begin_stop();
            }
            self.write(handler);
            self.tick(handler);
            // After the check of deadlines, so that memory of a dropped connection is offered at
            // once.
            self.resume_memory_blocked();
            if self.stopping.is_some() && self.is_done() {
                return Ok(());
            }
        }
    }

    /// Whether no connection is left. The first loop, which polls the completion descriptors, is
    /// the last to end.
    fn is_done(&self) -> bool {
        let here = self.slots.iter().all(|slot| matches!(slot, Slot::Free));
        here && (self.loop_id != LoopId::FIRST || self.group.is_empty())
    }

    /// Waits for an event, at most one tick. Sets the time.
    fn sleep(&mut self, events: &mut Events, clock: &dyn Fn() -> Instant) -> io::Result<()> {
        let busy =
            !self.ready.is_empty() || !self.handle.may_sleep(self.loop_id, self.stopping.is_some());
        let outcome = if busy {
            poll_events(&mut self.poll, events, std::time::Duration::ZERO)
        } else {
            self.busy_poll.wait((&mut self.poll, events), clock, TICK)
        };
        self.handle.mark_awake(self.loop_id);
        self.now = clock();
        outcome.map(drop)
    }

    /// Records which sockets are readable and writable.
    fn record_readiness(&mut self, events: &Events) {
        for event in events {
            let token = event.token().0;
            if let Some(slot) = token.checked_sub(CONNECTION_FIRST) {
                if let Some(Slot::Live(connection)) = self.slots.get_mut(slot) {
                    connection.readiness.half_closed |= event.is_read_closed();
                    connection.readiness.readable |= event.is_readable() || event.is_read_closed();
                    if event.is_writable() || event.is_write_closed() || event.is_error() {
                        connection.readiness.writable = true;
                        self.to_write.push(slot);
                    }
                }
                self.make_ready(slot);
            } else if let Some(index) = token.checked_sub(LISTENER_FIRST)
                && let Some(listener) = self.listeners.get_mut(index)
            {
                listener.ready = true;
            }
        }
    }

    pub(super) fn make_ready(&mut self, slot: usize) {
        let Some(queued) = self.slots.get_mut(slot).and_then(Slot::queued) else { return };
        if !core::mem::replace(queued, true) {
            self.ready.push_back(slot);
        }
    }

    pub(super) fn accept(&mut self) {
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_ITERATION_MAX {
                let listener = &mut self.listeners[index];
                if !listener.ready {
                    break;
                }
                match listener.accept() {
                    Ok(stream) => self.accept_connection(stream),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => listener.ready = false,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Out of descriptors, or the client has closed already. The next iteration or
                    // tick tries the clients that still wait.
                    Err(_) => break,
                }
            }
        }
    }

    /// Assigns a new client to a loop. At the limit of connections, dropping the stream closes it.
    fn accept_connection(&mut self, stream: Stream) {
        let Some(loop_id) = self.group.reserve_slot() else { return };
        if loop_id == self.loop_id {
            return self.register_connection(stream);
        }
        // A loop that has ended refuses: the server is about to stop.
        if let Err(stream) = self.handle.send_stream(loop_id, stream) {
            self.group.reassign_slot_to_first(loop_id);
            self.register_connection(stream);
        }
    }

    /// Registers a client for which a slot was reserved.
    fn register_connection(&mut self, mut stream: Stream) {
        let slot = self.take_slot();
        if stream.register(self.poll.registry(), Token(CONNECTION_FIRST + slot)).is_err() {
            return self.free_slot(slot);
        }
        self.connections_made += 1;
        let id = self.loop_id.number(self.connections_made, slot, Transport::Nbd);
        self.slots[slot] = Slot::Live(Box::new(Connection::new(id, stream, self.now)));
        self.to_write.push(slot);
        self.make_ready(slot);
    }

    /// A free slot.
    pub(super) fn take_slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() - 1
        })
    }

    /// Frees a slot.
    pub(super) fn free_slot(&mut self, slot: usize) {
        self.free.push(slot);
        self.group.release_slot(self.loop_id);
        if self.stopping.is_some() {
            self.handle.send_control(LoopId::FIRST, ControlMessage::Wake);
        }
    }

    /// Reads from every ready connection once, and submits the requests.
    fn read(&mut self, handler: &mut dyn RequestHandler, answered: &mut Vec<Reply>) {
        let (mut submitted, mut rest_is_due) = (false, false);
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            if matches!(self.slots.get(slot), Some(Slot::Queue(_))) {
                submitted |= self.receive_from_queues(slot, handler);
            }
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.queued = false;
            let was_empty = connection.session.output().is_empty();
            // Only a session in its handshake reads the counts, and it opens its export under this
            // lock: no other connection opens the export in between.
            let mut opened = connection.session.is_in_handshake().then(|| self.group.opened());
            let mut context = SessionContext {
                exports: self.exports,
                settings: self.settings,
                opened: opened.as_deref().unwrap_or(&NOTHING_OPEN),
                budget: &mut self.budget,
                events: &mut self.events,
            };
            let progress = connection.read(&mut self.buffer, &mut context, self.now);
            let (requests, alive) = self.hand_over(slot, handler, opened.as_deref_mut());
            drop(opened);
            submitted |= requests;
            if progress == Progress::Broken || !alive {
                self.drop_connection(slot, handler);
                continue;
            }
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.output_added(was_empty, self.now);
            if let Some(deadlock_drop) = &mut self.deadlock_drop {
                deadlock_drop.helped |= connection.got_memory;
            }
            if connection.session.blocked() == Some(Blocked::PayloadMemory)
                && !connection.memory_blocked
            {
                connection.memory_blocked = true;
                self.memory_blocked.push_back(slot);
            }
            self.to_write.push(slot);
            rest_is_due |= connection.awaits_short_payload();
            if progress == Progress::Unfinished {
                self.make_ready(slot);
            }
        }
        self.busy_poll.rest_is_due(rest_is_due);
        if submitted {
            handler.flush_batch(answered);
        }
    }

    /// Handles the events that reading a connection produced. Returns whether there were requests,
    /// and whether the connection continues.
    fn hand_over(
        &mut self,
        slot: usize,
        handler: &mut dyn RequestHandler,
        mut opened: Option<&mut BTreeMap<ExportId, usize>>,
    ) -> (bool, bool) {
        let (mut requests, mut alive) = (false, true);
        let mut events = core::mem::take(&mut self.events);
        for event in events.drain(..) {
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { break };
            match event {
                Event::Request(request) => {
                    requests = true;
                    if self.tracked_exports.is_empty() {
                        handler.submit(request);
                    } else if let Some(request) = self.submit_or_queue(request) {
                        handler.submit(request);
                    }
                }
                Event::ReadModifyWrite(write) => {
                    requests = true;
                    self.begin_read_modify_write(write, handler);
                }
                Event::BlockStatus(query) => {
                    requests = true;
                    if let Some(unknown) = handler.block_status(query) {
                        connection.session.reply_block_status(
                            unknown.id.sequence,
                            Ok(&[]),
                            &mut self.budget,
                        );
                    }
                }
                Event::Opened(export) => {
                    connection.opened = Some(export);
                    connection.id = connection.session.connection();
                    let opened = opened
                        .as_deref_mut()
                        .expect("an export is opened in a handshake, under the lock");
                    *opened.entry(export).or_default() += 1;
                }
                Event::StartTls => {
                    let config = self.settings.tls.as_ref().map(|tls| tls.config.clone());
                    alive &=
                        config.is_some_and(|config| connection.start_tls(config, &mut self.budget));
                    self.ready.push_back(slot);
                    connection.queued = true;
                }
                Event::Close(_) => alive = false,
                Event::Disconnect => {}
            }
        }
        self.events = events;
        (requests, alive)
    }

    /// Queues the replies of the disks as output.
    pub(super) fn answer(&mut self, replies: &mut Vec<Reply>, handler: &mut dyn RequestHandler) {
        let mut more = Vec::new();
        loop {
            for reply in replies.drain(..) {
                if LoopId::of(reply.id.connection) != self.loop_id {
                    self.replies_of_others.push(reply);
                } else if let Some(reply) = self.on_reply(reply, &mut more) {
                    self.deliver_reply(reply);
                }
            }
            if more.is_empty() {
                break;
            }
            more.drain(..).for_each(|request| handler.submit(request));
            handler.flush_batch(replies);
        }
        self.handle.reply_many(&mut self.replies_of_others);
    }

    /// Queues one reply.
    pub(super) fn deliver_reply(&mut self, Reply { id, result }: Reply) {
        let Some(slot) = self.slot_of_request(id) else { return };
        if matches!(self.slots[slot], Slot::Queue(_)) {
            return self.complete_in_queue(slot, id.sequence, result);
        }
        self.queue(slot, |session, budget| {
            session.reply(id.sequence, result, budget);
        });
    }

    /// Queues the reply to a block status request.
    pub(super) fn reply_block_status(&mut self, told: &BlockStatusReply) {
        if let Some(slot) = self.slot_of_request(told.id) {
            let result = told.result.as_deref().map_err(|errno| *errno);
            self.queue(slot, |session, budget| {
                session.reply_block_status(told.id.sequence, result, budget);
            });
        }
    }

    /// Returns the slot of the connection that a request belongs to. A completed request of a
    /// disconnected client releases its memory.
    pub(super) fn slot_of_request(&mut self, id: ClientRequestId) -> Option<usize> {
        let slot = slot_of(id.connection);
        match self.slots.get_mut(slot)? {
            Slot::Live(connection) if connection.id == id.connection => Some(slot),
            Slot::Queue(connection) if connection.id == id.connection => Some(slot),
            Slot::Orphaned(departed, in_flight) if *departed == id.connection => {
                if let Some(entry) = in_flight.close(id.sequence) {
                    self.budget.release(entry.bytes);
                }
                if in_flight.count() == 0 {
                    self.slots[slot] = Slot::Free;
                    self.free_slot(slot);
                }
                None
            }
            _ => None,
        }
    }

    pub(super) fn queue(&mut self, slot: usize, answer: impl FnOnce(&mut Session, &mut Budget)) {
        let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { return };
        let was_empty = connection.session.output().is_empty();
        answer(&mut connection.session, &mut self.budget);
        connection.output_added(was_empty, self.now);
        let waits = connection.session.blocked() == Some(Blocked::ConnectionLimit);
        if self.to_write.last() != Some(&slot) {
            self.to_write.push(slot);
        }
        if waits {
            self.make_ready(slot);
        }
    }

    /// Sends output, closes finished connections, and marks connections ready that have room again.
    fn write(&mut self, handler: &mut dyn RequestHandler) {
        let mut to_write = core::mem::take(&mut self.to_write);
        for slot in to_write.drain(..) {
            if matches!(self.slots.get(slot), Some(Slot::Queue(_))) {
                self.flush_queues(slot, handler);
            }
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            let sending = connection.write(&mut self.budget, self.now);
            let token = Token(CONNECTION_FIRST + slot);
            let polled = connection.poll_writability(self.poll.registry(), token);
            if sending == Sending::Broken || !polled || connection.is_complete() {
                self.drop_connection(slot, handler);
            } else if sending == Sending::Something
                && connection.session.blocked() == Some(Blocked::ConnectionLimit)
            {
                self.make_ready(slot);
            }
        }
        self.to_write = to_write;
    }

    /// Marks the memory-blocked connections ready if memory was released since.
    fn resume_memory_blocked(&mut self) {
        if self.memory_blocked.is_empty() || self.releases_seen == self.budget.releases() {
            return;
        }
        self.releases_seen = self.budget.releases();
        while let Some(slot) = self.memory_blocked.pop_front() {
            if let Some(blocked) = self.slots.get_mut(slot).and_then(Slot::memory_blocked) {
                *blocked = false;
            }
            self.make_ready(slot);
        }
    }

    /// Checks deadlines, at most once a tick.
    fn tick(&mut self, handler: &mut dyn RequestHandler) {
        let tick = Duration::from_nanos(u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX));
        if self.now.saturating_since(self.ticked) < tick {
            return;
        }
        self.ticked = self.now;
        self.end_newcomers();
        for slot in 0..self.slots.len() {
            let Slot::Live(connection) = &self.slots[slot] else { continue };
            let holds_memory_too_long =
                !self.memory_blocked.is_empty() && connection.holds_memory_too_long(self.now);
            let unresponsive =
                self.stopping.is_some() && connection.is_unsent_for(STOP_TIMEOUT, self.now);
            // Payloads that wait for each other's memory never get it: one connection is dropped,
            // and another one only if that did not help.
            let deadlocked = connection.is_deadlocked(self.now)
                && self.deadlock_drop.is_none_or(|deadlock_drop| deadlock_drop.is_past(self.now));
            if deadlocked {
                self.deadlock_drop = Some(DeadlockDrop { at: self.now, helped: false });
            }
            if holds_memory_too_long
                || deadlocked
                || unresponsive
                || connection.is_timed_out(self.settings, self.now)
            {
                self.drop_connection(slot, handler);
            }
        }
    }

    /// Closes a connection. Its requests at the disks keep the slot until they complete.
    pub(super) fn drop_connection(&mut self, slot: usize, handler: &mut dyn RequestHandler) {
        let Slot::Live(mut connection) = core::mem::replace(&mut self.slots[slot], Slot::Free)
        else {
            return;
        };
        // Closing deregisters as well; an error here has no effect.
        let _ = connection.stream.deregister(self.poll.registry());
        let id = connection.id;
        if let Some(export) = connection.opened {
            self.group.closed(export);
        }
        // The last message to a dropped client is best effort: it may not fit.
        connection.close_tls();
        let _ = connection.write(&mut self.budget, self.now);
        let in_flight = connection.session.into_in_flight(&mut self.budget);
        if in_flight.count() == 0 {
            self.free_slot(slot);
        } else {
            self.slots[slot] = Slot::Orphaned(id, in_flight);
        }
        handler.connection_closed(id);
    }
}
