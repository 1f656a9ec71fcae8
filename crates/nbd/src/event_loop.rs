//! The event loop of one thread: its connections, and in the first of them the listeners.
//!
//! One turn of the loop:
//!
//! ```text
//!  sleep ─▶ accept ─▶ read and submit ─▶ end of batch ─▶ take replies ─▶ write ─▶ tidy up
//! ```
//!
//! Everything that is ready is read before the disks are woken, and every reply that is there is queued
//! before anything is written: at load, one system call carries many messages.
//!
//! Invariants:
//! - a slot is free, or holds a connection, or holds what a gone connection still has at the disks, so that
//!   the number of slots bounds all of them together;
//! - a connection that has something to do and is not waiting for its socket, for a reply or for memory, is
//!   in `ready`.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use mio::{Events, Poll, Token};
use units::{Duration, Instant};

use crate::connection::{Connection, Progress, Sending, Stream};
use crate::crew::{Crew, Place, slot as slot_of};
use crate::export::{ExportId, Exports};
use crate::handle::{Handle, Question, Taken};
use crate::limits::{HOLD_MAX, LISTENERS_MAX, RECEIVE_BYTES_MAX, STOP_MAX};
use crate::listener::Listener;
use crate::request::{ClientRequestId, ConnectionId, Reply, Sink, Told};
use crate::session::{Blocked, Budget, Event, InFlight, Session, World};
use crate::settings::Settings;
use crate::vigil::{Vigil, listen_to, look};

mod questions;
mod splicing;

pub(crate) const WAKER: Token = Token(0);
const LISTENER_FIRST: usize = 1;
const CONNECTION_FIRST: usize = LISTENER_FIRST + LISTENERS_MAX;
const EVENTS_MAX: usize = 1_024;
/// How often deadlines are looked at, and the longest sleep.
const TICK: std::time::Duration = std::time::Duration::from_secs(1);
/// The most connections accepted in one turn, so that a storm of them does not starve those that are in.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// What those are told to be open who do not ask.
static NOTHING_OPEN: BTreeMap<ExportId, usize> = BTreeMap::new();

/// By what a listener is told from others.
pub(crate) const fn listener_token(index: usize) -> Token {
    Token(LISTENER_FIRST + index)
}

#[derive(Debug)]
enum Slot {
    Free,
    Live(Box<Connection>),
    /// The client is gone; its requests are at the disks, and hold memory until they are answered.
    Departed(ConnectionId, InFlight),
}

impl Slot {
    /// What its client has open.
    fn export(&self) -> Option<ExportId> {
        match self {
            Self::Live(connection) => connection.session.export(),
            Self::Free | Self::Departed(..) => None,
        }
    }
}

/// A connection was dropped because payloads waited for each other's memory.
#[derive(Clone, Copy, Debug)]
struct GaveWay {
    at: Instant,
    /// A waiting payload has got memory since: the drop resolved the shortage.
    helped: bool,
}

impl GaveWay {
    /// Whether another connection may be dropped for the same reason: at the next tick if the memory
    /// was not enough for any payload, else after the payloads have had time to arrive.
    fn is_past(self, now: Instant) -> bool {
        now > self.at && (!self.helped || now.saturating_since(self.at) >= HOLD_MAX)
    }
}

/// One thread's.
pub(crate) struct Loop<'a> {
    place: Place,
    poll: Poll,
    /// The first loop's; the others have none.
    listeners: Vec<Listener>,
    handle: Handle,
    exports: &'a dyn Exports,
    settings: &'a Settings,
    crew: &'a Crew,
    slots: Vec<Slot>,
    free: Vec<usize>,
    connections_made: u64,
    budget: Budget,
    /// [`Budget::given`] when the starved were last let try again.
    given_seen: u64,
    /// Slots that can go on reading, each once.
    ready: VecDeque<usize>,
    /// Slots that wait for memory, each once.
    starved: VecDeque<usize>,
    /// The last connection that was dropped to resolve a deadlock over payload memory.
    gave_way: Option<GaveWay>,
    /// Slots that may have something to send in this turn.
    written: Vec<usize>,
    happened: Vec<Event>,
    /// Answers that came about here to what was asked elsewhere.
    foreign: Vec<Reply>,
    buffer: Vec<u8>,
    /// Since when it is stopping.
    stopping: Option<Instant>,
    now: Instant,
    ticked: Instant,
    vigil: Vigil,
    /// What is asked of these goes through the splicer where it changes something.
    spliced: Vec<ExportId>,
}

