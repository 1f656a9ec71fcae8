//! The handshake: fixed newstyle (sections "Newstyle negotiation", "Fixed newstyle negotiation",
//! "TLS support" and "Option types").
//!
//! Invariants: every option is answered, possibly with an error, or the session is closed, so that
//! the next option can always be parsed. A client without access to an export cannot learn that it
//! exists.

use units::{Bytes, SECTOR_BYTES};

use super::state::{
    Blocked, CloseReason, Event, Phase, Security, Session, SessionContext, Step, Target,
};
use crate::limits::{
    DESCRIPTION_BYTES_MAX, EXPORTS_MAX, HANDSHAKE_OUTPUT_BYTES_MAX, NAME_BYTES_MAX,
    OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OPTIONS_MAX,
};
use crate::proto::export::Export;
use crate::proto::reply::Style;
use crate::proto::settings::Listing;
use crate::proto::transport::Transport;
use crate::proto::wire::{
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
    pub(super) fn client_flags(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> Step {
        let Some(flags) = Fields(bytes).u32() else { return Step::Short };
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return self.close(CloseReason::UnknownClientFlags, context);
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.phase = Phase::Options;
        Step::Took(CLIENT_FLAGS_BYTES)
    }

    /// One complete option.
    pub(super) fn option(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> Step {
        if self.output.bytes() >= HANDSHAKE_OUTPUT_BYTES_MAX {
            return Step::Blocked(Blocked::ConnectionLimit);
        }
        let Some(header) = OptionHeader::decode(bytes) else { return Step::Short };
        if header.magic != OPTION_MAGIC {
            return self.close(CloseReason::BadMagic, context);
        }
        if self.options_seen == OPTIONS_MAX {
            return self.close(CloseReason::TooManyOptions, context);
        }
        if let Some(refused) = self.refuse_for_now(&header, context) {
            return refused;
        }
        if header.length > OPTION_BYTES_MAX {
            return self.big_option(&header, context);
        }
        let whole = OPTION_HEADER_BYTES + header.length;
        let Some(data) = bytes.get(OPTION_HEADER_BYTES..whole) else { return Step::Short };
        self.options_seen += 1;
        match header.option {
            option::EXPORT_NAME => return self.export_name(data, context),
            option::ABORT => {
                self.answer(header.option, rep::ACK);
                self.finish(context.budget);
                context.events.push(Event::Disconnect);
            }
            option::LIST => self.list(data, context),
            option::STARTTLS => self.start_tls(data, context),
            option::INFO | option::GO => self.info(header.option, data, context),
            option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                self.negotiate_style(header.option, data);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(header.option, data, context);
            }
            option::KERNEL_CLIENT if data.is_empty() => {
                self.connection = self.connection.with_transport(Transport::KernelNbd);
                self.answer(option::KERNEL_CLIENT, rep::ACK);
            }
            unsupported => self.answer(unsupported, rep::ERR_UNSUP),
        }
        Step::Took(whole)
    }

    /// Refuses any option while the server shuts down, or while TLS is required and not
    /// established.
    fn refuse_for_now(
        &mut self,
        header: &OptionHeader,
        context: &mut SessionContext<'_>,
    ) -> Option<Step> {
        let plain = matches!(self.security, Security::Plain);
        let tls_first = plain
            && header.option != option::STARTTLS
            && context.settings.tls.as_ref().is_some_and(|tls| tls.required);
        let answer = match header.option {
            option::ABORT => return None,
            _ if self.shutting_down => rep::ERR_SHUTDOWN,
            _ if tls_first => rep::ERR_TLS_REQD,
            _ => return None,
        };
        Some(if header.option == option::EXPORT_NAME {
            self.close(CloseReason::NotAllowed, context)
        } else if header.length > OPTION_SKIP_BYTES_MAX {
            self.close(CloseReason::OptionTooBig, context)
        } else {
            self.skip_and_answer(header, answer)
        })
    }

    /// An option with more data than any needs: skipped and answered if that is cheap, else the
    /// session is closed.
    fn big_option(&mut self, header: &OptionHeader, context: &mut SessionContext<'_>) -> Step {
        let known = matches!(
            header.option,
            option::LIST
                | option::INFO
                | option::GO
                | option::STARTTLS
                | option::STRUCTURED_REPLY
                | option::EXTENDED_HEADERS
                | option::LIST_META_CONTEXT
                | option::SET_META_CONTEXT
        );
        if header.length > OPTION_SKIP_BYTES_MAX || header.option == option::EXPORT_NAME {
            return self.close(CloseReason::OptionTooBig, context);
        }
        if header.option == option::SET_META_CONTEXT {
            self.context_of = None;
        }
        self.skip_and_answer(header, if known { rep::ERR_TOO_BIG } else { rep::ERR_UNSUP })
    }

    fn skip_and_answer(&mut self, header: &OptionHeader, answer: u32) -> Step {
        self.options_seen += 1;
        let (left, option) = (header.length, header.option);
        if left == 0 {
            self.answer(option, answer);
        } else {
            self.phase = Phase::SkipOption { left, option, answer };
        }
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

    /// `NBD_OPT_EXPORT_NAME`, which has no error reply: errors close the session.
    fn export_name(&mut self, name: &[u8], context: &mut SessionContext<'_>) -> Step {
        let Ok(export) = self.find_export(name, context) else {
            return self.close(CloseReason::UnknownExport, context);
        };
        // The extension forbids it: the client cannot know the length of the reply.
        if self.style == Style::Extended || is_full(&export, context) {
            return self.close(CloseReason::NotAllowed, context);
        }
        let mut out = Vec::with_capacity(10 + EXPORT_NAME_ZEROES);
        out.extend_from_slice(&size(&export).to_be_bytes());
        out.extend_from_slice(&self.transmission_flags(&export).to_be_bytes());
        if !self.no_zeroes {
            out.resize(out.len() + EXPORT_NAME_ZEROES, 0);
        }
        self.output.push_bytes(out);
        self.open_export(&export, context);
        Step::Took(OPTION_HEADER_BYTES + name.len())
    }

    /// `NBD_OPT_LIST`.
    fn list(&mut self, data: &[u8], context: &SessionContext<'_>) {
        if !data.is_empty() {
            return self.answer(option::LIST, rep::ERR_INVALID);
        }
        if context.settings.listing == Listing::Hidden {
            let why = "this server keeps its list to itself";
            return self.answer_with(option::LIST, rep::ERR_POLICY, why);
        }
        let mut out = Vec::new();
        let all = context.exports.list();
        for export in all.iter().filter(|export| self.may_see(export)).take(EXPORTS_MAX) {
            let name = export.name.as_str();
            let parts = [&name_length(name), name.as_bytes(), description(export).as_bytes()];
            option_reply(&mut out, option::LIST, rep::SERVER, &parts);
        }
        option_reply(&mut out, option::LIST, rep::ACK, &[]);
        self.output.push_bytes(out);
    }

    /// `NBD_OPT_STARTTLS`.
    fn start_tls(&mut self, data: &[u8], context: &mut SessionContext<'_>) {
        let plain = matches!(self.security, Security::Plain);
        if context.settings.tls.is_none() {
            let why = "this server has no certificate";
            return self.answer_with(option::STARTTLS, rep::ERR_POLICY, why);
        }
        if !plain || !data.is_empty() {
            return self.answer(option::STARTTLS, rep::ERR_INVALID);
        }
        self.answer(option::STARTTLS, rep::ACK);
        assert!(matches!(self.phase, Phase::Options), "TLS begins between two options");
        self.phase = Phase::TlsHandshake;
        context.events.push(Event::StartTls);
    }

    /// `NBD_OPT_STRUCTURED_REPLY` and `NBD_OPT_EXTENDED_HEADERS`.
    fn negotiate_style(&mut self, option: u32, data: &[u8]) {
        let wanted = match option {
            option::EXTENDED_HEADERS => Style::Extended,
            _ => Style::Structured,
        };
        if !data.is_empty() {
            return self.answer(option, rep::ERR_INVALID);
        }
        if self.style >= wanted {
            let downgrade = self.style > wanted;
            let answer = if downgrade { rep::ERR_EXT_HEADER_REQD } else { rep::ERR_INVALID };
            return self.answer_with(option, answer, "that is agreed on already");
        }
        self.style = wanted;
        self.answer(option, rep::ACK);
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`, which differ only in that the second opens the export.
    fn info(&mut self, option: u32, data: &[u8], context: &mut SessionContext<'_>) {
        let Some(request) = InfoRequest::decode(data) else {
            return self.answer(option, rep::ERR_INVALID);
        };
        let export = match self.find_export(request.name, context) {
            Ok(export) => export,
            Err(kind) => return self.answer(option, kind),
        };
        if option == option::GO && is_full(&export, context) {
            let why = "this export has as many connections as it may have";
            return self.answer_with(option, rep::ERR_POLICY, why);
        }
        let payload_max = context.settings.payload_max();
        self.output.push_bytes(self.information(option, &request, &export, payload_max));
        if option == option::GO {
            self.open_export(&export, context);
        }
    }

    /// The end of the handshake: requests follow.
    fn open_export(&mut self, export: &Export, context: &mut SessionContext<'_>) {
        assert!(self.is_in_handshake(), "an export is opened once");
        self.target = Target {
            id: export.id,
            bytes: size(export),
            block_min: export.block_min.0,
            payload_max: context.settings.payload_accepted(),
            read_only: export.read_only,
            fast_zero: export.fast_zero,
            caches: export.caches,
            status: self.has_selected(export.id),
        };
        self.in_flight.export = export.id;
        self.phase = Phase::Requests;
        context.events.push(Event::Opened(export.id));
    }

    /// The export of this name, or the error to reply. The empty name means the only export: with
    /// several exports, a guess would let a client write to an export that it did not name.
    pub(super) fn find_export(
        &self,
        raw: &[u8],
        context: &SessionContext<'_>,
    ) -> Result<Export, u32> {
        let name = name_of(raw)?;
        let export = if !name.is_empty() {
            context.exports.open(name)
        } else if context.settings.listing == Listing::Hidden {
            None
        } else {
            let mut all = context.exports.list();
            all.retain(|export| self.may_see(export));
            if all.len() == 1 { all.pop() } else { None }
        };
        // An unknown export and one without access get the same error, with TLS and without.
        let tls_may_help =
            matches!(self.security, Security::Plain) && context.settings.tls.is_some();
        let kind = if tls_may_help { rep::ERR_TLS_REQD } else { rep::ERR_UNKNOWN };
        export.filter(|export| self.may_see(export)).ok_or(kind)
    }

    fn may_see(&self, export: &Export) -> bool {
        let client = match &self.security {
            Security::Encrypted(Some(client)) => Some(client),
            Security::Encrypted(None) | Security::Plain => None,
        };
        export.is_well_formed() && export.admits(client)
    }

    pub(super) fn answer(&mut self, option: u32, kind: u32) {
        self.answer_with(option, kind, "");
    }

    /// The same with a message: "all error replies MAY have some data set, in which case that data
    /// is an error message string suitable for display to the user".
    pub(super) fn answer_with(&mut self, option: u32, kind: u32, why: &str) {
        let mut out = Vec::new();
        option_reply(&mut out, option, kind, &[why.as_bytes()]);
        self.output.push_bytes(out);
    }

    /// Section "Transmission flags".
    ///
    /// Several connections to one export are consistent (`CAN_MULTI_CONN`): a flush on one covers
    /// the completed writes of all. All requests for an export go to one handler, which sends them
    /// to the disk of that export. A write is answered after the disk has taken it. A flush that a
    /// client sends after that answer, on any connection, therefore reaches the disk after the
    /// write, and a disk's flush covers all writes that it has taken before. No connection has a
    /// cache of its own in front of the disk.
    fn transmission_flags(&self, export: &Export) -> u16 {
        let always = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_TRIM
            | flag::SEND_WRITE_ZEROES
            | flag::SEND_FAST_ZERO
            | flag::CAN_MULTI_CONN;
        let some = [
            (export.read_only, flag::READ_ONLY),
            (export.rotational, flag::ROTATIONAL),
            (export.caches, flag::SEND_CACHE),
            (self.style >= Style::Structured, flag::SEND_DF),
            (
                self.style == Style::Extended && self.has_selected(export.id),
                flag::BLOCK_STATUS_PAYLOAD,
            ),
        ];
        some.iter().filter(|(holds, _)| *holds).fold(always, |flags, (_, flag)| flags | flag)
    }

    /// `NBD_REP_INFO`s and the final `NBD_REP_ACK`.
    fn information(
        &self,
        option: u32,
        request: &InfoRequest<'_>,
        export: &Export,
        payload_max: usize,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut say = |kind: u16, parts: [&[u8]; 3]| {
            let data = [&kind.to_be_bytes()[..], parts[0], parts[1], parts[2]];
            option_reply(&mut out, option, rep::INFO, &data);
        };
        let flags = self.transmission_flags(export).to_be_bytes();
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
            say(info::BLOCK_SIZE, [&min, &preferred, &field(payload_max as u64)]);
        }
        option_reply(&mut out, option, rep::ACK, &[]);
        out
    }
}

/// Whether the export has the maximum number of connections.
fn is_full(export: &Export, context: &SessionContext<'_>) -> bool {
    let connections = context.opened.get(&export.id).copied().unwrap_or(0);
    connections >= context.settings.export_connections_max
}

/// The name, checked as in section "Conventions", or the error to reply.
fn name_of(raw: &[u8]) -> Result<&str, u32> {
    if raw.len() > NAME_BYTES_MAX {
        return Err(rep::ERR_TOO_BIG);
    }
    let name = core::str::from_utf8(raw).map_err(|_| rep::ERR_INVALID)?;
    if name.contains('\0') { Err(rep::ERR_INVALID) } else { Ok(name) }
}

/// The size that is offered: whole blocks and sectors, since the rest cannot be addressed. Both are
/// powers of two.
fn size(export: &Export) -> u64 {
    offered_bytes(export.size, export.block_min.0)
}

/// See [`size`].
pub(super) const fn offered_bytes(size: Bytes, block_min: u64) -> u64 {
    let block = if block_min > SECTOR_BYTES { block_min } else { SECTOR_BYTES };
    size.0 - size.0 % block
}

/// The description, cut at a character boundary.
fn description(export: &Export) -> &str {
    let end = export.description.floor_char_boundary(DESCRIPTION_BYTES_MAX);
    &export.description[..end]
}
