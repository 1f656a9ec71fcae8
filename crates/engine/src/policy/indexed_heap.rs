//! Volumes in the order of a key: a heap that knows where each volume stands in it.
//!
//! A key changes in O(log n), the first is had in O(1). Equal keys are told apart by the volume's number, so
//! the order never depends on history.

use core::cmp::Ordering;
use core::hint::select_unpredictable;

use crate::VolumeId;

const ABSENT: u32 = u32::MAX;

/// Each place has so many places under it: twice as flat as with two, and four keys lie beside each other.
const BRANCHES: usize = 4;

/// The volumes that have a key, smallest key first.
#[derive(Debug)]
pub(crate) struct IndexedHeap<K> {
    /// The heap's keys, and beside them whose they are: only equal keys need the volume.
    keys: Vec<K>,
    volumes: Vec<VolumeId>,
    places: Vec<u32>,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    pub(crate) fn new() -> Self {
        Self { keys: Vec::new(), volumes: Vec::new(), places: Vec::new() }
    }

    /// The volume with the smallest key.
    pub(crate) fn first(&self) -> Option<(K, VolumeId)> {
        Some((*self.keys.first()?, *self.volumes.first()?))
    }

    pub(crate) fn contains(&self, volume: VolumeId) -> bool {
        self.place(volume).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Gives `volume` a key, its first or another.
    pub(crate) fn set(&mut self, volume: VolumeId, key: K) {
        let Some(place) = self.place(volume) else { return self.push(volume, key) };
        match key.cmp(&self.keys[place]) {
            Ordering::Less => self.sift_up(place, key, volume),
            Ordering::Equal => {}
            Ordering::Greater => self.sift_down(place, key, volume),
        }
    }

    /// Takes `volume`'s key away, if it has one.
    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let Some(place) = self.place(volume) else { return };
        self.places[volume.0 as usize] = ABSENT;
        let key = self.keys.pop().expect("it holds the volume");
        let last = self.volumes.pop().expect("as many as keys");
        if last == volume {
            return;
        }
        if (key, last) < (self.keys[place], volume) {
            self.sift_up(place, key, last);
        } else {
            self.sift_down(place, key, last);
        }
    }

    /// Changes every key by a function that keeps their order.
    pub(crate) fn rescale(&mut self, change: impl Fn(K) -> K) {
        for key in &mut self.keys {
            *key = change(*key);
        }
        // Keys that became equal are ordered by volume from now on.
        for place in (0..self.keys.len().div_ceil(BRANCHES)).rev() {
            self.sift_down(place, self.keys[place], self.volumes[place]);
        }
    }

    fn place(&self, volume: VolumeId) -> Option<usize> {
        let place = *self.places.get(volume.0 as usize)?;
        (place != ABSENT).then_some(place as usize)
    }

    fn push(&mut self, volume: VolumeId, key: K) {
        let index = volume.0 as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, ABSENT);
        }
        self.keys.push(key);
        self.volumes.push(volume);
        self.sift_up(self.keys.len() - 1, key, volume);
    }

    fn sift_up(&mut self, mut place: usize, key: K, volume: VolumeId) {
        while place > 0 {
            let parent = (place - 1) / BRANCHES;
            if (self.keys[parent], self.volumes[parent]) <= (key, volume) {
                break;
            }
            self.put(place, self.keys[parent], self.volumes[parent]);
            place = parent;
        }
        self.put(place, key, volume);
    }

    fn sift_down(&mut self, mut place: usize, key: K, volume: VolumeId) {
        while let Some(child) = self.first_under(place) {
            if (key, volume) <= (self.keys[child], self.volumes[child]) {
                break;
            }
            self.put(place, self.keys[child], self.volumes[child]);
            place = child;
        }
        self.put(place, key, volume);
    }

    /// Of the places under `place`, the one whose volume goes first.
    fn first_under(&self, place: usize) -> Option<usize> {
        let begin = place * BRANCHES + 1;
        let count = self.keys.len().saturating_sub(begin).min(BRANCHES);
        if count == BRANCHES {
            let halves = (self.first_of(begin, begin + 1), self.first_of(begin + 2, begin + 3));
            return Some(self.first_of(halves.0, halves.1));
        }
        (begin..begin + count).reduce(|first, place| self.first_of(first, place))
    }

    /// Of two places, the one whose volume goes first.
    fn first_of(&self, one: usize, other: usize) -> usize {
        let (key, other_key) = (self.keys[one], self.keys[other]);
        let other_first = if key == other_key {
            self.volumes[other] < self.volumes[one]
        } else {
            other_key < key
        };
        // Which of two it is nobody can guess, the processor neither.
        select_unpredictable(other_first, other, one)
    }

    fn put(&mut self, place: usize, key: K, volume: VolumeId) {
        self.keys[place] = key;
        self.volumes[place] = volume;
        self.places[volume.0 as usize] = index(place);
    }
}

fn index(place: usize) -> u32 {
    u32::try_from(place).expect("volumes are numbered with 32 bits")
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
