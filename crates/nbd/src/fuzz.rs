//! Protocol sessions with hostile clients, generated from a seed.
//!
//! A case is one connection. Its client sends valid, damaged and random messages, split at
//! arbitrary positions. Its disk answers in any order, and some answers are wrong. Its socket
//! accepts output in pieces of random length. The case checks after every step: nothing panics, the
//! invariants hold, memory stays bounded, no request lies outside its export, and the shared budget
//! loses no byte.

use core::fmt;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rng::WeylRng;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCertUsingSni;
use units::{Bytes, Extent, Lba, Op, Sectors};

use crate::limits::{
    BYTES_IN_FLIGHT_MAX, MEMORY_MIN, PAYLOAD_ACCEPTED_BYTES_MAX, PAYLOAD_SKIP_BYTES_MAX,
    RECEIVE_BYTES_MAX, REQUESTS_MAX,
};
use crate::proto::export::{Export, ExportId, Exports};
use crate::proto::request::{
    Allocation, BlockStatusRequest, ClientRequestId, ConnectionId, Errno, ReadModifyWrite, Request,
    Segment,
};
use crate::proto::session::{Budget, Event, Session, SessionContext};
use crate::proto::settings::{Listing, Settings};
use crate::proto::tls::{ClientName, Identity, Tls};
use crate::proto::wire::{RequestHeader, command, info, option, option_request};

/// A failed case. Its text ends with the seed that reproduces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the one case.
    pub seed: u64,
    /// The assertion that failed.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, with seed {}", self.message, self.seed)
    }
}

impl std::error::Error for Failure {}

/// A server with one export named `vol`.
#[derive(Clone, Copy, Debug)]
pub struct OneExport(
    /// The size of the export, in bytes.
    pub u64,
);

impl Exports for OneExport {
    fn list(&self) -> Vec<Export> {
        vec![Export::new(ExportId(0), "vol", Bytes(self.0))]
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.list().into_iter().find(|export| export.name == name)
    }
}

/// One export with any combination of properties.
struct Fuzzed(Export);

impl Exports for Fuzzed {
    fn list(&self) -> Vec<Export> {
        vec![self.0.clone()]
    }

    fn open(&self, name: &str) -> Option<Export> {
        (name == self.0.name).then(|| self.0.clone())
    }
}

/// Runs `cases` cases with the seeds from `seed` on.
///
/// # Errors
/// The first case that fails.
pub fn run(seed: u64, cases: u64) -> Result<(), Failure> {
    for seed in (0..cases).map(|case| seed.wrapping_add(case)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut case = Case::new(seed);
            let stream = case.stream();
            case.run(&stream);
        }));
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Failure { seed, message: text.unwrap_or_else(|| "a panic".to_owned()) }
        })?;
    }
    Ok(())
}

/// All bytes that the client of one case sends: handshake and requests, some of them damaged.
pub fn stream(seed: u64) -> Vec<u8> {
    Case::new(seed).stream()
}

/// One case whose bytes come from the caller, for a coverage-guided fuzzer. The first eight bytes
/// are the seed for everything but the client; the client sends the rest. Panics if a check fails.
pub fn run_input(input: &[u8]) {
    if let Some((seed, stream)) = input.split_first_chunk() {
        Case::new(u64::from_be_bytes(*seed)).run(stream);
    }
}

/// A generator of values for messages.
struct MessageRng(WeylRng);

impl MessageRng {
    fn next(&mut self) -> u64 {
        self.0.draw()
    }

    fn word(&mut self) -> u32 {
        let [_, _, _, _, bytes @ ..] = self.next().to_be_bytes();
        u32::from_be_bytes(bytes)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// A number below `end`, which is not zero.
    fn under(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn size(&mut self, end: usize) -> usize {
        usize::try_from(self.under(end as u64)).unwrap_or(0)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.under(n) == 0
    }

    fn among<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.size(choices.len())]
    }
}

