//! The block allocator of a disk: reference counts and free runs.
//!
//! A step function over the disk's blocks gives the number of maps and operations that hold each;
//! blocks with none are free. Both are stored as runs, so that an empty disk of 100 TB and a full
//! one cost the same.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::limits::GAPS_SEEN_MAX;
use crate::pool::names::{BlockExtent, Percent, Zone};
use crate::pool::state::metadata::State;
use crate::pool::state::volume::Disk;

/// A zone of a disk has too few free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFew {
    pub(crate) left: u32,
}

/// The allocator of one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockAllocator {
    disk: DiskId,
    /// The blocks that can be allocated.
    data: Range<u32>,
    /// The first block of the slow zone.
    fast_end: u32,
    /// The end of what is allocated: that of the data, unless the rest is to be vacated.
    limit: u32,
    /// The step function: from each key to the next, the reference count.
    refs: BTreeMap<u32, u32>,
    /// Free runs: first block, and length.
    free: BTreeMap<u32, u32>,
    free_blocks: u32,
}

impl BlockAllocator {
    pub(crate) fn new(disk: DiskId, data: Range<u32>, fast_end: u32) -> Self {
        assert!(data.start < data.end, "a disk has blocks to allocate");
        assert!(data.start <= fast_end, "the fast zone begins with the data");
        assert!(fast_end <= data.end, "the fast zone ends within the data");
        let free_blocks = data.end - data.start;
        let free = BTreeMap::from([(data.start, free_blocks)]);
        let (refs, limit) = (BTreeMap::from([(data.start, 0)]), data.end);
        Self { disk, data, fast_end, limit, refs, free, free_blocks }
    }

    /// The allocator of a disk on which these extents are held, each once per occurrence. They lie
    /// within the disk.
    pub(crate) fn build(
        disk: DiskId,
        data: Range<u32>,
        fast_end: u32,
        held: &[BlockExtent],
    ) -> Self {
        assert!(data.start < data.end, "a disk has blocks to allocate");
        assert!((data.start..=data.end).contains(&fast_end), "the zones divide the data");
        assert!(held.iter().all(|place| place.disk == disk), "extents of this disk");
        assert!(held.iter().all(|place| place.len > 0), "extents with blocks");
        let mut starts: Vec<u32> = held.iter().map(|place| place.block).collect();
        let mut ends: Vec<u32> = held.iter().map(|place| place.end()).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let mut steps = vec![(data.start, 0)];
        let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
        let mut refs = 0_u32;
        while let Some(at) =
            ends.peek().map(|end| starts.peek().map_or(*end, |start| *start.min(end)))
        {
            while starts.next_if_eq(&at).is_some() {
                refs += 1;
            }
            while ends.next_if_eq(&at).is_some() {
                refs -= 1;
            }
            let last = steps.last_mut().expect("the first is there");
            if last.0 == at {
                last.1 = refs;
            } else if last.1 != refs {
                steps.push((at, refs));
            }
        }
        assert_eq!(refs, 0, "every extent ends");
        if steps.last().is_some_and(|(at, _)| *at == data.end) {
            steps.pop();
        }
        let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([data.end]);
        let runs = steps.iter().zip(ends).filter(|((_, refs), _)| *refs == 0);
        let free: BTreeMap<u32, u32> = runs.map(|((at, _), end)| (*at, end - at)).collect();
        let free_blocks = free.values().sum();
        assert!(free_blocks <= data.end - data.start, "no more is free than there is");
        let (refs, limit) = (steps.into_iter().collect(), data.end);
        Self { disk, data, fast_end, limit, refs, free, free_blocks }
    }

    /// The end of what is allocated.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Allocates nothing from block `limit` on, from here on.
    pub(crate) fn limit_to(&mut self, limit: u32) {
        assert!(self.data.start < limit, "a block can be allocated");
        assert!(limit <= self.data.end, "a limit within the data");
        self.limit = limit;
    }

    /// The number of blocks from block `from` on that are not free.
    pub(crate) fn used_from(&self, from: u32) -> u32 {
        assert!(self.data.contains(&from) || from == self.data.end, "a block of the data");
        let free: u32 = self.gaps(from..self.data.end).map(|gap| gap.len).sum();
        assert!(free <= self.data.end - from, "no more is free than there is");
        self.data.end - from - free
    }

