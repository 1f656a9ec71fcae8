//! The state of one session, and the parser's loop over whole messages.

use std::collections::BTreeMap;

use super::budget::Budget;
use super::in_flight::InFlight;
use super::output::Output;
use crate::limits;
use crate::proto::export::{ExportId, Exports};
use crate::proto::reply::{Refusal, RequestTag, Style};
use crate::proto::request::{BlockStatusRequest, ConnectionId, ReadModifyWrite, Request};
use crate::proto::settings::Settings;
use crate::proto::tls::Identity;
use crate::proto::wire;

/// An event that a session produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is over; requests to this export follow.
    Opened(ExportId),
    /// A request for whole sectors.
    Request(Request),
    /// A write to parts of sectors.
    ReadModifyWrite(ReadModifyWrite),
    /// A block status request; [`Session::reply_block_status`] answers it.
    BlockStatus(BlockStatusRequest),
    /// TLS begins: the output so far is sent unencrypted, and all further input is TLS.
    /// [`Session::tls_established`] continues the handshake.
    StartTls,
    /// The client disconnects. Outstanding requests are answered and the output is sent before
    /// closing.
    Disconnect,
    /// The client's further input cannot be parsed. Close now.
    Close(CloseReason),
}

/// Why a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// A magic number is wrong: the client uses another protocol, or the two sides are out of step.
    BadMagic,
    /// The client set handshake flags that were not offered (section "Client flags": MUST drop).
    UnknownClientFlags,
    /// `NBD_OPT_EXPORT_NAME` named no export, and has no error reply. Use `NBD_OPT_GO`.
    UnknownExport,
    /// An option announced more data than [`limits::OPTION_SKIP_BYTES_MAX`].
    OptionTooBig,
    /// More options than [`limits::OPTIONS_MAX`].
    TooManyOptions,
    /// A write announced a payload above [`limits::PAYLOAD_SKIP_BYTES_MAX`].
    PayloadTooBig,
    /// `NBD_OPT_EXPORT_NAME` came where it cannot be answered: without required TLS, after extended
    /// headers were negotiated, or for an export with the maximum number of connections. Use
    /// `NBD_OPT_GO`.
    NotAllowed,
}

/// What a session uses while it parses.
pub struct SessionContext<'a> {
    /// The exports.
    pub exports: &'a dyn Exports,
    /// The server's settings.
    pub settings: &'a Settings,
    /// The number of connections of each export.
    pub opened: &'a BTreeMap<ExportId, usize>,
    /// Memory for payloads.
    pub budget: &'a mut Budget,
    /// The events produced, in order.
    pub events: &'a mut Vec<Event>,
}

/// Why a session takes no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A limit of the connection: it waits for replies to its own requests, or for its output to be
    /// sent.
    ConnectionLimit,
    /// Payload memory that other sessions hold.
    PayloadMemory,
}

/// What requests are checked against, of the opened export.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol, set or not")]
pub(super) struct Target {
    pub(super) id: ExportId,
    pub(super) bytes: u64,
    pub(super) block_min: u64,
    /// The longest read or write, in bytes.
    pub(super) payload_max: usize,
    pub(super) read_only: bool,
    /// Whether zeroing is faster than writing.
    pub(super) fast_zero: bool,
    /// Whether `NBD_CMD_CACHE` has an effect.
    pub(super) caches: bool,
    /// Whether block status requests are allowed.
    pub(super) status: bool,
}

/// The payload of a write that is arriving.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) header: wire::RequestHeader,
    /// Grows as bytes arrive; its length is taken from the budget.
    pub(super) data: Vec<u8>,
    pub(super) filled: usize,
    pub(super) length: usize,
    /// Further bytes that are taken from the budget.
    pub(super) extra_bytes: usize,
}

/// Which payload is arriving, and how much memory it has taken from the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PayloadProgress {
    /// Payloads that have begun on this connection; the last of them is the arriving one.
    pub(crate) payloads: u64,
    /// In bytes.
    pub(crate) held: usize,
}

