//! What a volume and its snapshots have in common: who of their readers may still read what was given back, and which disks they are on.

use std::collections::{BTreeSet, VecDeque};

use crate::location::DiskId;
use crate::pool::names::PoolVolumeId;
use crate::pool::operation::machine::{OperationId, Pool};

/// Requests that found their places between two ends of operations.
#[derive(Clone, Debug, Default)]
struct Epoch {
    /// How many are under way.
    flying: u32,
    /// Operations that ended in it: what they gave back can be read by whoever found its place by then.
    ended: Vec<OperationId>,
}

/// A volume and its snapshots, under way.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotGroup {
    /// Disks that their data can be on, and that a flush goes to.
    pub(crate) disks: BTreeSet<DiskId>,
    /// The number of the first epoch.
    first: u64,
    /// The last one is the present.
    epochs: VecDeque<Epoch>,
}

impl SnapshotGroup {
    pub(crate) fn new(pool: &Pool, id: PoolVolumeId) -> Self {
        let mut family =
            Self { disks: BTreeSet::new(), first: 0, epochs: VecDeque::from([Epoch::default()]) };
        family.look(pool, id);
        family
    }

    /// Finds its disks anew. Takes a look at each extent.
    pub(crate) fn look(&mut self, pool: &Pool, id: PoolVolumeId) {
        self.disks.clear();
        for (_, volume) in pool.state().relatives(id) {
            self.disks.extend(&volume.disks);
            self.disks.extend(volume.places().map(|place| place.disk));
        }
    }

    /// A request has found its places; returns in which epoch.
    pub(crate) fn enter(&mut self) -> u64 {
        let last = self.epochs.back_mut().expect("there is always a present");
        last.flying += 1;
        self.first + self.epochs.len() as u64 - 1
    }

    /// A request of that epoch has ended. Returns what nobody reads any more.
    pub(crate) fn leave(&mut self, epoch: u64) -> Vec<OperationId> {
        let at = usize::try_from(epoch - self.first).expect("few epochs are under way");
        self.epochs[at].flying -= 1;
        self.settle()
    }

    /// An operation that gave blocks back has ended. Returns what nobody reads any more.
    pub(crate) fn end(&mut self, ticket: OperationId) -> Vec<OperationId> {
        self.epochs.back_mut().expect("there is always a present").ended.push(ticket);
        self.epochs.push_back(Epoch::default());
        self.settle()
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.epochs.len() == 1 && self.epochs[0].flying == 0
    }

    fn settle(&mut self) -> Vec<OperationId> {
        let mut free = Vec::new();
        while self.epochs.len() > 1 && self.epochs[0].flying == 0 {
            free.extend(self.epochs.pop_front().expect("there are two").ended);
            self.first += 1;
        }
        free
    }
}
