//! Which requests are accepted, and which are refused with which error (sections "Request types"
//! and "Error values"). Nothing here takes memory or changes a session.

use units::{Bytes, Op, Operation};

use super::in_flight::ReplyKind;
use super::state::Target;
use crate::proto::byte_range::ByteRange;
use crate::proto::reply::{Refusal, Style};
use crate::proto::request::Errno;
use crate::proto::wire::{RequestHeader, command, length};

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The disk carries it out.
    Perform(Operation),
    /// A change of parts of sectors.
    ReadModifyWrite(Op, ByteRange),
    /// A block status request for the sectors around these bytes.
    BlockStatus(ByteRange),
    /// A valid request without effect.
    Empty,
    /// Refused, with a reason.
    Refuse(Refusal),
    /// The client disconnects.
    Disconnect,
}

pub(super) fn refuse(errno: Errno, why: &'static str) -> Verdict {
    Verdict::Refuse(Refusal::new(errno, why))
}

/// The operation of a command, if there is such a command. `NBD_CMD_CACHE` is a read whose bytes
/// are not sent.
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

/// The flags that a command may have. "The server MUST accept all commands with [FUA] set", even
/// without an effect.
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

/// Classifies a request of `bytes` bytes against its export. With several errors, the first in this
/// order is replied: flags, permission, alignment, bounds, length.
pub(super) fn classify(
    header: &RequestHeader,
    bytes: u64,
    target: &Target,
    style: Style,
) -> Verdict {
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
    // "MUST fail quickly with NBD_ENOTSUP unless the request can be serviced in less time than a
    // corresponding write".
    if header.command == command::WRITE_ZEROES
        && header.flags & command::FLAG_FAST_ZERO != 0
        && !(target.fast_zero && header.flags & command::FLAG_NO_HOLE == 0)
    {
        return refuse(Errno::NotSup, "zeroing would be no faster than writing");
    }
    if bytes == 0 {
        // The protocol leaves the meaning open, but forbids to disconnect. A block status of no
        // bytes is refused.
        let status = header.command == command::BLOCK_STATUS;
        return if status { refuse(Errno::Inval, "of no sectors") } else { Verdict::Empty };
    }
    let span = ByteRange { start: Bytes(header.offset), len: Bytes(bytes) };
    if header.command == command::BLOCK_STATUS {
        return Verdict::BlockStatus(span);
    }
    if !span.is_whole() {
        return classify_partial(header, op, span);
    }
    let fua = op.writes() && header.flags & command::FLAG_FUA != 0;
    Verdict::Perform(Operation { op, extent: span.outer(), fua })
}

/// The verdict on an operation on parts of sectors.
fn classify_partial(header: &RequestHeader, op: Op, span: ByteRange) -> Verdict {
    let fua = op.writes() && header.flags & command::FLAG_FUA != 0;
    match op {
        // The first and the last sector are read and written.
        Op::WriteZeroes if header.flags & command::FLAG_FAST_ZERO != 0 => {
            refuse(Errno::NotSup, "zeroing parts of sectors is no faster than writing")
        }
        Op::Write | Op::WriteZeroes | Op::Trim => Verdict::ReadModifyWrite(op, span),
        _ => Verdict::Perform(Operation { op, extent: span.outer(), fua }),
    }
}

/// The part of the sectors read that was asked for.
pub(super) fn reply_kind(header: &RequestHeader) -> ReplyKind {
    let span = ByteRange { start: Bytes(header.offset), len: Bytes(header.length) };
    ReplyKind::Part { before: span.before(), length: length(header.length) }
}
