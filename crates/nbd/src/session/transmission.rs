//! Requests: what is accepted, what is refused and with which error (sections "Request message", "Request
//! types" and "Error values").
//!
//! A request is judged before it takes any room: a refused one costs its reply and nothing else, and the
//! payload of a refused write is read past.

use units::{Bytes, Op, Operation};

use super::in_flight::Awaits;
use super::{
    ALLOCATION_ID, Blocked, Budget, CloseReason, Event, Payload, Phase, Session, Step, Target,
    World, partial,
};
use crate::limits::{
    OUTPUT_PIECES_MAX, PAYLOAD_SKIP_BYTES_MAX, PAYLOAD_STEP_BYTES, SPARE_BYTES_MAX,
    STATUS_BYTES_MAX, STATUS_PAYLOAD_BYTES_MAX,
};
use crate::reply::{self, Asked, Refusal, Style};
use crate::request::{ClientRequestId, Errno, Query, Request};
use crate::span::Span;
use crate::wire::{Decoded, Fields, RequestHeader, command, length};

/// What is done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes to the disk.
    Perform(Operation),
    /// It writes to parts of sectors.
    Splice(Span),
    /// The disk is asked what it knows of the sectors around these bytes.
    Ask(Span),
    /// It is right, and there is nothing to do.
    Nothing,
    /// The client is told why not.
    Refuse(Refusal),
    /// The client leaves.
    Disconnect,
}

pub(super) fn refuse(errno: Errno, why: &'static str) -> Verdict {
    Verdict::Refuse(Refusal::new(errno, why))
}

/// What is asked of the disk, if it is of a kind that exists. Bringing sectors into a cache is a read whose bytes are
/// not sent.
fn op(header: &RequestHeader) -> Option<Op> {
    match header.command {
        command::READ | command::CACHE | command::BLOCK_STATUS => Some(Op::Read),
        command::WRITE => Some(Op::Write),
        command::FLUSH => Some(Op::Flush),
        command::TRIM => Some(Op::Trim),
        command::WRITE_ZEROES => Some(Op::WriteZeroes),
        _ => None,
    }
}

/// The flags that a request may have, each where it means something. "The server MUST accept all commands with [FUA]
/// set", even where it means nothing.
fn flags_known(header: &RequestHeader, style: Style) -> u16 {
    let own = match header.command {
        command::READ if style >= Style::Structured => command::FLAG_DF,
        command::WRITE | command::BLOCK_STATUS if style == Style::Extended => {
            let one = header.command == command::BLOCK_STATUS;
            command::FLAG_PAYLOAD_LEN | if one { command::FLAG_REQ_ONE } else { 0 }
        }
        command::BLOCK_STATUS => command::FLAG_REQ_ONE,
        command::WRITE_ZEROES => command::FLAG_NO_HOLE | command::FLAG_FAST_ZERO,
        _ => 0,
    };
    command::FLAG_FUA | own
}