#[derive(Debug)]
pub(super) enum Phase {
    ClientFlags,
    Options,
    SkipOption {
        left: usize,
        option: u32,
        answer: u32,
    },
    /// TLS is being established; the client's certificate is not known yet.
    TlsHandshake,
    Requests,
    Payload(Payload),
    SkipPayload {
        left: usize,
        tag: RequestTag,
        refusal: Refusal,
    },
    Finished,
}

/// The result of one parsing step.
pub(super) enum Step {
    /// One message, or a part of a payload, of this number of bytes.
    Took(usize),
    /// The message is incomplete.
    Short,
    /// There is no room for the request.
    Blocked(Blocked),
}

/// Whether the connection is encrypted, and the client's identity.
#[derive(Clone, Debug, Default)]
pub(super) enum Security {
    #[default]
    Plain,
    Encrypted(Option<Identity>),
}

/// The protocol's state for one connection.
#[derive(Debug)]
pub struct Session {
    pub(super) connection: ConnectionId,
    pub(super) phase: Phase,
    pub(super) target: Target,
    pub(super) no_zeroes: bool,
    pub(super) options_seen: usize,
    pub(super) style: Style,
    /// The export for which the context `base:allocation` was selected.
    pub(super) context_of: Option<ExportId>,
    /// Whether the connection is encrypted, and the identity that the client has proved.
    pub(super) security: Security,
    /// The server stops, or the export is withdrawn: requests are refused.
    pub(super) shutting_down: bool,
    /// Payloads that have begun, refused ones included.
    pub(super) payloads: u64,
    /// The last request was a long write: the next one is expected to be another, whose payload is
    /// best read straight into its buffer.
    pub(super) expects_payload: bool,
    /// Unparsed input: an incomplete message, or input that came while blocked.
    pub(super) backlog: Vec<u8>,
    pub(super) blocked: Option<Blocked>,
    pub(super) in_flight: InFlight,
    pub(super) output: Output,
}

impl Session {
    /// Its number, which contains the transport that the client has named in its handshake.
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// A new connection, with the greeting in its output (section "Newstyle negotiation").
    pub fn new(connection: ConnectionId) -> Self {
        let mut output = Output::default();
        output.push_bytes(wire::greeting());
        Self {
            connection,
            phase: Phase::ClientFlags,
            target: Target {
                id: ExportId(0),
                bytes: 0,
                block_min: 1,
                payload_max: 0,
                read_only: true,
                fast_zero: false,
                caches: false,
                status: false,
            },
            no_zeroes: false,
            options_seen: 0,
            style: Style::default(),
            context_of: None,
            security: Security::default(),
            shutting_down: false,
            payloads: 0,
            expects_payload: false,
            backlog: Vec::new(),
            blocked: None,
            in_flight: InFlight::default(),
            output,
        }
    }

    /// Takes input. Bytes that cannot be parsed yet are kept.
    ///
    /// # Panics
    /// If there are more bytes than [`limits::RECEIVE_BYTES_MAX`], or input is not wanted: the
    /// bound on memory would not hold.
    pub fn feed(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) {
        assert!(bytes.len() <= limits::RECEIVE_BYTES_MAX, "a piece is bounded");
        assert!(self.wants_input(), "a blocked session is not fed");
        if self.backlog.is_empty() {
            let taken = self.parse(bytes, context);
            if !self.is_finished() && taken < bytes.len() {
                self.buffer_input(&bytes[taken..]);
            }
        } else {
            self.buffer_input(bytes);
            self.resume(context);
        }
    }

    /// Parses the kept input once there is room.
    pub fn resume(&mut self, context: &mut SessionContext<'_>) {
        let mut backlog = core::mem::take(&mut self.backlog);
        let taken = self.parse(&backlog, context);
        if self.is_finished() || taken == backlog.len() {
            return;
        }
        backlog.drain(..taken);
        self.backlog = backlog;
    }