    /// Forgets the blocks from block `end` on, which are free.
    pub(crate) fn shrink(&mut self, end: u32) {
        assert!(self.data.start < end, "a block is left");
        assert_eq!(self.used_from(end), 0, "what is forgotten is free");
        if end == self.data.end {
            return;
        }
        let (start, len) = self.free.pop_last().expect("the last blocks are free");
        assert_eq!(start + len, self.data.end, "the last blocks are free");
        if start < end {
            self.free.insert(start, end - start);
        }
        self.free_blocks -= self.data.end - end;
        drop(self.refs.split_off(&end));
        (self.data.end, self.limit) = (end, self.limit.min(end));
        self.fast_end = self.fast_end.min(end);
        if cfg!(debug_assertions) {
            self.invariants();
        }
    }

    pub(crate) fn data(&self) -> Range<u32> {
        self.data.clone()
    }

    pub(crate) fn free_blocks(&self) -> u32 {
        self.free_blocks
    }

    /// The ranges of a zone, in the order in which they are filled.
    pub(crate) fn parts(&self, zone: Zone) -> Vec<Range<u32>> {
        let edge = self.fast_end.min(self.limit);
        let (fast, slow) = (self.data.start..edge, edge..self.limit);
        match zone {
            Zone::Fast => vec![fast],
            Zone::Slow => vec![slow],
            Zone::Any => vec![slow, fast],
            Zone::Fastest(part) => vec![self.fastest(part)],
        }
    }

    /// The blocks of the first part of the disk, whose last block holds a label.
    fn fastest(&self, part: Percent) -> Range<u32> {
        let end = part.end(self.limit + 1).clamp(self.data.start, self.limit);
        assert!(self.data.start <= end, "the part begins with the data");
        assert!(end <= self.limit, "the part ends within the data");
        self.data.start..end
    }

    /// The number of free blocks of a zone.
    pub(crate) fn left(&self, zone: Zone) -> u32 {
        self.parts(zone).into_iter().flat_map(|part| self.gaps(part)).map(|gap| gap.len).sum()
    }

    /// The reference count of `block`.
    pub(crate) fn refs(&self, block: u32) -> u32 {
        assert!(block <= self.data.end, "a block of the disk");
        let step = self.refs.range(..=block).next_back();
        *step.expect("the disk's first block is a step").1
    }

    /// Whether every block of `place` has exactly one reference.
    pub(crate) fn is_alone(&self, place: BlockExtent) -> bool {
        assert!(place.disk == self.disk, "an extent of this disk");
        assert!(place.len > 0, "an extent with blocks");
        self.refs(place.block) == 1
            && self.refs.range(place.block..place.end()).all(|(_, refs)| *refs == 1)
    }

