//! Contracts of a simulation's volumes: those of the plan, streams that begin and end, and changes
//! from outside.

use config::VolumeIndex;
use engine::{Contract, Event, Refusal, VolumeId};
use units::{Instant, Share};

use super::disks::Terms;
use super::{Disk, Simulation};

impl Simulation {
    /// Changes the reserves of volumes, by their index in the plan. The reserves of each disk must
    /// still fit the disk.
    pub fn change_reserves(&mut self, reserves: &[(usize, Share)]) {
        for (index, reserve) in reserves {
            let volume = &mut self.volumes[*index];
            let engine = &mut self.disks[volume.disk].engine;
            let contract = Contract { reserve: *reserve, ..engine.contract(volume.id) };
            let changed = Event::ContractChanged { volume: volume.id, contract };
            engine.handle(changed, self.now);
            volume.reserve_oracle.restart(engine, volume.id);
        }
    }

    /// The present contract of a volume of the plan.
    pub fn contract(&self, volume: VolumeIndex) -> Contract {
        let volume = &self.volumes[volume.0];
        self.disks[volume.disk].engine.contract(volume.id)
    }

    /// Changes the contract of a volume of the plan.
    ///
    /// # Errors
    /// The engine's [`Refusal`]; nothing is changed then.
    pub fn change_contract(
        &mut self,
        volume: VolumeIndex,
        contract: Contract,
    ) -> Result<(), Refusal> {
        let volume = &mut self.volumes[volume.0];
        let disk = &mut self.disks[volume.disk];
        disk.engine.admits(volume.id, contract)?;
        disk.limited |= contract.limit < Share::ALL;
        disk.contract_changed(volume.id, &contract);
        disk.engine.handle(Event::ContractChanged { volume: volume.id, contract }, self.now);
        volume.reserve_oracle.restart(&disk.engine, volume.id);
        Ok(())
    }
}

impl Disk {
    pub(super) fn add_volume(&mut self, terms: &Terms) -> VolumeId {
        let none = Contract { stream: None, ..terms.contract };
        let id = self.engine.add_volume(none, Instant::ZERO).expect("the plan's reserves fit");
        if let Some(buffer) = &mut self.buffer {
            buffer.buffer.add_volume(id, terms.write_buffer);
            if terms.passes_flushes {
                buffer.buffer.pass_flushes(id);
            }
        }
        let contract = self.agenda.schedule(id, terms.contract, terms.span, Instant::ZERO);
        self.contract_changed(id, &contract);
        if contract != none {
            self.engine.handle(Event::ContractChanged { volume: id, contract }, Instant::ZERO);
        }
        id
    }

    /// Begins and ends the streams that are due.
    pub(super) fn apply_scheduled_contracts(&mut self, now: Instant) {
        while let Some((volume, stream)) = self.agenda.take_due(now) {
            let contract = Contract { stream, ..self.engine.contract(volume) };
            self.contract_changed(volume, &contract);
            self.engine.handle(Event::ContractChanged { volume, contract }, now);
        }
    }
}
