//! The extent map of a column: mappings in leaves, and an index of the leaves' first rows.
//!
//! A lookup finds by a row's upper bits the few leaves that can contain it, searches among those,
//! and reads one leaf. Hints and index stay in the processor's caches; the read of a large map's
//! leaf is a cache miss, and few instructions before it let the next lookup's read overlap. Where
//! all rows have the same upper bits it is a binary search. Neighbours that continue each other are
//! always one mapping.

use std::ops::Range;

use crate::location::DiskId;
use crate::pool::names::BlockExtent;

/// The most mappings in a leaf: four cache lines, which are requested at once.
const LEAF_MAX: usize = 16;

/// The largest ratio of hints to leaves, and of leaves to hints, before the hints are rebuilt.
const HINTS_MAX: usize = 4;

/// Pads a leaf behind its last mapping; no volume has this row.
const NONE: Mapping =
    Mapping { row: u32::MAX, place: BlockExtent { disk: DiskId(0), block: 0, len: 0 } };

/// Up to [`LEAF_MAX`] mappings.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf {
    runs: [Mapping; LEAF_MAX],
}

impl Leaf {
    fn of(run: Mapping) -> Self {
        assert!(run.row != NONE.row, "a row of a volume");
        let mut runs = [NONE; LEAF_MAX];
        runs[0] = run;
        Self { runs }
    }

    fn len(&self) -> usize {
        self.runs.partition_point(|run| run.row != NONE.row)
    }

    fn iter(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.runs[..self.len()].iter().copied()
    }

    /// The number that begin at or before `row`.
    #[inline]
    fn before(&self, row: u32) -> usize {
        self.runs.iter().map(|run| usize::from(run.row <= row)).sum()
    }

    fn insert(&mut self, at: usize, run: Mapping) {
        assert!(self.runs[LEAF_MAX - 1].row == NONE.row, "the leaf has space");
        assert!(at == 0 || self.runs[at - 1].end() <= run.row, "behind the one before");
        self.runs.copy_within(at..LEAF_MAX - 1, at + 1);
        self.runs[at] = run;
    }

    fn remove(&mut self, at: usize) -> Mapping {
        assert!(self.runs[at].row != NONE.row, "there is a mapping");
        let run = self.runs[at];
        self.runs.copy_within(at + 1.., at);
        self.runs[LEAF_MAX - 1] = NONE;
        run
    }

    /// Splits off its second half; the leaf is full.
    fn split(&mut self) -> Self {
        assert_eq!(self.len(), LEAF_MAX, "a full leaf is split");
        let mut runs = [NONE; LEAF_MAX];
        runs[..LEAF_MAX / 2].copy_from_slice(&self.runs[LEAF_MAX / 2..]);
        self.runs[LEAF_MAX / 2..].fill(NONE);
        Self { runs }
    }
}

/// Consecutive rows that are mapped to consecutive blocks of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first row.
    pub row: u32,
    /// The blocks of all its rows.
    pub place: BlockExtent,
}

impl Mapping {
    /// The first row behind it.
    pub const fn end(self) -> u32 {
        self.row + self.place.len
    }

    /// The part within `rows`, which overlaps it.
    fn cut(self, start: u32, end: u32) -> Self {
        assert!(self.row < end, "it begins before the end");
        assert!(start < self.end(), "it ends behind the start");
        let (row, end) = (self.row.max(start), self.end().min(end));
        let block = self.place.block + (row - self.row);
        Self { row, place: BlockExtent { disk: self.place.disk, block, len: end - row } }
    }

    fn continues(self, before: Self) -> bool {
        debug_assert!(before.row <= self.row, "the one before comes first");
        before.end() == self.row
            && before.place.disk == self.place.disk
            && before.place.end() == self.place.block
    }
}

/// A leaf, by its first row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u32,
    leaf: u32,
}

