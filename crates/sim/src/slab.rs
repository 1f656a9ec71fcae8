//! A slab of requests in flight. A request's id holds its slot and the slot's generation, so each
//! id is used once.

use engine::RequestId;

const SLOT_BITS: u32 = 32;

/// Requests by their ids.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    /// The number of earlier requests in this slot: their ids do not match this one.
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Stores a request and returns its id.
    pub(crate) fn insert(&mut self, value: T) -> RequestId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            u32::try_from(self.entries.len() - 1).expect("requests are bounded by the engines")
        });
        let entry = &mut self.entries[slot as usize];
        entry.value = Some(value);
        RequestId(u64::from(entry.generation) << SLOT_BITS | u64::from(slot))
    }

    /// The request with this id, unless it was removed.
    pub(crate) fn get(&self, id: RequestId) -> Option<&T> {
        let entry = self.entries.get(slot(id) as usize)?;
        let is_same = u64::from(entry.generation) == id.0 >> SLOT_BITS;
        entry.value.as_ref().filter(|_| is_same)
    }

    /// The request with this id, unless it was removed.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        self.entry(id)?.value.as_mut()
    }

    /// Removes the request with this id, unless it was removed before.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<T> {
        let entry = self.entry(id)?;
        let value = entry.value.take()?;
        // The first ids of a slot come again after 2³² uses; their requests ended long before.
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot(id));
        Some(value)
    }

    fn entry(&mut self, id: RequestId) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(slot(id) as usize)?;
        (u64::from(entry.generation) == id.0 >> SLOT_BITS).then_some(entry)
    }
}

fn slot(id: RequestId) -> u32 {
    u32::try_from(id.0 & u64::from(u32::MAX)).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_valid_once_though_its_slot_is_reused() {
        let mut slab = Slab::new();
        let (one, two) = (slab.insert("one"), slab.insert("two"));
        assert_eq!(slab.remove(one), Some("one"));
        assert_eq!(slab.remove(one), None);
        let three = slab.insert("three");
        assert_eq!(slab.get_mut(one), None, "its slot holds another request now");
        assert_eq!(slab.get_mut(three), Some(&mut "three"));
        assert_eq!(slab.remove(two), Some("two"));
        assert_eq!(slab.get_mut(RequestId(9)), None);
    }
}
