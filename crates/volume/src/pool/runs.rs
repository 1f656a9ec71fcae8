//! Where the rows of a column lie: extents, in a tree of two levels.
//!
//! A lookup is two binary searches, the first over the leaves' first rows, which stay in the processor's caches, the second
//! within one leaf. Neighbours that continue each other are always one extent.

use super::names::Place;
use crate::DiskId;

/// Extents in a leaf, at most: a lookup touches a handful of cache lines of it, and an insertion moves 2 KiB.
const LEAF_MAX: usize = 128;

/// A run of rows that lie on consecutive blocks of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first row.
    pub row: u32,
    /// Where it and the others lie.
    pub place: Place,
}

impl Run {
    /// The first row behind it.
    pub const fn end(self) -> u32 {
        self.row + self.place.len
    }

    /// The part of it within `rows`, which is to overlap it.
    fn cut(self, start: u32, end: u32) -> Self {
        let (row, end) = (self.row.max(start), self.end().min(end));
        let block = self.place.block + (row - self.row);
        Self { row, place: Place { disk: self.place.disk, block, len: end - row } }
    }

    fn continues(self, before: Self) -> bool {
        before.end() == self.row
            && before.place.disk == self.place.disk
            && before.place.end() == self.place.block
    }
}

/// Extents by their first row; none overlaps another.
#[derive(Clone, Debug, Default)]
pub struct RunMap {
    /// The first row of each leaf.
    firsts: Vec<u32>,
    leaves: Vec<Vec<Run>>,
    runs: usize,
    rows: u64,
}

impl PartialEq for RunMap {
    fn eq(&self, other: &Self) -> bool {
        self.runs == other.runs && self.iter().eq(other.iter())
    }
}

impl Eq for RunMap {}

impl RunMap {
    /// How many extents there are.
    pub fn len(&self) -> usize {
        self.runs
    }

    /// Whether no row lies anywhere.
    pub fn is_empty(&self) -> bool {
        self.runs == 0
    }

