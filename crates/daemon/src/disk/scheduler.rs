//! One disk's scheduler: its engine, and what the daemon keeps of its volumes beside it.

use std::sync::mpsc::SyncSender;

use engine::{Contract, ContractSchedule, Event, VolumeId};
use flight::RecordedEngine;
use nbd::ExportId;
use units::{Instant, Sectors};

use super::read_ahead::HostReadAhead;
use super::request::Changed;
use super::terms::VolumeTerms;
use super::volumes::VolumeTable;

pub(crate) struct DiskScheduler {
    pub(crate) engine: RecordedEngine,
    pub(crate) volumes: VolumeTable,
    /// The instants at which streams begin and end.
    pub(crate) schedule: ContractSchedule,
    /// The read-ahead in the host, if it is on.
    pub(crate) read_ahead: Option<HostReadAhead>,
}

impl DiskScheduler {
    /// `memory`: that of the read-ahead in the host.
    pub(crate) fn new(engine: RecordedEngine, memory: Sectors) -> Self {
        Self {
            engine,
            volumes: VolumeTable::default(),
            schedule: ContractSchedule::default(),
            read_ahead: HostReadAhead::new(memory),
        }
    }

    /// A volume's contract is now this.
    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        self.engine.handle(Event::ContractChanged { volume, contract }, now);
        self.set_read_ahead(volume, &contract);
    }

    /// A volume whose requests have deadlines is not read ahead.
    fn set_read_ahead(&mut self, volume: VolumeId, contract: &Contract) {
        if let Some(ahead) = &mut self.read_ahead {
            ahead.set_enabled(volume, !contract.has_deadlines());
        }
    }

    /// Answers `drained` when no request of the volume is open. No more is read ahead for it.
    pub(crate) fn drain(&mut self, volume: VolumeId, drained: SyncSender<Changed>) {
        if let Some(ahead) = &mut self.read_ahead {
            ahead.set_enabled(volume, false);
        }
        self.volumes.drain(volume, drained);
    }

    /// Attaches a volume, and returns its number on this disk.
    pub(crate) fn attach(
        &mut self,
        export: ExportId,
        terms: VolumeTerms,
        now: Instant,
    ) -> VolumeId {
        let VolumeTerms { contract, span, declared, priority } = terms;
        let without_stream = Contract { stream: None, ..contract };
        let id = self.engine.add_volume(without_stream, now);
        let id = id.expect("the contract has passed admission");
        self.set_read_ahead(id, &without_stream);
        let contract = self.schedule.schedule(id, contract, span, now);
        if contract != without_stream {
            self.change_contract(id, contract, now);
        }
        self.engine.set_priority(id, priority, now);
        self.volumes.add(id, export, declared);
        id
    }

    /// Replaces a volume's terms. A priority holds from the volume's next request on.
    pub(crate) fn set_terms(&mut self, volume: VolumeId, terms: VolumeTerms, now: Instant) {
        let VolumeTerms { contract, span, declared, priority } = terms;
        self.engine.set_priority(volume, priority, now);
        self.volumes.set_declared(volume, declared);
        let contract = self.schedule.schedule(volume, contract, span, now);
        self.change_contract(volume, contract, now);
        self.volumes.restart_demand(volume, &self.engine, now);
    }

    /// Detaches a drained volume.
    pub(crate) fn detach(&mut self, volume: VolumeId, now: Instant) {
        self.volumes.remove(volume);
        self.schedule.remove(volume);
        if let Some(ahead) = &mut self.read_ahead {
            ahead.remove_volume(volume);
        }
        self.engine.handle(Event::VolumeRemoved { volume }, now);
    }

    /// Begins and ends the streams that are due.
    pub(crate) fn apply_due_contracts(&mut self, now: Instant) {
        while let Some((volume, stream)) = self.schedule.take_due(now) {
            let contract = Contract { stream, ..self.engine.contract(volume) };
            self.change_contract(volume, contract, now);
        }
    }

    /// Cancels all streams. Best-effort requests that wait for slack beside them, of which there
    /// may never have been any, can be served then: otherwise a stop would wait for them forever.
    pub(crate) fn cancel_streams(&mut self, now: Instant) {
        for volume in self.volumes.ids() {
            self.schedule.remove(volume);
            let contract = self.engine.contract(volume);
            if contract.stream.is_some() {
                let contract = Contract { stream: None, ..contract };
                self.change_contract(volume, contract, now);
            }
        }
    }
}