/// Where in the index the leaves begin whose first row has given upper bits.
#[derive(Clone, Debug, Default)]
struct Hints {
    /// The number of lower bits that are ignored.
    shift: u32,
    /// For each value of the upper bits: the number of leaves that begin before it.
    before: Vec<u32>,
}

impl Hints {
    /// Built for this index, with about one value a leaf.
    fn new(index: &[Entry]) -> Self {
        debug_assert!(index.is_sorted_by_key(|entry| entry.first), "leaves are in order");
        let last = index.last().map_or(0, |entry| entry.first);
        let wide = u32::try_from(index.len()).expect("fewer leaves than extents").max(1);
        let shift = (last / wide).checked_ilog2().map_or(0, |bits| (bits + 1).min(31));
        let mut hints = Self { shift, before: vec![0] };
        for (at, entry) in (0..).zip(index) {
            hints.push(entry.first, at);
        }
        hints
    }

    /// Appends a leaf behind `count` others.
    fn push(&mut self, first: u32, count: u32) {
        let value = (first >> self.shift) as usize;
        if self.before.len() < value + 2 {
            self.before.resize(value + 2, count);
        }
        self.before[value + 1] = count + 1;
    }

    /// Adds or removes a leaf that begins at `first`.
    fn change(&mut self, first: u32, there: bool) {
        let value = (first >> self.shift) as usize;
        assert!(value + 1 < self.before.len(), "the hints cover the row");
        for count in &mut self.before[value + 1..] {
            *count = if there { *count + 1 } else { *count - 1 };
        }
    }

    /// The range of the index in which the search for a row's leaf ends.
    #[inline]
    fn range(&self, row: u32) -> Range<usize> {
        let value = (row >> self.shift) as usize;
        if let Some([start, end, ..]) = self.before.get(value..) {
            return *start as usize..*end as usize;
        }
        let all = self.before.last().copied().unwrap_or_default() as usize;
        debug_assert!(value + 1 >= self.before.len(), "behind all hints");
        all..all
    }
}

/// Mappings by their first row; none overlaps another.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    /// The leaves in their order.
    index: Vec<Entry>,
    hints: Hints,
    leaves: Vec<Leaf>,
    /// Unused leaves.
    unused: Vec<u32>,
    runs: usize,
    rows: u64,
}

impl PartialEq for ExtentMap {
    fn eq(&self, other: &Self) -> bool {
        self.runs == other.runs && self.iter().eq(other.iter())
    }
}

impl Eq for ExtentMap {}

impl ExtentMap {
    /// The number of mappings.
    pub fn len(&self) -> usize {
        self.runs
    }

    /// Whether no row is mapped.
    pub fn is_empty(&self) -> bool {
        self.runs == 0
    }

    /// The number of mapped rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// All mappings, in the order of their rows.
    pub fn iter(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.index.iter().flat_map(|entry| self.leaves[entry.leaf as usize].iter())
    }

    /// The mapping that contains `row`. Takes O(log n).
    #[inline]
    pub fn get(&self, row: u32) -> Option<Mapping> {
        let leaf = &self.leaves[self.index[self.upto(row).checked_sub(1)?].leaf as usize];
        let run = leaf.runs[leaf.before(row).checked_sub(1)?];
        (row < run.end()).then_some(run)
    }

    /// The block of `row`.
    #[inline]
    pub(crate) fn block(&self, row: u32) -> Option<BlockExtent> {
        let run = self.get(row)?;
        let place = run.place;
        Some(BlockExtent { disk: place.disk, block: place.block + (row - run.row), len: 1 })
    }

    /// The number of leaves that begin at or before `row`.
    #[inline]
    fn upto(&self, row: u32) -> usize {
        let range = self.hints.range(row);
        range.start + self.index[range].partition_point(|entry| entry.first <= row)
    }

    /// The leaf at an index.
    fn leaf(&mut self, at: usize) -> &mut Leaf {
        &mut self.leaves[self.index[at].leaf as usize]
    }

