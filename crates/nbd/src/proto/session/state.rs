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

/// What a session has to say to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is over; requests to this export follow.
    Opened(ExportId),
    /// Work to do.
    Request(Request),
    /// Work to do, on less than whole sectors.
    ReadModifyWrite(ReadModifyWrite),
    /// A question about sectors; [`Session::reply_block_status`] answers it.
    BlockStatus(BlockStatusRequest),
    /// From now on the connection is to be encrypted: what is in the output goes out as it is, what
    /// comes in from here on is TLS. [`Session::tls_established`] goes on.
    StartTls,
    /// The client said goodbye. Answer what is outstanding, send it, then close.
    Disconnect,
    /// The client cannot be understood any further. Close now.
    Close(CloseReason),
}

/// Why a session was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// A magic number was wrong: the client speaks something else, or the two sides lost each
    /// other.
    BadMagic,
    /// The client set handshake flags that were not offered (section "Client flags": MUST drop).
    UnknownClientFlags,
    /// `NBD_OPT_EXPORT_NAME` named nothing here, and has no way to be told so. Use `NBD_OPT_GO`.
    UnknownExport,
    /// An option announced more data than anyone needs.
    OptionTooBig,
    /// More options than [`limits::OPTIONS_MAX`].
    TooManyOptions,
    /// A write announced a payload above [`limits::PAYLOAD_SKIP_BYTES_MAX`].
    PayloadTooBig,
    /// `NBD_OPT_EXPORT_NAME` came where it cannot be answered: without the TLS that is asked for,
    /// after extended headers were agreed on, or for an export with as many connections as it may
    /// have. Use `NBD_OPT_GO`.
    NotAllowed,
}

/// What a session needs from outside while it parses.
pub struct SessionContext<'a> {
    /// What can be opened.
    pub exports: &'a dyn Exports,
    /// What is allowed.
    pub settings: &'a Settings,
    /// How many connections each export has.
    pub opened: &'a BTreeMap<ExportId, usize>,
    /// Memory for payloads.
    pub budget: &'a mut Budget,
    /// Where events go, in order.
    pub events: &'a mut Vec<Event>,
}

/// What a session waits for before it takes more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// For answers to its own requests, or for its output to be sent.
    ConnectionLimit,
    /// For memory that other sessions hold.
    PayloadMemory,
}

/// The opened export, as far as requests are checked against it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol, set or not")]
pub(super) struct Target {
    pub(super) id: ExportId,
    pub(super) bytes: u64,
    pub(super) block_min: u64,
    /// The most that a read or a write may move.
    pub(super) payload_max: usize,
    pub(super) read_only: bool,
    /// Whether zeroing is faster than writing.
    pub(super) fast_zero: bool,
    /// Whether bringing sectors into a cache means something.
    pub(super) caches: bool,
    /// Whether the state of sectors may be asked for.
    pub(super) status: bool,
}

/// A write's payload on its way in.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) header: wire::RequestHeader,
    /// Grows as bytes arrive; taken from the budget by its length.
    pub(super) data: Vec<u8>,
    pub(super) filled: usize,
    pub(super) length: usize,
    /// Taken from the budget besides.
    pub(super) beside: usize,
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
    /// The client was told to go on in TLS, and its certificate is not known yet.
    TlsHandshake,
    Requests,
    Payload(Payload),
    SkipPayload {
        left: usize,
        asked: RequestTag,
        refusal: Refusal,
    },
    Finished,
}

/// How far one step of parsing got.
pub(super) enum Step {
    /// One message, or a part of a payload, of so many bytes.
    Took(usize),
    /// The message is not whole yet.
    Short,
    /// There is no room for what it asks.
    Blocked(Blocked),
}

/// What is known of who is at the other end.
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
    /// For which export the context `base:allocation` was chosen.
    pub(super) chosen: Option<ExportId>,
    /// Whether the connection is encrypted, and who the client has proved to be.
    pub(super) security: Security,
    /// The server goes away, or what the client has open does: whatever comes is answered so.
    pub(super) shutting_down: bool,
    /// Payloads that have begun, refused ones included.
    pub(super) payloads: u64,
    /// The last request was a long write: its like comes best straight into its buffer.
    pub(super) expects_payload: bool,
    /// Bytes that arrived and are not understood yet: a part of a message, or what came while
    /// blocked.
    pub(super) backlog: Vec<u8>,
    pub(super) blocked: Option<Blocked>,
    pub(super) in_flight: InFlight,
    pub(super) output: Output,
}

