//! The handshake: fixed newstyle, simple replies, no TLS (sections "Newstyle negotiation", "Fixed newstyle
//! negotiation" and "Option types").
//!
//! Invariant: every option is answered, an error included, or the session is closed; so the client's next
//! option is always understood.

use super::{Blocked, CloseReason, Event, Phase, Session, Step, Target, World};
use crate::export::{Export, Exports};
use crate::limits::{
    DESCRIPTION_BYTES_MAX, EXPORTS_MAX, HANDSHAKE_OUTPUT_BYTES_MAX, NAME_BYTES_MAX,
    OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OPTIONS_MAX, PAYLOAD_BYTES_MAX,
};
use crate::wire::{
    CLIENT_FLAGS_BYTES, EXPORT_NAME_ZEROES, FIXED_NEWSTYLE, Fields, NO_ZEROES, OPTION_HEADER_BYTES,
    OPTION_MAGIC, flag, info, length, name_length, option, option_reply, rep,
};

/// The head of an option.
struct OptionHeader {
    magic: u64,
    option: u32,
    length: usize,
}

impl OptionHeader {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self { magic: fields.u64()?, option: fields.u32()?, length: length(fields.u32()?) })
    }
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
struct InfoRequest<'a> {
    name: &'a [u8],
    wanted: Fields<'a>,
}

impl<'a> InfoRequest<'a> {
    fn decode(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name_length = length(fields.u32()?);
        let name = fields.bytes(name_length)?;
        let count = usize::from(fields.u16()?);
        (fields.0.len() == 2 * count).then_some(Self { name, wanted: fields })
    }

    fn wants(&self, kind: u16) -> bool {
        self.wanted.0.chunks_exact(2).any(|raw| raw == kind.to_be_bytes())
    }
}

impl Session {
    /// Section "Client flags".
    pub(super) fn client_flags(&mut self, bytes: &[u8], world: &mut World<'_>) -> Step {
        let Some(flags) = Fields(bytes).u32() else { return Step::Short };
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return self.close(CloseReason::UnknownClientFlags, world);
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.phase = Phase::Options;
        Step::Took(CLIENT_FLAGS_BYTES)
    }

    /// One option, with its data whole.
    pub(super) fn option(&mut self, bytes: &[u8], world: &mut World<'_>) -> Step {
        if self.output.bytes() >= HANDSHAKE_OUTPUT_BYTES_MAX {
            return Step::Blocked(Blocked::Room);
        }
        let Some(header) = OptionHeader::decode(bytes) else { return Step::Short };
        if header.magic != OPTION_MAGIC {
            return self.close(CloseReason::BadMagic, world);
        }
        if self.options_seen == OPTIONS_MAX {
            return self.close(CloseReason::TooManyOptions, world);
        }
        if header.length > OPTION_BYTES_MAX {
            return self.big_option(&header, world);
        }
        let whole = OPTION_HEADER_BYTES + header.length;
        let Some(data) = bytes.get(OPTION_HEADER_BYTES..whole) else { return Step::Short };
        self.options_seen += 1;
        match header.option {
            option::EXPORT_NAME => return self.export_name(data, world),
            option::ABORT => {
                self.answer(header.option, rep::ACK);
                self.finish(world.budget);
                world.events.push(Event::Disconnect);
            }
            option::LIST => self.list(data, world.exports),
            option::INFO | option::GO => self.info(header.option, data, world),
            // TLS, structured replies, metadata contexts and whatever comes: clients go on without.
            unsupported => self.answer(unsupported, rep::ERR_UNSUP),
        }
        Step::Took(whole)
    }

    /// An option with more data than is ever needed: read past it if that is little trouble, so that the
    /// client can be told; else give up.
    fn big_option(&mut self, header: &OptionHeader, world: &mut World<'_>) -> Step {
        let known = matches!(header.option, option::LIST | option::INFO | option::GO);
        if header.length > OPTION_SKIP_BYTES_MAX || header.option == option::EXPORT_NAME {
            return self.close(CloseReason::OptionTooBig, world);
        }
        self.options_seen += 1;
        let answer = if known { rep::ERR_TOO_BIG } else { rep::ERR_UNSUP };
        self.phase = Phase::SkipOption { left: header.length, option: header.option, answer };
        Step::Took(OPTION_HEADER_BYTES)
    }

    pub(super) fn skip_option(
        &mut self,
        bytes: &[u8],
        left: usize,
        option: u32,
        answer: u32,
    ) -> Step {
        if bytes.is_empty() {
            return Step::Short;
        }
        let taken = left.min(bytes.len());
        if taken == left {
            self.answer(option, answer);
            self.phase = Phase::Options;
        } else {
            self.phase = Phase::SkipOption { left: left - taken, option, answer };
        }
        Step::Took(taken)
    }

