//! Volumes in the order of a key: a binary heap that knows where each volume stands in it.
//!
//! A key changes in O(log n), the first is had in O(1). Equal keys are told apart by the volume's number, so
//! the order never depends on history.

use crate::VolumeId;

const ABSENT: u32 = u32::MAX;

/// The volumes that have a key, smallest key first.
#[derive(Debug)]
pub(crate) struct Order<K> {
    heap: Vec<(K, VolumeId)>,
    places: Vec<u32>,
}

impl<K: Ord + Copy> Order<K> {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), places: Vec::new() }
    }

    /// The volume with the smallest key.
    pub(crate) fn first(&self) -> Option<(K, VolumeId)> {
        self.heap.first().copied()
    }

    pub(crate) fn contains(&self, volume: VolumeId) -> bool {
        self.place(volume).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Gives `volume` a key, its first or another.
    pub(crate) fn set(&mut self, volume: VolumeId, key: K) {
        let place = if let Some(place) = self.place(volume) {
            self.heap[place].0 = key;
            place
        } else {
            let index = volume.0 as usize;
            if self.places.len() <= index {
                self.places.resize(index + 1, ABSENT);
            }
            self.heap.push((key, volume));
            self.heap.len() - 1
        };
        self.settle(place);
    }

    /// Takes `volume`'s key away, if it has one.
    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let Some(place) = self.place(volume) else { return };
        self.places[volume.0 as usize] = ABSENT;
        let last = self.heap.pop().expect("it holds the volume");
        if last.1 != volume {
            self.heap[place] = last;
            self.settle(place);
        }
    }

    /// Changes every key by a function that keeps their order.
    pub(crate) fn rescale(&mut self, change: impl Fn(K) -> K) {
        for entry in &mut self.heap {
            entry.0 = change(entry.0);
        }
        // Keys that became equal are ordered by volume from now on.
        for place in (0..self.heap.len() / 2).rev() {
            self.sift_down(place);
        }
        for (place, (_, volume)) in self.heap.iter().enumerate() {
            self.places[volume.0 as usize] = index(place);
        }
    }

    fn place(&self, volume: VolumeId) -> Option<usize> {
        let place = *self.places.get(volume.0 as usize)?;
        (place != ABSENT).then_some(place as usize)
    }

    fn settle(&mut self, place: usize) {
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    fn sift_up(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (K, VolumeId)) {
        self.heap[place] = entry;
        self.places[entry.1.0 as usize] = index(place);
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
            let (mut order, mut model) = (Order::new(), BTreeMap::new());
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