    /// The free runs within `part`, in the order of the disk.
    fn gaps(&self, part: Range<u32>) -> impl Iterator<Item = BlockExtent> + '_ {
        let first = self.free.range(..part.start).next_back();
        let gaps = first.into_iter().chain(self.free.range(part.clone()));
        gaps.filter_map(move |(start, len)| {
            let (begin, end) = ((*start).max(part.start), (start + len).min(part.end));
            let gap = BlockExtent { disk: self.disk, block: begin, len: end.saturating_sub(begin) };
            (begin < end).then_some(gap)
        })
    }

    /// Free blocks for a run of `count`: at `near` if free there, else the first gap of the zone
    /// that is large enough, else the first gaps. They are not held yet.
    pub(crate) fn find(
        &self,
        zone: Zone,
        count: u32,
        near: Option<u32>,
    ) -> Result<Vec<BlockExtent>, TooFew> {
        assert!(count > 0, "blocks are asked for");
        let parts = self.parts(zone);
        if let Some(near) = near
            && let Some(part) = parts.iter().find(|part| part.contains(&near))
            && let Some(gap) = self.gaps(near..part.end).next()
            && gap.block == near
            && gap.len >= count
        {
            return Ok(vec![BlockExtent { len: count, ..gap }]);
        }
        for part in &parts {
            let whole = self.gaps(part.clone()).take(GAPS_SEEN_MAX).find(|gap| gap.len >= count);
            if let Some(gap) = whole {
                return Ok(vec![BlockExtent { len: count, ..gap }]);
            }
        }
        let mut rest = count;
        let mut found = Vec::new();
        for gap in parts.into_iter().flat_map(|part| self.gaps(part)) {
            let len = gap.len.min(rest);
            found.push(BlockExtent { len, ..gap });
            rest -= len;
            if rest == 0 {
                let sum: u32 = found.iter().map(|place| place.len).sum();
                assert_eq!(sum, count, "as many as were asked for");
                return Ok(found);
            }
        }
        assert!(rest > 0, "what is complete was returned");
        Err(TooFew { left: count - rest })
    }

    /// The first free block of a zone at or behind offset `target`, else the first before it.
    pub(crate) fn find_at(&self, zone: Zone, target: u32) -> Option<BlockExtent> {
        let whole = match zone {
            Zone::Fast => self.data.start..self.fast_end.min(self.limit),
            Zone::Slow => self.fast_end.min(self.limit)..self.limit,
            Zone::Any => self.data.start..self.limit,
            Zone::Fastest(part) => self.fastest(part),
        };
        if whole.is_empty() {
            return None;
        }
        let at = whole.start + target % (whole.end - whole.start);
        let gap = self.gaps(at..whole.end).next().or_else(|| self.gaps(whole.start..at).next())?;
        assert!(whole.contains(&gap.block), "a block of the zone");
        assert_eq!(self.refs(gap.block), 0, "a free block");
        Some(BlockExtent { len: 1, ..gap })
    }

    /// Adds a reference to `place`.
    pub(crate) fn hold(&mut self, place: BlockExtent) {
        let before = self.free_blocks;
        self.change(place, true);
        assert!(self.free_blocks <= before, "holding frees nothing");
        assert!(self.refs(place.block) > 0, "what is held is not free");
    }

    /// Removes a reference from `place`; blocks without one are free.
    pub(crate) fn release(&mut self, place: BlockExtent) {
        let before = self.free_blocks;
        self.change(place, false);
        assert!(self.free_blocks >= before, "releasing allocates nothing");
    }

    fn change(&mut self, place: BlockExtent, up: bool) {
        let (start, end) = (place.block, place.end());
        assert!(place.disk == self.disk, "an extent of this disk");
        assert!(start < end, "an extent with blocks");
        assert!(self.data.start <= start && end <= self.data.end, "a place lies within its disk");
        self.step_at(start);
        if end < self.data.end {
            self.step_at(end);
        }
        let steps: Vec<u32> = self.refs.range(start..end).map(|(at, _)| *at).collect();
        for (n, at) in steps.iter().enumerate() {
            let until = steps.get(n + 1).copied().unwrap_or(end);
            let refs = self.refs.get_mut(at).expect("it was listed");
            if up {
                *refs += 1;
                if *refs == 1 {
                    self.occupy(*at, until);
                }
            } else {
                *refs = refs.checked_sub(1).expect("a block is released only if it is held");
                if *refs == 0 {
                    self.vacate(*at, until);
                }
            }
        }
        self.merge_at(end);
        self.merge_at(start);
        if cfg!(debug_assertions) {
            self.invariants();
        }
    }

    /// Checks the free runs against the reference counts.
    ///
    /// # Panics
    /// If they differ.
    pub(crate) fn invariants(&self) {
        let first = self.refs.first_key_value().map(|(at, _)| *at);
        assert_eq!(first, Some(self.data.start), "the first step is the first block");
        let ends = self.refs.keys().skip(1).copied().chain([self.data.end]);
        let steps: Vec<(u32, u32, u32)> =
            self.refs.iter().zip(ends).map(|((at, refs), end)| (*at, end, *refs)).collect();
        for two in steps.windows(2) {
            assert_ne!(two[0].2, two[1].2, "neighbouring steps differ");
        }
        let gaps = steps.iter().filter(|(_, _, refs)| *refs == 0);
        let free = self.free.iter().map(|(at, len)| (*at, at + len));
        assert!(gaps.map(|(at, end, _)| (*at, *end)).eq(free), "blocks without reference are free");
        let sum: u32 = self.free.values().sum();
        assert_eq!(sum, self.free_blocks, "free blocks are counted");
        assert!(sum <= self.data.end - self.data.start, "no more is free than there is");
    }

    /// Splits the step function at `block`.
    fn step_at(&mut self, block: u32) {
        let refs = self.refs(block);
        let step = *self.refs.entry(block).or_insert(refs);
        assert_eq!(step, refs, "a step changes no count");
    }

    /// Merges the steps at `block` if both have the same count.
    fn merge_at(&mut self, block: u32) {
        let before = self.refs.range(..block).next_back().map(|(_, refs)| *refs);
        if before.is_some() && before == self.refs.get(&block).copied() {
            self.refs.remove(&block);
        }
    }

    fn occupy(&mut self, start: u32, end: u32) {
        let (gap, len) = self
            .free
            .range(..=start)
            .next_back()
            .map(|(gap, len)| (*gap, *len))
            .expect("it was free");
        assert!(start < end, "blocks are occupied");
        assert!(gap <= start, "the gap begins before them");
        assert!(end <= gap + len, "the gap contains them");
        self.free.remove(&gap);
        if gap < start {
            self.free.insert(gap, start - gap);
        }
        if end < gap + len {
            self.free.insert(end, gap + len - end);
        }
        self.free_blocks -= end - start;
    }

    fn vacate(&mut self, mut start: u32, mut end: u32) {
        assert!(start < end, "blocks are vacated");
        self.free_blocks += end - start;
        if let Some((gap, len)) =
            self.free.range(..start).next_back().map(|(gap, len)| (*gap, *len))
            && gap + len == start
        {
            self.free.remove(&gap);
            start = gap;
        }
        if let Some(len) = self.free.remove(&end) {
            end += len;
        }
        let next = self.free.range(start..).next().map(|(next, _)| *next);
        assert!(next.is_none_or(|next| end < next), "free runs do not touch");
        assert!(end <= self.data.end, "free runs lie within the data");
        self.free.insert(start, end - start);
    }
}

