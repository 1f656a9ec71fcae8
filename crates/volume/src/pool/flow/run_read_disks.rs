//! The disks to which the reads of a mirror go: those that keep its stream, where others do
//! without.

use std::collections::BTreeSet;

use crate::location::DiskId;
use crate::pool::flow::core::Flow;
use crate::pool::names::{BlockExtent, PoolVolumeId};

impl Flow {
    /// Reads of a mirror go to `disks` from now on, where these have a copy that can be read; with
    /// `None`, to any disk. Where there is no such volume nothing changes.
    pub fn set_read_disks(&mut self, volume: PoolVolumeId, disks: Option<BTreeSet<DiskId>>) {
        let disks = disks.filter(|_| self.pool.state().volume(volume).is_some());
        match disks {
            Some(disks) => drop(self.read_disks.insert(volume, disks)),
            None => drop(self.read_disks.remove(&volume)),
        }
        let is_there = self.pool.state().volume(volume).is_some();
        assert!(is_there || !self.read_disks.contains_key(&volume), "only volumes are read");
    }

    /// Whether each block of a mirror is read from one of the disks to which its reads go; `None`
    /// if they go to any disk. It looks at whole columns: if each copy of one lacks another block,
    /// it says no.
    pub fn is_read_there(&self, volume: PoolVolumeId) -> Option<bool> {
        let disks = self.read_disks.get(&volume)?;
        let there = self.pool.state().volume(volume).expect("only volumes are read");
        assert!(there.layout.is_mirror() || !disks.is_empty(), "it is read somewhere");
        Some(self.pool.is_readable_on(there, disks))
    }

    /// Moves the copies to which reads of a volume go to the front, and returns their number: all,
    /// if none is preferred.
    pub(crate) fn prefer(&self, volume: PoolVolumeId, copies: &mut [BlockExtent]) -> usize {
        let Some(disks) = self.read_disks.get(&volume) else { return copies.len() };
        copies.sort_by_key(|copy| !disks.contains(&copy.disk));
        let preferred = copies.partition_point(|copy| disks.contains(&copy.disk));
        debug_assert!(copies[preferred..].iter().all(|copy| !disks.contains(&copy.disk)), "sorted");
        assert!(preferred <= copies.len(), "a part of the copies");
        if preferred == 0 { copies.len() } else { preferred }
    }
}
