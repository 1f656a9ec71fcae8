//! One socket and its session: moves bytes between them, no further than there is room.
//!
//! Readiness is edge-triggered: [`Readiness`] remembers it until the socket says otherwise, so
//! that a connection which stopped for want of room knows where to go on.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::{ServerConfig, ServerConnection};
use units::Instant;

use crate::limits::{MEMORY_HOLD_MAX, NEXT_HEAD_BYTES, STOP_TIMEOUT, TLS_BYTES_MAX};
use crate::proto::export::ExportId;
use crate::proto::request::ConnectionId;
use crate::proto::session::{Blocked, Budget, Session, SessionContext};
use crate::proto::settings::Settings;
use crate::proto::tls::Identity;

/// The most slices of one vectored write: 64 replies with data.
const SLICES_MAX: usize = 128;
/// So many times everything was sent at once before the loop is no longer told of room to write:
/// telling it at every reply that a client takes would wake it twice a request, and looking away
/// costs a system call.
const CALM_SENDS: u8 = 32;
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
        match self {
            Self::Unix(stream) => stream.register(registry, token, Interest::READABLE),
            Self::Tcp(stream) => stream.register(registry, token, Interest::READABLE),
        }
    }

    /// Has the loop told when there is something to read, and with `writable` also when there is
    /// room to write.
    fn watch(&mut self, registry: &Registry, token: Token, writable: bool) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let interest = if writable { both } else { Interest::READABLE };
        match self {
            Self::Unix(stream) => stream.reregister(registry, token, interest),
            Self::Tcp(stream) => stream.reregister(registry, token, interest),
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tcp(stream) => stream.deregister(registry),
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(slices),
            Self::Tcp(stream) => stream.write_vectored(slices),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read_vectored(into),
            Self::Tcp(stream) => stream.read_vectored(into),
        }
    }
}

