//! The order of the pieces at a disk that touch the same 4 KiB.
//!
//! A piece waits while an older one that touches the same 4 KiB is not done and one of the two
//! writes. So a checksum is that of the last write, whichever way a disk orders its queue.
//!
//! Invariant: `waiting` pieces are not issued.

use std::collections::BTreeMap;
use std::ops::Range;

use units::Extent;

use crate::pool::sums::area::touched_sums;
use crate::pool::sums::values::{Access, SumsSerial};

/// A piece that is not done.
#[derive(Clone, Debug)]
pub(crate) struct SumsPiece {
    pub(crate) extent: Extent,
    pub(crate) access: Access,
    pub(crate) is_issued: bool,
}

impl SumsPiece {
    /// Whether it may change checksums.
    pub(crate) fn writes(&self) -> bool {
        self.access != Access::Read
    }

    pub(crate) fn sums(&self) -> Range<u64> {
        debug_assert!(!self.extent.is_empty(), "a piece has sectors");
        touched_sums(self.extent)
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        let (own, theirs) = (self.sums(), other.sums());
        debug_assert!(!own.is_empty() && !theirs.is_empty(), "both touch something");
        let overlaps = own.start < theirs.end && theirs.start < own.end;
        overlaps && (self.writes() || other.writes())
    }
}

/// The pieces that are not done, by their order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct SumsOrder<P> {
    pub(crate) pieces: BTreeMap<SumsSerial, (P, SumsPiece)>,
    serials: u64,
    /// Those that are not issued.
    waiting: usize,
}

impl<P: Copy> SumsOrder<P> {
    pub(crate) const fn new() -> Self {
        Self { pieces: BTreeMap::new(), serials: 0, waiting: 0 }
    }

    /// Takes a piece, which waits.
    pub(crate) fn insert(&mut self, id: P, (extent, access): (Extent, Access)) -> SumsSerial {
        let serial = SumsSerial(self.serials);
        self.serials += 1;
        self.waiting += 1;
        let piece = SumsPiece { extent, access, is_issued: false };
        let other = self.pieces.insert(serial, (id, piece));
        assert!(other.is_none(), "pieces are numbered in order of arrival");
        debug_assert!(self.waiting <= self.pieces.len(), "each that waits is listed");
        serial
    }

    /// A piece waits no longer.
    pub(crate) fn issue(&mut self, serial: SumsSerial) {
        let (_, piece) = self.pieces.get_mut(&serial).expect("it is listed");
        assert!(!piece.is_issued, "a piece is issued once");
        piece.is_issued = true;
        assert!(self.waiting > 0, "a piece that waits was counted");
        self.waiting -= 1;
    }

    /// A piece that was to record records nothing.
    pub(crate) fn record_nothing(&mut self, serial: SumsSerial) {
        let (_, piece) = self.pieces.get_mut(&serial).expect("it is listed");
        assert!(piece.access == Access::Record, "it was to record");
        assert!(piece.is_issued, "it has read");
        piece.access = Access::Read;
    }

    pub(crate) fn remove(&mut self, serial: SumsSerial) -> SumsPiece {
        let (_, piece) = self.pieces.remove(&serial).expect("a piece ends once");
        self.waiting -= usize::from(!piece.is_issued);
        assert!(self.waiting <= self.pieces.len(), "each that waits is listed");
        piece
    }

    pub(crate) fn has_waiting(&self) -> bool {
        debug_assert!(self.waiting <= self.pieces.len(), "each that waits is listed");
        self.waiting > 0
    }

    /// Whether no older piece conflicts with this one.
    pub(crate) fn is_first(&self, serial: SumsSerial) -> bool {
        let (_, own) = &self.pieces[&serial];
        debug_assert!(!own.is_issued, "it waits");
        !self.pieces.range(..serial).any(|(_, (_, other))| own.conflicts_with(other))
    }

    pub(crate) fn waiting(&self) -> Vec<SumsSerial> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let waits = self.pieces.iter().filter(|(_, (_, piece))| !piece.is_issued);
        let waiting: Vec<SumsSerial> = waits.map(|(serial, _)| *serial).collect();
        debug_assert_eq!(waiting.len(), self.waiting, "they are counted");
        waiting
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Sectors};

    use super::*;

    #[test]
    fn a_read_waits_for_a_write_to_the_same_4_kib_and_for_no_other() {
        let mut order = SumsOrder::new();
        let piece = |start, access| {
            let extent = Extent::new(Lba(start), Sectors(1));
            (extent, access)
        };
        let write = order.insert(1, piece(0, Access::Erase));
        let same = order.insert(2, piece(7, Access::Read));
        let again = order.insert(3, piece(1, Access::Read));
        let other = order.insert(4, piece(8, Access::Read));
        let firsts = [write, same, again, other].map(|serial| order.is_first(serial));
        assert_eq!(firsts, [true, false, false, true]);
        order.issue(write);
        order.remove(write);
        assert!(order.is_first(same) && order.is_first(again), "reads do not wait for reads");
    }
}