/// Removes a reference from each of these extents.
pub(crate) fn release_blocks(
    allocators: &mut BTreeMap<DiskId, BlockAllocator>,
    places: &[BlockExtent],
) {
    for place in places {
        if let Some(space) = allocators.get_mut(&place.disk) {
            space.release(*place);
        }
    }
}

pub(crate) fn allocator_of(
    state: &State,
    id: DiskId,
    disk: &Disk,
    held: &[BlockExtent],
) -> BlockAllocator {
    if held.is_empty() {
        return BlockAllocator::new(id, state.data(disk), disk.fast_end);
    }
    BlockAllocator::build(id, state.data(disk), disk.fast_end, held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rng::SplitMix64;

    const DISK: DiskId = DiskId(0);

    fn place(block: u32, len: u32) -> BlockExtent {
        BlockExtent { disk: DISK, block, len }
    }

    /// After any sequence of holds and releases, the allocator equals one that is built from the
    /// list of what is held.
    #[test]
    fn the_allocator_equals_one_built_from_scratch() {
        for seed in 0..20 {
            let mut rng = SplitMix64::new(seed);
            let mut space = BlockAllocator::new(DISK, 5..205, 100);
            let mut held = Vec::new();
            for _ in 0..1_000 {
                if rng.below(2) == 0 || held.is_empty() {
                    let block = 5 + rng.below(200);
                    let place = place(block, 1 + rng.below(205 - block));
                    space.hold(place);
                    held.push(place);
                } else {
                    let len = u32::try_from(held.len()).expect("few");
                    let place = held.swap_remove(rng.below(len) as usize);
                    space.release(place);
                }
                assert_eq!(space, BlockAllocator::build(DISK, 5..205, 100, &held), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_zone_is_kept_and_any_fills_the_slow_one_first() {
        let mut space = BlockAllocator::new(DISK, 0..100, 50);
        assert_eq!(space.find(Zone::Any, 10, None), Ok(vec![place(50, 10)]));
        assert_eq!(space.find(Zone::Fast, 51, None), Err(TooFew { left: 50 }));
        space.hold(place(10, 30));
        assert_eq!(space.find(Zone::Fast, 15, None), Ok(vec![place(0, 10), place(40, 5)]));
        assert_eq!(space.find(Zone::Fast, 5, Some(42)), Ok(vec![place(42, 5)]));
        assert_eq!(space.find(Zone::Any, 60, None), Ok(vec![place(50, 50), place(0, 10)]));
    }
}