    /// How many rows lie somewhere.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// All extents, in the order of their rows.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.leaves.iter().flatten().copied()
    }

    /// The extent that holds `row`. Takes O(log n).
    #[inline]
    pub fn get(&self, row: u32) -> Option<Run> {
        let leaf = self.firsts.partition_point(|first| *first <= row).checked_sub(1)?;
        let leaf = &self.leaves[leaf];
        let at = leaf.partition_point(|run| run.row <= row).checked_sub(1)?;
        let run = leaf[at];
        (row < run.end()).then_some(run)
    }

    /// The first extent that ends behind `row`.
    pub fn next(&self, row: u32) -> Option<Run> {
        let (leaf, at) = self.position(row)?;
        Some(self.leaves[leaf][at])
    }

    /// The parts of extents within `len` rows from `row` on.
    pub fn within(&self, row: u32, len: u32) -> impl Iterator<Item = Run> + '_ {
        let end = row.saturating_add(len);
        let mut at = row;
        std::iter::from_fn(move || {
            let run = self.next(at).filter(|run| at < end && run.row < end)?;
            at = run.end();
            Some(run.cut(row, end))
        })
    }

    /// Appends an extent behind all others; says whether it does lie behind them.
    pub(super) fn push(&mut self, run: Run) -> bool {
        let last = self.leaves.last_mut().and_then(|leaf| leaf.last_mut());
        if let Some(last) = last {
            if run.row < last.end() {
                return false;
            }
            if run.continues(*last) {
                last.place.len += run.place.len;
                self.rows += u64::from(run.place.len);
                return true;
            }
        }
        if self.leaves.last().is_none_or(|leaf| leaf.len() == LEAF_MAX) {
            self.firsts.push(run.row);
            self.leaves.push(Vec::with_capacity(LEAF_MAX));
        }
        self.leaves.last_mut().expect("there is one").push(run);
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        true
    }

    /// Takes `len` rows from `row` on out of the map, and returns where they lay.
    pub(super) fn remove(&mut self, row: u32, len: u32) -> Vec<Run> {
        let end = row.saturating_add(len);
        let mut removed = Vec::new();
        while let Some((leaf, at)) = self.position(row) {
            let run = self.leaves[leaf][at];
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
        removed
    }

    /// Lays rows somewhere that lay nowhere.
    pub(super) fn insert(&mut self, mut run: Run) {
        if let Some(before) = run.row.checked_sub(1).and_then(|row| self.get(row))
            && run.continues(before)
        {
            self.take_row(before.row);
            run = Run {
                row: before.row,
                place: Place { len: before.place.len + run.place.len, ..before.place },
            };
        }
        if let Some(after) = self.get(run.end())
            && after.continues(run)
        {
            self.take_row(after.row);
            run.place.len += after.place.len;
        }
        self.put(run);
    }

    /// Which leaf, and where in it, the first extent is that ends behind `row`.
    fn position(&self, row: u32) -> Option<(usize, usize)> {
        let leaf = self.firsts.partition_point(|first| *first <= row).saturating_sub(1);
        let at = self.leaves.get(leaf)?.partition_point(|run| run.end() <= row);
        if at < self.leaves[leaf].len() {
            return Some((leaf, at));
        }
        (leaf + 1 < self.leaves.len()).then_some((leaf + 1, 0))
    }

    fn take_row(&mut self, row: u32) {
        let (leaf, at) = self.position(row).expect("it is there");
        self.take(leaf, at);
    }

    fn take(&mut self, leaf: usize, at: usize) {
        let run = self.leaves[leaf].remove(at);
        self.runs -= 1;
        self.rows -= u64::from(run.place.len);
        match self.leaves[leaf].first() {
            Some(first) => self.firsts[leaf] = first.row,
            None => {
                self.leaves.remove(leaf);
                self.firsts.remove(leaf);
            }
        }
    }

    /// Puts an extent where none is, without looking at its neighbours.
    fn put(&mut self, run: Run) {
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        if self.leaves.is_empty() {
            self.firsts.push(run.row);
            self.leaves.push(vec![run]);
            return;
        }
        let leaf = self.firsts.partition_point(|first| *first <= run.row).saturating_sub(1);
        let runs = &mut self.leaves[leaf];
        let at = runs.partition_point(|other| other.row < run.row);
        debug_assert!(runs.get(at).is_none_or(|after| run.end() <= after.row), "rows lie once");
        runs.insert(at, run);
        self.firsts[leaf] = runs[0].row;
        if runs.len() > LEAF_MAX {
            let half = runs.split_off(LEAF_MAX / 2);
            self.firsts.insert(leaf + 1, half[0].row);
            self.leaves.insert(leaf + 1, half);
        }
    }
}

/// A run of `len` rows from `row` on, at `block` of `disk`.
#[cfg(test)]
pub(super) fn run(row: u32, len: u32, disk: u32, block: u32) -> Run {
    Run { row, place: Place { disk: DiskId(disk), block, len } }
}

impl Run {
    /// Its disk.
    pub const fn disk(self) -> DiskId {
        self.place.disk
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::pool::dice::Dice;

    /// Against a map of single rows: the same rows lie at the same places, whatever was inserted and removed.
    #[test]
    fn it_says_of_every_row_what_a_plain_map_says() {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let mut map = RunMap::default();
            let mut plain: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for _ in 0..2_000 {
                let (row, len) = (dice.below(3_000), 1 + dice.below(8));
                let removed = map.remove(row, len);
                for run in removed {
                    for n in 0..run.place.len {
                        let was = plain.remove(&(run.row + n)).expect("it lay somewhere");
                        assert_eq!(was, (run.disk().0, run.place.block + n), "seed {seed}");
                    }
                }
                assert!(plain.range(row..row + len).next().is_none(), "seed {seed}");
                if dice.below(4) > 0 {
                    let (disk, block) = (dice.below(2), row + dice.below(2) * 10_000);
                    map.insert(run(row, len, disk, block));
                    plain.extend((0..len).map(|n| (row + n, (disk, block + n))));
                }
            }
            assert_eq!(map.rows(), plain.len() as u64);
            for row in 0..3_010 {
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
        let mut map = RunMap::default();
        map.insert(run(0, 2, 0, 10));
        map.insert(run(4, 2, 0, 20));
        assert_eq!(map.get(2), None);
        assert_eq!(map.next(2), Some(run(4, 2, 0, 20)));
        assert_eq!(map.within(1, 4).collect::<Vec<_>>(), [run(1, 1, 0, 11), run(4, 1, 0, 20)]);
    }
}
