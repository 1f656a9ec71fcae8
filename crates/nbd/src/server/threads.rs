//! A server: its listeners, its settings, and its threads.
//!
//! ```text
//!  listeners ─▶ first loop ─┬─▶ its own connections        each loop: see `event_loop`
//!                           └─▶ the other loops' inboxes
//! ```

use std::io;
use std::thread;

use mio::{Poll, Waker};
use units::{Bytes, Instant};

use crate::address::Address;
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, PAYLOADS_BYTES_MAX, READ_MODIFY_WRITE_BYTES, THREADS_MAX,
};
use crate::proto::export::Exports;
use crate::proto::settings::Settings;
use crate::server::event_loop::{EventLoop, WAKER, listener_token};
use crate::server::handle::{Handle, waker_failed};
use crate::server::handler::RequestHandler;
use crate::server::listener::{Listener, check_count};
use crate::server::loop_group::LoopGroup;
use crate::server::loop_id::LoopId;

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    /// One per thread.
    polls: Vec<Poll>,
    listeners: Vec<Listener>,
    handle: Handle,
    payload_memory: usize,
    settings: Settings,
}

impl Server {
    /// Listens on all addresses, or on none if one of them fails. A stale socket file is replaced.
    ///
    /// # Errors
    /// If an address is in use or cannot be listened on, or there are none or too many.
    pub fn bind(addresses: &[Address]) -> io::Result<Self> {
        check_count(addresses.len())?;
        Self::on(addresses.iter().map(Listener::bind).collect::<io::Result<_>>()?)
    }

    /// Listens on the sockets that the service manager has opened (`LISTEN_FDS`), in place of any
    /// address; without such sockets, as [`Server::bind`]. Clients that connect while no server
    /// runs wait for the next one.
    ///
    /// # Errors
    /// As [`Server::bind`]; or a descriptor of the service manager is not a listening socket.
    pub fn adopt_or_bind(addresses: &[Address]) -> io::Result<Self> {
        let inherited = Listener::inherited()?;
        if inherited.is_empty() {
            return Self::bind(addresses);
        }
        check_count(inherited.len())?;
        Self::on(inherited)
    }

    fn on(mut listeners: Vec<Listener>) -> io::Result<Self> {
        let (polls, handle) = polls(1)?;
        register(&mut listeners, &polls[0])?;
        let (payload_memory, settings) = (PAYLOADS_BYTES_MAX, Settings::default());
        Ok(Self { polls, listeners, handle, payload_memory, settings })
    }

    /// Has a stop serve clients in their handshake for
    /// [`NEWCOMERS_TIME`](crate::limits::NEWCOMERS_TIME) more, as their sockets stay open for the
    /// next server, instead of refusing them.
    #[must_use]
    pub fn with_sockets_that_outlive_it(mut self) -> Self {
        self.listeners.iter_mut().for_each(Listener::outlive);
        self
    }

    /// Sets the number of threads, each with its own connections. To be called before
    /// [`Server::handle`].
    ///
    /// # Errors
    /// A thread's poll or waker cannot be made.
    ///
    /// # Panics
    /// Unless it is 1 to [`THREADS_MAX`] threads.
    pub fn with_threads(mut self, threads: usize) -> io::Result<Self> {
        assert!((1..=THREADS_MAX).contains(&threads), "1 to {THREADS_MAX} threads");
        for listener in &mut self.listeners {
            listener.deregister(self.polls[0].registry())?;
        }
        (self.polls, self.handle) = polls(threads)?;
        register(&mut self.listeners, &self.polls[0])?;
        Ok(self)
    }

