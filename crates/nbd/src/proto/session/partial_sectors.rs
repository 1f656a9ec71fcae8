//! Requests for parts of sectors. A read covers the sectors around them; a write, a write of zeroes
//! and a trim become an [`Event::ReadModifyWrite`](super::Event::ReadModifyWrite).

use units::Op;

use super::in_flight::ReplyKind;
use super::state::{Blocked, Event, Payload, Phase, Session, SessionContext, Step};
use crate::limits::{PAYLOAD_STEP_BYTES, READ_MODIFY_WRITE_BYTES};
use crate::proto::byte_range::ByteRange;
use crate::proto::reply::RequestTag;
use crate::proto::request::{ClientRequestId, ReadModifyWrite};
use crate::proto::wire::{RequestHeader, command, length};

impl Session {
    /// Admits a change of parts of sectors if there is room for it.
    pub(super) fn admit_read_modify_write(
        &mut self,
        header: &RequestHeader,
        (op, span): (Op, ByteRange),
        rest: &[u8],
        head: usize,
        context: &mut SessionContext<'_>,
    ) -> Step {
        let writes = op == Op::Write;
        let bytes = if writes { length(header.length) } else { 0 };
        // The first and the last sector do not count against the limit: else the longest request
        // would never be admitted.
        if !self.has_room(bytes, context) {
            return Step::Blocked(Blocked::ConnectionLimit);
        }
        let here = rest.get(..bytes);
        let taken = READ_MODIFY_WRITE_BYTES + if here.is_some() { bytes } else { 0 };
        if !context.budget.acquire(taken) {
            return Step::Blocked(Blocked::PayloadMemory);
        }
        let Some(here) = here else {
            let (data, filled, extra_bytes) = (Vec::new(), 0, READ_MODIFY_WRITE_BYTES);
            let header = *header;
            self.begin_payload(Phase::Payload(Payload {
                header,
                data,
                filled,
                length: bytes,
                extra_bytes,
            }));
            return Step::Took(head);
        };
        let data = writes.then(|| {
            let mut data = context.budget.buffer(bytes);
            data.extend_from_slice(here);
            data
        });
        self.submit_read_modify_write(header, (op, span), data, context);
        Step::Took(head + bytes)
    }

    /// Submits a complete change whose memory is taken.
    pub(super) fn submit_read_modify_write(
        &mut self,
        header: &RequestHeader,
        (op, span): (Op, ByteRange),
        data: Option<Vec<u8>>,
        context: &mut SessionContext<'_>,
    ) {
        let tag = RequestTag { cookie: header.cookie, offset: header.offset };
        let bytes = data.as_ref().map_or(0, Vec::len) + READ_MODIFY_WRITE_BYTES;
        let sequence = self.in_flight.open(tag, bytes, ReplyKind::Change(span.outer()));
        context.events.push(Event::ReadModifyWrite(ReadModifyWrite {
            id: ClientRequestId { connection: self.connection, sequence },
            export: self.target.id,
            span,
            op,
            fua: header.flags & command::FLAG_FUA != 0,
            no_hole: data.is_none() && header.flags & command::FLAG_NO_HOLE != 0,
            data,
        }));
    }
}

// The memory of a read-modify-write besides its payload is below one growth step of a payload.
const _: () = assert!(READ_MODIFY_WRITE_BYTES <= PAYLOAD_STEP_BYTES);
