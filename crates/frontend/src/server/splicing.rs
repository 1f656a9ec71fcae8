//! The server's part in writes of less than whole sectors: who is in whose way, and what the disks are asked on their behalf.

use units::Extent;

use super::{Loop, SLOT_BITS, Slot};
use crate::export::ExportId;
use crate::request::{Reply, RequestId, Sink, Splice};
use crate::session::InFlight;
use crate::splice::Splicer;

impl Slot {
    fn in_flight(&self) -> Option<(&InFlight, crate::ConnectionId)> {
        match self {
            Self::Free => None,
            Self::Live(connection) => Some((connection.session.in_flight(), connection.id)),
            Self::Departed(id, in_flight) => Some((in_flight, *id)),
        }
    }
}

impl Loop {
    /// Takes a write to parts of sectors, behind everything that came before it and changes them.
    pub(super) fn splice(&mut self, splice: Splice, sink: &mut dyn Sink) {
        let (export, own) = (splice.export, splice.id);
        let there = self.slots.iter().filter_map(Slot::in_flight);
        let there = there.filter(|(in_flight, _)| in_flight.export == export);
        let changing = there.flat_map(|(in_flight, connection)| {
            // A connection's numbers rise: what it sent later has not gone out yet.
            let earlier = move |sequence| connection != own.connection || sequence < own.sequence;
            let changing = in_flight.changing();
            changing.filter(move |(sequence, _)| earlier(*sequence)).map(|(_, extent)| extent)
        });
        let mut out = Vec::new();
        self.splicer.begin(splice, changing, &mut out);
        for request in out {
            sink.submit(request);
        }
    }

    /// Queues answers while there are splices: some are theirs, and some are what they wait for.
    pub(super) fn answer_amid_splices(&mut self, replies: &mut Vec<Reply>, sink: &mut dyn Sink) {
        let mut out = Vec::new();
        while !replies.is_empty() {
            for Reply { id, result } in core::mem::take(replies) {
                if Splicer::is_part(id) {
                    if let Some(reply) = self.splicer.part_ended(id, result, &mut out) {
                        self.give(reply);
                    }
                    continue;
                }
                if let Some((export, extent)) = self.changed_by(id) {
                    self.splicer.settled((export, id), extent, &mut out);
                }
                self.give(Reply { id, result });
            }
            if !out.is_empty() {
                out.drain(..).for_each(|request| sink.submit(request));
                sink.submitted_batch_end(replies);
            }
        }
    }

    /// What a request that waits for its answer changes, if it changes anything.
    fn changed_by(&self, id: RequestId) -> Option<(ExportId, Extent)> {
        let slot = usize::try_from(id.connection.0 & ((1 << SLOT_BITS) - 1)).ok()?;
        let (in_flight, connection) = self.slots.get(slot)?.in_flight()?;
        let extent = in_flight.changed_by(id.sequence).filter(|_| connection == id.connection)?;
        Some((in_flight.export, extent))
    }

    /// An export is gone: nothing more is asked of it.
    pub(super) fn withdraw_splices(&mut self, export: ExportId) {
        for reply in self.splicer.withdraw(export) {
            self.give(reply);
        }
    }
}
