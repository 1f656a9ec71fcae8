//! One device: its queues, and both threads' access to them.
//!
//! The thread of the control socket sets the device up; an event loop of the server takes requests
//! from its queues and completes them ([`Served`]). A device has one virtual machine monitor at a
//! time: the next one is served when no request of the one before is in progress.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nbd::{ConnectionId, Errno, Export, Intake, QueueClient, Refused, Registration, Transport};
use rustix::net::Shutdown;

use crate::config_space::feature;
use crate::in_flight::InFlightMemory;
use crate::limits::QUEUES_MAX;
use crate::memory::SharedMemory;
use crate::ring::{Broken, Ring, Terms, Unusable, of_cookie};

/// How the device is connected to an event loop.
#[derive(Debug)]
pub(crate) enum Link {
    /// Not yet.
    Waiting,
    Attached(ConnectionId, Registration),
    Refused(Refused),
    /// No longer.
    Closed,
}

/// The state that both threads change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) export: Export,
    pub(crate) features: u64,
    pub(crate) memory: Option<SharedMemory>,
    pub(crate) in_flight: Option<InFlightMemory>,
    pub(crate) rings: Vec<Ring>,
    pub(crate) link: Link,
    /// A duplicate of the control socket, to end it.
    socket: Option<OwnedFd>,
    /// Where changes of the configuration space are reported.
    pub(crate) events: Option<OwnedFd>,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    state: Mutex<State>,
    changed: Condvar,
}

