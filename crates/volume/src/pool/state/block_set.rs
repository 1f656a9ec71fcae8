//! Blocks of one disk, as runs that do not touch.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of blocks of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSet {
    /// The first block behind each run, by its first block.
    runs: BTreeMap<u32, u32>,
}

impl BlockSet {
    /// Whether it has no block.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The number of its runs.
    pub fn len(&self) -> usize {
        debug_assert!(self.runs.iter().all(|(start, end)| start < end), "runs have blocks");
        self.runs.len()
    }

    /// The number of its blocks.
    pub fn blocks(&self) -> u64 {
        self.iter().map(|run| u64::from(run.end - run.start)).sum()
    }

    /// Its runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.iter().map(|(start, end)| *start..*end)
    }

    /// Whether it has `block`.
    pub fn contains(&self, block: u32) -> bool {
        self.runs.range(..=block).next_back().is_some_and(|(_, end)| block < *end)
    }

    /// Its first block in `blocks`.
    pub fn first_in(&self, blocks: Range<u32>) -> Option<u32> {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        if blocks.is_empty() {
            return None;
        }
        if self.contains(blocks.start) {
            return Some(blocks.start);
        }
        self.runs.range(blocks).next().map(|(start, _)| *start)
    }

    /// The number of its blocks in `blocks`.
    pub fn blocks_in(&self, blocks: Range<u32>) -> u64 {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let first = self.runs.range(..blocks.start).next_back();
        let runs = first.into_iter().chain(self.runs.range(blocks.clone()));
        let within = |(start, end): (&u32, &u32)| {
            let (start, end) = ((*start).max(blocks.start), (*end).min(blocks.end));
            u64::from(end.saturating_sub(start))
        };
        runs.map(within).sum()
    }

    /// Whether it has all of `blocks`.
    pub fn has_all(&self, blocks: Range<u32>) -> bool {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let run = self.runs.range(..=blocks.start).next_back();
        blocks.is_empty() || run.is_some_and(|(_, end)| blocks.end <= *end)
    }

    /// The first of `blocks` that it lacks.
    pub fn first_lacking(&self, blocks: Range<u32>) -> Option<u32> {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let run = self.runs.range(..=blocks.start).next_back().map(|(_, end)| *end);
        // Runs do not touch: the block behind one is in no other.
        let first = run.map_or(blocks.start, |end| end.max(blocks.start));
        (first < blocks.end).then_some(first)
    }

    /// Adds `blocks`.
    pub(crate) fn insert(&mut self, blocks: Range<u32>) {
        assert!(blocks.start <= blocks.end, "a range of blocks");
        if blocks.is_empty() {
            return;
        }
        let (mut start, mut end) = (blocks.start, blocks.end);
        // The runs that overlap or touch it.
        while let Some((first, last)) =
            self.runs.range(..=end).next_back().map(|(first, last)| (*first, *last))
            && last >= start
        {
            self.runs.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        assert!(start < end, "a run has blocks");
        self.runs.insert(start, end);
        debug_assert!(self.has_all(blocks), "what was added is there");
    }

    /// Removes `blocks`.
    pub(crate) fn remove(&mut self, blocks: Range<u32>) {
        assert!(blocks.start <= blocks.end, "a range of blocks");
        if blocks.is_empty() {
            return;
        }
        while let Some((first, last)) =
            self.runs.range(..blocks.end).next_back().map(|(first, last)| (*first, *last))
            && last > blocks.start
        {
            self.runs.remove(&first);
            if blocks.end < last {
                self.runs.insert(blocks.end, last);
            }
            if first < blocks.start {
                self.runs.insert(first, blocks.start);
            }
        }
        debug_assert!(self.first_in(blocks).is_none(), "what was removed is gone");
    }

    /// Appends a run behind all others; returns whether it lies behind them, apart.
    pub(crate) fn push(&mut self, blocks: Range<u32>) -> bool {
        let last = self.runs.last_key_value().map(|(_, end)| *end);
        if blocks.is_empty() || last.is_some_and(|last| blocks.start <= last) {
            return false;
        }
        let before = self.runs.insert(blocks.start, blocks.end);
        assert!(before.is_none(), "runs are apart");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rng::SplitMix64;

    #[test]
    fn a_set_has_what_a_list_of_flags_has() {
        for seed in 0..50 {
            let mut rng = SplitMix64::new(seed);
            let (mut set, mut flags) = (BlockSet::default(), [false; 100]);
            for _ in 0..300 {
                let start = rng.below(100);
                let blocks = start..start + rng.below(101 - start);
                let (from, to) = (blocks.start as usize, blocks.end as usize);
                if rng.below(2) == 0 {
                    set.insert(blocks.clone());
                    flags[from..to].fill(true);
                } else {
                    set.remove(blocks.clone());
                    flags[from..to].fill(false);
                }
                for (block, flag) in (0..).zip(flags) {
                    assert_eq!(set.contains(block), flag, "seed {seed}, block {block}");
                }
                let start = rng.below(100);
                let blocks = start..start + rng.below(101 - start);
                let (from, to) = (blocks.start as usize, blocks.end as usize);
                let first = (blocks.clone()).find(|block| flags[*block as usize]);
                assert_eq!(set.first_in(blocks.clone()), first, "seed {seed}");
                let lacking = blocks.clone().find(|block| !flags[*block as usize]);
                assert_eq!(set.first_lacking(blocks.clone()), lacking, "seed {seed}");
                let count = flags[from..to].iter().filter(|flag| **flag).count() as u64;
                assert_eq!(set.blocks_in(blocks.clone()), count, "seed {seed}");
                assert_eq!(set.has_all(blocks), flags[from..to].iter().all(|flag| *flag));
                let ends: Vec<_> = set.iter().collect();
                assert!(ends.windows(2).all(|two| two[0].end < two[1].start), "runs are apart");
                assert_eq!(set.blocks(), flags.iter().map(|flag| u64::from(*flag)).sum::<u64>());
            }
        }
    }
}