/// An encrypted connection's half-way house between socket and session.
#[derive(Debug)]
struct Secure {
    tls: ServerConnection,
    /// Bytes for the socket: what was said before TLS began, then TLS.
    raw: Vec<u8>,
    raw_sent: usize,
    /// Decrypted bytes may be waiting that the session had no room for.
    plain_waits: bool,
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
    pub(crate) memory_blocked: bool,
    /// What it has open, until it is dropped.
    pub(crate) opened: Option<ExportId>,
    secure: Option<Box<Secure>>,
    since: Instant,
    /// When a byte last came, or could not for want of room here.
    read_at: Instant,
    /// When a byte last went out.
    sent_at: Instant,
    /// Since when it is told that it has to leave.
    left_since: Option<Instant>,
    /// How many more times all has to be sent at once before nobody waits for room to write; 0:
    /// nobody does.
    watched_for: u8,
    /// When the arriving payload began, or last got memory that it had waited for.
    payload_since: Instant,
    /// The last read got memory for a payload that had waited for it.
    pub(crate) got_memory: bool,
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
            memory_blocked: false,
            opened: None,
            secure: None,
            since: now,
            read_at: now,
            sent_at: now,
            left_since: None,
            watched_for: 0,
            payload_since: now,
            got_memory: false,
            output_since: now,
        }
    }

    /// Reads what there is and there is room for, and has the session make events of it.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        context: &mut SessionContext<'_>,
        now: Instant,
    ) -> Progress {
        let (before, waited) = (self.session.payload_progress(), self.waits_for_memory());
        if self.session.blocked().is_some() {
            self.session.resume(context);
            self.read_at = now;
        }
        let mut progress = Progress::Unfinished;
        for _ in 0..READS_PER_TURN_MAX {
            if !self.can_read() {
                progress = Progress::Waiting;
                break;
            }
            let alive = if self.secure.is_some() {
                self.read_secure(buffer, context)
            } else {
                self.read_once(buffer, context)
            };
            if !alive {
                progress = Progress::Broken;
                break;
            }
            self.read_at = now;
        }
        let after = self.session.payload_progress();
        self.got_memory = waited && after != before;
        if !self.session.is_in_payload() || after.payloads != before.payloads || self.got_memory {
            self.payload_since = now;
        }
        progress
    }

    /// Whether a payload is arriving and there is no memory for more of it.
    fn waits_for_memory(&self) -> bool {
        self.session.is_in_payload() && self.session.blocked() == Some(Blocked::PayloadMemory)
    }

    fn can_read(&self) -> bool {
        match &self.secure {
            None => self.readiness.readable && self.session.wants_input(),
            Some(secure) => {
                (self.session.wants_input() || self.session.is_in_tls_handshake())
                    && (self.readiness.readable || secure.plain_waits)
            }
        }
    }

    /// From now on the connection is encrypted; what was to be said before goes out as it is. False
    /// if the client did not wait for it: what it sent as plain text must not count as said in TLS.
    pub(crate) fn start_tls(&mut self, config: Arc<ServerConfig>, budget: &mut Budget) -> bool {
        let Ok(mut tls) = ServerConnection::new(config) else { return false };
        tls.set_buffer_limit(Some(TLS_BYTES_MAX));
        let raw = Vec::from(self.session.output());
        self.session.sent(raw.len(), budget);
        self.secure = Some(Box::new(Secure { tls, raw, raw_sent: 0, plain_waits: false }));
        self.session.take_backlog().is_empty()
    }

    /// One read of an encrypted connection: of what is decrypted, else of the socket. False if it
    /// is broken.
    fn read_secure(&mut self, buffer: &mut [u8], context: &mut SessionContext<'_>) -> bool {
        let Some(Secure { tls, plain_waits, .. }) = self.secure.as_deref_mut() else { return true };
        if self.session.is_in_tls_handshake() && !tls.is_handshaking() {
            let certificate = tls.peer_certificates().and_then(|all| all.first());
            self.session.tls_established(certificate.map(Identity::of));
        }
        if self.session.wants_input() {
            match tls.reader().read(buffer) {
                Ok(count) if count > 0 => {
                    *plain_waits = true;
                    self.session.feed(&buffer[..count], context);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => *plain_waits = false,
                // The end, said as TLS wants it or not.
                Ok(_) | Err(_) => {
                    *plain_waits = false;
                    self.readiness.readable = false;
                    self.session.finish(context.budget);
                    return true;
                }
            }
        }
        match tls.read_tls(&mut self.stream) {
            Ok(0) => {
                self.readiness.readable = false;
                self.session.finish(context.budget);
            }
            Ok(_) => {
                // What is wrong with it is told the client when the connection is dropped.
                let Ok(state) = tls.process_new_packets() else { return false };
                *plain_waits = state.plaintext_bytes_to_read() > 0 || !tls.is_handshaking();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }

    /// One read; false if the socket is broken.
    fn read_once(&mut self, buffer: &mut [u8], context: &mut SessionContext<'_>) -> bool {
        // The head behind a payload comes along with it, and not much more, because that would have
        // to be copied.
        let (outcome, payload_len, wanted) =
            if let Some(space) = self.session.payload_space(context.budget) {
                let payload_len = space.len();
                let ahead = &mut buffer[..NEXT_HEAD_BYTES];
                let mut parts = [IoSliceMut::new(space), IoSliceMut::new(ahead)];
                (self.stream.read_vectored(&mut parts), payload_len, payload_len + NEXT_HEAD_BYTES)
            } else if self.session.blocked().is_some() {
                return true;
            } else {
                let piece = buffer.len().min(self.session.receive_bytes());
                (self.stream.read(&mut buffer[..piece]), 0, piece)
            };
        match outcome {
            Ok(0) => {
                self.readiness.readable = false;
                self.session.finish(context.budget);
            }
            Ok(count) => {
                // A short read from a stream has emptied it, and the next byte is a new edge. Not
                // so if the end has come already: its edge is past.
                self.readiness.readable = count == wanted || self.readiness.half_closed;
                let filled = count.min(payload_len);
                if filled > 0 {
                    self.session.payload_filled(filled, context);
                }
                if filled < count {
                    self.session.feed(&buffer[..count - filled], context);
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
        if self.secure.is_some() {
            return self.write_secure(budget, now);
        }
        let mut sending = Sending::Nothing;
        while self.readiness.writable && !self.session.output().is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (used, bytes) = self.session.output().slices(&mut slices);
            match self.stream.write(&slices[..used]) {
                Ok(0) => return Sending::Broken,
                Ok(count) => {
                    self.readiness.writable = count == bytes;
                    sending = Sending::Something;
                    self.sent_at = now;
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

    fn write_secure(&mut self, budget: &mut Budget, now: Instant) -> Sending {
        let Some(secure) = self.secure.as_deref_mut() else { return Sending::Nothing };
        let mut sending = Sending::Nothing;
        while self.readiness.writable {
            if secure.raw.is_empty() && !secure.encrypt(&mut self.session, budget) {
                return Sending::Broken;
            }
            if secure.raw.is_empty() {
                break;
            }
            match self.stream.write(&[IoSlice::new(&secure.raw[secure.raw_sent..])]) {
                Ok(0) => return Sending::Broken,
                Ok(count) => {
                    secure.raw_sent += count;
                    self.sent_at = now;
                    self.output_since = now;
                    sending = Sending::Something;
                    if secure.raw_sent == secure.raw.len() {
                        secure.raw.clear();
                        secure.raw_sent = 0;
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

    /// After a write: has the loop told of room to write while that is waited for. False if that
    /// cannot be.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> bool {
        let before = self.watched_for;
        let calmer = before.saturating_sub(1);
        self.watched_for = if self.readiness.writable { calmer } else { CALM_SENDS };
        let (was, is) = (before > 0, self.watched_for > 0);
        // What became ready meanwhile is told when it is watched: no edge is lost.
        was == is || self.stream.watch(registry, token, is).is_ok()
    }

    /// Tells the client that TLS ends here: "the server MUST close down the TLS session".
    pub(crate) fn close_tls(&mut self) {
        if let Some(secure) = &mut self.secure {
            secure.tls.send_close_notify();
        }
    }

    /// Whoever has this open has to leave; what is outstanding is still answered.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.session.begin_shutdown();
        self.left_since.get_or_insert(now);
    }

    fn has_unsent(&self) -> bool {
        let encrypted = self.secure.as_ref().is_some_and(|secure| !secure.raw.is_empty());
        encrypted || !self.session.output().is_empty()
    }

    /// Output was added; `was_empty` before.
    pub(crate) fn output_began(&mut self, was_empty: bool, now: Instant) {
        if was_empty {
            self.output_since = now;
        }
    }

    /// Whether its part is played: nothing more comes, nothing is outstanding, nothing is unsent.
    pub(crate) fn is_over(&self) -> bool {
        let finished = self.session.is_finished() && self.session.outstanding() == 0;
        // Whoever has to leave gets an answer to what it has sent so far.
        let left = self.session.is_drained() && !self.readiness.readable;
        (finished || left) && !self.has_unsent()
    }

    /// Whether it has had its time: haggled for too long, let a message stand still that has begun,
    /// or stayed where it has to leave.
    pub(crate) fn is_late(&self, settings: &Settings, now: Instant) -> bool {
        let haggles = self.session.is_in_handshake()
            && now.saturating_since(self.since) >= settings.handshake_timeout;
        let stall = settings.stall_timeout;
        let writes = self.session.is_in_message() && now.saturating_since(self.read_at) >= stall;
        let reads = self.is_unsent_for(stall, now) && now.saturating_since(self.sent_at) >= stall;
        let stays = self.session.is_drained()
            && self.left_since.is_some_and(|since| now.saturating_since(since) >= STOP_TIMEOUT);
        haggles || writes || reads || stays
    }

    /// Whether it has sat for too long on memory that others wait for: a message that does not get
    /// through in this time is a client asleep, or one that trickles.
    pub(crate) fn holds_memory_too_long(&self, now: Instant) -> bool {
        let arriving = self.session.is_in_payload()
            && self.session.blocked() != Some(Blocked::PayloadMemory)
            && now.saturating_since(self.payload_since) >= MEMORY_HOLD_MAX;
        arriving || self.is_unsent_for(MEMORY_HOLD_MAX, now)
    }

    /// Whether its payload has waited for too long for memory to grow into, while it holds some
    /// itself.
    pub(crate) fn is_deadlocked(&self, now: Instant) -> bool {
        self.waits_for_memory() && now.saturating_since(self.payload_since) >= MEMORY_HOLD_MAX
    }

    /// Whether its first unsent message has waited so long.
    pub(crate) fn is_unsent_for(&self, time: units::Duration, now: Instant) -> bool {
        self.has_unsent() && now.saturating_since(self.output_since) >= time
    }
}

impl Secure {
    /// Makes TLS of what the session has to say, as much as is taken at once; false if that cannot
    /// be.
    fn encrypt(&mut self, session: &mut Session, budget: &mut Budget) -> bool {
        while !self.tls.is_handshaking() && !session.output().is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (used, _) = session.output().slices(&mut slices);
            match self.tls.writer().write_vectored(&slices[..used]) {
                Ok(0) => break,
                Ok(count) => {
                    session.sent(count, budget);
                }
                Err(_) => return false,
            }
        }
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut self.raw).is_err() {
                return false;
            }
        }
        true
    }
}
