//! The copy that a read of a mirror goes to: the one that costs least now.
//!
//! A cost is disk time, in the sectors that the disk could transfer in it. That of a copy is the
//! cost of what is in flight at its disk, plus that of the read itself: its length, and the
//! distance from the last request of the same volume on that disk, up to what a seek costs. So one
//! client that reads in order stays on one disk until that disk has more in flight than the others
//! by the cost of a seek.
//!
//! Each part of a volume has a home, one of its copies. While several requests are in flight at
//! every disk, a read goes home unless half as much again is in flight there as elsewhere: each
//! disk seeks over its part of the volume, and finds as many requests there as one disk with all of
//! them would.

use std::collections::BTreeMap;

use units::{Extent, Lba, Sectors};

use crate::location::DiskId;
use crate::pool::flow::request::Located;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{BlockExtent, Blocks, VolumeBlock};

/// The most that positioning costs: 4 MiB, which a hard disk transfers in the time of a long seek
/// and most of a revolution. On flash it is too much, and sets only how many requests in order go
/// to one disk before the other has its turn.
pub(crate) const POSITIONING_MAX: Sectors = Sectors(4 * BLOCK_SECTORS.0);

/// What may be in flight at the disk of the home copy, as a part of what is at another's, before
/// the other is read.
const HOME_QUEUE: (u64, u64) = (3, 2);

/// The cost of a command on a disk on which the last one of the same volume ended at `last`.
pub(crate) fn cost(last: Option<Lba>, extent: Extent) -> Sectors {
    let distance = last.map_or(POSITIONING_MAX, |last| last.distance(extent.start));
    distance.min(POSITIONING_MAX) + extent.len
}

/// The cost of what is in flight, by disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightCosts {
    by_disk: BTreeMap<DiskId, Sectors>,
}

impl InFlightCosts {
    pub(crate) fn of(&self, disk: DiskId) -> Sectors {
        self.by_disk.get(&disk).copied().unwrap_or(Sectors::ZERO)
    }

    pub(crate) fn add(&mut self, disk: DiskId, cost: Sectors) {
        *self.by_disk.entry(disk).or_insert(Sectors::ZERO) += cost;
    }

    pub(crate) fn remove(&mut self, disk: DiskId, cost: Sectors) {
        let sum = self.by_disk.get_mut(&disk).expect("something was in flight");
        assert!(*sum >= cost, "what ends was in flight");
        sum.0 -= cost.0;
    }

    /// Forgets a disk that has left the pool.
    pub(crate) fn forget(&mut self, disk: DiskId) {
        let left = self.by_disk.remove(&disk);
        assert!(left.is_none_or(|cost| cost == Sectors::ZERO), "nothing is in flight at it");
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = DiskId> + '_ {
        self.by_disk.keys().copied()
    }
}

/// The copy, of `copies` ones, that is the home of a block: each has an equal part of the volume.
pub(crate) fn home(copies: usize, block: VolumeBlock, size: Blocks) -> usize {
    assert!(block.0 < size.0, "a block of the volume");
    let home = u64::from(block.0) * copies as u64 / u64::from(size.0);
    let home = usize::try_from(home).expect("fewer than copies");
    assert!(home < copies, "the home is one of the copies");
    home
}

/// The position in `copies` of the copy that costs least, where `skip` and `len` are the part of it
/// that is read, behind the pieces of the same request that are `located` already. `last` is where
/// the last request of the volume ended on each disk. Among equals it is the one whose disk is
/// nearest, where a disk without a last request counts as near, and then the one at `home`.
///
/// # Panics
/// If there is no copy.
pub(crate) fn cheapest(
    copies: &[BlockExtent],
    part: (Sectors, Sectors),
    (costs, last): (&InFlightCosts, &BTreeMap<DiskId, Lba>),
    located: &[Located],
    home: usize,
) -> usize {
    let count = copies.len();
    let key = |index: &usize| {
        let copy = copies[*index];
        let (mut sum, mut at) = (costs.of(copy.disk), last.get(&copy.disk).copied());
        for piece in located.iter().filter(|piece| piece.disk == copy.disk) {
            sum += cost(at, piece.extent);
            at = Some(piece.extent.end());
        }
        let (skip, len) = part;
        let extent = copy.extent().split_at(skip).1.split_at(len).0;
        let distance = at.map_or(Sectors::ZERO, |at| at.distance(extent.start));
        let away = (*index + count - home % count) % count;
        let queue = if away == 0 { sum.0 } else { sum.0 * HOME_QUEUE.0 / HOME_QUEUE.1 };
        (Sectors(queue) + cost(at, extent), distance, away)
    };
    (0..count).min_by_key(key).expect("there is a copy")
}