    /// The unfilled part of an arriving payload's buffer, to read into directly, if that pays.
    /// [`Session::payload_filled`] reports the number of bytes read.
    pub fn payload_space(&mut self, budget: &mut Budget) -> Option<&mut [u8]> {
        if !self.backlog.is_empty() {
            return None;
        }
        let Phase::Payload(payload) = &mut self.phase else { return None };
        // The whole of a long payload is read so, its short rest included: in pieces it would be
        // read through a small buffer.
        if payload.length < limits::PAYLOAD_STEP_BYTES {
            return None;
        }
        if !payload.make_room(budget) {
            self.blocked = Some(Blocked::PayloadMemory);
            return None;
        }
        Some(&mut payload.data[payload.filled..])
    }

    /// The number of bytes to read at once without a [`Session::payload_space`]. Few after a long
    /// write, because bytes that are read along with the next head have to be copied.
    pub const fn receive_bytes(&self) -> usize {
        if self.expects_payload { limits::HEAD_BYTES } else { limits::RECEIVE_BYTES_MAX }
    }

    /// `count` bytes were read into [`Session::payload_space`].
    ///
    /// # Panics
    /// If there was less space.
    pub fn payload_filled(&mut self, count: usize, context: &mut SessionContext<'_>) {
        let Phase::Payload(payload) = &mut self.phase else { return };
        assert!(count <= payload.data.len() - payload.filled, "filled within the space");
        payload.filled += count;
        self.finish_payload(context);
    }

    /// The output to send.
    pub const fn output(&self) -> &Output {
        &self.output
    }

    /// `bytes` bytes of the output were sent. Returns whether that completed a message.
    ///
    /// # Panics
    /// If there was less output.
    pub fn sent(&mut self, bytes: usize, budget: &mut Budget) -> bool {
        self.output.sent(bytes, budget)
    }

    /// Whether input may be fed. If not, the socket is not read, which slows the client down.
    pub const fn wants_input(&self) -> bool {
        self.blocked.is_none() && !matches!(self.phase, Phase::TlsHandshake | Phase::Finished)
    }

    /// The reason for which the session takes no input, if it is blocked.
    pub const fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// Whether no export is open yet.
    pub const fn is_in_handshake(&self) -> bool {
        matches!(
            self.phase,
            Phase::ClientFlags | Phase::Options | Phase::SkipOption { .. } | Phase::TlsHandshake
        )
    }

    /// The open export, if there is one.
    pub const fn export(&self) -> Option<ExportId> {
        match self.phase {
            Phase::Requests | Phase::Payload(_) | Phase::SkipPayload { .. } => Some(self.target.id),
            Phase::ClientFlags
            | Phase::Options
            | Phase::SkipOption { .. }
            | Phase::TlsHandshake
            | Phase::Finished => None,
        }
    }

    /// Whether a payload has begun and not ended.
    pub const fn is_in_payload(&self) -> bool {
        matches!(self.phase, Phase::Payload(_) | Phase::SkipPayload { .. })
    }

    /// Whether a payload is arriving that a client sends in one piece.
    pub(crate) fn is_in_short_payload(&self) -> bool {
        let Phase::Payload(payload) = &self.phase else { return false };
        payload.length < limits::PAYLOAD_STEP_BYTES
    }

    /// The progress of the arriving payload.
    pub(crate) fn payload_progress(&self) -> PayloadProgress {
        let held = if let Phase::Payload(payload) = &self.phase { payload.data.len() } else { 0 };
        PayloadProgress { payloads: self.payloads, held }
    }

    /// A payload follows the head of a request.
    pub(super) fn begin_payload(&mut self, phase: Phase) {
        assert!(matches!(self.phase, Phase::Requests), "a payload follows a request's head");
        self.payloads += 1;
        self.phase = phase;
        assert!(self.is_in_payload(), "the phase is that of a payload");
    }

