//! The disks of a pool in service: they join, fail, come back and leave.

use std::collections::BTreeMap;

use config::DiskIndex;
use engine::VolumeId;
use volume::DiskId;
use volume::pool::{DiskUid, Domains};

use super::PoolService;
use crate::pool::accounts::{PoolDisk, PoolVolumeAccounts};

impl PoolService {
    /// Tells the pool which of its disks fail together, and of one that is about to join.
    pub(crate) fn set_domains(
        &self,
        disks: &[config::Disk],
        joining: Option<(DiskUid, DiskIndex)>,
    ) {
        let numbers = config::domain_numbers(disks);
        let mut inner = self.inner();
        let state = inner.flow.pool().state();
        let there = inner.disks.iter();
        let there = there.filter_map(|(id, member)| Some((state.disk(*id)?.uid, member.disk)));
        let number = |(uid, disk): (DiskUid, DiskIndex)| Some((uid, numbers[disk.0]?));
        let domains = Domains::new(there.chain(joining).filter_map(number));
        inner.flow.set_domains(domains);
    }

    /// Prepares for a disk that is being added, to which the pool will give a number.
    pub(crate) fn begin_join(&self, uid: DiskUid, disk: PoolDisk) {
        let previous = self.inner().joining.replace((uid, disk));
        assert!(previous.is_none(), "disks are added one at a time");
    }

    /// Ends the addition of a disk. Returns whether it is in the pool.
    pub(crate) fn end_join(&self) -> bool {
        let mut inner = self.inner();
        let (uid, disk) = inner.joining.take().expect("a disk is being added");
        let number = {
            let mut disks = inner.flow.pool().state().disks();
            disks.find(|(_, disk)| disk.uid == uid).map(|(id, _)| id)
        };
        inner.disks.extend(number.map(|number| (number, disk)));
        number.is_some()
    }

    /// A disk of the pool, or one that was missing, is there from now on.
    pub(crate) fn insert_disk(&self, number: DiskId, disk: PoolDisk) {
        self.inner().disks.insert(number, disk);
    }

    /// Whether the disk is one of the pool's that it can do without.
    pub(crate) fn can_spare(&self, disk: DiskIndex) -> bool {
        let inner = self.inner();
        let number = inner.disks.iter().find(|(_, one)| one.disk == disk).map(|(id, _)| *id);
        number.is_some_and(|number| inner.flow.can_spare(number))
    }

    /// A disk has failed, whether or not it has work: the pool goes on without it if it can.
    pub(crate) fn disk_failed(&self, disk: DiskIndex) {
        let mut inner = self.inner();
        if let Some(number) = inner.number_of(disk) {
            inner.flow.fail(number);
            self.advance(&mut inner);
        }
    }

    /// A disk has failed to write what its buffer had answered of a mirror, which has this number
    /// there. The pool is told before it takes what the disk has done since.
    pub(crate) fn copy_lost(&self, disk: DiskIndex, account: VolumeId) {
        let mut inner = self.inner();
        let Some(number) = inner.number_of(disk) else { return };
        let is_own = |accounts: &PoolVolumeAccounts| accounts.by_disk.get(&disk) == Some(&account);
        let volume = inner.accounts.iter().find(|(_, accounts)| is_own(accounts));
        match volume.map(|(id, _)| *id) {
            Some(volume) => inner.flow.lose(number, volume),
            // The volume has been removed: what is lost is of no account.
            None => inner.flow.fail(number),
        };
        self.advance(&mut inner);
    }

    /// What a disk had answered before it failed may be lost: so are its checksums.
    pub(crate) fn reset_sums(&self, disk: DiskId) {
        let mut inner = self.inner();
        inner.sums.reset(disk);
        self.advance(&mut inner);
    }

    /// Forgets a disk that has left.
    pub(crate) fn remove_disk(&self, disk: DiskId) -> Option<PoolDisk> {
        let mut inner = self.inner();
        inner.sums.remove(disk);
        inner.disks.remove(&disk)
    }

    /// The pool's disks.
    pub(crate) fn disks(&self) -> BTreeMap<DiskId, PoolDisk> {
        self.inner().disks.clone()
    }
}
