//! One socket and its session: moves bytes between them, as far as there is room.
//!
//! Readiness is edge-triggered: [`Readiness`] keeps it until the socket reports that it would
//! block, so that a connection that stopped for lack of room knows where to continue.

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
/// After this number of complete sends the loop no longer polls for writability. Polling for it
/// while a client takes every reply wakes the loop twice per request; changing the poll costs a
/// system call.
const COMPLETE_SENDS: u8 = 32;
/// The most reads of one connection per iteration.
const READS_PER_ITERATION_MAX: usize = 16;

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

    /// Polls for readability, and with `writable` also for writability.
    fn reregister(&mut self, registry: &Registry, token: Token, writable: bool) -> io::Result<()> {
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

/// The TLS state between socket and session.
#[derive(Debug)]
struct Secure {
    tls: ServerConnection,
    /// Bytes for the socket: the output before TLS began, then TLS records.
    raw: Vec<u8>,
    raw_sent: usize,
    /// Decrypted bytes may be waiting for room in the session.
    has_plain_text: bool,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing more until the socket is readable.
    Waiting,
    /// There may be more; other connections are read first.
    Unfinished,
    /// The socket is broken.
    Broken,
}

/// The result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// There was nothing to send, or no room for it.
    Nothing,
    /// Some bytes were sent, which freed room.
    Something,
    /// The socket is broken.
    Broken,
}