impl Session {
    /// A connection that was just made; the greeting is in its output (section "Newstyle
    /// negotiation").
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
            chosen: None,
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

    /// Takes bytes that arrived. What cannot be understood yet is kept.
    ///
    /// # Panics
    /// On more than [`limits::RECEIVE_BYTES_MAX`] at once, or when it did not want any: the bound
    /// on memory would not hold.
    pub fn feed(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) {
        assert!(bytes.len() <= limits::RECEIVE_BYTES_MAX, "a piece is bounded");
        assert!(self.wants_input(), "a blocked session is not fed");
        if self.backlog.is_empty() {
            let taken = self.parse(bytes, context);
            if !self.is_finished() && taken < bytes.len() {
                self.keep(&bytes[taken..]);
            }
        } else {
            self.keep(bytes);
            self.resume(context);
        }
    }

    /// Goes on with what was kept while there was no room.
    pub fn resume(&mut self, context: &mut SessionContext<'_>) {
        let mut backlog = core::mem::take(&mut self.backlog);
        let taken = self.parse(&backlog, context);
        if self.is_finished() || taken == backlog.len() {
            return;
        }
        backlog.drain(..taken);
        self.backlog = backlog;
    }

    /// The tail of an arriving payload's buffer, for reading straight into it, when that is worth
    /// while. [`Session::payload_filled`] says how much was read.
    pub fn payload_space(&mut self, budget: &mut Budget) -> Option<&mut [u8]> {
        if !self.backlog.is_empty() {
            return None;
        }
        let Phase::Payload(payload) = &mut self.phase else { return None };
        // Of a long one the rest too, however short: it would be read in pieces as short as a head.
        if payload.length < limits::PAYLOAD_STEP_BYTES {
            return None;
        }
        if !payload.make_room(budget) {
            self.blocked = Some(Blocked::PayloadMemory);
            return None;
        }
        Some(&mut payload.data[payload.filled..])
    }

    /// How many bytes to read at once when there is no [`Session::payload_space`]: behind a long
    /// write not many, because what is read along with the head of the next one would have to be
    /// copied.
    pub const fn receive_bytes(&self) -> usize {
        if self.expects_payload { limits::HEAD_BYTES } else { limits::RECEIVE_BYTES_MAX }
    }

    /// So many bytes were read into [`Session::payload_space`].
    ///
    /// # Panics
    /// On more than there was space for.
    pub fn payload_filled(&mut self, count: usize, context: &mut SessionContext<'_>) {
        let Phase::Payload(payload) = &mut self.phase else { return };
        assert!(count <= payload.data.len() - payload.filled, "filled within the space");
        payload.filled += count;
        self.finish_payload(context);
    }

    /// What is to be sent.
    pub const fn output(&self) -> &Output {
        &self.output
    }

    /// So many bytes of the output were sent. True if that completed a message.
    ///
    /// # Panics
    /// On more than there was.
    pub fn sent(&mut self, bytes: usize, budget: &mut Budget) -> bool {
        self.output.sent(bytes, budget)
    }

    /// Whether bytes may be fed. If not, the socket is left alone, and the client feels it.
    pub const fn wants_input(&self) -> bool {
        self.blocked.is_none() && !matches!(self.phase, Phase::TlsHandshake | Phase::Finished)
    }

    /// What it waits for, if it does.
    pub const fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// Whether the client has yet to choose an export.
    pub const fn is_in_handshake(&self) -> bool {
        matches!(
            self.phase,
            Phase::ClientFlags | Phase::Options | Phase::SkipOption { .. } | Phase::TlsHandshake
        )
    }

    /// What the client has opened, if it has.
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