    /// Sets the limits of clients.
    ///
    /// # Errors
    /// The first setting outside of its limits.
    pub fn with_settings(mut self, settings: Settings) -> Result<Self, &'static str> {
        settings.check()?;
        self.settings = settings;
        Ok(self)
    }

    /// Limits the payload memory of all connections together to less than
    /// [`PAYLOADS_BYTES_MAX`](crate::limits::PAYLOADS_BYTES_MAX). Each thread has at least the
    /// memory that one connection may use.
    #[must_use]
    pub fn with_payload_memory(mut self, memory: Bytes) -> Self {
        let wanted = usize::try_from(memory.0).unwrap_or(usize::MAX);
        self.payload_memory =
            wanted.clamp(BYTES_IN_FLIGHT_MAX + READ_MODIFY_WRITE_BYTES, PAYLOADS_BYTES_MAX);
        self
    }

    /// The addresses that it listens on, in the order of [`Server::bind`]; for port 0, with the
    /// chosen port.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn addresses(&self) -> io::Result<Vec<Address>> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// The handle that sends replies to the server and stops it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves on this thread until [`Handle::stop`]. Requests go to `handler`; `clock` is read once
    /// per iteration.
    ///
    /// # Errors
    /// Only if the system's poll fails, or the completion descriptors cannot be made: no action of
    /// a client is an error of the server.
    ///
    /// # Panics
    /// If more than one thread was set.
    pub fn run(
        self,
        exports: &dyn Exports,
        handler: &mut dyn RequestHandler,
        clock: &dyn Fn() -> Instant,
    ) -> io::Result<()> {
        let group = self.group();
        let settings = self.settings.clone();
        let mut loops = self.loops(exports, &settings, &group, clock());
        let (Some(mut only), None) = (loops.next(), loops.next()) else {
            panic!("each thread has a handler of its own");
        };
        only.serve(handler, clock)
    }

    /// As [`Server::run`], on one thread per handler; the calling thread is the first of them.
    ///
    /// # Errors
    /// As [`Server::run`]; or a thread cannot be started. All loops have ended then.
    ///
    /// # Panics
    /// If the number of handlers is not the number of threads.
    pub fn run_on_threads<S: RequestHandler + Send>(
        self,
        exports: &dyn Exports,
        handlers: &mut [S],
        clock: &(dyn Fn() -> Instant + Sync),
    ) -> io::Result<()> {
        assert_eq!(self.polls.len(), handlers.len(), "each thread has a handler of its own");
        let group = self.group();
        let (settings, handle) = (self.settings.clone(), self.handle());
        let mut loops = self.loops(exports, &settings, &group, clock()).zip(handlers);
        let (mut first, handler) = loops.next().expect("there is at least one thread");
        thread::scope(|scope| {
            let others = loops.map(|(mut other, handler)| {
                let name = format!("nbd-{}", other.loop_id().index() + 1);
                let work = move || other.serve(handler, clock);
                thread::Builder::new().name(name).spawn_scoped(scope, work)
            });
            let started = others.collect::<io::Result<Vec<_>>>();
            let others = started.inspect_err(|_| {
                for loop_id in LoopId::all(handle.members()) {
                    handle.mark_ended(loop_id);
                }
                handle.stop();
            })?;
            let ended = first.serve(handler, clock);
            let join = |other: thread::ScopedJoinHandle<'_, io::Result<()>>| {
                other.join().expect("a thread of the server does not panic")
            };
            others.into_iter().map(join).fold(ended, io::Result::and)
        })
    }

    fn group(&self) -> LoopGroup {
        let sockets_outlive = self.listeners.iter().any(Listener::outlives);
        LoopGroup::new(self.polls.len(), self.settings.connections_max, sockets_outlive)
    }

    fn loops<'a>(
        self,
        exports: &'a dyn Exports,
        settings: &'a Settings,
        group: &'a LoopGroup,
        now: Instant,
    ) -> impl Iterator<Item = EventLoop<'a>> {
        let memory = (self.payload_memory / self.polls.len())
            .max(BYTES_IN_FLIGHT_MAX + READ_MODIFY_WRITE_BYTES);
        let Self { polls, mut listeners, handle, .. } = self;
        let loop_ids = LoopId::all(polls.len());
        loop_ids.zip(polls).map(move |(loop_id, poll)| {
            // The first loop takes all listeners.
            let listeners = core::mem::take(&mut listeners);
            let (seat, context) = ((loop_id, handle.clone()), (exports, settings, group));
            EventLoop::new(seat, (poll, listeners), context, memory, now)
        })
    }
}

/// The polls of `threads` threads, and the handle that wakes them.
fn polls(threads: usize) -> io::Result<(Vec<Poll>, Handle)> {
    let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let waker = |poll: &Poll| Waker::new(poll.registry(), WAKER);
    let wakers = polls.iter().map(waker).collect::<io::Result<_>>();
    Ok((polls, Handle::new(wakers.map_err(|error| waker_failed(&error))?)))
}

fn register(listeners: &mut [Listener], poll: &Poll) -> io::Result<()> {
    for (index, listener) in listeners.iter_mut().enumerate() {
        listener.register(poll.registry(), listener_token(index))?;
    }
    Ok(())
}
