//! The event loop: one thread for all listeners and connections.
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
use std::sync::Arc;

use mio::{Events, Poll, Token, Waker};
use units::{Bytes, Duration, Instant};

use crate::address::Address;
use crate::connection::{Connection, Progress, Sending, Stream};
use crate::export::{ExportId, Exports};
use crate::handle::{Handle, InUse, Question, Taken, waker_failed};
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, LISTENERS_MAX, PAYLOADS_BYTES_MAX, RECEIVE_BYTES_MAX, STOP_MAX,
};
use crate::listener::{Listener, check_count};
use crate::request::{ConnectionId, Reply, RequestId, Sink, Told};
use crate::session::{Blocked, Budget, Event, InFlight, Session, World};
use crate::settings::Settings;
use crate::vigil::{Vigil, listen_to, look};

const WAKER: Token = Token(0);
const LISTENER_FIRST: usize = 1;
const CONNECTION_FIRST: usize = LISTENER_FIRST + LISTENERS_MAX;
const EVENTS_MAX: usize = 1_024;
const SLOT_BITS: u32 = 16;
/// How often deadlines are looked at, and the longest sleep.
const TICK: std::time::Duration = std::time::Duration::from_secs(1);
/// The most connections accepted in one turn, so that a storm of them does not starve those that are in.
const ACCEPTS_PER_TURN_MAX: usize = 64;

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    poll: Poll,
    listeners: Vec<Listener>,
    handle: Handle,
    payload_memory: usize,
    settings: Settings,
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

impl Server {
    /// Listens on all the addresses, or on none if one of them fails. A socket file that no server listens
    /// on any more is replaced.
    ///
    /// # Errors
    /// If an address is in use or cannot be listened on, or there are none or too many.
    pub fn bind(addresses: &[Address]) -> io::Result<Self> {
        check_count(addresses.len())?;
        Self::on(addresses.iter().map(Listener::bind).collect::<io::Result<_>>()?)
    }

    /// Listens on the sockets that the service manager has opened (`LISTEN_FDS`), in place of any address; without such,
    /// as [`Server::bind`]. Clients that come while there is no server wait for the next one.
    ///
    /// # Errors
    /// As [`Server::bind`]; or what was handed over is not a listening socket.
    pub fn adopt_or_bind(addresses: &[Address]) -> io::Result<Self> {
        let inherited = Listener::inherited()?;
        if inherited.is_empty() {
            return Self::bind(addresses);
        }
        check_count(inherited.len())?;
        Self::on(inherited)
    }

    fn on(mut listeners: Vec<Listener>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(|error| waker_failed(&error))?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(LISTENER_FIRST + index))?;
        }
        let payload_memory = PAYLOADS_BYTES_MAX;
        let (handle, settings) = (Handle::new(waker), Settings::default());
        Ok(Self { poll, listeners, handle, payload_memory, settings })
    }

    /// Allows clients this, and no more.
    ///
    /// # Errors
    /// What of it is not within the limits.
    pub fn with_settings(mut self, settings: Settings) -> Result<Self, &'static str> {
        settings.check()?;
        self.settings = settings;
        Ok(self)
    }

    /// Gives the payloads of all connections together less memory than
    /// [`PAYLOADS_BYTES_MAX`](crate::limits::PAYLOADS_BYTES_MAX), but no less than one connection may use.
    #[must_use]
    pub fn with_payload_memory(mut self, memory: Bytes) -> Self {
        let wanted = usize::try_from(memory.0).unwrap_or(usize::MAX);
        self.payload_memory = wanted.clamp(BYTES_IN_FLIGHT_MAX, PAYLOADS_BYTES_MAX);
        self
    }

    /// Where it listens, in the order of [`Server::bind`]; for port 0, with the port that was chosen.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn addresses(&self) -> io::Result<Vec<Address>> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// The way to send replies, and to stop it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until [`Handle::stop`]. Requests go to `sink`, on this thread; `clock` tells the time for
    /// deadlines, once a turn.
    ///
    /// # Errors
    /// Only if the system's poll fails, or it has no descriptors for the disks' bells: what one client does is never an error of the server.
    pub fn run(
        self,
        exports: Arc<dyn Exports>,
        sink: &mut dyn Sink,
        clock: &dyn Fn() -> Instant,
    ) -> io::Result<()> {
        // Open, and so listened to, until the end.
        let _bells = listen_to(&self.poll, sink.bells()?)?;
        let mut serving = Loop {
            poll: self.poll,
            listeners: self.listeners,
            handle: self.handle,
            exports,
            settings: self.settings,
            opened: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            connections_made: 0,
            budget: Budget::new(self.payload_memory),
            given_seen: 0,
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            written: Vec::new(),
            happened: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES_MAX],
            stopping: None,
            now: clock(),
            ticked: Instant::ZERO,
            vigil: Vigil::default(),
        };
        let ended = serving.run(sink, clock);
        serving.handle.end();
        ended
    }
}

