//! Adding and removing volumes and changing contracts, while requests are queued and in service.
//!
//! Each change happens within one call, between two decisions: no decision sees half of it.
//! [`Admission`](crate::Admission) refuses a change before any state is touched.
//!
//! Invariants: the reserves of the present volumes add up to what is admitted, at most the whole;
//! the number of a removed volume is given to another, its usage is not.

use units::{DiskTime, Duration, Instant};

use super::{Engine, NO_SLOT, Volume};
use crate::limits::VOLUMES_MAX;
use crate::{Contract, Priority, Refusal, ServiceDemand, VolumeId, VolumeUsage};

impl Engine {
    /// The disk time, requests and sectors of `volume` so far.
    pub fn usage(&self, volume: VolumeId) -> &VolumeUsage {
        &self.volumes[volume.0 as usize].account
    }

    /// The level of the reserve bucket of `volume`, negative for a debt; `None` if the policy keeps
    /// none.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        self.policy.balance(volume, now)
    }

    /// Adds a volume, if its contract can be kept beside the others.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    ///
    /// # Panics
    /// Past [`VOLUMES_MAX`].
    pub fn add_volume(&mut self, contract: Contract, now: Instant) -> Result<VolumeId, Refusal> {
        assert!(self.volumes() < VOLUMES_MAX, "volumes are bounded at the edge");
        let fresh = || VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        let volume = self.vacant.last().copied().unwrap_or_else(fresh);
        let mut admission = self.admission;
        admission.admit(contract)?;
        if let Some(tasks) = &mut self.tasks {
            tasks.admit(volume, contract, admission.promised())?;
        }
        self.admission = admission;
        if let Some(chooser) = &mut self.chooser {
            chooser.reset_volume(volume);
        }
        let fresh = Volume { first: NO_SLOT, last: NO_SLOT, account: VolumeUsage::default() };
        if self.vacant.pop().is_none() {
            debug_assert_eq!(
                volume.0 as usize,
                self.volumes.len(),
                "volumes are numbered in order"
            );
            self.volumes.push(fresh);
            self.contracts.push(contract);
            self.priorities.push(Priority::Normal);
            self.slack.push(DiskTime::ZERO);
            self.ahead.push(NO_SLOT);
            self.policy.add_volume(contract, now);
            self.update_guarded(now);
            return Ok(volume);
        }
        let before = &self.volumes[volume.0 as usize];
        debug_assert_eq!(before.first, NO_SLOT, "a removed volume has no request");
        debug_assert_eq!(before.account.disk_time, DiskTime::ZERO, "its usage is accounted for");
        self.volumes[volume.0 as usize] = fresh;
        self.contracts[volume.0 as usize] = contract;
        self.priorities[volume.0 as usize] = Priority::Normal;
        self.slack[volume.0 as usize] = DiskTime::ZERO;
        self.ahead[volume.0 as usize] = NO_SLOT;
        self.policy.reset_volume(volume, contract, now);
        self.update_guarded(now);
        Ok(volume)
    }

    /// Whether `volume`'s contract can be changed to this one. Only after a success may
    /// [`Event::ContractChanged`](crate::Event::ContractChanged) be sent.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn admits(&self, volume: VolumeId, contract: Contract) -> Result<(), Refusal> {
        let mut admission = self.admission;
        admission.release(self.contracts[volume.0 as usize]);
        admission.admit(contract)?;
        let promised = admission.promised();
        self.tasks.as_ref().map_or(Ok(()), |tasks| tasks.admits(volume, contract, promised))
    }

    /// The part of `volume`'s charge that was slack: no other volume's reserve was due.
    pub fn slack(&self, volume: VolumeId) -> DiskTime {
        let slack = self.slack[volume.0 as usize];
        debug_assert!(slack >= DiskTime::ZERO, "a charge is not negative: {slack}");
        debug_assert!(slack <= self.total_slack, "a part of the slack of all volumes");
        slack
    }

    /// What the requests of `volume` have demanded so far; `None` if the policy does not tell.
    pub fn service_demand(&self, volume: VolumeId, now: Instant) -> Option<ServiceDemand> {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        let demand = self.policy.service_demand(volume, now);
        let is_sound = demand.is_none_or(|demand| demand.service >= DiskTime::ZERO);
        debug_assert!(is_sound, "service times are not negative");
        let thinks = demand.map_or(Duration::ZERO, |demand| demand.think);
        debug_assert!(thinks <= now.since(Instant::ZERO), "no client thinks for longer than time");
        demand
    }

    /// The slack that all volumes were charged, removed ones included.
    pub fn total_slack(&self) -> DiskTime {
        self.total_slack
    }

    /// The number of volumes.
    pub fn volumes(&self) -> usize {
        debug_assert!(self.vacant.len() <= self.volumes.len(), "a vacant number was a volume's");
        self.volumes.len() - self.vacant.len()
    }

    pub(super) fn change(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        debug_assert!(!self.vacant.contains(&volume), "the volume has not been removed");
        let before = core::mem::replace(&mut self.contracts[volume.0 as usize], contract);
        self.admission.release(before);
        self.admission.admit(contract).expect("a change is checked before");
        if let Some(tasks) = &mut self.tasks {
            let promised = self.admission.promised();
            tasks.admit(volume, contract, promised).expect("a change is checked before");
        }
        assert!(self.admission.reserved() >= contract.reserve, "the reserve is counted");
        if before.latency != contract.latency {
            self.ahead[volume.0 as usize] = NO_SLOT;
        }
        self.policy.change_contract(volume, contract, now);
        if before.is_background != contract.is_background {
            self.update_head(volume, now);
        }
        self.update_guarded(now);
    }

    pub(super) fn remove_volume(&mut self, volume: VolumeId, now: Instant) {
        let entry = &mut self.volumes[volume.0 as usize];
        assert_eq!(entry.first, NO_SLOT, "a removed volume has no request");
        self.removed_volumes_charged +=
            core::mem::replace(&mut entry.account.disk_time, DiskTime::ZERO);
        let is_of_volume = |slot| self.pending(slot).request.volume == volume;
        assert!(!self.issued.iter().any(|issued| is_of_volume(issued.slot)), "nor one in service");
        assert_eq!(self.volumes[volume.0 as usize].last, NO_SLOT, "an empty queue has no end");
        assert!(!self.vacant.contains(&volume), "a volume is removed once");
        assert!(self.active.is_none_or(|active| active.volume != volume), "nor held for one");
        let contract = &mut self.contracts[volume.0 as usize];
        self.admission.release(core::mem::replace(contract, Contract::BEST_EFFORT));
        if let Some(tasks) = &mut self.tasks {
            tasks.release(volume);
        }
        self.policy.reset_volume(volume, Contract::BEST_EFFORT, now);
        self.forget_lender(volume);
        self.forget_prefetches(volume);
        self.update_guarded(now);
        self.vacant.push(volume);
        debug_assert!(self.vacant.len() <= self.volumes.len(), "a vacant number was a volume's");
    }

    pub(super) fn change_period(&mut self, (period, batch): (Duration, Duration), now: Instant) {
        (self.settings.period, self.settings.batch) = (period, batch);
        self.settings.assert_valid();
        assert!(batch <= period, "a batch lasts a period at most");
        if let Some(tasks) = &mut self.tasks {
            tasks.change_period(period, &self.contracts);
        }
        self.policy.change_period(&self.settings, now);
    }
}
