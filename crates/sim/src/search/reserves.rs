//! The oracle of reserves in a case, and the priorities that its bound depends on.

use engine::{Contract, Priority, VolumeId};
use units::{Duration, Share};

use super::Case;
use super::terms::ms;
use crate::oracle::{ReserveTerms, burst};

/// The interval between two checks of all volumes.
const CHECK_INTERVAL: Duration = ms(20);

impl Case {
    /// Gives `volume` high priority, if it has a limit and that is admitted beside all reserves:
    /// what it may take beyond its reserve is reserved for a volume without requests.
    pub(super) fn raise_priority(&mut self, volume: VolumeId) {
        let contract = self.engine.contract(volume);
        let beyond = Contract::reserve(contract.limit.saturating_sub(contract.reserve));
        let is_admitted = contract.limit < Share::ALL && {
            beyond.reserve.is_none() || self.engine.add_volume(beyond, self.now).is_ok()
        };
        if let Some(shares) = self.shares.as_mut().filter(|_| is_admitted) {
            self.engine.set_priority(volume, Priority::High);
            shares.high.push(volume);
        }
    }

    /// The checks of all reserves start again: the contracts of the disk have changed.
    pub(super) fn shares_changed(&mut self) {
        let Some(shares) = &mut self.shares else { return };
        let high = shares.high.iter().map(|volume| self.engine.contract(*volume));
        shares.burst = burst(high, shares.settings.period);
        for client in self.clients.iter_mut().filter(|client| !client.is_removed()) {
            client.reserve.restart(&self.engine, client.volume);
        }
    }

    /// Checks the reserves, at intervals.
    pub(super) fn check_shares(&mut self) {
        let Some(shares) = self.shares.as_mut().filter(|shares| shares.next_check <= self.now)
        else {
            return;
        };
        shares.next_check = self.now + CHECK_INTERVAL;
        let terms = ReserveTerms {
            settings: &shares.settings,
            longest: shares.longest,
            service_longest: shares.longest,
            burst: shares.burst,
            now: self.now,
        };
        for client in self.clients.iter_mut().filter(|client| !client.is_removed()) {
            let is_backlogged = client.outstanding > 0;
            client.reserve.check(&mut self.engine, client.volume, is_backlogged, terms);
        }
    }
}