/// Judges a request against its export, `bytes` being how much it is about. Where several errors apply, the first in
/// this order is told: flags, permission, alignment, bounds, length.
fn judge(header: &RequestHeader, bytes: u64, target: &Target, style: Style) -> Verdict {
    if header.command == command::DISC {
        return Verdict::Disconnect;
    }
    let Some(op) = op(header) else { return refuse(Errno::Inval, "there is no such command") };
    if header.flags & !flags_known(header, style) != 0 {
        return refuse(Errno::Inval, "a flag that the command does not have");
    }
    if header.command == command::CACHE && !target.caches {
        return refuse(Errno::Inval, "there is no cache to bring sectors into");
    }
    if header.command == command::BLOCK_STATUS && !target.status {
        return refuse(Errno::Inval, "no metadata context was chosen for this export");
    }
    if op == Op::Flush {
        let reserved_are_zero = header.offset == 0 && header.length == 0;
        let flush = Verdict::Perform(Operation::flush());
        let extent = "a flush is of the whole export";
        return if reserved_are_zero { flush } else { refuse(Errno::Inval, extent) };
    }
    if op.writes() && target.read_only {
        return refuse(Errno::Perm, "the export is read-only");
    }
    if !header.offset.is_multiple_of(target.block_min) || !bytes.is_multiple_of(target.block_min) {
        return refuse(Errno::Inval, "not a whole number of blocks");
    }
    if header.offset.checked_add(bytes).is_none_or(|end| end > target.bytes) {
        let full = matches!(op, Op::Write | Op::WriteZeroes);
        let errno = if full { Errno::NoSpc } else { Errno::Inval };
        // "MUST lie within the original offset and length of the request".
        let at = (header.offset < target.bytes).then_some(target.bytes);
        return Verdict::Refuse(Refusal { errno, why: "past the end of the export", at });
    }
    let moves = matches!(header.command, command::READ | command::WRITE | command::CACHE);
    if moves && length(bytes) > target.payload_max {
        return refuse(Errno::Inval, "longer than the maximum block size");
    }
    // "MUST fail quickly with NBD_ENOTSUP unless the request can be serviced in less time than a corresponding write".
    if header.command == command::WRITE_ZEROES
        && header.flags & command::FLAG_FAST_ZERO != 0
        && !(target.fast_zero && header.flags & command::FLAG_NO_HOLE == 0)
    {
        return refuse(Errno::NotSup, "zeroing would be no faster than writing");
    }
    if bytes == 0 {
        // What it means is left open; that nobody is disconnected for it is not. There is no status of nothing.
        let status = header.command == command::BLOCK_STATUS;
        return if status { refuse(Errno::Inval, "of no sectors") } else { Verdict::Nothing };
    }
    let span = Span { start: Bytes(header.offset), len: Bytes(bytes) };
    if header.command == command::BLOCK_STATUS {
        return Verdict::Ask(span);
    }
    if !span.is_whole() {
        return partial::judge(header, op, span);
    }
    let fua = op.writes() && header.flags & command::FLAG_FUA != 0;
    Verdict::Perform(Operation { op, extent: span.outer(), fua })
}

/// How long the payload behind a request is. A client that forgets to mark a write's as one is understood all the
/// same: without it the two would lose each other.
fn payload_bytes(header: &RequestHeader, style: Style) -> u64 {
    let marked = style == Style::Extended && header.flags & command::FLAG_PAYLOAD_LEN != 0;
    if marked || header.command == command::WRITE { header.length } else { 0 }
}

/// A block status request's payload: which contexts it is about, and how many bytes. `None` unless it is one context,
/// which was chosen: the only one there is.
fn effect_bytes(payload: &[u8]) -> Option<u64> {
    let mut fields = Fields(payload);
    let (bytes, context) = (fields.u64()?, fields.u32()?);
    (context == ALLOCATION_ID && fields.0.is_empty()).then_some(bytes)
}

impl Payload {
    /// Sees to it that there is space behind what is filled; false if there is no memory for it. The buffer
    /// doubles as it fills, so that a promise of bytes costs nothing and a kept one little.
    pub(super) fn make_room(&mut self, budget: &mut Budget) -> bool {
        if self.filled < self.data.len() {
            return true;
        }
        if self.data.capacity() == 0 && budget.free() >= self.length {
            // One that is there already costs nothing more to hold whole.
            if let Some(mut stale) = budget.stale(self.length) {
                stale.resize(self.length, 0);
                self.data = stale;
                return budget.take(self.length);
            }
        }
        let wanted = (2 * self.filled).max(PAYLOAD_STEP_BYTES).min(self.length);
        if !budget.take(wanted - self.data.len()) {
            return false;
        }
        // The last growth makes it a buffer that can be used again.
        let whole = wanted == self.length && wanted <= SPARE_BYTES_MAX;
        let capacity = if whole { wanted.next_power_of_two() } else { wanted };
        self.data.reserve_exact(capacity - self.data.len());
        self.data.resize(wanted, 0);
        true
    }
}

impl Session {
    /// One request's head; with a write, also its payload if all of it is there.
    pub(super) fn request(&mut self, bytes: &[u8], world: &mut World<'_>) -> Step {
        // Refusals cost output too: who does not read them is not listened to.
        if self.output.pieces() >= OUTPUT_PIECES_MAX {
            return Step::Blocked(Blocked::Room);
        }
        let (header, head) = match RequestHeader::decode(bytes, self.style == Style::Extended) {
            Decoded::Header(header, head) => (header, head),
            Decoded::Short => return Step::Short,
            Decoded::BadMagic => return self.close(CloseReason::BadMagic, world),
        };
        let payload = payload_bytes(&header, self.style);
        self.expects_payload = payload >= PAYLOAD_STEP_BYTES as u64;
        if header.command == command::BLOCK_STATUS && payload > 0 {
            return self.filtered_status(&header, &bytes[head..], head, world);
        }
        let verdict = judge(&header, header.length, &self.target, self.style);
        self.carry_out(&header, verdict, &bytes[head..], (head, payload), world)
    }