/// The readiness that the socket last reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The client will send no more. A short read is then not the last event.
    pub(crate) half_closed: bool,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    pub(crate) stream: Stream,
    pub(crate) readiness: Readiness,
    /// Whether it is in the loop's list of ready connections.
    pub(crate) queued: bool,
    /// Whether it is in the loop's list of memory-blocked connections.
    pub(crate) memory_blocked: bool,
    /// The export that counts this connection, until it is dropped.
    pub(crate) opened: Option<ExportId>,
    secure: Option<Box<Secure>>,
    since: Instant,
    /// When a byte last arrived, or could not be taken for lack of room.
    read_at: Instant,
    /// When a byte was last sent.
    sent_at: Instant,
    /// When its shutdown began.
    shutdown_since: Option<Instant>,
    /// The number of complete sends until the loop stops polling for writability; 0: it does not
    /// poll.
    sends_until_unpolled: u8,
    /// When the arriving payload began, or last got memory that it had waited for.
    payload_since: Instant,
    /// The last read got memory for a payload that had waited for it.
    pub(crate) got_memory: bool,
    /// When the first unsent message was queued.
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
            shutdown_since: None,
            sends_until_unpolled: 0,
            payload_since: now,
            got_memory: false,
            output_since: now,
        }
    }

    /// Reads as far as there is input and room, and has the session produce events.
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
        for _ in 0..READS_PER_ITERATION_MAX {
            if !self.can_read() {
                progress = Progress::Waiting;
                break;
            }
            let alive = if self.secure.is_some() {
                self.read_secure(buffer, context)
            } else {
                self.discard_after_read(buffer, context)
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

    /// Whether a short payload is due at once. The pieces of a long one are fewer and longer if the
    /// loop sleeps between them.
    pub(crate) fn awaits_short_payload(&self) -> bool {
        self.session.is_in_short_payload() && self.session.blocked().is_none()
    }

    fn can_read(&self) -> bool {
        match &self.secure {
            None => self.readiness.readable && self.session.wants_input(),
            Some(secure) => {
                (self.session.wants_input() || self.session.is_in_tls_handshake())
                    && (self.readiness.readable || secure.has_plain_text)
            }
        }
    }

    /// Starts TLS; output queued before is sent unencrypted. Returns false if the client sent more
    /// before TLS began: plain text must not count as sent over TLS.
    pub(crate) fn start_tls(&mut self, config: Arc<ServerConfig>, budget: &mut Budget) -> bool {
        let Ok(mut tls) = ServerConnection::new(config) else { return false };
        tls.set_buffer_limit(Some(TLS_BYTES_MAX));
        let raw = Vec::from(self.session.output());
        self.session.sent(raw.len(), budget);
        self.secure = Some(Box::new(Secure { tls, raw, raw_sent: 0, has_plain_text: false }));
        self.session.take_backlog().is_empty()
    }

    /// One read of an encrypted connection: of decrypted bytes, else of the socket. Returns false
    /// if the connection is broken.
    fn read_secure(&mut self, buffer: &mut [u8], context: &mut SessionContext<'_>) -> bool {
        let Some(Secure { tls, has_plain_text, .. }) = self.secure.as_deref_mut() else {
            return true;
        };
        if self.session.is_in_tls_handshake() && !tls.is_handshaking() {
            let certificate = tls.peer_certificates().and_then(|all| all.first());
            self.session.tls_established(certificate.map(Identity::of));
        }
        if self.session.wants_input() {
            match tls.reader().read(buffer) {
                Ok(count) if count > 0 => {
                    *has_plain_text = true;
                    self.session.feed(&buffer[..count], context);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => *has_plain_text = false,
                // The end of the stream, with or without TLS's closing alert.
                Ok(_) | Err(_) => {
                    *has_plain_text = false;
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
                // The client gets the TLS alert when the connection is dropped.
                let Ok(state) = tls.process_new_packets() else { return false };
                *has_plain_text = state.plaintext_bytes_to_read() > 0 || !tls.is_handshaking();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }

    /// One read. Returns false if the socket is broken.
    fn discard_after_read(&mut self, buffer: &mut [u8], context: &mut SessionContext<'_>) -> bool {
        // The read also takes the head of the next request, and not much more: that would have to
        // be copied.
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
                // A short read has emptied the socket, and the next byte is a new edge; not so
                // after the end of the stream, whose edge is past.
                self.readiness.readable = count == wanted || self.readiness.half_closed;
                let filled = count.min(payload_len);
                if filled > 0 {
                    self.session.payload_filled(filled, context);
                }
                if filled < count {
                    self.session.feed(&buffer[..count - filled], context);
                    // Its payload follows a head at once, and may be there by now.
                    self.readiness.readable |= self.awaits_short_payload();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }

    /// Sends output as far as the socket takes it.
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

    /// After a write: polls for writability while output waits. Returns false on an error.
    pub(crate) fn poll_writability(&mut self, registry: &Registry, token: Token) -> bool {
        let before = self.sends_until_unpolled;
        let fewer = before.saturating_sub(1);
        self.sends_until_unpolled = if self.readiness.writable { fewer } else { COMPLETE_SENDS };
        let (was, is) = (before > 0, self.sends_until_unpolled > 0);
        // Reregistering reports current readiness: no edge is lost.
        was == is || self.stream.reregister(registry, token, is).is_ok()
    }

    /// Sends the closing alert: "the server MUST close down the TLS session".
    pub(crate) fn close_tls(&mut self) {
        if let Some(secure) = &mut self.secure {
            secure.tls.send_close_notify();
        }
    }

    /// Begins to shut the connection down; outstanding requests are still answered.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        self.session.begin_shutdown();
        self.shutdown_since.get_or_insert(now);
    }

    fn has_unsent(&self) -> bool {
        let encrypted = self.secure.as_ref().is_some_and(|secure| !secure.raw.is_empty());
        encrypted || !self.session.output().is_empty()
    }

    /// Output was added; `was_empty` before.
    pub(crate) fn output_added(&mut self, was_empty: bool, now: Instant) {
        if was_empty {
            self.output_since = now;
        }
    }

    /// Whether the connection is complete: no more input, nothing outstanding, nothing unsent.
    pub(crate) fn is_complete(&self) -> bool {
        let finished = self.session.is_finished() && self.session.outstanding() == 0;
        // A connection that is shut down still gets answers to what it has sent so far.
        let left = self.session.is_drained() && !self.readiness.readable;
        (finished || left) && !self.has_unsent()
    }

    /// Whether a timeout has expired: of the handshake, of a message that does not move, or of the
    /// shutdown.
    pub(crate) fn is_timed_out(&self, settings: &Settings, now: Instant) -> bool {
        let handshake = self.session.is_in_handshake()
            && now.saturating_since(self.since) >= settings.handshake_timeout;
        let stall = settings.stall_timeout;
        let sends = self.session.is_in_message() && now.saturating_since(self.read_at) >= stall;
        let receives =
            self.is_unsent_for(stall, now) && now.saturating_since(self.sent_at) >= stall;
        let stays = self.session.is_drained()
            && self.shutdown_since.is_some_and(|since| now.saturating_since(since) >= STOP_TIMEOUT);
        handshake || sends || receives || stays
    }

    /// Whether a message has held memory for too long while others wait for memory: its client does
    /// not send or receive, or only slowly.
    pub(crate) fn holds_memory_too_long(&self, now: Instant) -> bool {
        let arriving = self.session.is_in_payload()
            && self.session.blocked() != Some(Blocked::PayloadMemory)
            && now.saturating_since(self.payload_since) >= MEMORY_HOLD_MAX;
        arriving || self.is_unsent_for(MEMORY_HOLD_MAX, now)
    }

    /// Whether its payload holds memory and has waited for too long for more.
    pub(crate) fn is_deadlocked(&self, now: Instant) -> bool {
        self.waits_for_memory() && now.saturating_since(self.payload_since) >= MEMORY_HOLD_MAX
    }

    /// Whether its first unsent message has waited for at least `time`.
    pub(crate) fn is_unsent_for(&self, time: units::Duration, now: Instant) -> bool {
        self.has_unsent() && now.saturating_since(self.output_since) >= time
    }
}

impl Secure {
    /// Encrypts the session's output, as much as the TLS buffer takes. Returns false on an error.
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
