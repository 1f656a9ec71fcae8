//! Where the rows of a column lie: extents, in a tree of two levels.
//!
//! A lookup is two binary searches, the first over the leaves' first rows, which stay in the processor's caches, the second
//! within one leaf. Neighbours that continue each other are always one extent.

use super::names::Place;
use crate::DiskId;

/// Extents in a leaf, at most: four cache lines, which are asked for at once instead of one after the other.
const LEAF_MAX: usize = 16;

/// What stands behind the last extent of a leaf; no volume has so many rows.
const NONE: Run = Run { row: u32::MAX, place: Place { disk: DiskId(0), block: 0, len: 0 } };

/// Up to [`LEAF_MAX`] extents.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf {
    runs: [Run; LEAF_MAX],
}

impl Leaf {
    fn of(run: Run) -> Box<Self> {
        let mut runs = [NONE; LEAF_MAX];
        runs[0] = run;
        Box::new(Self { runs })
    }

    fn len(&self) -> usize {
        self.runs.partition_point(|run| run.row != NONE.row)
    }

    fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs[..self.len()].iter().copied()
    }

    /// How many begin at or before `row`.
    #[inline]
    fn before(&self, row: u32) -> usize {
        self.runs.iter().map(|run| usize::from(run.row <= row)).sum()
    }

    fn insert(&mut self, at: usize, run: Run) {
        self.runs.copy_within(at..LEAF_MAX - 1, at + 1);
        self.runs[at] = run;
    }

    fn remove(&mut self, at: usize) -> Run {
        let run = self.runs[at];
        self.runs.copy_within(at + 1.., at);
        self.runs[LEAF_MAX - 1] = NONE;
        run
    }

    /// Its second half; it is to be full.
    fn split(&mut self) -> Box<Self> {
        let mut runs = [NONE; LEAF_MAX];
        runs[..LEAF_MAX / 2].copy_from_slice(&self.runs[LEAF_MAX / 2..]);
        self.runs[LEAF_MAX / 2..].fill(NONE);
        Box::new(Self { runs })
    }
}

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
    #[expect(clippy::vec_box, reason = "one more among a million moves addresses, not leaves")]
    leaves: Vec<Box<Leaf>>,
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
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// The extent that holds `row`. Takes O(log n).
    #[inline]
    pub fn get(&self, row: u32) -> Option<Run> {
        let leaf = self.firsts.partition_point(|first| *first <= row).checked_sub(1)?;
        let leaf = &self.leaves[leaf];
        let run = leaf.runs[leaf.before(row).checked_sub(1)?];
        (row < run.end()).then_some(run)
    }

    /// The first extent that ends behind `row`.
    pub fn next(&self, row: u32) -> Option<Run> {
        let (leaf, at) = self.position(row)?;
        Some(self.leaves[leaf].runs[at])
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
        if let Some(leaf) = self.leaves.last_mut() {
            let at = leaf.len() - 1;
            let last = leaf.runs[at];
            if run.row < last.end() {
                return false;
            }
            if run.continues(last) {
                leaf.runs[at].place.len += run.place.len;
                self.rows += u64::from(run.place.len);
                return true;
            }
        }
        if let Some(leaf) = self.leaves.last_mut().filter(|leaf| leaf.len() < LEAF_MAX) {
            leaf.insert(leaf.len(), run);
        } else {
            self.firsts.push(run.row);
            self.leaves.push(Leaf::of(run));
        }
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        true
    }

    /// Takes `len` rows from `row` on out of the map, and returns where they lay.
    pub(super) fn remove(&mut self, row: u32, len: u32) -> Vec<Run> {
        let end = row.saturating_add(len);
        let mut removed = Vec::new();
        while let Some((leaf, at)) = self.position(row) {
            let run = self.leaves[leaf].runs[at];
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
        let runs = self.leaves.get(leaf)?;
        // The last that begins at or before `row`, if it does not end there.
        let at = runs.before(row);
        if at > 0 && runs.runs[at - 1].end() > row {
            return Some((leaf, at - 1));
        }
        if at < runs.len() {
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
        if self.leaves[leaf].len() > 0 {
            self.firsts[leaf] = self.leaves[leaf].runs[0].row;
        } else {
            self.leaves.remove(leaf);
            self.firsts.remove(leaf);
        }
    }

    /// Puts an extent where none is, without looking at its neighbours.
    fn put(&mut self, run: Run) {
        self.runs += 1;
        self.rows += u64::from(run.place.len);
        if self.leaves.is_empty() {
            self.firsts.push(run.row);
            self.leaves.push(Leaf::of(run));
            return;
        }
        let mut leaf = self.firsts.partition_point(|first| *first <= run.row).saturating_sub(1);
        if self.leaves[leaf].len() == LEAF_MAX {
            let second = self.leaves[leaf].split();
            self.firsts.insert(leaf + 1, second.runs[0].row);
            self.leaves.insert(leaf + 1, second);
            leaf += usize::from(self.firsts[leaf + 1] <= run.row);
        }
        let runs = &mut self.leaves[leaf];
        let at = runs.before(run.row);
        assert!(at == runs.len() || run.end() <= runs.runs[at].row, "rows lie once");
        runs.insert(at, run);
        self.firsts[leaf] = runs.runs[0].row;
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
