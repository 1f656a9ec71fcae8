//! Each rule of the protocol as a timeline of bytes, and the properties of all timelines.

use std::collections::BTreeMap;

use units::{Bytes, Op, Operation};

use super::{Blocked, Budget, CloseReason, Event, Session, SessionContext};
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, NAME_BYTES_MAX, OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OPTIONS_MAX,
    PAYLOAD_ACCEPTED_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_SKIP_BYTES_MAX, PAYLOAD_STEP_BYTES,
    PAYLOADS_BYTES_MAX, RECEIVE_BYTES_MAX, REQUESTS_MAX,
};
use crate::proto::export::{Export, ExportId, Exports};
use crate::proto::reply;
use crate::proto::request::{BlockStatusRequest, ConnectionId, Errno, Request};
use crate::proto::settings::Settings;
use crate::proto::wire::{
    FIXED_NEWSTYLE, NO_ZEROES, RequestHeader, command, greeting, info, option, option_reply,
    option_request, rep,
};

mod handshake;
mod laws;
mod metadata;
mod partial;
mod room;
mod structured;
mod tls;
mod transmission;

const SIZE: u64 = 1 << 30;

struct Named(Vec<Export>);

impl Exports for Named {
    fn list(&self) -> Vec<Export> {
        self.0.clone()
    }
    fn open(&self, name: &str) -> Option<Export> {
        self.0.iter().find(|export| export.name == name).cloned()
    }
}

/// A session with its context; every call checks the invariants.
struct Timeline {
    session: Session,
    exports: Box<dyn Exports>,
    settings: Settings,
    opened: BTreeMap<ExportId, usize>,
    budget: Budget,
    events: Vec<Event>,
}

impl Timeline {
    fn new(exports: Vec<Export>) -> Self {
        let session = Session::new(ConnectionId(7));
        let budget = Budget::new(PAYLOADS_BYTES_MAX);
        let mut timeline = Self {
            session,
            exports: Box::new(Named(exports)),
            settings: Settings::default(),
            opened: BTreeMap::new(),
            budget,
            events: Vec::new(),
        };
        assert_eq!(timeline.said(), greeting());
        timeline
    }

    fn one() -> Self {
        Self::new(vec![Export::new(ExportId(3), "vol", Bytes(SIZE))])
    }

    /// After the client flags.
    fn in_handshake() -> Self {
        let mut timeline = Self::one();
        timeline.feed(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        timeline
    }

    fn opened_with(export: Export) -> Self {
        let mut timeline = Self::new(vec![export]);
        timeline.feed(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        timeline.option(option::EXPORT_NAME, &[]);
        timeline.said();
        assert!(matches!(timeline.events.pop(), Some(Event::Opened(_))));
        timeline
    }

    fn opened() -> Self {
        Self::opened_with(Export::new(ExportId(3), "vol", Bytes(SIZE)))
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Self { session, exports, settings, opened, budget, events } = self;
        for piece in bytes.chunks(RECEIVE_BYTES_MAX) {
            session.feed(
                piece,
                &mut SessionContext { exports: &**exports, settings, opened, budget, events },
            );
        }
        session.invariants();
    }

    fn resume(&mut self) {
        let Self { session, exports, settings, opened, budget, events } = self;
        session.resume(&mut SessionContext {
            exports: &**exports,
            settings,
            opened,
            budget,
            events,
        });
        session.invariants();
    }

    fn option(&mut self, option: u32, data: &[&[u8]]) {
        let mut bytes = Vec::new();
        option_request(&mut bytes, option, data);
        self.feed(&bytes);
    }

    fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        self.feed(&head(flags, command, cookie, offset, length));
    }

    /// Takes all output and marks it sent.
    fn said(&mut self) -> Vec<u8> {
        let bytes = Vec::from(self.session.output());
        self.session.sent(bytes.len(), &mut self.budget);
        self.session.invariants();
        bytes
    }

    fn submitted(&mut self) -> Request {
        match self.events.remove(0) {
            Event::Request(request) => request,
            other => panic!("{other:?} instead of a request"),
        }
    }

    fn asked(&mut self) -> BlockStatusRequest {
        match self.events.remove(0) {
            Event::BlockStatus(query) => query,
            other => panic!("{other:?} instead of a question"),
        }
    }

    fn reply(&mut self, request: &Request, result: Result<Vec<u8>, Errno>) -> bool {
        let known = self.session.reply(request.id.sequence, result, &mut self.budget);
        self.session.invariants();
        known
    }

    /// The error of a request without payload.
    fn refusal(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> Errno {
        self.request(flags, command, 77, offset, length);
        self.refused(77)
    }

    fn refused(&mut self, cookie: u64) -> Errno {
        assert_eq!(self.events, [], "a refused request goes nowhere");
        let said = self.said();
        let errno = Errno::from_code(u32::from_be_bytes([said[4], said[5], said[6], said[7]]));
        assert_eq!(said, simple_reply(cookie, Err(errno)));
        errno
    }
}

fn simple_reply(cookie: u64, outcome: Result<(), Errno>) -> Vec<u8> {
    reply::simple(cookie, outcome.err().map_or(0, Errno::code)).to_vec()
}

fn head(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = u64::from(length);
    RequestHeader { flags, command, cookie, offset, length }.encode(&mut bytes);
    bytes
}

fn replies(option: u32, replies: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, data) in replies {
        option_reply(&mut out, option, *kind, &[data]);
    }
    out
}

fn info_data(name: &[u8], wanted: &[u16]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).expect("short").to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&u16::try_from(wanted.len()).expect("few").to_be_bytes());
    for kind in wanted {
        data.extend_from_slice(&kind.to_be_bytes());
    }
    data
}

fn export_info(size: u64, flags: u16) -> Vec<u8> {
    [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()
}

fn len32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a length of the protocol")
}

/// `HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN |
/// SEND_FAST_ZERO`, counted by hand.
const FLAGS: u16 = 0b1001_0110_1101;

fn extent(start: u64, len: u64) -> units::Extent {
    units::Extent::new(units::Lba(start), units::Sectors(len))
}
