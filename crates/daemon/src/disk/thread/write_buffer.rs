//! Write buffers on a disk's thread: requests that the memory answers, and the writes that go from
//! it to the disk.

use backend::HealthState;
use engine::{Destage, Handling, Outcome, Request, RequestId, WriteBufferAction};
use units::{DiskTime, Extent, Instant, Op, Operation, Sectors};

use super::DiskThread;
use crate::disk::request::{DiskRequest, OpenRequest, Origin};
use crate::disk::write_buffer::HostWriteBuffer;

impl DiskThread {
    /// Gives an open request to the write buffer of its volume, or to what is below.
    pub(super) fn serve(&mut self, request: Request, within: Option<Extent>, now: Instant) {
        let Some(buffer) = &mut self.scheduler.write_buffer else {
            return self.serve_below(request, within, now);
        };
        let open = self.requests.get_mut(request.id.0);
        let Request { id, volume, operation } = request;
        if is_refused(self.disk.state(), operation.op) {
            return self.serve_below(request, within, now);
        }
        match buffer.submit(&request, &mut open.request.data, now) {
            Handling::Buffered(_) => self.answer_buffered(id, Outcome::Done, now),
            Handling::Forced(_) | Handling::Waits => {}
            Handling::Memory => {
                buffer.copy(volume, operation.extent, &mut open.request.data);
                self.answer_buffered(id, Outcome::Done, now);
            }
            Handling::Overlaid => {
                open.overlays = buffer.overlays(volume, operation.extent);
                self.serve_below(request, within, now);
            }
            Handling::Disk => self.serve_past(id, within, now),
            Handling::Flushed(outcome) => self.answer_buffered(id, outcome, now),
        }
    }

    /// A request goes past the buffer.
    fn serve_past(&mut self, id: RequestId, within: Option<Extent>, now: Instant) {
        let request = self.request(id);
        let buffer = self.scheduler.write_buffer.as_ref().expect("it goes past the buffer");
        self.requests.get_mut(id.0).request.operation.fua |= buffer.forces(&request, now);
        self.serve_below(self.request(id), within, now);
    }

    /// Carries out what the write buffers ask for.
    pub(super) fn write_buffer(&mut self, now: Instant) {
        loop {
            let requests = self.scheduler.engine.requests();
            let Some(buffer) = &mut self.scheduler.write_buffer else { return };
            let Some(action) = buffer.poll(requests, now) else { break };
            match action {
                WriteBufferAction::Accept { request, piece, forced } => {
                    let open = &mut self.requests.get_mut(request.0).request;
                    buffer.keep(piece, open.operation.extent, &mut open.data);
                    if !forced {
                        self.answer_buffered(request, Outcome::Done, now);
                    }
                }
                WriteBufferAction::Destage(destage) => self.destage(destage, now),
                WriteBufferAction::Submit(id) => {
                    let within = self.requests.get(id.0).request.within;
                    self.serve_past(id, within, now);
                }
                WriteBufferAction::Again(id) => {
                    let within = self.requests.get(id.0).request.within;
                    self.serve(self.request(id), within, now);
                }
                WriteBufferAction::Answer { request, outcome } => {
                    self.answer_buffered(request, outcome, now);
                }
                WriteBufferAction::Drop(_) => unreachable!("the memory has released it"),
            }
        }
        while let Some((volume, drained)) =
            self.scheduler.write_buffer.as_mut().and_then(HostWriteBuffer::take_drained)
        {
            self.scheduler.volumes.drain(volume, drained);
        }
    }

    /// Writes from a buffer to the disk, or flushes it. No client waits for the request: it is not
    /// traced.
    fn destage(&mut self, destage: Destage, now: Instant) {
        let Destage { volume, operation, .. } = destage;
        let extent = operation.extent;
        let mut data = Vec::with_capacity(extent.len.bytes_usize());
        if let Some(buffer) = &mut self.scheduler.write_buffer {
            buffer.take(&destage, &mut data);
        }
        let request = DiskRequest {
            origin: Origin::Destage(destage),
            volume,
            operation,
            data,
            no_hole: false,
            received: None,
            within: None,
        };
        self.scheduler.volumes.record_internal(volume, now);
        let slot = self.requests.insert(OpenRequest::new(request, now));
        self.serve_below(Request { id: RequestId(slot), volume, operation }, None, now);
    }

    /// Answers a request that the engine has not seen.
    pub(super) fn answer_buffered(&mut self, id: RequestId, outcome: Outcome, now: Instant) {
        let open = self.requests.get_mut(id.0);
        let (volume, waited) = (open.request.volume, now.since(open.arrived));
        let Operation { op, extent, .. } = open.request.operation;
        open.failure = self.scheduler.write_buffer.as_ref().and_then(|b| b.failure(outcome));
        let moved = if matches!(op, Op::Read | Op::Write) { extent.len } else { Sectors::ZERO };
        self.scheduler.volumes.record_memory(volume, moved);
        let (disk_time, estimate) = (DiskTime::ZERO, DiskTime::ZERO);
        let reply = engine::Reply { request: id, volume, outcome, disk_time, estimate, waited };
        self.answer(reply, now);
    }

    /// A write from a buffer to the disk has ended.
    pub(super) fn destaged(&mut self, destage: &Destage, slot: u64, now: Instant) {
        let OpenRequest { request, failure, .. } = self.requests.remove(slot);
        let sectors = request.operation.extent.len;
        if let Some(buffer) = &mut self.scheduler.write_buffer {
            buffer.destaged(destage, failure);
        }
        let counted = failure.is_none().then_some(sectors);
        self.scheduler.volumes.record_internal_done(destage.volume, counted, now);
    }
}

/// Whether the disk fails an operation at once: it is not promised in memory then.
fn is_refused(state: HealthState, op: Op) -> bool {
    match state {
        HealthState::Healthy => false,
        HealthState::Poisoned => op != Op::Read,
        HealthState::Offline => true,
    }
}