    /// Whether no more input is taken.
    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished)
    }

    /// The number of outstanding requests.
    pub const fn outstanding(&self) -> usize {
        self.in_flight.count()
    }

    /// Whether a message is incomplete and waits for input from the client.
    pub const fn is_in_message(&self) -> bool {
        self.blocked.is_none() && (self.is_in_payload() || !self.backlog.is_empty())
    }

    /// TLS is established, with the identity of the client's certificate, if it has one.
    /// Negotiation starts over (section "Option types": "the server MUST NOT preserve any
    /// negotiation state").
    ///
    /// # Panics
    /// Without an earlier [`Event::StartTls`].
    pub fn tls_established(&mut self, client: Option<Identity>) {
        assert!(matches!(self.phase, Phase::TlsHandshake), "TLS was asked for");
        self.phase = Phase::Options;
        self.security = Security::Encrypted(client);
        self.style = Style::default();
        self.context_of = None;
    }

    /// Whether TLS is being established.
    pub(crate) const fn is_in_tls_handshake(&self) -> bool {
        matches!(self.phase, Phase::TlsHandshake)
    }

    /// The input after the client's request for TLS. It must be empty.
    pub(crate) fn take_backlog(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.backlog)
    }

    /// The server stops, or the export is withdrawn: requests are refused.
    pub fn begin_shutdown(&mut self) {
        self.shutting_down = true;
    }

    /// Whether it is shutting down and has no outstanding requests.
    pub fn is_drained(&self) -> bool {
        self.shutting_down && self.in_flight.count() == 0
    }

    /// Takes no more input, and drops an incomplete message. Outstanding requests can still be
    /// answered.
    pub fn finish(&mut self, budget: &mut Budget) {
        if let Phase::Payload(payload) = core::mem::replace(&mut self.phase, Phase::Finished) {
            budget.release(payload.data.len() + payload.extra_bytes);
        }
        self.backlog = Vec::new();
        self.blocked = None;
    }

    /// The outstanding requests.
    pub(crate) const fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Ends the session. The memory of its outstanding requests stays taken until they are
    /// answered.
    pub(crate) fn into_in_flight(mut self, budget: &mut Budget) -> InFlight {
        self.finish(budget);
        budget.release(self.output.data_bytes());
        self.in_flight
    }

    /// The memory that the session holds. The payload of a request at the disks counts as if it
    /// were here.
    pub fn memory(&self) -> usize {
        let payload =
            if let Phase::Payload(payload) = &self.phase { payload.data.capacity() } else { 0 };
        size_of::<Self>()
            + self.backlog.capacity()
            + payload
            + self.output.memory()
            + self.in_flight.memory()
    }

    /// Checks the invariants, which hold between calls.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn invariants(&self) {
        self.in_flight.invariants();
        self.output.invariants();
        assert!(self.memory() <= limits::SESSION_BYTES_MAX, "memory is bounded: {}", self.memory());
        if let Phase::Payload(payload) = &self.phase {
            assert!(payload.filled < payload.length, "a whole payload is a request");
            assert!(payload.data.len() <= payload.length, "no more than announced");
        }
        if self.is_finished() {
            assert!(self.backlog.is_empty(), "nothing is kept behind the end");
        }
    }

    /// Parses complete messages while there is room. Returns the number of bytes parsed.
    fn parse(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> usize {
        let mut taken = 0;
        self.blocked = None;
        loop {
            match self.step(&bytes[taken..], context) {
                Step::Took(count) => taken += count,
                Step::Short => return taken,
                Step::Blocked(why) => {
                    self.blocked = Some(why);
                    return taken;
                }
            }
        }
    }

    fn step(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> Step {
        match self.phase {
            Phase::ClientFlags => self.client_flags(bytes, context),
            Phase::Options => self.option(bytes, context),
            Phase::SkipOption { left, option, answer } => {
                self.skip_option(bytes, left, option, answer)
            }
            Phase::Requests => self.request(bytes, context),
            Phase::Payload(_) => self.payload(bytes, context),
            Phase::SkipPayload { left, tag, refusal } => {
                self.skip_payload(bytes, left, tag, refusal)
            }
            Phase::TlsHandshake | Phase::Finished => Step::Short,
        }
    }

    pub(super) fn buffer_input(&mut self, bytes: &[u8]) {
        self.backlog.reserve_exact(bytes.len());
        self.backlog.extend_from_slice(bytes);
    }

    /// Closes the session: the input after a violation cannot be parsed (section "Terminating the
    /// transmission phase": either side may then drop the connection).
    pub(super) fn close(&mut self, reason: CloseReason, context: &mut SessionContext<'_>) -> Step {
        self.finish(context.budget);
        context.events.push(Event::Close(reason));
        Step::Short
    }
}