struct Loop {
    poll: Poll,
    listeners: Vec<Listener>,
    handle: Handle,
    exports: Arc<dyn Exports>,
    settings: Settings,
    /// How many connections each export has that are there, not merely at the disks.
    opened: BTreeMap<ExportId, usize>,
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
    /// Slots that may have something to send in this turn.
    written: Vec<usize>,
    happened: Vec<Event>,
    buffer: Vec<u8>,
    /// Since when it is stopping.
    stopping: Option<Instant>,
    now: Instant,
    ticked: Instant,
    vigil: Vigil,
}

impl Loop {
    fn run(&mut self, sink: &mut dyn Sink, clock: &dyn Fn() -> Instant) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut taken = Taken::default();
        loop {
            self.sleep(&mut events, clock)?;
            self.note(&events);
            self.accept();
            self.read(sink, &mut taken.replies);
            sink.look(&mut taken.replies);
            let stop = self.handle.take(&mut taken);
            self.answer(&mut taken.replies);
            taken.told.drain(..).for_each(|told| self.tell(&told));
            taken.questions.drain(..).for_each(|question| self.respond(question));
            if stop && self.stopping.is_none() {
                self.begin_stop();
            }
            self.write(sink);
            self.feed_the_starved();
            self.tick(sink);
            if self.stopping.is_some() && self.slots.iter().all(|slot| matches!(slot, Slot::Free)) {
                return Ok(());
            }
        }
    }

    /// Until there is something to do, or a tick is over. Sets the time.
    fn sleep(&mut self, events: &mut Events, clock: &dyn Fn() -> Instant) -> io::Result<()> {
        let busy = !self.ready.is_empty() || !self.handle.may_sleep(self.stopping.is_some());
        let outcome = if busy {
            look(&mut self.poll, events, std::time::Duration::ZERO)
        } else {
            self.wait(events, clock)
        };
        self.handle.awake();
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
    fn welcome(&mut self, mut stream: Stream) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.settings.connections_max => {
                self.slots.push(Slot::Free);
                self.slots.len() - 1
            }
            None => return,
        };
        if stream.register(self.poll.registry(), Token(CONNECTION_FIRST + slot)).is_err() {
            self.free.push(slot);
            return;
        }
        self.connections_made += 1;
        let id = ConnectionId(self.connections_made << SLOT_BITS | slot as u64);
        self.slots[slot] = Slot::Live(Box::new(Connection::new(id, stream, self.now)));
        self.written.push(slot);
        self.make_ready(slot);
    }

    /// Reads from all that can go on, once round, and hands their requests over.
    fn read(&mut self, sink: &mut dyn Sink, answered: &mut Vec<Reply>) {
        let mut submitted = false;
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.queued = false;
            let was_empty = connection.session.output().is_empty();
            let mut world = World {
                exports: &*self.exports,
                settings: &self.settings,
                opened: &self.opened,
                budget: &mut self.budget,
                events: &mut self.happened,
            };
            let progress = connection.read(&mut self.buffer, &mut world, self.now);
            let (requests, alive) = self.hand_over(slot, sink);
            submitted |= requests;
            if progress == Progress::Broken || !alive {
                self.drop_connection(slot, sink);
                continue;
            }
            let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { continue };
            connection.output_began(was_empty, self.now);
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
    fn hand_over(&mut self, slot: usize, sink: &mut dyn Sink) -> (bool, bool) {
        let Some(Slot::Live(connection)) = self.slots.get_mut(slot) else { return (false, false) };
        let (mut requests, mut alive) = (false, true);
        for event in self.happened.drain(..) {
            match event {
                Event::Request(request) => {
                    requests = true;
                    sink.submit(request);
                }
                Event::Query(query) => {
                    requests = true;
                    if let Some(unknown) = sink.ask(query) {
                        connection.session.tell(unknown.id.sequence, Ok(&[]), &mut self.budget);
                    }
                }
                Event::Opened(export) => {
                    connection.opened = Some(export);
                    *self.opened.entry(export).or_default() += 1;
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
        (requests, alive)
    }

    /// Queues what the disks answered.
    fn answer(&mut self, replies: &mut Vec<Reply>) {
        for Reply { id, result } in replies.drain(..) {
            if let Some(slot) = self.settle(id) {
                self.queue(slot, |session, budget| {
                    session.reply(id.sequence, result, budget);
                });
            }
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
    fn settle(&mut self, id: RequestId) -> Option<usize> {
        let slot = usize::try_from(id.connection.0 & ((1 << SLOT_BITS) - 1)).ok()?;
        match self.slots.get_mut(slot)? {
            Slot::Live(connection) if connection.id == id.connection => Some(slot),
            Slot::Departed(departed, in_flight) if *departed == id.connection => {
                if let Some(entry) = in_flight.close(id.sequence) {
                    self.budget.give(entry.bytes);
                }
                if in_flight.count() == 0 {
                    self.slots[slot] = Slot::Free;
                    self.free.push(slot);
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

    /// Answers a question of the daemon. Behind the reading, so that what was read has gone to the disks.
    fn respond(&mut self, question: Question) {
        // Who asked may have gone: then nobody wants to know.
        match question {
            Question::Connections(answer) => {
                let mut connections = BTreeMap::new();
                for export in self.slots.iter().filter_map(Slot::export) {
                    *connections.entry(export).or_default() += 1;
                }
                let _ = answer.try_send(connections);
            }
            Question::Withdraw { export, force, answer } => {
                let opened = |slot: &&Slot| slot.export() == Some(export);
                let connections = self.slots.iter().filter(opened).count();
                if connections > 0 && !force {
                    let _ = answer.try_send(Err(InUse { connections }));
                    return;
                }
                self.exports.withdraw(export);
                for slot in 0..self.slots.len() {
                    if self.slots[slot].export() == Some(export)
                        && let Slot::Live(connection) = &mut self.slots[slot]
                    {
                        connection.leave(self.now);
                        self.written.push(slot);
                        self.make_ready(slot);
                    }
                }
                let _ = answer.try_send(Ok(()));
            }
        }
    }

    /// Looks at deadlines, at most once a tick.
    fn tick(&mut self, sink: &mut dyn Sink) {
        let tick = Duration::from_nanos(u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX));
        if self.now.saturating_since(self.ticked) < tick {
            return;
        }
        self.ticked = self.now;
        let mut unstuck = false;
        for slot in 0..self.slots.len() {
            let Slot::Live(connection) = &self.slots[slot] else { continue };
            let hogs = !self.starved.is_empty() && connection.hogs(self.now);
            let deaf = self.stopping.is_some() && connection.is_unsent_for(STOP_MAX, self.now);
            // Payloads that wait for each other's memory would wait for ever: one a tick gives way.
            let stuck = !unstuck && connection.is_stuck(self.now);
            unstuck |= stuck;
            if hogs || stuck || deaf || connection.is_late(&self.settings, self.now) {
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
        if let Some(export) = connection.opened
            && let Some(connections) = self.opened.get_mut(&export)
        {
            *connections -= 1;
            if *connections == 0 {
                self.opened.remove(&export);
            }
        }
        // The last word to a client that is being dropped is a courtesy: it may not fit.
        connection.close_tls();
        let _ = connection.write(&mut self.budget, self.now);
        let in_flight = connection.session.depart(&mut self.budget);
        if in_flight.count() == 0 {
            self.free.push(slot);
        } else {
            self.slots[slot] = Slot::Departed(id, in_flight);
        }
        sink.closed(id);
    }
}
