//! The sectors that the buffered writes of one volume hold: of each sector, the newest write.
//!
//! Invariants: parts do not overlap, none is empty, and they are kept in the order of their
//! sectors. A part is a slot; the order is a list of small entries beside the slots, so that a part
//! in the middle is inserted by moving few bytes, and nothing is allocated once the lists have
//! grown.

use units::{Extent, Instant, Lba, Sectors};

use super::interface::{DestageId, PieceId};

/// A run of sectors of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) extent: Extent,
    pub(super) piece: PieceId,
    /// Its first sector within the piece.
    pub(super) offset: Sectors,
    /// The number and the instant of the oldest write that it stands for: a part that replaces
    /// another before that reached the disk stands for it too, as a flush in between waits for the
    /// one that will be written.
    pub(super) since: Since,
    /// The write to the disk in which it is.
    pub(super) destage: Option<DestageId>,
}

/// The number of a write in the order of a volume's writes, and when it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since {
    pub(super) number: u64,
    pub(super) at: Instant,
}

impl Part {
    /// The part of it within `extent`, which it overlaps.
    fn clip(&self, extent: Extent) -> Self {
        let start = self.extent.start.max(extent.start);
        let end = self.extent.end().min(extent.end());
        debug_assert!(start < end, "the extents overlap");
        let offset = self.offset + self.extent.start.distance(start);
        Self { extent: Extent::new(start, start.distance(end)), offset, ..*self }
    }

    /// The part of it from `start` on.
    fn from(&self, start: Lba) -> Self {
        self.clip(Extent::new(start, start.distance(self.extent.end())))
    }

    /// The part of it before `end`.
    fn until(&self, end: Lba) -> Self {
        self.clip(Extent::new(self.extent.start, self.extent.start.distance(end)))
    }
}

/// Whether two extents have a sector in common.
pub(super) fn overlap(one: Extent, other: Extent) -> bool {
    let is_any = !one.is_empty() && !other.is_empty();
    debug_assert!(one.start <= one.end() && other.start <= other.end(), "an extent has an end");
    is_any && one.start < other.end() && other.start < one.end()
}

/// The parts of one volume.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The first sector of each part with its slot, in the order of the sectors.
    order: Vec<(Lba, u32)>,
    slots: Vec<Part>,
    free: Vec<u32>,
}

