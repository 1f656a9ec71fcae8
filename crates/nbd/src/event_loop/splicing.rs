//! A loop's part in writes of less than whole sectors: who is in whose way, and what the disks are asked on their behalf.

use units::Extent;

use super::{Loop, Slot, slot_of};
use crate::crew::Place;
use crate::export::ExportId;
use crate::handle::Question;
use crate::request::{ClientRequestId, ConnectionId, Reply, Request, Sink, Splice};
use crate::session::InFlight;
use crate::splice::Splicer;

impl Slot {
    fn in_flight(&self) -> Option<(&InFlight, ConnectionId)> {
        match self {
            Self::Free => None,
            Self::Live(connection) => Some((connection.session.in_flight(), connection.id)),
            Self::Departed(id, in_flight) => Some((in_flight, *id)),
        }
    }
}

impl Loop<'_> {
    /// Takes a write to parts of sectors, behind everything that came before it and changes them.
    pub(super) fn splice(&mut self, splice: Splice, sink: &mut dyn Sink) {
        let mut out = Vec::new();
        let export = splice.export;
        if !self.spliced.contains(&export) {
            let mut splicer = self.crew.splicer();
            self.spliced.retain(|export| splicer.is_watched(*export));
            let new = splicer.watch(export);
            let before = |id: ClientRequestId| {
                // A connection's numbers rise: what it sent later has not gone out yet.
                id.connection != splice.id.connection || id.sequence < splice.id.sequence
            };
            let under_way = self.changing(export).filter(|(id, _)| before(*id));
            splicer.told((self.place, export), under_way, &mut out);
            drop(splicer);
            self.spliced.push(export);
            if new {
                let others = Place::all(self.handle.members()).filter(|place| *place != self.place);
                for place in others {
                    self.handle.pass(place, Question::Watched(export));
                }
            }
        }
        self.crew.splicer().begin(splice, &mut out);
        for request in out {
            sink.submit(request);
        }
    }

    /// Another loop has had the first splice of an export.
    pub(super) fn know_of(&mut self, export: ExportId, sink: &mut dyn Sink) {
        if self.spliced.contains(&export) {
            return;
        }
        let mut out = Vec::new();
        self.crew.splicer().told((self.place, export), self.changing(export), &mut out);
        self.spliced.push(export);
        self.ask(out, sink);
    }

    /// What is under way that came through here and changes an export.
    fn changing(&self, export: ExportId) -> impl Iterator<Item = (ClientRequestId, Extent)> {
        let there = self.slots.iter().filter_map(Slot::in_flight);
        let there = there.filter(move |(in_flight, _)| in_flight.export == export);
        there.flat_map(|(in_flight, connection)| {
            let id = move |sequence| ClientRequestId { connection, sequence };
            in_flight.changing().map(move |(sequence, extent)| (id(sequence), extent))
        })
    }

    /// Lets a request pass, or has it wait for splices that it would disturb.
    pub(super) fn pass(&self, request: Request) -> Option<Request> {
        if !request.operation.op.writes() || !self.spliced.contains(&request.export) {
            return Some(request);
        }
        self.crew.splicer().pass(request)
    }

    /// Sees an answer on its way: some are for splices, and some are what those wait for. Gives back what is for a client.
    pub(super) fn see(&self, reply: Reply, out: &mut Vec<Request>) -> Option<Reply> {
        if Splicer::is_part(reply.id) {
            return self.crew.splicer().part_ended(reply.id, reply.result, out);
        }
        if !self.spliced.is_empty()
            && let Some(export) = self.changed_by(reply.id)
        {
            self.crew.splicer().settled(export, reply.id, out);
        }
        Some(reply)
    }

    /// What a request that waits for its answer changes, if it changes something where parts of sectors are written.
    fn changed_by(&self, id: ClientRequestId) -> Option<ExportId> {
        let (in_flight, connection) = self.slots.get(slot_of(id.connection))?.in_flight()?;
        let changes = connection == id.connection && in_flight.changed_by(id.sequence).is_some();
        Some(in_flight.export).filter(|export| changes && self.spliced.contains(export))
    }

    /// An export is gone: nothing more is asked of it.
    pub(super) fn withdraw_splices(&mut self, export: ExportId) {
        let replies = self.crew.splicer().withdraw(export);
        let (own, mut foreign): (Vec<_>, _) =
            replies.into_iter().partition(|reply| Place::of(reply.id.connection) == self.place);
        for reply in own {
            self.give(reply);
        }
        self.handle.reply_many(&mut foreign);
    }

    /// This loop has ended: nobody waits for what it has to say.
    pub(super) fn end_splicing(&mut self, sink: &mut dyn Sink) {
        let mut out = Vec::new();
        self.crew.splicer().ended(self.place, &mut out);
        self.ask(out, sink);
    }

    /// Asks the disks what has no batch of its own.
    fn ask(&mut self, requests: Vec<Request>, sink: &mut dyn Sink) {
        if requests.is_empty() {
            return;
        }
        for request in requests {
            sink.submit(request);
        }
        let mut replies = Vec::new();
        sink.submitted_batch_end(&mut replies);
        self.answer(&mut replies, sink);
    }
}
