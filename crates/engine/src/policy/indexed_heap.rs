//! Volumes in the order of a key: a heap that knows the position of each volume.
//!
//! A key changes in O(log n), the first is found in O(1). Ties are broken by the volume's number,
//! so the order never depends on history.

use core::cmp::Ordering;
use core::hint::select_unpredictable;

use crate::VolumeId;

const ABSENT: u32 = u32::MAX;

/// The children of a node: half the depth of a binary heap, and the keys of siblings are adjacent.
const BRANCHES: usize = 4;

/// The volumes that have a key, smallest key first.
#[derive(Debug)]
pub(crate) struct IndexedHeap<K> {
    /// The heap's keys, and the volumes beside them: only ties need the volume.
    keys: Vec<K>,
    volumes: Vec<VolumeId>,
    positions: Vec<u32>,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    pub(crate) fn new() -> Self {
        Self { keys: Vec::new(), volumes: Vec::new(), positions: Vec::new() }
    }

    /// The volume with the smallest key.
    pub(crate) fn first(&self) -> Option<(K, VolumeId)> {
        debug_assert_eq!(self.keys.len(), self.volumes.len(), "as many keys as volumes");
        Some((*self.keys.first()?, *self.volumes.first()?))
    }

    /// Up to `count` of the volumes, the smallest key among them; the others have small keys.
    pub(crate) fn early(&self, count: usize) -> impl Iterator<Item = (K, VolumeId)> + '_ {
        debug_assert!(count > 0, "the first is early");
        self.keys.iter().copied().zip(self.volumes.iter().copied()).take(count)
    }

    pub(crate) fn contains(&self, volume: VolumeId) -> bool {
        self.position(volume).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        debug_assert!(self.keys.len() <= self.positions.len(), "a volume has a position");
        self.keys.len()
    }

    /// Sets the key of `volume`.
    pub(crate) fn set(&mut self, volume: VolumeId, key: K) {
        let Some(position) = self.position(volume) else { return self.push(volume, key) };
        match key.cmp(&self.keys[position]) {
            Ordering::Less => self.sift_up(position, key, volume),
            Ordering::Equal => {}
            Ordering::Greater => self.sift_down(position, key, volume),
        }
        let position = self.position(volume);
        debug_assert!(position.is_some_and(|at| self.keys[at] == key), "the key is the volume's");
        debug_assert!(position.is_some_and(|at| self.follows_parent(at)), "the heap is in order");
    }

    /// Removes `volume`, if it has a key.
    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let Some(position) = self.position(volume) else { return };
        self.positions[volume.0 as usize] = ABSENT;
        let key = self.keys.pop().expect("it holds the volume");
        let last = self.volumes.pop().expect("as many as keys");
        assert_eq!(self.keys.len(), self.volumes.len(), "as many keys as volumes");
        if last == volume {
            return;
        }
        if (key, last) < (self.keys[position], volume) {
            self.sift_up(position, key, last);
        } else {
            self.sift_down(position, key, last);
        }
        debug_assert!(!self.contains(volume), "a removed volume has no key");
        debug_assert!(self.follows_parent(position), "the heap is in order");
    }

    /// Changes every key by a function that keeps their order.
    pub(crate) fn rescale(&mut self, change: impl Fn(K) -> K) {
        for key in &mut self.keys {
            *key = change(*key);
        }
        // Keys that became equal are ordered by volume from now on.
        for position in (0..self.keys.len().div_ceil(BRANCHES)).rev() {
            self.sift_down(position, self.keys[position], self.volumes[position]);
        }
        let mut positions = 0..self.keys.len();
        debug_assert!(positions.all(|at| self.follows_parent(at)), "the heap is in order");
    }

    /// Whether the volume at `position` goes no earlier than its parent.
    fn follows_parent(&self, position: usize) -> bool {
        debug_assert!(position < self.keys.len(), "a position is in the heap");
        let entry = |position: usize| (self.keys[position], self.volumes[position]);
        position == 0 || entry((position - 1) / BRANCHES) < entry(position)
    }

    fn position(&self, volume: VolumeId) -> Option<usize> {
        let position = *self.positions.get(volume.0 as usize)?;
        let at = |position: u32| self.volumes[position as usize];
        debug_assert!(position == ABSENT || at(position) == volume, "positions are the heap's");
        (position != ABSENT).then_some(position as usize)
    }

    fn push(&mut self, volume: VolumeId, key: K) {
        debug_assert!(!self.contains(volume), "a volume is entered once");
        let index = volume.0 as usize;
        if self.positions.len() <= index {
            self.positions.resize(index + 1, ABSENT);
        }
        self.keys.push(key);
        self.volumes.push(volume);
        self.sift_up(self.keys.len() - 1, key, volume);
        debug_assert_eq!(self.keys.len(), self.volumes.len(), "as many keys as volumes");
    }

    fn sift_up(&mut self, mut position: usize, key: K, volume: VolumeId) {
        while position > 0 {
            let parent = (position - 1) / BRANCHES;
            if (self.keys[parent], self.volumes[parent]) <= (key, volume) {
                break;
            }
            self.put(position, self.keys[parent], self.volumes[parent]);
            position = parent;
        }
        self.put(position, key, volume);
    }

    fn sift_down(&mut self, mut position: usize, key: K, volume: VolumeId) {
        while let Some(child) = self.first_under(position) {
            if (key, volume) <= (self.keys[child], self.volumes[child]) {
                break;
            }
            self.put(position, self.keys[child], self.volumes[child]);
            position = child;
        }
        self.put(position, key, volume);
    }

    /// The child of `position` that goes first.
    fn first_under(&self, position: usize) -> Option<usize> {
        let begin = position * BRANCHES + 1;
        let count = self.keys.len().saturating_sub(begin).min(BRANCHES);
        if count == BRANCHES {
            let halves = (self.first_of(begin, begin + 1), self.first_of(begin + 2, begin + 3));
            return Some(self.first_of(halves.0, halves.1));
        }
        (begin..begin + count).reduce(|first, position| self.first_of(first, position))
    }

    /// The one of two positions that goes first.
    fn first_of(&self, one: usize, other: usize) -> usize {
        debug_assert_ne!(one, other, "two positions are compared");
        let (key, other_key) = (self.keys[one], self.keys[other]);
        let other_first = if key == other_key {
            self.volumes[other] < self.volumes[one]
        } else {
            other_key < key
        };
        // The branch is not predictable.
        select_unpredictable(other_first, other, one)
    }

    fn put(&mut self, position: usize, key: K, volume: VolumeId) {
        self.keys[position] = key;
        debug_assert!(position < self.volumes.len(), "a position is in the heap");
        self.volumes[position] = volume;
        self.positions[volume.0 as usize] = index(position);
    }
}

fn index(position: usize) -> u32 {
    let index = u32::try_from(position).expect("volumes are numbered with 32 bits");
    debug_assert_ne!(index, ABSENT, "a position is not the mark of an absent volume");
    index
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_always_the_smallest(
            steps in prop::collection::vec((0_u32..40, prop::option::of(0_u64..100)), 1..400),
        ) {
            let (mut order, mut model) = (IndexedHeap::new(), BTreeMap::new());
            for (volume, key) in steps {
                let volume = VolumeId(volume);
                if let Some(key) = key {
                    order.set(volume, key);
                    model.insert(volume, key);
                } else {
                    order.remove(volume);
                    model.remove(&volume);
                }
                let smallest = model.iter().map(|(volume, key)| (*key, *volume)).min();
                prop_assert_eq!(order.first(), smallest);
                prop_assert_eq!(order.len(), model.len());
                prop_assert_eq!(order.contains(volume), model.contains_key(&volume));
            }
            order.rescale(|key| key / 7);
            let smallest = model.iter().map(|(volume, key)| (*key / 7, *volume)).min();
            prop_assert_eq!(order.first(), smallest);
        }
    }
}