impl Parts {
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.order.len() + self.free.len(), self.slots.len(), "each slot is one");
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        debug_assert!(self.order.len() <= self.slots.len(), "a part has a slot");
        self.order.is_empty()
    }

    /// The parts from the one at this position on, in order.
    pub(super) fn from(&self, position: usize) -> impl DoubleEndedIterator<Item = &Part> {
        self.order[position..].iter().map(|(_, slot)| &self.slots[*slot as usize])
    }

    /// The part at a position.
    pub(super) fn at(&self, position: usize) -> &Part {
        let (start, slot) = self.order[position];
        let part = &self.slots[slot as usize];
        debug_assert_eq!(part.extent.start, start, "a part is where its entry says");
        part
    }

    pub(super) fn at_mut(&mut self, position: usize) -> &mut Part {
        debug_assert!(position < self.order.len(), "there is a part");
        &mut self.slots[self.order[position].1 as usize]
    }

    /// The position of the first part that ends after `lba`.
    pub(super) fn position(&self, lba: Lba) -> usize {
        let after = self.order.partition_point(|(start, _)| *start <= lba);
        debug_assert!(after <= self.order.len(), "a position is in the list");
        match after.checked_sub(1) {
            Some(before) if self.at(before).extent.end() > lba => before,
            _ => after,
        }
    }

    /// The parts that overlap `extent`, whole and in order.
    pub(super) fn overlapping(&self, extent: Extent) -> impl Iterator<Item = &Part> {
        let end = extent.end();
        self.from(self.position(extent.start)).take_while(move |part| part.extent.start < end)
    }

    /// The parts of `extent`, clipped to it and in order.
    pub(super) fn within(&self, extent: Extent) -> impl Iterator<Item = Part> {
        self.overlapping(extent).map(move |part| part.clip(extent))
    }

    /// Inserts a part where no other is.
    pub(super) fn insert(&mut self, part: Part) {
        assert!(!part.extent.is_empty(), "a part has a sector");
        let position = self.position(part.extent.start);
        debug_assert!(self.overlapping(part.extent).next().is_none(), "parts do not overlap");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(part);
            u32::try_from(self.slots.len() - 1).expect("parts are bounded")
        });
        self.slots[slot as usize] = part;
        self.order.insert(position, (part.extent.start, slot));
    }

    /// Splits the part that has a sector on either side of `lba`, if there is one.
    pub(super) fn split(&mut self, lba: Lba) {
        let position = self.position(lba);
        if position == self.order.len() || self.at(position).extent.start >= lba {
            return;
        }
        let whole = *self.at(position);
        debug_assert!(whole.extent.end() > lba, "the part ends after it");
        *self.at_mut(position) = whole.until(lba);
        self.insert(whole.from(lba));
    }

    /// Removes the parts of `extent` that `which` picks, and reports each to `removed`.
    pub(super) fn remove(
        &mut self,
        extent: Extent,
        which: impl Fn(&Part) -> bool,
        mut removed: impl FnMut(Part),
    ) {
        self.split(extent.start);
        self.split(extent.end());
        let first = self.position(extent.start);
        let Self { order, slots, free } = self;
        let end = extent.end();
        let last = first + order[first..].partition_point(|(start, _)| *start < end);
        let mut kept = first;
        for position in first..last {
            let (start, slot) = order[position];
            let part = slots[slot as usize];
            debug_assert!(part.extent.end() <= end, "the last one was split");
            if which(&part) {
                free.push(slot);
                removed(part);
            } else {
                order[kept] = (start, slot);
                kept += 1;
            }
        }
        order.drain(kept..last);
    }

    /// Checks the invariants.
    pub(super) fn invariants(&self) {
        assert_eq!(self.order.len() + self.free.len(), self.slots.len(), "each slot is one");
        for (position, part) in self.from(0).enumerate() {
            assert_eq!(self.order[position].0, part.extent.start, "an entry is its part's");
            assert!(!part.extent.is_empty(), "a part has a sector");
            if position > 0 {
                assert!(self.at(position - 1).extent.end() <= part.extent.start, "in order");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    /// The number of the write of each sector, and the sector of its piece.
    type Model = BTreeMap<u64, (u64, u64)>;

    fn sectors(part: &Part) -> impl Iterator<Item = (u64, (u64, u64))> {
        let Part { extent, offset, since, .. } = *part;
        (0..extent.len.0).map(move |at| (extent.start.0 + at, (since.number, offset.0 + at)))
    }

    proptest! {
        #[test]
        fn each_sector_is_of_its_newest_write(
            steps in vec((0_u64..64, 1_u64..24, any::<bool>()), 1..60),
        ) {
            let (mut parts, mut model) = (Parts::default(), Model::new());
            for (number, (start, len, removes)) in (0..).zip(steps) {
                let extent = Extent::new(Lba(start), Sectors(len));
                let mut removed = Model::new();
                // Every other write stays where it is removed.
                let which = |part: &Part| !removes || part.since.number.is_multiple_of(2);
                parts.remove(extent, which, |part| removed.extend(sectors(&part)));
                let gone = |at: &u64, of: &(u64, u64)| {
                    (start..start + len).contains(at) && (!removes || of.0.is_multiple_of(2))
                };
                let expected: Model = model.extract_if(.., |at, of| gone(at, of)).collect();
                prop_assert_eq!(removed, expected);
                if !removes {
                    let since = Since { number, at: Instant::ZERO };
                    let (piece, offset) = (PieceId(0), Sectors::ZERO);
                    let part = Part { extent, piece, offset, since, destage: None };
                    model.extend(sectors(&part));
                    parts.insert(part);
                }
                parts.invariants();
                let held: Model = parts.from(0).flat_map(sectors).collect();
                prop_assert_eq!(&held, &model);
                let within = Extent::new(Lba(20), Sectors(17));
                let held: Vec<Part> = parts.within(within).collect();
                let held: Model = held.iter().flat_map(sectors).collect();
                let expected: Model = model.range(20..37).map(|(at, of)| (*at, *of)).collect();
                prop_assert_eq!(held, expected);
            }
        }
    }
}
