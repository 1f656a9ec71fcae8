//! Read-ahead in the host, in virtual time: requests that the memory serves, and those that fill
//! it.

use engine::{
    Buffering, Contract, Event, Outcome, ReadAheadAction, Reply, Request, ServedBy, VolumeId,
};
use stats::ReadAheadReport;
use units::{Duration, Extent, Operation};

use super::write_buffer::from_memory;
use super::{Disk, Entry, Sender, Sent, Simulation};
use crate::oracle::least_requests;

impl Disk {
    /// A volume whose requests have deadlines is not read ahead, and its writes are not buffered.
    /// Requests of one with a bounded latency go ahead of others.
    pub(super) fn contract_changed(&mut self, volume: VolumeId, contract: &Contract) {
        if contract.latency.is_some() {
            self.data.set_unordered(volume);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.ahead.set_enabled(volume, !contract.has_deadlines());
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.buffer.set_buffering(volume, Buffering::of(contract));
        }
    }

    /// What was read ahead for a volume, if anything was.
    pub(super) fn read_ahead_of(&self, volume: VolumeId) -> Option<ReadAheadReport> {
        ReadAheadReport::of(self.ahead.as_ref()?.ahead.usage(volume))
    }
}

impl Simulation {
    /// Gives a request to the engine of a disk.
    fn submit_to_engine(&mut self, index: usize, request: Request) {
        let disk = &mut self.disks[index];
        let (place, engaged) = &mut disk.engaged[request.volume.0 as usize];
        *engaged += 1;
        if *engaged == least_requests(&disk.settings) {
            let oracle = &mut self.volumes[*place].reserve_oracle;
            oracle.on_request(&disk.engine, request.volume, &disk.settings, self.now);
        }
        disk.engine.handle(Event::Submit(request), self.now);
    }

    /// Gives a request to the memory of the read-ahead or to the engine of its disk.
    pub(super) fn submit_below(&mut self, disk: usize, request: Request, bounds: Option<Extent>) {
        let now = self.now;
        let Some(ahead) = &mut self.disks[disk].ahead else {
            return self.submit_to_engine(disk, request);
        };
        match ahead.ahead.submit(&request, bounds, now) {
            ServedBy::Disk => self.submit_to_engine(disk, request),
            ServedBy::Pending => {}
            ServedBy::Memory => {
                let sent = self.sent.get_mut(request.id).expect("the request was just sent");
                ahead.copy(request.operation.extent, &mut sent.watched);
                let reply = from_memory(&request, Outcome::Done, Duration::ZERO);
                self.events.schedule(now, Entry::Hit(reply));
            }
        }
    }

    /// Carries out what the read-ahead of a disk asks for.
    pub(super) fn read_ahead(&mut self, index: usize) {
        let now = self.now;
        while let Some(action) =
            self.disks[index].ahead.as_mut().and_then(|ahead| ahead.ahead.poll(now))
        {
            let Disk { ahead, data, .. } = &mut self.disks[index];
            let ahead = ahead.as_mut().expect("it was just polled");
            match action {
                ReadAheadAction::Read { segment, volume, extent } => {
                    let operation = Operation::read(extent);
                    let watched = data.sent(&operation, extent);
                    let by = Sender::ReadAhead(segment);
                    let place = self.disks[index].engaged[volume.0 as usize].0;
                    let sent = Sent { by, volume: place, at: now, operation, watched };
                    let id = self.sent.insert(sent);
                    self.submit_to_engine(index, Request { id, volume, operation });
                }
                ReadAheadAction::Offer { volume, extent } => {
                    let event = Event::PrefetchOffered { volume, extent };
                    self.disks[index].engine.handle(event, now);
                }
                ReadAheadAction::Drop(segment) => drop(ahead.held.remove(&segment)),
                ReadAheadAction::Answer(id) => {
                    let sent = self.sent.get_mut(id).expect("a request waits until it is answered");
                    ahead.copy(sent.operation.extent, &mut sent.watched);
                    let waited = now.since(sent.at);
                    let request = self.request(id);
                    let ahead = self.disks[index].ahead.as_mut().expect("it was just polled");
                    ahead.ahead.answered(&request, now);
                    self.answer(from_memory(&request, Outcome::Done, waited));
                }
                ReadAheadAction::Submit(id) => {
                    let request = self.request(id);
                    self.submit_to_engine(index, request);
                }
            }
        }
    }

    /// A request that the engine had is answered.
    pub(super) fn replied(&mut self, index: usize, reply: Reply) {
        let now = self.now;
        let volume = reply.volume.0 as usize;
        self.disks[index].engaged[volume].1 -= 1;
        let sent = self.sent.get_mut(reply.request).expect("a request is answered exactly once");
        let (by, operation) = (sent.by, sent.operation);
        let ahead = self.disks[index].ahead.as_mut();
        match (by, ahead) {
            (Sender::Destage(destage), ahead) => {
                if let Some(ahead) = ahead {
                    let Reply { request: id, volume, .. } = reply;
                    ahead.ahead.answered(&Request { id, volume, operation }, now);
                }
                self.destaged(index, &destage, &reply);
            }
            (Sender::ReadAhead(segment), Some(ahead)) => {
                self.sent.remove(reply.request);
                ahead.ahead.finished(segment, reply.outcome, now);
            }
            (_, ahead) => {
                let Reply { request: id, volume, .. } = reply;
                if let Some(ahead) = ahead {
                    ahead.ahead.answered(&Request { id, volume, operation }, now);
                }
                if let Some(buffer) = &mut self.disks[index].buffer {
                    buffer.buffer.ended(volume, id);
                }
                self.answer(reply);
            }
        }
        let Disk { engaged, settings, .. } = &self.disks[index];
        let (place, engaged) = engaged[volume];
        if engaged < least_requests(settings) {
            self.volumes[place].reserve_oracle.on_idle(settings);
        }
    }
}
