//! Read-ahead on a disk's thread: requests that the memory serves, and those that fill it.

use backend::Failure;
use engine::{
    Command, Event, Outcome, Purpose, ReadAheadAction, Request, RequestId, SegmentId, ServedBy,
    VolumeId,
};
use units::{Extent, Instant, Operation};

use super::DiskThread;
use crate::disk::request::{DiskRequest, OpenRequest, Origin};

impl DiskThread {
    /// Gives a request to the memory of the read-ahead, or to the engine.
    pub(super) fn serve_below(&mut self, request: Request, within: Option<Extent>, now: Instant) {
        let ahead = self.scheduler.read_ahead.as_mut();
        match ahead.map_or(ServedBy::Disk, |ahead| ahead.submit(&request, within, now)) {
            ServedBy::Disk => self.scheduler.engine.handle(Event::Submit(request), now),
            ServedBy::Pending => {}
            ServedBy::Memory => self.answer_from_memory(request.id, now),
        }
    }

    /// Carries out what the read-ahead asks for.
    pub(super) fn read_ahead(&mut self, now: Instant) {
        while let Some(action) =
            self.scheduler.read_ahead.as_mut().and_then(|ahead| ahead.poll(now))
        {
            match action {
                ReadAheadAction::Read { segment, volume, extent } => {
                    self.fill(segment, (volume, extent), now);
                }
                ReadAheadAction::Answer(id) => {
                    let request = self.request(id);
                    self.answer_from_memory(id, now);
                    if let Some(ahead) = &mut self.scheduler.read_ahead {
                        ahead.answered(&request, now);
                    }
                }
                ReadAheadAction::Submit(id) => {
                    let request = self.request(id);
                    self.scheduler.engine.handle(Event::Submit(request), now);
                }
                ReadAheadAction::Offer { volume, extent } => {
                    let event = Event::PrefetchOffered { volume, extent };
                    self.scheduler.engine.handle(event, now);
                }
                ReadAheadAction::Drop(_) => unreachable!("the memory has released it"),
            }
        }
    }

    /// An open request, as the engine knows it.
    pub(super) fn request(&self, id: RequestId) -> Request {
        let DiskRequest { volume, operation, .. } = self.requests.get(id.0).request;
        Request { id, volume, operation }
    }

    /// Reads ahead to fill a segment. No client waits for the request: it is not traced.
    fn fill(&mut self, segment: SegmentId, (volume, extent): (VolumeId, Extent), now: Instant) {
        let operation = Operation::read(extent);
        let request = DiskRequest {
            origin: Origin::ReadAhead(segment),
            volume,
            operation,
            data: Vec::new(),
            no_hole: false,
            received: None,
            within: None,
        };
        self.scheduler.volumes.record_internal(volume, now);
        let slot = self.requests.insert(OpenRequest::new(request, now));
        if let Some(ahead) = &mut self.scheduler.read_ahead {
            ahead.started(segment, slot);
        }
        let request = Request { id: RequestId(slot), volume, operation };
        self.scheduler.engine.handle(Event::Submit(request), now);
    }

    /// Answers a client's read with bytes from the memory.
    fn answer_from_memory(&mut self, id: RequestId, now: Instant) {
        let open = self.requests.get_mut(id.0);
        let mut data = core::mem::take(&mut open.request.data);
        data.clear();
        let extent = open.request.operation.extent;
        let ahead = self.scheduler.read_ahead.as_ref().expect("it has the bytes");
        ahead.copy(extent, |slot| &self.requests.get(slot).request.data, &mut data);
        self.requests.get_mut(id.0).request.data = data;
        self.answer_buffered(id, Outcome::Done, now);
    }

    /// A command has completed: notes what it read ahead. After a failure the memory is emptied,
    /// so that no read is answered from a disk that does not answer itself.
    pub(super) fn note_read_ahead(&mut self, command: &Command, outcome: Outcome) {
        let Some(ahead) = &mut self.scheduler.read_ahead else { return };
        if outcome == Outcome::Failed {
            return ahead.clear();
        }
        for piece in self.scheduler.engine.command_pieces(command) {
            let origin = &self.requests.get(piece.request.0).request.origin;
            if let (Origin::ReadAhead(segment), Purpose::Transfer) = (origin, piece.purpose) {
                ahead.progress(*segment, piece.operation.extent);
            }
        }
    }

    /// A prefetch goes to the disk.
    pub(super) fn note_prefetch(&mut self, command: &Command) {
        if let (Purpose::Prefetch, Some(ahead)) = (command.purpose, &mut self.scheduler.read_ahead)
        {
            ahead.prefetch_started(command.volume, command.operation.extent);
        }
    }

    /// A prefetch has ended: its bytes go to the memory. Its failure is no request's.
    pub(super) fn prefetched(&mut self, result: Result<Vec<u8>, Failure>, now: Instant) -> Outcome {
        let (outcome, data) = match result {
            Ok(data) => (Outcome::Done, data),
            Err(_) => (Outcome::Failed, Vec::new()),
        };
        if let Some(ahead) = &mut self.scheduler.read_ahead {
            ahead.prefetch_ended((outcome, data), now);
        }
        outcome
    }

    /// A request that the engine had is answered.
    pub(super) fn replied(&mut self, reply: engine::Reply, now: Instant) {
        let request = self.request(reply.request);
        let origin = &self.requests.get(reply.request.0).request.origin;
        let Origin::ReadAhead(segment) = *origin else {
            let destage = if let Origin::Destage(destage) = origin { Some(*destage) } else { None };
            if let Some(ahead) = &mut self.scheduler.read_ahead {
                ahead.answered(&request, now);
            }
            if let Some(destage) = destage {
                return self.destaged(&destage, reply.request.0, now);
            }
            if let Some(buffer) = &mut self.scheduler.write_buffer {
                buffer.ended(reply.volume, reply.request);
            }
            return self.answer(reply, now);
        };
        let OpenRequest { request: filled, .. } = self.requests.remove(reply.request.0);
        let sectors = filled.operation.extent.len;
        let counted = (reply.outcome == Outcome::Done).then_some(sectors);
        if let Some(ahead) = &mut self.scheduler.read_ahead {
            ahead.finished(segment, (reply.outcome, filled.data), now);
        }
        self.scheduler.volumes.record_internal_done(reply.volume, counted, now);
    }
}
