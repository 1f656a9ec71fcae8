//! What a pool says of itself, and of a request before it goes to the disks.

use units::Extent;

use crate::location::DiskId;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Lock;
use crate::pool::operation::machine::Pool;
use crate::pool::state::extent_map::Mapping;

/// How full a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Blocks that can belong to volumes.
    pub blocks: u64,
    /// Blocks that belong to none.
    pub free: u64,
    /// Blocks that thin volumes may yet ask for, as far as their sizes go.
    pub promised: u64,
    /// Whether so many are in use that somebody should look.
    pub alarm: bool,
}

/// What a write to some sectors waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writability {
    /// Nothing: every sector has a place of its own.
    Now,
    /// [`Operation::Allocate`](super::Operation::Allocate) of these blocks.
    Allocate {
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// An operation that has some of the blocks for itself.
    Wait,
}

impl Pool {
    /// How full it is.
    pub fn status(&self) -> Status {
        let blocks: u64 = self
            .spaces
            .values()
            .map(|space| u64::from(space.data().end - space.data().start))
            .sum();
        let free: u64 = self.spaces.values().map(|space| u64::from(space.free_blocks())).sum();
        let thin =
            self.state.volumes.values().filter(|volume| volume.thin && volume.origin.is_none());
        let promised = thin.map(|volume| u64::from(volume.size.0 - volume.mapped().0)).sum();
        let alarm = (blocks - free) * 100 >= blocks * u64::from(self.state.alarm);
        Status { blocks, free, promised, alarm }
    }

    /// Blocks of a disk that can belong to volumes, and those that belong to none.
    ///
    /// # Panics
    /// On a disk that the pool does not have.
    pub fn free(&self, disk: DiskId) -> (Blocks, Blocks) {
        let space = &self.spaces[&disk];
        (Blocks(space.data().end - space.data().start), Blocks(space.free_blocks()))
    }

    /// Whether a snapshot has a part of a run of a volume at the same place.
    fn is_shared(&self, id: PoolVolumeId, column: usize, run: Mapping) -> bool {
        // What is held once is the volume's own: asking that takes no look at the snapshots.
        self.state.snapshots(id).next().is_some()
            && !self.spaces[&run.disk()].is_alone(run.place)
            && !self.shared(id, column, run).is_empty()
    }

    /// What a write to `extent` of a volume waits for. Takes O(log extents) where that is nothing.
    ///
    /// # Panics
    /// If the volume is not there or a snapshot, or `extent` passes its end: it was to be refused at the edge.
    pub fn writable(&self, id: PoolVolumeId, extent: Extent) -> Writability {
        let volume = &self.state.volumes[&id];
        assert!(volume.origin.is_none(), "a snapshot is only read");
        let first = extent.start.0 / BLOCK_SECTORS.0;
        let end = (extent.start.0 + extent.len.0).div_ceil(BLOCK_SECTORS.0);
        let block = |number: u64| u32::try_from(number).expect("within the volume");
        let (first, end) = (block(first), block(end));
        assert!(end <= volume.size.0, "{extent} passes the volume's end");
        if self.is_locked(&Lock::Blocks(self.state.family(id), first..end)) {
            return Writability::Wait;
        }
        let columns = volume.columns.iter().enumerate();
        let own = columns.into_iter().all(|(column, map)| {
            let rows = volume.rows(column, first, end - first);
            let mut at = rows.start;
            for run in map.within(rows.start, rows.end - rows.start) {
                if run.row != at || self.is_shared(id, column, run) {
                    return false;
                }
                at = run.end();
            }
            at == rows.end
        });
        if own {
            return Writability::Now;
        }
        Writability::Allocate { first: VolumeBlock(first), count: Blocks(end - first) }
    }
}
