//! Numbered slots: each request that is in progress has a slot, and its number names the request to
//! an engine or a pool. A freed slot is used again.
//!
//! Invariant: a slot is either filled or in the free list, never both.

/// Values by slot number.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u64>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

/// The index of a slot, which only [`Slots::insert`] hands out.
pub(crate) fn index(slot: u64) -> usize {
    usize::try_from(slot).expect("slot numbers are indices of a vector")
}

impl<T> Slots<T> {
    /// Fills a free slot, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u64 - 1
        });
        let previous = self.entries[index(slot)].replace(value);
        assert!(previous.is_none(), "slot {slot} is in the free list and filled");
        slot
    }

    /// The value in a filled slot, to read.
    ///
    /// # Panics
    /// If the slot is empty: its request is answered already.
    pub(crate) fn get(&self, slot: u64) -> &T {
        self.entries[index(slot)].as_ref().expect("the slot of a request in progress is filled")
    }

    /// The value in a filled slot.
    ///
    /// # Panics
    /// If the slot is empty: its request is answered already.
    pub(crate) fn get_mut(&mut self, slot: u64) -> &mut T {
        self.entries[index(slot)].as_mut().expect("the slot of a request in progress is filled")
    }

    /// Empties a filled slot.
    ///
    /// # Panics
    /// If the slot is empty: a request is answered exactly once.
    pub(crate) fn remove(&mut self, slot: u64) -> T {
        let value = self.entries[index(slot)].take().expect("a request is answered exactly once");
        self.free.push(slot);
        debug_assert!(self.free.len() <= self.entries.len(), "a slot is in the free list twice");
        value
    }

    /// The number of filled slots.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_is_used_again_and_others_keep_their_numbers() {
        let mut slots = Slots::default();
        let [first, second] = ["a", "b"].map(|value| slots.insert(value));
        assert_eq!(slots.remove(first), "a");
        assert_eq!((slots.insert("c"), slots.len()), (first, 2));
        assert_eq!((*slots.get_mut(second), *slots.get_mut(first)), ("b", "c"));
    }
}
