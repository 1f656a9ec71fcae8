//! The event loop's side of read-modify-writes: which writes are in flight here, and the requests
//! that the queue submits on behalf of a client.

use units::Extent;

use super::slot::Slot;
use super::state::EventLoop;
use crate::proto::export::ExportId;
use crate::proto::request::{ClientRequestId, ReadModifyWrite, Reply, Request};
use crate::server::handle::ControlMessage;
use crate::server::handler::RequestHandler;
use crate::server::loop_id::LoopId;
use crate::server::loop_id::slot as slot_of;
use crate::server::read_modify_write::ReadModifyWriteQueue;

impl EventLoop<'_> {
    /// Queues a write to parts of sectors behind all earlier writes that overlap it.
    pub(super) fn begin_read_modify_write(
        &mut self,
        write: ReadModifyWrite,
        handler: &mut dyn RequestHandler,
    ) {
        let mut out = Vec::new();
        let export = write.export;
        if !self.tracked_exports.contains(&export) {
            let mut read_modify_writes = self.group.read_modify_writes();
            self.tracked_exports.retain(|export| read_modify_writes.is_tracked(*export));
            let new = read_modify_writes.track(export);
            let before = |id: ClientRequestId| {
                // A connection's sequence numbers rise: its later requests have not been submitted
                // yet.
                id.connection != write.id.connection || id.sequence < write.id.sequence
            };
            let in_flight = self.changing(export).filter(|(id, _)| before(*id));
            read_modify_writes.report((self.loop_id, export), in_flight, &mut out);
            drop(read_modify_writes);
            self.tracked_exports.push(export);
            if new {
                let others =
                    LoopId::all(self.handle.members()).filter(|loop_id| *loop_id != self.loop_id);
                for loop_id in others {
                    self.handle.send_control(loop_id, ControlMessage::TrackChanges(export));
                }
            }
        }
        self.group.read_modify_writes().begin(write, &mut out);
        for request in out {
            handler.submit(request);
        }
    }

    /// Another loop has received the first read-modify-write of an export.
    pub(super) fn report_changes(&mut self, export: ExportId, handler: &mut dyn RequestHandler) {
        if self.tracked_exports.contains(&export) {
            return;
        }
        let mut out = Vec::new();
        self.group.read_modify_writes().report(
            (self.loop_id, export),
            self.changing(export),
            &mut out,
        );
        self.tracked_exports.push(export);
        self.ask(out, handler);
    }

    /// The writing requests in flight for an export that came through this loop.
    fn changing(&self, export: ExportId) -> impl Iterator<Item = (ClientRequestId, Extent)> {
        let there = self.slots.iter().filter_map(Slot::in_flight);
        let there = there.filter(move |(in_flight, _)| in_flight.export == export);
        there.flat_map(|(in_flight, connection)| {
            let id = move |sequence| ClientRequestId { connection, sequence };
            in_flight.changing().map(move |(sequence, extent)| (id(sequence), extent))
        })
    }

    /// Returns a request that can be submitted, or queues it behind the read-modify-writes it
    /// overlaps.
    pub(super) fn submit_or_queue(&self, request: Request) -> Option<Request> {
        if !request.operation.op.writes() || !self.tracked_exports.contains(&request.export) {
            return Some(request);
        }
        self.group.read_modify_writes().submit_or_queue(request)
    }

    /// Processes a reply: of a part of a read-modify-write, or of a request that one waits for.
    /// Returns the reply that goes to a client, if there is one.
    pub(super) fn on_reply(&self, reply: Reply, out: &mut Vec<Request>) -> Option<Reply> {
        if ReadModifyWriteQueue::is_part(reply.id) {
            return self.group.read_modify_writes().on_part_completed(reply.id, reply.result, out);
        }
        if !self.tracked_exports.is_empty()
            && let Some(export) = self.changed_by(reply.id)
        {
            self.group.read_modify_writes().on_completion(export, reply.id, out);
        }
        Some(reply)
    }

    /// The sectors that an outstanding request changes, on an export that is tracked.
    fn changed_by(&self, id: ClientRequestId) -> Option<ExportId> {
        let (in_flight, connection) = self.slots.get(slot_of(id.connection))?.in_flight()?;
        let changes = connection == id.connection && in_flight.changed_by(id.sequence).is_some();
        Some(in_flight.export).filter(|export| changes && self.tracked_exports.contains(export))
    }

    /// An export was withdrawn: no further request for it is submitted.
    pub(super) fn withdraw_read_modify_writes(&mut self, export: ExportId) {
        let replies = self.group.read_modify_writes().withdraw(export);
        let (own, mut foreign): (Vec<_>, _) =
            replies.into_iter().partition(|reply| LoopId::of(reply.id.connection) == self.loop_id);
        for reply in own {
            self.deliver_reply(reply);
        }
        self.handle.reply_many(&mut foreign);
    }

    /// This loop has ended and reports no further changes.
    pub(super) fn end_read_modify_writes(&mut self, handler: &mut dyn RequestHandler) {
        let mut out = Vec::new();
        self.group.read_modify_writes().ended(self.loop_id, &mut out);
        self.ask(out, handler);
    }

    /// Submits requests outside of a batch.
    fn ask(&mut self, requests: Vec<Request>, handler: &mut dyn RequestHandler) {
        if requests.is_empty() {
            return;
        }
        for request in requests {
            handler.submit(request);
        }
        let mut replies = Vec::new();
        handler.flush_batch(&mut replies);
        self.answer(&mut replies, handler);
    }
}
