//! Write buffers in the host, in virtual time: requests that the memory answers, and the writes
//! that go from it to the disk.

use engine::{Destage, Handling, Outcome, Reply, Request, RequestId, WriteBufferAction};
use stats::WriteBufferReport;
use units::{DiskTime, Duration, Extent, Instant};

use super::{Disk, Entry, Sender, Sent, Simulation};

/// The time in which the host answers a request from memory. Without it a client that does not
/// think would write without end at one instant.
pub(super) const MEMORY_TIME: Duration = Duration::from_micros(10);

impl Disk {
    /// What the write buffer of a volume did, if it did anything.
    pub(super) fn buffered_of(&self, volume: engine::VolumeId) -> Option<WriteBufferReport> {
        WriteBufferReport::of(&self.buffer.as_ref()?.buffer.usage(volume))
    }

    /// When the write buffers have to be asked again.
    pub(super) fn next_destage(&self) -> Option<Instant> {
        self.buffer.as_ref().and_then(|buffer| buffer.buffer.next_wakeup())
    }
}

impl Simulation {
    /// Gives a client's request to the write buffer of its volume, or to what is below.
    pub(super) fn submit(&mut self, disk: usize, request: Request, bounds: Option<Extent>) {
        let now = self.now;
        let Some(buffer) = &mut self.disks[disk].buffer else {
            return self.submit_below(disk, request, bounds);
        };
        let sent = self.sent.get_mut(request.id).expect("the request was just sent");
        let Request { volume, operation, .. } = request;
        match buffer.buffer.submit(&request, now) {
            Handling::Buffered(piece) => {
                buffer.keep(piece, &sent.watched);
                self.answer_from_memory(&request, Outcome::Done);
            }
            Handling::Forced(piece) => buffer.keep(piece, &sent.watched),
            Handling::Waits => {}
            Handling::Memory => {
                buffer.copy(volume, operation.extent, &mut sent.watched);
                self.answer_from_memory(&request, Outcome::Done);
            }
            Handling::Overlaid => {
                buffer.copy(volume, operation.extent, &mut sent.watched);
                self.submit_below(disk, request, bounds);
            }
            Handling::Disk => self.submit_past(disk, request, bounds),
            Handling::Flushed(outcome) => self.answer_from_memory(&request, outcome),
        }
    }

    /// A request goes past the buffer.
    fn submit_past(&mut self, disk: usize, mut request: Request, bounds: Option<Extent>) {
        let buffer = self.disks[disk].buffer.as_ref().expect("it goes past the buffer");
        request.operation.fua |= buffer.buffer.forces(&request, self.now);
        self.submit_below(disk, request, bounds);
    }

    fn answer_from_memory(&mut self, request: &Request, outcome: Outcome) {
        let reply = from_memory(request, outcome, Duration::ZERO);
        self.events.schedule(self.now + MEMORY_TIME, Entry::Hit(reply));
    }

    /// Carries out what the write buffers of a disk ask for.
    pub(super) fn write_buffer(&mut self, index: usize) {
        let now = self.now;
        loop {
            let Disk { buffer, engine, .. } = &mut self.disks[index];
            let Some(buffer) = buffer else { return };
            let Some(action) = buffer.buffer.poll(engine.requests(), now) else { return };
            match action {
                WriteBufferAction::Accept { request, piece, forced } => {
                    let sent = self.sent.get_mut(request).expect("it is not answered");
                    buffer.keep(piece, &sent.watched);
                    if !forced {
                        self.answer_waiting(request, Outcome::Done);
                    }
                }
                WriteBufferAction::Destage(destage) => {
                    let watched = buffer.of_destage(&destage);
                    let operation = destage.operation;
                    let by = Sender::Destage(destage);
                    let volume = self.disks[index].engaged[destage.volume.0 as usize].0;
                    let id = self.sent.insert(Sent { by, volume, at: now, operation, watched });
                    let request = Request { id, volume: destage.volume, operation };
                    self.submit_below(index, request, Some(operation.extent));
                }
                WriteBufferAction::Submit(id) => {
                    self.submit_past(index, self.request(id), self.bounds(id));
                }
                WriteBufferAction::Again(id) => {
                    self.submit(index, self.request(id), self.bounds(id));
                }
                WriteBufferAction::Answer { request, outcome } => {
                    self.answer_waiting(request, outcome);
                }
                WriteBufferAction::Drop(piece) => buffer.release(piece),
            }
        }
    }

    fn answer_waiting(&mut self, id: RequestId, outcome: Outcome) {
        let request = self.request(id);
        let waited = self.now.since(self.sent.get(id).expect("it is not answered").at);
        self.answer(from_memory(&request, outcome, waited));
    }

    /// The sectors within which is read ahead for a request: of a pool, whose blocks lie anywhere,
    /// nothing is.
    fn bounds(&self, id: RequestId) -> Option<Extent> {
        let sent = self.sent.get(id).expect("a request waits until it is answered");
        matches!(sent.by, Sender::Load(_)).then(|| self.volumes[sent.volume].extent)
    }

    /// A request that is not answered.
    pub(super) fn request(&self, id: RequestId) -> Request {
        let sent = self.sent.get(id).expect("a request waits until it is answered");
        Request { id, volume: self.volumes[sent.volume].id, operation: sent.operation }
    }

    /// A write from a buffer to the disk has ended.
    pub(super) fn destaged(&mut self, index: usize, destage: &Destage, reply: &Reply) {
        let sent = self.sent.remove(reply.request).expect("a request is answered exactly once");
        let disk = &mut self.disks[index];
        if reply.outcome == Outcome::Failed {
            disk.data.lost(&sent.watched);
        }
        disk.bytes += sent.operation.extent.len.bytes();
        let buffer = disk.buffer.as_mut().expect("it sent the destage");
        buffer.buffer.destaged(destage, reply.outcome);
    }
}

/// The reply to a request that the host answers.
pub(super) fn from_memory(request: &Request, outcome: Outcome, waited: Duration) -> Reply {
    let Request { id, volume, .. } = *request;
    let (disk_time, estimate) = (DiskTime::ZERO, DiskTime::ZERO);
    Reply { request: id, volume, outcome, disk_time, estimate, waited }
}
