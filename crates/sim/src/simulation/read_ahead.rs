//! Read-ahead in the host, in virtual time: requests that the memory serves, and those that fill
//! it.

use engine::{Contract, Event, Outcome, ReadAheadAction, Reply, Request, ServedBy, VolumeId};
use stats::ReadAheadReport;
use units::{DiskTime, Duration, Extent, Op, Operation};

use super::{Disk, Entry, Sender, Sent, Simulation};

impl Disk {
    /// A volume whose reads have deadlines is not read ahead. Requests of one with a bounded
    /// latency go ahead of others.
    pub(super) fn contract_changed(&mut self, volume: VolumeId, contract: &Contract) {
        if contract.latency.is_some() {
            self.data.set_unordered(volume);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.ahead.set_enabled(volume, !contract.has_deadlines());
        }
    }

    /// What was read ahead for a volume, if anything was.
    pub(super) fn read_ahead_of(&self, volume: VolumeId) -> Option<ReadAheadReport> {
        ReadAheadReport::of(self.ahead.as_ref()?.ahead.usage(volume))
    }
}

impl Simulation {
    /// Gives a client's request to the memory or to the engine of its disk.
    pub(super) fn submit(&mut self, disk: usize, request: Request, bounds: Extent) {
        let now = self.now;
        let Disk { ahead, engine, .. } = &mut self.disks[disk];
        let Some(ahead) = ahead else {
            return engine.handle(Event::Submit(request), now);
        };
        match ahead.ahead.submit(&request, Some(bounds), now) {
            ServedBy::Disk => engine.handle(Event::Submit(request), now),
            ServedBy::Pending => {}
            ServedBy::Memory => {
                let sent = self.sent.get_mut(request.id).expect("the request was just sent");
                ahead.copy(request.operation.extent, &mut sent.watched);
                self.events.schedule(now, Entry::Hit(hit(&request, Duration::ZERO)));
            }
        }
    }

    /// Carries out what the read-ahead of a disk asks for.
    pub(super) fn read_ahead(&mut self, index: usize) {
        let now = self.now;
        while let Some(action) =
            self.disks[index].ahead.as_mut().and_then(|ahead| ahead.ahead.poll(now))
        {
            let Disk { ahead, engine, data, .. } = &mut self.disks[index];
            let ahead = ahead.as_mut().expect("it was just polled");
            match action {
                ReadAheadAction::Read { segment, volume, extent } => {
                    let operation = Operation::read(extent);
                    let watched = data.sent(&operation);
                    let by = Sender::ReadAhead(segment);
                    let id = self.sent.insert(Sent { by, at: now, operation, watched });
                    engine.handle(Event::Submit(Request { id, volume, operation }), now);
                }
                ReadAheadAction::Drop(segment) => drop(ahead.held.remove(&segment)),
                ReadAheadAction::Answer(id) => {
                    let sent = self.sent.get_mut(id).expect("a request waits until it is answered");
                    let Sender::Load(load) = sent.by else { unreachable!("a client waits") };
                    let volume = self.volumes[self.loads[load].volume].id;
                    let (operation, waited) = (sent.operation, now.since(sent.at));
                    ahead.copy(operation.extent, &mut sent.watched);
                    let request = Request { id, volume, operation };
                    ahead.ahead.answered(&request, now);
                    self.answer(hit(&request, waited));
                }
                ReadAheadAction::Submit(id) => {
                    let sent = self.sent.get_mut(id).expect("a request waits until it is answered");
                    let Sender::Load(load) = sent.by else { unreachable!("a client waits") };
                    let volume = self.volumes[self.loads[load].volume].id;
                    let request = Request { id, volume, operation: sent.operation };
                    engine.handle(Event::Submit(request), now);
                }
            }
        }
    }

    /// A request that the engine had is answered.
    pub(super) fn replied(&mut self, index: usize, reply: Reply) {
        let now = self.now;
        let sent = self.sent.get_mut(reply.request).expect("a request is answered exactly once");
        let (by, operation) = (sent.by, sent.operation);
        let ahead = self.disks[index].ahead.as_mut();
        match (by, ahead) {
            (Sender::ReadAhead(segment), Some(ahead)) => {
                self.sent.remove(reply.request);
                ahead.ahead.finished(segment, reply.outcome, now);
            }
            (_, ahead) => {
                if let Some(ahead) = ahead {
                    let Reply { request: id, volume, .. } = reply;
                    ahead.ahead.answered(&Request { id, volume, operation }, now);
                }
                self.answer(reply);
            }
        }
    }
}

/// The reply to a read from memory.
fn hit(request: &Request, waited: Duration) -> Reply {
    debug_assert_eq!(request.operation.op, Op::Read, "only reads are read ahead");
    let Request { id, volume, .. } = *request;
    let (disk_time, estimate) = (DiskTime::ZERO, DiskTime::ZERO);
    Reply { request: id, volume, outcome: Outcome::Done, disk_time, estimate, waited }
}