impl<'a> Loop<'a> {
    pub(crate) fn new(
        (place, handle): (Place, Handle),
        (poll, listeners): (Poll, Vec<Listener>),
        (exports, settings, crew): (&'a dyn Exports, &'a Settings, &'a Crew),
        payload_memory: usize,
        now: Instant,
    ) -> Self {
        let budget = Budget::of_one(payload_memory, handle.members());
        Self {
            place,
            poll,
            listeners,
            handle,
            exports,
            settings,
            crew,
            slots: Vec::new(),
            free: Vec::new(),
            connections_made: 0,
            budget,
            given_seen: 0,
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            gave_way: None,
            written: Vec::new(),
            happened: Vec::new(),
            foreign: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES_MAX],
            stopping: None,
            now,
            ticked: Instant::ZERO,
            vigil: Vigil::default(),
            spliced: Vec::new(),
        }
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// Serves until told to stop. Where that fails, all loops are told to.
    pub(crate) fn serve(
        &mut self,
        sink: &mut dyn Sink,
        clock: &dyn Fn() -> Instant,
    ) -> io::Result<()> {
        let ended = self.run(sink, clock);
        self.handle.end(self.place);
        self.end_splicing(sink);
        if ended.is_err() {
            self.handle.stop();
        }
        ended
    }

    fn run(&mut self, sink: &mut dyn Sink, clock: &dyn Fn() -> Instant) -> io::Result<()> {
        // The first loop's alone: one bell would wake all. Open, and so listened to, until the end.
        let first = self.place == Place::FIRST;
        let bells = if first { sink.bells()? } else { Vec::new() };
        let _bells = listen_to(&self.poll, bells)?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut taken = Taken::default();
        loop {
            self.sleep(&mut events, clock)?;
            self.note(&events);
            self.accept();
            self.read(sink, &mut taken.replies);
            sink.look(&mut taken.replies);
            let stop = self.handle.take(self.place, &mut taken);
            taken.streams.drain(..).for_each(|stream| self.seat(stream));
            self.answer(&mut taken.replies, sink);
            taken.told.drain(..).for_each(|told| self.tell(&told));
            taken.questions.drain(..).for_each(|question| self.respond(question, sink));
            if stop && self.stopping.is_none() {
                self.begin_stop();
            }
            self.write(sink);
            self.tick(sink);
            // After the deadlines: memory that a dropped connection held is offered at once.
            self.feed_the_starved();
            if self.stopping.is_some() && self.is_done() {
                return Ok(());
            }
        }
    }

    /// Whether nobody is left here. The first loop, which answers the bells, is the last to end.
    fn is_done(&self) -> bool {
        let here = self.slots.iter().all(|slot| matches!(slot, Slot::Free));
        here && (self.place != Place::FIRST || self.crew.is_empty())
    }

    /// Until there is something to do, or a tick is over. Sets the time.
    fn sleep(&mut self, events: &mut Events, clock: &dyn Fn() -> Instant) -> io::Result<()> {
        let busy =
            !self.ready.is_empty() || !self.handle.may_sleep(self.place, self.stopping.is_some());
        let outcome = if busy {
            look(&mut self.poll, events, std::time::Duration::ZERO)
        } else {
            self.wait(events, clock)
        };
        self.handle.awake(self.place);
        self.now = clock();
        outcome.map(drop)
    }

    /// Awake for a while, then asleep.
    fn wait(&mut self, events: &mut Events, clock: &dyn Fn() -> Instant) -> io::Result<bool> {
        let began = clock();
        let seen =
            self.vigil.keep(clock, || look(&mut self.poll, events, std::time::Duration::ZERO))?
                || look(&mut self.poll, events, TICK)?;
        self.vigil.idle_for(clock().saturating_since(began));
        Ok(seen)
    }

    /// Remembers which sockets are ready for what.
    fn note(&mut self, events: &Events) {
        for event in events {
            let token = event.token().0;
            if let Some(slot) = token.checked_sub(CONNECTION_FIRST) {
                let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
                connection.readiness.half_closed |= event.is_read_closed();
                connection.readiness.readable |= event.is_readable() || event.is_read_closed();
                if event.is_writable() || event.is_write_closed() || event.is_error() {
                    connection.readiness.writable = true;
                    self.written.push(slot);
                }
                self.make_ready(slot);
            } else if let Some(index) = token.checked_sub(LISTENER_FIRST)
                && let Some(listener) = self.listeners.get_mut(index)
            {
                listener.ready = true;
            }
        }
    }

    fn make_ready(&mut self, slot: usize) {
        let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { return };
        if !connection.queued {
            connection.queued = true;
            self.ready.push_back(slot);
        }
    }

    fn accept(&mut self) {
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN_MAX {
                let listener = &mut self.listeners[index];
                if !listener.ready {
                    break;
                }
                match listener.accept() {
                    Ok(stream) => self.welcome(stream),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => listener.ready = false,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Out of descriptors, or the client left already: whoever waits is looked at again at
                    // the next turn or tick.
                    Err(_) => break,
                }
            }
        }
    }

