//! Requests under way: a name says where its request is kept, and each name is used once.

use engine::RequestId;

const PLACE_BITS: u32 = 32;

/// Requests by their names.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    /// How many have been kept here before: a name of one of them is not taken for this one's.
    before: u32,
    what: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Keeps `what`, and names it.
    pub(crate) fn enter(&mut self, what: T) -> RequestId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { before: 0, what: None });
            u32::try_from(self.entries.len() - 1).expect("requests are bounded by the engines")
        });
        let entry = &mut self.entries[place as usize];
        entry.what = Some(what);
        RequestId(u64::from(entry.before) << PLACE_BITS | u64::from(place))
    }

    /// The one of this name, unless it has been taken.
    pub(crate) fn named(&mut self, name: RequestId) -> Option<&mut T> {
        self.entry(name)?.what.as_mut()
    }

    /// Takes out the one of this name, unless it has been taken.
    pub(crate) fn take(&mut self, name: RequestId) -> Option<T> {
        let entry = self.entry(name)?;
        let what = entry.what.take()?;
        // After 2³² uses of a place its first names come again: their owners are long gone.
        entry.before = entry.before.wrapping_add(1);
        self.free.push(place(name));
        Some(what)
    }

    fn entry(&mut self, name: RequestId) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(place(name) as usize)?;
        (u64::from(entry.before) == name.0 >> PLACE_BITS).then_some(entry)
    }
}

fn place(name: RequestId) -> u32 {
    u32::try_from(name.0 & u64::from(u32::MAX)).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_good_once_though_its_place_is_used_again() {
        let mut slab = Slab::new();
        let (one, two) = (slab.enter("one"), slab.enter("two"));
        assert_eq!(slab.take(one), Some("one"));
        assert_eq!(slab.take(one), None);
        let three = slab.enter("three");
        assert_eq!(slab.named(one), None, "its place is another's now");
        assert_eq!(slab.named(three), Some(&mut "three"));
        assert_eq!(slab.take(two), Some("two"));
        assert_eq!(slab.named(RequestId(9)), None);
    }
}
