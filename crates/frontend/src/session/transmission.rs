//! Requests: what is accepted, what is refused and with which error (sections "Request message", "Request
//! types" and "Error values").
//!
//! A request is judged before it takes any room: a refused one costs its reply and nothing else, and the
//! payload of a refused write is read past.

use units::{Extent, Lba, Op, Operation, SECTOR_BYTES, Sectors};

use super::{Blocked, Budget, CloseReason, Event, Payload, Phase, Session, Step, Target, World};
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, OUTPUT_PIECES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_SKIP_BYTES_MAX,
    PAYLOAD_STEP_BYTES,
};
use crate::request::{Errno, Request, RequestId};
use crate::wire::{REQUEST_BYTES, RequestHeader, command, length};

/// What is done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It goes to the disk.
    Perform(Operation),
    /// It is right, and there is nothing to do.
    Nothing,
    /// The client is told why not.
    Refuse(Errno),
    /// The client leaves.
    Disconnect,
}

/// Judges a request against its export. Where several errors apply, the first in this order is told: flags,
/// permission, alignment, bounds, length.
fn judge(header: &RequestHeader, target: &Target) -> Verdict {
    let op = match header.command {
        command::READ => Op::Read,
        command::WRITE => Op::Write,
        command::DISC => return Verdict::Disconnect,
        command::FLUSH => Op::Flush,
        command::TRIM => Op::Trim,
        command::WRITE_ZEROES => Op::WriteZeroes,
        _ => return Verdict::Refuse(Errno::Inval),
    };
    // "The server MUST accept all commands with [FUA] set", even where it means nothing.
    let no_hole = if op == Op::WriteZeroes { command::FLAG_NO_HOLE } else { 0 };
    if header.flags & !(command::FLAG_FUA | no_hole) != 0 {
        return Verdict::Refuse(Errno::Inval);
    }
    if op == Op::Flush {
        let reserved_are_zero = header.offset == 0 && header.length == 0;
        let flush = Verdict::Perform(Operation::flush());
        return if reserved_are_zero { flush } else { Verdict::Refuse(Errno::Inval) };
    }
    if op.writes() && target.read_only {
        return Verdict::Refuse(Errno::Perm);
    }
    let bytes = u64::from(header.length);
    if !header.offset.is_multiple_of(target.block_min) || !bytes.is_multiple_of(target.block_min) {
        return Verdict::Refuse(Errno::Inval);
    }
    if header.offset.checked_add(bytes).is_none_or(|end| end > target.bytes) {
        let full = matches!(op, Op::Write | Op::WriteZeroes);
        return Verdict::Refuse(if full { Errno::NoSpc } else { Errno::Inval });
    }
    if matches!(op, Op::Read | Op::Write) && length(header.length) > PAYLOAD_BYTES_MAX {
        return Verdict::Refuse(Errno::Inval);
    }
    if bytes == 0 {
        // What it means is left open; that nobody is disconnected for it is not.
        return Verdict::Nothing;
    }
    let start = Lba(header.offset / SECTOR_BYTES);
    let extent = Extent::new(start, Sectors(bytes / SECTOR_BYTES));
    let fua = op.writes() && header.flags & command::FLAG_FUA != 0;
    Verdict::Perform(Operation { op, extent, fua })
}

impl Payload {
    /// Sees to it that there is space behind what is filled; false if there is no memory for it. The buffer
    /// doubles as it fills, so that a promise of bytes costs nothing and a kept one little.
    pub(super) fn make_room(&mut self, budget: &mut Budget) -> bool {
        if self.filled < self.data.len() {
            return true;
        }
        let wanted = (2 * self.filled).max(PAYLOAD_STEP_BYTES).min(self.length);
        if !budget.take(wanted - self.data.len()) {
            return false;
        }
        self.data.reserve_exact(wanted - self.data.len());
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
        let Some((head, rest)) = bytes.split_first_chunk::<REQUEST_BYTES>() else {
            return Step::Short;
        };
        let Some(header) = RequestHeader::decode(head) else {
            return self.close(CloseReason::BadMagic, world);
        };
        let payload = if header.command == command::WRITE { length(header.length) } else { 0 };
        match judge(&header, &self.target) {
            Verdict::Perform(operation) => self.admit(&header, operation, rest, world),
            Verdict::Disconnect => {
                self.finish(world.budget);
                world.events.push(Event::Disconnect);
                Step::Short
            }
            Verdict::Refuse(_) if payload > PAYLOAD_SKIP_BYTES_MAX => {
                self.close(CloseReason::PayloadTooBig, world)
            }
            Verdict::Refuse(errno) if payload > 0 => {
                self.phase = Phase::SkipPayload { left: payload, cookie: header.cookie, errno };
                Step::Took(REQUEST_BYTES)
            }
            Verdict::Refuse(errno) => {
                self.refuse(header.cookie, errno);
                Step::Took(REQUEST_BYTES)
            }
            Verdict::Nothing => {
                let head = crate::wire::simple_reply(header.cookie, Ok(()));
                self.output.push_reply(head, Vec::new());
                Step::Took(REQUEST_BYTES)
            }
        }
    }

    /// Lets a request in if there is room for it.
    fn admit(
        &mut self,
        header: &RequestHeader,
        operation: Operation,
        rest: &[u8],
        world: &mut World<'_>,
    ) -> Step {
        let moves = matches!(operation.op, Op::Read | Op::Write);
        let bytes = if moves { length(header.length) } else { 0 };
        let held = self.in_flight.bytes() + self.output.data_bytes();
        if self.in_flight.is_full() || held + bytes > BYTES_IN_FLIGHT_MAX {
            return Step::Blocked(Blocked::Room);
        }
        if operation.op == Op::Write && rest.len() < bytes {
            let (data, filled) = (Vec::new(), 0);
            self.phase = Phase::Payload(Payload { header: *header, data, filled, length: bytes });
            return Step::Took(REQUEST_BYTES);
        }
        if !world.budget.take(bytes) {
            return Step::Blocked(Blocked::Memory);
        }
        let written = if operation.op == Op::Write { bytes } else { 0 };
        self.submit(header, operation, rest[..written].to_vec(), world);
        Step::Took(REQUEST_BYTES + written)
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
            Phase::Payload(payload) if payload.filled == payload.length => {
                // Judged before its payload was read; nothing that it was judged by has changed.
                if let Verdict::Perform(operation) = judge(&payload.header, &self.target) {
                    self.submit(&payload.header, operation, payload.data, world);
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
        cookie: u64,
        errno: Errno,
    ) -> Step {
        if bytes.is_empty() {
            return Step::Short;
        }
        let taken = left.min(bytes.len());
        if taken == left {
            self.refuse(cookie, errno);
            self.phase = Phase::Requests;
        } else {
            self.phase = Phase::SkipPayload { left: left - taken, cookie, errno };
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
        let read = operation.op == Op::Read;
        let bytes = if read { length(header.length) } else { data.len() };
        let sequence = self.in_flight.open(header.cookie, bytes, read);
        world.events.push(Event::Request(Request {
            id: RequestId { connection: self.connection, sequence },
            export: self.target.id,
            operation,
            no_hole: operation.op == Op::WriteZeroes && header.flags & command::FLAG_NO_HOLE != 0,
            data,
        }));
    }
}
