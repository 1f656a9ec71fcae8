//! Volumes of one extent: the free space of single disks, and the map of a volume.
//!
//! A [`FreeSpace`] tracks the free sectors of disks; a [`VolumeMap`] gives the location of one
//! volume's sectors. Such a volume is one extent on one disk: where it is claimed, or in the first
//! gap that is large enough. The map is a list of extents, and its users do not depend on their
//! number.
//!
//! Invariants: no sector of a disk belongs to two volumes; a map's extents cover its volume without
//! gaps, in the volume's order.

use core::fmt;
use std::collections::BTreeMap;

use units::{Extent, Lba, Sectors};

use crate::location::{DiskExtent, DiskId};

/// No gap of the disk is large enough. Cure: a smaller volume, or another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// The disk's free sectors.
    pub free: Sectors,
    /// Its largest gap.
    pub largest_gap: Sectors,
}

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, gap) = (self.free.bytes(), self.largest_gap.bytes());
        write!(f, "the disk has {left} left, {gap} of it in one piece")
    }
}

impl std::error::Error for NoSpace {}

/// The free space of some disks.
#[derive(Clone, Debug)]
pub struct FreeSpace {
    disks: Vec<DiskSpace>,
}

#[derive(Clone, Debug)]
struct DiskSpace {
    capacity: Sectors,
    /// Allocated extents: start, and end.
    taken: BTreeMap<Lba, Lba>,
}

impl DiskSpace {
    /// The gaps, in the order of the disk.
    fn gaps(&self) -> impl Iterator<Item = Extent> {
        let end = Lba(0) + self.capacity;
        let starts = std::iter::once(Lba(0)).chain(self.taken.values().copied());
        let ends = self.taken.keys().copied().chain(std::iter::once(end));
        let gap = |(start, end): (Lba, Lba)| Extent::new(start, end.distance(start));
        starts.zip(ends).map(gap).filter(|gap| !gap.is_empty())
    }
}

/// Where the sectors of one volume lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMap {
    /// Each with the volume's sector at which it begins.
    pieces: Vec<(Lba, DiskExtent)>,
    size: Sectors,
}

impl FreeSpace {
    /// Empty disks of these capacities.
    pub fn new(capacities: impl IntoIterator<Item = Sectors>) -> Self {
        let empty = |capacity| DiskSpace { capacity, taken: BTreeMap::new() };
        Self { disks: capacities.into_iter().map(empty).collect() }
    }

    /// Allocates `size` sectors of `disk`: the beginning of the first gap that is large enough.
    ///
    /// # Errors
    /// See [`NoSpace`]; nothing is changed then.
    ///
    /// # Panics
    /// On an unknown disk, or a size of zero.
    pub fn allocate(&mut self, disk: DiskId, size: Sectors) -> Result<DiskExtent, NoSpace> {
        assert!(size > Sectors::ZERO, "a volume has a size");
        let gap = self.disks[disk.0 as usize].gaps().find(|gap| gap.len >= size);
        let gap = gap.ok_or_else(|| self.free(disk))?;
        let before = self.free(disk).free;
        let placed = DiskExtent { disk, extent: gap.split_at(size).0 };
        self.take(placed);
        assert_eq!(placed.extent.len, size, "as many sectors as were asked for");
        assert_eq!(self.free(disk).free + size, before, "they are no longer free");
        Ok(placed)
    }

    /// Allocates these sectors; returns whether they were free. If not, nothing is changed.
    ///
    /// # Panics
    /// On an unknown disk, or an empty extent.
    pub fn claim(&mut self, placed: DiskExtent) -> bool {
        assert!(!placed.extent.is_empty(), "a volume has a size");
        let free = self.disks[placed.disk.0 as usize].gaps().any(|gap| gap.contains(placed.extent));
        if free {
            self.take(placed);
        }
        free
    }

    /// The disk's free sectors, and its largest gap.
    ///
    /// # Panics
    /// On an unknown disk.
    pub fn free(&self, disk: DiskId) -> NoSpace {
        let gaps = || self.disks[disk.0 as usize].gaps().map(|gap| gap.len);
        let free = Sectors(gaps().map(|gap| gap.0).sum());
        assert!(free <= self.disks[disk.0 as usize].capacity, "free is a part");
        NoSpace { free, largest_gap: gaps().max().unwrap_or(Sectors::ZERO) }
    }

    fn take(&mut self, placed: DiskExtent) {
        let Extent { start, .. } = placed.extent;
        let space = &mut self.disks[placed.disk.0 as usize];
        assert!(placed.extent.end().0 <= space.capacity.0, "within the disk");
        let before = space.taken.insert(start, placed.extent.end());
        assert!(before.is_none(), "no sector belongs to two volumes");
    }
}

