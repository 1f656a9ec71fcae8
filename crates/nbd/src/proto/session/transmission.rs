//! Requests: what is accepted, what is refused and with which error (sections "Request message",
//! "Request types" and "Error values").
//!
//! A request is classified before memory is acquired for it: a refused request costs its reply and
//! nothing else, and the payload of a refused write is skipped.

use units::{Op, Operation};

use super::budget::Budget;
use super::classify::{self, Verdict, classify, refuse};
use super::handshake::offered_bytes;
use super::in_flight::ReplyKind;
use super::metadata::ALLOCATION_ID;
use super::state::{Blocked, CloseReason, Event, Payload, Phase, Session, SessionContext, Step};
use crate::limits::{
    OUTPUT_PIECES_MAX, PAYLOAD_SKIP_BYTES_MAX, PAYLOAD_STEP_BYTES, RECYCLED_BUFFER_BYTES_MAX,
    STATUS_BYTES_MAX, STATUS_PAYLOAD_BYTES_MAX,
};
use crate::proto::byte_range::ByteRange;
use crate::proto::reply::{self, Refusal, RequestTag, Style};
use crate::proto::request::{BlockStatusRequest, ClientRequestId, Errno, Request};
use crate::proto::wire::{Decoded, Fields, RequestHeader, command, length};

/// The length of a request's payload. A write whose payload is not marked as one has a payload all
/// the same: otherwise the two sides would be out of step.
fn payload_bytes(header: &RequestHeader, style: Style) -> u64 {
    let marked = style == Style::Extended && header.flags & command::FLAG_PAYLOAD_LEN != 0;
    if marked || header.command == command::WRITE { header.length } else { 0 }
}

/// The payload of a block status request: the number of bytes, and the contexts. `None` unless it
/// lists exactly the one context, which was selected.
fn effect_bytes(payload: &[u8]) -> Option<u64> {
    let mut fields = Fields(payload);
    let (bytes, context) = (fields.u64()?, fields.u32()?);
    (context == ALLOCATION_ID && fields.0.is_empty()).then_some(bytes)
}

impl Payload {
    /// Provides space after the filled bytes. Returns false if there is no memory. The buffer
    /// doubles as it fills: an announced payload costs little until it arrives.
    pub(super) fn make_room(&mut self, budget: &mut Budget) -> bool {
        if self.filled < self.data.len() {
            return true;
        }
        if self.data.capacity() == 0 && budget.free() >= self.length {
            // A recycled buffer for the whole payload costs no allocation.
            if let Some(mut stale) = budget.take_recycled(self.length) {
                stale.resize(self.length, 0);
                self.data = stale;
                return budget.acquire(self.length);
            }
        }
        let wanted = (2 * self.filled).max(PAYLOAD_STEP_BYTES).min(self.length);
        if !budget.acquire(wanted - self.data.len()) {
            return false;
        }
        // The last growth gives it a capacity that can be recycled.
        let whole = wanted == self.length && wanted <= RECYCLED_BUFFER_BYTES_MAX;
        let capacity = if whole { wanted.next_power_of_two() } else { wanted };
        self.data.reserve_exact(capacity - self.data.len());
        self.data.resize(wanted, 0);
        true
    }
}