    /// Does what was decided about a request; its head and the payload behind it are so long.
    fn carry_out(
        &mut self,
        header: &RequestHeader,
        verdict: Verdict,
        rest: &[u8],
        (head, payload): (usize, u64),
        world: &mut World<'_>,
    ) -> Step {
        let asked = Asked { cookie: header.cookie, offset: header.offset };
        let verdict = match verdict {
            Verdict::Perform(_) | Verdict::Splice(_) | Verdict::Ask(_) if self.leaving => {
                refuse(Errno::Shutdown, "the export goes away")
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Perform(operation) => self.admit(header, operation, rest, head, world),
            Verdict::Splice(span) => self.admit_splice(header, span, rest, head, world),
            Verdict::Ask(span) => self.ask(header, span, head, world),
            Verdict::Disconnect => {
                self.finish(world.budget);
                world.events.push(Event::Disconnect);
                Step::Short
            }
            Verdict::Refuse(_) if payload > PAYLOAD_SKIP_BYTES_MAX as u64 => {
                self.close(CloseReason::PayloadTooBig, world)
            }
            Verdict::Refuse(refusal) if payload > 0 => {
                self.begin_payload(Phase::SkipPayload { left: length(payload), asked, refusal });
                Step::Took(head)
            }
            Verdict::Refuse(refusal) => {
                self.refuse(asked, refusal);
                Step::Took(head)
            }
            Verdict::Nothing => {
                let read = header.command == command::READ;
                let answer = if read { reply::nothing_read } else { reply::done };
                self.output.push_reply(answer(self.style, asked), Vec::new());
                Step::Took(head)
            }
        }
    }

    /// A block status request that says in a payload which contexts it is about (`NBD_FLAG_BLOCK_STATUS_PAYLOAD`). The
    /// payload is a few bytes: it is waited for, and a longer one is read past.
    fn filtered_status(
        &mut self,
        header: &RequestHeader,
        rest: &[u8],
        head: usize,
        world: &mut World<'_>,
    ) -> Step {
        if header.length > STATUS_PAYLOAD_BYTES_MAX as u64 {
            let verdict = refuse(Errno::Inval, "a list of contexts that were not chosen");
            return self.carry_out(header, verdict, rest, (head, header.length), world);
        }
        let payload_len = length(header.length);
        let Some(payload) = rest.get(..payload_len) else { return Step::Short };
        let verdict = match effect_bytes(payload) {
            Some(bytes) => judge(header, bytes, &self.target, self.style),
            None => refuse(Errno::Inval, "a context that was not chosen"),
        };
        match self.carry_out(header, verdict, rest, (head, 0), world) {
            Step::Took(taken) => Step::Took(taken + payload_len),
            otherwise => otherwise,
        }
    }

    /// Whether there is room for one more request that holds so many bytes.
    pub(super) fn has_room(&self, bytes: usize, world: &World<'_>) -> bool {
        let held = self.in_flight.bytes() + self.output.data_bytes();
        self.in_flight.count() < world.settings.requests_max
            && held + bytes <= world.settings.memory_max_bytes()
    }

    /// Lets a request in if there is room for it.
    fn admit(
        &mut self,
        header: &RequestHeader,
        operation: Operation,
        rest: &[u8],
        head: usize,
        world: &mut World<'_>,
    ) -> Step {
        let moves = matches!(operation.op, Op::Read | Op::Write);
        let bytes = if moves { operation.extent.len.bytes_usize() } else { 0 };
        // What a read has of sectors beyond what was asked for comes on top: else the longest would wait for ever.
        if !self.has_room(bytes.min(length(header.length)), world) {
            return Step::Blocked(Blocked::Room);
        }
        if operation.op == Op::Write && rest.len() < bytes {
            let (data, filled) = (Vec::new(), 0);
            let (header, length, beside) = (*header, bytes, 0);
            self.begin_payload(Phase::Payload(Payload { header, data, filled, length, beside }));
            return Step::Took(head);
        }
        if !world.budget.take(bytes) {
            return Step::Blocked(Blocked::Memory);
        }
        if operation.op == Op::Write {
            let mut data = world.budget.buffer(bytes);
            data.extend_from_slice(&rest[..bytes]);
            self.submit(header, operation, data, world);
            return Step::Took(head + bytes);
        }
        let data = if operation.op == Op::Read { world.budget.spare(bytes) } else { Vec::new() };
        self.submit(header, operation, data, world);
        Step::Took(head)
    }

    /// Asks the disk, if there is room for its answer.
    fn ask(
        &mut self,
        header: &RequestHeader,
        span: Span,
        head: usize,
        world: &mut World<'_>,
    ) -> Step {
        if !self.has_room(STATUS_BYTES_MAX, world) {
            return Step::Blocked(Blocked::Room);
        }
        if !world.budget.take(STATUS_BYTES_MAX) {
            return Step::Blocked(Blocked::Memory);
        }
        let asked = Asked { cookie: header.cookie, offset: header.offset };
        let one = header.flags & command::FLAG_REQ_ONE != 0;
        let awaits = Awaits::Status { before: span.before(), length: span.len.0, one };
        let sequence = self.in_flight.open(asked, STATUS_BYTES_MAX, awaits);
        let id = ClientRequestId { connection: self.connection, sequence };
        let (export, extent) = (self.target.id, span.outer());
        world.events.push(Event::Query(Query { id, export, extent }));
        Step::Took(head)
    }

    /// More of a payload.
    pub(super) fn payload(&mut self, bytes: &[u8], world: &mut World<'_>) -> Step {
        let Phase::Payload(payload) = &mut self.phase else { return Step::Short };
        if bytes.is_empty() {
            return Step::Short;
        }
        if !payload.make_room(world.budget) {
            return Step::Blocked(Blocked::Memory);
        }
        let space = &mut payload.data[payload.filled..];
        let taken = space.len().min(bytes.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        payload.filled += taken;
        self.finish_payload(world);
        Step::Took(taken)
    }

    /// Turns a payload that is whole into its request.
    pub(super) fn finish_payload(&mut self, world: &mut World<'_>) {
        match core::mem::replace(&mut self.phase, Phase::Requests) {
            Phase::Payload(payload) if payload.filled == payload.length && self.leaving => {
                world.budget.give(payload.data.len() + payload.beside);
                let asked = Asked { cookie: payload.header.cookie, offset: payload.header.offset };
                self.refuse(asked, Refusal::new(Errno::Shutdown, "the export goes away"));
            }
            Phase::Payload(payload) if payload.filled == payload.length => {
                // Judged before its payload was read; nothing that it was judged by has changed.
                let bytes = payload.header.length;
                let verdict = judge(&payload.header, bytes, &self.target, self.style);
                match verdict {
                    Verdict::Perform(operation) => {
                        self.submit(&payload.header, operation, payload.data, world);
                    }
                    Verdict::Splice(span) => {
                        self.submit_splice(&payload.header, span, Some(payload.data), world);
                    }
                    _ => unreachable!("a write that was let in is one"),
                }
            }
            unfinished => self.phase = unfinished,
        }
    }

    /// More of the payload of a write that was refused.
    pub(super) fn skip_payload(
        &mut self,
        bytes: &[u8],
        left: usize,
        asked: Asked,
        refusal: Refusal,
    ) -> Step {
        if bytes.is_empty() {
            return Step::Short;
        }
        let taken = left.min(bytes.len());
        if taken == left {
            self.refuse(asked, refusal);
            self.phase = Phase::Requests;
        } else {
            self.phase = Phase::SkipPayload { left: left - taken, asked, refusal };
        }
        Step::Took(taken)
    }

    fn submit(
        &mut self,
        header: &RequestHeader,
        operation: Operation,
        data: Vec<u8>,
        world: &mut World<'_>,
    ) {
        let (bytes, awaits) = match header.command {
            command::READ | command::CACHE => {
                let bytes = operation.extent.len.bytes_usize();
                let awaits = match header.command {
                    command::CACHE => Awaits::Nothing,
                    _ if bytes == length(header.length) => Awaits::Data,
                    _ => partial::awaits(header),
                };
                (bytes, awaits)
            }
            command::FLUSH => (0, Awaits::Nothing),
            _ => (data.len(), Awaits::Change(operation.extent)),
        };
        let asked = Asked { cookie: header.cookie, offset: header.offset };
        let sequence = self.in_flight.open(asked, bytes, awaits);
        world.events.push(Event::Request(Request {
            id: ClientRequestId { connection: self.connection, sequence },
            export: self.target.id,
            operation,
            no_hole: operation.op == Op::WriteZeroes && header.flags & command::FLAG_NO_HOLE != 0,
            data,
        }));
    }
}