impl Device {
    /// The device of an export. `socket` is a duplicate of the control socket.
    pub(crate) fn new(export: Export, socket: OwnedFd) -> Self {
        let ring = |index| Ring::new(u16::try_from(index).expect("few queues"));
        let state = State {
            export,
            features: 0,
            memory: None,
            in_flight: None,
            rings: (0..QUEUES_MAX).map(ring).collect(),
            link: Link::Waiting,
            socket: Some(socket),
            events: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A poisoned lock is used on: the state is whole between statements.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done`.
    pub(crate) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        done: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waits = |state: &mut State| !done(state);
        self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops a queue, and waits until none of its requests is in progress.
    pub(crate) fn stop_ring(&self, index: usize) {
        let mut state = self.state();
        state.rings[index].stop();
        state.rings[index].wake();
        state = self.wait(state, |state| state.rings[index].is_drained() || !state.is_attached());
        if let (Link::Attached(_, registration), Some(kick)) =
            (&state.link, &state.rings[index].kick)
        {
            registration.remove(kick.as_fd());
        }
        state.rings[index].kick = None;
    }

    /// Stops all queues.
    pub(crate) fn stop_rings(&self) {
        // All at once, so that none takes requests while another one is waited for.
        self.state().rings.iter_mut().for_each(Ring::stop);
        (0..QUEUES_MAX).for_each(|index| self.stop_ring(index));
    }

    /// Ends the control socket, so that its thread ends.
    pub(crate) fn hang_up(&self) {
        self.state().hang_up();
    }

    /// The export has another size now.
    pub(crate) fn resize(&self, export: &Export) {
        let mut state = self.state();
        if state.export.size == export.size {
            return;
        }
        state.export = export.clone();
        state.report_config_change();
    }
}

impl State {
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self.link, Link::Attached(..))
    }

    fn hang_up(&self) {
        if let Some(socket) = &self.socket {
            // Fails if the other side has closed it already.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Whether the driver and the monitor have chosen this feature.
    pub(crate) const fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Starts a queue that has its descriptor.
    pub(crate) fn start_ring(&mut self, index: usize) -> Result<(), Unusable> {
        let (shared, event_index) = (self.memory.as_ref(), self.has(feature::EVENT_INDEX));
        let enabled = !self.has(feature::VHOST_USER_PROTOCOL);
        let Link::Attached(_, registration) = &self.link else { return Err(Unusable) };
        let ring = &mut self.rings[index];
        let in_flight = self.in_flight.as_ref();
        let in_flight = in_flight.and_then(|memory| memory.queue(index, ring.size()));
        let kick = ring.kick.as_ref().ok_or(Unusable)?;
        registration.add(kick.as_fd()).map_err(|_| Unusable)?;
        ring.enabled |= enabled;
        ring.start(shared.ok_or(Unusable)?, event_index, in_flight)
    }

    /// Tells the monitor that the configuration space has changed.
    fn report_config_change(&mut self) {
        // The request's number, the protocol's version, and no payload.
        const MESSAGE: [[u8; 4]; 3] =
            [2_u32.to_ne_bytes(), 1_u32.to_ne_bytes(), 0_u32.to_ne_bytes()];
        let Some(events) = &self.events else { return };
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        // A monitor that does not read its events learns of the size when it asks.
        let _ = rustix::net::send(events, MESSAGE.as_flattened(), flags);
    }

    fn tell_broken(&self, ring: usize, broken: Broken) {
        let name = &self.export.name;
        eprintln!(
            "vhost-user: volume {name}: queue {ring} is stopped until its device is reset: \
             {broken}"
        );
    }
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use crate::chain::BadChain;
        f.write_str(match self {
            Self::AvailableRing => "its available ring is not one",
            Self::UsedRing => "its used ring cannot be written",
            Self::Twice => "a request was made available twice",
            Self::Chain(BadChain::Descriptors) => "a chain leaves its descriptor table",
            Self::Chain(BadChain::Memory) => "a chain leaves the guest's memory",
            Self::Chain(BadChain::Order) => "a chain has what is read behind what is written",
            Self::Chain(BadChain::Header) => "a chain has no header",
            Self::Chain(BadChain::Status) => "a chain has no byte for its status",
        })
    }
}

/// The device, as an event loop serves it.
#[derive(Debug)]
pub(crate) struct Served {
    device: Arc<Device>,
    export: Export,
}

impl Served {
    pub(crate) fn new(device: &Arc<Device>) -> Self {
        Self { device: Arc::clone(device), export: device.state().export.clone() }
    }

    fn link(&self, link: Link) {
        let mut state = self.device.state();
        state.link = link;
        if matches!(state.link, Link::Closed) {
            state.hang_up();
        }
        self.device.changed.notify_all();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !matches!(self.device.state().link, Link::Refused(_)) {
            self.link(Link::Closed);
        }
    }
}

impl QueueClient for Served {
    fn export(&self) -> &Export {
        &self.export
    }

    fn transport(&self) -> Transport {
        Transport::VhostUser
    }

    fn attached(&mut self, connection: ConnectionId, registration: Registration) {
        self.link(Link::Attached(connection, registration));
    }

    fn refused(&mut self, why: Refused) {
        self.link(Link::Refused(why));
    }

    fn receive(&mut self, intake: &mut Intake<'_>) {
        let mut state = self.device.state();
        let flushes = state.has(feature::FLUSH);
        let terms = Terms { serial: &self.export.name, flushes };
        for index in 0..state.rings.len() {
            if let Some(broken) = state.rings[index].receive(terms, intake) {
                state.tell_broken(index, broken);
            }
        }
        self.device.notify_drained(&state);
    }

    fn complete(&mut self, cookie: u64, result: Result<Vec<u8>, Errno>) -> Vec<u8> {
        let mut state = self.device.state();
        let (ring, head) = of_cookie(cookie);
        let (buffer, broken) = state.rings[ring].complete(head, result);
        if let Some(broken) = broken {
            state.tell_broken(ring, broken);
        }
        self.device.notify_drained(&state);
        buffer
    }

    fn flush(&mut self) {
        self.device.state().rings.iter_mut().for_each(Ring::flush);
    }

    fn closed(&mut self) {
        self.link(Link::Closed);
    }
}

impl Device {
    /// Wakes the control thread if it may wait for a queue's last request.
    fn notify_drained(&self, state: &State) {
        if state.rings.iter().any(|ring| !ring.is_started()) {
            self.changed.notify_all();
        }
    }
}