    /// Finds a place for a new client; where there is none, dropping the stream closes it.
    fn welcome(&mut self, stream: Stream) {
        let Some(place) = self.crew.take_place() else { return };
        if place == self.place {
            return self.seat(stream);
        }
        // One that has ended takes nobody: then the server is about to stop.
        if let Err(stream) = self.handle.hand(place, stream) {
            self.crew.keep_place(place);
            self.seat(stream);
        }
    }

    /// Takes a client, for which a place was taken.
    fn seat(&mut self, mut stream: Stream) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() - 1
        });
        if stream.register(self.poll.registry(), Token(CONNECTION_FIRST + slot)).is_err() {
            return self.free(slot);
        }
        self.connections_made += 1;
        let id = self.place.number(self.connections_made, slot);
        self.slots[slot] = Slot::Live(Box::new(Connection::new(id, stream, self.now)));
        self.written.push(slot);
        self.make_ready(slot);
    }

    /// A slot is nobody's any more.
    fn free(&mut self, slot: usize) {
        self.free.push(slot);
        self.crew.give_place(self.place);
        if self.stopping.is_some() {
            self.handle.pass(Place::FIRST, Question::Look);
        }
    }

    /// Reads from all that can go on, once round, and hands their requests over.
    fn read(&mut self, sink: &mut dyn Sink, answered: &mut Vec<Reply>) {
        let mut submitted = false;
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.queued = false;
            let was_empty = connection.session.output().is_empty();
            // Only who haggles asks what is open; nobody else opens anything before that is counted.
            let mut opened = connection.session.is_in_handshake().then(|| self.crew.opened());
            let mut world = World {
                exports: self.exports,
                settings: self.settings,
                opened: opened.as_deref().unwrap_or(&NOTHING_OPEN),
                budget: &mut self.budget,
                events: &mut self.happened,
            };
            let progress = connection.read(&mut self.buffer, &mut world, self.now);
            let (requests, alive) = self.hand_over(slot, sink, opened.as_deref_mut());
            drop(opened);
            submitted |= requests;
            if progress == Progress::Broken || !alive {
                self.drop_connection(slot, sink);
                continue;
            }
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.output_began(was_empty, self.now);
            if let Some(gave_way) = &mut self.gave_way {
                gave_way.helped |= connection.got_memory;
            }
            if connection.session.blocked() == Some(Blocked::Memory) && !connection.starved {
                connection.starved = true;
                self.starved.push_back(slot);
            }
            self.written.push(slot);
            if progress == Progress::Unfinished {
                self.make_ready(slot);
            }
        }
        if submitted {
            sink.submitted_batch_end(answered);
        }
    }

    /// Passes on what reading a connection brought. Says whether there were requests, and whether the connection goes on.
    fn hand_over(
        &mut self,
        slot: usize,
        sink: &mut dyn Sink,
        mut opened: Option<&mut BTreeMap<ExportId, usize>>,
    ) -> (bool, bool) {
        let (mut requests, mut alive) = (false, true);
        let mut happened = core::mem::take(&mut self.happened);
        for event in happened.drain(..) {
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { break };
            match event {
                Event::Request(request) => {
                    requests = true;
                    if self.spliced.is_empty() {
                        sink.submit(request);
                    } else if let Some(request) = self.pass(request) {
                        sink.submit(request);
                    }
                }
                Event::Splice(splice) => {
                    requests = true;
                    self.splice(splice, sink);
                }
                Event::Query(query) => {
                    requests = true;
                    if let Some(unknown) = sink.ask(query) {
                        connection.session.tell(unknown.id.sequence, Ok(&[]), &mut self.budget);
                    }
                }
                Event::Opened(export) => {
                    connection.opened = Some(export);
                    let opened = opened.as_deref_mut().expect("who opens an export was haggling");
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
        self.happened = happened;
        (requests, alive)
    }

    /// Queues what the disks answered.
    fn answer(&mut self, replies: &mut Vec<Reply>, sink: &mut dyn Sink) {
        let mut more = Vec::new();
        loop {
            for reply in replies.drain(..) {
                if Place::of(reply.id.connection) != self.place {
                    self.foreign.push(reply);
                } else if let Some(reply) = self.see(reply, &mut more) {
                    self.give(reply);
                }
            }
            if more.is_empty() {
                break;
            }
            more.drain(..).for_each(|request| sink.submit(request));
            sink.submitted_batch_end(replies);
        }
        self.handle.reply_many(&mut self.foreign);
    }

    /// Queues one answer.
    fn give(&mut self, Reply { id, result }: Reply) {
        if let Some(slot) = self.settle(id) {
            self.queue(slot, |session, budget| {
                session.reply(id.sequence, result, budget);
            });
        }
    }

    /// Queues what a disk knows of sectors.
    fn tell(&mut self, told: &Told) {
        if let Some(slot) = self.settle(told.id) {
            let result = told.result.as_deref().map_err(|errno| *errno);
            self.queue(slot, |session, budget| {
                session.tell(told.id.sequence, result, budget);
            });
        }
    }

    /// Finds the connection that a request is of. What one that is gone had at the disks is done with.
    fn settle(&mut self, id: ClientRequestId) -> Option<usize> {
        let slot = slot_of(id.connection);
        match self.slots.get_mut(slot)? {
            Slot::Live(connection) if connection.id == id.connection => Some(slot),
            Slot::Departed(departed, in_flight) if *departed == id.connection => {
                if let Some(entry) = in_flight.close(id.sequence) {
                    self.budget.give(entry.bytes);
                }
                if in_flight.count() == 0 {
                    self.slots[slot] = Slot::Free;
                    self.free(slot);
                }
                None
            }
            _ => None,
        }
    }

    fn queue(&mut self, slot: usize, answer: impl FnOnce(&mut Session, &mut Budget)) {
        let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { return };
        let was_empty = connection.session.output().is_empty();
        answer(&mut connection.session, &mut self.budget);
        connection.output_began(was_empty, self.now);
        let waits = connection.session.blocked() == Some(Blocked::Room);
        if self.written.last() != Some(&slot) {
            self.written.push(slot);
        }
        if waits {
            self.make_ready(slot);
        }
    }

    /// Sends what there is; closes those that are over; lets those go on that have room again.
    fn write(&mut self, sink: &mut dyn Sink) {
        let mut written = core::mem::take(&mut self.written);
        for slot in written.drain(..) {
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            let sending = connection.write(&mut self.budget, self.now);
            let token = Token(CONNECTION_FIRST + slot);
            let watched = connection.watch(self.poll.registry(), token);
            if sending == Sending::Broken || !watched || connection.is_over() {
                self.drop_connection(slot, sink);
            } else if sending == Sending::Something
                && connection.session.blocked() == Some(Blocked::Room)
            {
                self.make_ready(slot);
            }
        }
        self.written = written;
    }

    /// Lets those that wait for memory try again, if any was given back since.
    fn feed_the_starved(&mut self) {
        if self.starved.is_empty() || self.given_seen == self.budget.given() {
            return;
        }
        self.given_seen = self.budget.given();
        while let Some(slot) = self.starved.pop_front() {
            if let Some(Slot::Live(connection)) = self.slots.get_mut(slot) {
                connection.starved = false;
            }
            self.make_ready(slot);
        }
    }

    /// Who haggles is told to leave. Who has an export open is read no further: what it has sent and was not read, it
    /// can send again to the server that comes next, while an `NBD_ESHUTDOWN` is an error that a guest sees.
    fn begin_stop(&mut self) {
        self.stopping = Some(self.now);
        // Who waits at a socket of ours gets an end and no error; at the service manager's it waits for the next server.
        self.listeners.retain_mut(Listener::welcome_the_last);
        self.accept();
        self.listeners.clear();
        for slot in 0..self.slots.len() {
            let Slot::Live(connection) = &mut self.slots[slot] else { continue };
            if connection.session.is_in_handshake() {
                connection.leave(self.now);
            } else {
                connection.session.finish(&mut self.budget);
            }
            self.written.push(slot);
            self.make_ready(slot);
        }
    }

    /// Looks at deadlines, at most once a tick.
    fn tick(&mut self, sink: &mut dyn Sink) {
        let tick = Duration::from_nanos(u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX));
        if self.now.saturating_since(self.ticked) < tick {
            return;
        }
        self.ticked = self.now;
        for slot in 0..self.slots.len() {
            let Slot::Live(connection) = &self.slots[slot] else { continue };
            let hogs = !self.starved.is_empty() && connection.hogs(self.now);
            let deaf = self.stopping.is_some() && connection.is_unsent_for(STOP_MAX, self.now);
            // Payloads that wait for each other's memory never get it: one connection is dropped, and
            // the next one only if that did not help.
            let stuck = connection.is_stuck(self.now)
                && self.gave_way.is_none_or(|gave_way| gave_way.is_past(self.now));
            if stuck {
                self.gave_way = Some(GaveWay { at: self.now, helped: false });
            }
            if hogs || stuck || deaf || connection.is_late(self.settings, self.now) {
                self.drop_connection(slot, sink);
            }
        }
    }

    /// Closes a connection. What it has at the disks keeps its slot until it is answered.
    fn drop_connection(&mut self, slot: usize, sink: &mut dyn Sink) {
        let Slot::Live(mut connection) = core::mem::replace(&mut self.slots[slot], Slot::Free)
        else {
            return;
        };
        // Closing deregisters too; a failure here changes nothing.
        let _ = connection.stream.deregister(self.poll.registry());
        let id = connection.id;
        if let Some(export) = connection.opened {
            self.crew.closed(export);
        }
        // The last word to a client that is being dropped is a courtesy: it may not fit.
        connection.close_tls();
        let _ = connection.write(&mut self.budget, self.now);
        let in_flight = connection.session.depart(&mut self.budget);
        if in_flight.count() == 0 {
            self.free(slot);
        } else {
            self.slots[slot] = Slot::Departed(id, in_flight);
        }
        sink.closed(id);
    }
}
