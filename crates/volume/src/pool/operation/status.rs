//! How full a pool is, and whether a write can be issued.

use units::Extent;

use crate::location::DiskId;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, Layout, PoolVolumeId, VolumeBlock, Zone};
use crate::pool::operation::kinds::Lock;
use crate::pool::operation::machine::Pool;
use crate::pool::state::extent_map::Mapping;
use crate::pool::state::volume::Volume;

/// The allocation of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Blocks that can be allocated.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Unallocated blocks of thin volumes: what they can still ask for.
    pub promised: u64,
    /// Whether the alarm level is reached: an operator should free or add space.
    pub alarm: bool,
}

/// What a write to some sectors waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writability {
    /// Nothing: every sector is allocated and unshared.
    Now,
    /// [`Operation::Allocate`](super::kinds::Operation::Allocate) of these blocks.
    Allocate {
        /// The first.
        first: VolumeBlock,
        /// How many.
        count: Blocks,
    },
    /// An operation that has locked some of the blocks.
    Wait,
}

/// Whether blocks of a volume are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// It alone has them.
    Own,
    /// Others of its group have some of them too.
    Shared,
    /// An operation that is not released holds some of them.
    Left,
}

impl Pool {
    /// Whether an operation holds a lock that conflicts with `lock`.
    pub(crate) fn is_locked(&self, lock: &Lock) -> bool {
        self.pending.values().flat_map(|one| &one.locks).any(|held| held.conflicts_with(lock))
    }

    /// How full the pool is.
    pub fn status(&self) -> Status {
        let blocks: u64 = self
            .allocators
            .values()
            .map(|space| u64::from(space.data().end - space.data().start))
            .sum();
        let free: u64 = self.allocators.values().map(|space| u64::from(space.free_blocks())).sum();
        let thin =
            self.state.volumes.values().filter(|volume| volume.thin && volume.origin.is_none());
        let rest = |volume: &Volume| {
            u64::from(volume.size.0 - volume.mapped().0) * volume.layout.copies() as u64
        };
        let promised = thin.map(rest).sum();
        assert!(free <= blocks, "free is a part");
        let alarm = (blocks - free) * 100 >= blocks * u64::from(self.state.alarm);
        Status { blocks, free, promised, alarm }
    }

    /// A disk's blocks that can be allocated, and the free ones among them.
    ///
    /// # Panics
    /// On a disk that the pool does not have.
    pub fn free(&self, disk: DiskId) -> (Blocks, Blocks) {
        let space = &self.allocators[&disk];
        assert!(space.free_blocks() <= space.data().end - space.data().start, "free is a part");
        (Blocks(space.data().end - space.data().start), Blocks(space.free_blocks()))
    }

    /// The free blocks of a zone of a disk; none on a disk that the pool does not have.
    pub fn free_in(&self, disk: DiskId, zone: Zone) -> Blocks {
        Blocks(self.allocators.get(&disk).map_or(0, |space| space.left(zone)))
    }

    /// The size of the largest volume that could be created with this placement, were it not thin.
    pub fn size_max(&self, layout: Layout, zone: Zone, disks: &[DiskId]) -> Blocks {
        assert!(!disks.is_empty(), "a volume has disks");
        let left = disks.iter().map(|disk| self.free_in(*disk, zone).0);
        Blocks(match layout {
            Layout::Stripe => {
                let width = u32::try_from(disks.len()).expect("few disks");
                left.min().unwrap_or(0).saturating_mul(width)
            }
            // Each disk has all blocks, or as many columns as there are copies.
            Layout::Mirror(_) if layout.width(disks.len()) == 1 => left.min().unwrap_or(0),
            Layout::Mirror(copies) => {
                let width = u32::try_from(disks.len()).expect("few disks");
                let copies = u32::from(copies.code());
                (left.min().unwrap_or(0) / copies).saturating_mul(width)
            }
            Layout::Single | Layout::Random => left.fold(0, u32::saturating_add),
        })
    }

    /// What a write to a mapping of a volume waits for.
    fn writable_run(&self, id: PoolVolumeId, column: usize, run: Mapping) -> Ownership {
        debug_assert!(run.place.len > 0, "a mapping has rows");
        // Blocks with one reference are the volume's own: that test needs no search of the group.
        if !self.state.may_share(id) || self.allocators[&run.disk()].is_alone(run.place) {
            return Ownership::Own;
        }
        if !self.shared(id, column, run).is_empty() {
            return Ownership::Shared;
        }
        // Another volume has just left them, and requests may still read them for it.
        Ownership::Left
    }

    /// What a write to `extent` of a volume waits for. Takes O(log extents) if that is nothing.
    ///
    /// # Panics
    /// If the volume does not exist or is a snapshot, or `extent` passes its end, which the caller
    /// checks.
    pub fn writable(&self, id: PoolVolumeId, extent: Extent) -> Writability {
        let volume = &self.state.volumes[&id];
        assert!(volume.origin.is_none(), "a snapshot is only read");
        let first = extent.start.0 / BLOCK_SECTORS.0;
        let end = (extent.start.0 + extent.len.0).div_ceil(BLOCK_SECTORS.0);
        let block = |number: u64| u32::try_from(number).expect("within the volume");
        let (first, end) = (block(first), block(end));
        assert!(end <= volume.size.0, "{extent} passes the volume's end");
        if self.is_locked(&Lock::Blocks(self.state.group_of(id), first..end)) {
            return Writability::Wait;
        }
        let (mut own, mut left) = (true, false);
        for (column, map) in volume.columns.iter().enumerate() {
            let rows = volume.rows(column, first, end - first);
            let mut at = rows.start;
            for run in map.within(rows.start, rows.end - rows.start) {
                let ownership = self.writable_run(id, column, run);
                own &= run.row == at && ownership != Ownership::Shared;
                left |= ownership == Ownership::Left;
                at = run.end();
            }
            assert!(at <= rows.end, "mappings are cut to the rows");
            own &= at == rows.end;
        }
        if left {
            return Writability::Wait;
        }
        if own {
            return Writability::Now;
        }
        assert!(first < end, "blocks are to be allocated");
        Writability::Allocate { first: VolumeBlock(first), count: Blocks(end - first) }
    }
}