    /// The first mapping that ends behind `row`.
    pub fn next(&self, row: u32) -> Option<Mapping> {
        let (leaf, at) = self.position(row)?;
        Some(self.leaves[self.index[leaf].leaf as usize].runs[at])
    }

    /// The parts of mappings within `len` rows from `row` on.
    pub fn within(&self, row: u32, len: u32) -> impl Iterator<Item = Mapping> + '_ {
        let end = row.saturating_add(len);
        let mut at = row;
        std::iter::from_fn(move || {
            let run = self.next(at).filter(|run| at < end && run.row < end)?;
            at = run.end();
            Some(run.cut(row, end))
        })
    }

    /// Appends a mapping behind all others; returns whether it lies behind them.
    pub(crate) fn push(&mut self, run: Mapping) -> bool {
        if let Some(last) = self.index.len().checked_sub(1) {
            let leaf = self.leaf(last);
            let len = leaf.len();
            let before = leaf.runs[len - 1];
            if run.row < before.end() {
                return false;
            }
            if run.continues(before) {
                leaf.runs[len - 1].place.len += run.place.len;
                self.rows += u64::from(run.place.len);
                return true;
            }
            if len < LEAF_MAX {
                leaf.insert(len, run);
            } else {
                self.enter(last + 1, Leaf::of(run));
            }
        } else {
            self.enter(0, Leaf::of(run));
        }
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        true
    }

    /// Unmaps `len` rows from `row` on, and returns their mappings.
    pub(crate) fn remove(&mut self, row: u32, len: u32) -> Vec<Mapping> {
        let end = row.saturating_add(len);
        let rows = self.rows;
        let mut removed = Vec::new();
        while let Some((leaf, at)) = self.position(row) {
            let run = self.leaf(leaf).runs[at];
            if run.row >= end {
                break;
            }
            self.take(leaf, at);
            removed.push(run.cut(row, end));
            if run.row < row {
                self.put(run.cut(run.row, row));
            }
            if run.end() > end {
                self.put(run.cut(end, run.end()));
            }
        }
        let count: u64 = removed.iter().map(|run: &Mapping| u64::from(run.place.len)).sum();
        assert_eq!(self.rows + count, rows, "the rows are counted");
        debug_assert!(self.within(row, len).next().is_none(), "no row is left");
        self.check_small();
        removed
    }

    /// Checks the invariants of a small map after each change, in debug builds.
    fn check_small(&self) {
        if cfg!(debug_assertions) && self.index.len() <= 8 {
            self.invariants();
        }
    }

    /// Checks leaves, index and counts against each other.
    ///
    /// # Panics
    /// If they differ.
    pub(crate) fn invariants(&self) {
        assert_eq!(self.index.len() + self.unused.len(), self.leaves.len(), "each leaf is listed");
        for entry in &self.index {
            let leaf = &self.leaves[entry.leaf as usize];
            assert!(leaf.len() > 0, "no leaf is empty");
            assert_eq!(leaf.runs[0].row, entry.first, "the index has its first row");
        }
        let mut last: Option<Mapping> = None;
        let (mut runs, mut rows) = (0, 0);
        for run in self.iter() {
            assert!(run.place.len > 0, "a mapping has rows");
            assert!(last.is_none_or(|last| last.end() <= run.row), "mappings are in order");
            last = Some(run);
            (runs, rows) = (runs + 1, rows + u64::from(run.place.len));
        }
        assert_eq!(runs, self.runs, "the mappings are counted");
        assert_eq!(rows, self.rows, "the rows are counted");
    }

    /// Maps rows that are unmapped.
    pub(crate) fn insert(&mut self, mut run: Mapping) {
        assert!(run.place.len > 0, "a mapping has rows");
        assert!(self.next(run.row).is_none_or(|next| run.end() <= next.row), "rows are unmapped");
        let rows = self.rows + u64::from(run.place.len);
        if let Some(before) = run.row.checked_sub(1).and_then(|row| self.get(row))
            && run.continues(before)
        {
            self.take_row(before.row);
            run = Mapping {
                row: before.row,
                place: BlockExtent { len: before.place.len + run.place.len, ..before.place },
            };
        }
        if let Some(after) = self.get(run.end())
            && after.continues(run)
        {
            self.take_row(after.row);
            run.place.len += after.place.len;
        }
        self.put(run);
        assert_eq!(self.rows, rows, "the rows are counted");
        debug_assert!(self.get(run.row) == Some(run), "what is mapped is found");
        self.check_small();
    }

    /// The leaf, and the index in it, of the first mapping that ends behind `row`.
    fn position(&self, row: u32) -> Option<(usize, usize)> {
        let leaf = self.upto(row).saturating_sub(1);
        let runs = &self.leaves[self.index.get(leaf)?.leaf as usize];
        // The last that begins at or before `row`, unless it ends there.
        let at = runs.before(row);
        if at > 0 && runs.runs[at - 1].end() > row {
            return Some((leaf, at - 1));
        }
        if at < runs.len() {
            return Some((leaf, at));
        }
        (leaf + 1 < self.index.len()).then_some((leaf + 1, 0))
    }

    fn take_row(&mut self, row: u32) {
        assert!(self.get(row).is_some_and(|run| run.row == row), "a mapping begins there");
        let (leaf, at) = self.position(row).expect("it is there");
        let runs = self.runs;
        self.take(leaf, at);
        assert_eq!(self.runs + 1, runs, "one mapping is taken");
    }

    fn take(&mut self, at: usize, run: usize) {
        let leaf = self.leaf(at);
        let run = leaf.remove(run);
        let (len, first) = (leaf.len(), leaf.runs[0].row);
        self.runs -= 1;
        self.rows -= u64::from(run.place.len);
        if len == 0 {
            let Entry { first, leaf } = self.index.remove(at);
            self.unused.push(leaf);
            self.hints.change(first, false);
        } else {
            self.begin(at, first);
        }
    }

    /// Changes the first row of a leaf.
    fn begin(&mut self, at: usize, first: u32) {
        assert!(at == 0 || self.index[at - 1].first < first, "leaves are in order");
        assert!(
            self.index.get(at + 1).is_none_or(|next| first < next.first),
            "leaves are in order"
        );
        let before = std::mem::replace(&mut self.index[at].first, first);
        if before >> self.hints.shift != first >> self.hints.shift {
            self.hints.change(before, false);
            self.count(first);
        }
    }

    /// Inserts a leaf at an index.
    fn enter(&mut self, at: usize, leaf: Leaf) {
        let first = leaf.runs[0].row;
        let number = if let Some(number) = self.unused.pop() {
            self.leaves[number as usize] = leaf;
            number
        } else {
            self.leaves.push(leaf);
            u32::try_from(self.leaves.len() - 1).expect("fewer leaves than extents")
        };
        assert!(at == 0 || self.index[at - 1].first < first, "leaves are in order");
        assert!(self.index.get(at).is_none_or(|next| first < next.first), "leaves are in order");
        self.index.insert(at, Entry { first, leaf: number });
        self.count(first);
    }

    /// Counts a leaf that begins at `first` and is in the index already.
    fn count(&mut self, first: u32) {
        let leaves = self.index.len();
        let values = (first >> self.hints.shift) as usize;
        if values > HINTS_MAX * leaves || leaves > HINTS_MAX * self.hints.before.len() {
            self.hints = Hints::new(&self.index);
        } else if values + 1 >= self.hints.before.len() {
            let count = u32::try_from(leaves - 1).expect("fewer leaves than extents");
            self.hints.push(first, count);
        } else {
            self.hints.change(first, true);
        }
    }

    /// Inserts a mapping, without merging it with its neighbours.
    fn put(&mut self, run: Mapping) {
        assert!(run.place.len > 0, "a mapping has rows");
        assert!(run.row.checked_add(run.place.len).is_some(), "rows of a column");
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        if self.index.is_empty() {
            return self.enter(0, Leaf::of(run));
        }
        let mut leaf = self.upto(run.row).saturating_sub(1);
        if self.leaf(leaf).len() == LEAF_MAX {
            // Sequential inserts leave full leaves behind.
            if leaf + 1 == self.index.len() && self.leaf(leaf).runs[LEAF_MAX - 1].row < run.row {
                return self.enter(leaf + 1, Leaf::of(run));
            }
            let second = self.leaf(leaf).split();
            self.enter(leaf + 1, second);
            leaf += usize::from(self.index[leaf + 1].first <= run.row);
        }
        let runs = self.leaf(leaf);
        let at = runs.before(run.row);
        assert!(at == runs.len() || run.end() <= runs.runs[at].row, "rows lie once");
        runs.insert(at, run);
        let first = runs.runs[0].row;
        self.begin(leaf, first);
    }
}