    /// How far the arriving payload has got.
    pub(crate) fn payload_progress(&self) -> PayloadProgress {
        let held = if let Phase::Payload(payload) = &self.phase { payload.data.len() } else { 0 };
        PayloadProgress { payloads: self.payloads, held }
    }

    /// A payload follows the head of a request.
    pub(super) fn begin_payload(&mut self, phase: Phase) {
        self.payloads += 1;
        self.phase = phase;
        debug_assert!(self.is_in_payload(), "the phase is that of a payload");
    }

    /// Whether nothing more will be read.
    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished)
    }

    /// How many requests wait for their answer.
    pub const fn outstanding(&self) -> usize {
        self.in_flight.count()
    }

    /// Whether a message has begun and not ended, and it is the client's turn to go on with it.
    pub const fn is_in_message(&self) -> bool {
        self.blocked.is_none() && (self.is_in_payload() || !self.backlog.is_empty())
    }

    /// The client's certificate was looked at, if it has one: the handshake begins anew, in TLS
    /// (section "Option types": "the server MUST NOT preserve any negotiation state").
    ///
    /// # Panics
    /// If it was not asked for with [`Event::StartTls`].
    pub fn tls_established(&mut self, client: Option<Identity>) {
        assert!(matches!(self.phase, Phase::TlsHandshake), "TLS was asked for");
        self.phase = Phase::Options;
        self.security = Security::Encrypted(client);
        self.style = Style::default();
        self.chosen = None;
    }

    /// Whether it waits for TLS.
    pub(crate) const fn is_in_tls_handshake(&self) -> bool {
        matches!(self.phase, Phase::TlsHandshake)
    }

    /// What came behind the wish for TLS. There should be nothing.
    pub(crate) fn take_backlog(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.backlog)
    }

    /// The server goes away, or what the client has open does: from now on requests and options are
    /// answered with just that (`NBD_ESHUTDOWN`, `NBD_REP_ERR_SHUTDOWN`); what is outstanding is
    /// still answered as it ends.
    pub fn begin_shutdown(&mut self) {
        self.shutting_down = true;
    }

    /// Whether it is shutting_down, and nothing that was asked for before is left to do.
    pub fn is_drained(&self) -> bool {
        self.shutting_down && self.in_flight.count() == 0
    }

    /// Reads no further, whatever was on its way in; what is outstanding can still be answered.
    pub fn finish(&mut self, budget: &mut Budget) {
        if let Phase::Payload(payload) = core::mem::replace(&mut self.phase, Phase::Finished) {
            budget.release(payload.data.len() + payload.beside);
        }
        self.backlog = Vec::new();
        self.blocked = None;
    }

    /// Its requests that wait for an answer.
    pub(crate) const fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Ends it. What its requests at the disks hold stays taken until they are answered.
    pub(crate) fn into_in_flight(mut self, budget: &mut Budget) -> InFlight {
        self.finish(budget);
        budget.release(self.output.data_bytes());
        self.in_flight
    }

    /// The memory it holds, but for a request's payload that is at the disks, which is counted as
    /// if it were here.
    pub fn memory(&self) -> usize {
        let payload =
            if let Phase::Payload(payload) = &self.phase { payload.data.capacity() } else { 0 };
        size_of::<Self>()
            + self.backlog.capacity()
            + payload
            + self.output.memory()
            + self.in_flight.memory()
    }

    /// What must hold whenever no call is under way.
    ///
    /// # Panics
    /// If it does not.
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

    /// Parses as many messages as are whole and have room; says how many bytes they were.
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
            Phase::SkipPayload { left, asked, refusal } => {
                self.skip_payload(bytes, left, asked, refusal)
            }
            Phase::TlsHandshake | Phase::Finished => Step::Short,
        }
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.backlog.reserve_exact(bytes.len());
        self.backlog.extend_from_slice(bytes);
    }

    /// The client broke a rule behind which nothing can be understood (section "Terminating the
    /// transmission phase": either side may then drop the connection).
    pub(super) fn close(&mut self, reason: CloseReason, context: &mut SessionContext<'_>) -> Step {
        self.finish(context.budget);
        context.events.push(Event::Close(reason));
        Step::Short
    }
}