impl Session {
    /// Parses the head of one request; with a write also its payload, if all of it has arrived.
    pub(super) fn request(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> Step {
        // Refusals produce output too: a client that does not read them is not read.
        if self.output.pieces() >= OUTPUT_PIECES_MAX {
            return Step::Blocked(Blocked::ConnectionLimit);
        }
        let (header, head) = match RequestHeader::decode(bytes, self.style == Style::Extended) {
            Decoded::Header(header, head) => (header, head),
            Decoded::Short => return Step::Short,
            Decoded::BadMagic => return self.close(CloseReason::BadMagic, context),
        };
        let payload = payload_bytes(&header, self.style);
        self.expects_payload = payload >= PAYLOAD_STEP_BYTES as u64;
        self.follow_growth(&header, context);
        if header.command == command::BLOCK_STATUS && payload > 0 {
            return self.filtered_status(&header, &bytes[head..], head, context);
        }
        let verdict = classify(&header, header.length, &self.target, self.style);
        self.execute(&header, verdict, &bytes[head..], (head, payload), context)
    }

    /// A request past the end that was known may lie in what its export grew by since. A smaller
    /// size is not looked for: an export that shrinks disconnects its clients.
    fn follow_growth(&mut self, header: &RequestHeader, context: &SessionContext<'_>) {
        let end = header.offset.checked_add(header.length);
        if end.is_none_or(|end| end <= self.target.bytes) {
            return;
        }
        if let Some(size) = context.exports.size_now(self.target.id) {
            self.target.bytes = self.target.bytes.max(offered_bytes(size, self.target.block_min));
        }
    }

    /// Carries out the verdict on a request, given the lengths of its head and payload.
    fn execute(
        &mut self,
        header: &RequestHeader,
        verdict: Verdict,
        rest: &[u8],
        (head, payload): (usize, u64),
        context: &mut SessionContext<'_>,
    ) -> Step {
        let tag = RequestTag { cookie: header.cookie, offset: header.offset };
        let verdict = match verdict {
            Verdict::Perform(_) | Verdict::ReadModifyWrite(..) | Verdict::BlockStatus(_)
                if self.shutting_down =>
            {
                refuse(Errno::Shutdown, "the export goes away")
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Perform(operation) => self.admit(header, operation, rest, head, context),
            Verdict::ReadModifyWrite(op, span) => {
                self.admit_read_modify_write(header, (op, span), rest, head, context)
            }
            Verdict::BlockStatus(span) => self.admit_block_status(header, span, head, context),
            Verdict::Disconnect => {
                self.finish(context.budget);
                context.events.push(Event::Disconnect);
                Step::Short
            }
            Verdict::Refuse(_) if payload > PAYLOAD_SKIP_BYTES_MAX as u64 => {
                self.close(CloseReason::PayloadTooBig, context)
            }
            Verdict::Refuse(refusal) if payload > 0 => {
                self.begin_payload(Phase::SkipPayload { left: length(payload), tag, refusal });
                Step::Took(head)
            }
            Verdict::Refuse(refusal) => {
                self.refuse(tag, refusal);
                Step::Took(head)
            }
            Verdict::Empty => {
                let read = header.command == command::READ;
                let answer = if read { reply::nothing_read } else { reply::done };
                self.output.push_reply(answer(self.style, tag), Vec::new());
                Step::Took(head)
            }
        }
    }

    /// A block status request with a list of contexts as payload (`NBD_FLAG_BLOCK_STATUS_PAYLOAD`).
    /// The payload is a few bytes, and waited for; a longer one is skipped.
    fn filtered_status(
        &mut self,
        header: &RequestHeader,
        rest: &[u8],
        head: usize,
        context: &mut SessionContext<'_>,
    ) -> Step {
        if header.length > STATUS_PAYLOAD_BYTES_MAX as u64 {
            let verdict = refuse(Errno::Inval, "a list of contexts that were not chosen");
            return self.execute(header, verdict, rest, (head, header.length), context);
        }
        let payload_len = length(header.length);
        let Some(payload) = rest.get(..payload_len) else { return Step::Short };
        let verdict = match effect_bytes(payload) {
            Some(bytes) => classify(header, bytes, &self.target, self.style),
            None => refuse(Errno::Inval, "a context that was not chosen"),
        };
        match self.execute(header, verdict, rest, (head, 0), context) {
            Step::Took(taken) => Step::Took(taken + payload_len),
            otherwise => otherwise,
        }
    }

    /// Whether the connection's limits admit one more request of `bytes` payload bytes.
    pub(super) fn has_room(&self, bytes: usize, context: &SessionContext<'_>) -> bool {
        let held = self.in_flight.bytes() + self.output.data_bytes();
        self.in_flight.count() < context.settings.requests_max
            && held + bytes <= context.settings.memory_max_bytes()
    }

    /// Admits a request if there is room for it.
    fn admit(
        &mut self,
        header: &RequestHeader,
        operation: Operation,
        rest: &[u8],
        head: usize,
        context: &mut SessionContext<'_>,
    ) -> Step {
        let moves = matches!(operation.op, Op::Read | Op::Write);
        let bytes = if moves { operation.extent.len.bytes_usize() } else { 0 };
        // The bytes around a read, up to whole sectors, do not count against the limit: else the
        // longest read would never be admitted.
        if !self.has_room(bytes.min(length(header.length)), context) {
            return Step::Blocked(Blocked::ConnectionLimit);
        }
        if operation.op == Op::Write && rest.len() < bytes {
            let (data, filled) = (Vec::new(), 0);
            let (header, length, extra_bytes) = (*header, bytes, 0);
            self.begin_payload(Phase::Payload(Payload {
                header,
                data,
                filled,
                length,
                extra_bytes,
            }));
            return Step::Took(head);
        }
        if !context.budget.acquire(bytes) {
            return Step::Blocked(Blocked::PayloadMemory);
        }
        if operation.op == Op::Write {
            let mut data = context.budget.buffer(bytes);
            data.extend_from_slice(&rest[..bytes]);
            self.submit(header, operation, data, context);
            return Step::Took(head + bytes);
        }
        let data = if operation.op == Op::Read {
            context.budget.recycled_or_empty(bytes)
        } else {
            Vec::new()
        };
        self.submit(header, operation, data, context);
        Step::Took(head)
    }

    /// Admits a block status request if there is room for its reply.
    fn admit_block_status(
        &mut self,
        header: &RequestHeader,
        span: ByteRange,
        head: usize,
        context: &mut SessionContext<'_>,
    ) -> Step {
        if !self.has_room(STATUS_BYTES_MAX, context) {
            return Step::Blocked(Blocked::ConnectionLimit);
        }
        if !context.budget.acquire(STATUS_BYTES_MAX) {
            return Step::Blocked(Blocked::PayloadMemory);
        }
        let tag = RequestTag { cookie: header.cookie, offset: header.offset };
        let one = header.flags & command::FLAG_REQ_ONE != 0;
        let reply_kind = ReplyKind::Status { before: span.before(), length: span.len.0, one };
        let sequence = self.in_flight.open(tag, STATUS_BYTES_MAX, reply_kind);
        let id = ClientRequestId { connection: self.connection, sequence };
        let (export, extent) = (self.target.id, span.outer());
        context.events.push(Event::BlockStatus(BlockStatusRequest { id, export, extent }));
        Step::Took(head)
    }

    /// Takes payload bytes of a write.
    pub(super) fn payload(&mut self, bytes: &[u8], context: &mut SessionContext<'_>) -> Step {
        let Phase::Payload(payload) = &mut self.phase else { return Step::Short };
        if bytes.is_empty() {
            return Step::Short;
        }
        if !payload.make_room(context.budget) {
            return Step::Blocked(Blocked::PayloadMemory);
        }
        let space = &mut payload.data[payload.filled..];
        let taken = space.len().min(bytes.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        payload.filled += taken;
        self.finish_payload(context);
        Step::Took(taken)
    }

    /// Turns a complete payload into its request.
    pub(super) fn finish_payload(&mut self, context: &mut SessionContext<'_>) {
        match core::mem::replace(&mut self.phase, Phase::Requests) {
            Phase::Payload(payload) if payload.filled == payload.length && self.shutting_down => {
                context.budget.release(payload.data.len() + payload.extra_bytes);
                let tag =
                    RequestTag { cookie: payload.header.cookie, offset: payload.header.offset };
                self.refuse(tag, Refusal::new(Errno::Shutdown, "the export goes away"));
            }
            Phase::Payload(payload) if payload.filled == payload.length => {
                // Classified before, when its head was read; the same verdict follows.
                let bytes = payload.header.length;
                let verdict = classify(&payload.header, bytes, &self.target, self.style);
                match verdict {
                    Verdict::Perform(operation) => {
                        self.submit(&payload.header, operation, payload.data, context);
                    }
                    Verdict::ReadModifyWrite(op, span) => {
                        let (header, data) = (&payload.header, Some(payload.data));
                        self.submit_read_modify_write(header, (op, span), data, context);
                    }
                    _ => unreachable!("a write that was let in is one"),
                }
            }
            unfinished => self.phase = unfinished,
        }
    }

    /// Skips payload bytes of a refused write.
    pub(super) fn skip_payload(
        &mut self,
        bytes: &[u8],
        left: usize,
        tag: RequestTag,
        refusal: Refusal,
    ) -> Step {
        if bytes.is_empty() {
            return Step::Short;
        }
        let taken = left.min(bytes.len());
        if taken == left {
            self.refuse(tag, refusal);
            self.phase = Phase::Requests;
        } else {
            self.phase = Phase::SkipPayload { left: left - taken, tag, refusal };
        }
        Step::Took(taken)
    }

    fn submit(
        &mut self,
        header: &RequestHeader,
        operation: Operation,
        data: Vec<u8>,
        context: &mut SessionContext<'_>,
    ) {
        let (bytes, reply_kind) = match header.command {
            command::READ | command::CACHE => {
                let bytes = operation.extent.len.bytes_usize();
                let reply_kind = match header.command {
                    command::CACHE => ReplyKind::Nothing,
                    _ if bytes == length(header.length) => ReplyKind::Data,
                    _ => classify::reply_kind(header),
                };
                (bytes, reply_kind)
            }
            command::FLUSH => (0, ReplyKind::Nothing),
            _ => (data.len(), ReplyKind::Change(operation.extent)),
        };
        let tag = RequestTag { cookie: header.cookie, offset: header.offset };
        let sequence = self.in_flight.open(tag, bytes, reply_kind);
        context.events.push(Event::Request(Request {
            id: ClientRequestId { connection: self.connection, sequence },
            export: self.target.id,
            operation,
            no_hole: operation.op == Op::WriteZeroes && header.flags & command::FLAG_NO_HOLE != 0,
            data,
        }));
    }
}