/// A run of `len` rows from `row` on, at `block` of `disk`.
#[cfg(test)]
pub(crate) fn run(row: u32, len: u32, disk: u32, block: u32) -> Mapping {
    Mapping { row, place: BlockExtent { disk: DiskId(disk), block, len } }
}

impl Mapping {
    /// Its disk.
    pub const fn disk(self) -> DiskId {
        self.place.disk
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use rng::SplitMix64;

    /// Against a map of single rows: every row is mapped to the same block, after any inserts and
    /// removals.
    #[test]
    fn it_says_of_every_row_what_a_plain_map_says() {
        for seed in 0..20 {
            // Rows close together, and all over the largest volume.
            let apart = if seed % 2 == 0 { 1 } else { 1 << 19 };
            let mut rng = SplitMix64::new(seed);
            let mut map = ExtentMap::default();
            let mut plain: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for _ in 0..2_000 {
                let (row, len) = (rng.below(3_000) * apart, 1 + rng.below(8));
                let removed = map.remove(row, len);
                for run in removed {
                    for n in 0..run.place.len {
                        let was = plain.remove(&(run.row + n)).expect("it lay somewhere");
                        assert_eq!(was, (run.disk().0, run.place.block + n), "seed {seed}");
                    }
                }
                assert!(plain.range(row..row + len).next().is_none(), "seed {seed}");
                if rng.below(4) > 0 {
                    let (disk, block) = (rng.below(2), row + rng.below(2) * 10_000);
                    map.insert(run(row, len, disk, block));
                    plain.extend((0..len).map(|n| (row + n, (disk, block + n))));
                }
            }
            assert_eq!(map.rows(), plain.len() as u64);
            for row in (0..3_010).flat_map(|row| [row * apart, row * apart + 1]) {
                let place = map.get(row).map(|run| (run.disk().0, run.place.block + row - run.row));
                assert_eq!(place, plain.get(&row).copied(), "seed {seed}, row {row}");
            }
            let runs: Vec<_> = map.iter().collect();
            assert_eq!(runs.len(), map.len());
            let neighbours = runs.windows(2);
            assert!(neighbours.clone().all(|two| two[0].end() <= two[1].row), "seed {seed}");
            assert!(neighbours.clone().all(|two| !two[1].continues(two[0])), "seed {seed}");
        }
    }

    #[test]
    fn a_row_between_two_extents_lies_nowhere() {
        let mut map = ExtentMap::default();
        map.insert(run(0, 2, 0, 10));
        map.insert(run(4, 2, 0, 20));
        assert_eq!(map.get(2), None);
        assert_eq!(map.next(2), Some(run(4, 2, 0, 20)));
        assert_eq!(map.within(1, 4).collect::<Vec<_>>(), [run(1, 1, 0, 11), run(4, 1, 0, 20)]);
    }
}
