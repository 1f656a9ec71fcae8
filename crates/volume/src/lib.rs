//! Where a volume's sectors lie on the disks of a pool. Sans-IO.
//!
//! A [`Pool`] hands out space; a [`Map`] says where the sectors of one volume went. Today a volume is one run
//! of sectors on one disk, given out in the order of asking from the disk's beginning: the same config gives
//! the same places, so the data of a disk with a backing file is found again. A map is a list of pieces all the
//! same, and nothing above it knows how many there are.
//!
//! Invariants: no sector of a disk belongs to two volumes; a map's pieces cover its volume without gaps, in
//! the volume's order.

use core::fmt;

use units::{Extent, Lba, Sectors};

/// A disk of the pool: its number in the order of [`Pool::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u32);

/// A run of sectors on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which disk.
    pub disk: DiskId,
    /// Where on it.
    pub extent: Extent,
}

/// The disk has too little space left. Cure: a smaller volume, or another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// What the disk has left.
    pub left: Sectors,
}

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the disk has {} left", self.left.bytes())
    }
}

impl std::error::Error for NoSpace {}

/// The space of some disks, and how much of it is given out.
#[derive(Clone, Debug)]
pub struct Pool {
    disks: Vec<Space>,
}

#[derive(Clone, Copy, Debug)]
struct Space {
    capacity: Sectors,
    used: Sectors,
}

/// Where the sectors of one volume lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// With the volume's sector at which each begins.
    pieces: Vec<(Lba, Placed)>,
    size: Sectors,
}

impl Pool {
    /// A pool of empty disks.
    pub fn new(capacities: impl IntoIterator<Item = Sectors>) -> Self {
        let empty = |capacity| Space { capacity, used: Sectors::ZERO };
        Self { disks: capacities.into_iter().map(empty).collect() }
    }

    /// Gives `size` sectors of `disk` to a volume.
    ///
    /// # Errors
    /// See [`NoSpace`]; nothing is changed then.
    ///
    /// # Panics
    /// On a disk that the pool does not have, or a size of nothing.
    pub fn allocate(&mut self, disk: DiskId, size: Sectors) -> Result<Map, NoSpace> {
        assert!(size > Sectors::ZERO, "a volume has a size");
        let space = &mut self.disks[disk.0 as usize];
        let left = space.capacity - space.used;
        if size > left {
            return Err(NoSpace { left });
        }
        let extent = Extent::new(Lba(0) + space.used, size);
        space.used += size;
        Ok(Map { pieces: vec![(Lba(0), Placed { disk, extent })], size })
    }
}

impl Map {
    /// The volume's size.
    pub fn size(&self) -> Sectors {
        self.size
    }

    /// The disks that the volume touches, in the order of its sectors.
    pub fn pieces(&self) -> impl Iterator<Item = Placed> {
        self.pieces.iter().map(|(_, placed)| *placed)
    }

    /// Where `extent` of the volume lies, in the order of its sectors. Takes O(log pieces) to begin.
    ///
    /// # Panics
    /// If it passes the volume's end: it was to be refused at the edge.
    pub fn map(&self, extent: Extent) -> impl Iterator<Item = Placed> {
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
            rest = rest.split_at(piece.len).1;
            Some(Placed { disk: placed.disk, extent: piece })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    #[test]
    fn volumes_never_share_a_sector_and_a_full_disk_says_what_is_left() {
        let mut pool = Pool::new([Sectors(100), Sectors(50)]);
        let first = pool.allocate(DiskId(0), Sectors(60)).expect("fits");
        let second = pool.allocate(DiskId(0), Sectors(30)).expect("fits");
        let refusal = pool.allocate(DiskId(0), Sectors(11)).expect_err("10 are left");
        assert_eq!(refusal, NoSpace { left: Sectors(10) });
        pool.allocate(DiskId(0), Sectors(10)).expect("a refusal takes nothing");
        let places: Vec<_> = first.pieces().chain(second.pieces()).collect();
        assert_eq!(places[0].extent.end(), places[1].extent.start);
    }

    #[test]
    fn a_request_that_crosses_pieces_is_cut_at_their_edges() {
        let map = Map {
            pieces: vec![
                (Lba(0), Placed { disk: DiskId(0), extent: extent(100, 8) }),
                (Lba(8), Placed { disk: DiskId(1), extent: extent(0, 8) }),
                (Lba(16), Placed { disk: DiskId(0), extent: extent(500, 8) }),
            ],
            size: Sectors(24),
        };
        let places: Vec<_> = map.map(extent(6, 12)).collect();
        let expected = [
            Placed { disk: DiskId(0), extent: extent(106, 2) },
            Placed { disk: DiskId(1), extent: extent(0, 8) },
            Placed { disk: DiskId(0), extent: extent(500, 2) },
        ];
        assert_eq!(places, expected);
        assert_eq!(map.map(extent(8, 1)).count(), 1);
    }

    #[test]
    #[should_panic(expected = "passes the volume's end")]
    fn a_request_past_the_end_was_to_be_refused_at_the_edge() {
        let mut pool = Pool::new([Sectors(100)]);
        let map = pool.allocate(DiskId(0), Sectors(60)).expect("fits");
        let _ = map.map(extent(59, 2)).count();
    }
}