impl VolumeMap {
    /// The map of a volume of this one extent.
    pub fn new(placed: DiskExtent) -> Self {
        assert!(!placed.extent.is_empty(), "a volume has a size");
        Self { pieces: vec![(Lba(0), placed)], size: placed.extent.len }
    }

    /// The volume's size.
    pub fn size(&self) -> Sectors {
        self.size
    }

    /// The volume's extents, in the order of its sectors.
    pub fn pieces(&self) -> impl Iterator<Item = DiskExtent> {
        self.pieces.iter().map(|(_, placed)| *placed)
    }

    /// Where `extent` of the volume lies, in the order of its sectors. Takes O(log extents) to
    /// begin.
    ///
    /// # Panics
    /// If it passes the volume's end, which the caller checks.
    pub fn map(&self, extent: Extent) -> impl Iterator<Item = DiskExtent> {
        assert!(
            Extent::new(Lba(0), self.size).contains(extent),
            "{extent} passes the volume's end"
        );
        let first = self.pieces.partition_point(|(start, _)| *start <= extent.start) - 1;
        let mut rest = extent;
        self.pieces[first..].iter().map_while(move |(start, placed)| {
            if rest.is_empty() {
                return None;
            }
            let skipped = rest.start.distance(*start);
            let (_, tail) = placed.extent.split_at(skipped);
            let (piece, _) = tail.split_at(rest.len);
            assert!(!piece.is_empty(), "extents cover the volume without gaps");
            assert!(placed.extent.contains(piece), "a part of the volume's extent");
            rest = rest.split_at(piece.len).1;
            Some(DiskExtent { disk: placed.disk, extent: piece })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    const DISK: DiskId = DiskId(0);

    #[test]
    fn volumes_never_share_a_sector_and_a_full_disk_says_what_is_left() {
        let mut space = FreeSpace::new([Sectors(100), Sectors(50)]);
        let first = space.allocate(DISK, Sectors(60)).expect("fits");
        let second = space.allocate(DISK, Sectors(30)).expect("fits");
        let refusal = space.allocate(DISK, Sectors(11)).expect_err("10 are left");
        assert_eq!(refusal, NoSpace { free: Sectors(10), largest_gap: Sectors(10) });
        space.allocate(DISK, Sectors(10)).expect("a refusal takes nothing");
        assert_eq!(first.extent.end(), second.extent.start);
    }

    #[test]
    fn a_gap_between_volumes_is_filled_and_one_that_is_too_small_is_told() {
        let mut space = FreeSpace::new([Sectors(100)]);
        assert!(space.claim(DiskExtent { disk: DISK, extent: extent(20, 30) }));
        assert!(
            !space.claim(DiskExtent { disk: DISK, extent: extent(49, 5) }),
            "a sector is taken"
        );
        assert!(
            !space.claim(DiskExtent { disk: DISK, extent: extent(90, 11) }),
            "the disk has an end"
        );
        let refusal = space.allocate(DISK, Sectors(51)).expect_err("not in one piece");
        assert_eq!(refusal, NoSpace { free: Sectors(70), largest_gap: Sectors(50) });
        let placed = space.allocate(DISK, Sectors(20)).expect("the gap holds it");
        assert_eq!(placed.extent, extent(0, 20));
    }

    #[test]
    fn a_request_that_crosses_pieces_is_cut_at_their_edges() {
        let map = VolumeMap {
            pieces: vec![
                (Lba(0), DiskExtent { disk: DiskId(0), extent: extent(100, 8) }),
                (Lba(8), DiskExtent { disk: DiskId(1), extent: extent(0, 8) }),
                (Lba(16), DiskExtent { disk: DiskId(0), extent: extent(500, 8) }),
            ],
            size: Sectors(24),
        };
        let places: Vec<_> = map.map(extent(6, 12)).collect();
        let expected = [
            DiskExtent { disk: DiskId(0), extent: extent(106, 2) },
            DiskExtent { disk: DiskId(1), extent: extent(0, 8) },
            DiskExtent { disk: DiskId(0), extent: extent(500, 2) },
        ];
        assert_eq!(places, expected);
        assert_eq!(map.map(extent(8, 1)).count(), 1);
    }

    #[test]
    #[should_panic(expected = "passes the volume's end")]
    fn a_request_past_the_end_was_to_be_refused_at_the_edge() {
        let map = VolumeMap::new(DiskExtent { disk: DISK, extent: extent(0, 60) });
        let _ = map.map(extent(59, 2)).count();
    }
}
