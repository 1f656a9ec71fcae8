//! Requests for less than whole sectors: a read is of the sectors around it, a trim of those within it, and a write goes
//! out as an [`Event::Splice`].

use units::{Bytes, Op, Operation};

use super::in_flight::Awaits;
use super::transmission::{Verdict, refuse};
use super::{Blocked, Event, Payload, Phase, Session, Step, World};
use crate::limits::{PAYLOAD_STEP_BYTES, SPLICE_BYTES};
use crate::reply::Asked;
use crate::request::{ClientRequestId, Errno, Splice};
use crate::span::Span;
use crate::wire::{RequestHeader, command, length};

/// What is done about it, `op` being what is asked.
pub(super) fn judge(header: &RequestHeader, op: Op, span: Span) -> Verdict {
    let fua = op.writes() && header.flags & command::FLAG_FUA != 0;
    match op {
        Op::Trim if span.inner().is_empty() => Verdict::Nothing,
        Op::Trim => Verdict::Perform(Operation { op, extent: span.inner(), fua }),
        // The first and the last sector are read and written.
        Op::WriteZeroes if header.flags & command::FLAG_FAST_ZERO != 0 => {
            refuse(Errno::NotSup, "zeroing parts of sectors is no faster than writing")
        }
        Op::Write | Op::WriteZeroes => Verdict::Splice(span),
        _ => Verdict::Perform(Operation { op, extent: span.outer(), fua }),
    }
}

/// What of the sectors that are read was asked for.
pub(super) fn awaits(header: &RequestHeader) -> Awaits {
    let span = Span { start: Bytes(header.offset), len: Bytes(header.length) };
    Awaits::Part { before: span.before(), length: length(header.length) }
}

impl Session {
    /// Lets a write to parts of sectors in if there is room for it.
    pub(super) fn admit_splice(
        &mut self,
        header: &RequestHeader,
        span: Span,
        rest: &[u8],
        head: usize,
        world: &mut World<'_>,
    ) -> Step {
        let writes = header.command == command::WRITE;
        let bytes = if writes { length(header.length) } else { 0 };
        // The first and the last sector come on top: else a request of the greatest length would wait for ever.
        if !self.has_room(bytes, world) {
            return Step::Blocked(Blocked::Room);
        }
        let here = rest.get(..bytes);
        let taken = SPLICE_BYTES + if here.is_some() { bytes } else { 0 };
        if !world.budget.take(taken) {
            return Step::Blocked(Blocked::Memory);
        }
        let Some(here) = here else {
            let (data, filled, beside) = (Vec::new(), 0, SPLICE_BYTES);
            let header = *header;
            self.begin_payload(Phase::Payload(Payload {
                header,
                data,
                filled,
                length: bytes,
                beside,
            }));
            return Step::Took(head);
        };
        let data = writes.then(|| {
            let mut data = world.budget.buffer(bytes);
            data.extend_from_slice(here);
            data
        });
        self.submit_splice(header, span, data, world);
        Step::Took(head + bytes)
    }

    /// It is whole, and what it holds is taken.
    pub(super) fn submit_splice(
        &mut self,
        header: &RequestHeader,
        span: Span,
        data: Option<Vec<u8>>,
        world: &mut World<'_>,
    ) {
        let asked = Asked { cookie: header.cookie, offset: header.offset };
        let bytes = data.as_ref().map_or(0, Vec::len) + SPLICE_BYTES;
        let sequence = self.in_flight.open(asked, bytes, Awaits::Change(span.outer()));
        world.events.push(Event::Splice(Splice {
            id: ClientRequestId { connection: self.connection, sequence },
            export: self.target.id,
            span,
            fua: header.flags & command::FLAG_FUA != 0,
            no_hole: data.is_none() && header.flags & command::FLAG_NO_HOLE != 0,
            data,
        }));
    }
}

// The first payload bytes of a splice are no dearer to hold than those of any other write.
const _: () = assert!(SPLICE_BYTES <= PAYLOAD_STEP_BYTES);
