//! What the volumes and snapshots of a group share: the disks that they are on, and the freed
//! blocks that requests in flight may still read (epoch-based reclamation).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Extent, Lba, Sectors};

use crate::location::DiskId;
use crate::pool::flow::read_choice::cost;
use crate::pool::names::PoolVolumeId;
use crate::pool::operation::machine::{OperationId, Pool};

/// Requests that were mapped between two ends of operations.
#[derive(Clone, Debug, Default)]
struct Epoch {
    /// The number in flight.
    in_flight: u32,
    /// Operations that ended in it: requests mapped by then may read the blocks that these freed.
    ended: Vec<OperationId>,
}

/// The volumes and snapshots that may share blocks.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotGroup {
    /// The disks that their data can be on: a flush goes to each.
    pub(crate) disks: BTreeSet<DiskId>,
    /// Where the last request ended, by disk.
    pub(crate) last: BTreeMap<DiskId, Lba>,
    /// The number of the first epoch.
    first: u64,
    /// The last one is the current epoch.
    epochs: VecDeque<Epoch>,
}

impl SnapshotGroup {
    pub(crate) fn new(pool: &Pool, id: PoolVolumeId) -> Self {
        let (disks, last) = (BTreeSet::new(), BTreeMap::new());
        let epochs = VecDeque::from([Epoch::default()]);
        let mut group = Self { disks, last, first: 0, epochs };
        group.rescan(pool, id);
        assert!(group.is_idle(), "a new group has no request");
        group
    }

    /// Recomputes its disks. Examines every extent.
    pub(crate) fn rescan(&mut self, pool: &Pool, id: PoolVolumeId) {
        self.disks.clear();
        for (_, volume) in pool.state().members(id) {
            self.disks.extend(&volume.disks);
            self.disks.extend(volume.places().map(|place| place.disk));
        }
        self.last.retain(|disk, _| self.disks.contains(disk));
    }

    /// A disk has left the pool.
    pub(crate) fn forget_disk(&mut self, disk: DiskId) {
        self.disks.remove(&disk);
        self.last.remove(&disk);
        debug_assert!(!self.last.contains_key(&disk), "no request goes there");
    }

    /// A request is issued to a disk. Returns its cost.
    pub(crate) fn pass_over(&mut self, disk: DiskId, extent: Extent) -> Sectors {
        let last = self.last.insert(disk, extent.end());
        cost(last, extent)
    }

    /// A request has been mapped; returns its epoch.
    pub(crate) fn enter_epoch(&mut self) -> u64 {
        let last = self.epochs.back_mut().expect("there is always a present");
        last.in_flight += 1;
        assert!(last.ended.is_empty(), "the current epoch has no end");
        self.first + self.epochs.len() as u64 - 1
    }

    /// A request of that epoch has ended. Returns the operations whose freed blocks no request
    /// reads any more.
    pub(crate) fn leave_epoch(&mut self, epoch: u64) -> Vec<OperationId> {
        let at = usize::try_from(epoch - self.first).expect("few epochs are pending way");
        assert!(at < self.epochs.len(), "an epoch with a request is kept");
        assert!(self.epochs[at].in_flight > 0, "a request leaves its epoch once");
        self.epochs[at].in_flight -= 1;
        self.reclaim()
    }

    /// An operation that freed blocks has ended. Returns the operations whose freed blocks no
    /// request reads any more.
    pub(crate) fn end_epoch(&mut self, operation_id: OperationId) -> Vec<OperationId> {
        self.epochs.back_mut().expect("there is always a present").ended.push(operation_id);
        assert_eq!(self.epochs.back().map(|epoch| epoch.ended.len()), Some(1), "an end per epoch");
        self.epochs.push_back(Epoch::default());
        self.reclaim()
    }

    /// Checks the epochs.
    ///
    /// # Panics
    /// If one is missing, or was to be reclaimed.
    pub(crate) fn invariants(&self) {
        assert!(!self.epochs.is_empty(), "there is a current epoch");
        let reclaimed = self.epochs.len() == 1 || self.epochs[0].in_flight > 0;
        assert!(reclaimed, "ended epochs are reclaimed");
        let current = self.epochs.back().expect("it was checked");
        assert!(current.ended.is_empty(), "an end opens an epoch");
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.epochs.len() == 1 && self.epochs[0].in_flight == 0
    }

    fn reclaim(&mut self) -> Vec<OperationId> {
        let mut free = Vec::new();
        while self.epochs.len() > 1 && self.epochs[0].in_flight == 0 {
            free.extend(self.epochs.pop_front().expect("there are two").ended);
            self.first += 1;
            assert!(!self.epochs.is_empty(), "there is a current epoch");
        }
        free
    }
}
