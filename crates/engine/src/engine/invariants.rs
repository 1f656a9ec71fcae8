//! What is true of an engine between two events.

use units::DiskTime;

use super::pending::Pending;
use super::{Engine, NO_SLOT};
use crate::Purpose;

impl Engine {
    /// Panics if the engine's state is inconsistent. Costs O(requests + volumes): for tests and
    /// simulation.
    ///
    /// # Panics
    /// As said.
    pub fn invariants(&self) {
        let running = self.pending.iter().flatten().map(|pending| usize::from(pending.running));
        let covered = self.issued.iter().map(|issued| issued.covered as usize);
        let covered = covered.sum::<usize>() + self.retries.len() + self.batch.covered();
        assert_eq!(running.sum::<usize>(), covered, "commands belong to requests");
        assert_eq!(
            self.issued.len(),
            self.meter.running(),
            "the meter has every command in flight"
        );
        let reserved: u64 = self.contracts.iter().map(|c| u64::from(c.reserve.ppb())).sum();
        assert_eq!(reserved, u64::from(self.admission.reserved().ppb()), "reserves add up");
        let whole = |pending: &&Pending| pending.issued_whole();
        let queued = self.requests() - self.pending.iter().flatten().filter(whole).count();
        assert_eq!(queued, self.queued, "a request that waits for a command is queued");
        let waits = self.rotational_wait_of().or(self.policy.anticipating());
        if self.issued.is_empty() && waits.is_none() {
            let charged: DiskTime = self.volumes.iter().map(|v| v.account.disk_time).sum();
            let uncharged = self.policy.uncharged() + self.batch.uncharged();
            let charged = charged + self.removed_volumes_charged + uncharged;
            let charged = charged - self.credit();
            assert_eq!(charged, self.busy(), "what is charged, or will be, is the busy time");
        }
        assert!(self.issued.len() <= self.settings.depth as usize, "the depth is kept");
        assert!(self.urgent.len() <= self.queued, "urgent requests are queued");
        assert_eq!(self.contracts.len(), self.volumes.len(), "each volume has a contract");
        assert_eq!(self.priorities.len(), self.volumes.len(), "each volume has a priority");
        assert_eq!(self.slack.len(), self.volumes.len(), "each volume has a slack account");
        assert_eq!(
            self.ahead.len(),
            self.volumes.len(),
            "each volume has a place for such requests"
        );
        assert!(self.vacant.len() <= self.volumes.len(), "a vacant number was a volume's");
        for volume in &self.volumes {
            let is_empty = volume.first == NO_SLOT;
            assert_eq!(is_empty, volume.last == NO_SLOT, "a queue has both ends or none");
        }
        for issued in &self.issued {
            self.invariants_of(issued);
            assert!(issued.record.is_none() || issued.purpose == Purpose::Transfer, "a transfer's");
        }
        for pending in self.pending.iter().flatten() {
            let len = pending.request.operation.extent.len;
            assert!(pending.issued <= len, "no sector is issued twice");
            assert!(pending.submitted <= self.now, "a request was submitted in the past");
            assert!(pending.disk_time >= DiskTime::ZERO, "a service time is not negative");
        }
        self.policy.invariants();
    }
}