    /// `NBD_OPT_EXPORT_NAME`: has no way to say no but to hang up.
    fn export_name(&mut self, name: &[u8], world: &mut World<'_>) -> Step {
        let opened = name_of(name).ok().and_then(|name| open(world.exports, name));
        let Some(export) = opened else { return self.close(CloseReason::UnknownExport, world) };
        let mut out = Vec::with_capacity(10 + EXPORT_NAME_ZEROES);
        out.extend_from_slice(&size(&export).to_be_bytes());
        out.extend_from_slice(&transmission_flags(&export).to_be_bytes());
        if !self.no_zeroes {
            out.resize(out.len() + EXPORT_NAME_ZEROES, 0);
        }
        self.output.push_bytes(out);
        self.enter(&export, world);
        Step::Took(OPTION_HEADER_BYTES + name.len())
    }

    /// `NBD_OPT_LIST`.
    fn list(&mut self, data: &[u8], exports: &dyn Exports) {
        if !data.is_empty() {
            return self.answer(option::LIST, rep::ERR_INVALID);
        }
        let mut out = Vec::new();
        for export in exports.list().iter().filter(|e| e.is_well_formed()).take(EXPORTS_MAX) {
            let name = export.name.as_str();
            let parts = [&name_length(name), name.as_bytes(), description(export).as_bytes()];
            option_reply(&mut out, option::LIST, rep::SERVER, &parts);
        }
        option_reply(&mut out, option::LIST, rep::ACK, &[]);
        self.output.push_bytes(out);
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`: the same questions and answers; the second also opens.
    fn info(&mut self, option: u32, data: &[u8], world: &mut World<'_>) {
        let Some(request) = InfoRequest::decode(data) else {
            return self.answer(option, rep::ERR_INVALID);
        };
        let name = match name_of(request.name) {
            Ok(name) => name,
            Err(kind) => return self.answer(option, kind),
        };
        let Some(export) = open(world.exports, name) else {
            return self.answer(option, rep::ERR_UNKNOWN);
        };
        self.output.push_bytes(information(option, &request, &export));
        if option == option::GO {
            self.enter(&export, world);
        }
    }

    /// The end of the handshake: requests follow.
    fn enter(&mut self, export: &Export, world: &mut World<'_>) {
        self.target = Target {
            id: export.id,
            bytes: size(export),
            block_min: export.block_min.0,
            read_only: export.read_only,
        };
        self.phase = Phase::Requests;
        world.events.push(Event::Opened(export.id));
    }

    fn answer(&mut self, option: u32, kind: u32) {
        let mut out = Vec::new();
        option_reply(&mut out, option, kind, &[]);
        self.output.push_bytes(out);
    }
}

/// A name as the section "Conventions" wants it, or the error to reply.
fn name_of(raw: &[u8]) -> Result<&str, u32> {
    if raw.len() > NAME_BYTES_MAX {
        return Err(rep::ERR_TOO_BIG);
    }
    let name = core::str::from_utf8(raw).map_err(|_| rep::ERR_INVALID)?;
    if name.contains('\0') { Err(rep::ERR_INVALID) } else { Ok(name) }
}

/// The export of a name. The empty name means the only export there is: with several, guessing one would
/// let a client write to what it did not name.
fn open(exports: &dyn Exports, name: &str) -> Option<Export> {
    let export = if name.is_empty() {
        let mut all = exports.list();
        if all.len() == 1 { all.pop() } else { None }
    } else {
        exports.open(name)
    };
    export.filter(Export::is_well_formed)
}

/// The size that is offered: whole blocks, since the rest could not be reached.
fn size(export: &Export) -> u64 {
    export.size.0 - export.size.0 % export.block_min.0
}

/// The description, cut at a letter's edge.
fn description(export: &Export) -> &str {
    let end = export.description.floor_char_boundary(DESCRIPTION_BYTES_MAX);
    &export.description[..end]
}

/// Section "Transmission flags". All connections share one disk behind one queue, so that what one flushed
/// all see: several connections at once are fine.
fn transmission_flags(export: &Export) -> u16 {
    let always = flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::SEND_TRIM
        | flag::SEND_WRITE_ZEROES
        | flag::CAN_MULTI_CONN;
    if export.read_only { always | flag::READ_ONLY } else { always }
}

/// `NBD_REP_INFO`s and the final `NBD_REP_ACK`.
fn information(option: u32, request: &InfoRequest<'_>, export: &Export) -> Vec<u8> {
    let mut out = Vec::new();
    let mut say = |kind: u16, parts: [&[u8]; 3]| {
        let data = [&kind.to_be_bytes()[..], parts[0], parts[1], parts[2]];
        option_reply(&mut out, option, rep::INFO, &data);
    };
    let flags = transmission_flags(export).to_be_bytes();
    say(info::EXPORT, [&size(export).to_be_bytes(), &flags, &[]]);
    if request.wants(info::NAME) {
        say(info::NAME, [export.name.as_bytes(), &[], &[]]);
    }
    if request.wants(info::DESCRIPTION) && !export.description.is_empty() {
        say(info::DESCRIPTION, [description(export).as_bytes(), &[], &[]]);
    }
    if request.wants(info::BLOCK_SIZE) {
        let field = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
        let (min, preferred) = (field(export.block_min.0), field(export.block_preferred.0));
        say(info::BLOCK_SIZE, [&min, &preferred, &field(PAYLOAD_BYTES_MAX as u64)]);
    }
    option_reply(&mut out, option, rep::ACK, &[]);
    out
}