/// A request at the disk.
enum Outstanding {
    Request(Request),
    ReadModifyWrite(ReadModifyWrite),
    BlockStatus(BlockStatusRequest),
}

impl Outstanding {
    fn id(&self) -> ClientRequestId {
        match self {
            Self::Request(request) => request.id,
            Self::ReadModifyWrite(write) => write.id,
            Self::BlockStatus(query) => query.id,
        }
    }
}

struct Case {
    rng: MessageRng,
    exports: Fuzzed,
    settings: Settings,
    opened: BTreeMap<ExportId, usize>,
    /// Whether the client negotiates extended headers and sends them.
    extended: bool,
    /// Whether the session waits for the end of a TLS handshake.
    securing: bool,
    session: Session,
    budget: Budget,
    memory: usize,
    outstanding: Vec<Outstanding>,
    /// One message in `damage` is damaged.
    damage: u64,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = MessageRng(WeylRng::new(seed));
        let memory = rng.among(&[1 << 30, 1 << 26, 1 << 16]);
        let sectors = rng.among(&[0, 1, 64, 1 << 17, 1 << 40]);
        let mut export = OneExport(sectors * units::SECTOR_BYTES).list().remove(0);
        export.read_only = rng.one_in(8);
        export.fast_zero = rng.one_in(2);
        export.block_min = rng.among(&[Bytes(1), Bytes(1), Bytes(512), Bytes(4_096)]);
        export.caches = rng.one_in(2);
        export.clients = rng.one_in(8).then(|| vec![ClientName::CommonName("vm".into())]);
        Self {
            settings: settings(&mut rng),
            opened: (0..rng.under(3)).map(|n| (ExportId(0), usize::from(n > 0))).collect(),
            exports: Fuzzed(export),
            extended: rng.one_in(3),
            securing: false,
            session: Session::new(ConnectionId(rng.next())),
            budget: Budget::new(memory),
            memory,
            outstanding: Vec::new(),
            damage: rng.among(&[2, 20, 1_000_000]),
            rng,
        }
    }

    fn stream(&mut self) -> Vec<u8> {
        let mut stream = self.handshake();
        for _ in 0..self.rng.size(40) {
            let message = self.message();
            stream.extend_from_slice(&message);
        }
        stream
    }

    fn run(mut self, stream: &[u8]) {
        let mut rest = stream;
        let mut steps = 0;
        while !rest.is_empty() && !self.session.is_finished() && steps < 20_000 {
            steps += 1;
            match self.rng.under(8) {
                0 => self.send(),
                1 => self.answer(),
                2 => self.resume(),
                _ if self.securing => self.secure(),
                _ if self.session.wants_input() => {
                    let piece = self.rng.among(&[1, 30, 5_000, RECEIVE_BYTES_MAX]);
                    let piece = rest.len().min(1 + self.rng.size(piece));
                    self.feed(&rest[..piece]);
                    rest = &rest[piece..];
                }
                _ => {}
            }
            self.session.invariants();
        }
        self.end();
    }

    /// Ends the session and checks that all memory is released.
    fn end(self) {
        let Self { session, mut budget, memory, outstanding, .. } = self;
        let mut in_flight = session.into_in_flight(&mut budget);
        assert_eq!(in_flight.count(), outstanding.len(), "each request is known until answered");
        for request in outstanding {
            let entry = in_flight.close(request.id().sequence).expect("an outstanding request");
            budget.release(entry.bytes);
        }
        assert_eq!(budget.free(), memory, "no memory is lost");
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        let Self { session, exports, settings, opened, budget, .. } = self;
        let events_to = &mut events;
        session.feed(
            bytes,
            &mut SessionContext { exports, settings, opened, budget, events: events_to },
        );
        self.note(events);
    }

    fn resume(&mut self) {
        let mut events = Vec::new();
        let Self { session, exports, settings, opened, budget, rng, .. } = self;
        let events_to = &mut events;
        let mut context = SessionContext { exports, settings, opened, budget, events: events_to };
        if session.blocked().is_some() {
            session.resume(&mut context);
        } else if let Some(space) = session.payload_space(context.budget) {
            let count = space.len().min(1 + rng.size(100_000));
            session.payload_filled(count, &mut context);
        } else if rng.one_in(200) {
            session.begin_shutdown();
        }
        self.note(events);
    }

    /// The end of a TLS handshake; what was said in plain text behind the wish for it is lost.
    fn secure(&mut self) {
        self.securing = false;
        self.session.take_backlog();
        let common_name = self.rng.one_in(2).then(|| "vm".to_owned());
        let client = Identity { common_name, fingerprint: [7; 32] };
        self.session.tls_established(self.rng.one_in(2).then_some(client));
    }

    fn note(&mut self, events: Vec<Event>) {
        let disk = Extent::new(Lba(0), self.exports.0.size.sectors_floor());
        for event in events {
            match event {
                Event::Request(request) => {
                    let Request { operation, .. } = request;
                    assert!(disk.contains(operation.extent), "a request lies inside the export");
                    let writes = operation.op == Op::Write;
                    let payload = if writes { operation.extent.len.bytes_usize() } else { 0 };
                    assert_eq!(request.data.len(), payload, "a write brings its data, no other");
                    assert!(!operation.op.writes() || !self.exports.0.read_only, "it is writable");
                    self.outstanding.push(Outstanding::Request(request));
                }
                Event::ReadModifyWrite(write) => {
                    let ReadModifyWrite { span, data, .. } = &write;
                    assert!(disk.contains(span.outer()), "a write lies inside the export");
                    assert!(!span.is_whole(), "it is of less than sectors");
                    let payload = data.as_ref().map_or(span.len.0, |data| data.len() as u64);
                    assert_eq!(payload, span.len.0, "it brings its data");
                    assert!(!self.exports.0.read_only, "it is writable");
                    assert_eq!(self.exports.0.block_min.0, 1, "it is aligned");
                    self.outstanding.push(Outstanding::ReadModifyWrite(write));
                }
                Event::BlockStatus(query) => {
                    assert!(disk.contains(query.extent), "a question lies inside the export");
                    self.outstanding.push(Outstanding::BlockStatus(query));
                }
                Event::StartTls => self.securing = true,
                Event::Opened(_) => {
                    assert!(self.exports.0.clients.is_none() || self.settings.tls.is_some());
                }
                Event::Disconnect | Event::Close(_) => {}
            }
        }
        let most = self.settings.requests_max;
        assert!(self.outstanding.len() <= most, "no more at once than is allowed");
    }

    fn answer(&mut self) {
        if self.outstanding.is_empty() {
            return;
        }
        let at = self.rng.size(self.outstanding.len());
        let (sequence, known) = match self.outstanding.swap_remove(at) {
            Outstanding::Request(request) => self.perform(request),
            Outstanding::ReadModifyWrite(write) => {
                let failed = self.rng.one_in(8);
                let result = if failed { Err(Errno::Io) } else { Ok(Vec::new()) };
                let sequence = write.id.sequence;
                (sequence, self.session.reply(sequence, result, &mut self.budget))
            }
            Outstanding::BlockStatus(query) => self.reply_block_status(query),
        };
        assert!(known, "it was outstanding");
        assert!(!self.session.reply(sequence, Ok(Vec::new()), &mut self.budget), "and is no more");
        assert!(
            !self.session.reply_block_status(sequence, Ok(&[]), &mut self.budget),
            "in either way"
        );
        self.session.reply(self.rng.next(), Err(Errno::Perm), &mut self.budget);
    }

    fn perform(&mut self, request: Request) -> (u64, bool) {
        let asked = request.operation.extent.len.bytes().0.min(PAYLOAD_ACCEPTED_BYTES_MAX as u64);
        let asked = usize::try_from(asked).unwrap_or(0);
        let mut data = request.data;
        let result = match self.rng.under(8) {
            0 => Err(Errno::Io),
            1 => Ok(vec![0; self.rng.size(2_000)]),
            _ if request.operation.op == Op::Read => {
                data.resize(asked, self.rng.among(&[0, 1]));
                Ok(data)
            }
            _ => Ok(data),
        };
        let sequence = request.id.sequence;
        (sequence, self.session.reply(sequence, result, &mut self.budget))
    }

    fn reply_block_status(&mut self, query: BlockStatusRequest) -> (u64, bool) {
        let segment = |rng: &mut MessageRng| Segment {
            len: Sectors(rng.among(&[0, 1, 8, 1 << 22, 1 << 40])),
            allocation: rng.among(&[Allocation::Data, Allocation::Zeroes, Allocation::Hole]),
        };
        let segments: Vec<_> = (0..self.rng.size(600)).map(|_| segment(&mut self.rng)).collect();
        let result = if self.rng.one_in(8) { Err(Errno::Io) } else { Ok(&segments[..]) };
        let sequence = query.id.sequence;
        // A question that a request's bytes answer is one that a disk got wrong: it is answered all
        // the same.
        if self.rng.one_in(20) {
            return (sequence, self.session.reply(sequence, Ok(Vec::new()), &mut self.budget));
        }
        (sequence, self.session.reply_block_status(sequence, result, &mut self.budget))
    }

    fn send(&mut self) {
        let mut slices = [std::io::IoSlice::new(&[]); 5];
        let (used, bytes) = self.session.output().slices(&mut slices);
        assert_eq!(slices[..used].iter().map(|slice| slice.len()).sum::<usize>(), bytes);
        let count = if self.rng.one_in(2) { bytes } else { self.rng.size(bytes + 1) };
        self.session.sent(count, &mut self.budget);
    }

    fn handshake(&mut self) -> Vec<u8> {
        let flags = if self.rng.one_in(self.damage) { self.rng.word() % 64 } else { 3 };
        let mut out = flags.to_be_bytes().to_vec();
        for _ in 0..self.rng.size(4) {
            let data: Vec<_> = (0..self.rng.size(40)).map(|_| self.rng.byte()).collect();
            let option = self.rng.word() % 14;
            if !matches!(option, option::EXPORT_NAME | option::ABORT) {
                option_request(&mut out, option, &[&data]);
            }
        }
        if self.rng.one_in(4) {
            option_request(&mut out, option::STARTTLS, &[]);
        }
        if self.rng.one_in(2) {
            option_request(&mut out, option::STRUCTURED_REPLY, &[]);
        }
        if self.extended {
            option_request(&mut out, option::EXTENDED_HEADERS, &[]);
        }
        let name: &[u8] = self.rng.among(&[b"vol", b""]);
        let length: &[u8] = if name.is_empty() { &[0; 4] } else { &[0, 0, 0, 3] };
        for _ in 0..self.rng.size(3) {
            self.choose_contexts(&mut out, &[length, name]);
        }
        if self.rng.one_in(4) {
            option_request(&mut out, option::EXPORT_NAME, &[name]);
        } else {
            let wanted = [&[0, 1][..], &info::BLOCK_SIZE.to_be_bytes()].concat();
            option_request(&mut out, option::GO, &[length, name, &wanted]);
        }
        self.maybe_damage(&mut out);
        out
    }

    fn choose_contexts(&mut self, out: &mut Vec<u8>, name: &[&[u8]]) {
        let which = self.rng.among(&[option::LIST_META_CONTEXT, option::SET_META_CONTEXT]);
        let queries: &[&str] = self.rng.among(&[
            &[][..],
            &["base:allocation"],
            &["base:", "x-y:z", "base:allocation"],
        ]);
        let mut data = name.concat();
        data.extend_from_slice(&u32::try_from(queries.len()).unwrap_or(0).to_be_bytes());
        for query in queries {
            data.extend_from_slice(&u32::try_from(query.len()).unwrap_or(0).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        option_request(out, which, &[&data]);
    }

    fn message(&mut self) -> Vec<u8> {
        let disk_end = self.exports.0.size.0.saturating_add(4096);
        let sectors = self.rng.among(&[0, 1, 8, 300, 70_000, 200_000_u32]);
        let odd = self.rng.among(&[0, 0, 0, 1, 300, 511]);
        let mut header = RequestHeader {
            flags: self.rng.among(&[0, 0, 0, 1, 2, 3, 4, 8, 16, 18, 0x8000]),
            command: self.rng.among(&[0, 0, 1, 1, 1, 3, 4, 5, 6, 7, 7, 99]),
            cookie: self.rng.under(8),
            offset: self.rng.under(disk_end) / 512 * 512 + self.rng.among(&[0, 0, 0, 1, 511]),
            length: u64::from(if self.rng.one_in(30) {
                self.rng.word()
            } else {
                sectors * 512 + odd
            }),
        };
        let mut out = Vec::new();
        let mut filter = Vec::new();
        if self.extended {
            if header.command == command::WRITE || self.rng.one_in(20) {
                header.flags |= command::FLAG_PAYLOAD_LEN;
            } else if header.command == command::BLOCK_STATUS && self.rng.one_in(2) {
                header.flags |= command::FLAG_PAYLOAD_LEN;
                filter.extend_from_slice(&header.length.to_be_bytes());
                for _ in 0..self.rng.among(&[0, 1, 1, 1, 2, 40]) {
                    filter.extend_from_slice(&self.rng.among(&[1_u32, 1, 1, 9]).to_be_bytes());
                }
                header.length = filter.len() as u64;
            } else if self.rng.one_in(10) {
                header.length = self.rng.next();
            }
            header.encode_extended(&mut out);
        } else {
            header.encode(&mut out);
        }
        let payload = usize::try_from(header.length).unwrap_or(0);
        // Long payloads cost time and cover no more code: most are announced and not sent, and the
        // messages that follow are taken for their bytes.
        let kept = payload < 200_000 || (payload <= PAYLOAD_SKIP_BYTES_MAX && self.rng.one_in(40));
        if header.command == command::WRITE && kept {
            out.resize(out.len() + payload, 0xa5);
        }
        out.append(&mut filter);
        self.maybe_damage(&mut out);
        if self.rng.one_in(60) {
            let goodbye = RequestHeader { command: command::DISC, ..header };
            if self.extended {
                goodbye.encode_extended(&mut out);
            } else {
                goodbye.encode(&mut out);
            }
        }
        out
    }

    fn maybe_damage(&mut self, message: &mut Vec<u8>) {
        if !self.rng.one_in(self.damage) {
            return;
        }
        let at = self.rng.size(message.len().min(64));
        match self.rng.under(4) {
            0 => message[at] ^= 1 << self.rng.under(8),
            1 => message[at] = self.rng.byte(),
            2 => message.truncate(at),
            _ => drop(message.splice(at..at, [0xff, 0, 0xff])),
        }
    }
}

/// Any settings that a server may have. TLS has no certificate that any client accepts.
fn settings(rng: &mut MessageRng) -> Settings {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let no_certificate = std::sync::Arc::new(ResolvesServerCertUsingSni::new());
    let tls = rng.one_in(4).then(|| {
        let versions = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has a suite for every version");
        let config = versions.with_no_client_auth().with_cert_resolver(no_certificate);
        Tls { required: rng.one_in(2), config: std::sync::Arc::new(config) }
    });
    Settings {
        listing: rng.among(&[Listing::Open, Listing::Open, Listing::Hidden]),
        export_connections_max: rng.among(&[1, 1_000]),
        requests_max: rng.among(&[1, 3, REQUESTS_MAX]),
        memory_max: rng.among(&[MEMORY_MIN, Bytes(BYTES_IN_FLIGHT_MAX as u64)]),
        tls,
        ..Settings::default()
    }
}
