//! One disk's scheduler: its engine, and what the daemon keeps of its volumes beside it.

use std::sync::mpsc::SyncSender;

use engine::{Buffering, Contract, ContractSchedule, Event, VolumeId};
use flight::RecordedEngine;
use nbd::ExportId;
use units::{Instant, Share};

use super::read_ahead::HostReadAhead;
use super::request::Changed;
use super::terms::VolumeTerms;
use super::volumes::VolumeTable;
use super::write_buffer::HostWriteBuffer;
use super::write_buffer_log::{LogFiles, WriteBufferLog};

pub(crate) struct DiskScheduler {
    pub(crate) engine: RecordedEngine,
    pub(crate) volumes: VolumeTable,
    /// The instants at which streams begin and end.
    pub(crate) schedule: ContractSchedule,
    /// The read-ahead in the host, if it is on.
    pub(crate) read_ahead: Option<HostReadAhead>,
    /// The write buffers in the host, if it has them.
    pub(crate) write_buffer: Option<HostWriteBuffer>,
}

impl DiskScheduler {
    /// With the memory of the disk's read-ahead and of its write buffers in the host, which are
    /// logged in `log`.
    pub(crate) fn new(engine: RecordedEngine, disk: &config::Disk, log: Option<LogFiles>) -> Self {
        let mut write_buffer = disk.write_buffer.map(HostWriteBuffer::new);
        if let Some((buffer, files)) = write_buffer.as_mut().zip(log) {
            match WriteBufferLog::create(files) {
                Ok(log) => buffer.set_log(log),
                Err(error) => eprintln!(
                    "disk {}: the log of its write buffers: {error}: a kill of the daemon loses \
                     what is buffered",
                    disk.name
                ),
            }
        }
        Self {
            engine,
            volumes: VolumeTable::default(),
            schedule: ContractSchedule::default(),
            read_ahead: HostReadAhead::new(disk.read_ahead),
            write_buffer,
        }
    }

    /// A volume's contract is now this.
    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        self.engine.handle(Event::ContractChanged { volume, contract }, now);
        self.set_host_memory(volume, &contract);
    }

    /// A volume whose requests have deadlines is not read ahead, and its writes are not buffered.
    fn set_host_memory(&mut self, volume: VolumeId, contract: &Contract) {
        if let Some(ahead) = &mut self.read_ahead {
            ahead.set_enabled(volume, !contract.has_deadlines());
        }
        if let Some(buffer) = &mut self.write_buffer {
            buffer.set_buffering(volume, Buffering::of(contract));
        }
    }

    /// Whether no request is in progress, and nothing is buffered.
    pub(crate) fn is_idle(&self) -> bool {
        let is_clean = self.write_buffer.as_ref().is_none_or(HostWriteBuffer::is_clean);
        is_clean && self.engine.requests() == 0
    }

    /// Nothing more is read ahead or buffered; what is buffered goes to the disk, and no limit
    /// delays that.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.read_ahead.iter_mut().for_each(HostReadAhead::stop);
        let Some(buffer) = &mut self.write_buffer else { return };
        for volume in self.volumes.ids() {
            buffer.set_buffering(volume, Buffering::Off);
            let contract = Contract { limit: Share::ALL, ..self.engine.contract(volume) };
            if !buffer.is_empty(volume) && self.engine.admits(volume, contract).is_ok() {
                self.engine.handle(Event::ContractChanged { volume, contract }, now);
            }
        }
    }

    /// Answers `drained` when no request of the volume is open and nothing of it is buffered. No
    /// more is read ahead for it, or buffered, until its contract changes.
    pub(crate) fn drain(&mut self, volume: VolumeId, drained: SyncSender<Changed>) {
        if let Some(ahead) = &mut self.read_ahead {
            ahead.set_enabled(volume, false);
        }
        match &mut self.write_buffer {
            Some(buffer) => buffer.drain(volume, drained),
            None => self.volumes.drain(volume, drained),
        }
    }

    /// Attaches a volume, and returns its number on this disk.
    pub(crate) fn attach(
        &mut self,
        export: ExportId,
        terms: &VolumeTerms,
        now: Instant,
    ) -> VolumeId {
        let VolumeTerms { contract, span, declared, priority, write_buffer, .. } = *terms;
        let without_stream = Contract { stream: None, ..contract };
        let id = self.engine.add_volume(without_stream, now);
        let id = id.expect("the contract has passed admission");
        if let Some(buffer) = &mut self.write_buffer {
            buffer.add_volume(id, write_buffer);
        }
        self.set_host_memory(id, &without_stream);
        let contract = self.schedule.schedule(id, contract, span, now);
        if contract != without_stream {
            self.change_contract(id, contract, now);
        }
        self.engine.set_priority(id, priority, now);
        self.volumes.add(id, export, declared);
        self.volumes.set_spans(id, (span, terms.stream_span));
        id
    }

    /// Replaces a volume's terms. A priority holds from the volume's next request on.
    pub(crate) fn set_terms(&mut self, volume: VolumeId, terms: &VolumeTerms, now: Instant) {
        let VolumeTerms { contract, span, declared, priority, .. } = *terms;
        self.engine.set_priority(volume, priority, now);
        self.volumes.set_declared(volume, declared);
        self.volumes.set_spans(volume, (span, terms.stream_span));
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
        if let Some(buffer) = &mut self.write_buffer {
            buffer.remove_volume(volume);
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
