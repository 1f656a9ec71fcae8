//! One socket and its session: moves bytes between them, no further than there is room.
//!
//! Readiness is edge-triggered: [`Readiness`] remembers it until the socket says otherwise, so
//! that a connection which stopped for want of room knows where to go on.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use units::Instant;

use crate::limits::{HANDSHAKE_MAX, HOLD_MAX};
use crate::request::ConnectionId;
use crate::session::{Blocked, Budget, Session, World};

/// The most slices of one vectored write: 64 replies with data.
const SLICES_MAX: usize = 128;
/// The most reads of one connection before the others have their turn.
const READS_PER_TURN_MAX: usize = 16;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Unix(stream) => stream.register(registry, token, interest),
            Self::Tcp(stream) => stream.register(registry, token, interest),
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tcp(stream) => stream.deregister(registry),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(slices),
            Self::Tcp(stream) => stream.write_vectored(slices),
        }
    }
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing more for now: the loop is told when there is.
    Waiting,
    /// There may be more, after the others had their turn.
    Unfinished,
    /// The socket is broken.
    Broken,
}

/// What came of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// There was nothing to send, or no room for it.
    Nothing,
    /// Some bytes went out, and made room here.
    Something,
    /// The socket is broken.
    Broken,
}

/// What the socket last said of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The client will send no more; a short read is then not the end of what there is to know.
    pub(crate) half_closed: bool,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    pub(crate) stream: Stream,
    pub(crate) readiness: Readiness,
    /// It waits in the loop's list of those that can go on.
    pub(crate) queued: bool,
    /// It waits in the loop's list of those that want memory.
    pub(crate) starved: bool,
    since: Instant,
    /// Since when the payload that is arriving arrives.
    payload_since: Instant,
    /// Since when the first unsent message waits to be sent.
    output_since: Instant,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, stream: Stream, now: Instant) -> Self {
        Self {
            id,
            session: Session::new(id),
            stream,
            readiness: Readiness { readable: true, writable: true, half_closed: false },
            queued: false,
            starved: false,
            since: now,
            payload_since: now,
            output_since: now,
        }
    }

    /// Reads what there is and there is room for, and has the session make events of it.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        world: &mut World<'_>,
        now: Instant,
    ) -> Progress {
        let was_in_payload = self.session.is_in_payload();
        if self.session.blocked().is_some() {
            self.session.resume(world);
        }
        let mut progress = Progress::Unfinished;
        for _ in 0..READS_PER_TURN_MAX {
            if !self.readiness.readable || !self.session.wants_input() {
                progress = Progress::Waiting;
                break;
            }
            if !self.read_once(buffer, world) {
                progress = Progress::Broken;
                break;
            }
        }
        if !was_in_payload || !self.session.is_in_payload() {
            self.payload_since = now;
        }
        progress
    }

    /// One read; false if the socket is broken.
    fn read_once(&mut self, buffer: &mut [u8], world: &mut World<'_>) -> bool {
        let (outcome, space_len, into_payload) =
            if let Some(space) = self.session.payload_space(world.budget) {
                (self.stream.read(space), space.len(), true)
            } else if self.session.blocked().is_some() {
                return true;
            } else {
                (self.stream.read(buffer), buffer.len(), false)
            };
        match outcome {
            Ok(0) => {
                self.readiness.readable = false;
                self.session.finish(world.budget);
            }
            Ok(count) => {
                // A short read from a stream has emptied it, and the next byte is a new edge. Not so if the
                // end has come already: its edge is past.
                self.readiness.readable = count == space_len || self.readiness.half_closed;
                if into_payload {
                    self.session.payload_filled(count, world);
                } else {
                    self.session.feed(&buffer[..count], world);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }

    /// Sends what there is and the socket takes.
    pub(crate) fn write(&mut self, budget: &mut Budget, now: Instant) -> Sending {
        let mut sending = Sending::Nothing;
        while self.readiness.writable && !self.session.output().is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (used, bytes) = self.session.output().slices(&mut slices);
            match self.stream.write(&slices[..used]) {
                Ok(0) => return Sending::Broken,
                Ok(count) => {
                    self.readiness.writable = count == bytes;
                    sending = Sending::Something;
                    if self.session.sent(count, budget) {
                        self.output_since = now;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readiness.writable = false;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Sending::Broken,
            }
        }
        sending
    }

    /// Output was added; `was_empty` before.
    pub(crate) fn output_began(&mut self, was_empty: bool, now: Instant) {
        if was_empty {
            self.output_since = now;
        }
    }

    /// Whether its part is played: nothing more comes, nothing is outstanding, nothing is unsent.
    pub(crate) fn is_over(&self) -> bool {
        self.session.is_finished()
            && self.session.outstanding() == 0
            && self.session.output().is_empty()
    }

    /// Whether it has haggled for too long.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.session.is_in_handshake() && now.saturating_since(self.since) >= HANDSHAKE_MAX
    }

    /// Whether it has sat for too long on memory that others wait for: a message that does not get through
    /// in this time is a client asleep, or one that trickles.
    pub(crate) fn hogs(&self, now: Instant) -> bool {
        let arriving = self.session.is_in_payload()
            && self.session.blocked() != Some(Blocked::Memory)
            && now.saturating_since(self.payload_since) >= HOLD_MAX;
        arriving || self.is_unsent_for(HOLD_MAX, now)
    }

    /// Whether its payload has waited for too long for memory to grow into, while it holds some itself.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.session.is_in_payload()
            && self.session.blocked() == Some(Blocked::Memory)
            && now.saturating_since(self.payload_since) >= HOLD_MAX
    }

    /// Whether its first unsent message has waited so long.
    pub(crate) fn is_unsent_for(&self, time: units::Duration, now: Instant) -> bool {
        !self.session.output().is_empty() && now.saturating_since(self.output_since) >= time
    }
}
